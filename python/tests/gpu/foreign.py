"""Tensors on a GPU of a library that kvc does not know."""

import ctypes
import weakref

import numpy as np

from kvc import _cuda, _dlpack

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

CODES = {"float32": (2, 32), "float16": (2, 16), "uint16": (4, 16), "int32": (0, 32), "uint8": (1, 8)}


class Foreign:
    """A copy of an array of NumPy's in memory of a GPU, strides included; uint16 are bits of bf16."""

    def __init__(self, array, writable=True, device=0):
        self._base = np.asarray(array)
        whole = self._base if self._base.base is None else self._base.base
        while whole.base is not None:
            whole = whole.base
        self._whole = whole
        self.address = _cuda.allocate(0, whole.nbytes)
        weakref.finalize(self, _cuda.free, 0, self.address).atexit = False
        _cuda.put(0, self.address, whole.ctypes.data, whole.nbytes)
        self.device, self.streams = device, []
        if writable:
            self.__cuda_array_interface__ = {"data": (self.address, False)}

    def __dlpack_device__(self):
        return (2, self.device)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        array = self._base
        tensor = self._tensor = _dlpack._Tensor()
        tensor.data = self.address
        tensor.byte_offset = array.ctypes.data - self._whole.ctypes.data
        tensor.device_type, tensor.device_id, tensor.ndim, tensor.lanes = 2, self.device, array.ndim, 1
        tensor.code, tensor.bits = CODES[array.dtype.name]
        self._extents = (ctypes.c_int64 * array.ndim)(*array.shape)
        self._steps = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))
        tensor.shape = ctypes.cast(self._extents, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(self._steps, ctypes.POINTER(ctypes.c_int64))
        return _new_capsule(ctypes.addressof(tensor), b"dltensor", None)

    def numpy(self):
        """What is there now."""
        host = np.empty_like(self._whole)
        _cuda.get(0, host.ctypes.data, self.address, host.nbytes)
        first = self._base.ctypes.data - self._whole.ctypes.data
        flat = host.reshape(-1).view(np.uint8)[first:].view(host.dtype)
        return np.lib.stride_tricks.as_strided(flat, self._base.shape, self._base.strides).copy()
