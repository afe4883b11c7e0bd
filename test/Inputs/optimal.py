"""optimal.py KEPT WINDOW: no other sharing of the same rows among the heads keeps a
larger sum of scores (Feng et al. 2024, Theorem 3.2, without a safeguard)."""
import random
import struct
import sys

from layers import load

tensors, window = load(sys.argv[1]), int(sys.argv[2])
unpack = lambda name, kind: struct.unpack("<%d%s" % (len(tensors[name][2]) // 4, kind),
                                          tensors[name][2])
counts = unpack("layers.0.counts", "i")
heads, past = tensors["layers.0.scores"][1]
flat = unpack("layers.0.scores", "f")
ranked = [sorted(flat[g * past:(g + 1) * past], reverse=True) for g in range(heads)]
mass = lambda shares: sum(sum(row[:n]) for row, n in zip(ranked, shares))
shares = [n - window for n in counts]
best, total = mass(shares), sum(shares)
indices, at = unpack("layers.0.indices", "i"), 0
kept = 0.0
for g, count in enumerate(counts):
    kept += sum(flat[g * past + t] for t in indices[at:at + count] if t < past)
    at += count
assert abs(kept - best) < 1e-6, (kept, best)
random.seed(2)
others = [[total // heads] * heads]
for _ in range(3000):
    cuts = sorted(random.sample(range(total + heads - 1), heads - 1))
    others.append([b - a - 1 for a, b in zip([-1] + cuts, cuts + [total + heads - 1])])
for g in range(heads):  # neighbours: one row moved
    for h in set(range(heads)) - {g}:
        other = list(shares)
        other[g], other[h] = other[g] - 1, other[h] + 1
        others.append(other)
worse = [other for other in others if min(other) >= 0 and max(other) <= past]
assert all(mass(other) <= best + 1e-6 for other in worse), "a better sharing exists"
assert len(set(shares)) > 1, "the heads must differ for the test to mean something"
print(f"{len(worse)} sharings, none better than {shares}")
