"""KvcPress beside kvpress's own presses, inside its pipeline, and beside kvc.transformers."""

import json
import unittest

import kvpress
import torch
import transformers
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import kvc
from kvc.kvpress import KvcPress
from kvc.transformers import KvcCache

from ..support import ROOT, Case, compiled

TOKENS = 200
CONFIG = LlamaConfig(
    hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, vocab_size=300, max_position_embeddings=2048, pad_token_id=0, bos_token_id=1, eos_token_id=None,
)  # fmt: skip
TABLE = torch.arange(1, 13, dtype=torch.float32).reshape(3, 4)
RATIO = 0.75  # beyond the windows of policies, so that they rank


def kept(layer):
    """Rows of a layer's cache as sets: [sequence][head]."""
    return [[set(map(tuple, head.tolist())) for head in sequence] for sequence in layer.keys]


class Press(Case):
    def setUp(self):
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, True)
        transformers.logging.set_verbosity_error()
        torch.manual_seed(1)
        self.model = LlamaForCausalLM(CONFIG).eval()
        for weight in self.model.parameters():
            if weight.dim() == 2:
                weight.mul_(3.0)  # so that tokens differ
        self.model.set_attn_implementation("sdpa")
        self.ids = torch.randint(3, 300, (2, TOKENS))

    def prefill(self, press, ids=None):
        """The cache behind a press, and the keys that are masked in each layer."""
        cache = DynamicCache(config=CONFIG)
        with press(self.model):
            self.model.model(self.ids if ids is None else ids, past_key_values=cache)
        return cache, [self.masked(layer) for layer in self.model.model.layers]

    def masked(self, layer):
        places = getattr(layer.self_attn, "masked_key_indices", None)
        return None if places is None else set(zip(*(place.tolist() for place in places), strict=True))

    def press(self, name, ratio=RATIO):
        return KvcPress(name, ratio, table=TABLE)


class TestParity(Press):
    def test_rows(self):
        # Ties are the only freedom, and random keys have none behind these scores.
        for name, theirs in {
            "criticalkv-kvpress": kvpress.CriticalKVPress(kvpress.SnapKVPress(RATIO, window_size=32)),
            "keydiff": kvpress.KeyDiffPress(RATIO),
            "knorm": kvpress.KnormPress(RATIO),
            "lagkv": kvpress.LagKVPress(RATIO, lag_size=32),
            "snapkv-kvpress": kvpress.SnapKVPress(RATIO, window_size=32),
            "streaming_llm": kvpress.StreamingLLMPress(RATIO),
            "tova": kvpress.TOVAPress(RATIO),
        }.items():
            with self.subTest(name):
                given = {"lag": 32} if name == "lagkv" else {"window": 32} if "snapkv" in name or "crit" in name else {}
                mine, masked = self.prefill(KvcPress(name, RATIO, params=given))
                other, _ = self.prefill(theirs)
                self.assertEqual(masked, [None] * 3)
                for a, b in zip(mine.layers, other.layers, strict=True):
                    self.assertEqual(a.keys.shape, (2, 2, TOKENS // 4, 16))
                    self.assertEqual(kept(a), kept(b))

    def test_ranks(self):
        # Lengths that leave room for part of a rank: rows differ within it alone, once deviations are the same.
        self.ids = torch.randint(3, 300, (2, 333))
        scores = []

        class Population(kvpress.LagKVPress):
            def score(self, *args):
                scores.append((args[2], super().score(*args)))
                return scores[-1][1]

            def _get_states_score(self, target_v):
                after, own = target_v[:, :, 1:], target_v[:, :, :-1]
                least, most = (ends(dim=-2, keepdim=True).values for ends in (after.min, after.max))
                return ((own - least) / (most - least)).std(dim=-1, correction=0).softmax(dim=-1)

        mine, _ = self.prefill(KvcPress("lagkv", 0.5, params={"lag": 32}))
        other, _ = self.prefill(Population(0.5, lag_size=32))
        ties = 0
        for a, b, (keys, found) in zip(mine.layers, other.layers, scores, strict=True):
            for sequence, head in ((s, h) for s in range(2) for h in range(2)):
                rows = map(tuple, keys[sequence, head].tolist())
                score = dict(zip(rows, found[sequence, head].tolist(), strict=True))
                ours, theirs = kept(a)[sequence][head], kept(b)[sequence][head]
                self.assertEqual(len(ours), len(theirs))
                self.assertLessEqual({score[row] for row in ours ^ theirs}, {min(score[row] for row in theirs)})
                ties += len(ours ^ theirs)
        self.assertGreater(ties, 0)

    def test_masked_keys(self):
        mine, ours = self.prefill(KvcPress("adakv-kvpress", RATIO, params={"window": 32}))
        _, theirs = self.prefill(kvpress.AdaKVPress(kvpress.SnapKVPress(RATIO, window_size=32)))
        self.assertEqual(ours, theirs)
        self.assertEqual([layer.keys.shape[2] for layer in mine.layers], [TOKENS] * 3)


class TestPolicies(Press):
    def decoded(self, cache, step):
        """Logits of five tokens behind the prompt, at their true positions."""
        logits = []
        for i in range(5):
            at = torch.full((2, 1), TOKENS + i)
            out = step(self.ids[:, i : i + 1], position_ids=at, past_key_values=cache)
            logits.append(out.logits)
        return torch.cat(logits, dim=1)

    def test_as_in_transformers(self):
        # The same rows, and so the same answers, by every policy that only drops rows.
        headwise = set()
        for name in kvc.policies():
            policy = compiled(name)
            if policy.manifest.merges:
                continue
            with self.subTest(name):
                press = self.press(policy)
                cache, masked = self.prefill(press)
                held = [layer.keys.shape[2] for layer in cache.layers]
                got = self.decoded(cache, self.model)
                self.model.set_attn_implementation("kvc")
                ragged = KvcCache(self.model, policy, TOKENS // 4, table=TABLE)
                self.model(self.ids, past_key_values=ragged)
                ragged.finish()
                for number in range(3):
                    rows = ragged.kept(number)
                    if masked[number] is None:
                        self.assertEqual(len(rows[0][0]), held[number])
                    else:
                        there = {(b, h, t) for b in range(2) for h in range(2) for t in rows[b][h].tolist()}
                        every = {(b, h, t) for b in range(2) for h in range(2) for t in range(TOKENS)}
                        self.assertEqual(masked[number], every - there)
                wanted = self.decoded(ragged, self.model)
                self.model.set_attn_implementation("sdpa")
                torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)
                self.assertEqual(press.masks, any(masked))
                if press.masks:
                    headwise.add(name)
        self.assertIn("adakv", headwise)
        self.assertNotIn("snapkv", headwise)

    def test_a_second_prompt(self):
        # What layers left of the first one is not read again.
        press = self.press("kvec")
        first, _ = self.prefill(press)
        self.prefill(press, self.ids[:, 40:])
        again, _ = self.prefill(press)
        self.assertEqual([kept(layer) for layer in first.layers], [kept(layer) for layer in again.layers])

    def test_nothing_to_drop(self):
        cache, masked = self.prefill(self.press("adakv", 0.0))
        self.assertEqual([layer.keys.shape[2] for layer in cache.layers], [TOKENS] * 3)
        self.assertEqual(masked, [None] * 3)

    def test_composed(self):
        # A press like others: kvpress cuts keys behind it.
        press = kvpress.ComposedPress([kvpress.ThinKPress(0.5, window_size=32), self.press("snapkv", 0.5)])
        cache, _ = self.prefill(press)
        self.assertEqual([layer.keys.shape[2] for layer in cache.layers], [TOKENS // 2] * 3)


class TestRefusals(Press):
    def test_merging(self):
        with self.assertRaisesRegex(kvc.UnsupportedError, "must only drop rows, got 'ems', which merges them"):
            self.prefill(self.press("ems"))

    def test_ratio(self):
        for ratio in (-0.1, 1.0, float("nan")):
            with self.assertRaisesRegex(kvc.ArgumentError, "compression_ratio must be from 0 to below 1, got"):
                KvcPress("knorm", ratio)

    def test_eager(self):
        self.model.set_attn_implementation("eager")
        self.prefill(self.press("snapkv"))
        with self.assertRaisesRegex(kvc.UnsupportedError, "policy 'adakv' keeps .* rows in the heads of a layer"):
            self.prefill(self.press("adakv"))

    def test_table(self):
        with self.assertRaisesRegex(kvc.ArgumentError, "policy 'headkv' reads the importance of heads: give table"):
            self.prefill(KvcPress("headkv", RATIO))


class TestPipeline(Case):
    def test_answers(self):
        # kvpress's pipeline on the shipped model: two questions behind a context.
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        samples = [json.loads(line) for line in (ROOT / "models/tasks/256.jsonl").read_text().splitlines()[:2]]
        pipe = transformers.pipeline(
            "kv-press-text-generation", model=str(ROOT / "models/needle"), device="cpu", dtype=torch.float32
        )
        context, questions = samples[0]["context"], [sample["question"] for sample in samples]

        def answers(press):
            out = pipe(context, questions=questions, press=press, max_new_tokens=12)["answers"]
            self.assertEqual(len(out), 2)
            return out

        everything = answers(None)
        self.assertEqual(answers(KvcPress("snapkv", 0.0)), everything)
        window = {"window": 16}
        differing = 0
        for name, theirs in {
            "snapkv-kvpress": kvpress.SnapKVPress(0.8, window_size=16),
            "adakv-kvpress": kvpress.AdaKVPress(kvpress.SnapKVPress(0.8, window_size=16)),
        }.items():
            with self.subTest(name):
                got = answers(KvcPress(name, 0.8, params=window))
                self.assertEqual(got, answers(theirs))
                differing += got != everything
        self.assertGreater(differing, 0)


if __name__ == "__main__":
    unittest.main()
