"""libkvc.so, loaded once, its statuses turned into exceptions.

ctypes gives up the interpreter's lock while a function runs, so other Python threads go on.
kvc keeps the text of an error per thread of the operating system, and the text is asked for
in the thread that failed: two threads never see each other's.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from . import _abi, _home
from .errors import (
    AlignmentError,
    ArgumentError,
    ArtifactError,
    DriverError,
    Error,
    InternalError,
    LimitError,
    NotFoundError,
    UnsupportedError,
    VersionError,
)

ERRORS: dict[int, type[Error]] = {
    _abi.BAD_ARGUMENT: ArgumentError,
    _abi.UNSUPPORTED: UnsupportedError,
    _abi.EXCEEDS_LIMITS: LimitError,
    _abi.WORKSPACE_TOO_SMALL: ArgumentError,
    _abi.MISALIGNED: AlignmentError,
    _abi.ABI_MISMATCH: VersionError,
    _abi.BAD_ARTIFACT: ArtifactError,
    _abi.DRIVER_ERROR: DriverError,
    _abi.INTERNAL_ERROR: InternalError,
}


def _last_error(library: ctypes.CDLL) -> str:
    length = library.kvc_last_error(None, 0)
    text = ctypes.create_string_buffer(length + 1)
    library.kvc_last_error(text, length + 1)
    return text.value.decode(errors="replace")


@functools.cache
def load() -> ctypes.CDLL:
    """The library with every function declared and the host target enabled."""
    path = _home.library()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise NotFoundError(f"libkvc.so cannot be loaded: {error}") from None
    library.kvc_abi_version.restype = ctypes.c_uint32
    version = library.kvc_abi_version()
    if version != _abi.ABI_VERSION:
        raise VersionError(
            f"this package speaks version {_abi.ABI_VERSION} of the C ABI, got version {version} of {path}"
        )

    def check(status: _abi.Status, function: Any, arguments: Any) -> None:
        if status.value != _abi.OK:
            raise ERRORS.get(status.value, InternalError)(_last_error(library))

    for name, (result, parameters) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
        if result is _abi.Status:
            function.errcheck = check
    library.kvc_enable_host()
    return library
