"""A policy, fitted to an engine's limits, and its way through one layer."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Sequence
from ctypes import byref, c_void_p
from typing import Any, Literal, NoReturn

import numpy as np

from . import _abi, _library
from ._check import factor, whole
from ._layer import IMPORTANCE, Arguments, LayerCall, expect_numbers
from ._memory import following, zeros_on
from ._module import Module
from ._tensors import Tensor, view
from .budget import Budget, tokens_of
from .errors import ArgumentError, DataWarning, InternalError, UnsupportedError
from .kept import Kept, Members
from .manifest import Manifest, Variant

_numbers = itertools.count(1)
live: weakref.WeakValueDictionary[int, Plan] = weakref.WeakValueDictionary()
"""Plans by their numbers: how an op of torch, which takes numbers and tensors, finds one."""

_DTYPES = {"f32": _abi.F32, "f16": _abi.F16, "bf16": _abi.BF16}


class Plan:
    """Made by `Policy.plan`. It never changes: several threads may use it at the same time,
    each call has memory of its own."""

    def __init__(
        self,
        module: Module,
        variant: Variant,
        *,
        q_heads: int,
        kv_heads: int,
        max_batch: int,
        max_tokens: int,
        lse_given: bool,
    ) -> None:
        self.manifest: Manifest = module.manifest
        self.head_dim, self.dtype = variant.head_dim, variant.dtype
        self.device = module.device
        """"cpu", or "cuda:N": where tensors of a call must be."""
        self.kv_heads, self.q_heads = kv_heads, q_heads
        self.max_batch, self.max_tokens = whole("max_batch", max_batch), whole("max_tokens", max_tokens)
        self.lse_given = bool(lse_given)
        library = _library.load()
        options = _abi.PlanOptions(
            head_dim=self.head_dim,
            q_heads=self.q_heads,
            kv_heads=self.kv_heads,
            dtype=_DTYPES[self.dtype],
            max_batch=self.max_batch,
            max_tokens=self.max_tokens,
            lse_given=self.lse_given,
        )
        self.pointer = c_void_p()
        library.kvc_plan_create(module.pointer, byref(options), byref(self.pointer))
        # The module goes with the finalizer: it must be open when the plan is destroyed.
        weakref.finalize(
            self, lambda pointer, _: library.kvc_plan_destroy(pointer), self.pointer, module
        ).atexit = False
        self._info = _abi.PlanInfo()
        library.kvc_plan_query(self.pointer, byref(self._info))
        self.number = next(_numbers)
        """What torch.ops.kvc takes as `plan`."""
        live[self.number] = self

    @property
    def queries(self) -> int | Literal["all"]:
        """How many of the last queries a call must bring."""
        return self.manifest.queries

    @property
    def launches(self) -> int:
        """Kernels per layer."""
        return int(self._info.launches)

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory of one call, with room to align what it begins at."""
        return int(self._info.workspace_bytes) + self.workspace_alignment

    @property
    def workspace_alignment(self) -> int:
        """What the address that kernels get is a multiple of."""
        return int(self._info.workspace_alignment)

    @property
    def prepared_bytes(self) -> int:
        """What `prepare` leaves of a layer; 0 where nothing depends on its weights alone."""
        return int(self._info.prepared_bytes)

    def prepare(self, wo: Tensor) -> Tensor:
        """What depends on a layer's weights alone, once for all calls of the layer: bytes, which
        `select` and `evict` take as `prepared`.

        wo: [hidden, q_heads * head_dim], the weight of the output projection.
        """
        call = Arguments(self, 1)
        call.projection(wo)
        memory = following(wo, self.dtype, self.device)
        room = memory.empty([self.prepared_bytes + _abi.PREPARED_ALIGNMENT], "u8")
        skipped = -view("prepared", room).address % _abi.PREPARED_ALIGNMENT
        prepared = room[skipped : skipped + self.prepared_bytes]
        if self.prepared_bytes:
            call.prepared(prepared, writes=True)
            call.run("kvc_layer_prepare", memory.stream)
        return prepared

    def state(self, batch: int | None = None, tokens: int | None = None) -> Tensor:
        """What a policy that reads `state` carries from layer to layer: one word per token of
        each sequence, all 0 as the first layer wants it. Any tensor of int32 does as well."""
        sizes = ("batch", batch, self.max_batch), ("tokens", tokens, self.max_tokens)
        rows, columns = (whole(name, most if size is None else size) for name, size, most in sizes)
        return zeros_on(self.device, (rows, columns))

    def select(
        self,
        q: Tensor | None,
        k: Tensor,
        v: Tensor | None = None,
        *,
        budget: Budget | Sequence[Budget],
        lengths: Sequence[int] | Tensor | None = None,
        layer: int | None = None,
        layers: int | None = None,
        lse: Tensor | None = None,
        lse_base_2: bool = False,
        wo: Tensor | None = None,
        prepared: Tensor | None = None,
        k_raw: Tensor | None = None,
        table: Tensor | None = None,
        state: Tensor | None = None,
        scale: float | None = None,
        scores: bool = False,
    ) -> Kept:
        """Says which tokens of a layer stay, and copies nothing. Arguments as for `evict`;
        values are needed only where ranking reads them."""
        call = _Call(self, q, k, v, budget, lengths, layer, layers, scale, 0)
        call.bring(lse, lse_base_2, wo, prepared, k_raw, table, state)
        return call.run(compact=False, scores=scores)

    def evict(
        self,
        q: Tensor | None,
        k: Tensor,
        v: Tensor,
        *,
        budget: Budget | Sequence[Budget],
        lengths: Sequence[int] | Tensor | None = None,
        layer: int | None = None,
        layers: int | None = None,
        lse: Tensor | None = None,
        lse_base_2: bool = False,
        wo: Tensor | None = None,
        prepared: Tensor | None = None,
        k_raw: Tensor | None = None,
        table: Tensor | None = None,
        state: Tensor | None = None,
        scale: float | None = None,
        slack: int = 0,
        scores: bool = False,
    ) -> Kept:
        """Evicts one layer of a batch: says which tokens stay and packs their keys and values.

        q: [batch, q_heads, queries, head_dim], the last queries after RoPE; the last row is
            the last query's, whatever the length of the sequence. None where the policy reads
            none, or where nothing is ranked.
        k, v: [batch, kv_heads, tokens, head_dim], keys after RoPE. Any strides will do, as
            long as rows are contiguous.
        budget: of a KV head, window included, for all sequences or one each: a number of
            tokens, or a share of them.
        lengths: tokens of each sequence, the first of the rows; all rows without it.
        layer, layers: which layer it is, from 0, and of how many. Policies that share among
            layers must have them.
        lse: [batch, q_heads, queries] f32, the log-sum-exp of the scaled logits, natural or,
            with `lse_base_2`, to base 2; otherwise it is computed.
        wo: [hidden, q_heads * head_dim], the weight of the output projection.
        prepared: what `prepare` has made of `wo`; without it each call does so again.
        k_raw: as k, before RoPE.
        table: [layers, q_heads] f32, the importance of heads.
        state: see `state`; the same object for all layers of a prompt, in order.
        scale: of the logits, 1 / sqrt(head_dim) by default.
        slack: free rows behind each head.
        scores: gives the scores that decided, too.

        What the policy does not read (`plan.manifest.reads`) is not looked at. Results are
        torch tensors if k is one, else NumPy arrays.
        """
        call = _Call(self, q, k, v, budget, lengths, layer, layers, scale, slack)
        call.bring(lse, lse_base_2, wo, prepared, k_raw, table, state)
        return call.run(compact=True, scores=scores)

    def __copy__(self) -> Plan:
        """Itself: it never changes, and what it points to is freed with it."""
        return self

    def __deepcopy__(self, memo: object) -> Plan:
        return self

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("a kvc.Plan must not be pickled; pickle its kvc.Policy, and plan anew")

    def __repr__(self) -> str:
        return (
            f"<kvc.Plan {self.manifest.policy} q_heads={self.q_heads} kv_heads={self.kv_heads} head_dim={self.head_dim} "
            f"dtype={self.dtype} max_batch={self.max_batch} max_tokens={self.max_tokens}>"
        )


class _Call:
    """One call of `select` or `evict`: a LayerCall, and the tensors that the caller leaves out."""

    def __init__(
        self,
        plan: Plan,
        q: Tensor | None,
        k: Tensor,
        v: Tensor | None,
        budget: Budget | Sequence[Budget],
        lengths: Sequence[int] | Tensor | None,
        layer: int | None,
        layers: int | None,
        scale: float | None,
        slack: int,
    ) -> None:
        manifest = plan.manifest
        if manifest.by_layer and (layer is None or layers is None):
            raise ArgumentError(
                f"policy {manifest.policy!r} goes by layers: give layer and layers, got {layer} and {layers}"
            )
        count = whole("layers", 1 if layers is None else layers)
        self.plan, self.manifest, self.v = plan, manifest, v
        self.call = LayerCall(
            plan,
            k,
            layer=whole("layer", 0 if layer is None else layer, 0, count - 1),
            layers=count,
            scale=0.0 if scale is None else factor("scale", scale),
            slack=whole("slack", slack, 0),
        )
        self.memory = following(k, plan.dtype, plan.device)
        self.k = k
        batch = self.call.batch
        self.lengths = _per_sequence("lengths", batch, self.call.rows if lengths is None else lengths)
        spread = _spread("budget", batch, budget)
        self.budgets = [tokens_of(one, length) for one, length in zip(spread, self.lengths, strict=True)]
        numbers = [np.array(values, np.int32) for values in (self.lengths, self.budgets)]
        longest = expect_numbers("lengths", numbers[0], self.call.rows)
        expect_numbers("budgets", numbers[1], None)
        given, budgets = map(self.memory.numbers, numbers)
        self.call.sequences(given, budgets, longest)
        if v is not None:
            self.call.cache("v", v)
        elif "v" in manifest.reads:
            raise self._missing("v", "the values")
        self._bring_queries(q)

    def bring(
        self,
        lse: Tensor | None,
        lse_base_2: bool,
        wo: Tensor | None,
        prepared: Tensor | None,
        k_raw: Tensor | None,
        table: Tensor | None,
        state: Tensor | None,
    ) -> None:
        """What only some policies read. Where nothing is ranked nobody reads it, but the
        library wants to see it."""
        plan, reads, call = self.plan, self.manifest.reads, self.call
        if "q" in reads and lse is not None:
            call.log_sum_exp(lse, lse_base_2)
        elif "q" in reads and plan.lse_given:
            if self._ranked():
                raise ArgumentError("lse must be given to a plan with lse_given=True, got None")
            call.log_sum_exp(self.memory.zeros([call.batch, plan.q_heads, call.queries], "f32"), False)
        if "wo" in reads:
            if wo is None and self._ranked():
                raise self._missing("wo", "the weight of the output projection")
            call.projection(self.memory.zeros([1, plan.q_heads * plan.head_dim]) if wo is None else wo)
            if prepared is not None and plan.prepared_bytes:
                call.prepared(prepared)
        if "k_raw" in reads:
            if k_raw is None and (self._ranked() or self.manifest.merges):
                raise self._missing("k_raw", "keys before RoPE")
            call.cache("k_raw", self.k if k_raw is None else k_raw)
        if "table" in reads:
            if table is None:
                raise self._missing("table", "the importance of heads")
            call.table(table)
        if "state" in reads:
            if state is None:
                raise self._missing("state", "what earlier layers left (plan.state())")
            call.state(state)

    def run(self, compact: bool, scores: bool) -> Kept:
        plan, call, memory = self.plan, self.call, self.memory
        heads = [call.batch, plan.kv_heads]
        # A head never keeps more than all.
        indices = memory.zeros([*heads, call.tokens], "i32")
        counts, past, status = memory.zeros(heads, "i32"), memory.zeros(heads[:1], "i32"), memory.zeros([1], "i32")
        call.selection(indices, counts, past, status)
        members = None
        if self.manifest.merges:
            rows, positions, norms = (memory.zeros([*heads, call.tokens], dtype) for dtype in ("i32", "i32", "f32"))
            members = Members(memory.zeros(heads, "i32"), rows, positions, norms)
            call.members(rows, positions, norms, members.counts)
        workspace = memory.empty([plan.workspace_bytes], "u8")
        workspace = workspace[call.workspace(workspace) :]
        call.run("kvc_layer_score", memory.stream)
        call.run("kvc_layer_select", memory.stream)
        self._look_at(int(memory.host(status)[0]))
        ranked = self._scores(workspace) if scores else None
        k_out = v_out = offsets = None
        if compact:
            rows = call.kept_rows(memory.host(counts))
            shape = [call.batch, max(1, whole("rows of a sequence", rows, 0)), plan.head_dim]
            k_out, v_out, offsets = memory.zeros(shape), memory.zeros(shape), memory.zeros(heads, "i32")
            call.compacted(k_out, v_out, offsets)
            call.run("kvc_compact", memory.stream)
        return Kept(counts, indices, past, k_out, v_out, offsets, ranked, members)

    def _ranked(self) -> bool:
        """False where every sequence keeps all, or just the end of its window."""
        window = self.manifest.window
        return any(
            length > budget and (window is None or budget > window)
            for length, budget in zip(self.lengths, self.budgets, strict=True)
        )

    def _bring_queries(self, q: Tensor | None) -> None:
        """In front of the first token there are no queries; a policy sees rows of zeros there.
        So a prompt that is shorter than what a policy reads is compressed like any other."""
        if "q" not in self.manifest.reads:
            return
        plan, call = self.plan, self.call
        wanted = min(call.queries, max(self.lengths)) if self._ranked() else 0
        present = 0
        rows = None
        if q is not None:
            rows = call.expect_queries(q)
            present = rows.shape[2]
        if present < wanted:
            raise ArgumentError(f"policy {self.manifest.policy!r} reads the last {wanted} queries, got {present}")
        if present >= call.queries:
            call.query_rows(q)
        elif rows is None:
            call.query_rows(self.memory.zeros([call.batch, plan.q_heads, call.queries, plan.head_dim]))
        else:
            call.query_rows(self.memory.behind_zeros(rows, call.queries - present))

    def _scores(self, workspace: Tensor) -> Tensor | None:
        info, call = self.plan._info, self.call
        if info.scores_offset < 0:
            return None
        count = call.batch * info.scores_heads * call.tokens
        ranked = self.memory.floats(workspace[info.scores_offset : info.scores_offset + 4 * count])
        scores = self.memory.empty([call.batch, self.plan.kv_heads, call.tokens], "f32")
        # One row for all heads is repeated.
        scores[...] = ranked.reshape(call.batch, info.scores_heads, call.tokens)
        return scores

    def _look_at(self, status: int) -> None:
        if status & _abi.DATA_TABLE and not self.call.on_host:
            raise ArgumentError(f"{IMPORTANCE}, got others")
        if status & (_abi.DATA_CAPACITY | _abi.DATA_TABLE | _abi.DATA_CACHE):
            raise InternalError(f"a call within its limits must not set bits of the status word, got {status}")
        if status & _abi.DATA_NAN:
            warnings.warn("some scores are NaN; they rank below every number", DataWarning, stacklevel=4)

    def _missing(self, name: str, what: str) -> ArgumentError:
        return ArgumentError(f"policy {self.manifest.policy!r} reads {what}: give {name}, got None")


def _spread(name: str, batch: int, values: Any) -> list[Any]:
    """One for each sequence, of one for all or of as many as there are sequences."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, str):
        return [values] * batch
    each = list(values)
    if len(each) != batch:
        raise ArgumentError(f"{name} must be one for all or one for each of {batch} sequences, got {len(each)}")
    return each


def _per_sequence(name: str, batch: int, values: object) -> list[int]:
    return [whole(name, value) for value in _spread(name, batch, values)]
