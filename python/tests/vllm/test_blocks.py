"""Blocks of prompts go back to the scheduler, as many as the budget says."""

from vllm import SamplingParams

import kvc
from kvc.vllm.geometry import Geometry
from kvc.vllm.options import Options

from ..support import Case
from .engines import BLOCK, BUDGET, BY_HEAD, SMALL, SMALL_BY_HEAD, answers, engine, prompts


def share(tokens, budget):
    """Rows of a head, where all heads keep as many."""
    return min(tokens, budget if budget >= 1 else tokens // 4)


class TestBlocks(Case):
    def start(self, ours, number, name, new=40):
        sampling = SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False)
        ours.llm.llm_engine.add_request(name, {"prompt_token_ids": prompts()[number]}, sampling)

    def steps(self, ours, count=1):
        return [output for _ in range(count) for output in ours.llm.llm_engine.step()]

    def decoded(self, ours):
        """Serves one prompt after the other, to the last token but one: how many tokens each has, how
        many were decoded, and the blocks in use."""
        for number, prompt in enumerate(prompts()):
            tokens = len(prompt)
            self.start(ours, number, str(number))
            self.steps(ours)
            self.assertEqual(ours.blocks_in_use(), -(-tokens // BLOCK))
            for new in range(1, 39):
                self.steps(ours)
                yield tokens, new, ours.blocks_in_use()
            self.steps(ours)
            self.assertEqual(ours.blocks_in_use(), 0)

    def test_behind_prefill(self):
        for policy, budget in (("snapkv", BUDGET), ("knorm", 0.25), ("streaming_llm", 1), ("full", BUDGET)):
            with self.subTest(policy), engine(policy, budget) as ours:
                for tokens, new, used in self.decoded(ours):
                    rows = tokens if policy == "full" else share(tokens, budget)
                    # Kept rows begin with a block, and new tokens follow them: no more than a
                    # block beyond what rows and tokens need.
                    self.assertEqual(used, -(-(tokens + new) // BLOCK) - (tokens - rows) // BLOCK)
                    self.assertLessEqual(used - -(-(rows + new) // BLOCK), 1)

    def test_by_head(self):
        # A layer's rows are shared out among its heads, in pages of one head's rows.
        for policy, budget in (("adakv", BUDGET), ("critical_adakv", 0.25), ("headkv", BUDGET), ("pyramidkv", 0.25)):
            with self.subTest(policy), engine(policy, budget) as ours:
                uneven = 0
                for tokens, new, used in self.decoded(ours):
                    rows = share(tokens, budget)
                    if rows < tokens:
                        kept, differ = self.look_at_pages(ours, new, used)
                        uneven += differ
                        if policy in BY_HEAD:
                            self.assertEqual(kept, [4 * rows] * 3)
                        # The layer that keeps most decides.
                        rows = -(-max(kept) // 4)
                    place = Geometry.of(tokens, rows, BLOCK, by_head=True)
                    self.assertEqual(used, -(-(tokens + new) // BLOCK) - place.first // BLOCK)
                    # What rows and tokens need, with less than a page free in each head.
                    self.assertLessEqual(used - -(-(rows + place.page_rows - 1 + new) // BLOCK), 1)
                # Where windows leave room for more than themselves.
                self.assertGreater(uneven, 38)

    def look_at_pages(self, ours, new, used):
        """Of the request that was last evicted from: what layers kept of its prompt, and whether heads
        and layers have different numbers of rows."""
        kept, every = [], []
        for layer in ours.layers():
            pages = list(layer._pages.values())[-1]
            counts = pages._counts[0].tolist()
            kept.append(sum(counts) - len(counts) * new)
            every += counts
            self.assertEqual(len(pages.blocks), used)
            owned = [page for head, n in enumerate(pages._pages_of) for page in pages._table[0, head, :n].tolist()]
            self.assertEqual(len(set(owned)), len(owned))
            # Pages are keys' halves of blocks that the request holds.
            in_block = 2 * len(counts) * BLOCK // pages._page_rows
            self.assertLessEqual({page // in_block for page in owned}, set(pages.blocks))
            half = BLOCK // pages._page_rows
            self.assertTrue(all(page // half % 2 == 0 for page in owned))
        return kept, len(set(every)) > 1

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
        for policy, blocks in (("snapkv", SMALL), ("adakv", SMALL_BY_HEAD)):
            wanted = answers(policy)
            with self.subTest(policy), engine(policy, num_gpu_blocks_override=blocks) as ours:
                with ours.chunks(48):
                    # Between chunks, and behind the eviction.
                    for number, steps in ((0, 2), (3, 2), (1, 6)):
                        self.start(ours, number, f"dropped {number}")
                        self.steps(ours, steps)
                        ours.llm.llm_engine.abort_request([f"dropped {number}"])
                        self.steps(ours)
                    self.assertEqual(ours.blocks_in_use(), 0)
                    self.assertEqual(ours.answers(), wanted)
                self.assertEqual(ours.held(), 0)
                # Of the eight at most one for each block is left, until its block is used again.
                self.assertLessEqual(max(len(layer._pages) for layer in ours.layers()), blocks)


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
        self.assertEqual(Geometry.of(200, 70, 32), (130, 128, 1))

    def test_pages_of_heads(self):
        # However rows are shared out among heads, their pages fit what is not given back.
        for heads in (1, 2, 3, 8):
            for tokens in range(2, 130):
                for rows in range(1, tokens):
                    place = Geometry.of(tokens, rows, 32, by_head=True)
                    self.assertEqual(place.first % 32, 0)
                    self.assertEqual(32 % place.page_rows, 0)
                    self.assertLess(tokens - rows - place.first, 32 + 8)
                    for new in (0, 1, 31, 32):
                        room = heads * (-(-(tokens + new) // 32) * 32 - place.first)
                        # Worst: the last page of every head but one has a single row.
                        worst = heads * (rows + new) + heads * (place.page_rows - 1)
                        self.assertLessEqual(worst, room)
        self.assertEqual(Geometry.of(200, 70, 32, by_head=True), (130, 96, 8))
        self.assertEqual(
            [Geometry.of(70 + n, 70, 32, by_head=True).page_rows for n in (0, 1, 2, 3, 6, 7)], [1, 2, 2, 4, 4, 8]
        )

    def test_rows(self):
        self.assertEqual([Options("p", 70).rows(tokens) for tokens in (1, 70, 71)], [1, 70, 70])
        # A share is a decimal: 0.29 of 100 is 29.
        self.assertEqual([Options("p", "0.29").rows(tokens) for tokens in (1, 3, 100)], [1, 1, 29])
        self.assertEqual(Options("p", "1/3").rows(100), 33)
        self.assertEqual(Options("p", 70, keeps_all=True).rows(100), 100)
