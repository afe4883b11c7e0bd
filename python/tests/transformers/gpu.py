"""Models on a GPU, or on tensors that stand in for one: the same answers as on the CPU. `test_gpu` runs it.

LD_LIBRARY_PATH=$KVC_HOME/test/fake_cuda python -m unittest tests.transformers.gpu
"""

import copy
import unittest

import torch
from transformers import DynamicCache

import kvc
from kvc.transformers import KvcCache
from kvc.transformers.model import _CHIPS, _chip, _chips_of

from ..support import compiled
from . import stand_in
from .stand_in import GPU, place, placed
from .test_generate import BUDGET, TABLE, Generate, gemma, new_tokens, positions, prompts, tiny

PADDING = (0, 17, 40)
OVERALL = ("adakv", "kvec", "critical_adakv", "expected_attention", "ems")
"""Policies that together read all that there is: queries, values, weights, keys before RoPE, and state."""


def devices_of(thing, found=None, seen=None):
    """Of all tensors that are held, and what holds them."""
    found, seen = ({}, set()) if found is None else (found, seen)
    if id(thing) in seen or isinstance(thing, torch.nn.Module):
        return found
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        found.setdefault(str(thing.device), []).append(list(thing.shape))
    for one in (
        thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple))
        else vars(thing).values() if hasattr(thing, "__dict__") and type(thing).__module__.startswith("kvc") else ()
    ):  # fmt: skip
        devices_of(one, found, seen)
    return found


class OnGPU(Generate):
    def setUp(self):
        super().setUp()
        there = stand_in.gpu()
        there.__enter__()
        self.addCleanup(there.__exit__, None, None, None)
        self.gpu_model = place(tiny())

    def kept(self, cache, layers=(0, 1, 2)):
        return [[[head.tolist() for head in sequence] for sequence in cache.kept(layer)] for layer in layers]


class TestAnswers(OnGPU):
    def test_every_policy(self):
        ids, mask = prompts(*PADDING)
        for name in kvc.policies():
            with self.subTest(name):
                host, gpu = (KvcCache(model, name, BUDGET, table=TABLE) for model in (self.model, self.gpu_model))
                wanted = new_tokens(self.model, ids, mask, host, 4)
                self.assertEqual(new_tokens(self.gpu_model, placed(ids), placed(mask), gpu, 4), wanted)
                self.assertEqual(self.kept(gpu), self.kept(host))
                self.assertEqual(gpu.bytes(), host.bytes())
                # The caller's table, and what was looked at of masks, are not the layers'.
                del gpu.layers[0]._shared.table, gpu.layers[0]._shared.masks
                self.assertEqual(list(devices_of(gpu.layers)), ["cuda:0"])

    def test_turns(self):
        # In chunks, a second turn behind padding of its own, and a copy that answers again.
        ids, mask = prompts(0, 17)
        second, tail = (one[:, :24] for one in prompts(0, 5))
        both, seen = torch.cat([ids, second], dim=1), torch.cat([mask, tail], dim=1)
        for name in OVERALL:
            answers = []
            for model, to in ((self.model, lambda one: one), (self.gpu_model, placed)):
                cache = KvcCache(model, name, 0.5)
                for first, last in ((0, 60), (60, None)):
                    at = slice(first, last)
                    model(to(ids)[:, at], attention_mask=to(mask)[:, :last], position_ids=to(positions(mask))[:, at],
                          past_key_values=cache)  # fmt: skip
                cache.finish()
                twin = copy.deepcopy(cache)
                answers.append(new_tokens(model, to(both), to(seen), cache, 20))
                self.assertEqual(new_tokens(model, to(both), to(seen), twin, 20), answers[-1])
            with self.subTest(name):
                self.assertEqual(*answers)

    def test_sliding_windows(self):
        more = {"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention", "full_attention"]}
        ids, mask = prompts(0, 17)
        host, there = gemma(**more), place(gemma(**more))
        for name in ("adakv", "ems"):
            wanted = new_tokens(host, ids, mask, KvcCache(host, name, BUDGET))
            cache = KvcCache(there, name, BUDGET)
            self.assertEqual(new_tokens(there, placed(ids), placed(mask), cache), wanted)

    def test_in_16_bits(self):
        ids, mask = prompts(0, 17)
        host, there = tiny().bfloat16(), place(tiny().bfloat16())
        caches = [KvcCache(model, "adakv", BUDGET) for model in (host, there)]
        new_tokens(host, ids, mask, caches[0], 2)
        new_tokens(there, placed(ids), placed(mask), caches[1], 2)
        self.assertEqual(self.kept(caches[1], [0]), self.kept(caches[0], [0]))

    def test_in_torch(self):
        # Where tokens branch, or gradients are wanted, kvc.attend is not asked.
        ids, mask = prompts(0, 17)
        seen = torch.ones(2, 1, 5, 101, dtype=torch.bool).tril(96)
        seen[:, :, 4, 98] = False
        more = torch.randint(3, 300, (2, 5))
        for name in ("adakv", "ems"):
            logits = []
            for model, to in ((self.model, lambda one: one), (self.gpu_model, placed)):
                cache = KvcCache(model, name, BUDGET)
                model(to(ids), attention_mask=to(mask), position_ids=to(positions(mask)), past_key_values=cache)
                cache.finish()
                at = to(torch.arange(96, 101).expand(2, -1))
                logits.append(model(to(more), attention_mask=to(seen), position_ids=at, past_key_values=cache).logits)
            self.assertEqual(logits[1].device, GPU)
            torch.testing.assert_close(logits[1].cpu(), logits[0], rtol=1e-4, atol=1e-4)


class TestDevices(OnGPU):
    def test_layers_on_two_devices(self):
        # As accelerate spreads a model: hooks take what a layer gets to where it is.
        def to(device):
            def hook(module, args, kwargs):
                moved = {key: take(one, device) for key, one in kwargs.items()}
                return tuple(take(one, device) for one in args), moved

            return hook

        def take(one, device):
            if isinstance(one, tuple):
                return tuple(take(part, device) for part in one)
            return one.to(device) if isinstance(one, torch.Tensor) else one

        ids, mask = prompts(0, 17)
        model = tiny()
        place(model.model.layers[1]).register_forward_pre_hook(to(GPU), with_kwargs=True)
        model.model.layers[2].register_forward_pre_hook(to("cpu"), with_kwargs=True)
        for name in (*OVERALL, "headkv"):
            with self.subTest(name):
                host, spread = (KvcCache(one, name, BUDGET, table=TABLE) for one in (self.model, model))
                wanted = new_tokens(self.model, ids, mask, host, 4)
                self.assertEqual(new_tokens(model, ids, mask, spread, 4), wanted)
                self.assertEqual(self.kept(spread), self.kept(host))
                self.assertEqual([spread.kept(layer)[0][0].device.type for layer in range(3)], ["cpu", "cuda", "cpu"])

    def test_waits(self):
        # A decoded token waits as often as in the library's own cache; once more where masks must be looked at.
        for padding, more in (((0,), 0), ((0, 17), 1)):
            ids, mask = (placed(one) for one in prompts(*padding))
            for name in ("adakv", "ems"):
                waited = []
                for cache in (DynamicCache(config=self.gpu_model.config), KvcCache(self.gpu_model, name, BUDGET)):
                    at = positions(mask)
                    self.gpu_model(ids, attention_mask=mask, position_ids=at, past_key_values=cache)
                    for _ in range(2):
                        at, mask_of = at[:, -1:] + 1, torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
                        stand_in.Placing.waits = 0
                        if isinstance(cache, KvcCache):
                            cache.finish()
                            stand_in.Placing.waits = 0
                        self.gpu_model(ids[:, :1], attention_mask=mask_of, position_ids=at, past_key_values=cache)
                        mask, last = mask_of, mask
                    waited.append(stand_in.Placing.waits)
                    mask = last[:, : ids.shape[1]]
                with self.subTest(name, padding=padding):
                    self.assertEqual(waited[1], waited[0] + more)

    def test_tables(self):
        ids, mask = (placed(one) for one in prompts(0))
        wanted = new_tokens(self.gpu_model, ids, mask, KvcCache(self.gpu_model, "headkv", BUDGET, table=TABLE))
        there = KvcCache(self.gpu_model, "headkv", BUDGET, table=placed(TABLE))
        self.assertEqual(new_tokens(self.gpu_model, ids, mask, there), wanted)
        with self.refused(kvc.ArgumentError, "table must be on the plan's device, cuda:0, got cpu"):
            new_tokens(self.gpu_model, ids, mask, KvcCache(self.gpu_model, "headkv", BUDGET, table=TABLE.numpy()))

    def test_refused(self):
        with self.refused(kvc.UnsupportedError, "the device is sm_90, the policy has PTX for no chip"):
            KvcCache(self.gpu_model, compiled("snapkv"), BUDGET)
        KvcCache(self.gpu_model, compiled("snapkv", arch="sm_80"), BUDGET)
        with self.refused(
            kvc.ArgumentError,
            "the model must be f32, f16 or bf16 on the CPU or a CUDA GPU, got torch.float64 on cuda:0",
        ):
            KvcCache(place(tiny().double()), "snapkv", BUDGET)

    def test_chips(self):
        found = [_chip(*one) for one in ((7, 5), (8, 0), (8, 9), (9, 0), (10, 1), (12, 1), (13, 0))]
        self.assertEqual(found, ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_121", "sm_121"])
        self.assertEqual(_chips_of(9, 0), ["sm_90", "sm_90a"])
        self.assertEqual(_chips_of(8, 9), ["sm_89"])
        # The compiler knows them all.
        compiled("streaming_llm", arch=[*(f"sm_{chip}" for chip in _CHIPS), "sm_90a"])


if __name__ == "__main__":
    unittest.main()
