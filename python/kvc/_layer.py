"""One layer's call: kvc_layer_args, filled field by field from tensors that are checked first.

What the library cannot know it would have to believe: how large the memory behind an address
is, and what is in it. So devices, shapes, types, strides and, on the CPU, lengths and budgets are
checked here; what the library checks itself (alignment, limits of the plan) is left to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_void_p
from typing import Any, Literal, Protocol

import numpy as np

from . import _abi, _device, _library
from ._tensors import Tensor, View, bits, expect, stride, view_on
from .errors import ArgumentError

Shape = Sequence[tuple[str, "int | None"]]


IMPORTANCE = "the importance of heads must be finite, 0 or more and above 0 for some head"
"""What a table must be."""


class Limits(Protocol):
    """What a call must know of its plan."""

    pointer: c_void_p
    q_heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    device: str

    @property
    def queries(self) -> int | Literal["all"]: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def workspace_alignment(self) -> int: ...


class Arguments:
    """What every call's arguments are made of. Keeps the tensors alive."""

    def __init__(self, plan: Limits, batch: int) -> None:
        self._plan, self.batch = plan, batch
        self._alive: list[object] = [plan]
        self.args = _abi.LayerArgs()

    def projection(self, wo: Tensor) -> None:
        """The weight of the output projection as frameworks store it, a row per output; one
        for all sequences, or [batch, hidden, width]."""
        plan = self._plan
        weight = self._tensor("wo", wo)
        width = plan.q_heads * plan.head_dim
        shape: list[tuple[str, int | None]] = [("hidden", None), ("q_heads * head_dim", width)]
        if len(weight.shape) == 3:
            shape.insert(0, ("batch", self.batch))
        expect(weight, shape, plan.dtype)
        batch_stride = stride(weight, 0) if len(weight.shape) == 3 else 0
        self.args.wo = _abi.Rows(weight.address, batch_stride, plan.head_dim, stride(weight, -2))
        self.args.hidden = weight.shape[-2]

    def prepared(self, prepared: Tensor, *, writes: bool = False) -> None:
        """What kvc_layer_prepare leaves of the projection, of one layer for all sequences."""
        see = self._output if writes else self._input
        room = see("prepared", prepared, [("bytes", None)], "u8")
        self.args.prepared, self.args.prepared_bytes = room.address, room.shape[0]

    def run(self, function: str, stream: int | None = None) -> None:
        """kvc_layer_prepare, kvc_layer_score, kvc_layer_select, kvc_compact or kvc_layer_evict; back when done or, on a
        GPU, when queued."""
        getattr(_library.load(), function)(self._plan.pointer, byref(self.args), stream)

    def _tensor(self, name: str, tensor: Tensor) -> View:
        seen = view_on(name, tensor, self._plan.device, "the plan's")
        self._alive.append(seen)
        return seen

    def _input(self, name: str, tensor: Tensor, shape: Shape, dtype: str) -> View:
        return expect(self._tensor(name, tensor), shape, dtype, contiguous=True)

    def _output(self, name: str, tensor: Tensor, shape: Shape, dtype: str) -> View:
        seen = self._input(name, tensor, shape, dtype)
        if not seen.writable:
            raise ArgumentError(f"{name} must be a tensor that can be written to, got a read-only one")
        return seen


class LayerCall(Arguments):
    """Arguments of kvc_layer_* for one layer of a batch."""

    def __init__(self, plan: Limits, k: Tensor, layer: int, layers: int, scale: float, slack: int) -> None:
        super().__init__(plan, 1)
        keys = self._tensor("k", k)
        expect(
            keys,
            [("batch", None), ("kv_heads", plan.kv_heads), ("tokens", None), ("head_dim", plan.head_dim)],
            plan.dtype,
        )
        self.batch, self.rows = keys.shape[0], keys.shape[2]
        self.tokens = self.rows
        """Of the longest sequence: at most the rows that k has."""
        self.args = _abi.LayerArgs(
            batch=self.batch,
            tokens=self.tokens,
            layer=layer,
            layers=layers,
            k=_rows(keys),
            scale=scale,
            slack=slack,
        )

    @property
    def on_host(self) -> bool:
        return self._plan.device == _device.CPU

    @property
    def queries(self) -> int:
        """How many rows of queries the plan reads in this call."""
        return self.tokens if self._plan.queries == "all" else self._plan.queries

    def sequences(self, lengths: Tensor, budgets: Tensor, longest: int | None = None) -> None:
        """longest: of `lengths`, where somebody has looked at both already."""
        for name, tensor, most in (("lengths", lengths, self.rows), ("budgets", budgets, None)):
            numbers = expect(self._tensor(name, tensor), [("batch", self.batch)], "i32", contiguous=True)
            setattr(self.args, name, numbers.address)
            # On a GPU they are not known here; no sequence is longer than k.
            if longest is None and self.on_host:
                largest = expect_numbers(name, bits(numbers), most)
                if most is not None:
                    self.args.tokens = self.tokens = largest
        if longest is not None:
            self.args.tokens = self.tokens = longest

    def cache(self, name: str, tensor: Tensor) -> None:
        """v or k_raw: as k."""
        plan = self._plan
        rows = expect(
            self._tensor(name, tensor),
            [("batch", self.batch), ("kv_heads", plan.kv_heads), ("tokens", self.rows), ("head_dim", plan.head_dim)],
            plan.dtype,
        )
        setattr(self.args, name, _rows(rows))

    def query_rows(self, q: Tensor) -> None:
        rows = self.expect_queries(q)
        self.args.q = _rows(rows)
        self.args.q_rows = rows.shape[2]

    def expect_queries(self, q: Tensor) -> View:
        plan = self._plan
        shape = [("batch", self.batch), ("q_heads", plan.q_heads), ("queries", None), ("head_dim", plan.head_dim)]
        return expect(self._tensor("q", q), shape, plan.dtype)

    def log_sum_exp(self, lse: Tensor, base_2: bool) -> None:
        shape = [("batch", self.batch), ("q_heads", self._plan.q_heads), ("queries", None)]
        rows = expect(self._tensor("lse", lse), shape, "f32")
        self.args.lse = rows.address
        self.args.lse_batch_stride, self.args.lse_head_stride = stride(rows, 0), stride(rows, 1)
        self.args.lse_rows = rows.shape[2]
        self.args.lse_base_2 = base_2

    def table(self, table: Tensor) -> None:
        shape = [("layers", self.args.layers), ("q_heads", self._plan.q_heads)]
        importance = expect(self._tensor("table", table), shape, "f32", contiguous=True)
        if self.on_host:
            values = bits(importance)
            if not ((values >= 0) & (values < float("inf"))).all() or not values.any():
                raise ArgumentError(f"{IMPORTANCE}, got {values.min()} to {values.max()}")
        self.args.table = importance.address

    def state(self, state: Tensor) -> None:
        words = self._output("state", state, [("batch", None), ("tokens", None)], "i32")
        if words.shape[0] < self.batch:
            raise ArgumentError(f"state must be for {self.batch} sequences or more, got {list(words.shape)}")
        self.args.state = words.address
        self.args.state_rows = words.shape[1]

    def selection(self, indices: Tensor, counts: Tensor, past: Tensor, status: Tensor) -> None:
        heads = [("batch", self.batch), ("kv_heads", self._plan.kv_heads)]
        places = self._output("indices", indices, [*heads, ("capacity", None)], "i32")
        self.args.indices = places.address
        self.args.index_capacity = places.shape[2]
        self._counts = self._output("counts", counts, heads, "i32")
        self.args.counts = self._counts.address
        self.args.past = self._output("past", past, heads[:1], "i32").address
        self.args.status = self._output("status", status, [("status", 1)], "i32").address

    def members(self, rows: Tensor, positions: Tensor, norms: Tensor, counts: Tensor) -> None:
        heads = [("batch", self.batch), ("kv_heads", self._plan.kv_heads)]
        first = self._output("member_rows", rows, [*heads, ("capacity", None)], "i32")
        shape = [*heads, ("capacity", first.shape[2])]
        self.args.member_rows = first.address
        self.args.member_positions = self._output("member_positions", positions, shape, "i32").address
        self.args.member_norms = self._output("member_norms", norms, shape, "f32").address
        self.args.member_counts = self._output("member_counts", counts, heads, "i32").address
        self.args.member_capacity = first.shape[2]

    def kept_rows(self, counts: np.ndarray[Any, Any] | None = None) -> int:
        """Behind a selection: the most rows of a sequence, slack included. counts: what a GPU has
        counted."""
        counts = bits(self._counts) if counts is None else counts
        return int(counts.astype(np.int64).sum(axis=1).max() + self._plan.kv_heads * self.args.slack)

    def compacted(self, k_out: Tensor, v_out: Tensor, offsets: Tensor) -> None:
        plan = self._plan
        keys = self._output(
            "k_out", k_out, [("batch", self.batch), ("rows", None), ("head_dim", plan.head_dim)], plan.dtype
        )
        shape = [("batch", self.batch), ("rows", keys.shape[1]), ("head_dim", plan.head_dim)]
        values = self._output("v_out", v_out, shape, plan.dtype)
        self.args.k_out, self.args.v_out = keys.address, values.address
        self.args.out_rows = keys.shape[1]
        heads = [("batch", self.batch), ("kv_heads", plan.kv_heads)]
        self.args.offsets = self._output("offsets", offsets, heads, "i32").address

    def workspace(self, workspace: Tensor) -> int:
        """Scratch memory, wherever it begins: frameworks copy tensors to addresses of theirs.
        Says how many bytes in front are skipped."""
        room = self._output("workspace", workspace, [("bytes", None)], "u8")
        skipped = -room.address % self._plan.workspace_alignment
        if room.shape[0] < self._plan.workspace_bytes:
            raise ArgumentError(f"workspace must have {self._plan.workspace_bytes} bytes, got {room.shape[0]}")
        self.args.workspace = room.address + skipped
        self.args.workspace_bytes = room.shape[0] - skipped
        return skipped


def expect_numbers(name: str, values: np.ndarray[Any, Any], most: int | None) -> int:
    """Refuses lengths or budgets that cannot be; gives the largest."""
    if values.min() < 1 or (most is not None and values.max() > most):
        limit = "at least 1" if most is None else f"1 to {most}, the tokens in k"
        raise ArgumentError(f"{name} must be {limit}, got {values.tolist()}")
    return int(values.max())


def _rows(tensor: View) -> _abi.Rows:
    return _abi.Rows(tensor.address, stride(tensor, 0), stride(tensor, 1), stride(tensor, 2))
