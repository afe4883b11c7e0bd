"""The tokens of kvc.vllm are those of kvc.transformers."""

import unittest

import torch

import kvc

from ..support import Case
from .engines import (
    ACROSS_HEADS,
    BUDGET,
    BY_HEAD,
    BY_LAYER,
    EQUAL,
    NEW,
    SERVED,
    SMALL,
    SMALL_BY_HEAD,
    answers,
    engine,
    model_of,
    prompts,
)


class TestTokens(Case):
    def in_every_way(self, policy, workers):
        """One request, and eight at once; with chunks and without; where there is room, and
        where there is not."""
        wanted = answers(policy)
        blocks = SMALL if policy in EQUAL else SMALL_BY_HEAD
        with engine(policy, workers=workers, num_gpu_blocks_override=blocks) as small:
            one = [answer for prompt in prompts()[:2] for answer in small.answers([prompt])]
            self.assertEqual(one, wanted[:2], "one request")
            self.assertEqual(small.preemptions, 0)
            self.assertEqual(small.answers(), wanted, "eight")
            self.assertGreater(small.preemptions, 0)
            before = small.preemptions
            with small.chunks(48):
                self.assertEqual(small.answers(), wanted, "eight in chunks")
                self.assertGreater(small.preemptions, before)
                self.assertEqual(small.answers(prompts()[:1]), wanted[:1], "one request in chunks")
            self.assertEqual(small.blocks_in_use(), 0)
        return wanted

    def test_one_worker(self):
        full = answers(None)
        differing = 0
        for policy in sorted(SERVED):
            with self.subTest(policy):
                differing += self.in_every_way(policy, 1) != full
        # All but the control answer otherwise than from everything.
        self.assertEqual(differing, len(SERVED) - 1)

    def test_two_workers(self):
        for policy in sorted(EQUAL - ACROSS_HEADS):
            with self.subTest(policy):
                self.in_every_way(policy, 2)

    def test_room(self):
        # vLLM's own options for chunks, and blocks for all.
        for policy in ("snapkv", "adakv"):
            wanted = answers(policy)
            for more in ({}, {"max_num_batched_tokens": 48, "max_num_seqs": 8}, {"block_size": 64}):
                with self.subTest(policy, more=more), engine(policy, **more) as roomy:
                    self.assertEqual(roomy.answers(), wanted)
                    self.assertEqual(roomy.preemptions, 0)

    def test_all_fit(self):
        # A budget that evicts nothing: what a stock engine answers.
        for dtype in ("float32", "bfloat16"):
            with engine(dtype=dtype) as stock:
                wanted = stock.answers()
            for policy in ("snapkv", "h2o", "adakv"):
                with self.subTest(policy, dtype=dtype), engine(policy, 1000, dtype=dtype) as ours:
                    self.assertEqual(ours.answers(), wanted)

    def test_shares_and_params(self):
        params = {"window": 8}
        policy = kvc.compile("snapkv", head_dim=32, group=2, dtype="f32", params=params)
        wanted = answers(policy, 0.2)
        with engine("snapkv", 0.2, params=params) as ours:
            self.assertEqual(ours.answers(), wanted)
        self.assertNotEqual(wanted, answers("snapkv", 0.2))

    def test_little_is_evicted(self):
        # No block goes back, and heads share those of the prompt to the last row.
        torch.manual_seed(3)
        some = [torch.randint(3, 300, (95 + more,)).tolist() for more in (1, 2, 3, 4, 7, 8, 33)]
        for policy in ("snapkv", "adakv", "pyramidkv"):
            wanted = answers(policy, 95, which=some)
            with self.subTest(policy), engine(policy, 95) as ours:
                self.assertEqual(ours.answers(some), wanted)
                with ours.chunks(48):
                    self.assertEqual(ours.answers(some), wanted)

    def test_heads(self):
        # Any number of KV heads, not only powers of two; and one.
        for heads in (3, 1):
            sizes = dict(hidden_size=96, num_attention_heads=2 * heads, num_key_value_heads=heads)
            with self.subTest(heads), model_of(**sizes) as (llama, at):
                wanted = answers("adakv", of=llama)
                with engine("adakv", model=at) as ours:
                    self.assertEqual(ours.answers(), wanted)

    def test_short_prompts(self):
        # Shorter than windows, shorter than what a share leaves a token of.
        short = [[5], [5, 6, 7], list(range(3, 35))]
        with engine("snapkv") as ours:
            self.assertEqual(ours.answers(short), answers("snapkv", which=short))
        with engine("snapkv", 0.3) as ours:
            self.assertEqual(
                ours.answers(short[1:]),
                answers("snapkv", 1, which=short[1:2]) + answers("snapkv", 0.3, which=short[2:]),
            )

    def test_16_bits(self):
        # Kernels round otherwise than those of transformers: tokens are compared among engines.
        for policy in ("criticalkv", "critical_adakv"):
            with engine(policy, dtype="bfloat16") as roomy:
                wanted = roomy.answers()
            with engine(policy, dtype="bfloat16", num_gpu_blocks_override=SMALL) as small, small.chunks(48):
                one = [small.answers([prompt])[0] for prompt in prompts()]
            pairs = [pair for answers in zip(wanted, one, strict=True) for pair in zip(*answers, strict=True)]
            self.assertGreater(sum(a == b for a, b in pairs) / (len(prompts()) * NEW), 0.5, policy)

    def test_shared_prefixes(self):
        # Prefix caching is on, as by default; nobody is given blocks that were compacted.
        first = prompts()[0]
        again = [first, first[:128] + prompts()[1][:60]]
        for policy in ("snapkv", "adakv"):
            wanted = answers(policy, which=again)
            with self.subTest(policy), engine(policy, enable_prefix_caching=True) as ours:
                self.assertEqual(ours.answers([first]), wanted[:1])
                self.assertEqual(ours.answers(again), wanted)
                self.assertEqual(len(ours.scheduler.kv_cache_manager.block_pool.cached_block_hash_to_block), 0)


class TestPolicies(Case):
    def test_each_is_known(self):
        # A new policy is put on the list, or is refused (`test_refused`).
        self.assertLess(SERVED, set(kvc.policies()))
        self.assertEqual(len(SERVED), len(EQUAL) + len(BY_HEAD) + len(BY_LAYER))
        self.assertLess(ACROSS_HEADS, EQUAL)
        self.assertGreater(BUDGET, 64)


if __name__ == "__main__":
    unittest.main()
