"""Policies x shapes on a GPU: what kernels keep there is what the host's kernels keep. A part of gpu.py.

Shapes, lengths, budgets and kinds of keys are those of the matrix test (test/matrix/cases.def), which judges the host's
kernels by the reference in double; every other shape for each policy, so that all policies together see each. The
policies of policies/merged evict from what the policy that they follow has kept of the same prompts.

What may differ. On the stand-in nothing: bytes are the same, but where it runs the PTX and fp32 products are fused.
On a GPU fp32 sums are fused and added up in another order, in tensor cores as well, and 2^x is rounded another way:
scores differ by some 1e-6 of themselves. So

  scores   lie as near to the host's as Tolerance.cpp wants them to the reference's: 10 * slack of the score, or of
           1 % of the head's largest where the score is smaller; slack is 3e-5, and where weights are rounded to the
           model's type, of which a few then lie on the other side of a boundary, 1e-3 (f16) or 4e-3 (bf16)
  tokens   of each head are exactly the best by the scores of the same run, of equal scores the first, if the host's
           are; so a selection that errs is found whatever the scores are. (Not of policies that take the best of
           several rankings.) A token that one target alone keeps has a score within the slack of the head's threshold,
           and of a hundred kept tokens at most one is such
  rows     of a head are as many; where heads are given budgets by all heads' scores, one head of twenty (or two: a row
           changes heads) may have one more or less
  K and V  are the kept tokens' to the byte; rows that are means of the same members differ by a unit of the type or two
  members  of merged rows are the same but for one in a hundred: cosines, too, lie near each other or near tau

Inputs are made anew from fixed seeds, so a card gives the same result each time.
"""
import array
import ast
import json
import math
import os
import random
import re
import shutil
import statistics
import struct
import subprocess

from layers import load, save

HERE = os.path.dirname(os.path.abspath(__file__))
HIDDEN, ROPE_THETA, NEW = 40, "10000", 8
# Shares of a standard normal: a number for each 16 random bits.
NORMAL = [statistics.NormalDist().inv_cdf((i + 0.5) / 65536) for i in range(65536)]
UNIT = {"f32": 2.0 ** -14, "f16": 2.0 ** -10, "bf16": 2.0 ** -7}  # of means; fp32's weights are what differs


def cases():
    """[[kv heads, group, head size, type], [[[[T, B], ...], keys], ...]]: the table of the matrix test."""
    text = re.sub("//.*", "", open(HERE + "/../matrix/cases.def").read())
    text = re.sub(r"(?:KVC_|Keys::)(\w+)", r'"\1"', text).replace("{", "[").replace("}", "]")
    return ast.literal_eval("[" + text + "]")


def name_of(path):
    return os.path.basename(path)[:-5]


def before(path):
    """The policy that has run on the prompts; None: this is the first."""
    folder, name = os.path.split(path)
    return f"{folder}/../{name.replace('_decode', '')}" if os.path.basename(folder) == "merged" else None


def shapes_of(path):
    """Every other one, as in MatrixTest.cpp; what follows another policy has that one's."""
    path = before(path) or path
    turn = 1 if "kvc.projected_norm" in open(path).read() else len(name_of(path)) % 2
    return cases()[turn::2]


def compiled(path, work):
    """One library of all the policy's shapes; its manifest lies beside it."""
    library = f"{work}/{name_of(path)}.matrix.so"
    if shutil.which("kvc-opt") and not os.path.exists(library):
        cache = ",cache=merged" if before(path) else ""
        shapes = [word for (_, group, size, dtype), _ in shapes_of(path)
                  for word in ("--shape", f"head_dim={size},group={group},dtype={dtype.lower()}{cache}")]
        # These prompts are short: by half of the policies, candidates are listed all the same.
        lists = ["--lists-above=0"] if len(name_of(path)) // 2 % 2 else []
        for emit, out in (("manifest", library + ".json"), ("library", library)):
            subprocess.run(["kvc-opt", path, "--emit=" + emit, "--host-forms=threads", "--chip=sm_90",
                            "--chip=sm_90a", *lists, *shapes, "-o", out], check=True)
    return library


def packed(dtype, values):
    if dtype == "f16":
        return struct.pack(f"<{len(values)}e", *values)
    raw = array.array("f", values).tobytes()
    if dtype == "f32":
        return raw
    short = bytearray(len(raw) // 2)  # bf16, truncated
    short[0::2], short[1::2] = raw[2::4], raw[3::4]
    return bytes(short)


def prompt(shape, tokens, keys, queries, layers, seed):
    """Tensors of one sequence. As the matrix test's: queries so sharp that scores differ, keys before RoPE, and values,
    alike in groups; keys that repeat give exact ties."""
    heads, group, size, dtype = shape
    numbers = random.Random(seed)

    def normal(count):
        return [NORMAL[i] for i in array.array("H", numbers.randbytes(2 * count))]

    def grouped(noise, zeros):
        centres = normal(16 * size)
        rows = (token for _ in range(heads) for token in range(tokens))
        return [0.0 if token % 11 == 3 and zeros else c + noise * x for token in rows
                for c, x in zip(centres[token * 7 % 16 * size:][:size], normal(size))]
    tensors = {}
    for layer in range(layers):
        parts = {"q": (heads * group, queries, [3 * x for x in normal(heads * group * queries * size)]),
                 "k": (heads, tokens, [0.5] * (heads * tokens * size) if keys == "Equal" else normal(heads * tokens * size)),
                 "v": (heads, tokens, grouped(0.4, False) if keys == "Random" else normal(heads * tokens * size)),
                 "k_raw": (heads, tokens, [0.0] * (heads * tokens * size) if keys == "Equal" else grouped(0.6, True))}
        if keys == "Repeated":
            for name in "kv":
                values = parts[name][2]
                for at in range(0, len(values), tokens * size):
                    half = tokens // 2 * size
                    values[at + half:at + 2 * half] = values[at:at + half]
        for name, (rows, columns, values) in parts.items():
            tensors[f"layers.{layer}.{name}"] = (dtype.upper(), [rows, columns, size], packed(dtype, values))
        columns = heads * group * size
        tensors[f"layers.{layer}.wo"] = (dtype.upper(), [HIDDEN, columns], packed(dtype, normal(HIDDEN * columns)))
    return tensors


def merged_cache(given, kept, layers):
    """What a policy has kept of a prompt, with that prompt's last queries: an input of the policy that follows."""
    tensors = {}
    for layer in range(layers):
        prefix = f"layers.{layer}."
        for name, tensor in kept.items():
            part = name[len(prefix):]
            if name.startswith(prefix) and part not in ("counts", "indices", "scores"):
                tensors[name] = tensor
        tensors[prefix + "lengths"] = kept[prefix + "counts"]
        tensors[prefix + "q"] = given[prefix + "q"]
    return tensors


def numbers(tensor):
    kind, _, raw = tensor
    if kind == "BF16":
        raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
    form = {"I32": "i", "F16": "e"}.get(kind, "f")
    return struct.unpack(f"<{len(raw) // struct.calcsize(form)}{form}", raw)


def split(values, counts):
    parts, at = [], 0
    for count in counts:
        parts.append(values[at:at + count])
        at += count
    assert at == len(values), (at, len(values))
    return parts


def best(scores, count):
    """The tokens of the largest scores, of equal ones the first; NaN is below all."""
    def key(token):
        return (1, 0) if math.isnan(scores[token]) else (0, -scores[token])
    return sorted(sorted(range(len(scores)), key=key)[:count])


class Policy:
    def __init__(self, path, library):
        text = open(path).read()
        self.name = name_of(path)
        self.manifest = json.loads(open(library + ".json").read())
        self.shares_heads = "kvc.allocate_heads" in text
        self.by_layer = re.search(r"kvc\.(layers?|allocate_layers|allocate_table|kept_layers)\b", text) is not None
        self.carries = "kvc.kept_layers" in text
        self.rounded = re.search(r"kvc\.attention .*\brounded\b", text) is not None
        # Two neighbours in rank that fp32 cannot tell apart swap.
        self.swap = 2 if "kvc.segment rank" in text else 0

    def slack(self, dtype):
        return {"f32": 3e-5, "f16": 1e-3, "bf16": 4e-3}[dtype if self.rounded else "f32"]


class Head:
    """One head of a result: kept rows and their scores."""
    def __init__(self, kept, scores):
        self.kept, self.scores = kept, scores
        self.past = [t for t in kept if t < len(scores)]

    def is_best(self):
        return best(self.scores, len(self.past)) == self.past


class Judge:
    """Holds what the GPU keeps of a policy to what the host keeps."""
    def __init__(self, policy):
        self.policy, self.heads, self.uneven, self.tokens, self.others, self.members = policy, 0, 0, 0, 0, [0, 0]

    def head(self, host, cuda, slack, where):
        assert cuda.kept == sorted(set(cuda.kept)), (where, "kept tokens ascend", cuda.kept)
        assert len(host.scores) == len(cuda.scores), (where, "ranked tokens", len(host.scores), len(cuda.scores))
        more = len(cuda.kept) - len(host.kept)
        assert abs(more) <= self.policy.shares_heads, (where, "rows of a head", len(host.kept), len(cuda.kept))
        finite = [abs(x) for x in host.scores if math.isfinite(x)]
        floor = max(1e-2 * max(finite, default=0), 1e-30)
        ranks_off = 0
        for t, (a, b) in enumerate(zip(host.scores, cuda.scores)):
            if not math.isfinite(a):
                assert math.isnan(a) and math.isnan(b) or a == b, (where, "score of token", t, a, b)
                continue
            if self.policy.swap and abs(a - b) > 0.5:
                ranks_off += 1
            far = 10 * slack * max(abs(a), floor) + self.policy.swap
            assert abs(a - b) <= far, (where, "score of token", t, a, b)
        assert ranks_off <= 2 + len(host.scores) // 100, (where, "ranks that differ", ranks_off)
        assert cuda.is_best() or not host.is_best(), (where, "not the best by their own scores", cuda.past)
        lowest = min((host.scores[t] for t in host.past), default=0)
        different = set(host.kept) ^ set(cuda.kept)
        far = [t for t in different if t >= len(host.scores) or not math.isfinite(lowest) or
               abs(host.scores[t] - lowest) > slack * max(abs(lowest), floor) + self.policy.swap]
        # A row more or less is the next one by rank, however far.
        assert len(far) <= abs(more), (where, "tokens that one target alone keeps", sorted(different))
        self.heads += 1
        self.uneven += more != 0
        self.tokens += len(host.kept)
        self.others += len(different) - abs(more)

    def layer(self, host, cuda, given, prefix, slack, where):
        """True if both keep the same."""
        counts = [numbers(one[prefix + "counts"]) for one in (host, cuda)]
        kept = [split(list(numbers(one[prefix + "indices"])), count) for one, count in zip((host, cuda), counts)]
        ranked = [self.scores(one, given, prefix, len(counts[0])) for one in (host, cuda)]
        for h, heads in enumerate(zip(*kept)):
            self.head(*(Head(one, scores[h]) for one, scores in zip(heads, ranked)), slack, (*where, "head", h))
        if prefix + "members.counts" in host:
            self.merged(host, cuda, kept, prefix, where)
        else:
            for name in "kv":  # of the cache that was given
                _, (_, tokens, size), raw = given[prefix + name]
                width = len(raw) // (len(counts[1]) * tokens)
                rows = b"".join(raw[(h * tokens + t) * width:][:width] for h, head in enumerate(kept[1]) for t in head)
                assert rows == cuda[prefix + name][2], (where, "bytes of " + name)
        for name in (name for name in host if name.startswith(prefix + "state.")):
            pairs = [dict(zip(((h, t) for h, head in enumerate(lists) for t in head), numbers(one[name])))
                     for one, lists in zip((host, cuda), kept)]
            if prefix + "members.counts" not in host:  # else sums over members
                for place in pairs[0].keys() & pairs[1].keys():
                    a, b = pairs[0][place], pairs[1][place]
                    assert abs(a - b) <= 5e-5 * (1 + abs(a)), (where, name, place, a, b)
        return kept[0] == kept[1]

    def scores(self, result, given, prefix, heads):
        """Of each head; none where nothing is ranked."""
        if prefix + "scores" not in result:
            return [()] * heads
        values = numbers(result[prefix + "scores"])
        if prefix + "lengths" in given:  # of a cache of rows: flat
            return split(values, numbers(given[prefix + "lengths"]))
        return split(values, [len(values) // heads] * heads)

    def merged(self, host, cuda, kept, prefix, where):
        tables, rows = [], []
        for one, lists in zip((host, cuda), kept):
            counts = numbers(one[prefix + "members.counts"])
            position, row, norm = (split(numbers(one[prefix + "members." + name]), counts) for name in
                                   ("position", "row", "norm"))
            size = one[prefix + "k"][1][1]
            tables.append({(h, p): (lists[h][r], n) for h in range(len(counts)) for p, r, n in
                           zip(position[h], row[h], norm[h])})
            starts = [sum(map(len, lists[:h])) for h in range(len(lists))]
            rows.append({(h, t): [values[(starts[h] + i) * size:][:size] for values in vectors]
                         for vectors in [[numbers(one[prefix + name]) for name in "kv"]]
                         for h, head in enumerate(lists) for i, t in enumerate(head)})
        mine, theirs = ({(place, row) for place, (row, _) in table.items()} for table in tables)
        self.members[0] += len(mine ^ theirs)
        self.members[1] += len(mine)
        unit = 2 * UNIT[host[prefix + "k"][0].lower()]
        for place in tables[0].keys() & tables[1].keys():
            a, b = tables[0][place][1], tables[1][place][1]
            assert abs(a - b) <= unit * abs(a), (where, "norm of member", place, a, b)
        touched = {(place[0], row) for place, row in mine ^ theirs}
        for place in rows[0].keys() & rows[1].keys() - touched:
            for a, b in zip(rows[0][place], rows[1][place]):
                far = unit * max(map(abs, a))
                assert all(abs(x - y) <= far for x, y in zip(a, b)), (where, "mean of row", place, a, b)

    def end(self):
        """What may differ differs seldom."""
        name = self.policy.name
        assert self.uneven <= max(2, self.heads // 20), (name, "heads with other numbers of rows", self.uneven, self.heads)
        assert self.others <= 0.01 * self.tokens, (name, "tokens that one target alone keeps", self.others, self.tokens)
        assert self.members[0] <= 0.01 * self.members[1], (name, "members of other rows", self.members)


def inputs_of(policy, path, shape, batch, layers, folder, kvc, work):
    """Files of a batch's sequences with their budgets; apply has one budget for a call, so a call for each budget."""
    sequences, keys = batch
    if keys == "Equal" and policy.shares_heads:
        keys = "Random"  # else rounding alone decides which head's scores are larger
    first = before(path)
    manifest = policy.manifest if not first else json.loads(open(compiled(first, work) + ".json").read())
    files = []
    for s, (tokens, budget) in enumerate(sequences):
        queries = tokens if manifest["queries"] == "all" else min(tokens, max(64, manifest["queries"]) + 6)
        given = prompt(shape, tokens, keys, queries, layers, f"{shape} {tokens} {budget} {keys}")
        files.append(f"{folder}/{s}.in")
        save(files[-1], given, {"rope_theta": ROPE_THETA})
    if first:
        for s, (tokens, budget) in enumerate(sequences):
            kvc("host", "apply", "--policy", compiled(first, work), "--input", files[s], "--output", files[s] + ".kept",
                "--budget", str(budget), "--state")
            save(files[s], merged_cache(load(files[s]), load(files[s] + ".kept"), layers),
                 {"rope_theta": ROPE_THETA, "length": str(tokens), "new": str(min(NEW, tokens))})
        sequences = [(tokens, max(1, budget * 3 // 4)) for tokens, budget in sequences]
    return files, sequences


def check(paths, kvc, table_for, work, exact):
    """kvc(target, command...): runs kvc-run. exact: the GPU is a stand-in that leaves the host's bytes."""
    folder = work + "/matrix"
    os.makedirs(folder, exist_ok=True)
    runs = 0
    for path in paths:
        library = compiled(path, work)
        policy = Policy(path, library)
        layers, judge = 3 if policy.by_layer else 1, Judge(policy)
        for shape, batches in shapes_of(path):
            shape[3] = shape[3].lower()
            for batch in batches:
                files, sequences = inputs_of(policy, path, shape, batch, layers, folder, kvc, work)
                # All of the batch at each of its budgets: also more than a sequence has, and less than its window.
                for budget in sorted({b for _, b in sequences}):
                    for target in ("host", "cuda"):
                        command = ["apply", "--policy", library, "--budget", str(budget), "--scores",
                                   *(["--state"] if "states" in policy.manifest and not before(path) else []),
                                   *table_for(library, layers, shape[0] * shape[1])]
                        for file in files:
                            command += ["--input", file, "--output", f"{file}.{target}"]
                        kvc(target, *command)
                    for file, (tokens, _) in zip(files, sequences):
                        runs += 1
                        where = (policy.name, *shape, batch[1], "T", tokens, "B", budget)
                        if exact:
                            assert open(file + ".host", "rb").read() == open(file + ".cuda", "rb").read(), (where, "bytes")
                        given, host, cuda = (load(file + end) for end in ("", ".host", ".cuda"))
                        assert host.keys() == cuda.keys(), (where, host.keys() ^ cuda.keys())
                        for layer in range(layers):
                            same = judge.layer(host, cuda, given, f"layers.{layer}.", policy.slack(shape[3]),
                                               (*where, "layer", layer))
                            if policy.carries and not same:
                                break  # later layers are told what this one kept
        judge.end()
    print(len(paths), "policies keep the same", "bytes" if exact else "tokens", "of", runs, "sequences")
