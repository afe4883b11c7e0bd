"""Compiled policies on disk, under the hash of all that they were made from.

An entry is named by its key and never changes. kvc-opt writes beside the place and renames,
so processes that compile the same thing at the same time each write the same whole file, and
whoever reads sees one or none. A library ends in a seal (kvc_library_seal in kvc/artifact.h),
its length and checksum: an entry that does not fit its seal counts as absent.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from ._check import path as path_of
from .errors import Error

_SEAL = struct.Struct("<12sIQ")
_MAGIC = b"kvc-library\0"


def folder(given: str | os.PathLike[str] | None) -> Path:
    """The cache's folder, made if need be: the given one, $KVC_CACHE_DIR, or the user's."""
    chosen = given or os.environ.get("KVC_CACHE_DIR")
    if chosen:
        path = Path(path_of("the cache of compiled policies must be a folder", chosen))
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvc"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(f"the cache of compiled policies must be a folder, got {path}: {error.strerror}") from None
    return path.absolute()


@functools.lru_cache(maxsize=8)
def _hash_of(path: Path, size: int, changed: int, inode: int) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def compiler_identity(compiler: Path) -> str:
    """The hash of the program itself: a version number would not change from one build to the
    next. It is read once per process, and again where the file is another."""
    status = compiler.stat()
    return _hash_of(compiler, status.st_size, status.st_mtime_ns, status.st_ino)


def key(identity: str, text: bytes, options: Sequence[str]) -> str:
    """The name of what this compiler makes of this text with these options."""
    parts = [identity, hashlib.sha256(text).hexdigest(), *options]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def is_whole(path: Path) -> bool:
    """True for a library that is there, byte by byte as kvc-opt wrote it."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    if len(data) < _SEAL.size:
        return False
    magic, checksum, size = _SEAL.unpack_from(data, len(data) - _SEAL.size)
    body = memoryview(data)[: -_SEAL.size]
    return bool(magic == _MAGIC and size == len(data) and checksum == zlib.crc32(body))
