"""ems_decoding.py CHECK WORK PROMPT_POLICY POLICY NAME=VALUE...: EMS while decoding against its
definition, worked out here row by row: docs/caches.md, "EMS while decoding". Standard library only.

  steps     tokens come one by one (or `every` at a time) behind a merged cache, and `kvc-run apply`
            is run over each; whose rows are left, keys, values, members and numbers are compared
  plain     with gamma 1 and tau above 1 nothing is merged: rows are the bytes that they were
  handed    what a prompt's eviction hands over: numbers of each row, summed over its members
  generate  the same while a model generates: runs of `kvc-run generate`, POLICY every `every` tokens
            behind PROMPT_POLICY; no head ever has more than B + N rows, gamma * B + N members
  refused   files that are no merged cache, each in one line
  large     writes WORK/large, a merged cache that says it is of 2^28 tokens
  reference the steps again, by `kvc-opt --interpret` of the policy's text in the place of a library
  batch     two caches in one call, of other lengths, are what they are alone, to the byte

POLICY is compiled with the parameters that are given; `budget`, `every`, `steps`, `heads`, `tokens`
(in the cache before), `target`, `dtype`, `seed`, `shuffled` (GPU threads), `model`, `page` (rows of one),
`in-place` and `tail` are the test's own.
"""
import json
import math
import os
import random
import struct
import subprocess
import sys

from layers import encoded, load, save

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
dtype = number("dtype", "F32")


def narrow(x):
    """In the caches' type."""
    if dtype == "F16":
        return struct.unpack("<e", struct.pack("<e", x))[0]
    if dtype == "BF16":
        bits = struct.unpack("<I", struct.pack("<f", x))[0]
        bits += 0x7fff + (bits >> 16 & 1)
        return struct.unpack("<f", struct.pack("<I", bits & 0xffff0000))[0]
    return single(x)


def decoded(raw):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
    return list(struct.unpack(f"<{len(raw) // (2 if dtype == 'F16' else 4)}{'e' if dtype == 'F16' else 'f'}", raw))


vector = lambda mean=0: [narrow(rng.gauss(mean, 1)) for _ in range(dim)]
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


exact = narrow if dtype != "F32" else lambda x: x


class Head:
    """Rows as dicts of position, k (before RoPE), v, glo, past, cur; members as [row, position, norm],
    where `row` is the row itself."""

    def __init__(self):
        self.rows, self.members = [], []

    def append(self, position, k, v):
        length = norm(k)
        unit = [narrow(x / length) if length else 0.0 for x in k]
        self.rows.append({"position": position, "k": unit, "v": v, "glo": 0.0, "past": 0.0, "cur": 0.0})
        self.members.append([self.rows[-1], position, single(length)])

    def step(self, length, queries, since, told=None):
        """One run with these new queries, [group][new][dim]; `length` is T. `told`: the positions that
        were kept, and by a member's position its row's, which decide where it is too near to tell."""
        drawn = {id(row): 0.0 for row in self.rows}
        for of_head in queries:
            for i, q in enumerate(of_head):
                own = length - len(of_head) + i
                seen = [m for m in self.members if m[1] <= own]
                logits = [scale * dot(q, [exact(m[2] * x) for x in turn(m[0]["k"], m[1])]) for m in seen]
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
        goes = self.least(length, len(self.rows) - budget, told)
        self.merge(length, goes, told)
        self.trim()

    def inside(self, row, length):
        return row["position"] >= length - window

    def least(self, length, count, told):
        """The rows that go: those outside the window by s, then the window's by position."""
        order = sorted(self.rows, key=lambda r: (self.inside(r, length),
                                                 0 if self.inside(r, length) else r["s"], r["position"]))
        scores = [r["s"] for r in order if not self.inside(r, length)]
        if told and 0 < count < len(scores):
            chosen = [r for r in self.rows if r["position"] not in told[0]]
            assert len(chosen) == count and not any(self.inside(r, length) for r in chosen)
            assert max(r["s"] for r in chosen) <= scores[count - 1] + max(1e-6 + 1e-5 * scores[count - 1], slack / 20)
            return chosen
        if 0 < count < len(scores):
            assert scores[count] - scores[count - 1] > slack / 20, "too near to tell"
        return order[:max(count, 0)]

    def merge(self, length, goes, told):
        kept = [r for r in self.rows if not any(r is g for g in goes)]
        outside = sorted((r for r in self.rows if not self.inside(r, length)), key=lambda r: (-r["s"], r["position"]))
        shut = {id(r) for r in outside[:closed]}
        open_rows = [r for r in kept if not self.inside(r, length) and id(r) not in shut]
        joins = {}
        for c in goes:
            best, to, alike = -math.inf, None, []
            for j in open_rows:
                a, b = cosine(c["k"], j["k"]), cosine(c["v"], j["v"])
                r = -1.0 if a < 0 and b < 0 else a * b
                assert told or abs(r - tau) > 1e-5 and (r == best or abs(r - best) > 1e-6), "too near to tell"
                alike.append((r, j))
                if r > best:
                    best, to = r, j
            if told:
                now = {told[1].get(m[1]) for m in self.members if m[0] is c}
                to = next((j for r, j in alike if r > best - 1e-5 and j["position"] in now), to)
                if abs(best - tau) <= 1e-5:
                    best = tau if now != {None} else -math.inf
            if best >= tau:
                joins.setdefault(id(to), []).append(c)
        owner = {id(r): r for r in kept}
        for j in kept:
            parts = sorted([j] + joins.get(id(j), []), key=lambda r: r["position"])
            if len(parts) == 1:
                continue
            weights = [r["loc"] for r in parts]
            j["faint"] = 0 < sum(weights) < 2 ** -100 # in fp32 such weights are anything, or 0
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
        "k": (dtype, [len(rows), dim], encoded(dtype, [x for r in rows for x in r["k"]])),
        "v": (dtype, [len(rows), dim], encoded(dtype, [x for r in rows for x in r["v"]])),
        "q": (dtype, [heads * group, new, dim], encoded(dtype, [x for h in queries for q in h for x in q])),
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
    if library == policy:
        options += ("--page", given["page"]) if "page" in given else ()
        options += tuple(f"--{flag}" for flag in ("in-place", "tail") if number(flag, 0))
    result = subprocess.run(["kvc-run", "apply", "--policy", library, "--input", source, "--budget", str(budget),
                             "--output", to, "--target", target, *options], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return load(to)


def numbers_of(tensors, name):
    kind, _, raw = tensors["layers.0." + name]
    if name in "kv":
        return decoded(raw)
    return list(struct.unpack(f"<{len(raw) // 4}{'i' if kind == 'I32' else 'f'}", raw))


def read(tensors):
    """The heads of an output."""
    result, row_at, member_at = [], 0, 0
    k, v, positions = (numbers_of(tensors, n) for n in ("k", "v", "positions"))
    states = {n: numbers_of(tensors, "state." + n) if "layers.0.state." + n in tensors else [0.0] * len(positions)
              for n in ("glo", "past", "cur")}
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


slack = {"F32": 2e-5, "F16": 2e-3, "BF16": 1.6e-2}[dtype]


def close(a, b, what):
    assert len(a) == len(b), (what, len(a), len(b))
    for x, y in zip(a, b):
        assert abs(x - y) <= slack * max(1, abs(y)), (what, x, y)


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
            if not y.get("faint"):
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


def come(all_heads, length):
    """`every` tokens more behind `length`; their queries."""
    for head in all_heads:
        for i in range(every):
            head.append(length + i, alike(), alike())
    return [[vector() for _ in range(every)] for _ in range(heads * group)]


def run(after=None):
    all_heads, length, since = start(), tokens, number("since", 0)
    merges = trimmed = evicted = 0
    for step in range(steps):
        queries = come(all_heads, length)
        length += every
        before = {(g, r["position"]): (r["k"], r["v"]) for g, h in enumerate(all_heads) for r in h.rows}
        write(work + "/in", all_heads, queries, length, since)
        found = read(apply(policy, work + "/in", work + "/out", *(["--seed", str(step + 1)] if number("shuffled", 0) else [])))
        for g, head in enumerate(all_heads):
            evicted += max(0, len(head.rows) - budget)
            told = [r["position"] for r in found[g].rows], {m[1]: m[0]["position"] for m in found[g].members}
            head.step(length, queries[g * group:(g + 1) * group], since, told)
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


def heads_of(tensors, layer):
    """The heads of a layer as a file has it, and their queries."""
    plain = {name.split(".", 2)[2]: tensor for name, tensor in tensors.items() if name.startswith(f"layers.{layer}.")}
    result = read({"layers.0." + {"lengths": "counts"}.get(name, name): tensor for name, tensor in plain.items()})
    shape, raw = plain["q"][1:]
    q = struct.unpack(f"<{len(raw) // 4}f", raw)
    queries = [[list(q[(h * shape[1] + i) * dim:(h * shape[1] + i + 1) * dim]) for i in range(shape[1])]
               for h in range(shape[0])]
    return result, queries


def generate():
    """Each run's cache is stepped here; what it kept is the next one's cache, and the new tokens'."""
    global dim, scale, heads, theta, slack
    slack = 2e-4 # logits of a model are large, and fp32
    dim, heads, layers = 32, 4, (0, 3)
    scale = 1 / math.sqrt(dim)
    folder = work + "/runs"
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        os.remove(f"{folder}/{name}")
    ids = ",".join(map(str, rng.sample(range(3, 200), tokens)))
    result = subprocess.run(["kvc-run", "generate", "--model", given["model"], "--target", "host", "--json", work + "/json",
                             "--ignore-eos", "--max-new-tokens", str(steps * every + 1), "--policy", prompt_policy,
                             "--every-policy", policy, "--every", str(every), "--budget", str(budget), "--tokens", ids,
                             "--dump-runs", folder], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    report = json.load(open(work + "/json"))
    assert all(rows <= budget + every for layer in report["answers"][0]["kept"] for rows in layer)
    before, merges, trimmed = {}, 0, 0
    assert len(os.listdir(folder)) == steps
    for i in range(steps):
        path = f"{folder}/{i}.safetensors"
        tensors = load(path)
        with open(path, "rb") as file:
            metadata = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))["__metadata__"]
        assert (metadata["length"], metadata["new"], metadata["since"]) == \
            (str(tokens + (i + 1) * every), str(every), str(i * every)), metadata
        theta = float(metadata["rope_theta"])
        for layer in layers:
            found, queries = heads_of(tensors, layer)
            assert all(len(h.rows) <= budget + every and len(h.members) <= gamma * budget + every for h in found)
            if i:
                same([trailing(h, every) for h in found], before[layer], f"run {i}, layer {layer}, before")
            kept = f"layers.{layer}.kept."
            ints = lambda name: list(struct.unpack(f"<{len(tensors[kept + name][2]) // 4}i", tensors[kept + name][2]))
            told, counts, at = ints("positions"), ints("counts"), 0
            owners = list(zip(ints("members.position"), ints("members.row")))
            for g, head in enumerate(found):
                own = told[sum(counts[:g]):sum(counts[:g + 1])]
                more = ints("members.counts")[g]
                own = own, {position: own[row] for position, row in owners[at:at + more]}
                at += more
                head.step(int(metadata["length"]), queries[g * group:(g + 1) * group], int(metadata["since"]), own)
                merges, trimmed = merges + head.merges, trimmed + head.trimmed
            before[layer] = found
            rows = [r for h in found for r in h.rows]
            members = [m for h in found for m in h.members]
            assert ints("counts") == [len(h.rows) for h in found] and ints("positions") == \
                [r["position"] for r in rows]
            assert ints("members.counts") == [len(h.members) for h in found]
            assert ints("members.position") == [m[1] for m in members]
            for name in ("glo", "past", "cur"):
                raw = tensors[kept + "state." + name][2]
                close(struct.unpack(f"<{len(raw) // 4}f", raw), [r[name] for r in rows], name)
    return merges, trimmed


def trailing(head, new):
    """A head without its newest rows, which are their own members."""
    result = Head()
    result.rows, gone = head.rows[:-new], head.rows[-new:]
    result.members = head.members[:-new]
    assert all(m[0] is r and m[1] == r["position"] for m, r in zip(head.members[-new:], gone))
    assert all(r[n] == 0 for r in gone for n in ("glo", "past", "cur"))
    return result


def interpreted(path, all_heads, queries, length, since):
    """What the reference makes of such a cache: positions, members with their rows' positions, numbers."""
    at = lambda head, what: [next((what(r) for r in head.rows if r["position"] == t), what(None)) for t in range(length)]
    of = lambda head, what: [next((what(m) for m in head.members if m[1] == t), what(None)) for t in range(length)]
    nothing = [0.0] * dim
    each = lambda what: [at(h, what) for h in all_heads]
    layer = {"k": [[nothing] * length] * heads, "budget": budget, "scale": scale, "since": since, "rope_theta": theta,
             "raw_k": each(lambda r: r["k"] if r else nothing), "v": each(lambda r: r["v"] if r else nothing),
             "rows": each(lambda r: int(bool(r))), "q": queries, "new_queries": len(queries[0]),
             "member_rows": [of(h, lambda m: m[0]["position"] if m else -1) for h in all_heads],
             "member_norms": [of(h, lambda m: m[2] if m else 0) for h in all_heads],
             "row_states": {n: each(lambda r: r[n] if r else 0) for n in ("glo", "past", "cur")}}
    json.dump(layer, open(path, "w"))
    params = [f"--param={n}={given[n]}" for n in ("window", "gamma", "tau", "closed") if n in given]
    result = subprocess.run(["kvc-opt", policy, "--interpret", "--input", path, *params], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    lines = dict(line.split(":") for line in result.stdout.splitlines())
    values = lambda name, kind=float: [list(map(kind, lines[f"{name} {g}"].split())) for g in range(heads)]
    return (values("kept", int), [list(zip(*pair)) for pair in zip(values("members", int), values("of rows", int))],
            {n: values("carried " + n) for n in ("glo", "past", "cur")})


def referred():
    all_heads, length, since, merges = start(), tokens, number("since", 0), 0
    for step in range(steps):
        queries = come(all_heads, length)
        length += every
        kept, members, numbers = interpreted(work + "/layer.json", all_heads, queries, length, since)
        for g, head in enumerate(all_heads):
            head.step(length, queries[g * group:(g + 1) * group], since)
            merges += head.merges
            assert kept[g] == [r["position"] for r in head.rows], (step, g)
            assert members[g] == [(m[1], m[0]["position"]) for m in head.members], (step, g)
            for name in numbers:
                for x, r in zip(numbers[name][g], head.rows):
                    assert abs(x - r[name]) < 1e-7 * max(1, abs(x)), (step, g, name, x, r[name])
        since += every
    return merges


def batch():
    """Caches at two times, in one call."""
    all_heads = start()
    for name, length in (("one", tokens), ("two", tokens + 9)):
        for head in all_heads:
            while head.members[-1][1] < length - 1:
                head.append(head.members[-1][1] + 1, alike(), alike())
        write(f"{work}/{name}", all_heads, [[vector() for _ in range(3)] for _ in range(heads * group)], length, length)
        apply(policy, f"{work}/{name}", f"{work}/{name}.alone")
    result = subprocess.run(["kvc-run", "apply", "--policy", policy, "--input", work + "/one", "--input", work + "/two",
                             "--budget", str(budget), "--output", work + "/one.both", "--output", work + "/two.both",
                             "--target", target], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for name in ("one", "two"):
        alone, both = (open(f"{work}/{name}.{how}", "rb").read() for how in ("alone", "both"))
        assert alone == both and len(alone) > 1000, name


def refused():
    """Each line of wrongs spoils a good file."""
    all_heads = start()
    queries = [[vector()] for _ in range(heads * group)]
    write(work + "/good", all_heads, queries, tokens, 0)
    count = sum(len(h.members) for h in all_heads)
    good, (_, _, norms) = load(work + "/good"), load(work + "/good")["layers.0.members.norm"]
    metadata = {"length": str(tokens), "new": "1", "rope_theta": str(theta)}
    apply(policy, work + "/good", work + "/out")

    def wrong(error, tensors={}, metadata=metadata, more=(), gone=(), library=policy):
        changed = {**good, **{"layers.0." + n: t for n, t in tensors.items()}}
        save(work + "/bad", {n: t for n, t in changed.items() if n[9:] not in gone}, metadata)
        if os.path.exists(work + "/none"):
            os.remove(work + "/none")
        result = subprocess.run(["kvc-run", "apply", "--policy", library, "--input", work + "/bad", "--budget", str(budget),
                                 "--output", work + "/none", "--target", target, *more], capture_output=True, text=True)
        assert result.returncode == 1 and result.stderr.count("\n") == 1 and error in result.stderr, (error, result)
        assert not os.path.exists(work + "/none"), error

    ints = lambda values: ("I32", [len(values)], wholes(values))
    changed = lambda name, i, value: ints([value if j == i else x for j, x in enumerate(numbers_of(good, name))])
    wrong("metadata 'rope_theta' must say how members' keys are turned", metadata={"length": str(tokens), "new": "1"})
    wrong("metadata 'since' must be a whole number of 0 to 2147483647, got '-1'", metadata={**metadata, "since": "-1"})
    wrong("max_tokens * kv_heads below 2^31, got 1, 2 and 2147483647 tokens", metadata={**metadata, "length": str(2**31 - 1)})
    wrong("tensor 'layers.0.members.counts' must have a number for each of 2 KV heads", {"members.counts": ints([count])})
    wrong("layers.0.members.counts must be 0 or more, got -1", {"members.counts": ints([-1, count + 1])})
    wrong(f"tensor 'layers.0.members.norm' must be F32 [{count - 1}], one for each member, got", {"members.counts": ints([0, count - 1])})
    wrong(f"tensor 'layers.0.members.row' must be I32 [{count}], one for each member, got", {"members.row": ints([0])})
    wrong(f"tensor 'layers.0.members.position' must be I32 [{count}], one for each member, got", {"members.position": ints([0])})
    wrong("tensor 'layers.0.members.norm' must not hold NaN, got NaN at element 0",
          {"members.norm": ("F32", [count], struct.pack("<f", math.nan) + norms[4:])})
    wrong(f"layers.0.members.row must be below the head's rows ({tokens}), got {tokens} in head 0",
          {"members.row": changed("members.row", 1, tokens)})
    wrong(f"layers.0.members.position must ascend from 0 to {tokens - 1} in each head, got 0 behind 0 in head 0",
          {"members.position": changed("members.position", 1, 0)})
    wrong("tensor 'layers.0.members.counts' goes with 'layers.0.lengths'", gone=("lengths", "positions"))
    wrong("tensor 'layers.0.members.norm' is missing", gone=("members.norm",))
    wrong("got head_dim=16,group=2,dtype=f32,cache=merged", library=prompt_policy)
    names = ("members.counts", "members.row", "members.position", "members.norm")
    wrong("got head_dim=16,group=2,dtype=f32,cache=ragged", gone=names)
    two = ("--input", work + "/good", "--output", work + "/out")
    wrong("must be a cache of rows without members, as", more=two, gone=names)
    wrong("metadata 'rope_theta' must be as in", more=two, metadata={**metadata, "rope_theta": "7"})
    swapped = ("--input", work + "/rows", "--output", work + "/out")
    save(work + "/rows", {n: t for n, t in good.items() if n[9:] not in names}, metadata)
    wrong("must be a merged cache (members), as", more=swapped)


if check == "steps":
    print("steps as they should be: {} merges, {} members out, of {} rows".format(*run()))
elif check == "plain":
    merges, trimmed, evicted = run(unmerged)
    assert merges == trimmed == 0 < evicted
    print("plain eviction")
elif check == "handed":
    handed()
    print("handed over")
elif check == "reference":
    print(f"the reference agrees: {referred()} merges")
elif check == "batch":
    batch()
    print("alone or not, the same")
elif check == "refused":
    refused()
    print("refused, all of them")
elif check == "large":
    write(work + "/large", start(), [[vector()] for _ in range(heads * group)], 2**28, 0)
elif check == "generate":
    print("generated: {} merges, {} members out".format(*generate()))
else:
    sys.exit(f"no check {check}")
