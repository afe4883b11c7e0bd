"""Blocks of prompts go back to the scheduler, as many as the budget says."""

from vllm import SamplingParams

import kvc
from kvc.vllm.geometry import Geometry
from kvc.vllm.options import Options

from ..support import Case
from .engines import BLOCK, BUDGET, SMALL, answers, engine, prompts


class TestBlocks(Case):
    def start(self, ours, number, name, new=40):
        sampling = SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False)
        ours.llm.llm_engine.add_request(name, {"prompt_token_ids": prompts()[number]}, sampling)

    def steps(self, ours, count=1):
        return [output for _ in range(count) for output in ours.llm.llm_engine.step()]

    def test_behind_prefill(self):
        for policy, budget in (("snapkv", BUDGET), ("knorm", 0.25), ("streaming_llm", 1), ("full", BUDGET)):
            with self.subTest(policy), engine(policy, budget) as ours:
                for number, prompt in enumerate(prompts()):
                    tokens = len(prompt)
                    rows = tokens if policy == "full" else min(tokens, budget if budget >= 1 else tokens // 4)
                    self.start(ours, number, str(number))
                    self.steps(ours)
                    self.assertEqual(ours.blocks_in_use(), -(-tokens // BLOCK))
                    for new in range(1, 39):
                        self.steps(ours)
                        # Kept rows begin with a block, and new tokens follow them: no more than
                        # a block beyond what rows and tokens need.
                        used = ours.blocks_in_use()
                        self.assertEqual(used, -(-(tokens + new) // BLOCK) - (tokens - rows) // BLOCK)
                        self.assertLessEqual(used - -(-(rows + new) // BLOCK), 1)
                    self.steps(ours)
                    self.assertEqual(ours.blocks_in_use(), 0)

    def test_in_chunks(self):
        # None goes back before the last chunk.
        with engine("snapkv") as ours, ours.chunks(48):
            self.start(ours, 0, "0")  # 200 tokens
            used = []
            for _ in range(7):
                self.steps(ours)
                used.append(ours.blocks_in_use())
            gone = (200 - BUDGET) // BLOCK
            self.assertEqual(used, [2, 3, 5, 6, 7, 7 - gone, 7 - gone])

    def test_room_for_others(self):
        # What went back is used: more requests run at once than a stock engine has room for.
        def most(ours):
            running = 0
            for name in "abc":
                self.start(ours, 0, name, new=8)
            while ours.llm.llm_engine.has_unfinished_requests():
                self.steps(ours)
                running = max(running, len(ours.scheduler.running))
            return running

        with engine(num_gpu_blocks_override=1 + 13, enable_prefix_caching=False) as stock:
            self.assertEqual(most(stock), 1)
        with engine("snapkv", num_gpu_blocks_override=1 + 13) as ours:
            self.assertEqual(most(ours), 3)

    def test_a_prompt_that_grows(self):
        with engine("snapkv") as ours:
            self.start(ours, 0, "0")
            self.steps(ours, 3)
            manager = ours.scheduler.kv_cache_manager.coordinator.single_type_managers[0]
            (request,) = manager.req_to_blocks
            line = "a prompt must not grow behind its eviction, got 230 tokens after 200: streaming input"
            with self.refused(kvc.UnsupportedError, line):
                manager.remove_skipped_blocks(request, 202, 230)

    def test_aborted(self):
        # A prompt that is dropped between its chunks leaves nothing: neither blocks, nor what
        # was held of it once its blocks are somebody else's.
        wanted = answers("snapkv")
        with engine("snapkv", num_gpu_blocks_override=SMALL) as ours:
            with ours.chunks(48):
                for number in (0, 3):
                    self.start(ours, number, f"dropped {number}")
                    self.steps(ours, 2)
                    ours.llm.llm_engine.abort_request([f"dropped {number}"])
                    self.steps(ours)
                self.assertEqual(ours.blocks_in_use(), 0)
                self.assertEqual(ours.answers(), wanted)
            self.assertEqual(ours.held(), 0)


class TestGeometry(Case):
    def test_slots(self):
        for tokens in range(1, 130):
            for rows in range(1, tokens + 1):
                place = Geometry.of(tokens, rows, 32)
                self.assertEqual(place.first % 32, 0)
                # Rows lie where the prompt has lain, and new tokens never behind their own slots.
                self.assertLessEqual(place.first + rows, tokens)
                self.assertEqual(place.slot(tokens), place.first + rows)
                self.assertLess(tokens - rows - place.first, 32)
        self.assertEqual(Geometry.of(200, 70, 32), (130, 128))

    def test_rows(self):
        self.assertEqual([Options("p", 70).rows(tokens) for tokens in (1, 70, 71)], [1, 70, 70])
        # A share is a decimal: 0.29 of 100 is 29.
        self.assertEqual([Options("p", "0.29").rows(tokens) for tokens in (1, 3, 100)], [1, 1, 29])
        self.assertEqual(Options("p", "1/3").rows(100), 33)
        self.assertEqual(Options("p", 70, keeps_all=True).rows(100), 100)
