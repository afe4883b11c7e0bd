"""Where the rows of a prompt lie behind its eviction.

A prompt of T tokens keeps B rows. They begin with a block, as attention reads whole blocks:
with the last block whose slots in front are all given back. The tokens that follow lie right
behind them. So row i, kept or later, is in slot `first + i` of the request, and the token at
position p >= T is row `p - gone`.

    slots      0 ......... first ......... first + B ....... T
    before     [ K and V of all tokens of the prompt         ]
    behind     ( given back )[ kept rows    )[ later tokens ...

Where heads keep different numbers of rows (`by_head`) there is no slot for a row of all heads.
Then the blocks that are not given back are shared out anew, in pages of one head's rows (`pages`):
they hold B rows of each head on average, and in the last page of each head up to `page_rows` - 1
that are free.
"""

from __future__ import annotations

from typing import NamedTuple

_MOST_PAGE_ROWS = 8
"""Few, so that little of a head's last page is free; more than one, so that tables are short."""


class Geometry(NamedTuple):
    """Of one prompt."""

    gone: int
    """Rows that every head loses; 0 where all fit, and nothing moves."""
    first: int
    """The slot of the first kept row, a multiple of the block size; those in front are given back."""
    page_rows: int
    """Of a page of one head's rows, a power of two."""

    @staticmethod
    def of(tokens: int, rows: int, block_size: int, by_head: bool = False) -> Geometry:
        gone = tokens - rows
        # What the prompt loses has room for what is free in last pages.
        page_rows = min(_MOST_PAGE_ROWS, 1 << ((gone + 1).bit_length() - 1)) if by_head else 1
        return Geometry(gone, (gone - (page_rows - 1)) // block_size * block_size, page_rows)

    def slot(self, position: int) -> int:
        """Of a token behind the prompt."""
        return self.first + position - self.gone
