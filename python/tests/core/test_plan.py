"""Plan.select and Plan.evict: right, or one exception."""

import copy
import gc
import pickle
import threading
import unittest
import warnings

import numpy as np

import kvc

from ..support import Case, compiled, indices, layer, normal, planned


class Exported:
    """What speaks DLPack and nothing else."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


class TestResults(Case):
    def setUp(self):
        self.plan = planned()
        self.q, self.k, self.v = layer(batch=2)

    def evict(self, **more):
        values = {"q": self.q, "k": self.k, "v": self.v, "budget": 50, **more}
        plan = values.pop("plan", self.plan)
        return plan.evict(values.pop("q"), values.pop("k"), values.pop("v"), **values)

    def test_what_is_kept(self):
        kept = self.evict(scores=True)
        self.assertEqual(kept.counts.tolist(), [[50, 50], [50, 50]])
        self.assertEqual(kept.past.tolist(), [68, 68])
        for b in range(2):
            for h in range(2):
                head = kept[b, h]
                tokens = head.indices
                self.assertTrue((np.diff(tokens) > 0).all())
                self.assertEqual(tokens[-32:].tolist(), list(range(68, 100)))
                np.testing.assert_array_equal(head.k, self.k[b, h, tokens])
                np.testing.assert_array_equal(head.v, self.v[b, h, tokens])
                # The rest are the best by the scores, ties to the smaller token.
                order = np.lexsort((np.arange(68), -head.scores))[:18]
                self.assertEqual(tokens[:18].tolist(), sorted(order.tolist()))

    def test_select_copies_nothing(self):
        kept = self.plan.select(self.q, self.k, budget=50)
        self.assertEqual(indices(kept), indices(self.evict()))
        self.assertIsNone(kept.k)
        self.assertIsNone(kept[0, 0].k)
        self.assertIsNone(kept.scores)

    def test_a_head_is_asked_for_by_sequence_and_head(self):
        kept = self.evict()
        for place, text in ((0, "0"), ("a", "'a'"), ((0, 0, 0), "(0, 0, 0)")):
            with self.refused(kvc.ArgumentError, f"a head is kept[sequence, head], got kept[{text}]"):
                kept[place]

    def test_ragged_heads_and_slack(self):
        plan = planned("adakv")
        kept = self.evict(plan=plan, slack=5)
        self.assertEqual(kept.counts.sum(axis=1).tolist(), [100, 100])
        self.assertNotEqual(len(set(kept.counts.ravel().tolist())), 1)
        self.assertEqual(kept.k.shape, (2, 110, 16))
        for b in range(2):
            first, second = kept.counts[b]
            self.assertEqual(kept.offsets[b].tolist(), [0, first + 5])
            np.testing.assert_array_equal(kept.v[b, first + 5 :][:second], self.v[b, 1, kept[b, 1].indices])

    def test_lengths_and_budgets_of_each(self):
        kept = self.evict(lengths=[100, 60], budget=[50, 40])
        for b, (length, budget) in enumerate(((100, 50), (60, 40))):
            alone = self.evict(
                q=self.q[b : b + 1], k=self.k[b : b + 1, :, :length], v=self.v[b : b + 1, :, :length], budget=budget
            )
            self.assertEqual(indices(kept)[b], indices(alone)[0])
        share = self.evict(lengths=np.array([100, 60]), budget=0.5)
        self.assertEqual(share.counts.tolist(), [[50, 50], [30, 30]])

    def test_a_cache_with_room_behind(self):
        room = np.full((2, 2, 256, 16), np.nan, np.float32)
        values = room.copy()
        room[:, :, :100], values[:, :, :100] = self.k, self.v
        kept = self.evict(k=room, v=values, lengths=[100, 100])
        self.assertEqual(indices(kept), indices(self.evict()))
        self.assertFalse(np.isnan(kept.k).any())

    def test_all_fit(self):
        for budget in (100, 1000, 1.0):
            kept = self.evict(budget=budget, q=None, scores=True)
            self.assertEqual(kept.counts.tolist(), [[100, 100], [100, 100]])
            self.assertEqual(kept.past.tolist(), [0, 0])
            self.assertIsNone(kept[0, 0].scores)
            np.testing.assert_array_equal(kept[1, 1].k, self.k[1, 1])
        # In the window nothing is ranked, and no query needed.
        self.assertEqual(self.evict(budget=20, q=None)[0, 0].indices.tolist(), list(range(80, 100)))

    def test_few_queries(self):
        with self.refused(kvc.ArgumentError, "policy 'snapkv' reads the last 32 queries, got 31"):
            self.evict(q=self.q[:, :, 1:])
        with self.refused(kvc.ArgumentError, "policy 'snapkv' reads the last 32 queries, got 0"):
            self.evict(q=None)
        # More than are read: the last count.
        more = np.concatenate([normal(2, 4, 3, 16, seed=9), self.q], axis=2)
        self.assertEqual(indices(self.evict(q=more)), indices(self.evict()))
        # A prompt shorter than what is read: in front of it are rows of zeros.
        # It must rank them all the same: SnapKV, its window not protected.
        text = kvc.policies()["snapkv"].read_text().replace(" protect_last(%window)", "")
        plan = compiled(text).plan(kv_heads=2, max_tokens=256, max_batch=2)
        short = {"k": self.k[:, :, :20], "v": self.v[:, :, :20], "budget": 10, "plan": plan, "scores": True}
        padded, behind = np.zeros((2, 2, 4, 32, 16), np.float32)
        padded[:, :, 12:] = behind[:, :, :20] = self.q[:, :, :20]
        by_few, by_padded, by_behind = (
            self.evict(q=q, **short)[0, 0].scores.tolist() for q in (self.q[:, :, :20], padded, behind)
        )
        self.assertEqual(by_few, by_padded)
        self.assertNotEqual(by_few, by_behind)

    def test_log_sum_exp(self):
        logits = np.einsum("bhqd,bhtd->bhqt", self.q, self.k.repeat(2, axis=1)) / 4
        logits[:, :, np.arange(32)[:, None] + 68 < np.arange(100)] = -np.inf
        lse = np.log(np.exp(logits).sum(axis=-1))
        plan = planned(lse_given=True)
        self.assertLess(plan.launches, self.plan.launches)
        wanted = indices(self.evict())
        self.assertEqual(indices(self.evict(plan=plan, lse=lse)), wanted)
        self.assertEqual(
            indices(self.evict(plan=plan, lse=(lse / np.log(2)).astype(np.float32), lse_base_2=True)), wanted
        )
        with self.refused(kvc.ArgumentError, "lse must be given to a plan with lse_given=True, got None"):
            self.evict(plan=plan)
        self.assertEqual(self.evict(plan=plan, budget=100).counts.tolist(), [[100, 100], [100, 100]])
        # It is used: another one gives another result.
        tilted = lse + np.linspace(0, 5, 32, dtype=np.float32)
        self.assertNotEqual(indices(self.evict(plan=plan, lse=tilted)), wanted)

    def test_scale(self):
        self.assertEqual(indices(self.evict(scale=0.25)), indices(self.evict()))
        self.assertNotEqual(indices(self.evict(scale=2.0)), indices(self.evict()))
        for scale in (0.0, float("nan"), float("inf"), "wide", 1j):
            with self.refused(kvc.ArgumentError, f"scale must be finite and not 0, got {scale!r}"):
                self.evict(scale=scale)

    def test_what_is_not_read_is_not_looked_at(self):
        kept = self.evict(wo="no tensor", k_raw=3, table=None, state="?")
        self.assertEqual(indices(kept), indices(self.evict()))

    def test_nan(self):
        self.k[0, 0, 40] = np.nan
        with self.assertWarnsRegex(kvc.DataWarning, "some scores are NaN"):
            kept = self.evict()
        self.assertNotIn(40, kept[0, 0].indices)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.evict(k=np.nan_to_num(self.k))

    def test_seed_and_threads(self):
        plan = planned("adakv", threads=2, seed=3)
        self.assertEqual(indices(self.evict(plan=plan)), indices(self.evict(plan=planned("adakv"))))


class TestLayouts(Case):
    """Tensors of any strides, where they lie."""

    def setUp(self):
        self.plan = planned()
        self.q, self.k, self.v = layer(batch=2)
        self.wanted = self.plan.evict(self.q, self.k, self.v, budget=50)

    def same(self, q, k, v):
        kept = self.plan.evict(q, k, v, budget=50)
        self.assertEqual(indices(kept), indices(self.wanted))
        np.testing.assert_array_equal(kept.k, self.wanted.k)
        np.testing.assert_array_equal(kept.v, self.wanted.v)

    def test_strides(self):
        def tokens_first(x):
            return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)

        def wider(x):
            room = np.full((*x.shape[:3], 24), np.nan, np.float32)
            room[..., :16] = x
            return room[..., :16]

        def backwards(x):
            return np.ascontiguousarray(x[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]

        for view in (tokens_first, wider, backwards):
            self.same(*map(view, (self.q, self.k, self.v)))
        fused = np.concatenate([self.k, self.v], axis=1)
        self.same(self.q, fused[:, :2], fused[:, 2:])

    def test_one_sequence_for_all(self):
        k, v = (np.broadcast_to(x[:1], x.shape) for x in (self.k, self.v))
        kept = self.plan.evict(np.broadcast_to(self.q[:1], self.q.shape), k, v, budget=50)
        self.assertEqual(indices(kept)[0], indices(kept)[1])
        self.assertEqual(indices(kept)[0], indices(self.wanted)[0])

    def test_read_only(self):
        for array in (self.q, self.k, self.v):
            array.flags.writeable = False
        self.same(self.q, self.k, self.v)

    def test_dlpack(self):
        self.same(*map(Exported, (self.q, self.k, self.v)))
        self.same(Exported(self.q), Exported(np.asfortranarray(self.k).copy(order="C")), self.v)
        broken = Exported(self.k)
        broken.__class__ = type("Broken", (Exported,), {"__dlpack__": lambda self: 3})
        with self.refused(kvc.ArgumentError, "__dlpack__ of k must give a capsule 'dltensor', got 3"):
            self.plan.evict(self.q, broken, self.v, budget=50)
        few = Exported(np.ascontiguousarray(self.q[:, :, :20]))
        kept = self.plan.evict(few, Exported(self.k), Exported(self.v), budget=100)
        self.assertEqual(kept.counts.tolist(), [[100, 100], [100, 100]])

    def test_types(self):
        for dtype, cast in (("f16", np.float16), ("bf16", None)):
            plan = compiled("snapkv", dtype=dtype).plan(kv_heads=2, max_tokens=256, max_batch=2)
            if cast is None:  # its bits, cut from those of f32
                tensors = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (self.q, self.k, self.v)]
            else:
                tensors = [x.astype(cast) for x in (self.q, self.k, self.v)]
            kept = plan.evict(*tensors, budget=50)
            self.assertEqual(kept.k.dtype, tensors[1].dtype)
            np.testing.assert_array_equal(kept[1, 0].v, tensors[2][1, 0, kept[1, 0].indices])
            # Nearly what f32 keeps.
            common = set(kept[0, 0].indices.tolist()) & set(self.wanted[0, 0].indices.tolist())
            self.assertGreater(len(common), 45)

    def test_refused(self):
        q, k, v = self.q, self.k, self.v
        unaligned = np.frombuffer(bytearray(k.nbytes + 2), np.float32, offset=2).reshape(k.shape)
        odd = np.zeros((2, 2, 100, 18), np.float32)[..., :16]
        for tensors, kind, rule in (
            ((q, k[0], v), kvc.ArgumentError, "k must be [batch, kv_heads 2, tokens, head_dim 16], got [2, 100, 16]"),
            (
                (q, k[..., :8], v),
                kvc.ArgumentError,
                "k must be [batch, kv_heads 2, tokens, head_dim 16], got [2, 2, 100, 8]",
            ),
            ((q, k, v[:, :, :99]), kvc.ArgumentError, "v must be [batch 2, kv_heads 2, tokens 100, head_dim 16], got"),
            ((q, k, v[:1]), kvc.ArgumentError, "v must be [batch 2,"),
            (
                (q[:, :3], k, v),
                kvc.ArgumentError,
                "q must be [batch 2, q_heads 4, queries, head_dim 16], got [2, 3, 32, 16]",
            ),
            ((q, k[:, :, :0], v), kvc.ArgumentError, "got [2, 2, 0, 16]"),
            ((q, k.astype(np.float16), v), kvc.ArgumentError, "k must be f32, got f16"),
            ((q, k, v.astype(np.float64)), kvc.ArgumentError, "v must be f32, got float64"),
            ((q.astype(np.int32), k, v), kvc.ArgumentError, "q must be f32, got i32"),
            ((q, k, (v + 1j).astype(np.complex64)), kvc.ArgumentError, "v must be f32, got complex64"),
            ((q, k.astype(">f4"), v), kvc.ArgumentError, "k must have the machine's byte order, got >f4"),
            ((q, k.tolist(), v), kvc.ArgumentError, "k must be a tensor (torch, NumPy, DLPack), got list"),
            ((q, k, None), kvc.ArgumentError, "v must not be null"),
            (
                (q, Exported(k, (2, 1)), v),
                kvc.ArgumentError,
                "k must be on the plan's device, cpu, got cuda:1",
            ),
            (
                (q, k, Exported(v, (10, 0))),
                kvc.ArgumentError,
                "v must be on the CPU or a CUDA GPU, got DLPack device 10:0",
            ),
            (
                (q, np.asfortranarray(k), v),
                kvc.ArgumentError,
                "the last axis of k must be contiguous, got strides [1, 2, 4, 400]",
            ),
            ((q, unaligned, v), kvc.AlignmentError, "k must be aligned to 4 bytes"),
            ((q, odd, v), kvc.AlignmentError, "strides of k must be multiples of 4 elements, got 18"),
            (
                (q[:1].repeat(3, 0), k[:1].repeat(3, 0), v[:1].repeat(3, 0)),
                kvc.LimitError,
                "batch must be 1 to 2 (the plan's max_batch), got 3",
            ),
        ):
            with self.subTest(rule), self.refused(kind, rule):
                self.plan.evict(*tensors, budget=50)
        long = np.zeros((1, 2, 300, 16), np.float32)
        with self.refused(kvc.LimitError, "tokens must be 1 to 256 (the plan's max_tokens), got 300"):
            self.plan.evict(q[:1], long, long, budget=50)


class TestArguments(Case):
    def setUp(self):
        self.plan = planned()
        self.tensors = layer(batch=2)

    def test_numbers(self):
        for more, rule in (
            ({"budget": 0}, "a budget must be a whole number of 1 to"),
            ({"budget": [50]}, "budget must be one for all or one for each of 2 sequences, got 1"),
            ({"budget": "many"}, "a budget must be a number of tokens or a share"),
            ({"budget": np.array(0)}, "a budget must be a whole number"),
            ({"lengths": [100, 101]}, "lengths must be 1 to 100, the tokens in k, got [100, 101]"),
            ({"lengths": [100, 0]}, "lengths must be a whole number of 1 to 2147483647, got 0"),
            ({"lengths": [1.5, 2]}, "lengths must be a whole number of 1 to 2147483647, got 1.5"),
            ({"lengths": [100]}, "lengths must be one for all or one for each of 2 sequences, got 1"),
            ({"slack": -1}, "slack must be a whole number of 0 to 2147483647, got -1"),
            ({"layer": 3, "layers": 3}, "layer must be a whole number of 0 to 2, got 3"),
            ({"layers": 0}, "layers must be a whole number of 1 to"),
        ):
            with self.subTest(rule), self.refused(kvc.ArgumentError, rule):
                self.plan.evict(*self.tensors, **{"budget": 50, **more})

    def test_plans(self):
        policy = compiled()
        for more, kind, rule in (
            ({"kv_heads": 0}, kvc.ArgumentError, "kv_heads must be a whole number of 1 to 2147483647, got 0"),
            ({"kv_heads": -1}, kvc.ArgumentError, "got -1"),
            ({"kv_heads": 1.0}, kvc.ArgumentError, "got 1.0"),
            ({"kv_heads": 1025}, kvc.LimitError, "kv_heads at most 1024"),
            ({"max_tokens": 0}, kvc.ArgumentError, "max_tokens must be a whole number of 1 to"),
            ({"max_batch": 1 << 16}, kvc.LimitError, "max_batch must be below 2^16"),
            (
                {"q_heads": 6},
                kvc.ArgumentError,
                "policy 'snapkv' is compiled for (head_dim=16,group=2,dtype=f32), got 6, None, None with 2 KV heads",
            ),
            ({"dtype": "bf16"}, kvc.ArgumentError, "got None, None, bf16 with 2 KV heads"),
            (
                {"device": "gpu"},
                kvc.ArgumentError,
                "a device must be 'cpu', 'cuda' or 'cuda:N', got 'gpu'",
            ),
            ({"threads": -1}, kvc.ArgumentError, "threads must be a whole number of 0 to"),
        ):
            with self.subTest(rule), self.refused(kind, rule):
                policy.plan(**{"kv_heads": 2, "max_tokens": 256, **more})
        self.assertEqual(policy.plan(kv_heads=2, max_tokens=9, q_heads=4, head_dim=16, dtype="f32").q_heads, 4)

    def test_inputs_that_only_some_read(self):
        q, k, v = self.tensors
        wo = normal(24, 64, seed=7)
        for name, given, rule in (
            ("criticalkv", {}, "policy 'criticalkv' reads the weight of the output projection: give wo, got None"),
            ("criticalkv", {"wo": wo[:, :60]}, "wo must be [hidden, q_heads * head_dim 64], got [24, 60]"),
            (
                "criticalkv",
                {"wo": np.stack([wo] * 3)},
                "wo must be [batch 2, hidden, q_heads * head_dim 64], got [3, 24, 64]",
            ),
            ("ems", {"q": normal(2, 4, 100, 16)}, "policy 'ems' reads keys before RoPE: give k_raw, got None"),
            ("ems", {"k_raw": k}, "policy 'ems' reads the last 100 queries, got 32"),
            (
                "headkv",
                {"layer": 0, "layers": 1},
                "policy 'headkv' reads the importance of heads: give table, got None",
            ),
            (
                "headkv",
                {"layer": 0, "layers": 2, "table": np.ones((1, 4), np.float32)},
                "table must be [layers 2, q_heads 4], got [1, 4]",
            ),
            (
                "headkv",
                {"layer": 0, "layers": 1, "table": np.full((1, 4), -1, np.float32)},
                "the importance of heads must be finite, 0 or more and above 0 for some head, got -1.0 to -1.0",
            ),
            ("headkv", {"layer": 0, "layers": 1, "table": np.zeros((1, 4), np.float32)}, "got 0.0 to 0.0"),
            (
                "headkv",
                {"table": np.ones((1, 4), np.float32)},
                "policy 'headkv' goes by layers: give layer and layers, got None and None",
            ),
            (
                "kvec",
                {"layer": 0, "layers": 1},
                "policy 'kvec' reads what earlier layers left (plan.state()): give state, got None",
            ),
            (
                "kvec",
                {"layer": 0, "layers": 1, "state": np.zeros((1, 256), np.int32)},
                "state must be for 2 sequences or more, got [1, 256]",
            ),
            ("kvec", {"layer": 0, "layers": 1, "state": np.zeros((2, 256), np.int64)}, "state must be i32, got int64"),
        ):
            arguments = {"q": q, "k": k, "v": v, "budget": 50, **given}
            with self.subTest(rule), self.refused(kvc.ArgumentError, rule):
                planned(name).evict(**arguments)
        with self.refused(kvc.LimitError, "state_rows must be at least tokens (100)"):
            planned("kvec").evict(q, k, v, budget=50, layer=0, layers=1, state=np.zeros((2, 99), np.int32))
        with self.refused(kvc.ArgumentError, "policy 'lagkv' reads the values: give v, got None"):
            planned("lagkv").select(None, k, budget=50)
        # One projection each is as good as one for all.
        plan = planned("criticalkv")
        one = plan.evict(q, k, v, budget=50, wo=wo)
        self.assertEqual(indices(plan.evict(q, k, v, budget=50, wo=np.stack([wo, wo]))), indices(one))
        # All fit: nothing is read that would have to be there.
        self.assertEqual(plan.evict(None, k, v, budget=100).counts.tolist(), [[100, 100], [100, 100]])

    def test_read_only_state(self):
        state = np.zeros((2, 256), np.int32)
        state.flags.writeable = False
        with self.refused(kvc.ArgumentError, "state must be a tensor that can be written to, got a read-only one"):
            planned("kvec").evict(*self.tensors, budget=50, layer=0, layers=1, state=state)


class TestLives(Case):
    """Objects outlive what they need, and threads share a plan."""

    def test_policy_and_plan_are_dropped(self):
        q, k, v = layer()
        for _ in range(20):
            plan = planned(seed=np.random.randint(1 << 20))
            gc.collect()
            kept = plan.evict(q, k, v, budget=50)
            del plan
            gc.collect()
            self.assertEqual(kept.counts.tolist(), [[50, 50]])

    def test_copies(self):
        # A copy outlives the plan that it was made of.
        plan = planned()
        wanted = indices(plan.evict(*layer(), budget=50))
        twins = [copy.copy(plan), copy.deepcopy([plan])[0]]
        del plan
        gc.collect()
        self.assertEqual(planned(max_tokens=33).max_tokens, 33)
        for twin in twins:
            self.assertEqual(indices(twin.evict(*layer(), budget=50)), wanted)
        with self.refused(kvc.UnsupportedError, "a kvc.Plan must not be pickled; pickle its kvc.Policy, and plan anew"):
            pickle.dumps(twins[0])

    def test_state(self):
        plan = planned()
        self.assertEqual((plan.state().shape, plan.state(1, 7).shape), ((2, 256), (1, 7)))
        for sizes, rule in (({"batch": 0}, "batch must be a whole number of 1 to 2147483647, got 0"),
                            ({"tokens": -1}, "tokens must be a whole number of 1 to 2147483647, got -1")):  # fmt: skip
            with self.refused(kvc.ArgumentError, rule):
                plan.state(**sizes)

    def test_tensors_of_the_call_alone(self):
        plan = planned()
        wanted = indices(plan.evict(*layer(), budget=50))
        kept = plan.evict(*(x.copy() for x in layer()), budget=50)
        gc.collect()
        self.assertEqual(indices(kept), wanted)

    def test_threads(self):
        plan = planned("adakv", threads=1)
        problems = [layer(seed=seed) for seed in range(4)]
        wanted = [indices(plan.evict(*problem, budget=50)) for problem in problems]
        got = [None] * 16

        def work(number):
            got[number] = indices(plan.evict(*problems[number % 4], budget=50))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, wanted * 4)

    def test_each_thread_has_its_error(self):
        plan = planned()
        said = {}

        def work(tokens):
            long = np.zeros((1, 2, tokens, 16), np.float32)
            for _ in range(50):
                try:
                    plan.evict(None, long, long, budget=tokens)
                except kvc.LimitError as error:
                    said.setdefault(tokens, set()).add(str(error))

        threads = [threading.Thread(target=work, args=(tokens,)) for tokens in range(300, 308)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for tokens in range(300, 308):
            self.assertEqual(said[tokens], {f"tokens must be 1 to 256 (the plan's max_tokens), got {tokens}"})


if __name__ == "__main__":
    unittest.main()
