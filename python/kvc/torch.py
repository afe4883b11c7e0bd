"""torch.ops.kvc: eviction as operators that torch.compile and graphs can take in.

They are out-variants: every result goes into a tensor that the caller has made (`buffers`
makes them all), of sizes that do not depend on the data, and each is declared as mutated. So
nothing is allocated, no size is read back, and a compiled model calls them without a break.

    kvc::select(int plan, ...)  which tokens stay
    kvc::evict(int plan, ...)   and their keys and values, packed
    kvc::append, kvc::attend    a cache whose heads have rows of their own number (`Cache`)

`plan` is a plan's number; `select` and `evict` of this module fill it in. Keep the plan for as
long as what was compiled with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from . import _torch_attend
from ._check import whole
from ._layer import LayerCall
from ._memory import following
from .errors import ArgumentError, LimitError
from .plan import Plan, live

_INPUTS = (
    "int plan, Tensor? q, Tensor k, Tensor v, Tensor lengths, Tensor budgets, int layer, int layers, "
    "float scale, Tensor? lse, bool lse_base_2, Tensor? wo, Tensor? prepared, Tensor? k_raw, Tensor? table, "
    "Tensor(a!)? state"
)
_SELECTED = (
    "Tensor(b!) workspace, Tensor(c!) indices, Tensor(d!) counts, Tensor(e!) past, Tensor(f!) status, "
    "Tensor(g!)? member_rows, Tensor(h!)? member_positions, Tensor(i!)? member_norms, Tensor(j!)? member_counts"
)
_COMPACTED = "int slack, Tensor(k!) k_out, Tensor(l!) v_out, Tensor(m!) offsets"

_DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

MaybeTensor = torch.Tensor | None

Cache = _torch_attend.Cache
append = _torch_attend.append
attend = _torch_attend.attend


@dataclass(frozen=True)
class Buffers:
    """What a call writes, and its scratch memory. One call at a time may use them."""

    workspace: torch.Tensor
    indices: torch.Tensor
    """[batch, kv_heads, capacity] i32, ascending; of each head the first `counts`."""
    counts: torch.Tensor
    past: torch.Tensor
    status: torch.Tensor
    """[1] i32, bits: 1 a score was NaN, 2 rows found no room, 4 a table is not as it must be. The caller
    clears it, and on a GPU is who looks at it."""
    k: torch.Tensor
    """[batch, rows, head_dim], packed head after head."""
    v: torch.Tensor
    offsets: torch.Tensor
    slack: int
    member_rows: MaybeTensor = None
    member_positions: MaybeTensor = None
    member_norms: MaybeTensor = None
    member_counts: MaybeTensor = None


def buffers(
    plan: Plan, batch: int | None = None, tokens: int | None = None, rows: int | None = None, slack: int = 0
) -> Buffers:
    """Buffers for calls of `batch` sequences of up to `tokens` tokens, by default the plan's
    limits. rows: of a sequence in k and v; by default all tokens of all heads find room."""
    batch = whole("batch", plan.max_batch if batch is None else batch)
    tokens, slack = whole("tokens", plan.max_tokens if tokens is None else tokens), whole("slack", slack, 0)
    heads = (batch, plan.kv_heads)
    room = (batch, whole("rows", plan.kv_heads * (tokens + slack) if rows is None else rows), plan.head_dim)

    def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=plan.device)

    merged = []
    if plan.manifest.merges:
        merged = [zeros(*heads, tokens, dtype=dtype) for dtype in (torch.int32, torch.int32, torch.float32)]
        merged.append(zeros(*heads))
    return Buffers(
        zeros(plan.workspace_bytes, dtype=torch.uint8),
        zeros(*heads, tokens),
        zeros(*heads),
        zeros(batch),
        zeros(1),
        zeros(*room, dtype=_DTYPES[plan.dtype]),
        zeros(*room, dtype=_DTYPES[plan.dtype]),
        zeros(*heads),
        slack,
        *merged,
    )


def select(
    plan: Plan,
    q: MaybeTensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    lengths: torch.Tensor,
    budgets: torch.Tensor,
    out: Buffers,
    layer: int = 0,
    layers: int = 1,
    scale: float | None = None,
    lse: MaybeTensor = None,
    lse_base_2: bool = False,
    wo: MaybeTensor = None,
    prepared: MaybeTensor = None,
    k_raw: MaybeTensor = None,
    table: MaybeTensor = None,
    state: MaybeTensor = None,
) -> None:
    """Writes to `out` which tokens stay. Tensors as for `Plan.evict`; lengths and budgets are
    [batch] i32, and everything that the policy reads must be there."""
    default = 0.0 if scale is None else scale
    torch.ops.kvc.select(
        *(plan.number, q, k, v, lengths, budgets, layer, layers, default),
        *(lse, lse_base_2, wo, prepared, k_raw, table, state),
        *_selected(out),
    )


def evict(
    plan: Plan,
    q: MaybeTensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    lengths: torch.Tensor,
    budgets: torch.Tensor,
    out: Buffers,
    layer: int = 0,
    layers: int = 1,
    scale: float | None = None,
    lse: MaybeTensor = None,
    lse_base_2: bool = False,
    wo: MaybeTensor = None,
    prepared: MaybeTensor = None,
    k_raw: MaybeTensor = None,
    table: MaybeTensor = None,
    state: MaybeTensor = None,
) -> None:
    """As `select`, and packs the kept keys and values into `out`. Where they find no room it
    raises LimitError; on a GPU `out.status` says so."""
    default = 0.0 if scale is None else scale
    torch.ops.kvc.evict(
        *(plan.number, q, k, v, lengths, budgets, layer, layers, default),
        *(lse, lse_base_2, wo, prepared, k_raw, table, state),
        *_selected(out),
        *(out.slack, out.k, out.v, out.offsets),
    )


def _selected(out: Buffers) -> tuple[MaybeTensor, ...]:
    members = (out.member_rows, out.member_positions, out.member_norms, out.member_counts)
    return (out.workspace, out.indices, out.counts, out.past, out.status, *members)


def _prepare(  # type: ignore[no-untyped-def]
    number,
    q,
    k,
    v,
    lengths,
    budgets,
    layer,
    layers,
    scale,
    lse,
    lse_base_2,
    wo,
    prepared,
    k_raw,
    table,
    state,
    workspace,
    indices,
    counts,
    past,
    status,
    *members,
    slack=0,
) -> tuple[LayerCall, int | None]:
    plan = live.get(number)
    if plan is None:
        raise ArgumentError(f"plan must be the number of a kvc.Plan that is there, got {number}")
    reads = plan.manifest.reads
    layers = whole("layers", layers)
    call = LayerCall(plan, k, whole("layer", layer, 0, layers - 1), layers, scale, slack)
    call.sequences(lengths, budgets)
    call.cache("v", v)
    # What is missing the library names.
    if q is not None and "q" in reads:
        call.query_rows(q)
    if lse is not None and "q" in reads:
        call.log_sum_exp(lse, lse_base_2)
    if wo is not None and "wo" in reads:
        call.projection(wo)
    if prepared is not None and plan.prepared_bytes:
        call.prepared(prepared)
    if k_raw is not None and "k_raw" in reads:
        call.cache("k_raw", k_raw)
    if table is not None and "table" in reads:
        call.table(table)
    if state is not None and "state" in reads:
        call.state(state)
    call.workspace(workspace)
    call.selection(indices, counts, past, status)
    if plan.manifest.merges and all(member is not None for member in members):
        call.members(*members)
    return call, following(k, plan.dtype, plan.device).stream


def _select(*arguments) -> None:  # type: ignore[no-untyped-def]
    call, stream = _prepare(*arguments)
    call.run("kvc_layer_score", stream)
    call.run("kvc_layer_select", stream)


def _evict(*arguments) -> None:  # type: ignore[no-untyped-def]
    *inputs, slack, k_out, v_out, offsets = arguments
    call, stream = _prepare(*inputs, slack=whole("slack", slack, 0))
    call.compacted(k_out, v_out, offsets)
    call.run("kvc_layer_evict", stream)
    # The library drops rows that find no room, as a GPU must. On the CPU it is known at once.
    if call.on_host and call.kept_rows() > k_out.shape[1]:
        raise LimitError(f"k_out must have room for the {call.kept_rows()} rows that were kept, got {k_out.shape[1]}")


def _nothing(*arguments) -> None:  # type: ignore[no-untyped-def]
    """What the ops do as far as shapes go: all results are in the buffers."""
    devices = sorted({str(tensor.device) for tensor in arguments if isinstance(tensor, torch.Tensor)})
    if len(devices) > 1:
        raise ArgumentError(f"tensors of one call must be on one device, got {' and '.join(devices)}")


# Tensors come to the ops as they lie in eager mode, transposed views as such.
_strides = getattr(torch.Tag, "needs_exact_strides", None) or torch.Tag.needs_fixed_stride_order
_library: Any = torch.library.Library("kvc", "DEF")  # type: ignore[no-untyped-call]
for _name, _results, _kernel in (("select", _SELECTED, _select), ("evict", f"{_SELECTED}, {_COMPACTED}", _evict)):
    _library.define(f"{_name}({_INPUTS}, {_results}) -> ()", tags=(torch.Tag.pt2_compliant_tag, _strides))
    # For every device: tensors that are not on the plan's are refused by name.
    _library.impl(_name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"kvc::{_name}", _nothing, lib=_library)
