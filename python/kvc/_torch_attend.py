"""torch.ops.kvc.attend and torch.ops.kvc.append: `kvc.attend` and `kvc.append` for compiled models.

kvc::append(str kind, ...)  declares what it writes: k, v, counts, lengths and positions
kvc::attend(str kind, ...)  gives new tensors, of shapes that only the queries decide
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch

from . import attention as host
from .errors import ArgumentError
from .view import CacheView

_WRITTEN = (
    "str kind, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor(c!) counts, Tensor(d!)? lengths, "
    "Tensor(e!)? positions, Tensor? offsets, Tensor? table, Tensor? v_table"
)
_READ = (
    "str kind, Tensor k_cache, Tensor v_cache, Tensor counts, Tensor? lengths, "
    "Tensor? positions, Tensor? offsets, Tensor? table, Tensor? v_table"
)
_KINDS: dict[str, tuple[Any, set[str]]] = {
    "dense": (CacheView.dense, {"offsets"}),
    "ragged": (CacheView.ragged, {"offsets"}),
    "paged": (CacheView.paged, {"offsets", "table", "v_table"}),
}


@dataclass(frozen=True)
class Cache:
    """The tensors of a `kvc.CacheView`; `kind` names the way that it is made: dense, ragged or
    paged."""

    kind: str
    k: torch.Tensor
    v: torch.Tensor
    counts: torch.Tensor
    lengths: torch.Tensor | None = None
    positions: torch.Tensor | None = None
    offsets: torch.Tensor | None = None
    table: torch.Tensor | None = None
    v_table: torch.Tensor | None = None

    def tensors(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


def append(cache: Cache, k: torch.Tensor, v: torch.Tensor) -> None:
    """`kvc.append` as an operator."""
    torch.ops.kvc.append(*cache.tensors(), k, v)


def attend(cache: Cache, q: torch.Tensor, scale: float | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """`kvc.attend` as an operator: the result, and [batch, q_heads, queries] f32, the natural
    log-sum-exp of the logits."""
    found: tuple[torch.Tensor, torch.Tensor] = torch.ops.kvc.attend(*cache.tensors(), q, scale)
    return found


def _view(kind: str, k: Any, v: Any, counts: Any, lengths: Any, positions: Any, **where: Any) -> CacheView:
    if kind not in _KINDS:
        raise ArgumentError(f"a cache must be dense, ragged or paged, got {kind!r}")
    make, known = _KINDS[kind]
    given = {name: tensor for name, tensor in where.items() if tensor is not None}
    needed = {"ragged": "offsets", "paged": "table"}.get(kind)
    if needed and needed not in given:
        raise ArgumentError(f"{needed} of a {kind} cache must be given, got None")
    if not set(given) <= known:
        raise ArgumentError(f"a {kind} cache must have no {min(set(given) - known)}, got one")
    view: CacheView = make(k, v, counts=counts, lengths=lengths, positions=positions, **given)
    # It ends with the call.
    view.watched = False
    return view


def _append(  # type: ignore[no-untyped-def]
    kind, k_cache, v_cache, counts, lengths, positions, offsets, table, v_table, k, v
) -> None:
    where = {"offsets": offsets, "table": table, "v_table": v_table}
    host.append(_view(kind, k_cache, v_cache, counts, lengths, positions, **where), k, v)


def _attend(  # type: ignore[no-untyped-def]
    kind, k_cache, v_cache, counts, lengths, positions, offsets, table, v_table, q, scale
) -> tuple[torch.Tensor, torch.Tensor]:
    where = {"offsets": offsets, "table": table, "v_table": v_table}
    out, lse = _shapes(q)
    host.attend(_view(kind, k_cache, v_cache, counts, lengths, positions, **where), q, scale=scale, out=out, lse=lse)
    return out, lse


def _shapes(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(q.shape, dtype=q.dtype, device=q.device), torch.empty(
        q.shape[:3], dtype=torch.float32, device=q.device
    )


def _attend_fake(*arguments) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[no-untyped-def]
    return _shapes(arguments[-2])


def _append_fake(*arguments) -> None:  # type: ignore[no-untyped-def]
    """All that it makes is written."""


# Tensors come to the ops as they lie in eager mode, transposed views as such.
_strides = getattr(torch.Tag, "needs_exact_strides", None) or torch.Tag.needs_fixed_stride_order
_library: Any = torch.library.Library("kvc", "FRAGMENT")  # type: ignore[no-untyped-call]
for _name, _schema, _kernel, _fake in (
    ("append", f"({_WRITTEN}, Tensor k, Tensor v) -> ()", _append, _append_fake),
    ("attend", f"({_READ}, Tensor q, float? scale) -> (Tensor, Tensor)", _attend, _attend_fake),
):
    _library.define(f"{_name}{_schema}", tags=(torch.Tag.pt2_compliant_tag, _strides))
    # For every device: tensors that are not where k is are refused by name.
    _library.impl(_name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"kvc::{_name}", _fake, lib=_library)
