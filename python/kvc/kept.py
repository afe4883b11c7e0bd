"""What a policy has kept of a layer."""

from __future__ import annotations

from dataclasses import dataclass

from ._tensors import Tensor
from .errors import ArgumentError


@dataclass(frozen=True)
class Members:
    """What the rows of a merging policy stand for: a member's key is norm * RoPE(k[row],
    position), its value v[row]. Of `rows`, `positions` and `norms` the first `counts` of each
    head are filled, ascending by position."""

    counts: Tensor
    """[batch, kv_heads]"""
    rows: Tensor
    """[batch, kv_heads, capacity], within the head's rows."""
    positions: Tensor
    norms: Tensor


@dataclass(frozen=True)
class Head:
    """One KV head of one sequence. All but `scores` is as long as the head keeps rows."""

    indices: Tensor
    """Kept tokens, ascending."""
    k: Tensor | None
    v: Tensor | None
    scores: Tensor | None
    """Of the past tokens, by which the last selection ranked; +inf where one was forced.
    None where nothing was ranked, or where they were not asked for."""
    member_rows: Tensor | None = None
    member_positions: Tensor | None = None
    member_norms: Tensor | None = None


@dataclass(frozen=True)
class Kept:
    """A layer of a batch behind a policy; `kept[b, h]` is KV head h of sequence b.

    Heads may keep different numbers of rows. The cache is packed: the rows of a sequence lie
    head after head, each head's `slack` free rows behind it.
    """

    counts: Tensor
    """[batch, kv_heads] rows that each head keeps."""
    indices: Tensor
    """[batch, kv_heads, tokens] kept tokens, ascending; of each head the first `counts`."""
    past: Tensor
    """[batch] tokens that were ranked, 0 where none were: all fit, or the window fills the budget."""
    k: Tensor | None
    """[batch, rows, head_dim]; of sequences with fewer rows the last are not filled."""
    v: Tensor | None
    offsets: Tensor | None
    """[batch, kv_heads] first row of each head in k and v."""
    scores: Tensor | None
    """[batch, kv_heads, tokens], of each head the first `past`."""
    members: Members | None
    """Where the policy merges."""

    def __getitem__(self, place: tuple[int, int]) -> Head:
        if not isinstance(place, tuple) or len(place) != 2:
            raise ArgumentError(f"a head is kept[sequence, head], got kept[{place!r}]")
        sequence, head = place
        count = int(self.counts[sequence, head])
        past = int(self.past[sequence])
        k = v = None
        if self.k is not None and self.v is not None and self.offsets is not None:
            first = int(self.offsets[sequence, head])
            k, v = (rows[sequence, first : first + count] for rows in (self.k, self.v))
        scores = self.scores[sequence, head, :past] if self.scores is not None and past else None
        indices = self.indices[sequence, head, :count]
        if self.members is None:
            return Head(indices, k, v, scores)
        entries = int(self.members.counts[sequence, head])
        table = (self.members.rows, self.members.positions, self.members.norms)
        return Head(indices, k, v, scores, *(column[sequence, head, :entries] for column in table))
