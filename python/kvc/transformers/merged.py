"""Rows that stand for several tokens each: what a merging policy has kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..kept import Kept, Members
from ..view import CacheView
from . import packed
from .rope import Rotation


class Merged:
    """Of a layer. Keys are before RoPE, and attention rotates them once for every member. New
    tokens lie elsewhere (`Ragged`), with the keys that the model has made: to turn these back
    would round them once more."""

    def __init__(self, kept: Sequence[Kept], positions: Sequence[torch.Tensor], rotation: Rotation) -> None:
        """positions: of each sequence, [tokens], where the model has its tokens."""
        k, v = packed.rows(kept)
        self._rotation = rotation
        self._k, self._v = k, v
        self._tokens = packed.tokens(kept)
        self._counts = packed.counts(kept)
        self._offsets = packed.starts(self._counts)
        found = [one.members for one in kept if one.members is not None]
        batch, heads = self._counts.shape
        entries = torch.cat([one.counts for one in found])
        # Tables as long as the longest list.
        lists: list[list[int]] = entries.tolist()
        self._most = [max(lists[b]) for b in range(batch)]
        shape = batch, heads, max(self._most)
        rows, at = (torch.zeros(shape, dtype=torch.int32, device=k.device) for _ in range(2))
        norms = torch.zeros(shape, dtype=torch.float32, device=k.device)
        for b, (one, where) in enumerate(zip(found, positions, strict=True)):
            for h, many in enumerate(lists[b]):
                rows[b, h, :many] = one.rows[0, h, :many]
                at[b, h, :many] = where[one.positions[0, h, :many].long()].int()
                norms[b, h, :many] = one.norms[0, h, :many]
        self._members = Members(entries, rows, at, norms)
        self._positions = int(at.max()) + 1
        self._views: dict[int | None, CacheView] = {}

    def most(self, sequence: int | None = None) -> int:
        """Members that no head has more of: what `kvc.attend` takes as `max_rows`."""
        return max(1, *self._most[packed.of(sequence)])

    def view(self, sequence: int | None = None) -> CacheView:
        """What kvc reads, of one sequence, or of all; for one query."""
        if sequence not in self._views:
            some, table = packed.of(sequence), self._members
            counts = self._counts[some]
            k, v = (memory.expand(*counts.shape, -1, -1) for memory in (self._k, self._v))
            self._views[sequence] = CacheView.ragged(
                k,
                v,
                offsets=self._offsets[some],
                counts=counts,
                # What is asked at the last position sees all.
                lengths=torch.full(counts.shape[:1], self._positions, dtype=torch.int32, device=counts.device),
                members=Members(*(part[some] for part in (table.counts, table.rows, table.positions, table.norms))),
            )
        return self._views[sequence]

    def __getstate__(self) -> dict[str, Any]:
        """A copy makes views of its own tensors."""
        return {**vars(self), "_views": {}}

    def angles(self) -> torch.Tensor:
        """What `kvc.attend` takes as `rope`."""
        return self._rotation.table(self._positions, self._k.device)

    def kept(self) -> list[list[torch.Tensor]]:
        """[sequence][KV head], the tokens whose rows stay."""
        return packed.by_head(self._tokens, self._counts)

    def heads(self) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
        """[sequence][KV head], keys and values as attention sees them: a row for each member."""
        keys, values = (packed.by_head(memory, self._counts) for memory in (self._k, self._v))
        table = self._members
        return [
            [
                self._members_of(k, v, *(part[b, h, :many] for part in (table.rows, table.positions, table.norms)))
                for h, (k, v, many) in enumerate(zip(keys[b], values[b], table.counts[b].tolist(), strict=True))
            ]
            for b in range(len(keys))
        ]

    def _members_of(
        self, k: torch.Tensor, v: torch.Tensor, rows: torch.Tensor, positions: torch.Tensor, norms: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # Wide, as kvc.attend has them: nothing is rounded in between.
        return self._rotation.rotate(k[rows].float() * norms[:, None], positions), v[rows]

    def bytes(self) -> int:
        table = self._members
        return packed.held(
            *(self._k, self._v, self._tokens, self._counts, self._offsets),
            *(table.counts, table.rows, table.positions, table.norms),
        )
