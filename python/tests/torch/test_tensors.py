"""Plan.evict with tensors of torch: the same as with NumPy's, and torch's as results."""

import unittest

import numpy as np
import torch

import kvc

from ..support import Case, compiled, indices, layer, planned


class TestTensors(Case):
    def setUp(self):
        self.plan = planned("adakv")
        self.arrays = layer(batch=2)
        self.tensors = tuple(map(torch.from_numpy, self.arrays))
        self.wanted = self.plan.evict(*self.arrays, budget=50, scores=True)

    def same(self, kept):
        self.assertEqual(indices(kept), indices(self.wanted))
        for part in ("counts", "past", "k", "v", "offsets"):
            ours = getattr(kept, part)
            self.assertIsInstance(ours, torch.Tensor)
            np.testing.assert_array_equal(ours.numpy(), getattr(self.wanted, part))

    def test_as_numpy(self):
        kept = self.plan.evict(
            *self.tensors, budget=torch.tensor([50, 50]), lengths=torch.tensor([100, 100]), scores=True
        )
        self.same(kept)
        self.assertEqual(kept.k.dtype, torch.float32)
        np.testing.assert_array_equal(kept[1, 1].scores.numpy(), self.wanted[1, 1].scores)

    def test_strides(self):
        def transposed(x):
            return x.transpose(1, 2).contiguous().transpose(1, 2)

        def sliced(x):
            return torch.nn.functional.pad(x, (4, 4), value=float("nan"))[..., 4:-4]

        for view in (transposed, sliced):
            self.same(self.plan.evict(*map(view, self.tensors), budget=50))
        q, k, v = self.tensors
        one = [x[:1].expand_as(x) for x in (q, k, v)]
        self.assertEqual(indices(self.plan.evict(*one, budget=50))[1], indices(self.wanted)[0])

    def test_gradients_stay_out(self):
        q, k, v = (x.clone().requires_grad_() for x in self.tensors)
        kept = self.plan.evict(q[:, :, :], k, v, budget=50)
        self.assertFalse(kept.k.requires_grad)
        self.same(kept)
        self.assertEqual(self.plan.evict(q[:, :, :3], k, v, budget=100).counts.tolist(), [[100, 100]] * 2)

    def test_bfloat16(self):
        plan = compiled("adakv", dtype="bf16").plan(kv_heads=2, max_tokens=256, max_batch=2)
        rounded = [x.bfloat16() for x in self.tensors]
        bits = [x.view(torch.int16).numpy().view(np.uint16) for x in rounded]
        ours, theirs = plan.evict(*rounded, budget=50), plan.evict(*bits, budget=50)
        self.assertEqual(indices(ours), indices(theirs))
        self.assertEqual(ours.k.dtype, torch.bfloat16)
        np.testing.assert_array_equal(ours.v.view(torch.int16).numpy().view(np.uint16), theirs.v)

    def test_by_dlpack(self):
        class Exported:
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack__(self):
                return self.tensor.__dlpack__()

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

        plan = compiled("adakv", dtype="bf16").plan(kv_heads=2, max_tokens=256, max_batch=2)
        rounded = [x.bfloat16() for x in self.tensors]
        kept = plan.evict(*map(Exported, rounded), budget=50)
        self.assertEqual(indices(kept), indices(plan.evict(*rounded, budget=50)))
        self.assertEqual(kept.k.dtype, np.uint16)

    def test_refused(self):
        q, k, v = self.tensors
        for tensors, rule in (
            ((q, k.bfloat16(), v), "k must be f32, got bf16"),
            ((q, k.double(), v), "k must be f32, got float64"),
            ((q, k.to("meta"), v), "k must be on the CPU or a CUDA GPU, got meta"),
            ((q, k.to_sparse(), v), "k must be a dense tensor, got torch.sparse_coo"),
            ((q, k, v.mT), "v must be [batch 2, kv_heads 2, tokens 100, head_dim 16], got [2, 2, 16, 100]"),
            ((q, k, v.mT.contiguous().mT), "the last axis of v must be contiguous, got strides [3200, 1600, 1, 100]"),
            ((torch.zeros(2, 4, 32, 16, dtype=torch.complex64).conj(), k, v), "q must hold its values as they are"),
        ):
            with self.subTest(rule), self.refused(kvc.ArgumentError, rule):
                self.plan.evict(*tensors, budget=50)


if __name__ == "__main__":
    unittest.main()
