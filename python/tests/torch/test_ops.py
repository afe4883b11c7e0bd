"""torch.ops.kvc: registered right, compiled without a break, the same as Plan.evict."""

import dataclasses
import gc
import unittest

import numpy as np
import torch

import kvc
import kvc.torch

from ..support import Case, compiled, layer, planned


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


def arguments(plan, tensors, budget=50, **more):
    """What torch.ops.kvc.evict takes."""
    q, k, v = tensors
    out = kvc.torch.buffers(plan, len(k), k.shape[2])
    seen = []
    original, torch.ops.kvc.evict = torch.ops.kvc.evict, lambda *args: seen.append(args)
    try:
        call = {"lengths": numbers(*[k.shape[2]] * len(k)), "budgets": numbers(*[budget] * len(k)), "out": out, **more}
        kvc.torch.evict(plan, q, k, v, **call)
    finally:
        torch.ops.kvc.evict = original
    return seen[0], out


def evicted(plan, tensors, **more):
    """What kvc.torch.evict keeps."""
    args, out = arguments(plan, tensors, **more)
    torch.ops.kvc.evict(*args)
    return out


class TestOps(Case):
    def setUp(self):
        torch.manual_seed(0)
        self.arrays = layer(batch=2)
        self.tensors = tuple(map(torch.from_numpy, self.arrays))

    def same(self, out, kept):
        heads = out.counts.shape[1]
        np.testing.assert_array_equal(out.counts, kept.counts)
        np.testing.assert_array_equal(out.offsets, kept.offsets)
        np.testing.assert_array_equal(out.past, kept.past)
        self.assertEqual(out.status.item(), 0)
        for b in range(len(out.counts)):
            rows = int(out.counts[b].sum()) + heads * out.slack
            np.testing.assert_array_equal(out.k[b, :rows], kept.k[b, :rows])
            np.testing.assert_array_equal(out.v[b, :rows], kept.v[b, :rows])
            for h in range(heads):
                count = out.counts[b, h]
                np.testing.assert_array_equal(out.indices[b, h, :count], kept[b, h].indices)

    def test_as_plan(self):
        q, k, v = self.tensors
        for name, more in (
            ("snapkv", {}),
            ("adakv", {}),
            ("criticalkv", {"wo": torch.randn(24, 64)}),
            ("kvec", {"state": torch.zeros(2, 100, dtype=torch.int32), "layer": 1, "layers": 3}),
            ("headkv", {"table": torch.rand(3, 4), "layer": 1, "layers": 3}),
            ("ems", {"k_raw": torch.randn(2, 2, 100, 16), "q": torch.randn(2, 4, 100, 16)}),
            ("streaming_llm", {}),
        ):
            with self.subTest(name):
                plan = planned(name)
                more = dict(more)
                queries = more.pop("q", q)
                wanted = plan.evict(queries, k, v, budget=50, **more)
                if "state" in more:
                    more["state"] = torch.zeros(2, 100, dtype=torch.int32)
                out = kvc.torch.buffers(plan, 2, 100)
                call = {"lengths": numbers(100, 100), "budgets": numbers(50, 50), "out": out, **more}
                kvc.torch.evict(plan, queries, k, v, **call)
                self.same(out, wanted)
                if wanted.members is not None:
                    np.testing.assert_array_equal(out.member_counts, wanted.members.counts)
                    np.testing.assert_array_equal(out.member_rows, wanted.members.rows)
                if "state" in more:
                    more["state"].zero_()
                chosen = dataclasses.replace(kvc.torch.buffers(plan, 2, 100))
                kvc.torch.select(plan, queries, k, v, **{**call, "out": chosen})
                np.testing.assert_array_equal(chosen.indices, out.indices)
                self.assertFalse(chosen.k.any())

    def test_prepared(self):
        wo = torch.randn(24, 64)
        plan = compiled("criticalkv", prune_norms=True).plan(kv_heads=2, max_tokens=256, max_batch=2)
        prepared = plan.prepare(wo)
        self.assertIsInstance(prepared, torch.Tensor)
        wanted = planned("criticalkv").evict(*self.tensors, budget=50, wo=wo)
        self.same(evicted(plan, self.tensors, wo=wo, prepared=prepared), wanted)
        args, out = arguments(plan, self.tensors, wo=wo, prepared=prepared)
        out.workspace.zero_()
        torch.library.opcheck(torch.ops.kvc.evict.default, args)
        with self.refused(kvc.ArgumentError, "prepared must have"):
            evicted(plan, self.tensors, wo=wo, prepared=prepared[:-256])

    def test_opcheck(self):
        strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in self.tensors]
        state = torch.zeros(2, 100, dtype=torch.int32)
        for name, tensors, more in (
            ("adakv", self.tensors, {}),
            ("adakv", strided, {}),
            ("kvec", self.tensors, {"state": state, "layer": 0, "layers": 2}),
            ("ems", (torch.randn(2, 4, 100, 16), *self.tensors[1:]), {"k_raw": torch.randn(2, 2, 100, 16)}),
        ):
            with self.subTest(name):
                plan = planned(name)
                args, out = arguments(plan, tensors, **more)
                # The scratch memory holds anything at first.
                out.workspace.zero_()
                torch.library.opcheck(torch.ops.kvc.evict.default, args)
                torch.library.opcheck(torch.ops.kvc.select.default, args[:-4])

    def test_compile(self):
        plan = planned("adakv")

        def attend(q, k, v, out):
            k = k * 2
            kvc.torch.evict(plan, q, k, v.transpose(1, 2), lengths=numbers(100, 100), budgets=numbers(50, 50), out=out)
            return out.k.sum() + out.counts.sum(), k

        q, k, v = self.tensors
        v = v.transpose(1, 2).contiguous()
        out = kvc.torch.buffers(plan, 2, 100, rows=100)
        wanted = plan.evict(q, k * 2, v.transpose(1, 2), budget=50)
        for backend in ("eager", "aot_eager", "inductor"):
            for dynamic in (False, True):
                with self.subTest(backend, dynamic=dynamic):
                    torch._dynamo.reset()
                    for part in (out.k, out.v, out.counts, out.indices):
                        part.zero_()
                    total, doubled = torch.compile(attend, backend=backend, fullgraph=True, dynamic=dynamic)(
                        q, k, v, out
                    )
                    self.same(out, wanted)
                    torch.testing.assert_close(total, out.k.sum() + 200)
                    torch.testing.assert_close(doubled, k * 2)

    def test_refused(self):
        plan = planned("snapkv")
        good, out = arguments(plan, self.tensors)
        names = [argument.name for argument in torch.ops.kvc.evict.default._schema.arguments]
        q, k, v = self.tensors
        for changed, kind, rule in (
            ({"k": k.double()}, kvc.ArgumentError, "k must be f32, got float64"),
            ({"q": None}, kvc.ArgumentError, "q must not be null"),
            ({"q": q[:, :, :20]}, kvc.ArgumentError, "policy 'snapkv' reads the last 32 queries, got q_rows 20"),
            ({"v": v[:, :, :50]}, kvc.ArgumentError, "v must be [batch 2, kv_heads 2, tokens 100, head_dim 16]"),
            (
                {"lengths": numbers(100, 101)},
                kvc.ArgumentError,
                "lengths must be 1 to 100, the tokens in k, got [100, 101]",
            ),
            ({"lengths": torch.tensor([100, 100])}, kvc.ArgumentError, "lengths must be i32, got int64"),
            ({"budgets": numbers(50, 0)}, kvc.ArgumentError, "budgets must be at least 1, got [50, 0]"),
            ({"budgets": numbers(50)}, kvc.ArgumentError, "budgets must be [batch 2], got [1]"),
            ({"slack": -1}, kvc.ArgumentError, "slack must be a whole number of 0 to"),
            ({"layer": 1}, kvc.ArgumentError, "layer must be a whole number of 0 to 0, got 1"),
            ({"layers": 0}, kvc.ArgumentError, "layers must be a whole number of 1 to"),
            ({"scale": float("nan")}, kvc.ArgumentError, "scale must be finite, got nan"),
            ({"workspace": out.workspace[:256]}, kvc.ArgumentError, "workspace must have"),
            ({"workspace": out.workspace[1:]}, kvc.ArgumentError, "workspace must have"),
            ({"indices": out.indices.transpose(0, 1)}, kvc.ArgumentError, "indices must be contiguous, got strides"),
            ({"counts": out.counts.long()}, kvc.ArgumentError, "counts must be i32, got int64"),
            ({"k_out": out.k[..., :8]}, kvc.ArgumentError, "k_out must be [batch 2, rows, head_dim 16]"),
            (
                {"v_out": out.v[:, :90].contiguous()},
                kvc.ArgumentError,
                "v_out must be [batch 2, rows 200, head_dim 16]",
            ),
            ({"plan": 10**6}, kvc.ArgumentError, "plan must be the number of a kvc.Plan that is there, got 1000000"),
            (
                {"k_out": out.k[:, :99].contiguous(), "v_out": out.v[:, :99].contiguous()},
                kvc.LimitError,
                "k_out must have room for the 100 rows that were kept, got 99",
            ),
            (
                {"k": k.to("meta"), "v": v.to("meta")},
                kvc.ArgumentError,
                "tensors of one call must be on one device, got cpu and meta",
            ),
        ):
            given = dict(zip(names, good, strict=True))
            given.update(changed)
            with self.subTest(rule), self.refused(kind, rule):
                torch.ops.kvc.evict(*given.values())

    def test_buffers(self):
        plan = planned("snapkv")
        for sizes, rule in (
            ({"batch": 0}, "batch must be a whole number of 1 to 2147483647, got 0"),
            ({"tokens": -1}, "tokens must be a whole number of 1 to 2147483647, got -1"),
            ({"rows": 0}, "rows must be a whole number of 1 to 2147483647, got 0"),
            ({"slack": -1}, "slack must be a whole number of 0 to 2147483647, got -1"),
        ):
            with self.refused(kvc.ArgumentError, rule):
                kvc.torch.buffers(plan, **sizes)

    def test_a_plan_that_is_gone(self):
        plan = planned("snapkv")
        args, _ = arguments(plan, self.tensors)
        del plan
        gc.collect()
        with self.refused(kvc.ArgumentError, f"plan must be the number of a kvc.Plan that is there, got {args[0]}"):
            torch.ops.kvc.evict(*args)


if __name__ == "__main__":
    unittest.main()
