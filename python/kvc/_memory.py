"""The making of tensors: of the library and on the device that the caller's are of."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from . import _device
from ._tensors import Tensor, View, bits, is_torch, view
from .device_array import DeviceArray
from .errors import UnsupportedError

_NUMPY_TYPES = {"f32": np.dtype(np.float32), "i32": np.dtype(np.int32), "u8": np.dtype(np.uint8)}

HostArray = np.ndarray[Any, np.dtype[Any]]


class Memory(Protocol):
    """`dtype` is as plans name it; None is the type of the tensors that are followed."""

    @property
    def stream(self) -> int | None:
        """A CUstream: what is called next goes behind what the caller has queued there."""

    def empty(self, shape: Sequence[int], dtype: str | None = None) -> Tensor: ...
    def zeros(self, shape: Sequence[int], dtype: str | None = None) -> Tensor: ...
    def numbers(self, values: HostArray) -> Tensor:
        """On the device, i32."""

    def host(self, tensor: Tensor) -> HostArray:
        """In the process's memory; waits for what is queued."""

    def floats(self, room: Tensor) -> Tensor:
        """Bytes, seen as f32."""

    def behind_zeros(self, rows: View, count: int) -> Tensor:
        """A copy of [batch, heads, rows, d] with `count` rows of zeros in front of the rows."""


def following(like: Tensor, dtype: str, device: str) -> Memory:
    """Torch's where `like` is, on its device; else NumPy's or, for a GPU, of `DeviceArray`s."""
    if is_torch(like):
        return _Torch(like)
    return _NumPy(like, dtype) if device == _device.CPU else _Cuda(device, dtype)


def zeros_on(device: str, shape: tuple[int, ...]) -> Tensor:
    """i32, of NumPy, or where they are on a GPU, of torch if the program has it."""
    if device == _device.CPU:
        return np.zeros(shape, np.int32)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        return torch.zeros(shape, dtype=torch.int32, device=device)
    return _Cuda(device, "i32").zeros(shape)


class _NumPy:
    stream = None

    def __init__(self, like: Tensor, dtype: str) -> None:
        self._elements = _numpy_elements(like, dtype)

    def empty(self, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        return np.empty(shape, self._elements if dtype is None else _NUMPY_TYPES[dtype])

    def zeros(self, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        tensor = self.empty(shape, dtype)
        tensor[...] = 0
        return tensor

    def numbers(self, values: HostArray) -> Tensor:
        return values.astype(np.int32)

    def host(self, tensor: Tensor) -> HostArray:
        return np.asarray(tensor)

    def floats(self, room: Tensor) -> Tensor:
        return room.view(np.float32)

    def behind_zeros(self, rows: View, count: int) -> Tensor:
        batch, heads, present, width = rows.shape
        room = self.zeros([batch, heads, count + present, width])
        bits(view(rows.name, room))[:, :, count:] = bits(rows)
        return room


class _Torch:
    def __init__(self, like: Any) -> None:
        self._torch: Any = sys.modules["torch"]
        self._device, self._elements = like.device, like.dtype

    @property
    def stream(self) -> int | None:
        if self._device.type == "cpu":
            return None
        return int(self._torch.cuda.current_stream(self._device).cuda_stream)

    def empty(self, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        return self._torch.empty(tuple(shape), dtype=self._type(dtype), device=self._device)

    def zeros(self, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        return self._torch.zeros(tuple(shape), dtype=self._type(dtype), device=self._device)

    def numbers(self, values: HostArray) -> Tensor:
        return self._torch.from_numpy(values.astype(np.int32)).to(self._device)

    def host(self, tensor: Tensor) -> HostArray:
        array: HostArray = tensor.cpu().numpy()
        return array

    def floats(self, room: Tensor) -> Tensor:
        return room.view(self._torch.float32)

    def behind_zeros(self, rows: View, count: int) -> Tensor:
        batch, heads, present, width = rows.shape
        room = self.zeros([batch, heads, count + present, width])
        rows_of: Any = rows.owner
        room[:, :, count:] = rows_of.detach()
        return room

    def _type(self, dtype: str | None) -> Any:
        if dtype is None:
            return self._elements
        return {"f32": self._torch.float32, "i32": self._torch.int32, "u8": self._torch.uint8}[dtype]


class _Cuda:
    """The producers' tensors came by DLPack, ordered in front of the default stream."""

    stream = None

    def __init__(self, device: str, dtype: str) -> None:
        self._device, self._dtype = _device.target(device)[1], dtype

    def empty(self, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        return DeviceArray.empty(self._device, dtype or self._dtype, tuple(shape))

    def zeros(self, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        made = DeviceArray.empty(self._device, dtype or self._dtype, tuple(shape))
        made.clear()
        return made

    def numbers(self, values: HostArray) -> Tensor:
        return DeviceArray.of(self._device, "i32", values.astype(np.int32))

    def host(self, tensor: Tensor) -> HostArray:
        array: HostArray = tensor.numpy()
        return array

    def floats(self, room: Tensor) -> Tensor:
        raise UnsupportedError("scores on a GPU need tensors of torch, got others")

    def behind_zeros(self, rows: View, count: int) -> Tensor:
        raise UnsupportedError(
            f"{rows.name} on a GPU must have all {rows.shape[2] + count} queries that the policy reads "
            f"where it is no tensor of torch, got {rows.shape[2]}"
        )


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
