"""bench/eager.py, which the host target is timed against, computes what the policies compute."""

import importlib.util
import unittest

import numpy as np
import torch

import kvc

from ..support import ROOT, normal

spec = importlib.util.spec_from_file_location("eager", ROOT / "bench/eager.py")
eager = importlib.util.module_from_spec(spec)
spec.loader.exec_module(eager)

HEADS, GROUP, DIM, TOKENS, BUDGET = 3, 2, 32, 400, 90


class TestEager(unittest.TestCase):
    def test_keeps_the_same(self):
        layer = {
            "q": normal(HEADS * GROUP, TOKENS, DIM, seed=1) * 2,
            "k": normal(HEADS, TOKENS, DIM, seed=2),
            "v": normal(HEADS, TOKENS, DIM, seed=3) * 0.5 + normal(20, DIM, seed=4)[np.arange(TOKENS) % 20],
            "k_raw": normal(HEADS, TOKENS, DIM, seed=5) * 0.5 + normal(20, DIM, seed=6)[np.arange(TOKENS) % 20],
            "wo": normal(40, HEADS * GROUP * DIM, seed=7),
        }
        tensors = {name: torch.from_numpy(array) for name, array in layer.items()}
        given = {name: array[None] for name, array in layer.items() if name != "wo"}
        for name, function in eager.POLICIES.items():
            with self.subTest(name):
                policy = kvc.compile(name, head_dim=DIM, group=GROUP, dtype="f32")
                plan = policy.plan(kv_heads=HEADS, max_tokens=TOKENS)
                kept = plan.evict(**given, wo=layer["wo"], budget=BUDGET, layer=0, layers=1, state=plan.state())
                tokens, keys, values = function(tensors, BUDGET)
                for g in range(HEADS):
                    both, ours, theirs = np.intersect1d(kept[0, g].indices, tokens[g], return_indices=True)
                    # Maxima of neighbours are equal, and which of them topk takes torch does not say.
                    self.assertGreaterEqual(len(both), len(tokens[g]) - 3)
                    np.testing.assert_allclose(kept[0, g].k[ours], keys[g][theirs], atol=1e-5)
                    np.testing.assert_allclose(kept[0, g].v[ours], values[g][theirs], atol=1e-5)
                if name == "ems":
                    self.assertGreater(kept.members.counts.sum(), kept.counts.sum())
