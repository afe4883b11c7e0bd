"""The few functions of NVIDIA's driver that tensors on a GPU need where no library makes them:
memory, and copies to and from the process. All on the default stream, in a device's primary
context, which is torch's and CuPy's, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

from .errors import DriverError

_FUNCTIONS = {
    "cuInit": [ctypes.c_uint],
    "cuDeviceGet": [ctypes.POINTER(c_int), c_int],
    "cuDevicePrimaryCtxRetain": [ctypes.POINTER(c_void_p), c_int],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [ctypes.POINTER(c_void_p)],
    "cuMemAlloc_v2": [ctypes.POINTER(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemsetD8_v2": [c_uint64, ctypes.c_ubyte, c_size_t],
    "cuMemcpyHtoD_v2": [c_uint64, c_void_p, c_size_t],
    "cuMemcpyDtoH_v2": [c_void_p, c_uint64, c_size_t],
    "cuStreamSynchronize": [c_void_p],
    "cuGetErrorString": [c_int, ctypes.POINTER(c_char_p)],
}


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise DriverError("tensors on a GPU need the driver libcuda.so.1, which was not found") from None
    for name, parameters in _FUNCTIONS.items():
        getattr(driver, name).argtypes = parameters
    return driver


def _call(name: str, *arguments: object) -> None:
    driver = _driver()
    code = getattr(driver, name)(*arguments)
    if code:
        text = c_char_p()
        driver.cuGetErrorString(code, byref(text))
        raise DriverError(f"{name} failed: {(text.value or str(code).encode()).decode()}")


@functools.cache
def _context(device: int) -> c_void_p:
    """Kept until the process ends, as memory of it may be."""
    _call("cuInit", 0)
    handle, context = c_int(), c_void_p()
    _call("cuDeviceGet", byref(handle), device)
    _call("cuDevicePrimaryCtxRetain", byref(context), handle)
    return context


@contextlib.contextmanager
def _current(device: int) -> Iterator[None]:
    _call("cuCtxPushCurrent_v2", _context(device))
    try:
        yield
    finally:
        _call("cuCtxPopCurrent_v2", byref(c_void_p()))


def allocate(device: int, size: int) -> int:
    address = c_uint64()
    with _current(device):
        _call("cuMemAlloc_v2", byref(address), max(1, size))
    return address.value


def free(device: int, address: int) -> None:
    """Behind all that is queued: the driver waits for it."""
    with _current(device):
        _call("cuMemFree_v2", address)


def clear(device: int, address: int, size: int) -> None:
    with _current(device):
        _call("cuMemsetD8_v2", address, 0, size)


def put(device: int, address: int, source: int, size: int) -> None:
    with _current(device):
        _call("cuMemcpyHtoD_v2", address, source, size)


def get(device: int, target: int, address: int, size: int) -> None:
    """Waits for what is queued on the default stream."""
    with _current(device):
        _call("cuStreamSynchronize", None)
        _call("cuMemcpyDtoH_v2", target, address, size)
