"""The cache that a user makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from ..budget import Budget
from ..errors import ArgumentError, UnsupportedError
from ..policy import Param, Policy
from .attention import NAME
from .layer import KvcLayer
from .model import compile_for
from .packed import held
from .rope import Rotation
from .shared import Shared


class KvcCache(Cache):
    """A cache that a policy evicts from, for one batch of prompts.

    model: f32, f16 or bf16 on the CPU or a CUDA GPU, its attention set to "kvc". Its layers may be on
        several devices: all that is held of a layer is where its keys are.
    policy: as for `kvc.compile`, and PTX is made for the model's GPUs; or a compiled policy, which must
        have PTX for them.
    budget: tokens of a KV head, or a share of the prompt (see `kvc.Budget`).
    table: [layers, q_heads] f32, for policies that read the importance of heads.
    params, cache_dir: as for `kvc.compile`; not with a compiled policy.

    `copy.deepcopy` gives another that goes on from the same tokens.

    Layers with sliding windows keep the library's own cache, and do not count as layers that
    share a budget.
    """

    def __init__(
        self,
        model: Any,
        policy: Policy | str | os.PathLike[str],
        budget: Budget,
        *,
        table: torch.Tensor | None = None,
        params: Mapping[str, Param] | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        if not hasattr(getattr(model, "config", None), "get_text_config"):
            raise ArgumentError(f"model must be one of transformers, got {type(model).__name__}")
        config = model.config.get_text_config(decoder=True)
        if config._attn_implementation != NAME:
            raise ArgumentError(
                f"the model's attention must be {NAME!r}, got {config._attn_implementation!r}; "
                f"call model.set_attn_implementation({NAME!r})"
            )
        policy, shape = compile_for(model, policy, params, cache_dir)
        layers: list[Any] = DynamicCache(config=config).layers
        evicting = [number for number, layer in enumerate(layers) if type(layer) is DynamicLayer]
        if not evicting:
            raise UnsupportedError("the model must have layers with full attention, got none")
        self._rotation = Rotation(model)
        shared = Shared(policy, budget, table, shape, self._rotation, model.device)
        for order, number in enumerate(evicting):
            layers[number] = KvcLayer(shared, order, len(evicting))
        super().__init__(layers=layers)
        self.policy = policy

    def finish(self) -> None:
        """Says that the prompt is complete: every layer evicts now."""
        for layer in self.layers:
            if isinstance(layer, KvcLayer):
                layer.evict()

    def kept(self, layer: int) -> list[list[torch.Tensor]]:
        """Kept tokens of the prompt, [sequence][KV head], from 0 where a sequence begins behind
        its padding; on the layer's device. Of a merging policy: the tokens whose rows stay."""
        chosen = self.layers[layer] if -len(self.layers) <= layer < len(self.layers) else None
        kept = chosen.kept() if isinstance(chosen, KvcLayer) else None
        if kept is None:
            raise ArgumentError(f"layer must be one that has evicted, got {layer}")
        return kept

    def bytes(self) -> int:
        """Of all that is held: keys, values and positions with room for more, and what merged rows
        stand for."""
        layers: list[Any] = self.layers
        return self._rotation.bytes() + sum(
            layer.bytes() if isinstance(layer, KvcLayer) else held(layer.keys, layer.values) for layer in layers
        )
