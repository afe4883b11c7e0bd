"""Where the rows of a layer's cache lie, in memory that the caller owns."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import pointer
from typing import NoReturn

from . import _abi, _device
from ._check import whole
from ._memory import following
from ._tensors import Tensor, View, bits, expect, stride, view, view_on
from .errors import ArgumentError, LimitError, UnsupportedError
from .kept import Members

_DTYPES = {"f32": _abi.F32, "f16": _abi.F16, "bf16": _abi.BF16}
_KINDS = {"dense": _abi.DENSE, "ragged": _abi.RAGGED, "paged": _abi.PAGED}


class CacheView:
    """Keys and values of a layer, for `kvc.attend` and `kvc.append`. Every KV head has rows of its
    own number. Nothing is copied: made of tensors once, a view follows what is written to them.

    What all three kinds have (integers are int32):

    counts: [batch, kv_heads], or [batch]: one for all heads. Rows that are there.
    lengths: [batch] T, the true position of the next token, whatever was evicted. Without it all
        tokens have a row, and T is the count.
    positions: [batch, kv_heads, rows], or [batch, rows]: true position of each row, ascending;
        without it, a row's number. Only positions decide what a query sees. It needs room for
        rows that are appended.

    `kvc.append` writes to k, v, counts, lengths and positions.

    On a GPU calls return when they are queued; `check` says what counts and tables had wrong.
    """

    def __init__(self, kind: str, k: Tensor, v: Tensor, axes: Sequence[tuple[str, int | None]]) -> None:
        """For `dense`, `ragged` and `paged`, which make views."""
        self._kind = kind
        self._alive: list[object] = []
        keys = view("k", k)
        self.device = keys.device
        """"cpu" or "cuda:N", where all of its tensors must be."""
        self._dtype = "bf16" if keys.dtype == "u16" else keys.dtype
        if self._dtype not in _DTYPES:
            raise ArgumentError(f"k must be f32, f16 or bf16, got {keys.dtype}")
        self._k = expect(keys, axes, self._dtype)
        same = [(name, extent) for (name, _), extent in zip(axes, self._k.shape, strict=True)]
        self._v = expect(self.see("v", v), same, self._dtype)
        self._memory = following(k, self._dtype, self.device)
        self._status: Tensor | None = None
        self.watched = True
        """Whether calls on a GPU leave something for `check`."""
        self._counts: View
        self._positions: View | None = None
        self._members: View | None = None
        self._written = [self._k, self._v]
        self.fields = _abi.CacheView(kind=_KINDS[kind], dtype=_DTYPES[self._dtype], head_dim=self._k.shape[-1])
        """What kvc_attend and kvc_append get."""

    @classmethod
    def dense(
        cls,
        k: Tensor,
        v: Tensor,
        *,
        counts: Tensor,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
        positions: Tensor | None = None,
        members: Members | None = None,
    ) -> CacheView:
        """k, v: [batch, kv_heads, slots, head_dim], of any strides.
        offsets: [batch, kv_heads] or [batch], the slot of the first row; otherwise 0.
        members: of merged rows, whose keys are before RoPE: `kvc.Kept.members`."""
        self = cls("dense", k, v, [("batch", None), ("kv_heads", None), *_SLOTS])
        batch, heads, slots, _ = self._k.shape
        self._shape(batch, heads)
        for plane, tensor in (("k", self._k), ("v", self._v)):
            setattr(self.fields, plane, _abi.Plane(tensor.address, *(stride(tensor, axis) for axis in range(3))))
        self.fields.slots = slots
        if offsets is not None:
            self.fields.offsets = self._numbers("offsets", offsets)
        return self._rows(counts, lengths, positions, members)

    @classmethod
    def ragged(
        cls,
        k: Tensor,
        v: Tensor,
        *,
        offsets: Tensor,
        counts: Tensor,
        lengths: Tensor | None = None,
        positions: Tensor | None = None,
        positions_by_slot: bool = False,
        members: Members | None = None,
    ) -> CacheView:
        """k, v: [batch, slots, head_dim], the heads of a sequence behind each other, as `Plan.evict`
            leaves them; or [batch, kv_heads, slots, head_dim], where a stride of 0 (`expand`,
            `broadcast_to`) says that all sequences lie in one memory.
        offsets: [batch, kv_heads] or [batch], the slot of the first row.
        positions_by_slot: positions are of the shape of k without head_dim, and lie as the rows do.
        members: of merged rows, whose keys are before RoPE: `kvc.Kept.members`."""
        packed = len(view("k", k).shape) == 3
        self = cls("ragged", k, v, [("batch", None), *([] if packed else [("kv_heads", None)]), *_SLOTS])
        batch, slots = self._k.shape[0], self._k.shape[-2]
        self._shape(batch, self._heads_of("offsets", offsets) if packed else self._k.shape[1])
        for plane, tensor in (("k", self._k), ("v", self._v)):
            between = 0 if packed else stride(tensor, 1)
            setattr(self.fields, plane, _abi.Plane(tensor.address, stride(tensor, 0), between, stride(tensor, -2)))
        self.fields.slots = slots
        self.fields.offsets = self._numbers("offsets", offsets)
        if positions is not None and positions_by_slot:
            self._by_slot(positions)
            positions = None
        return self._rows(counts, lengths, positions, members)

    @classmethod
    def paged(
        cls,
        k: Tensor,
        v: Tensor,
        *,
        table: Tensor,
        counts: Tensor,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
        v_table: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> CacheView:
        """k, v: [pages, page_rows, kv_heads, head_dim], of any strides; or [pages, page_rows, head_dim]:
            a page has rows of one head, or of heads behind each other.
        table: [batch, entries], one for all heads, or [batch, kv_heads, entries]: pages in the
            order of their slots.
        offsets: [batch, kv_heads] or [batch], the slot of the first row; otherwise 0.
        v_table: of the values, where their pages have numbers of their own."""
        alone = len(view("k", k).shape) == 3
        shape: list[tuple[str, int | None]] = [("pages", None), ("page_rows", None)]
        self = cls("paged", k, v, [*shape, *([] if alone else [("kv_heads", None)]), _DIM])
        pages, page_rows = self._k.shape[:2]
        listed = view("table", table).shape
        if len(listed) not in (2, 3):
            raise ArgumentError(f"table must be [batch, entries] or [batch, kv_heads, entries], got {list(listed)}")
        self._shape(listed[0], self._heads_of("counts", counts) if alone else self._k.shape[2])
        for plane, tensor in (("k", self._k), ("v", self._v)):
            between = 0 if alone else stride(tensor, 2)
            setattr(self.fields, plane, _abi.Plane(tensor.address, 0, between, stride(tensor, 1), stride(tensor, 0)))
        self.fields.pages, self.fields.page_rows = whole("pages", pages), page_rows
        self.fields.table, self.fields.table_entries = self._table("table", table, None)
        if v_table is not None:
            self.fields.v_table, _ = self._table("v_table", v_table, self.fields.table_entries)
        if offsets is not None:
            self.fields.offsets = self._numbers("offsets", offsets)
        return self._rows(counts, lengths, positions, None)

    @property
    def batch(self) -> int:
        return int(self.fields.batch)

    @property
    def kv_heads(self) -> int:
        return int(self.fields.kv_heads)

    @property
    def head_dim(self) -> int:
        return int(self.fields.head_dim)

    @property
    def dtype(self) -> str:
        """f32, f16 or bf16."""
        return self._dtype

    @property
    def on_host(self) -> bool:
        return self.device == _device.CPU

    @property
    def most_rows(self) -> int:
        """Of a head; of merged rows, what they represent. On a GPU 0: nobody looks."""
        if not self.on_host:
            return 0
        counted = self._counts if self._members is None else self._members
        return max(0, int(bits(counted).max()))

    def see(self, name: str, tensor: Tensor) -> View:
        """A tensor of this view, or of a call over it."""
        return view_on(name, tensor, self.device, "k's")

    def status(self) -> int | None:
        """Where a GPU says what it has found wrong, for `check`; on the CPU that is an exception."""
        if self.on_host or not self.watched:
            return None
        if self._status is None:
            self._status = self._memory.zeros([1], "i32")
        return view("status", self._status).address

    def check(self) -> None:
        """Waits for what was queued on a GPU, and raises what it has found since the last time. On
        the CPU everything is checked before it is done."""
        if self._status is None:
            return
        found = int(self._memory.host(self._status)[0])
        self._status = None
        if found & _abi.DATA_CACHE:
            raise ArgumentError("counts, offsets, tables, positions and members must lead into the cache, got others")
        if found & _abi.DATA_CAPACITY:
            raise LimitError("every head must have room for new rows, and no more rows than max_rows, got others")

    def expect_room(self, new: int) -> None:
        """What the library would have to believe: that positions of all rows and of `new` ones
        behind them are in the tensor. A GPU's counts are not known here."""
        if not self.on_host:
            return
        most = int(bits(self._counts).max()) + new
        if self._positions is not None and most > self._positions.shape[-1]:
            raise LimitError(f"positions must have room for {most} rows, got {self._positions.shape[-1]}")

    def expect_writable(self) -> None:
        for tensor in self._written:
            if not tensor.writable:
                raise ArgumentError(f"{tensor.name} must be a tensor that can be written to, got a read-only one")

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("a kvc.CacheView must not be copied or pickled; copy its tensors, and make one of these")

    def __repr__(self) -> str:
        return (
            f"<kvc.CacheView {self._kind} batch={self.batch} kv_heads={self.kv_heads} head_dim={self.head_dim} "
            f"dtype={self.dtype}>"
        )

    def _shape(self, batch: int, kv_heads: int) -> None:
        self.fields.batch, self.fields.kv_heads = whole("batch", batch), whole("kv_heads", kv_heads)

    def _heads_of(self, name: str, numbers: Tensor) -> int:
        """Where k does not say how many heads there are."""
        shape = view(name, numbers).shape
        if len(shape) != 2:
            raise ArgumentError(
                f"{name} must be [batch, kv_heads] where heads lie behind each other, got {list(shape)}"
            )
        return shape[1]

    def _tensor(self, name: str, tensor: Tensor, axes: Sequence[tuple[str, int | None]], heads_at: int | None) -> View:
        """An int32 tensor; the axis at `heads_at` may be left out: one for all heads."""
        seen = self.see(name, tensor)
        if heads_at is not None and len(seen.shape) == len(axes) - 1:
            axes = [axis for number, axis in enumerate(axes) if number != heads_at]
        seen = expect(seen, axes, "i32", contiguous=len(axes) == 1)
        self._alive.append(seen)
        return seen

    def _numbers(self, name: str, tensor: Tensor) -> _abi.Numbers:
        return self._numbers_of(self._heads(name, tensor))

    def _heads(self, name: str, tensor: Tensor) -> View:
        return self._tensor(name, tensor, [("batch", self.batch), ("kv_heads", self.kv_heads)], 1)

    @staticmethod
    def _numbers_of(seen: View) -> _abi.Numbers:
        return _abi.Numbers(seen.address, stride(seen, 0), stride(seen, 1) if len(seen.shape) == 2 else 0)

    def _table(self, name: str, tensor: Tensor, entries: int | None) -> tuple[_abi.Numbers, int]:
        seen = self._tensor(name, tensor, [("batch", self.batch), ("kv_heads", self.kv_heads), ("entries", entries)], 1)
        between = stride(seen, 1) if len(seen.shape) == 3 else 0
        return _abi.Numbers(seen.address, stride(seen, 0), between), seen.shape[-1]

    def _by_slot(self, positions: Tensor) -> None:
        """A position for each slot of k. What leads out of the slots the library refuses."""
        names = ["batch", "kv_heads", "slots"] if len(self._k.shape) == 4 else ["batch", "slots"]
        axes: list[tuple[str, int | None]] = list(zip(names, self._k.shape[:-1], strict=True))
        seen = self._tensor("positions", positions, axes, None)
        between = stride(seen, 1) if len(names) == 3 else 0
        self.fields.positions = _abi.Plane(seen.address, stride(seen, 0), between, 1)
        self.fields.positions_by_slot = 1
        self._written.append(seen)

    def _rows(
        self, counts: Tensor, lengths: Tensor | None, positions: Tensor | None, members: Members | None
    ) -> CacheView:
        fields = self.fields
        self._counts = self._heads("counts", counts)
        fields.counts = self._numbers_of(self._counts)
        self._written.append(self._counts)
        if lengths is not None:
            seen = self._tensor("lengths", lengths, [("batch", self.batch)], None)
            fields.lengths = seen.address
            self._written.append(seen)
        if positions is not None:
            shape = [("batch", self.batch), ("kv_heads", self.kv_heads), ("rows", None)]
            seen = self._positions = self._tensor("positions", positions, shape, 1)
            between = stride(seen, 1) if len(seen.shape) == 3 else 0
            fields.positions = _abi.Plane(seen.address, stride(seen, 0), between, 1)
            self._written.append(seen)
        if members is not None:
            self._take(members)
        return self

    def _take(self, members: Members) -> None:
        heads: list[tuple[str, int | None]] = [("batch", self.batch), ("kv_heads", self.kv_heads)]
        rows = expect(self.see("members.rows", members.rows), [*heads, ("capacity", None)], "i32", contiguous=True)
        shape = [*heads, ("capacity", rows.shape[2])]
        positions = expect(self.see("members.positions", members.positions), shape, "i32", contiguous=True)
        norms = expect(self.see("members.norms", members.norms), shape, "f32", contiguous=True)
        self._members = expect(self.see("members.counts", members.counts), heads, "i32", contiguous=True)
        seen = (rows, positions, norms, self._members)
        self._alive += seen
        self._written += seen
        table = _abi.MemberTable(
            rows=rows.address,
            positions=positions.address,
            norms=norms.address,
            counts=self._members.address,
            capacity=rows.shape[2],
        )
        self.fields.members = pointer(table)


_DIM: tuple[str, int | None] = ("head_dim", None)
_SLOTS: tuple[tuple[str, int | None], ...] = (("slots", None), _DIM)
