"""A compiled policy's library, opened on a target."""

from __future__ import annotations

import os
import weakref
from ctypes import byref, c_void_p
from pathlib import Path

from . import _abi, _device, _library
from .manifest import Manifest


class Module:
    """Closed with the last object that holds it."""

    def __init__(self, path: Path, device: str = _device.CPU, threads: int = 0, seed: int = 0) -> None:
        library = _library.load()
        self.pointer = c_void_p()
        self.device = device
        kind, number = _device.target(device)
        target = _abi.Target(kind=kind, device=number, threads=threads, seed=seed)
        library.kvc_module_load(os.fsencode(path), byref(target), byref(self.pointer))
        # At the end of the process everything is freed anyway.
        weakref.finalize(self, library.kvc_module_close, self.pointer).atexit = False
        self.manifest = Manifest.parse(library.kvc_module_manifest(self.pointer).decode())
