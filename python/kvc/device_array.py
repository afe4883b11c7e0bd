"""Results on a GPU, where the caller's tensors are not torch's."""

from __future__ import annotations

import math
import weakref
from typing import Any, NoReturn

import numpy as np

from . import _cuda
from .errors import UnsupportedError

_CODES = {"f32": "<f4", "f16": "<f2", "bf16": "<u2", "i32": "<i4", "u8": "|u1"}


class DeviceArray:
    """Memory of a GPU. CuPy, Numba and torch take it as it is, by `__cuda_array_interface__`, and so
    does kvc. It is written on the device's default stream. bfloat16 is called uint16 there."""

    def __init__(
        self,
        device: int,
        dtype: str,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        address: int,
        owner: object,
    ) -> None:
        """Part of what `owner` holds; `empty` makes whole ones. strides: in elements."""
        self.device, self.dtype, self.shape, self.strides = f"cuda:{device}", dtype, shape, strides
        self.address = address
        self._number, self._owner = device, owner

    @classmethod
    def empty(cls, device: int, dtype: str, shape: tuple[int, ...]) -> DeviceArray:
        size = math.prod(shape) * _size(dtype)
        address = _cuda.allocate(device, size)
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        owner = _Allocation()
        weakref.finalize(owner, _cuda.free, device, address).atexit = False
        return cls(device, dtype, shape, strides, address, owner)

    @classmethod
    def of(cls, device: int, dtype: str, array: np.ndarray[Any, Any]) -> DeviceArray:
        """A copy."""
        made, array = cls.empty(device, dtype, array.shape), np.ascontiguousarray(array)
        _cuda.put(device, made.address, array.ctypes.data, array.nbytes)
        return made

    def clear(self) -> None:
        """Of a whole array."""
        _cuda.clear(self._number, self.address, math.prod(self.shape) * _size(self.dtype))

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy in the process's memory, behind all that is queued on the default stream."""
        dtype = np.dtype(_CODES[self.dtype])
        if math.prod(self.shape) == 0:
            return np.empty(self.shape, dtype)
        # All from the first element to the last, whatever lies between.
        count = 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        host = np.empty(count, dtype)
        _cuda.get(self._number, host.ctypes.data, self.address, host.nbytes)
        steps = tuple(stride * dtype.itemsize for stride in self.strides)
        return np.lib.stride_tricks.as_strided(host, self.shape, steps).copy()

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("a kvc.DeviceArray must not be copied or pickled; numpy() is a copy of it")

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def __len__(self) -> int:
        return self.shape[0]

    def __int__(self) -> int:
        return int(self.numpy())

    def __getitem__(self, place: int | slice | tuple[int | slice, ...]) -> DeviceArray:
        """A view, by numbers and slices of step 1."""
        places = place if isinstance(place, tuple) else (place,)
        address, shape, strides = self.address, [], []
        for axis, (extent, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            chosen = places[axis] if axis < len(places) else slice(None)
            if isinstance(chosen, slice):
                first, last, step = chosen.indices(extent)
                if step != 1:
                    raise IndexError(f"a slice of a DeviceArray must have step 1, got {step}")
                shape.append(max(0, last - first))
                strides.append(stride)
            else:
                first = range(extent)[chosen]
            address += first * stride * _size(self.dtype)
        return DeviceArray(self._number, self.dtype, tuple(shape), tuple(strides), address, self._owner)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": _CODES[self.dtype],
            "data": (self.address, False),
            "strides": tuple(stride * _size(self.dtype) for stride in self.strides),
            # The default stream.
            "stream": 1,
        }

    def __repr__(self) -> str:
        return f"<kvc.DeviceArray {list(self.shape)} {self.dtype} on {self.device}>"


class _Allocation:
    """Freed with the last array that lies in it."""


def _size(dtype: str) -> int:
    return np.dtype(_CODES[dtype]).itemsize
