"""How many rows layers keep where they do not keep as many: known before a prompt comes.

Policies that share a budget among layers, or by a table of the model, give each layer a number of
rows that follows from lengths, budget and table. vLLM's one table of blocks must hold the layer
that keeps most. How many rows that are the policy itself is asked, with zeros for a prompt: it keeps
as many of them as of any other, and where it does not it is refused (`trial`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..plan import Plan
from ..policy import Param, Policy, compile

Table = tuple[tuple[float, ...], ...]

_HEAD_DIM = 16
"""Counts do not depend on it: a small one is soon read."""


@dataclass(frozen=True)
class Counts:
    """Of a policy in a model."""

    policy: str
    params: tuple[tuple[str, Param], ...]
    kv_heads: int
    group: int
    layers: int
    table: Table | None

    def most_rows(self, tokens: int, budget: int) -> int:
        """Of a head of the layer that keeps most of a prompt, on average, rounded up."""
        return -(-max(self.totals(tokens, budget)) // self.kv_heads)

    def totals(self, tokens: int, budget: int) -> tuple[int, ...]:
        """Rows of each layer, all heads together."""
        return _totals(self, tokens, budget)

    def compiled(self) -> Policy:
        return compile(self.policy, head_dim=_HEAD_DIM, group=self.group, dtype="f32", params=dict(self.params))


@lru_cache(maxsize=1024)
def _totals(counts: Counts, tokens: int, budget: int) -> tuple[int, ...]:
    plan = _plan(counts, 1 << (tokens - 1).bit_length())
    k = np.zeros((1, plan.kv_heads, tokens, _HEAD_DIM), np.float32)
    q = np.zeros((1, plan.q_heads, tokens if plan.queries == "all" else plan.queries, _HEAD_DIM), np.float32)
    wo = np.zeros((1, plan.q_heads * _HEAD_DIM), np.float32)
    table = None if counts.table is None else np.array(counts.table, np.float32)
    state = plan.state()
    found = []
    for layer in range(counts.layers):
        kept = plan.select(q, k, k, budget=budget, layer=layer, layers=counts.layers, wo=wo, table=table, state=state)
        found.append(int(kept.counts.sum()))
    return tuple(found)


@lru_cache(maxsize=64)
def _plan(counts: Counts, tokens: int) -> Plan:
    return counts.compiled().plan(kv_heads=counts.kv_heads, max_tokens=tokens)
