"""Attention over a cache whose heads have rows of their own number, and new rows for it."""

from __future__ import annotations

from ctypes import byref, c_size_t, pointer

from . import _abi, _device, _library
from ._check import factor, whole
from ._memory import following
from ._tensors import Tensor, View, expect, stride
from .errors import ArgumentError
from .view import CacheView

_ALIGNMENT = 64
"""Of a workspace."""


def _expect_view(cache: object) -> None:
    if not isinstance(cache, CacheView):
        raise ArgumentError(f"cache must be a CacheView, got {type(cache).__name__}")


def append(cache: CacheView, k: Tensor, v: Tensor) -> None:
    """Writes the rows of the next tokens behind those of each head, with their positions, and the
    new counts and lengths.

    k, v: [batch, kv_heads, tokens, head_dim] of the cache's type, of any strides, in the order of
        the tokens. Keys are after RoPE, but for a merged cache before it.

    Everything is checked before a byte is written; on a GPU see `CacheView.check`.
    """
    _expect_view(cache)
    cache.expect_writable()
    keys = _rows_of("k", k, cache, None)
    values = _rows_of("v", v, cache, keys.shape[2])
    cache.expect_room(keys.shape[2])
    kind, number = _device.target(cache.device)
    arguments = _abi.AppendArgs(
        target=kind,
        device=number,
        stream=following(k, cache.dtype, cache.device).stream,
        cache=pointer(cache.fields),
        k=_rows(keys),
        v=_rows(values),
        rows=keys.shape[2],
        status=cache.status(),
    )
    _library.load().kvc_append(byref(arguments))


def attend(
    cache: CacheView,
    q: Tensor,
    *,
    scale: float | None = None,
    out: Tensor | None = None,
    lse: Tensor | None = None,
    lse_base_2: bool = False,
    rope: Tensor | None = None,
    threads: int = 0,
    max_rows: int | None = None,
) -> Tensor:
    """softmax(scale * q k^T) v over the rows that each query sees; sums are in f32.

    q: [batch, q_heads, queries, head_dim] of the cache's type, of any strides: the newest tokens,
        whose rows are in the cache (`append`). Query j of n is at position T - n + j, and sees rows
        of a position up to its own.
    scale: of the logits, 1 / sqrt(head_dim) by default.
    out: where the result goes, of q's shape, f32 or the cache's type; otherwise it is a new
        tensor of q's library and type.
    lse: [batch, q_heads, queries] f32, where the log-sum-exp of the logits goes, natural or to
        base 2. It is -infinity for a query that sees nothing, whose result is 0.
    rope: [positions, head_dim / 2, 2] f32, cosine and sine of every angle, for merged rows.
    threads: at most so many, 0 for one per core.
    max_rows: no head has more rows (members, of merged ones). On the CPU it is counted; on a GPU
        the view's room stands for it, and less makes better use of the GPU.

    How the rows lie, and the number of threads, change no byte of the result. On a GPU it returns
    when it is queued (`CacheView.check`).
    """
    _expect_view(cache)
    heads: list[tuple[str, int | None]] = [("batch", cache.batch), ("q_heads", None), ("queries", None)]
    queries = expect(cache.see("q", q), [*heads, ("head_dim", cache.head_dim)], cache.dtype)
    shape = [(name, extent) for (name, _), extent in zip(heads, queries.shape[:3], strict=True)]
    cache.expect_room(0)
    memory = following(q, cache.dtype, cache.device)
    if out is None:
        out = memory.empty(queries.shape)
    result = cache.see("out", out)
    expect(result, [*shape, ("head_dim", cache.head_dim)], "f32" if result.dtype == "f32" else cache.dtype)
    kind, number = _device.target(cache.device)
    arguments = _abi.AttendArgs(
        target=kind,
        device=number,
        stream=memory.stream,
        cache=pointer(cache.fields),
        threads=whole("threads", threads, 0),
        q_heads=queries.shape[1],
        queries=queries.shape[2],
        q=_rows(queries),
        out=_abi.Plane(result.address, *(stride(result, axis) for axis in range(3))),
        out_dtype=_abi.F32 if result.dtype == "f32" else cache.fields.dtype,
        lse_base_2=lse_base_2,
        scale=0.0 if scale is None else factor("scale", scale),
        max_rows=_most(cache) if max_rows is None else whole("max_rows", max_rows),
        status=cache.status(),
    )
    written = [result]
    if lse is not None:
        sums = expect(cache.see("lse", lse), shape, "f32")
        arguments.lse = sums.address
        arguments.lse_batch_stride, arguments.lse_head_stride = stride(sums, 0), stride(sums, 1)
        written.append(sums)
    for tensor in written:
        if not tensor.writable:
            raise ArgumentError(f"{tensor.name} must be a tensor that can be written to, got a read-only one")
    if rope is not None:
        pairs: list[tuple[str, int | None]] = [("head_dim / 2", cache.head_dim // 2), ("cosine and sine", 2)]
        angles = expect(cache.see("rope", rope), [("positions", None), *pairs], "f32", contiguous=True)
        arguments.rope, arguments.rope_positions = angles.address, angles.shape[0]
    library = _library.load()
    size = c_size_t()
    library.kvc_attend_workspace(byref(arguments), byref(size))
    if size.value:
        room = memory.empty([size.value + _ALIGNMENT], "u8")
        address = cache.see("workspace", room).address
        arguments.workspace = address + -address % _ALIGNMENT
        arguments.workspace_bytes = size.value
    library.kvc_attend(byref(arguments))
    return out


def _most(cache: CacheView) -> int:
    return max(1, cache.most_rows) if cache.on_host else 0


def _rows_of(name: str, tensor: Tensor, cache: CacheView, tokens: int | None) -> View:
    shape = [("batch", cache.batch), ("kv_heads", cache.kv_heads), ("tokens", tokens), ("head_dim", cache.head_dim)]
    return expect(cache.see(name, tensor), shape, cache.dtype)


def _rows(tensor: View) -> _abi.Rows:
    return _abi.Rows(tensor.address, stride(tensor, 0), stride(tensor, 1), stride(tensor, 2))
