"""torch.ops.kvc.attend and append: registered right, compiled without a break, the same as kvc's."""

import dataclasses
import unittest

import torch

import kvc
import kvc.torch

from ..support import Case, layer


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


def caches():
    """The same rows of two heads in every kind of cache: 5 and 3 of 9 tokens, with room."""
    _, k, v = map(torch.from_numpy, layer(batch=1, tokens=16))
    common = {"lengths": numbers(9), "positions": torch.zeros(1, 2, 8, dtype=torch.int32)}
    common["positions"][0, 0, :5], common["positions"][0, 1, :3] = numbers(0, 2, 3, 7, 8), numbers(1, 7, 8)
    dense = kvc.torch.Cache("dense", k[:, :, :8].clone(), v[:, :, :8].clone(), numbers([5, 3]), **common)

    def copied(kind, k, v, **where):
        return kvc.torch.Cache(kind, k, v, numbers([5, 3]), **{n: x.clone() for n, x in common.items()}, **where)

    packed = [torch.cat([x[0, 0, :8], x[0, 1, :8]])[None].clone() for x in (dense.k, dense.v)]
    ragged = copied("ragged", *packed, offsets=numbers([0, 8]))
    pages = [x[0].reshape(2, 2, 4, 16).permute(1, 2, 0, 3).flip(0).clone() for x in (dense.k, dense.v)]
    paged = copied("paged", *pages, table=numbers([1, 0]))
    return {"dense": dense, "ragged": ragged, "paged": paged}


class TestOps(Case):
    def setUp(self):
        torch.manual_seed(0)
        self.q, self.k, self.v = torch.randn(1, 4, 2, 16), torch.randn(1, 2, 2, 16), torch.randn(1, 2, 2, 16)

    def step(self, cache, q, k, v):
        kvc.torch.append(cache, k, v)
        return kvc.torch.attend(cache, q)

    def test_as_kvc(self):
        results = []
        for kind, cache in caches().items():
            with self.subTest(kind):
                more = {name: getattr(cache, name) for name in ("offsets", "table")}
                more = {name: tensor for name, tensor in more.items() if tensor is not None}
                written = ("k", "v", "counts", "lengths", "positions")
                copy = dataclasses.replace(cache, **{name: getattr(cache, name).clone() for name in written})
                out, lse = self.step(cache, self.q, self.k, self.v)
                view = getattr(kvc.CacheView, kind)(copy.k, copy.v, counts=copy.counts, lengths=copy.lengths,
                                                    positions=copy.positions, **more)  # fmt: skip
                kvc.append(view, self.k, self.v)
                wanted = torch.empty_like(lse)
                self.assertTrue(torch.equal(out, kvc.attend(view, self.q, lse=wanted)))
                self.assertTrue(torch.equal(lse, wanted))
                self.assertEqual(cache.counts.tolist(), [[7, 5]])
                self.assertEqual(cache.lengths.tolist(), [11])
                results.append(out)
        self.assertTrue(torch.equal(results[0], results[1]) and torch.equal(results[0], results[2]))

    def test_opcheck(self):
        for kind, cache in caches().items():
            for name, arguments in (
                ("append", (self.k, self.v)),
                ("attend", (self.q, 0.3)),
                ("attend", (self.q, None)),
            ):
                with self.subTest(kind, op=name):
                    torch.library.opcheck(getattr(torch.ops.kvc, name).default, (*cache.tensors(), *arguments))

    def test_compile(self):
        for kind in ("dense", "ragged", "paged"):
            for backend in ("eager", "aot_eager"):
                with self.subTest(kind, backend=backend):
                    eager, compiled = caches()[kind], caches()[kind]
                    step = torch.compile(self.step, fullgraph=True, backend=backend)
                    # A transposed view, as engines have it.
                    q = self.q.transpose(1, 2).contiguous().transpose(1, 2)
                    wanted = self.step(eager, q, self.k, self.v)
                    out = step(compiled, q, self.k, self.v)
                    self.assertTrue(all(map(torch.equal, out, wanted)))
                    for name in ("k", "v", "counts", "lengths", "positions"):
                        self.assertTrue(torch.equal(getattr(compiled, name), getattr(eager, name)), name)

    def test_refused(self):
        cache = caches()["paged"]
        for line, change, q in (
            ("a cache must be dense, ragged or paged, got 'flat'", {"kind": "flat"}, self.q),
            ("table of a paged cache must be given, got None", {"table": None}, self.q),
            ("offsets of a ragged cache must be given, got None", {"kind": "ragged"}, self.q),
            ("a dense cache must have no table, got one", {"kind": "dense"}, self.q),
            ("q must be f32, got f16", {}, self.q.half()),
        ):
            with self.subTest(line), self.refused(kvc.ArgumentError, line):
                kvc.torch.attend(dataclasses.replace(cache, **change), q)


if __name__ == "__main__":
    unittest.main()
