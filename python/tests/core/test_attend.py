"""kvc.attend and kvc.append: right in every kind of cache, or one exception."""

import copy
import pickle
import unittest

import numpy as np

import kvc

from ..support import Case, compiled, layer, normal

BATCH, HEADS, GROUP, DIM = 2, 3, 2, 16
COUNTS = np.array([[5, 9, 1], [7, 2, 12]], np.int32)
LENGTHS = np.array([40, 31], np.int32)


def reference(q, rows, length):
    """In double. q [q_heads, n, d] of one sequence; rows [(k, v, positions)] of its KV heads."""
    out = np.zeros(q.shape)
    sums = np.full(q.shape[:2], -np.inf)
    group, new = len(q) // len(rows), q.shape[1]
    for head, queries in enumerate(q.astype(np.float64)):
        k, v, positions = rows[head // group]
        for j, query in enumerate(queries):
            seen = positions <= length - new + j
            if seen.any():
                logits = k[seen].astype(np.float64) @ query / np.sqrt(q.shape[2])
                sums[head, j] = np.log(np.exp(logits).sum())
                out[head, j] = np.exp(logits - sums[head, j]) @ v[seen].astype(np.float64)
    return out, sums


class Kept:
    """Rows of two sequences, at positions of their own, with room for some more."""

    room = 4

    def __init__(self, seed=1):
        random = np.random.default_rng(seed)
        self.counts, self.lengths = COUNTS.copy(), LENGTHS.copy()
        self.k, self.v = (normal(BATCH, HEADS, 12 + self.room, DIM, seed=seed + s) for s in (1, 2))
        self.positions = np.zeros((BATCH, HEADS, 12 + self.room), np.int32)
        for b, h in np.ndindex(BATCH, HEADS):
            chosen = random.choice(LENGTHS[b], COUNTS[b, h], replace=False)
            self.positions[b, h, : COUNTS[b, h]] = np.sort(chosen)

    def numbers(self):
        return {"counts": self.counts, "lengths": self.lengths, "positions": self.positions}

    def dense(self):
        return kvc.CacheView.dense(self.k, self.v, **self.numbers())

    def dense_by_token(self):
        """[batch, slots, heads, d], padded in front."""
        self.k, self.v = (np.pad(x, ((0, 0), (0, 0), (3, 0), (0, 0))) for x in (self.k, self.v))
        k, v = (np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in (self.k, self.v))
        return kvc.CacheView.dense(k, v, offsets=np.array([3, 3], np.int32), **self.numbers())

    def ragged(self, by_slot=False):
        """Heads behind each other."""
        offsets = np.zeros((BATCH, HEADS), np.int32)
        offsets[:, 1:] = (self.counts + self.room).cumsum(axis=1)[:, :-1]
        slots = int((self.counts + self.room).sum(axis=1).max())
        k, v = (np.zeros((BATCH, slots, DIM), np.float32) for _ in range(2))
        positions = np.zeros((BATCH, slots), np.int32)
        for b, h in np.ndindex(BATCH, HEADS):
            n = self.counts[b, h]
            for packed, rows in ((k, self.k), (v, self.v), (positions, self.positions)):
                packed[b, offsets[b, h] :][:n] = rows[b, h, :n]
        numbers = self.numbers()
        if by_slot:
            numbers["positions"] = positions
            # The tests look at rows.
            self.position = lambda b, h, row: positions[b, offsets[b, h] + row]
        return kvc.CacheView.ragged(k, v, offsets=offsets, **numbers, positions_by_slot=by_slot)

    def ragged_by_slot(self):
        return self.ragged(by_slot=True)

    def ragged_in_one_memory(self):
        """Heads of all sequences behind each other."""
        counts = self.counts.reshape(-1) + self.room
        offsets = np.cumsum(counts, dtype=np.int32) - counts
        k, v = (np.zeros((counts.sum(), DIM), np.float32) for _ in range(2))
        positions = np.zeros(counts.sum(), np.int32)
        for place, (b, h) in zip(offsets, np.ndindex(BATCH, HEADS), strict=True):
            n = self.counts[b, h]
            for memory, rows in ((k, self.k), (v, self.v), (positions, self.positions)):
                memory[place:][:n] = rows[b, h, :n]
        offsets = offsets.reshape(BATCH, HEADS)
        self.position = lambda b, h, row: positions[offsets[b, h] + row]
        k, v, by_slot = (
            np.lib.stride_tricks.as_strided(x, (BATCH, HEADS, *x.shape), (0, 0, *x.strides)) for x in (k, v, positions)
        )
        numbers = {**self.numbers(), "positions": by_slot}
        return kvc.CacheView.ragged(k, v, offsets=offsets, **numbers, positions_by_slot=True)

    def position(self, b, h, row):
        return self.positions[b, h, row]

    def paged(self, page_rows=4):
        """[pages, page_rows, heads, d], one table for all heads, pages in no order."""
        entries = -(-(12 + self.room) // page_rows)
        table = np.random.default_rng(5).permutation(BATCH * entries).astype(np.int32).reshape(BATCH, entries)
        k, v = (np.zeros((BATCH * entries, page_rows, HEADS, DIM), np.float32) for _ in range(2))
        for b, h in np.ndindex(BATCH, HEADS):
            for row in range(self.counts[b, h]):
                for pages, rows in ((k, self.k), (v, self.v)):
                    pages[table[b, row // page_rows], row % page_rows, h] = rows[b, h, row]
        return kvc.CacheView.paged(k, v, table=table, **self.numbers())

    def paged_by_head(self, page_rows=2):
        """A table per head, a page of one head's rows; keys and values behind each other in it."""
        entries = -(-(12 + self.room) // page_rows)
        count = BATCH * HEADS * entries
        table = np.random.default_rng(6).permutation(count).astype(np.int32).reshape(BATCH, HEADS, entries)
        memory = np.zeros((count, 2, page_rows, DIM), np.float32)
        for b, h in np.ndindex(BATCH, HEADS):
            for row in range(self.counts[b, h]):
                for part, rows in enumerate((self.k, self.v)):
                    memory[table[b, h, row // page_rows], part, row % page_rows] = rows[b, h, row]
        return kvc.CacheView.paged(memory[:, 0], memory[:, 1], table=table, **self.numbers())

    def rows(self):
        """What is there, [sequence][head]."""
        first = self.k.shape[2] - 12 - self.room
        return [
            [
                (self.k[b, h, first:][:n], self.v[b, h, first:][:n], self.positions[b, h, :n])
                for h, n in enumerate(self.counts[b])
            ]
            for b in range(BATCH)
        ]


KINDS = (
    "dense", "dense_by_token", "ragged", "ragged_by_slot", "ragged_in_one_memory", "paged", "paged_by_head",
)  # fmt: skip


class TestAttend(Case):
    def test_every_kind(self):
        q = normal(BATCH, HEADS * GROUP, 3, DIM, seed=9)
        first = None
        for kind in KINDS:
            with self.subTest(kind):
                kept = Kept()
                cache = getattr(kept, kind)()
                lse = np.zeros(q.shape[:3], np.float32)
                out = kvc.attend(cache, q, lse=lse)
                self.assertIs(type(out), np.ndarray)
                self.assertEqual(out.dtype, np.float32)
                for b in range(BATCH):
                    wanted, sums = reference(q[b], kept.rows()[b], kept.lengths[b])
                    np.testing.assert_allclose(out[b], wanted, atol=5e-6)
                    np.testing.assert_allclose(lse[b], sums, atol=5e-6)
                # How rows lie, and the number of threads, change no byte.
                first = out if first is None else first
                np.testing.assert_array_equal(out, first)
                np.testing.assert_array_equal(kvc.attend(cache, q, threads=1), first)

    def test_append(self):
        new_k, new_v = (normal(BATCH, HEADS, 3, DIM, seed=seed) for seed in (20, 21))
        q = normal(BATCH, HEADS * GROUP, 2, DIM, seed=22)
        for kind in KINDS:
            with self.subTest(kind):
                kept = Kept()
                before = kept.rows()
                cache = getattr(kept, kind)()
                # One token, then two: an engine's own order, [batch, tokens, heads, d].
                turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in (new_k, new_v)]
                kvc.append(cache, *(x[:, :, :1] for x in turned))
                kvc.append(cache, *(x[:, :, 1:] for x in turned))
                np.testing.assert_array_equal(kept.counts, COUNTS + 3)
                np.testing.assert_array_equal(kept.lengths, LENGTHS + 3)
                out = kvc.attend(cache, q)
                for b in range(BATCH):
                    rows = []
                    for h, (k, v, positions) in enumerate(before[b]):
                        ours = np.arange(LENGTHS[b], LENGTHS[b] + 3)
                        self.assertEqual([kept.position(b, h, len(k) + new) for new in range(3)], ours.tolist())
                        rows.append(
                            (np.concatenate([k, new_k[b, h]]), np.concatenate([v, new_v[b, h]]),
                             np.concatenate([positions, ours]))
                        )  # fmt: skip
                    wanted, _ = reference(q[b], rows, LENGTHS[b] + 3)
                    np.testing.assert_allclose(out[b], wanted, atol=5e-6)

    def test_behind_an_eviction(self):
        # Plan.evict's result is a cache; what is attended is what was kept.
        q, k, v = layer(batch=2, kv_heads=2, group=2, queries=32)
        kept = compiled("adakv").plan(kv_heads=2, max_tokens=100, max_batch=2).evict(q, k, v, budget=40, slack=1)
        lengths = np.array([100, 100], np.int32)
        cache = kvc.CacheView.ragged(
            kept.k, kept.v, offsets=kept.offsets, counts=kept.counts, lengths=lengths, positions=kept.indices
        )
        counts = kept.counts.copy()
        self.assertEqual((cache.batch, cache.kv_heads, cache.head_dim, cache.dtype), (2, 2, 16, "f32"))
        new_k, new_v = normal(2, 2, 1, 16, seed=7), normal(2, 2, 1, 16, seed=8)
        kvc.append(cache, new_k, new_v)
        out = kvc.attend(cache, q[:, :, -1:])
        np.testing.assert_array_equal(kept.counts, counts + 1)
        for b in range(2):
            rows = []
            for h in range(2):
                tokens = kept.indices[b, h, : counts[b, h]]
                self.assertEqual(kept.indices[b, h, counts[b, h]], 100)
                rows.append(
                    (np.concatenate([k[b, h, tokens], new_k[b, h]]), np.concatenate([v[b, h, tokens], new_v[b, h]]),
                     np.append(tokens, 100))
                )  # fmt: skip
            np.testing.assert_allclose(out[b], reference(q[b, :, -1:], rows, 101)[0], atol=5e-6)

    def test_tokens_that_all_have_a_row(self):
        # No positions: a row's number. A varlen memory is one for all sequences.
        k, v = (normal(12, HEADS, DIM, seed=seed) for seed in (1, 2))
        counts, offsets = np.array([5, 7], np.int32), np.array([0, 5], np.int32)
        one = [np.broadcast_to(x.transpose(1, 0, 2), (2, HEADS, 12, DIM)) for x in (k, v)]
        cache = kvc.CacheView.ragged(*one, offsets=offsets, counts=counts)
        q = normal(2, HEADS, 2, DIM, seed=3)
        out = kvc.attend(cache, q)
        for b, (first, count) in enumerate(((0, 5), (5, 7))):
            at = slice(first, first + count)
            rows = [(k[at, h], v[at, h], np.arange(count)) for h in range(HEADS)]
            np.testing.assert_allclose(out[b], reference(q[b], rows, count)[0], atol=5e-6)

    def test_where_results_go(self):
        q = normal(BATCH, HEADS * GROUP, 3, DIM, seed=9)
        wanted = kvc.attend(Kept().dense(), q)
        # Any strides but within rows, and what is beside is left alone.
        room = np.full((BATCH, 3, HEADS * GROUP, DIM + 2), 7, np.float32)
        out = room[..., 1:-1].transpose(0, 2, 1, 3)
        self.assertIs(kvc.attend(Kept().dense(), q, out=out), out)
        np.testing.assert_array_equal(out, wanted)
        self.assertTrue((room[..., 0] == 7).all() and (room[..., -1] == 7).all())
        lse, base_2 = np.zeros(q.shape[:3], np.float32), np.zeros(q.shape[:3], np.float32)
        kvc.attend(Kept().dense(), q, scale=0.5, lse=lse)
        kvc.attend(Kept().dense(), q * 2, scale=0.25, lse=base_2, lse_base_2=True)
        np.testing.assert_allclose(lse / np.log(2), base_2, rtol=1e-5)

    def test_half_types(self):
        kept, q = Kept(), normal(BATCH, HEADS * GROUP, 3, DIM, seed=9)
        for dtype in ("f16", "bf16"):
            with self.subTest(dtype):

                def typed(x, dtype=dtype):
                    if dtype == "f16":
                        return x.astype(np.float16)
                    # NumPy has no bf16: the upper half of a float's bits.
                    return (np.ascontiguousarray(x).view(np.uint32) >> 16).astype(np.uint16)

                def wide(x, dtype=dtype):
                    return x.astype(np.float32) if dtype == "f16" else (x.astype(np.uint32) << 16).view(np.float32)

                k, v, queries = typed(kept.k), typed(kept.v), typed(q)
                cache = kvc.CacheView.dense(k, v, **kept.numbers())
                self.assertEqual(cache.dtype, dtype)
                exact = np.zeros(q.shape, np.float32)
                kvc.attend(cache, queries, out=exact)
                rounded = wide(kvc.attend(cache, queries))
                for b in range(BATCH):
                    rows = [
                        (wide(k[b, h])[:n], wide(v[b, h])[:n], kept.positions[b, h, :n])
                        for h, n in enumerate(COUNTS[b])
                    ]
                    wanted, _ = reference(wide(queries)[b], rows, LENGTHS[b])
                    np.testing.assert_allclose(exact[b], wanted, atol=5e-6)
                    np.testing.assert_allclose(rounded[b], wanted, atol=2e-2)

    def test_merged_rows(self):
        # EMS behind a prompt: rows are keys before RoPE, and stand for several tokens.
        q, k, v = layer(batch=1, tokens=100, queries=100)
        # Alike enough to be merged.
        raw, v = (normal(1, 2, 1, 16, seed=30) + 0.2 * x for x in (k, v))
        kept = compiled("ems").plan(kv_heads=2, max_tokens=100).evict(q, k, v, k_raw=raw, budget=40, slack=1)
        angles = np.arange(101)[:, None] / 10000 ** (np.arange(8) / 8)
        rope = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)
        cache = kvc.CacheView.ragged(
            kept.k, kept.v, offsets=kept.offsets, counts=kept.counts, lengths=np.array([100], np.int32),
            members=kept.members,
        )  # fmt: skip
        out = kvc.attend(cache, q[:, :, -1:], rope=rope)
        rows = []
        for h in range(2):
            head = kept[0, h]
            self.assertGreater(len(head.member_rows), len(head.indices))
            keys, at = head.k[head.member_rows], head.member_positions
            cos, sin = (np.cos(angles)[at], np.sin(angles)[at])
            low, high = keys[:, :8], keys[:, 8:]
            turned = np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=1)
            rows.append((turned * head.member_norms[:, None], head.v[head.member_rows], at))
        np.testing.assert_allclose(out[0], reference(q[0, :, -1:], rows, 100)[0], atol=2e-5)
        with self.refused(kvc.ArgumentError, "rope of a merged cache must not be null"):
            kvc.attend(cache, q[:, :, -1:])


class TestRefused(Case):
    def test_tensors(self):
        kept = Kept()
        cache = kept.dense()
        q = normal(BATCH, HEADS * GROUP, 3, DIM, seed=9)
        new = normal(BATCH, HEADS, 1, DIM, seed=10)
        for kind, line, call in (
            (kvc.ArgumentError, "q must be [batch 2, q_heads, queries, head_dim 16], got [1, 6, 3, 16]",
             lambda: kvc.attend(cache, q[:1])),
            (kvc.ArgumentError, "q must be f32, got f16", lambda: kvc.attend(cache, q.astype(np.float16))),
            (kvc.ArgumentError, "q_heads must be a multiple of cache.kv_heads, got 4 and 3",
             lambda: kvc.attend(cache, q[:, :4])),
            (kvc.ArgumentError, "out must be [batch 2, q_heads 6, queries 3, head_dim 16], got [2, 6, 2, 16]",
             lambda: kvc.attend(cache, q, out=np.zeros_like(q[:, :, :2]))),
            (kvc.ArgumentError, "out must be f32, got float64", lambda: kvc.attend(cache, q, out=q.astype(np.float64))),
            (kvc.ArgumentError, "out must be a tensor that can be written to, got a read-only one",
             lambda: kvc.attend(cache, q, out=np.broadcast_to(q[:1, :1], q.shape))),
            (kvc.ArgumentError, "lse must be [batch 2, q_heads 6, queries 3], got [2, 6]",
             lambda: kvc.attend(cache, q, lse=np.zeros((2, 6), np.float32))),
            (kvc.ArgumentError, "scale must be finite and not 0, got nan", lambda: kvc.attend(cache, q, scale=np.nan)),
            (kvc.ArgumentError, "scale must be finite and not 0, got 'x'", lambda: kvc.attend(cache, q, scale="x")),
            (kvc.ArgumentError, "threads must be a whole number of 0", lambda: kvc.attend(cache, q, threads=-1)),
            (kvc.ArgumentError, "the last axis of q must be contiguous",
             lambda: kvc.attend(cache, np.repeat(q, 2, axis=3)[..., ::2])),
            (kvc.ArgumentError, "v must be [batch 2, kv_heads 3, tokens 1, head_dim 16], got [2, 3, 2, 16]",
             lambda: kvc.append(cache, new, np.repeat(new, 2, axis=2))),
            (kvc.ArgumentError, "k must be a tensor (torch, NumPy, DLPack), got list",
             lambda: kvc.append(cache, [1.0], new)),
            (kvc.ArgumentError, "cache must be a CacheView, got int", lambda: kvc.append(3, new, new)),  # type: ignore
            (kvc.ArgumentError, "cache must be a CacheView, got NoneType", lambda: kvc.attend(None, q)),  # type: ignore
        ):  # fmt: skip
            with self.subTest(line), self.refused(kind, line):
                call()
        np.testing.assert_array_equal(kept.counts, COUNTS)

    def test_views(self):
        kept = Kept()
        numbers = kept.numbers()
        for line, call in (
            ("k must be f32, f16 or bf16, got float64",
             lambda: kvc.CacheView.dense(kept.k.astype(np.float64), kept.v, **numbers)),
            ("v must be [batch 2, kv_heads 3, slots 16, head_dim 16], got [2, 3, 15, 16]",
             lambda: kvc.CacheView.dense(kept.k, kept.v[:, :, 1:], **numbers)),
            ("counts must be [batch 2, kv_heads 3], got [2, 2]",
             lambda: kvc.CacheView.dense(kept.k, kept.v, counts=COUNTS[:, :2], lengths=LENGTHS)),
            ("counts must be i32, got int64",
             lambda: kvc.CacheView.dense(kept.k, kept.v, counts=COUNTS.astype(np.int64), lengths=LENGTHS)),
            ("lengths must be [batch 2], got [3]",
             lambda: kvc.CacheView.dense(kept.k, kept.v, counts=COUNTS, lengths=np.zeros(3, np.int32))),
            ("offsets must be [batch, kv_heads] where heads lie behind each other, got [2]",
             lambda: kvc.CacheView.ragged(kept.k[:, 0], kept.v[:, 0], offsets=LENGTHS, counts=COUNTS)),
            ("positions must be [batch 2, slots 16], got [2, 3, 16]",
             lambda: kvc.CacheView.ragged(kept.k[:, 0], kept.v[:, 0], offsets=COUNTS, counts=COUNTS, lengths=LENGTHS,
                                          positions=kept.positions, positions_by_slot=True)),
            ("table must be [batch, entries] or [batch, kv_heads, entries], got [2]",
             lambda: kvc.CacheView.paged(kept.k, kept.v, table=LENGTHS, counts=COUNTS)),
        ):  # fmt: skip
            with self.subTest(line), self.refused(kvc.ArgumentError, line):
                call()

    def test_numbers(self):
        # What is in the arrays the library looks at, before a byte is written.
        q, new = normal(BATCH, HEADS, 1, DIM), normal(BATCH, HEADS, 1, DIM, seed=2)
        kept = Kept()
        cache = kept.dense()
        kept.counts[1, 2] = 17
        with self.refused(kvc.LimitError, "positions must have room for 17 rows, got 16"):
            kvc.attend(cache, q)
        kept.counts[1, 2] = 16
        with self.refused(kvc.LimitError, "positions must have room for 17 rows, got 16"):
            kvc.append(cache, new, new)
        kept.counts[:] = COUNTS
        kept.positions[1, 2, 3] = 40
        with self.refused(kvc.ArgumentError, "sequence 1, head 2: positions must ascend from 0 to 30, got 40"):
            kvc.attend(cache, q)
        kept = Kept()
        kept.positions = np.pad(kept.positions, ((0, 0), (0, 0), (0, 1)))
        cache = kept.ragged()
        for _ in range(kept.room):
            kvc.append(cache, new, new)
        with self.refused(kvc.LimitError, "sequence 0, head 0: offset, count and 1 new rows must be 0 or more"):
            kvc.append(cache, new, new)

    def test_copies(self):
        # A copy of a view would write to tensors that nobody keeps.
        k = np.zeros((1, 2, 4, 16), np.float32)
        cache = kvc.CacheView.dense(k, k.copy(), counts=np.array([4], np.int32))
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.refused(kvc.UnsupportedError, "a kvc.CacheView must not be copied or pickled"):
                make(cache)

    def test_read_only(self):
        kept, new = Kept(), normal(BATCH, HEADS, 1, DIM)
        kept.lengths.flags.writeable = False
        with self.refused(kvc.ArgumentError, "lengths must be a tensor that can be written to, got a read-only one"):
            kvc.append(kept.dense(), new, new)
        np.testing.assert_array_equal(kept.counts, COUNTS)


if __name__ == "__main__":
    unittest.main()
