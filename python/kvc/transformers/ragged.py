"""Rows whose number is each head's own, in one memory that grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..attention import append
from ..view import CacheView
from .packed import by_head, held, of, places, starts

_LEAST_ROOM = 16
"""Tokens that find room where a memory was made anew."""


class Ragged:
    """Of a layer, as `kvc.append` and `kvc.attend` take it: all heads of all sequences behind each
    other, each with free rows behind it.

        [ sequence 0, head 0 | free ][ sequence 0, head 1 | free ][ sequence 1, head 0 | free ] ...

    Free rows are an eighth of what heads have, so that memory is copied seldom.
    """

    def __init__(
        self, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor, counts: torch.Tensor, lengths: Sequence[int]
    ) -> None:
        """k, v: [rows, d], nothing free; positions: [rows] i32, ascending in each head; counts:
        [batch, kv_heads] i32; lengths: tokens that each sequence had."""
        self._k, self._v, self._positions = k, v, positions
        self._kept, self._counts = counts, counts.clone()
        self._offsets = starts(counts)
        self._lengths = torch.tensor(lengths, dtype=torch.int32, device=k.device)
        self._free = [0] * len(counts)
        """Of each sequence, rows behind each of its heads."""
        self._most: list[int] = counts.amax(dim=1).tolist()
        """Of each sequence, rows of the head that has most: known without waiting for a GPU."""
        self._views: dict[int | None, CacheView] = {}

    @classmethod
    def empty(cls, like: torch.Tensor, lengths: Sequence[int]) -> Ragged:
        """No rows yet; of the heads and type of `like`, [batch, kv_heads, any, d]."""
        rows = like.new_empty(0, like.shape[3])
        counts = torch.zeros(like.shape[:2], dtype=torch.int32, device=like.device)
        return cls(rows, rows.clone(), counts.new_empty(0), counts, lengths)

    def append(self, k: torch.Tensor, v: torch.Tensor, sequence: int | None = None) -> None:
        """k, v: [batch, kv_heads, tokens, d], rotated; of one sequence, or of all."""
        new, some = k.shape[2], of(sequence)
        if new > min(self._free[some]):
            self._grow(new)
        append(self.view(sequence), k.detach(), v.detach())
        self._free[some] = [free - new for free in self._free[some]]
        self._most[some] = [most + new for most in self._most[some]]

    def most(self, sequence: int | None = None) -> int:
        """Rows that no head has more of: what `kvc.attend` takes as `max_rows`."""
        return max(1, *self._most[of(sequence)])

    def view(self, sequence: int | None = None) -> CacheView:
        """What kvc reads and writes, of one sequence, or of all; until the next `append`."""
        if sequence not in self._views:
            some = of(sequence)
            counts = self._counts[some]
            # One memory for all sequences and heads: strides of 0.
            k, v = (memory.expand(*counts.shape, -1, -1) for memory in (self._k, self._v))
            self._views[sequence] = CacheView.ragged(
                k,
                v,
                offsets=self._offsets[some],
                counts=counts,
                lengths=self._lengths[some],
                positions=self._positions.expand(*counts.shape, -1),
                positions_by_slot=True,
            )
        return self._views[sequence]

    def __getstate__(self) -> dict[str, Any]:
        """A copy makes views of its own tensors."""
        return {**vars(self), "_views": {}}

    def heads(self) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
        """[sequence][KV head], copies of keys and values."""
        at = places(self._offsets, self._counts)
        k, v = (by_head(memory[at], self._counts) for memory in (self._k, self._v))
        return [list(zip(*one, strict=True)) for one in zip(k, v, strict=True)]

    def kept(self) -> list[list[torch.Tensor]]:
        """[sequence][KV head], copies of the positions that were there at first."""
        return by_head(self._positions[places(self._offsets, self._kept)], self._kept)

    def bytes(self) -> int:
        return held(self._k, self._v, self._positions, self._kept, self._counts, self._offsets, self._lengths)

    def _grow(self, new: int) -> None:
        rows, heads = int(self._counts.sum()), self._counts.numel()
        room = new + max(_LEAST_ROOM, rows // heads // 8)
        offsets = starts(self._counts + room)
        source, target = places(self._offsets, self._counts), places(offsets, self._counts)
        slots = rows + heads * room

        def moved(memory: torch.Tensor) -> torch.Tensor:
            wider = memory.new_empty(slots, *memory.shape[1:])
            wider[target] = memory[source]
            return wider

        # One after the other, so that only one of them is there twice.
        self._k = moved(self._k)
        self._v = moved(self._v)
        self._positions = moved(self._positions)
        self._offsets, self._free = offsets, [room] * len(self._counts)
        for view in self._views.values():
            # Counts have waited for a GPU already: what it found wrong is said here.
            view.check()
        self._views.clear()
