"""The rows of a prompt in one layer, where every head keeps a number of its own.

To vLLM a block has `block_size` slots for the rows of all heads. In memory it is [kv_heads, 2,
block_size, d]: of each head the keys, and behind them the values. The blocks that a request holds
behind its eviction are nobody else's, and nobody but kvc reads them. So their rows are shared out
anew: a page is `page_rows` keys that lie behind each other, and as many values, and belongs to one
head. A head takes the next free page when its last one is full.

    block 7   [ head 0: a a | b ] [ head 0: c c | a ]  ...     pages, and the heads that they belong to
    block 9   [ b b | ...

What is here is not in pages: which pages a head has, how many rows, and their true positions.
"""

from __future__ import annotations

import torch

from ..attention import append, attend
from ..errors import InternalError
from ..kept import Kept
from ..view import CacheView


class HeadPages:
    """Of one request and layer."""

    def __init__(self, kept: Kept, tokens: int, blocks: list[int], page_rows: int, kv_cache: torch.Tensor) -> None:
        """Moves what was kept of a prompt of `tokens` into `blocks`.

        kv_cache: [blocks, kv_heads, block_size, 2 * d], which the kernels of vLLM see as
        [blocks, kv_heads, 2, block_size, d].
        """
        counts, indices = kept.counts[0], kept.indices[0]
        heads, most = len(counts), int(counts.max())
        self.blocks = blocks
        """All that the request holds, in the order of its slots."""
        self._kv_cache = kv_cache
        self._page_rows = page_rows
        self._taken = 0
        self._counts, self._lengths = counts.clone()[None], torch.tensor([tokens], dtype=torch.int32)
        self._positions = indices[None, :, :most].clone()
        self._table = torch.zeros(1, heads, 0, dtype=torch.int32)
        self._pages_of = [0] * heads
        self._view: CacheView | None = None
        self._make_room(0)
        at = torch.cat([self._slots(head, int(count)) for head, count in enumerate(counts)])
        rows = kv_cache.view(-1, kv_cache.shape[3] // 2)
        assert kept.k is not None and kept.v is not None
        rows[at], rows[at + kv_cache.shape[2]] = kept.k[0, : len(at)], kept.v[0, : len(at)]

    @property
    def length(self) -> int:
        """The true position of the next token."""
        return int(self._lengths)

    def attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, blocks: list[int], scale: float, out: torch.Tensor
    ) -> None:
        """Takes in tokens, and writes what they see to `out`.

        q, out: [tokens, q_heads, d]; k, v: [tokens, kv_heads, d]; blocks: all that the request
        holds by now.
        """
        if blocks[: len(self.blocks)] != self.blocks:
            raise InternalError(f"a request's blocks must follow those that it had, {self.blocks}, got {blocks}")
        self.blocks = blocks
        self._make_room(len(k))
        if self._view is None:
            self._view = self._make_view()
        append(self._view, _by_head(k), _by_head(v))
        attend(self._view, _by_head(q), scale=scale, out=_by_head(out), threads=torch.get_num_threads())

    def _make_room(self, tokens: int) -> None:
        """For so many more rows of every head."""
        wanted = [-(-(count + tokens) // self._page_rows) for count in self._counts[0].tolist()]
        if max(wanted) > self._table.shape[2]:
            # Twice as many: tables and positions are seldom copied.
            entries = 2 * max(wanted)
            self._table = _wider(self._table, entries)
            self._positions = _wider(self._positions, entries * self._page_rows)
            self._view = None
        for head, count in enumerate(wanted):
            while self._pages_of[head] < count:
                self._table[0, head, self._pages_of[head]] = self._next_page()
                self._pages_of[head] += 1

    def _next_page(self) -> int:
        """Its number, with the memory seen as pages of rows."""
        _, heads, block_size, _ = self._kv_cache.shape
        in_head = block_size // self._page_rows
        block, page = divmod(self._taken, heads * in_head)
        if block >= len(self.blocks):
            raise InternalError(f"rows must fit the request's {len(self.blocks)} blocks, got page {self._taken}")
        self._taken += 1
        head, page = divmod(page, in_head)
        # Values lie between the keys of one head and those of the next.
        return (self.blocks[block] * heads + head) * 2 * in_head + page

    def _slots(self, head: int, count: int) -> torch.Tensor:
        """Of the first rows of a head, with the memory seen as rows."""
        row = torch.arange(count)
        slots: torch.Tensor = self._table[0, head, row // self._page_rows].long() * self._page_rows
        return slots + row % self._page_rows

    def _make_view(self) -> CacheView:
        block_size, width = self._kv_cache.shape[2:]
        pages = self._kv_cache.view(-1, self._page_rows, width // 2)
        behind = block_size // self._page_rows
        return CacheView.paged(
            pages[:-behind],
            pages[behind:],
            table=self._table,
            counts=self._counts,
            lengths=self._lengths,
            positions=self._positions,
        )


def _by_head(rows: torch.Tensor) -> torch.Tensor:
    return rows.transpose(0, 1)[None]


def _wider(numbers: torch.Tensor, entries: int) -> torch.Tensor:
    wide = numbers.new_zeros(*numbers.shape[:2], entries)
    wide[:, :, : numbers.shape[2]] = numbers
    return wide
