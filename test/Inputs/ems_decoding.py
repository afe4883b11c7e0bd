"""ems_decoding.py CHECK WORK PROMPT_POLICY POLICY NAME=VALUE...: EMS while decoding against its
definition, worked out here row by row: docs/caches.md, "EMS while decoding". Standard library only.

  steps     tokens come one by one (or `every` at a time) behind a merged cache, and `kvc-run apply`
            is run over each; whose rows are left, keys, values, members and numbers are compared
  plain     with gamma 1 and tau above 1 nothing is merged: rows are the bytes that they were
  handed    what a prompt's eviction hands over: numbers of each row, summed over its members

POLICY is compiled with the parameters that are given; `budget`, `every`, `steps`, `heads`, `tokens`
(in the cache before), `target` and `seed` are the test's own.
"""
import math
import os
import random
import struct
import subprocess
import sys

from layers import load, save

check, work, prompt_policy, policy = sys.argv[1:5]
given = dict(pair.split("=") for pair in sys.argv[5:])
number = lambda name, default: type(default)(given.get(name, default))
window, gamma, tau, closed = number("window", 32), number("gamma", 4.0), number("tau", 0.6), number("closed", 0)
budget, every, steps, seed = number("budget", 20), number("every", 1), number("steps", 50), number("seed", 1)
heads, tokens, target = number("heads", 2), number("tokens", 24), number("target", "host")
group, dim, theta = 2, 16, 10000.0
scale = 1 / math.sqrt(dim)
os.makedirs(work, exist_ok=True)
rng = random.Random(seed)
single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
vector = lambda mean=0: [single(rng.gauss(mean, 1)) for _ in range(dim)]
alike = lambda: vector(2)
dot = lambda a, b: sum(x * y for x, y in zip(a, b))
norm = lambda a: math.sqrt(dot(a, a))


def turn(x, position):
    """RoPE, halves rotated."""
    y, half = [0.0] * dim, dim // 2
    for i in range(half):
        angle = position * theta ** (-2 * i / dim)
        c, s = math.cos(angle), math.sin(angle)
        y[i], y[i + half] = x[i] * c - x[i + half] * s, x[i + half] * c + x[i] * s
    return y


def cosine(a, b):
    both = norm(a) * norm(b)
    return dot(a, b) / both if both else 0.0


class Head:
    """Rows as dicts of position, k (before RoPE), v, glo, past, cur; members as [row, position, norm],
    where `row` is the row itself."""

    def __init__(self):
        self.rows, self.members = [], []

    def append(self, position, k, v):
        length = norm(k)
        unit = [single(x / length) if length else 0.0 for x in k]
        self.rows.append({"position": position, "k": unit, "v": v, "glo": 0.0, "past": 0.0, "cur": 0.0})
        self.members.append([self.rows[-1], position, single(length)])

    def step(self, length, queries, since):
        """One run with these new queries, [group][new][dim]; `length` is T."""
        drawn = {id(row): 0.0 for row in self.rows}
        for of_head in queries:
            for i, q in enumerate(of_head):
                own = length - len(of_head) + i
                seen = [m for m in self.members if m[1] <= own]
                logits = [scale * dot(q, [m[2] * x for x in turn(m[0]["k"], m[1])]) for m in seen]
                most = max(logits)
                weights = [math.exp(z - most) for z in logits]
                for m, weight in zip(seen, weights):
                    drawn[id(m[0])] += weight / sum(weights) / group
        new = len(queries[0])
        for row in self.rows:
            row["glo"] += drawn[id(row)]
            row["cur"] += drawn[id(row)]
            if (since + new) // max(window, 1) != since // max(window, 1):
                row["past"], row["cur"] = row["cur"], 0.0
            row["loc"] = row["past"] + row["cur"]
        all_loc, all_glo = sum(r["loc"] for r in self.rows), sum(r["glo"] for r in self.rows)
        for row in self.rows:
            row["s"] = max(row["glo"] * all_loc / all_glo, row["loc"])
        goes = self.least(length, len(self.rows) - budget)
        self.merge(length, goes)
        self.trim()

    def inside(self, row, length):
        return row["position"] >= length - window

    def least(self, length, count):
        """The rows that go: those outside the window by s, then the window's by position."""
        order = sorted(self.rows, key=lambda r: (self.inside(r, length),
                                                 0 if self.inside(r, length) else r["s"], r["position"]))
        scores = [r["s"] for r in order if not self.inside(r, length)]
        if 0 < count < len(scores):
            assert scores[count] - scores[count - 1] > 1e-6, "too near to tell"
        return order[:max(count, 0)]

    def merge(self, length, goes):
        kept = [r for r in self.rows if not any(r is g for g in goes)]
        outside = sorted((r for r in self.rows if not self.inside(r, length)), key=lambda r: (-r["s"], r["position"]))
        shut = {id(r) for r in outside[:closed]}
        open_rows = [r for r in kept if not self.inside(r, length) and id(r) not in shut]
        joins = {}
        for c in goes:
            best, to = -math.inf, None
            for j in open_rows:
                a, b = cosine(c["k"], j["k"]), cosine(c["v"], j["v"])
                r = -1.0 if a < 0 and b < 0 else a * b
                assert abs(r - tau) > 1e-5 and (r == best or abs(r - best) > 1e-7), "too near to tell"
                if r > best:
                    best, to = r, j
            if best >= tau:
                joins.setdefault(id(to), []).append(c)
        owner = {id(r): r for r in kept}
        for j in kept:
            parts = sorted([j] + joins.get(id(j), []), key=lambda r: r["position"])
            if len(parts) == 1:
                continue
            weights = [r["loc"] for r in parts]
            if sum(weights) == 0:
                weights = [1.0] * len(parts)
            mean = {side: [sum(w * r[side][i] for w, r in zip(weights, parts)) / sum(weights) for i in range(dim)]
                    for side in "kv"}
            numbers = {name: sum(r[name] for r in parts) for name in ("glo", "past", "cur")}
            for c in parts:
                owner[id(c)] = j
            j.update(mean, **numbers)
        self.rows = kept
        self.members = [[owner[id(m[0])], m[1], m[2]] for m in self.members if id(m[0]) in owner]
        self.merges = sum(map(len, joins.values()))

    def trim(self):
        self.trimmed = 0
        while len(self.members) > math.floor(gamma * budget + 1e-9):
            sizes = {}
            for m in self.members:
                sizes[id(m[0])] = sizes.get(id(m[0]), 0) + 1
            more = [m for m in self.members if sizes[id(m[0])] > 1]
            if not more:
                return
            self.members.remove(min(more, key=lambda m: m[1]))
            self.trimmed += 1


floats = lambda values: struct.pack(f"<{len(values)}f", *values)
wholes = lambda values: struct.pack(f"<{len(values)}i", *values)


def write(path, all_heads, queries, length, since):
    rows = [r for h in all_heads for r in h.rows]
    members = [(h, m) for h in all_heads for m in h.members]
    new = len(queries[0])
    place = {id(r): i for h in all_heads for i, r in enumerate(h.rows)}
    tensors = {
        "lengths": ("I32", [heads], wholes([len(h.rows) for h in all_heads])),
        "positions": ("I32", [len(rows)], wholes([r["position"] for r in rows])),
        "k": ("F32", [len(rows), dim], floats([x for r in rows for x in r["k"]])),
        "v": ("F32", [len(rows), dim], floats([x for r in rows for x in r["v"]])),
        "q": ("F32", [heads * group, new, dim], floats([x for h in queries for q in h for x in q])),
        "members.counts": ("I32", [heads], wholes([len(h.members) for h in all_heads])),
        "members.row": ("I32", [len(members)], wholes([place[id(m[0])] for _, m in members])),
        "members.position": ("I32", [len(members)], wholes([m[1] for _, m in members])),
        "members.norm": ("F32", [len(members)], floats([m[2] for _, m in members])),
    }
    for name in ("glo", "past", "cur"):
        tensors["state." + name] = ("F32", [len(rows)], floats([r[name] for r in rows]))
    save(path, {"layers.0." + name: tensor for name, tensor in tensors.items()},
         {"length": str(length), "new": str(new), "since": str(since), "rope_theta": str(theta), "scale": str(scale)})


def apply(library, source, to, *options):
    result = subprocess.run(["kvc-run", "apply", "--policy", library, "--input", source, "--budget", str(budget),
                             "--output", to, "--target", target, *options], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return load(to)


def numbers_of(tensors, name):
    kind, _, raw = tensors["layers.0." + name]
    return list(struct.unpack(f"<{len(raw) // 4}{'i' if kind == 'I32' else 'f'}", raw))


def read(tensors):
    """The heads of an output."""
    result, row_at, member_at = [], 0, 0
    k, v, positions = (numbers_of(tensors, n) for n in ("k", "v", "positions"))
    states = {n: numbers_of(tensors, "state." + n) for n in ("glo", "past", "cur")}
    table = [numbers_of(tensors, "members." + n) for n in ("row", "position", "norm")]
    for rows, members in zip(numbers_of(tensors, "counts"), numbers_of(tensors, "members.counts")):
        head = Head()
        for i in range(row_at, row_at + rows):
            head.rows.append({"position": positions[i], "k": k[i * dim:(i + 1) * dim], "v": v[i * dim:(i + 1) * dim],
                              **{n: states[n][i] for n in states}})
        for i in range(member_at, member_at + members):
            head.members.append([head.rows[table[0][i]], table[1][i], table[2][i]])
        row_at, member_at = row_at + rows, member_at + members
        result.append(head)
    return result


def close(a, b, what, least=1.0):
    assert len(a) == len(b), (what, len(a), len(b))
    for x, y in zip(a, b):
        assert abs(x - y) <= 2e-5 * max(least, abs(y)), (what, x, y)


def same(found, wanted, what):
    for g, (a, b) in enumerate(zip(found, wanted)):
        where = f"{what}, head {g}"
        assert [r["position"] for r in a.rows] == [r["position"] for r in b.rows], \
            (where, [r["position"] for r in a.rows], [r["position"] for r in b.rows])
        assert [(m[1], m[0]["position"]) for m in a.members] == [(m[1], m[0]["position"]) for m in b.members], \
            (where, "members", [(m[1], m[0]["position"]) for m in a.members],
             [(m[1], m[0]["position"]) for m in b.members])
        close([m[2] for m in a.members], [m[2] for m in b.members], where + ", norms")
        for x, y in zip(a.rows, b.rows):
            close(x["k"], y["k"], where + ", k")
            close(x["v"], y["v"], where + ", v")
            close([x[n] for n in ("glo", "past", "cur")], [y[n] for n in ("glo", "past", "cur")], where + ", numbers")


def start():
    """A cache in which every token has a row, with random numbers; the last head has fewer."""
    all_heads = []
    for g in range(heads):
        head = Head()
        for t in range(tokens):
            if g == heads - 1 and t % 3 == 1:
                continue
            head.append(t, alike(), alike())
            head.rows[-1].update(glo=single(rng.random()), past=single(rng.random()), cur=single(rng.random()))
        all_heads.append(head)
    return all_heads


def run(after=None):
    all_heads, length, since = start(), tokens, number("since", 0)
    merges = trimmed = evicted = 0
    for step in range(steps):
        for head in all_heads:
            for i in range(every):
                head.append(length + i, alike(), alike())
        length += every
        queries = [[vector() for _ in range(every)] for _ in range(heads * group)]
        before = {(g, r["position"]): (r["k"], r["v"]) for g, h in enumerate(all_heads) for r in h.rows}
        write(work + "/in", all_heads, queries, length, since)
        found = read(apply(policy, work + "/in", work + "/out"))
        for g, head in enumerate(all_heads):
            evicted += max(0, len(head.rows) - budget)
            head.step(length, queries[g * group:(g + 1) * group], since)
            merges, trimmed = merges + head.merges, trimmed + head.trimmed
        same(found, all_heads, f"step {step}")
        if after:
            after(found, before)
        since += every
        all_heads = found # in fp32, so that nothing adds up
    return merges, trimmed, evicted


def unmerged(found, before):
    for g, head in enumerate(found):
        for row in head.rows:
            assert (row["k"], row["v"]) == before[g, row["position"]], "a row has changed"
        assert sorted(m[1] for m in head.members) == [r["position"] for r in head.rows]


def handed():
    """A prompt: sums over its queries of what each token draws, in the rows that represent it."""
    k, v = ([[vector() for _ in range(tokens)] for _ in range(heads)] for _ in "kv")
    q = [[vector() for _ in range(tokens)] for _ in range(heads * group)]
    turned = [[[single(x) for x in turn(x, t)] for t, x in enumerate(head)] for head in k]
    flat = lambda values: floats([x for h in values for row in h for x in row])
    shape = [heads, tokens, dim]
    save(work + "/in", {"layers.0.q": ("F32", [heads * group, tokens, dim], flat(q)),
                        "layers.0.k": ("F32", shape, flat(turned)), "layers.0.v": ("F32", shape, flat(v)),
                        "layers.0.k_raw": ("F32", shape, flat(k))}, {"scale": str(scale)})
    found = read(apply(prompt_policy, work + "/in", work + "/out", "--state"))
    for g, head in enumerate(found):
        glo, past = [0.0] * tokens, [0.0] * tokens
        for h in range(g * group, (g + 1) * group):
            for i in range(tokens):
                logits = [scale * dot(q[h][i], turned[g][t]) for t in range(i + 1)]
                weights = [math.exp(z - max(logits)) for z in logits]
                for t, weight in enumerate(weights):
                    glo[t] += weight / sum(weights) / group
                    past[t] += weight / sum(weights) / group if i >= tokens - window else 0
        for row in head.rows:
            own = [m[1] for m in head.members if m[0] is row]
            wanted = [sum(glo[t] for t in own), sum(past[t] for t in own), 0.0]
            close([row["glo"], row["past"], row["cur"]], wanted, f"head {g}, row {row['position']}")
        assert any(sum(m[0] is r for m in head.members) > 1 for r in head.rows) or budget >= tokens, "nothing merged"


if check == "steps":
    print("steps as they should be: {} merges, {} members out, of {} rows".format(*run()))
elif check == "plain":
    merges, trimmed, evicted = run(unmerged)
    assert merges == trimmed == 0 < evicted
    print("plain eviction")
elif check == "handed":
    handed()
    print("handed over")
else:
    sys.exit(f"no check {check}")
