"""Plan.prepare: what depends on a layer's weights alone, once for all its calls."""

import numpy as np

import kvc

from ..support import Case, compiled, indices, layer, normal, planned


def pruned(**more):
    return compiled("criticalkv", prune_norms=True).plan(kv_heads=2, max_tokens=256, max_batch=2, **more)


class TestPrepare(Case):
    def setUp(self):
        self.q, self.k, self.v = layer(batch=2)
        self.wo = normal(40, 4 * 16, seed=7)

    def evict(self, plan, **more):
        return plan.evict(self.q, self.k, self.v, **{"budget": 50, "wo": self.wo, **more})

    def same(self, kept, wanted):
        self.assertEqual(indices(kept), indices(wanted))
        np.testing.assert_array_equal(kept.k, wanted.k)
        np.testing.assert_array_equal(kept.v, wanted.v)

    def test_the_same_is_kept(self):
        plan, wanted = pruned(), self.evict(planned("criticalkv"))
        self.assertGreater(plan.prepared_bytes, 0)
        prepared = plan.prepare(self.wo)
        self.assertEqual(prepared.nbytes, plan.prepared_bytes)
        before = prepared.copy()
        for _ in range(2):
            self.same(self.evict(plan, prepared=prepared), wanted)
        np.testing.assert_array_equal(prepared, before)
        self.same(self.evict(plan), wanted)
        kept = plan.select(self.q, self.k, self.v, budget=50, wo=self.wo, prepared=prepared)
        self.assertEqual(indices(kept), indices(wanted))
        # A plan of other limits reads it, too.
        self.same(self.evict(pruned(seed=3, lse_given=False), prepared=prepared), wanted)

    def test_it_is_read(self):
        plan = pruned()
        other = plan.prepare(np.zeros_like(self.wo))
        # By bounds of 0 no norm can decide.
        self.assertNotEqual(indices(self.evict(plan, prepared=other)), indices(self.evict(plan)))

    def test_projections_of_their_own(self):
        wide = np.stack([self.wo, normal(40, 4 * 16, seed=8)])
        plan = pruned()
        self.same(self.evict(plan, wo=wide), self.evict(planned("criticalkv"), wo=wide))
        rule = "wo.batch_stride must be 0 where prepared is given, which is of one projection, got 2560"
        with self.refused(kvc.ArgumentError, rule):
            self.evict(plan, wo=wide, prepared=plan.prepare(self.wo))
        alone = {"wo": wide[:1], "prepared": plan.prepare(self.wo), "budget": 50}
        kept = plan.evict(self.q[:1], self.k[:1], self.v[:1], **alone)
        self.assertEqual(indices(kept)[0], indices(self.evict(plan))[0])

    def test_where_nothing_is_prepared(self):
        for name in ("snapkv", "criticalkv"):
            plan = planned(name)
            self.assertEqual(plan.prepared_bytes, 0)
            prepared = plan.prepare(self.wo)
            self.assertEqual(prepared.nbytes, 0)
            self.same(self.evict(plan, prepared=prepared), self.evict(plan))

    def test_refused(self):
        plan = pruned()
        prepared = plan.prepare(self.wo)
        bytes_ = plan.prepared_bytes
        for wrong, kind, rule in (
            (prepared[:-256], kvc.ArgumentError, f"prepared must have {bytes_} bytes, got {bytes_ - 256}"),
            (np.concatenate([prepared, prepared])[1:], kvc.AlignmentError, "prepared must be aligned to 16 bytes"),
            (prepared.view(np.float32), kvc.ArgumentError, "prepared must be u8, got f32"),
            (prepared[None], kvc.ArgumentError, "prepared must be [bytes], got [1,"),
            (3, kvc.ArgumentError, "prepared must be a tensor (torch, NumPy, DLPack), got int"),
        ):
            with self.subTest(rule), self.refused(kind, rule):
                self.evict(plan, prepared=wrong)
        for wrong, rule in (
            (self.wo[:, :-1], "wo must be [hidden, q_heads * head_dim 64], got [40, 63]"),
            (self.wo.astype(np.float16), "wo must be f32, got f16"),
            (self.wo[None].repeat(2, 0), "wo must be [batch 1, hidden, q_heads * head_dim 64], got [2, 40, 64]"),
        ):
            with self.subTest(rule), self.refused(kvc.ArgumentError, rule):
                plan.prepare(wrong)
