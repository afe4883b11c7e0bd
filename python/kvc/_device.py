"""Where plans and tensors are, by the names that torch has: "cpu", or "cuda:N"."""

from __future__ import annotations

import re

from . import _abi
from .errors import ArgumentError

CPU = "cpu"


def parse(device: object) -> str:
    """A device as a user says it; "cuda" is the first."""
    found = re.fullmatch(r"cpu|cuda(:\d{1,4})?", str(device))
    if not found:
        raise ArgumentError(f"a device must be 'cpu', 'cuda' or 'cuda:N', got {device!r}")
    return "cuda:0" if found[0] == "cuda" else found[0]


def target(device: str) -> tuple[int, int]:
    """kvc_target_kind, and the number of a GPU."""
    return (_abi.HOST, 0) if device == CPU else (_abi.CUDA, int(device.removeprefix("cuda:")))
