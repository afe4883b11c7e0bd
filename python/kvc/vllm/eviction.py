"""A policy at work in a group of layers."""

from __future__ import annotations

from typing import Any

import torch
from vllm.model_executor.models.utils import extract_layer_index

from ..errors import InternalError
from ..kept import Kept
from ..plan import Plan
from .blocks import KvcSpec
from .model import compile_for


class Eviction:
    """What layers that evict share."""

    def __init__(self, spec: KvcSpec, layer_names: list[str], group: int) -> None:
        self.options = spec.options
        self.policy = compile_for(
            spec.options,
            head_dim=spec.head_size,
            group=group,
            dtype=spec.dtype,
        )
        self._kv_heads = spec.num_kv_heads
        names = sorted(layer_names, key=extract_layer_index)
        self._orders = {name: order for order, name in enumerate(names)}
        self._plans: dict[int, Plan] = {}
        table = spec.options.table
        self._table = None if table is None else torch.tensor(table, dtype=torch.float32)
        counts = spec.options.counts
        if counts is not None and counts.layers != len(names):
            raise InternalError(f"a budget must be shared among {counts.layers} layers, got {len(names)} in a group")

    @property
    def queries(self) -> Any:
        """How many of a prompt's last queries the policy reads, or "all"."""
        return self.policy.manifest.queries if "q" in self.policy.manifest.reads else 0

    def state(self, tokens: int) -> torch.Tensor | None:
        """Of one prompt: the same for all layers, in order."""
        return torch.zeros(1, tokens, dtype=torch.int32) if "state" in self.policy.manifest.reads else None

    def kept(self, layer: Any, q: torch.Tensor | None, k: torch.Tensor, v: torch.Tensor, state: Any) -> Kept:
        """What a prompt keeps in a layer; where it is `by_head`, packed.

        q: [queries, q_heads, d], the last ones; k, v: [tokens, kv_heads, d].
        """
        tokens, reads = len(k), self.policy.manifest.reads
        plan = self._plan(tokens)
        kept = (plan.evict if self.options.by_head else plan.select)(
            None if q is None else q.transpose(0, 1)[None],
            k.transpose(0, 1)[None],
            v.transpose(0, 1)[None],
            budget=self.options.tokens(tokens),
            layer=self._orders[layer.layer_name],
            layers=len(self._orders),
            scale=layer.impl.scale,
            wo=layer.impl.output.weight() if "wo" in reads else None,
            table=self._table,
            state=state,
        )
        counts, rows = kept.counts[0].tolist(), self.options.rows(tokens)
        most = rows * self._kv_heads
        if self.options.counts is not None:
            good, what = sum(counts) <= most, f"at most {most} rows in the heads"
        elif self.options.by_head:
            good, what = sum(counts) == most, f"{most} rows in the heads"
        else:
            good, what = counts == [rows] * self._kv_heads, f"{rows} rows in every head"
        if not good:
            raise InternalError(f"policy {self.policy.name!r} must keep {what} of {layer.layer_name}, got {counts}")
        return kept

    def _plan(self, tokens: int) -> Plan:
        """Fits prompts of up to the next power of two: a plan holds no memory."""
        most = 1 << (tokens - 1).bit_length()
        if most not in self._plans:
            self._plans[most] = self.policy.plan(kv_heads=self._kv_heads, max_tokens=most)
        return self._plans[most]
