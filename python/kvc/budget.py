"""How many tokens a KV head may keep: a number, or a share of the tokens."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Integral

from .errors import ArgumentError

_MOST = 2**31 - 1

Budget = int | float | str | Decimal | Fraction
"""An int is a number of tokens; anything else a share above 0 and up to 1."""


def tokens_of(budget: Budget, tokens: int) -> int:
    """The budget of one KV head of a sequence of `tokens`, as a number of tokens.

    A share is exact: 0.2 of 1000 is the decimal 0.2, not the binary number next to it, and
    what is not whole is rounded down.
    """
    if isinstance(budget, Integral) and not isinstance(budget, bool):
        if not 1 <= int(budget) <= _MOST:
            raise ArgumentError(f"a budget must be a whole number of 1 to {_MOST}, got {budget}")
        return int(budget)
    share = _share(budget)
    kept = share.numerator * tokens // share.denominator
    if not kept:
        raise ArgumentError(f"a budget must leave at least 1 token, got {budget} of {tokens} tokens")
    return kept


def _share(budget: Budget) -> Fraction:
    try:
        # A float's shortest decimal text is what was written.
        exact = budget if isinstance(budget, (Decimal, Fraction)) else Decimal(str(budget))
        share = Fraction(exact)
    except (InvalidOperation, ValueError, OverflowError, TypeError):
        share = Fraction(0)
    if isinstance(budget, bool) or not 0 < share <= 1:
        raise ArgumentError(f"a budget must be a number of tokens or a share above 0 and up to 1, got {budget!r}")
    return share
