"""Plans, attention and new rows on a GPU: the same as on the CPU, or one exception."""

import copy
import pickle
import unittest
from unittest import mock

import numpy as np

import kvc
from kvc import _cuda

from ..core.test_attend import BATCH, COUNTS, DIM, GROUP, HEADS, LENGTHS, Kept, reference
from ..support import Case, compiled, indices, layer, normal
from .foreign import Foreign


def on_gpu(name="adakv", **more):
    """The policy of the tests for the GPU that is there."""
    return compiled(name, arch="sm_80", **more)


class TestPlans(Case):
    def test_same_as_on_the_cpu(self):
        for name in ("adakv", "snapkv", "knorm", "kvec"):
            with self.subTest(name):
                policy = on_gpu(name)
                q, k, v = layer(batch=2, queries=100 if name == "kvec" else 32)
                more = {"layer": 0, "layers": 2}
                host, gpu = (
                    policy.plan(kv_heads=2, max_tokens=100, max_batch=2, device=device) for device in ("cpu", "cuda")
                )
                self.assertEqual((host.device, gpu.device), ("cpu", "cuda:0"))
                states = [{"state": plan.state()} if "state" in plan.manifest.reads else {} for plan in (host, gpu)]
                wanted = host.evict(q, k, v, budget=50, lengths=[100, 77], **more, **states[0])
                kept = gpu.evict(*map(Foreign, (q, k, v)), budget=50, lengths=[100, 77], **more, **states[1])
                self.assertIsInstance(kept.k, kvc.DeviceArray)
                self.assertEqual(indices(kept), indices(wanted))
                np.testing.assert_array_equal(kept.counts.numpy(), wanted.counts)
                np.testing.assert_array_equal(kept.offsets.numpy(), wanted.offsets)
                for b in range(2):
                    for h in range(2):
                        np.testing.assert_array_equal(kept[b, h].k.numpy(), wanted[b, h].k)
                        np.testing.assert_array_equal(kept[b, h].v.numpy(), wanted[b, h].v)
                chosen = gpu.select(*map(Foreign, (q, k, v)), budget=0.5, **more, **(
                    {"state": gpu.state()} if states[1] else {}))  # fmt: skip
                self.assertIsNone(chosen.k)
                self.assertEqual(chosen.counts.numpy().sum(), 200)

    def test_strides_and_types(self):
        # [batch, tokens, heads, d], seen as kvc does.
        plan = on_gpu().plan(kv_heads=2, max_tokens=100, device="cuda:0")
        q, k, v = layer()
        wanted = compiled("adakv").plan(kv_heads=2, max_tokens=100).evict(q, k, v, budget=50)
        turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in (q, k, v)]
        self.assertEqual(indices(plan.evict(*map(Foreign, turned), budget=50)), indices(wanted))
        half = on_gpu(dtype="bf16").plan(kv_heads=2, max_tokens=100, device="cuda")
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (q, k, v)]
        kept = half.evict(*map(Foreign, bits), budget=50)
        self.assertEqual((kept.k.dtype, kept.k.numpy().dtype), ("bf16", np.uint16))
        host = compiled("adakv", dtype="bf16").plan(kv_heads=2, max_tokens=100).evict(*bits, budget=50)
        self.assertEqual(indices(kept), indices(host))

    def test_streams(self):
        # Producers are told of the default stream, which everything runs on.
        plan = on_gpu().plan(kv_heads=2, max_tokens=100, device="cuda")
        tensors = [Foreign(x) for x in layer()]
        plan.evict(*tensors, budget=50)
        for tensor in tensors:
            self.assertTrue(tensor.streams and set(tensor.streams) == {1}, tensor.streams)

    def test_refused(self):
        q, k, v = layer()
        there = [Foreign(x) for x in (q, k, v)]
        gpu = on_gpu().plan(kv_heads=2, max_tokens=100, device="cuda")
        host = compiled("adakv").plan(kv_heads=2, max_tokens=100)
        for kind, line, call in (
            (kvc.ArgumentError, "k must be on the plan's device, cpu, got cuda:0",
             lambda: host.evict(*there, budget=9)),
            (kvc.ArgumentError, "v must be on the plan's device, cuda:0, got cpu",
             lambda: gpu.evict(*there[:2], v, budget=9)),
            (kvc.ArgumentError, "q must be on the plan's device, cuda:0, got cuda:3",
             lambda: gpu.evict(Foreign(q, device=3), *there[1:], budget=50)),
            (kvc.ArgumentError, "lengths must be 1 to 100, the tokens in k, got [101]",
             lambda: gpu.evict(*there, budget=9, lengths=[101])),
            (kvc.UnsupportedError, "scores on a GPU need tensors of torch, got others",
             lambda: gpu.evict(*there, budget=50, scores=True)),
            (kvc.ArgumentError, "policy 'adakv' reads the last 32 queries, got 3",
             lambda: gpu.evict(Foreign(q[:, :, :3]), *there[1:], budget=50)),
            (kvc.UnsupportedError, "q on a GPU must have all 32 queries that the policy reads where it is no tensor of",
             lambda: gpu.evict(Foreign(q[:, :, :3]), *there[1:], budget=100)),
        ):  # fmt: skip
            with self.subTest(line), self.refused(kind, line):
                call()
        with self.refused(kvc.UnsupportedError, "the policy has PTX for no chip"):
            compiled("adakv").plan(kv_heads=2, max_tokens=100, device="cuda")
        with self.assertRaises(kvc.Error) as caught:
            on_gpu().plan(kv_heads=2, max_tokens=100, device="cuda:77")
        self.assertNotIn("\n", str(caught.exception))

    def test_a_table(self):
        # Its numbers are on the GPU: what is wrong is known behind the call.
        q, k, v = layer()
        plan = on_gpu("headkv").plan(kv_heads=2, max_tokens=100, device="cuda")
        good = np.array([[1, 2, 3, 4]], np.float32)
        more = {"budget": 50, "layer": 0, "layers": 1}
        kept = plan.evict(*map(Foreign, (q, k, v)), table=Foreign(good), **more)
        host = compiled("headkv").plan(kv_heads=2, max_tokens=100).evict(q, k, v, table=good, **more)
        self.assertEqual(indices(kept), indices(host))
        with self.refused(kvc.ArgumentError, "the importance of heads must be finite, 0 or more and above 0"):
            plan.evict(*map(Foreign, (q, k, v)), table=Foreign(good * np.nan), **more)


class TestCaches(Case):
    def test_append_and_attend(self):
        new_k, new_v = (normal(BATCH, HEADS, 3, DIM, seed=seed) for seed in (20, 21))
        q = normal(BATCH, HEADS * GROUP, 2, DIM, seed=22)
        host = Kept()
        wanted = host.dense()
        kvc.append(wanted, new_k, new_v)
        kept = Kept()
        there = {name: Foreign(array) for name, array in kept.numbers().items()}
        k, v = Foreign(kept.k), Foreign(kept.v)
        cache = kvc.CacheView.dense(k, v, **there)
        self.assertEqual(cache.device, "cuda:0")
        kvc.append(cache, Foreign(new_k), Foreign(new_v))
        sums, lse = Foreign(np.zeros(q.shape[:3], np.float32)), np.zeros(q.shape[:3], np.float32)
        out = kvc.attend(cache, Foreign(q), lse=sums)
        np.testing.assert_allclose(out.numpy(), kvc.attend(wanted, q, lse=lse), atol=5e-6)
        np.testing.assert_allclose(sums.numpy(), lse, atol=5e-6)
        np.testing.assert_allclose(kvc.attend(cache, Foreign(q), max_rows=20).numpy(), out.numpy(), atol=5e-6)
        cache.check()
        np.testing.assert_array_equal(there["counts"].numpy(), COUNTS + 3)
        np.testing.assert_array_equal(there["lengths"].numpy(), LENGTHS + 3)
        rows = [[(k.numpy()[b, h, :n], v.numpy()[b, h, :n], there["positions"].numpy()[b, h, :n])
                 for h, n in enumerate(COUNTS[b] + 3)] for b in range(BATCH)]  # fmt: skip
        for b in range(BATCH):
            np.testing.assert_allclose(out.numpy()[b], reference(q[b], rows[b], LENGTHS[b] + 3)[0], atol=5e-6)

    def test_behind_an_eviction(self):
        q, k, v = layer()
        kept = (
            on_gpu().plan(kv_heads=2, max_tokens=100, device="cuda").evict(*map(Foreign, (q, k, v)), budget=40, slack=1)
        )
        lengths = Foreign(np.array([100], np.int32))
        cache = kvc.CacheView.ragged(
            kept.k, kept.v, offsets=kept.offsets, counts=kept.counts, lengths=lengths, positions=kept.indices
        )
        new = [Foreign(normal(1, 2, 1, 16, seed=seed)) for seed in (7, 8)]
        before = kept.counts.numpy()
        kvc.append(cache, *new)
        cache.check()
        np.testing.assert_array_equal(kept.counts.numpy(), before + 1)
        self.assertEqual(kvc.attend(cache, Foreign(q[:, :, -1:])).shape, (1, 4, 1, 16))
        # There is no second free row: nothing is written, and whoever asks is told.
        kvc.append(cache, *new)
        with self.refused(kvc.LimitError, "every head must have room for new rows, and no more rows than max_rows"):
            cache.check()
        np.testing.assert_array_equal(kept.counts.numpy(), before + 1)
        cache.check()

    def test_refused(self):
        kept = Kept()
        there = {name: Foreign(array) for name, array in kept.numbers().items()}
        with self.refused(kvc.ArgumentError, "counts must be on k's device, cuda:0, got cpu"):
            kvc.CacheView.dense(Foreign(kept.k), Foreign(kept.v), **{**there, "counts": kept.counts})
        with self.refused(kvc.ArgumentError, "v must be on k's device, cpu, got cuda:0"):
            kvc.CacheView.dense(kept.k, Foreign(kept.v), **kept.numbers())
        cache = kvc.CacheView.dense(Foreign(kept.k), Foreign(kept.v), **there)
        q = normal(BATCH, HEADS * GROUP, 2, DIM)
        with self.refused(kvc.ArgumentError, "q must be on k's device, cuda:0, got cpu"):
            kvc.attend(cache, q)
        with self.refused(kvc.ArgumentError, "out must be on k's device, cuda:0, got cpu"):
            kvc.attend(cache, Foreign(q), out=q.copy())
        read_only = kvc.CacheView.dense(Foreign(kept.k, writable=False), Foreign(kept.v), **there)
        with self.refused(kvc.ArgumentError, "k must be a tensor that can be written to, got a read-only one"):
            kvc.append(read_only, Foreign(kept.k), Foreign(kept.v))
        there["counts"] = Foreign(COUNTS + 100)
        wrong = kvc.CacheView.dense(Foreign(kept.k), Foreign(kept.v), **there)
        kvc.attend(wrong, Foreign(q))
        with self.refused(kvc.ArgumentError, "counts, offsets, tables, positions and members must lead into the cache"):
            wrong.check()


class TestDeviceArray(Case):
    def test_no_driver(self):
        _cuda._driver.cache_clear()
        self.addCleanup(_cuda._driver.cache_clear)
        line = "tensors on a GPU need the driver libcuda.so.1, which was not found"
        with mock.patch("ctypes.CDLL", side_effect=OSError), self.refused(kvc.DriverError, line):
            kvc.DeviceArray.empty(0, "f32", (1,))

    def test_the_drivers_words(self):
        with self.assertRaisesRegex(kvc.DriverError, r"^cuDeviceGet failed: [^\n]+$"):
            kvc.DeviceArray.empty(77, "f32", (1,))

    def test_views(self):
        array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
        there = kvc.DeviceArray.of(0, "i32", array)
        for place in (1, (0, 2), (slice(None), 1), (1, slice(1, 3)), (-1, -1, -1), (slice(0, 1), slice(2, 9), 3)):
            np.testing.assert_array_equal(there[place].numpy(), array[place])
        self.assertEqual((len(there), int(there[1, 1, 1]), there[0].tolist()), (2, 17, array[0].tolist()))
        said = there[1].__cuda_array_interface__
        self.assertEqual((said["shape"], said["typestr"], said["strides"], said["data"][1]),
                         ((3, 4), "<i4", (16, 4), False))  # fmt: skip
        self.assertEqual(said["data"][0], there.address + 48)
        self.assertEqual(repr(there), "<kvc.DeviceArray [2, 3, 4] i32 on cuda:0>")
        with self.assertRaisesRegex(IndexError, "must have step 1, got 2"):
            there[::2]
        with self.assertRaises(IndexError):
            there[2]

    def test_copies(self):
        array = kvc.DeviceArray.empty(0, "f32", (2, 3))
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.refused(kvc.UnsupportedError, "a kvc.DeviceArray must not be copied or pickled; numpy() is"):
                make(array)

    def test_memory_is_freed(self):
        freed = []
        free, _cuda.free = _cuda.free, lambda *where: freed.append(where) or free(*where)
        self.addCleanup(setattr, _cuda, "free", free)
        there = kvc.DeviceArray.empty(0, "f32", (4, 4))
        part, address = there[1], there.address
        del there
        self.assertEqual(freed, [])
        del part
        self.assertEqual(freed, [(0, address)])


if __name__ == "__main__":
    unittest.main()
