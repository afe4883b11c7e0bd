"""What a policy is, found out by trying it on random numbers.

An artefact does not say whether all heads keep as many rows, whether all layers do, or whether a
head's rows depend on other heads. Numbers tell: heads are made as different as heads of a model are. What slips
through is caught where rows are packed (`Eviction`), which checks every count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..policy import Param, Policy, load
from .counts import Counts

_TOKENS = 200
_BUDGETS = (40, 64, 150)
_HEADS = 4
_LAYERS = 3


@dataclass(frozen=True)
class Findings:
    counts: str | None
    """How rows are kept where they follow neither from the budget nor from the lengths: text for
    an error."""
    keeps_all: bool
    by_head: bool
    """Not every head of every layer keeps what the budget says."""
    by_layer: bool
    """Nor does every layer: `counts` says what it keeps."""
    mixes_heads: bool
    """A head's rows depend on the other heads."""


@cache
def findings(path: Path, head_dim: int, dtype: str, text: str, params: tuple[tuple[str, Param], ...] = ()) -> Findings:
    """Of a compiled policy and what it was made of, whatever the number of the model's heads.
    Once per library: layers of a model are alike."""
    policy = load(path)
    data = _Data(policy, head_dim, dtype)
    wrong, everything, by_head, by_layer, mixes = None, True, False, False, _shares(policy)
    for budget in _BUDGETS:
        kept = data.kept(slice(None), budget)
        counts = [[len(head) for head in layer] for layer in kept]
        every = {count for layer in counts for count in layer}
        everything = everything and every == {_TOKENS}
        by_head = by_head or every != {budget}
        sums = tuple(map(sum, counts))
        by_layer = by_layer or any(rows != _HEADS * budget for rows in sums)
        if by_layer and wrong is None and sums != data.counts(text, params).totals(_TOKENS, budget):
            wrong = f"{counts} of {_TOKENS} tokens in the heads of {_LAYERS} layers at a budget of {budget}"
        for head in range(_HEADS):
            alone = data.kept(slice(head, head + 1), budget)
            mixes = mixes or [layer[0] for layer in alone] != [layer[head] for layer in kept]
    some = not everything
    return Findings(wrong if some else None, everything, by_head and some, by_layer and some, mixes)


def _shares(policy: Policy) -> bool:
    """A kernel without an extent of heads sees all of them."""
    kernels = policy.manifest.json["variants"][0]["kernels"]
    grids = [" ".join(map(str, kernel["grid"])) for kernel in kernels]
    return any("kv_heads" not in grid and "q_heads" not in grid for grid in grids)


class _Data:
    """A model of random numbers."""

    def __init__(self, policy: Policy, head_dim: int, dtype: str) -> None:
        self._policy = policy
        self._variant = next(v for v in policy.manifest.variants if (v.head_dim, v.dtype) == (head_dim, dtype))
        random = np.random.default_rng(1)
        group = self._variant.group

        def rows(heads: int) -> Any:
            # Each head louder than the one before: their scores are spread differently.
            loud = np.linspace(0.3, 4, heads, dtype=np.float32)[:, None, None]
            return loud * random.standard_normal((_LAYERS, 1, heads, _TOKENS, head_dim), np.float32)

        self._q, self._k, self._v = rows(_HEADS * group), rows(_HEADS), rows(_HEADS)
        self._table = None
        if "table" in policy.manifest.reads:
            self._table = random.random((_LAYERS, _HEADS * group), np.float32)
        self._wo = random.standard_normal((_LAYERS, 8, _HEADS * group, head_dim), np.float32)

    def kept(self, heads: slice, budget: int) -> list[list[list[int]]]:
        """Kept tokens, [layer][head], of a model that has these KV heads only."""
        group = self._variant.group
        first, last, _ = heads.indices(_HEADS)
        q_heads = slice(first * group, last * group)
        plan = self._policy.plan(
            kv_heads=last - first,
            max_tokens=_TOKENS,
            head_dim=self._variant.head_dim,
            dtype=self._variant.dtype,
            q_heads=(last - first) * group,
        )
        state, layers = plan.state(), []
        for layer in range(_LAYERS):
            wo = self._wo[layer, :, q_heads].reshape(8, -1)
            numbers = (self._q[layer][:, q_heads], self._k[layer][:, heads], self._v[layer][:, heads], wo)
            q, k, v, wo = map(self._typed, numbers)
            table = None if self._table is None else np.ascontiguousarray(self._table[:, q_heads])
            kept = plan.select(q, k, v, budget=budget, layer=layer, layers=_LAYERS, wo=wo, state=state, table=table)
            layers.append([kept[0, head].indices.tolist() for head in range(last - first)])
        return layers

    def counts(self, text: str, params: tuple[tuple[str, Param], ...]) -> Counts:
        table = None if self._table is None else tuple(map(tuple, self._table.tolist()))
        return Counts(text, params, _HEADS, self._variant.group, _LAYERS, table)

    def _typed(self, numbers: Any) -> Any:
        numbers = np.ascontiguousarray(numbers)
        if self._variant.dtype == "bf16":
            # NumPy has no such type: the upper half of a float's bits.
            return (numbers.view(np.uint32) >> 16).astype(np.uint16)
        return numbers.astype({"f32": np.float32, "f16": np.float16}[self._variant.dtype])
