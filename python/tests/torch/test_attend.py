"""kvc.attend and kvc.append with tensors of torch: the same as with NumPy's."""

import unittest

import numpy as np
import torch

import kvc

from ..support import Case, layer, planned


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


class TestAttend(Case):
    def setUp(self):
        self.arrays = layer(batch=1)
        self.plan = planned("adakv")

    def decoded(self, tensors, room=2):
        """Two tokens behind an eviction, and the numbers that are left."""
        q, k, v = tensors
        kept = self.plan.evict(q, k, v, budget=50, slack=room)
        lengths = kept.counts[0, :1] * 0 + 100
        cache = kvc.CacheView.ragged(
            kept.k, kept.v, offsets=kept.offsets, counts=kept.counts, lengths=lengths, positions=kept.indices
        )
        kvc.append(cache, k[:, :, 7:9], v[:, :, 7:9])
        return kvc.attend(cache, q[:, :, :2]), kept.counts, lengths

    def test_as_numpy(self):
        wanted, counts, _ = self.decoded(self.arrays)

        def turned(x):
            return x.transpose(1, 2).contiguous().transpose(1, 2)

        for make in (torch.from_numpy, lambda x: turned(torch.from_numpy(x)),
                     lambda x: torch.from_numpy(x).requires_grad_()):  # fmt: skip
            out, ours, lengths = self.decoded(tuple(map(make, self.arrays)))
            self.assertIsInstance(out, torch.Tensor)
            self.assertFalse(out.requires_grad)
            np.testing.assert_array_equal(out.numpy(), wanted)
            np.testing.assert_array_equal(ours.numpy(), counts)
            self.assertEqual(lengths.tolist(), [102])

    def test_as_torch_attends(self):
        # All rows of all heads: scaled_dot_product_attention.
        q, k, v = (torch.from_numpy(x) for x in layer(batch=2, tokens=70, queries=70))
        wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        for dtype, most in ((torch.float32, 5e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
            with self.subTest(dtype):
                cache = kvc.CacheView.dense(k.to(dtype), v.to(dtype), counts=numbers(70, 70))
                out = kvc.attend(cache, q.to(dtype))
                self.assertEqual(out.dtype, dtype)
                self.assertLess((out.float() - wanted).abs().max(), most)

    def test_as_near_as_torch(self):
        # Against double, 16-bit results are as near as their rounding lets them be, which PyTorch's are not.
        for dtype in (torch.bfloat16, torch.float16):
            for queries in (1, 40):
                with self.subTest(dtype, queries=queries):
                    q, k, v = (torch.from_numpy(x).to(dtype) for x in layer(tokens=300, queries=queries, head_dim=64))
                    seen = torch.arange(300) <= torch.arange(300 - queries, 300)[:, None]
                    wide = [x.double() for x in (q, k, v)]
                    wanted, theirs = (
                        torch.nn.functional.scaled_dot_product_attention(*x, attn_mask=seen, enable_gqa=True)
                        for x in (wide, (q, k, v))
                    )
                    ours = kvc.attend(kvc.CacheView.dense(k, v, counts=numbers(300)), q)
                    errors = [float((x.double() - wanted).norm()) for x in (ours, wanted.to(dtype), theirs)]
                    self.assertLess(errors[0], 1.01 * errors[1])
                    self.assertLess(errors[0], errors[2])

    def test_pages_of_an_engine(self):
        # [blocks, heads, 2, rows, d], as vLLM's CPU backend has them: two views of one memory.
        q, k, v = (torch.from_numpy(x) for x in layer(batch=1, tokens=64, queries=3))
        blocks = torch.full((5, 2, 2, 32, 16), float("nan"))
        for number, block in enumerate((3, 1)):
            rows = slice(32 * number, 32 * number + 32)
            blocks[block, :, 0], blocks[block, :, 1] = k[0, :, rows], v[0, :, rows]
        pages = blocks.permute(2, 0, 3, 1, 4)
        cache = kvc.CacheView.paged(pages[0], pages[1], table=numbers([3, 1]), counts=numbers(60))
        dense = kvc.CacheView.dense(k, v, counts=numbers(60))
        self.assertTrue(torch.equal(kvc.attend(cache, q), kvc.attend(dense, q)))

    def test_refused(self):
        _, k, v = map(torch.from_numpy, self.arrays)
        for line, make in (
            ("k must be on the CPU or a CUDA GPU, got meta", lambda: (k.to("meta"), v, numbers(100))),
            ("counts must be i32, got int64", lambda: (k, v, torch.tensor([100]))),
            ("v must be f32, got bf16", lambda: (k, v.bfloat16(), numbers(100))),
            ("k must be a dense tensor, got torch.sparse_coo", lambda: (k.to_sparse(), v, numbers(100))),
            ("the last axis of k must be contiguous", lambda: (k.mT.contiguous().mT, v, numbers(100))),
        ):
            with self.subTest(line), self.refused(kvc.ArgumentError, line):
                keys, values, counts = make()
                kvc.CacheView.dense(keys, values, counts=counts)


if __name__ == "__main__":
    unittest.main()
