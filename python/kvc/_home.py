"""Where the parts of kvc that are no Python are: libkvc.so, kvc-opt, the shipped policies.

A *home* is a folder that holds them: the prefix of an installation, or a build folder. The
environment variable KVC_HOME names one and then is the only one; a missing part is an error
and never taken from elsewhere. Without it: a folder of the package's own, where its wheel has
library and policies; the package kvc_compiler, whose wheel has the compiler; then the home of the
kvc-opt that PATH finds.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from .errors import NotFoundError

_LIBRARY = "libkvc.so"
_COMPILER = "kvc-opt"


def _homes() -> Iterator[Path]:
    named = os.environ.get("KVC_HOME")
    if named:
        yield Path(named)
        return
    yield Path(__file__).parent / "native"
    beside = importlib.util.find_spec("kvc_compiler")
    if beside is not None and beside.origin:
        yield Path(beside.origin).parent
    found = shutil.which(_COMPILER)
    if found:
        yield Path(os.path.realpath(found)).parent.parent


def _find(what: str, *places: str) -> Path:
    for home in _homes():
        for place in places:
            if (home / place).exists():
                return (home / place).absolute()
    named = os.environ.get("KVC_HOME")
    if named:
        raise NotFoundError(f"KVC_HOME must be a build folder or an installation of kvc, got {named!r} without {what}")
    raise NotFoundError(
        f"{what} was not found: set KVC_HOME to a build folder or an installation of kvc, or put its kvc-opt into PATH"
    )


def library() -> Path:
    """libkvc.so: in the library folders of an installation, or of the build."""
    folders = ["lib", "lib64", "runtime/shared"]
    multiarch = sysconfig.get_config_var("MULTIARCH")
    if multiarch:
        folders.insert(1, f"lib/{multiarch}")
    return _find(_LIBRARY, *(f"{folder}/{_LIBRARY}" for folder in folders))


def compiler() -> Path:
    """The program kvc-opt."""
    return _find(_COMPILER, f"bin/{_COMPILER}")


def policies() -> Path:
    """The folder of the shipped policies."""
    return _find("the shipped policies", "share/kvc/policies")
