"""Numbers and paths that callers give."""

from __future__ import annotations

import math
import operator
import os

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


def factor(name: str, value: object) -> float:
    """`value` as a float to multiply with."""
    try:
        good = math.isfinite(value) and value != 0  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise ArgumentError(f"{name} must be finite and not 0, got {value!r}")
    return float(value)  # type: ignore[arg-type]


def path(rule: str, value: object) -> str:
    """`value` as the name of a file or folder; `rule` is what errors say it must be. C would cut it
    at a zero."""
    try:
        text = os.fspath(value)  # type: ignore[call-overload]
    except TypeError:
        text = None
    if not isinstance(text, str) or "\0" in text:
        raise ArgumentError(f"{rule}, got {value!r:.80}")
    return text
