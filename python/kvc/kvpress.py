"""Policies as presses of NVIDIA's kvpress: its pipeline, its evaluation, its other presses.

    from kvc.kvpress import KvcPress
    press = KvcPress("snapkv", compression_ratio=0.8)
    with press(model):
        model(input_ids, past_key_values=cache)

A press sees a layer's cache once, behind the prompt, and hands back smaller tensors. Where a
policy keeps different numbers of rows in the heads of a layer (Ada-KV), no tensor has that
shape: kvpress then masks the dropped keys while it decodes and holds all of them. Answers are
the policy's, the memory is not; `press.masks` says so. `kvc.transformers` frees the memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from kvpress import BasePress
from kvpress.utils import compute_n_kept, get_prerope_query_states

from .errors import ArgumentError, UnsupportedError
from .plan import Plan
from .policy import Param, Policy
from .transformers.model import compile_for, inputs_of
from .transformers.rope import Rotation, half


@dataclass
class KvcPress(BasePress):  # type: ignore[misc]
    """policy: as for `kvc.compile`, or a compiled policy that merges no rows.
    compression_ratio: the share of rows that go, 0 to below 1, as kvpress counts them: a
        prompt of T tokens has the budget max(1, int(T * (1 - compression_ratio))).
    table: [layers, q_heads] f32, for policies that read the importance of heads.
    params, cache_dir: as for `kvc.compile`.

    The model is f32, f16 or bf16, all on the CPU or all on one CUDA GPU, which a compiled policy must have PTX for.
    """

    policy: Policy | str | os.PathLike[str]
    compression_ratio: float = 0.0
    table: torch.Tensor | None = None
    params: Mapping[str, Param] | None = None
    cache_dir: str | os.PathLike[str] | None = None

    masks = False
    """Of the last prompt: some layer's heads kept different numbers of rows, so that its cache
    still has all rows."""

    def __post_init__(self) -> None:
        if not 0 <= self.compression_ratio < 1:
            raise ArgumentError(f"compression_ratio must be from 0 to below 1, got {self.compression_ratio}")

    def post_init_from_model(self, model: Any) -> None:
        self._policy, self._shape = compile_for(model, self.policy, self.params, self.cache_dir)
        if self._policy.manifest.merges:
            raise UnsupportedError(
                f"the policy of a press must only drop rows, got {self._policy.name!r}, which merges them"
            )
        self._rotation = Rotation(model)
        # The layers that kvpress compresses; a budget is shared among them.
        self._layers = [
            layer.self_attn.layer_idx
            for layer in model.get_decoder().layers
            if not getattr(layer.self_attn, "is_sliding", False)
        ]

    @torch.no_grad()
    def compress(
        self,
        module: Any,
        hidden_states: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        attentions: torch.Tensor | None,
        kwargs: dict[str, Any],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What kvpress calls behind a layer: the rows that stay, [batch, kv_heads, rows, d]."""
        batch, _, tokens, width = keys.shape
        order = self._layers.index(module.layer_idx)
        if order == 0:
            self._begin(batch, tokens, keys.device)
        budget = compute_n_kept(tokens, self.compression_ratio)
        if budget == tokens:
            return keys, values
        kept = self._plan.select(
            self._queries(module, hidden_states, kwargs),
            keys,
            values,
            budget=budget,
            layer=order,
            layers=len(self._layers),
            scale=module.scaling,
            **inputs_of(
                self._policy,
                module,
                keys,
                torch.arange(tokens, device=keys.device),
                self._rotation,
                self.table,
                lambda: self._state,
            ),
        )
        counts, indices = torch.as_tensor(kept.counts), torch.as_tensor(kept.indices).long()
        rows = int(counts.max())
        if int(counts.min()) == rows:
            chosen = indices[:, :, :rows, None].expand(-1, -1, -1, width)
            return keys.gather(2, chosen), values.gather(2, chosen)
        if module.config._attn_implementation == "eager":
            raise UnsupportedError(
                f"policy {self._policy.name!r} keeps {counts.tolist()} rows in the heads of a layer, which kvpress "
                "masks in every attention function but 'eager'; call model.set_attn_implementation('sdpa')"
            )
        self.masks = True
        # Behind a head's rows the list is not for reading.
        listed = torch.arange(indices.shape[2], device=keys.device) < counts[:, :, None]
        dropped = torch.ones(keys.shape[:3], dtype=torch.bool, device=keys.device)
        dropped[(*torch.where(listed)[:2], indices[listed])] = False
        module.masked_key_indices = torch.where(dropped)
        return keys, values

    def _begin(self, batch: int, tokens: int, device: torch.device) -> None:
        """The first layer of a prompt. A plan refuses layers that are elsewhere."""
        self._plan: Plan = self._policy.plan(
            max_batch=batch, max_tokens=tokens, device=str(device), **self._shape._asdict()
        )
        self._state = torch.zeros(batch, tokens, dtype=torch.int32, device=device)
        self.masks = False

    def _queries(self, module: Any, hidden_states: torch.Tensor, kwargs: dict[str, Any]) -> torch.Tensor | None:
        """kvpress has hidden states: the policy's last queries are projected from them again."""
        wanted = self._policy.manifest.queries
        if wanted == 0:
            return None
        last = slice(None) if wanted == "all" else slice(-wanted, None)
        q: torch.Tensor = get_prerope_query_states(module, hidden_states[:, last])
        cos, sin = (angles[:, last, None].transpose(1, 2) for angles in kwargs["position_embeddings"])
        rotated: torch.Tensor = q * cos + half(q) * sin
        return rotated.contiguous()
