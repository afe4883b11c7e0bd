"""row_state.py H2O.so WORK [SEED...]: `kvc-run apply` on random caches whose rows carry what they have drawn,
against H2O's definition (docs/caches.md) worked out in plain Python: rows, their positions, what they carry on;
with the same bytes in pages. Standard library only."""
import math
import os
import random
import struct
import subprocess
import sys

from layers import load, save

library, work, *seeds = sys.argv[1:]
os.makedirs(work, exist_ok=True)
heads, group, dim = 2, 2, 32


def floats(values):
    values = list(values)
    return struct.pack(f"<{len(values)}f", *values)


def integers(values):
    values = list(values)
    return struct.pack(f"<{len(values)}i", *values)


def unpack(tensor):
    kind, _, raw = tensor
    return list(struct.unpack(f"<{len(raw) // 4}{'i' if kind == 'I32' else 'f'}", raw))


def vector(generator, scale):
    return struct.unpack(f"<{dim}f", floats(generator.gauss(0, scale) for _ in range(dim)))


def h2o(positions, keys, queries, mass, new, length, budget):
    """Kept rows of a head, and what all of its rows carry on."""
    mass = list(mass)
    for rows in queries:
        for j, query in enumerate(rows[len(rows) - new:]):
            seen = [i for i, p in enumerate(positions) if p <= length - new + j]
            logits = [sum(map(float.__mul__, query, keys[i])) / math.sqrt(dim) for i in seen]
            weights = [math.exp(x - max(logits)) for x in logits]
            for i, weight in zip(seen, weights):
                mass[i] += weight / sum(weights) / group
    if len(positions) <= budget:
        return list(range(len(positions))), mass
    recent = [i for i, p in enumerate(positions) if p >= length - budget // 2]
    if len(recent) >= budget:
        return recent[-budget:], mass
    past = sorted(range(len(positions) - len(recent)), key=lambda i: (-mass[i], positions[i]))
    return sorted(past[:budget - len(recent)]) + recent, mass


def apply(source, target, budget, *options):
    subprocess.run(["kvc-run", "apply", "--policy", library, "--input", source, "--output", target, "--budget", str(budget),
                    *options], check=True, capture_output=True)
    return open(target, "rb").read()


def run(seed):
    generator = random.Random(seed)
    length = generator.randint(3, 90)
    new = generator.randint(0, min(length, 12))
    count = generator.randint(max(new, 1), min(length, new + 6))
    budget = generator.randint(1, length + 3)
    positions = [sorted(generator.sample(range(length), generator.randint(0, length))) for _ in range(heads)]
    keys = [[vector(generator, 1) for _ in head] for head in positions]
    queries = [[vector(generator, 2) for _ in range(count)] for _ in range(heads * group)]
    given = seed % 4 != 3
    mass = [[struct.unpack("<f", struct.pack("<f", 3 * generator.random()))[0] if given else 0.0 for _ in head]
            for head in positions]
    rows = sum(map(len, positions))
    flat = lambda lists: [x for part in lists for x in part]
    tensors = {"layers.0.k": ("F32", [rows, dim], floats(flat(flat(keys)))),
               "layers.0.v": ("F32", [rows, dim], floats(flat(vector(generator, 1) for _ in range(rows)))),
               "layers.0.q": ("F32", [heads * group, count, dim], floats(flat(flat(queries)))),
               "layers.0.lengths": ("I32", [heads], integers(map(len, positions))),
               "layers.0.positions": ("I32", [rows], integers(flat(positions))),
               # Nobody declares it: ignored, and not copied.
               "layers.0.state.other": ("F32", [rows], floats(flat(mass)))}
    if given:
        tensors["layers.0.state.mass"] = ("F32", [rows], floats(flat(mass)))
    source, target = work + "/in", work + "/out"
    save(source, tensors, {"length": str(length), "new": str(new)})
    plain = apply(source, target, budget, "--target", "host")
    assert plain == apply(source, work + "/pages", budget, "--target", "host", "--page", "4", "--seed", str(seed + 1)), seed
    if seed % 8 == 0:
        on_ptx = apply(source, work + "/ptx", budget, "--target", "ptx")
        assert on_ptx == apply(source, work + "/pages", budget, "--target", "ptx", "--page", "2"), seed
        assert all(load(target)[name] == load(work + "/ptx")[name] for name in ("layers.0.indices", "layers.0.v")), seed
    out = load(target)
    assert "layers.0.state.other" not in out
    at = 0
    for head in range(heads):
        want, after = h2o(positions[head], keys[head], queries[head * group:][:group], mass[head], new, length, budget)
        end = at + unpack(out["layers.0.counts"])[head]
        assert unpack(out["layers.0.indices"])[at:end] == want, (seed, head, want)
        assert unpack(out["layers.0.positions"])[at:end] == [positions[head][i] for i in want], (seed, head)
        for got, i in zip(unpack(out["layers.0.state.mass"])[at:end], want):
            assert abs(got - after[i]) <= 2e-5 * (1 + after[i]), (seed, head, i, got, after[i])
        at = end


for seed in map(int, seeds) if seeds else range(40):
    run(seed)
print("rows and what they carry are as they should be")
