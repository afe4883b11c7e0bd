"""Numbers that callers give."""

from __future__ import annotations

import operator

from .errors import ArgumentError

MOST_INT32 = 2**31 - 1


def whole(name: str, value: object, least: int = 1, most: int = MOST_INT32) -> int:
    """`value` as an int. ctypes would cut what does not fit its field."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        raise ArgumentError(f"{name} must be a whole number of {least} to {most}, got {value!r}")
    return number
