"""kvc-opt as a program: a fault in it ends its own process, not this one, and LLVM's symbols
do not meet those of other libraries that carry an LLVM."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .errors import CompileError


def compile_library(compiler: Path, name: str, text: bytes, options: Sequence[str], output: Path) -> None:
    """Compiles `text` to the library `output`. Errors call the text `name`.

    The text goes in by standard input, so that what is compiled is what was hashed, even if
    the file is being edited.
    """
    command = [str(compiler), "-", "--emit=library", *options, "-o", str(output)]
    try:
        result = subprocess.run(command, input=text, capture_output=True)
    except OSError as error:
        raise CompileError(f"{compiler} cannot be run: {error.strerror}") from None
    if result.returncode == 0:
        return
    if result.returncode < 0:
        raise CompileError(f"{compiler} was ended by signal {signal.Signals(-result.returncode).name}")
    lines = result.stderr.decode(errors="replace").splitlines()
    line = next((line for line in lines if "error: " in line), None)
    if line is None:
        raise CompileError(f"{compiler} failed with code {result.returncode} and gave no reason")
    line = line.removeprefix("error: ")
    if line.startswith("<stdin>:"):
        line = name + line.removeprefix("<stdin>")
    raise CompileError(line)
