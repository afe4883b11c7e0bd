"""Tensors of any library, seen as address, shape and strides, and the making of new ones.

Nothing is copied and nothing is converted: what does not lie as kvc reads it is refused, with
what to do about it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _dlpack
from .errors import ArgumentError

Tensor = Any
"""A torch.Tensor on the CPU, a NumPy array, or anything with __array_interface__ or __dlpack__."""

_NUMPY_TYPES = {"f32": np.dtype(np.float32), "i32": np.dtype(np.int32), "u8": np.dtype(np.uint8)}
_NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "uint8": "u8", "uint16": "u16"}


@dataclass(frozen=True)
class View:
    """Where a tensor lies. Valid as long as `owner` lives."""

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    dtype: str
    writable: bool
    owner: object

    def is_contiguous(self) -> bool:
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True


def _torch() -> Any:
    """torch where the program has it already; a tensor of it cannot be here otherwise."""
    return sys.modules.get("torch")


def is_torch(tensor: Tensor) -> bool:
    torch = _torch()
    return torch is not None and isinstance(tensor, torch.Tensor)


def view(name: str, tensor: Tensor) -> View:
    """`name` is what errors call it."""
    if is_torch(tensor):
        return _view_torch(name, tensor)
    if not isinstance(tensor, np.ndarray) and not hasattr(tensor, "__array_interface__"):
        if hasattr(tensor, "__dlpack__"):
            return _view_dlpack(name, tensor)
        raise ArgumentError(f"{name} must be a tensor (torch, NumPy, DLPack), got {type(tensor).__name__}")
    array = tensor if isinstance(tensor, np.ndarray) else np.asarray(tensor)
    if not array.dtype.isnative:
        raise ArgumentError(f"{name} must have the machine's byte order, got {array.dtype.str}")
    if any(stride % array.itemsize for stride in array.strides):
        raise ArgumentError(f"strides of {name} must be multiples of an element, got {array.strides} bytes")
    strides = tuple(stride // array.itemsize for stride in array.strides)
    dtype = _NAMES.get(array.dtype.name, array.dtype.name)
    return View(name, array.ctypes.data, array.shape, strides, dtype, array.flags.writeable, array)


def _view_torch(name: str, tensor: Any) -> View:
    torch = _torch()
    if tensor.device.type != "cpu":
        raise ArgumentError(f"{name} must be on the plan's device, cpu, got {tensor.device}")
    if tensor.layout != torch.strided:
        raise ArgumentError(f"{name} must be a dense tensor, got {tensor.layout}")
    if tensor.is_conj() or tensor.is_neg():
        raise ArgumentError(f"{name} must hold its values as they are, got a lazy conjugate or negative; resolve it")
    dtype = str(tensor.dtype).removeprefix("torch.")
    return View(
        name,
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        _NAMES.get(dtype, dtype),
        True,
        tensor,
    )


def _view_dlpack(name: str, tensor: Any) -> View:
    device, number = tensor.__dlpack_device__()
    if device not in _dlpack.CPU_DEVICES:
        raise ArgumentError(f"{name} must be on the plan's device, cpu, got DLPack device {int(device)}:{number}")
    capsule = tensor.__dlpack__()
    address, shape, strides, dtype = _dlpack.read(name, capsule)
    if strides is None:
        strides = tuple(int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape)))
    # Whether it may be written to, the capsule does not say.
    return View(name, address, shape, strides, dtype, False, (tensor, capsule))


def expect(
    tensor: View,
    shape: Sequence[tuple[str, int | None]],
    dtype: str,
    contiguous: bool = False,
) -> View:
    """Refuses a tensor that is not as said; `shape` has a name for each extent and its value,
    None where any will do. Rows, the last axis, are contiguous always."""
    if tensor.dtype != dtype and not (dtype == "bf16" and tensor.dtype == "u16"):
        raise ArgumentError(f"{tensor.name} must be {dtype}, got {tensor.dtype}")
    fits = len(tensor.shape) == len(shape) and all(
        extent > 0 and wanted in (None, extent) for extent, (_, wanted) in zip(tensor.shape, shape, strict=True)
    )
    if not fits:
        text = ", ".join(axis if wanted is None else f"{axis} {wanted}" for axis, wanted in shape)
        raise ArgumentError(f"{tensor.name} must be [{text}], got {list(tensor.shape)}")
    if contiguous and not tensor.is_contiguous():
        raise ArgumentError(f"{tensor.name} must be contiguous, got strides {list(tensor.strides)}")
    if tensor.shape[-1] != 1 and tensor.strides[-1] != 1:
        raise ArgumentError(
            f"the last axis of {tensor.name} must be contiguous, got strides {list(tensor.strides)}; "
            "make it so by a copy"
        )
    return tensor


def stride(tensor: View, axis: int) -> int:
    """In elements; 0 for an axis of one, whose stride means nothing and may be anything."""
    return 0 if tensor.shape[axis] == 1 else tensor.strides[axis]


class _Bits:
    def __init__(self, tensor: View) -> None:
        code = {"f32": "f4", "f16": "f2", "bf16": "u2", "u16": "u2", "i32": "i4", "u8": "u1"}[tensor.dtype]
        self.owner = tensor.owner
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.address, not tensor.writable),
            "shape": tensor.shape,
            "strides": tuple(stride * int(code[1]) for stride in tensor.strides),
            "typestr": "<" + code,
        }


def bits(tensor: View) -> np.ndarray[Any, np.dtype[Any]]:
    """The tensor's memory as an array of NumPy's; bfloat16 as its bits."""
    return np.asarray(_Bits(tensor))


class Memory:
    """Makes tensors of the library that the caller's tensors are of: torch's if k is, else
    NumPy's."""

    def __init__(self, like: Tensor, dtype: str) -> None:
        self._torch: Any = _torch() if is_torch(like) else None
        if self._torch is None:
            self._elements: Any = _numpy_elements(like, dtype)
        else:
            self._elements = like.dtype

    def empty(self, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        """`dtype` as plans name it; None is the type of k."""
        if self._torch is None:
            return np.empty(shape, self._elements if dtype is None else _NUMPY_TYPES[dtype])
        return self._torch.empty(tuple(shape), dtype=self._torch_type(dtype))

    def zeros(self, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        tensor = self.empty(shape, dtype)
        tensor[...] = 0
        return tensor

    def floats(self, room: Tensor) -> Tensor:
        """Bytes, seen as f32."""
        return room.view(np.float32 if self._torch is None else self._torch.float32)

    def behind_zeros(self, rows: View, count: int) -> Tensor:
        """A copy of [batch, heads, rows, d] with `count` rows of zeros in front of the rows."""
        batch, heads, present, width = rows.shape
        room = self.zeros([batch, heads, count + present, width])
        bits(view(rows.name, room))[:, :, count:] = bits(rows)
        return room

    def _torch_type(self, dtype: str | None) -> Any:
        if dtype is None:
            return self._elements
        return {"f32": self._torch.float32, "i32": self._torch.int32, "u8": self._torch.uint8}[dtype]


def _numpy_elements(like: Tensor, dtype: str) -> np.dtype[Any]:
    elements: np.dtype[Any]
    if isinstance(like, np.ndarray):
        elements = like.dtype
    elif dtype == "bf16":
        # NumPy has no such type of its own: its bits, unless somebody has taught it.
        taught: Any = sys.modules.get("ml_dtypes")
        elements = np.dtype(taught.bfloat16 if taught else np.uint16)
    else:
        elements = np.dtype(np.float32 if dtype == "f32" else np.float16)
    return elements
