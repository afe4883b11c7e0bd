"""Rotary positions, by the model's own module."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch

from ..errors import UnsupportedError
from .packed import held


class Rotation:
    """Rotates keys and back. 16-bit keys are rotated in f32 and rounded once."""

    def __init__(self, model: Any) -> None:
        self._model = type(model).__name__
        self._rotary: Any = getattr(model.get_decoder(), "rotary_emb", None)
        self._tables: dict[torch.device, torch.Tensor] = {}

    def __deepcopy__(self, memo: object) -> Rotation:
        """The module is the model's, and tables are replaced, never written to."""
        made = copy.copy(self)
        made._tables = dict(self._tables)
        return made

    def rotate(self, k: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """k [..., rows, d] before RoPE, and the position of each row, on k's device."""
        cos, sin = self._angles(k, positions)
        return (k.float() * cos + half(k.float()) * sin).to(k.dtype)

    def unrotate(self, k: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """What `rotate` makes k of."""
        cos, sin = self._angles(k, positions)
        # Some models scale cos and sin, here a second time.
        scale = (cos * cos + sin * sin)[:, :1]
        return ((k.float() * cos - half(k.float()) * sin) / scale).to(k.dtype)

    def table(self, positions: int, device: torch.device) -> torch.Tensor:
        """[positions or more, d / 2, 2] f32, cosine and sine of every angle: what `kvc.attend` rotates by.
        All layers of a device have the same."""
        made = self._tables.get(device)
        if made is None or len(made) < positions:
            cos, sin = self._cos_and_sin(torch.arange(positions, device=device))
            # The halves of a row are the same angles.
            made = torch.stack([cos, sin], dim=-1)[:, : cos.shape[1] // 2].float().contiguous()
            self._tables[device] = made
        return made

    def bytes(self) -> int:
        """Of the tables that were made."""
        return held(*self._tables.values())

    def _angles(self, k: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = self._cos_and_sin(positions)
        if cos.shape[-1] != k.shape[-1]:
            raise UnsupportedError(f"keys must be rotated whole, got {cos.shape[-1]} of {k.shape[-1]} channels")
        return cos, sin

    def _cos_and_sin(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self._rotary is None:
            raise UnsupportedError(f"keys before RoPE need the model's rotary_emb, got {self._model} without one")
        # Hybrid models have an angle for each kind of layer.
        by_layer = "layer_type" in inspect.signature(self._rotary.forward).parameters
        more = {"layer_type": "full_attention"} if by_layer else {}
        # It computes where its first argument is; a hook of accelerate may have moved that to where the module is.
        cos, sin = self._rotary(torch.empty(0, device=positions.device), positions[None], **more)
        return cos[0].to(positions.device), sin[0].to(positions.device)


def half(x: torch.Tensor) -> torch.Tensor:
    """Channels as RoPE pairs them: the first half with the second, turned by 90 degrees."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)
