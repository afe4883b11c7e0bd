"""Tensors of any library, seen as address, shape and strides.

Nothing is copied and nothing is converted: what does not lie as kvc reads it is refused, with
what to do about it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _device, _dlpack
from .device_array import DeviceArray
from .errors import ArgumentError

Tensor = Any
"""A torch.Tensor, a NumPy array, a DeviceArray, or anything with __array_interface__ or __dlpack__."""

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
    device: str = _device.CPU

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
    return _view(name, tensor, _device_of(name, tensor))


def view_on(name: str, tensor: Tensor, device: str, whose: str) -> View:
    """As `view`; refuses a tensor that is elsewhere than `whose` device."""
    found = _device_of(name, tensor)
    if found not in (device, ""):
        raise ArgumentError(f"{name} must be on {whose} device, {device}, got {found}")
    return _view(name, tensor, found)


def _device_of(name: str, tensor: Tensor) -> str:
    """Where a tensor says that it is, without looking at it; "" where it is no tensor."""
    if is_torch(tensor):
        place = tensor.device
        if place.type not in ("cpu", "cuda"):
            raise ArgumentError(f"{name} must be on the CPU or a CUDA GPU, got {place}")
        return _device.CPU if place.type == "cpu" else f"cuda:{place.index}"
    if isinstance(tensor, DeviceArray):
        return tensor.device
    if isinstance(tensor, np.ndarray) or hasattr(tensor, "__array_interface__"):
        return _device.CPU
    if not hasattr(tensor, "__dlpack__"):
        return ""
    kind, number = tensor.__dlpack_device__()
    if kind in _dlpack.CPU_DEVICES:
        return _device.CPU
    if kind != _dlpack.CUDA_DEVICE:
        raise ArgumentError(f"{name} must be on the CPU or a CUDA GPU, got DLPack device {int(kind)}:{number}")
    return f"cuda:{number}"


def _view(name: str, tensor: Tensor, device: str) -> View:
    if is_torch(tensor):
        return _view_torch(name, tensor, device)
    if isinstance(tensor, DeviceArray):
        where = (tensor.address, tensor.shape, tensor.strides, tensor.dtype)
        return View(name, *where, writable=True, owner=tensor, device=device)
    if not isinstance(tensor, np.ndarray) and not hasattr(tensor, "__array_interface__"):
        if hasattr(tensor, "__dlpack__"):
            return _view_dlpack(name, tensor, device)
        raise ArgumentError(f"{name} must be a tensor (torch, NumPy, DLPack), got {type(tensor).__name__}")
    array = tensor if isinstance(tensor, np.ndarray) else np.asarray(tensor)
    if not array.dtype.isnative:
        raise ArgumentError(f"{name} must have the machine's byte order, got {array.dtype.str}")
    if any(stride % array.itemsize for stride in array.strides):
        raise ArgumentError(f"strides of {name} must be multiples of an element, got {array.strides} bytes")
    strides = tuple(stride // array.itemsize for stride in array.strides)
    dtype = _NAMES.get(array.dtype.name, array.dtype.name)
    return View(name, array.ctypes.data, array.shape, strides, dtype, array.flags.writeable, array)


def _view_torch(name: str, tensor: Any, device: str) -> View:
    torch = _torch()
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
        device,
    )


def _view_dlpack(name: str, tensor: Any, device: str) -> View:
    # Whether it may be written to, the capsule does not say.
    writable = False
    if device == _device.CPU:
        capsule = tensor.__dlpack__()
    else:
        # What the producer has queued comes in front of what the default stream gets.
        capsule = tensor.__dlpack__(stream=_dlpack.DEFAULT_STREAM)
        said = getattr(tensor, "__cuda_array_interface__", None)
        writable = said is not None and not said["data"][1]
    address, shape, strides, dtype = _dlpack.read(name, capsule)
    if strides is None:
        strides = tuple(int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape)))
    return View(name, address, shape, strides, dtype, writable, (tensor, capsule), device)


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
    """The tensor's memory, on the CPU, as an array of NumPy's; bfloat16 as its bits."""
    return np.asarray(_Bits(tensor))
