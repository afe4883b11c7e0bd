"""Policies: those that are shipped, compiling one, and what was compiled."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from . import _cache, _compiler, _device, _home
from ._check import path as path_of
from ._check import whole
from ._module import Module
from .errors import ArgumentError, NotFoundError
from .manifest import Manifest, Variant
from .plan import Plan

Param = int | float | str | Decimal | Fraction


def policies() -> dict[str, Path]:
    """The shipped policies: name and file, sorted by name."""
    return {path.stem: path for path in sorted(_home.policies().glob("*.mlir"))}


def compile(
    policy: str | os.PathLike[str],
    *,
    head_dim: int,
    group: int,
    dtype: str = "bf16",
    arch: str | Sequence[str] | None = None,
    params: Mapping[str, Param] | None = None,
    prune_norms: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Policy:
    """Compiles a policy, or takes it from the cache of what was compiled before.

    policy: the name of a shipped policy, a file, or the text of a policy.
    head_dim, group, dtype: the shape of the model's heads; `group` is the number of query
        heads per KV head, `dtype` the type of cache and queries: f32, f16 or bf16.
    arch: GPUs to make PTX for, "sm_80" and later; None makes kernels for the CPU alone,
        which are always there.
    params: parameters of the policy that differ from the file's.
    prune_norms: norms behind the output projection are bounded first and computed only where
        they can decide; what is kept is the same but for ties within rounding.
    cache_dir: the cache's folder, else $KVC_CACHE_DIR, else ~/.cache/kvc.

    Raises CompileError with the compiler's line, NotFoundError where policy or compiler
    are not there.
    """
    name, text = _read(policy)
    options = [f"--shape=head_dim={head_dim},group={group},dtype={dtype}"]
    chips = [arch] if isinstance(arch, str) else arch or ["none"]
    if not isinstance(chips, Sequence):
        raise ArgumentError(f"arch must be the name of a GPU or several, got {arch!r}")
    options += [f"--chip={chip}" for chip in chips]
    options += [f"--param={key}={_number(key, value)}" for key, value in _items(params or {})]
    options += ["--prune-norms"] * bool(prune_norms)
    compiler = _home.compiler()
    key = _cache.key(_cache.compiler_identity(compiler), text, options)
    path = _cache.folder(cache_dir) / f"{key}.so"
    if not _cache.is_whole(path):
        _compiler.compile_library(compiler, name, text, options, path)
    return Policy(path)


def load(path: str | os.PathLike[str]) -> Policy:
    """Opens a library that `kvc-opt --emit=library` made. It is code: open those you trust."""
    return Policy(Path(path_of("a compiled policy must be a file", path)))


def _read(policy: str | os.PathLike[str]) -> tuple[str, bytes]:
    """What errors call the policy, and its text."""
    if isinstance(policy, str) and ("\n" in policy or "kvc.policy" in policy):
        try:
            return "<policy>", policy.encode()
        except UnicodeEncodeError as error:
            found = f"{policy[error.start]!r} at {error.start}"
            raise ArgumentError(f"the text of a policy must be one that UTF-8 has, got {found}") from None
    path = path_of("a policy must be a text, a file or the name of one that is shipped", policy)
    if isinstance(policy, str) and not path.endswith(".mlir") and os.sep not in path:
        shipped = policies()
        if path not in shipped:
            raise NotFoundError(f"a policy must be a text, a file or one of {', '.join(shipped)}; got {path!r}")
        path = str(shipped[path])
    try:
        with open(path, "rb") as file:
            return path, file.read()
    except OSError as error:
        raise NotFoundError(f"{path}: a policy must be a file that can be read: {error.strerror}") from None


def _items(params: Mapping[str, Param]) -> list[tuple[str, Param]]:
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise ArgumentError(f"params must be a mapping of names to numbers, got {params!r:.80}")
    return sorted(params.items())


def _number(name: str, value: Param) -> str:
    """A parameter as the compiler reads it: a decimal with no exponent."""
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        if isinstance(value, Fraction):
            # Exact, or not at all: 1/3 has no decimal.
            exact = Decimal(value.numerator) / Decimal(value.denominator)
            if Fraction(exact) != value:
                raise ValueError
            return format(exact, "f")
        return format(Decimal(str(value)), "f")
    except (TypeError, ValueError, ArithmeticError):
        raise ArgumentError(f"parameter {name!r} must be a decimal number, got {value!r}") from None


class Policy:
    """A compiled policy. It may be used by several threads, and be dropped while plans of it
    are in use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        """The library: what kvc-run takes as --policy, too."""
        first = Module(path)
        self._modules = {(first.device, 0, 0): first}
        self._lock = threading.Lock()
        self.manifest: Manifest = first.manifest

    @property
    def name(self) -> str:
        return self.manifest.policy

    def plan(
        self,
        *,
        kv_heads: int,
        max_tokens: int,
        max_batch: int = 1,
        q_heads: int | None = None,
        head_dim: int | None = None,
        dtype: str | None = None,
        lse_given: bool = False,
        device: str = "cpu",
        threads: int = 0,
        seed: int = 0,
    ) -> Plan:
        """Fits the policy to an engine's limits.

        kv_heads: KV heads of a layer. max_tokens, max_batch: the longest sequence and the
            most sequences of a call.
        q_heads, head_dim, dtype: needed only for a library of several shapes.
        lse_given: every call brings the log-sum-exp of the attention.
        device: "cpu", or "cuda:1" and so on for a GPU that the policy was compiled for (`arch`). On the
            CPU kernels run as on a GPU, thread by thread: for truth, not speed.
        threads: of the operating system, 0 for one per core. On the CPU alone, as is `seed`.
        seed: shuffles the order of the kernels' threads; the result must not depend on it.
        """
        where = _device.parse(device)
        kv_heads = whole("kv_heads", kv_heads)
        threads, seed = whole("threads", threads, 0), whole("seed", seed, 0, 2**64 - 1)
        variant = self._variant(kv_heads, q_heads, head_dim, dtype)
        with self._lock:
            key = (where, threads, seed) if where == _device.CPU else (where, 0, 0)
            module = self._modules.get(key)
            if module is None:
                module = self._modules[key] = Module(self.path, *key)
        return Plan(
            module,
            variant,
            q_heads=kv_heads * variant.group,
            kv_heads=kv_heads,
            max_batch=max_batch,
            max_tokens=max_tokens,
            lse_given=lse_given,
        )

    def _variant(self, kv_heads: int, q_heads: int | None, head_dim: int | None, dtype: str | None) -> Variant:
        fitting = [
            variant
            for variant in self.manifest.variants
            if q_heads in (None, variant.group * kv_heads)
            and head_dim in (None, variant.head_dim)
            and dtype in (None, variant.dtype)
        ]
        if len(fitting) == 1:
            return fitting[0]
        shapes = "; ".join(f"head_dim={v.head_dim},group={v.group},dtype={v.dtype}" for v in self.manifest.variants)
        raise ArgumentError(
            f"q_heads, head_dim and dtype must name one shape that policy {self.name!r} is compiled for ({shapes}), "
            f"got {q_heads}, {head_dim}, {dtype} with {kv_heads} KV heads"
        )

    def __copy__(self) -> Policy:
        """Itself: nothing in it changes that a caller sees."""
        return self

    def __deepcopy__(self, memo: object) -> Policy:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Where it is read the library must be in its place."""
        return load, (str(self.path),)

    def __repr__(self) -> str:
        return f"<kvc.Policy {self.name} {str(self.path)!r}>"
