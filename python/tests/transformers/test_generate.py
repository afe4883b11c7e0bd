"""kvc.transformers inside generate() of unmodified models."""

import contextlib
import copy
import gc
import pickle
import unittest
import warnings
import weakref

import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

import kvc
from kvc.transformers import KvcCache
from kvc.transformers.attention import attention

from ..support import Case, compiled

TOKENS = 96
BUDGET = 44  # beyond the windows of policies, so that they rank
SIZES = dict(
    hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, vocab_size=300, max_position_embeddings=2048, pad_token_id=0, bos_token_id=1, eos_token_id=None,
)  # fmt: skip
TABLE = torch.arange(1, 13, dtype=torch.float32).reshape(3, 4)


def tiny(family="Llama", **more):
    """A random model, its weights large enough that tokens differ."""
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(**SIZES, **more)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.mul_(3.0)
    model.set_attn_implementation("kvc")
    return model


def prompts(*padding):
    """Token numbers and mask; so many of padding in front of each prompt."""
    torch.manual_seed(2)
    ids = torch.randint(3, 300, (len(padding), TOKENS))
    mask = torch.ones_like(ids)
    for b, count in enumerate(padding):
        ids[b, :count], mask[b, :count] = 0, 0
    return ids, mask


def new_tokens(model, ids, mask, cache=None, count=10, **more):
    more = {"do_sample": False, **more}
    out = model.generate(ids, attention_mask=mask, past_key_values=cache, max_new_tokens=count, **more)
    return out[:, ids.shape[1] :].tolist()


def new_logits(model, ids, mask, cache=None):
    """Logits of every step, and the tokens."""
    more = {"max_new_tokens": 10, "do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    out = model.generate(ids, attention_mask=mask, past_key_values=cache, **more)
    return torch.stack(out.logits), out.sequences[:, ids.shape[1] :].tolist()


class Generate(Case):
    def setUp(self):
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, True)
        transformers.logging.set_verbosity_error()
        self.model = tiny()


class TestGenerate(Generate):
    def test_all_fit(self):
        for family, more in (
            ("Llama", {}),
            (
                "Llama",
                {
                    "rope_parameters": {
                        "rope_type": "yarn",
                        "factor": 4.0,
                        "rope_theta": 10000.0,
                        "original_max_position_embeddings": 64,
                    }
                },
            ),
            ("Mistral", {"sliding_window": None}),
            ("Qwen2", {}),
            ("Qwen3", {}),
            (
                "Gemma3",
                {"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
            ),
        ):
            model = gemma(**more) if family == "Gemma3" else tiny(family, **more)
            for padding in ((0,), (0, 17, 40)):
                ids, mask = prompts(*padding)
                wanted, tokens = new_logits(model, ids, mask)
                # Merged rows are rotated again: what keeps all keeps its numbers but for rounding.
                for policy in ("snapkv", "ems"):
                    with self.subTest(family, padding=padding, policy=policy, more=bool(more)):
                        logits, same = new_logits(model, ids, mask, KvcCache(model, policy, 1000))
                        self.assertEqual(same, tokens)
                        torch.testing.assert_close(logits, wanted, rtol=1e-3, atol=1e-3)

    def test_every_policy(self):
        # Each sequence of a padded batch gets what it gets alone, by every shipped policy.
        ids, mask = prompts(0, 17, 40)
        full = new_tokens(self.model, ids, mask)
        differing = 0
        for name in kvc.policies():
            with self.subTest(name):
                together = KvcCache(self.model, name, BUDGET, table=TABLE)
                tokens = new_tokens(self.model, ids, mask, together)
                differing += tokens != full
                for b, start in enumerate((0, 17, 40)):
                    alone = KvcCache(self.model, name, BUDGET, table=TABLE)
                    self.assertEqual(
                        new_tokens(self.model, ids[b : b + 1, start:], mask[b : b + 1, start:], alone),
                        tokens[b : b + 1],
                    )
                    for layer in range(3):
                        for one, other in zip(alone.kept(layer)[0], together.kept(layer)[b], strict=True):
                            self.assertEqual(one.tolist(), other.tolist())
        self.assertGreater(differing, 15)

    def test_chunks(self):
        # The first chunk of the third prompt is padding alone.
        ids, mask = prompts(0, 17, 40)
        for name in ("snapkv", "adakv", "h2o", "kvec", "ems"):
            with self.subTest(name):
                whole, parts = (KvcCache(self.model, name, BUDGET) for _ in range(2))
                wanted = new_tokens(self.model, ids, mask, whole)
                self.assertEqual(new_tokens(self.model, ids, mask, parts, prefill_chunk_size=32), wanted)
                self.assertEqual(
                    [[h.tolist() for h in s] for s in whole.kept(2)], [[h.tolist() for h in s] for s in parts.kept(2)]
                )

    def test_sampling(self):
        ids, mask = prompts(0)
        more = {"do_sample": True, "num_return_sequences": 3, "top_k": 5}
        torch.manual_seed(3)
        wanted = new_tokens(self.model, ids, mask, **more)
        torch.manual_seed(3)
        self.assertEqual(new_tokens(self.model, ids, mask, KvcCache(self.model, "snapkv", 1000), **more), wanted)

    def test_turns(self):
        ids, mask = prompts(0)
        first = self.model.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False)
        question = torch.cat([first, torch.randint(3, 300, (1, 7))], dim=1)
        ones = torch.ones_like(question)
        wanted = new_tokens(self.model, question, ones)
        cache = KvcCache(self.model, "snapkv", 1000)
        new_tokens(self.model, ids, mask, cache, 6)
        self.assertEqual(new_tokens(self.model, question, ones, cache), wanted)
        self.assertEqual(cache.get_seq_length(), question.shape[1] + 9)
        # What was evicted before the question is not there for it.
        cache = KvcCache(self.model, "snapkv", BUDGET)
        new_tokens(self.model, ids, mask, cache, 6)
        self.assertNotEqual(new_tokens(self.model, question, ones, cache), wanted)
        self.assertEqual([len(head) for head in cache.kept(0)[0]], [BUDGET, BUDGET])

    def test_copies(self):
        # Two answers to one context, which is read once: a copy goes on by itself.
        ids, mask = prompts(0, 17)
        more = torch.randint(3, 300, (2, 5))
        whole, seen = torch.cat([ids, more], dim=1), torch.cat([mask, torch.ones_like(more)], dim=1)
        for policy in ("adakv", "criticalkv", "kvec", "ems"):
            for finish in (True, False):
                with self.subTest(policy, finish=finish):
                    caches = [KvcCache(self.model, policy, BUDGET) for _ in range(2)]
                    for cache in caches:
                        self.model(ids, attention_mask=mask, position_ids=positions(mask), past_key_values=cache)
                        if finish:
                            cache.finish()
                    first, alone = caches
                    twin, held = copy.deepcopy(first), first.bytes()
                    wanted = new_tokens(self.model, whole, seen, alone)
                    self.assertEqual(new_tokens(self.model, whole, seen, twin), wanted)
                    self.assertEqual(first.bytes(), held)
                    self.assertEqual(new_tokens(self.model, whole, seen, first), wanted)
        # Copied tensors, and neither the model nor what is compiled.
        self.assertIs(twin.layers[0]._shared.policy, first.policy)
        with self.refused(kvc.UnsupportedError, "a kvc.Plan must not be pickled"):
            pickle.dumps(first)

    def test_compiled_model(self):
        # What compiles the model leaves the caches alone.
        ids, mask = prompts(0)
        wanted = new_tokens(self.model, ids, mask, KvcCache(self.model, "adakv", BUDGET), 3)
        cache = KvcCache(self.model, "adakv", BUDGET)
        self.addCleanup(torch._dynamo.reset)
        self.model.forward = torch.compile(self.model.forward, backend="eager")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertEqual(new_tokens(self.model, ids, mask, cache, 3), wanted)
        self.assertEqual([str(one.message) for one in said if "Dynamo" in str(one.message)], [])

    def test_a_batch_of_turns(self):
        # Padding in front of the second turn is nobody's token.
        ids, mask = prompts(0, 17)
        second, tail = prompts(0, 5)
        second, tail = second[:, :12], tail[:, :12]
        both = torch.cat([ids, second], dim=1)
        seen = torch.cat([mask, tail], dim=1)
        for budget in (1000, BUDGET):
            cache = KvcCache(self.model, "adakv", budget)
            self.model(ids, attention_mask=mask, position_ids=positions(mask), past_key_values=cache)
            cache.finish()
            tokens = new_tokens(self.model, both, seen, cache)
            for b, (start, gap) in enumerate(((0, 0), (17, 5))):
                alone = KvcCache(self.model, "adakv", budget)
                one = ids[b : b + 1, start:]
                self.model(one, past_key_values=alone)
                alone.finish()
                whole = torch.cat([one, second[b : b + 1, gap:]], dim=1)
                self.assertEqual(new_tokens(self.model, whole, torch.ones_like(whole), alone), tokens[b : b + 1])

    def test_ragged_is_dense_with_a_mask(self):
        ids, _ = prompts(0)
        question = torch.randint(3, 300, (1, 5))
        cache = KvcCache(self.model, "adakv", BUDGET)
        self.model(ids, past_key_values=cache)
        cache.finish()
        counts = [[len(head) for head in cache.kept(layer)[0]] for layer in range(3)]
        self.assertTrue(any(one != other for one, other in counts), counts)
        ours = self.model(question, past_key_values=cache).logits
        with masked(self.model, [cache.kept(layer)[0] for layer in range(3)]):
            dense = DynamicCache(config=self.model.config)
            self.model(ids, past_key_values=dense)
            theirs = self.model(question, past_key_values=dense).logits
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        # And it is not what nobody evicted from gives.
        full = DynamicCache(config=self.model.config)
        self.model(ids, past_key_values=full)
        self.assertGreater((self.model(question, past_key_values=full).logits - ours).abs().max(), 0.1)

    def test_memory(self):
        ids, mask = prompts(0)
        row = 2 * 16 * 4 + 4  # key, value, and which token it is
        for name in ("snapkv", "adakv"):
            cache = KvcCache(self.model, name, BUDGET)
            new_tokens(self.model, ids, mask, cache, 5)
            # The first new token made room for 16 more behind each head. How many rows a head has,
            # how many it had at first and where they begin is 4 bytes each; so is the length.
            self.assertEqual(cache.bytes(), 3 * (2 * ((BUDGET + 17) * row + 12) + 4))
            self.assertEqual(sum(len(head) for head in cache.kept(1)[0]), 2 * BUDGET)
        cache = KvcCache(self.model, "snapkv", 0.4)
        self.model(ids, past_key_values=cache)
        before = cache.bytes()
        cache.finish()
        self.assertEqual([len(head) for head in cache.kept(0)[0]], [38, 38])
        self.assertLess(cache.bytes(), before / 2)

    def test_16_bits(self):
        model = tiny().bfloat16()
        ids, mask = prompts(0, 17)
        for name in ("snapkv", "ems", "critical_adakv"):
            self.assertEqual(len(new_tokens(model, ids, mask, KvcCache(model, name, BUDGET))), 2)
        # The library's own attention rounds elsewhere: nearly the same logits.
        cache = KvcCache(model, "snapkv", 1000)
        model(ids[:1], past_key_values=cache)
        dense = DynamicCache(config=model.config)
        model(ids[:1], past_key_values=dense)
        ours, theirs = (model(ids[:1, :1], past_key_values=c).logits.float() for c in (cache, dense))
        self.assertLess((ours - theirs).abs().max() / theirs.abs().max(), 0.05)


class TestRefused(Generate):
    def test_what_is_not_supported(self):
        ids, mask = prompts(0)
        new = lambda: KvcCache(self.model, "snapkv", BUDGET)  # noqa: E731
        with self.refused(kvc.UnsupportedError, "beam search is not supported"):
            new_tokens(self.model, ids, mask, new(), num_beams=2)
        with self.refused(kvc.UnsupportedError, "assisted decoding is not supported"):
            new_tokens(self.model, ids, mask, new(), prompt_lookup_num_tokens=3)
        behind = mask.clone()
        behind[0, -3:] = 0
        with self.refused(
            kvc.ArgumentError, "padding must be in front of a prompt, got some behind or within sequence 0"
        ):
            self.model(ids, attention_mask=behind, past_key_values=new())
        nothing = torch.cat([mask, 0 * mask])
        with self.refused(kvc.ArgumentError, "a prompt must have a token that is no padding, got none in sequence 1"):
            new_tokens(self.model, ids.expand(2, -1), nothing, new())
        with self.refused(kvc.ArgumentError, "policy 'headkv' reads the importance of heads: give table, got None"):
            new_tokens(self.model, ids, mask, KvcCache(self.model, "headkv", BUDGET))
        with self.refused(kvc.ArgumentError, "a budget must be a whole number of 1 to 2147483647, got 0"):
            KvcCache(self.model, "snapkv", 0)
        with self.refused(kvc.ArgumentError, "policy 'snapkv' is compiled for (head_dim=32,group=2,dtype=f32)"):
            KvcCache(self.model, compiled("snapkv", head_dim=32), BUDGET)
        for number in (1, 7):
            with self.refused(kvc.ArgumentError, f"layer must be one that has evicted, got {number}"):
                new().kept(number)
        with self.refused(
            kvc.ArgumentError, "params must not be given with a compiled policy, which has its own, got {'window': 4}"
        ):
            KvcCache(self.model, compiled("snapkv"), BUDGET, params={"window": 4})
        for line, more in (("softcap", {"softcap": 30.0}), ("a dropout of 0.1", {"dropout": 0.1})):
            with self.refused(kvc.UnsupportedError, f"attention over a KvcCache must be plain, got {line}"):
                keys = new().layers[0].update(torch.zeros(1, 2, 3, 16), torch.zeros(1, 2, 3, 16))[0]
                attention(None, torch.zeros(1, 4, 3, 16), keys, keys, None, **more)

    def test_models(self):
        self.model.set_attn_implementation("sdpa")
        with self.refused(
            kvc.ArgumentError,
            "the model's attention must be 'kvc', got 'sdpa'; call model.set_attn_implementation('kvc')",
        ):
            KvcCache(self.model, "snapkv", BUDGET)
        for model in (None, self.model.config):
            with self.refused(kvc.ArgumentError, f"model must be one of transformers, got {type(model).__name__}"):
                KvcCache(model, "snapkv", BUDGET)
        with self.refused(
            kvc.ArgumentError, "the model must be f32, f16 or bf16 on the CPU or a CUDA GPU, got torch.float64 on cpu"
        ):
            KvcCache(tiny().double(), "snapkv", BUDGET)
        with self.refused(kvc.UnsupportedError, "the model must have layers with full attention, got none"):
            KvcCache(tiny("Mistral", sliding_window=16), "snapkv", BUDGET)
        model = tiny()
        ids, mask = prompts(0)
        cache = KvcCache(model, "snapkv", BUDGET)
        model.set_attn_implementation("eager")
        with self.refused(
            kvc.Error, "the model's attention must be 'kvc' for a KvcCache, got one that does not know it"
        ):
            new_tokens(model, ids, mask, cache)


class TestOthers(Generate):
    def test_other_caches_attend_as_with_sdpa(self):
        ids, mask = prompts(0, 17)
        wanted = new_tokens(self.model, ids, mask)
        self.model.set_attn_implementation("sdpa")
        self.assertEqual(new_tokens(self.model, ids, mask), wanted)

    def test_a_cache_that_is_dropped_is_freed(self):
        ids, _ = prompts(0)
        gc.disable()
        self.addCleanup(gc.enable)
        for finish in (False, True):
            cache = KvcCache(self.model, "snapkv", BUDGET)
            out = self.model(ids, past_key_values=cache)
            if finish:
                cache.finish()
                out = self.model(ids[:, :3], past_key_values=cache)
            layer = weakref.ref(cache.layers[0])
            del cache, out
            self.assertIsNone(layer())

    def test_reset(self):
        ids, mask = prompts(0)
        cache = KvcCache(self.model, "kvec", BUDGET)
        first = new_tokens(self.model, ids, mask, cache)
        cache.reset()
        self.assertEqual(cache.get_seq_length(), 0)
        self.assertEqual(new_tokens(self.model, ids, mask, cache), first)


def gemma(**more):
    """Its text model, hybrid: layers with sliding windows between those with full attention."""
    torch.manual_seed(1)
    config = transformers.Gemma3TextConfig(**SIZES, **more)
    model = transformers.Gemma3ForCausalLM(config).eval()
    model.set_attn_implementation("kvc")
    return model


def positions(mask):
    return (mask.cumsum(dim=-1) - 1).clamp(min=0)


@contextlib.contextmanager
def masked(model, kept):
    """Attention over a dense cache, of which each head sees what it kept, and what is new."""

    def attention(module, query, key, value, attention_mask, scaling=None, **kwargs):
        new, tokens = query.shape[2], key.shape[2]
        if new == tokens:
            return sdpa_attention_forward(module, query, key, value, None, scaling=scaling, **kwargs)
        seen = torch.zeros(1, key.shape[1], new, tokens, dtype=torch.bool)
        seen[..., TOKENS:] = torch.ones(new, tokens - TOKENS, dtype=torch.bool).tril()
        for head, indices in enumerate(kept[module.layer_idx]):
            seen[0, head][:, indices.long()] = True
        return sdpa_attention_forward(
            module, query, key, value, seen.repeat_interleave(2, dim=1), scaling=scaling, **kwargs
        )

    AttentionInterface.register("masked", attention)
    AttentionMaskInterface.register("masked", sdpa_mask)
    model.set_attn_implementation("masked")
    try:
        yield
    finally:
        model.set_attn_implementation("kvc")


if __name__ == "__main__":
    unittest.main()
