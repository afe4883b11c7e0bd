"""Where the rows of a prompt lie behind its eviction.

A prompt of T tokens keeps B rows. They begin with a block, as attention reads whole blocks:
with the last block whose slots in front are all given back. The tokens that follow lie right
behind them. So row i, kept or later, is in slot `first + i` of the request, and the token at
position p >= T is row `p - gone`.

    slots      0 ......... first ......... first + B ....... T
    before     [ K and V of all tokens of the prompt         ]
    behind     ( given back )[ kept rows    )[ later tokens ...
"""

from __future__ import annotations

from typing import NamedTuple


class Geometry(NamedTuple):
    """Of one prompt."""

    gone: int
    """Rows that every head loses; 0 where all fit, and nothing moves."""
    first: int
    """The slot of the first kept row, a multiple of the block size."""

    @staticmethod
    def of(tokens: int, rows: int, block_size: int) -> Geometry:
        gone = tokens - rows
        return Geometry(gone, gone // block_size * block_size)

    def slot(self, position: int) -> int:
        """Of a token behind the prompt."""
        return self.first + position - self.gone
