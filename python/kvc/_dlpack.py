"""A DLPack capsule, read where it lies.

NumPy's own reader refuses bfloat16, so the few structs of DLPack's C header that matter are
written out here. Only what `__dlpack__` gives without a version is read, which every producer
still can: the capsule named "dltensor".
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any

from .errors import ArgumentError

CPU_DEVICES = {1, 3}
"""kDLCPU, and kDLCUDAHost, which is the process's memory, too."""

CUDA_DEVICE = 2

DEFAULT_STREAM = 1
"""What a producer is told of it: 0 means nothing to DLPack."""

_TYPES = {(2, 32): "f32", (2, 16): "f16", (4, 16): "bf16", (0, 32): "i32", (1, 16): "u16", (1, 8): "u8"}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def read(name: str, capsule: Any) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, str]:
    """Address, shape, strides in elements (None: contiguous) and type; the type is the name
    that plans use or, for others, DLPack's numbers. Valid as long as the capsule lives."""
    try:
        address = _pointer_of(capsule, b"dltensor")
    except (TypeError, ValueError):
        raise ArgumentError(f"__dlpack__ of {name} must give a capsule 'dltensor', got {capsule!r}") from None
    tensor = _Tensor.from_address(address)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    known = _TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    dtype = known or f"DLPack type {tensor.code} of {tensor.bits} bits"
    return (tensor.data or 0) + tensor.byte_offset, shape, strides, dtype
