"""Attention behind an eviction: kvc.attend's and PyTorch's, each held to a dense softmax in double,
and which of them is taken."""

import unittest

import torch

from kvc.transformers import KvcCache, packed
from kvc.transformers.attend import attend, by_kvc, by_torch, takes
from kvc.transformers.merged import Merged
from kvc.transformers.ragged import Ragged
from kvc.transformers.rope import Rotation

from ..support import Case, compiled, layer
from .test_generate import BUDGET, Generate, prompts

BATCH, HEADS, GROUP, DIM = 2, 3, 2, 16
COUNTS = torch.tensor([[5, 19, 1], [7, 2, 12]], dtype=torch.int32)
SCALE = 0.3
CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()


def made(dtype=torch.float32, seed=1):
    """Heads with rows of their own number, of prompts of 40 and 31 tokens."""
    torch.manual_seed(seed)
    rows = int(COUNTS.sum())
    positions = torch.cat([torch.arange(count, dtype=torch.int32) * 2 for count in COUNTS.flatten()])
    k, v = (torch.randn(rows, DIM).to(dtype) for _ in range(2))
    return Ragged(k, v, positions, COUNTS, [40, 31])


def drawn(tokens, dtype=torch.float32, seed=2):
    """Queries, keys and values of new tokens, as models have them: [batch, tokens, heads, d], turned."""
    torch.manual_seed(seed)
    return tuple(
        torch.randn(BATCH, tokens, heads, DIM).to(dtype).transpose(1, 2) for heads in (HEADS * GROUP, HEADS, HEADS)
    )


def dense(q, kept, k, v, mask):
    """In double: a matrix with all rows, and what each query does not see masked."""
    out = torch.zeros(len(q), q.shape[2], q.shape[1], DIM, dtype=torch.float64)
    for b in range(len(q)):
        for h in range(q.shape[1]):
            keys, values = (torch.cat([*(part[b][h // GROUP][i] for part in kept), new[b, h // GROUP]]).double()
                            for i, new in enumerate((k, v)))  # fmt: skip
            logits = q[b, h].double() @ keys.T * SCALE
            logits[:, len(keys) - q.shape[2] :].masked_fill_(~mask[b], -torch.inf)
            out[b, :, h] = logits.softmax(dim=-1) @ values
    return out


class TestAttend(Generate):
    def test_dense_softmax(self):
        # An attention of one token, of a chunk, and of one with padding: by both ways.
        padded = torch.stack([CAUSAL, CAUSAL])
        padded[1, :, :2] = False
        for dtype, close in ((torch.float32, 5e-6), (torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)):
            for tokens, mask in ((1, None), (4, None), (4, padded)):
                q, k, v = drawn(tokens, dtype)
                seen = CAUSAL[:tokens, :tokens].expand(BATCH, -1, -1) if mask is None else mask
                wanted = dense(q, [made(dtype).heads()], k, v, seen)
                real = seen[:, -1]
                for way in (by_kvc, by_torch):
                    with self.subTest(way.__name__, dtype=dtype, tokens=tokens, padded=mask is not None):
                        given = None if mask is None else real if way is by_kvc else mask
                        out = way(q, k, v, given, made(dtype), None, SCALE)
                        self.assertEqual((out.dtype, out.shape), (dtype, wanted.shape))
                        torch.testing.assert_close(out[real].double(), wanted[real], rtol=0, atol=close)

    def test_many_tokens(self):
        # Memory grows, and rows stay what and where they were.
        rows, (q, k, v) = made(), drawn(60)
        before = rows.heads()
        for first, last in ((0, 1), (1, 2), (2, 20), (20, 21), (21, 59), (59, 60)):
            at = slice(first, last)
            out = attend(*(x[:, :, at] for x in (q, k, v)), None, rows, None, SCALE)
            seen = torch.ones(60, 60, dtype=torch.bool).tril().expand(BATCH, -1, -1)[:, at, :last]
            earlier = [[(torch.cat([one[0], k[b, h, :first]]), torch.cat([one[1], v[b, h, :first]]))
                        for h, one in enumerate(heads)] for b, heads in enumerate(before)]  # fmt: skip
            wanted = dense(q[:, :, at], [earlier], k[:, :, at], v[:, :, at], seen[..., first:])
            torch.testing.assert_close(out.double(), wanted, rtol=0, atol=5e-6)
        # Each head has what it had, and the 60.
        self.assertEqual([[len(one) for one, _ in heads] for heads in rows.heads()], (COUNTS + 60).tolist())
        self.assertEqual([head.tolist() for head in rows.kept()[1]], [list(range(0, 2 * n, 2)) for n in (7, 2, 12)])
        # Of a row 132 bytes; free are at most an eighth, what was made room for last included.
        most = int(COUNTS.sum()) + 6 * (60 + 16 + 8)
        self.assertLessEqual(rows.bytes(), most * (2 * DIM * 4 + 4) + 3 * 24 + 8)

    def test_merged_rows(self):
        # Rows that stand for several tokens lie beside those of new tokens.
        rotation = Rotation(self.model)
        q, k, v = (torch.from_numpy(x) for x in layer(batch=1, tokens=100, kv_heads=HEADS, queries=100))
        plan = compiled("ems").plan(kv_heads=HEADS, max_tokens=100)
        raw, v = (torch.randn(1, HEADS, 1, DIM) + 0.2 * x for x in (k, v))
        kept = [plan.evict(q, k, v, k_raw=raw, budget=40) for _ in range(BATCH)]
        # As a sequence behind 7 tokens of padding, whose positions begin at 7.
        merged = Merged(kept, [torch.arange(100), torch.arange(7, 107)], rotation)
        self.assertEqual([[len(head) for head in heads] for heads in merged.kept()], kept[0].counts.tolist() * 2)
        members = merged.heads()
        self.assertGreater(len(members[0][0][0]), int(kept[0].counts[0, 0]))
        padded = torch.stack([CAUSAL, CAUSAL])
        padded[0, :, :1] = False
        for tokens, mask in ((1, None), (4, None), (4, padded)):
            rows = Ragged.empty(k.expand(BATCH, -1, -1, -1), [100, 100])
            q, k, v = drawn(tokens)
            seen = CAUSAL[:tokens, :tokens].expand(BATCH, -1, -1) if mask is None else mask
            real = seen[:, -1]
            wanted = dense(q, [members], k, v, seen)
            for way, given in ((by_kvc, None if mask is None else real), (by_torch, mask)):
                with self.subTest(way.__name__, tokens=tokens):
                    out = way(q, k, v, given, rows, merged, SCALE)
                    torch.testing.assert_close(out[real].double(), wanted[real], rtol=0, atol=2e-5)
                    rows = Ragged.empty(k, [100, 100])

    def test_packed(self):
        begin, count = torch.tensor([[3, 10]], dtype=torch.int32), torch.tensor([[2, 3]], dtype=torch.int32)
        self.assertEqual(packed.places(begin, count).tolist(), [3, 4, 10, 11, 12])
        self.assertEqual(packed.starts(count).tolist(), [[0, 2]])


class TestWhichWay(Case):
    def test_rule(self):
        q, k, v = drawn(4)
        behind = torch.stack([CAUSAL, CAUSAL])
        behind[1, :, 1:3] = False
        for mask in (None, CAUSAL.expand(BATCH, -1, -1), behind):
            self.assertTrue(takes(q, k, v, mask))
        self.assertTrue(takes(*drawn(1), torch.zeros(BATCH, 1, 1, dtype=torch.bool)))
        # Tokens that branch, or look ahead.
        tree, ahead = (CAUSAL.repeat(BATCH, 1, 1) for _ in range(2))
        tree[0, 2, 1], ahead[0, 0, 1] = False, True
        for mask in (tree, ahead):
            self.assertFalse(takes(q, k, v, mask))
        for which in range(3):
            tensors = [x.detach().clone().requires_grad_(i == which) for i, x in enumerate((q, k, v))]
            self.assertFalse(takes(*tensors, None))
            with torch.no_grad():
                self.assertTrue(takes(*tensors, None))

    def test_both_leave_the_same_rows(self):
        q, k, v = drawn(4)
        tree = CAUSAL.repeat(BATCH, 1, 1)
        tree[1, 2, 1] = False
        ours, theirs = made(), made()
        out = attend(q, k, v, tree, ours, None, SCALE)
        wanted = dense(q, [made().heads()], k, v, tree)
        torch.testing.assert_close(out.double(), wanted, rtol=0, atol=5e-6)
        attend(q, k, v, None, theirs, None, SCALE)
        for b, h in ((b, h) for b in range(BATCH) for h in range(HEADS)):
            self.assertTrue(all(map(torch.equal, ours.heads()[b][h], theirs.heads()[b][h])))


class TestGradients(Generate):
    def test_they_reach_what_is_asked(self):
        # A question behind a context that is compressed, as when a prompt is tuned.
        ids, _ = prompts(0)
        for policy in ("adakv", "ems"):
            with self.subTest(policy):
                logits = []
                for wanted in (True, False):
                    cache = KvcCache(self.model, policy, BUDGET)
                    self.model(ids, past_key_values=cache)
                    cache.finish()
                    with torch.set_grad_enabled(wanted):
                        words = self.model.get_input_embeddings()(ids[:, :5]).detach().requires_grad_(wanted)
                        logits.append(self.model(inputs_embeds=words, past_key_values=cache).logits)
                        if wanted:
                            logits[0][..., 1].sum().backward()
                            self.assertTrue((words.grad.abs().sum(dim=-1) > 0).all())
                torch.testing.assert_close(*(x.detach() for x in logits), rtol=1e-4, atol=1e-4)

    def test_kept_rows_are_not_the_models(self):
        with torch.enable_grad():
            cache = KvcCache(self.model, "snapkv", BUDGET)
            ids, _ = prompts(0)
            self.model(ids, past_key_values=cache)
            cache.finish()
            self.model(ids[:, :3], past_key_values=cache).logits.sum().backward()
            self.assertFalse(any(x.requires_grad for heads in cache.layers[0]._rows.heads()[0] for x in heads))


if __name__ == "__main__":
    unittest.main()
