"""over_time.py CHECK MODELS WORK POLICY...: policies that run over a cache: behind chunks, while
decoding, on a saved cache. Standard library only.

  room      with room for all rows nothing changes, whatever the chunks
  once      one chunk is what a prompt read at once is, to the byte
  chunks    behind each chunk the reference's rows are kept
  decoding  and every N tokens while decoding; bytes are counted
  squeeze   and on a cache that was saved
  asked     questions are read in pieces, each from the same cache
  eval      `kvc-run eval` does the same with its caches
  apply     `kvc-run apply` keeps of a run's cache what the run kept, of any policy

Policies are libraries with variants for prompts and for caches of rows; their file names say which
rule below is theirs.
"""
import json
import math
import os
import struct
import subprocess
import sys

from layers import load, save

check, models, work, *policies = sys.argv[1:]
os.makedirs(work, exist_ok=True)
needle = models + "/needle"
layers, heads, group, dim = 4, 4, 2, 32
row_bytes = 2 * dim * 4
text = next(p["context"] + p["question"] for p in map(json.loads, open(models + "/tasks/256.jsonl"))
            if p["task"] == "single")


def generate(name, *options, tokens=1):
    out = f"{work}/{name}.json"
    result = subprocess.run(["kvc-run", "generate", "--model", needle, "--target", "host", "--json", out, "--ignore-eos",
                             "--max-new-tokens", str(tokens), *map(str, options)], capture_output=True, text=True)
    assert result.returncode == 0, (options, result.stderr)
    return json.load(open(out))


def name_of(library):
    return os.path.basename(library).split(".")[-2]


def prompt(tokens):
    """The last tokens of a prompt, for --tokens."""
    path = work + "/ids"
    if not os.path.exists(path):
        ids = generate("ids", "--prompt", text)["prompt_tokens"]
        open(path, "w").write(",".join(map(str, ids)))
    return ["--tokens", ",".join(open(path).read().split(",")[-tokens:])]


def numbers(tensor):
    kind, shape, raw = tensor
    return list(struct.unpack(f"<{len(raw) // 4}{'i' if kind == 'I32' else 'f'}", raw))


def per_head(values, counts, width=1):
    at, parts = 0, []
    for count in counts:
        part = values[at * width:(at + count) * width]
        parts.append(part if width == 1 else [part[i:i + width] for i in range(0, len(part), width)])
        at += count
    return parts


# ---- what a policy keeps of one head, worked out from its definition: docs/caches.md

def best(scores, count):
    """The `count` best of [(position, score)], ties to the smaller position."""
    return {p for p, _ in sorted(scores, key=lambda x: (-x[1], x[0]))[:count]}


def knorm(rows, length, budget):
    scores = [(p, -math.sqrt(sum(x * x for x in k))) for p, k in zip(rows["positions"], rows["k"])]
    return best(scores, budget), scores


def streaming_llm(rows, length, budget):
    sinks = min(4, budget)
    return {p for p in rows["positions"] if p < sinks or p >= length - (budget - sinks)}, []


def drawn(rows, count, length):
    """What the last `count` queries give each row of a head, on average over the group."""
    positions, sums = rows["positions"], [0.0] * len(rows["positions"])
    for queries in rows["q"]:
        for j, q in enumerate(queries[len(queries) - count:]):
            seen = [i for i, p in enumerate(positions) if p <= length - count + j]
            if not seen:
                continue
            logits = [sum(map(float.__mul__, q, rows["k"][i])) / math.sqrt(dim) for i in seen]
            most = max(logits)
            weights = [math.exp(x - most) for x in logits]
            total = sum(weights)
            for i, weight in zip(seen, weights):
                sums[i] += weight / total / group
    return sums


def snapkv(rows, length, budget, window=32, radius=3):
    positions = rows["positions"]
    sums = drawn(rows, min(window, len(rows["q"][0])), length)
    past = [i for i, p in enumerate(positions) if p < length - window]
    own = [p for p in positions if p >= length - window]
    scores = [(positions[i], max(sums[j] for j in past[max(0, at - radius):at + radius + 1]) / window) for at, i in enumerate(past)]
    recent = own[len(own) - min(budget, len(own)):]
    return best(scores, budget - len(recent)) | set(recent), scores


def h2o(rows, length, budget):
    """The mass of rows after the run is left in rows["mass"]."""
    positions = rows["positions"]
    rows["mass"] = [before + more for before, more in zip(rows["mass"], drawn(rows, rows["new"], length))]
    recent = [p for p in positions if p >= length - budget // 2]
    scores = [(p, m) for p, m in zip(positions, rows["mass"]) if p < length - budget // 2]
    recent = recent[len(recent) - min(budget, len(recent)):]
    return best(scores, budget - len(recent)) | set(recent), scores


rules = {"knorm": knorm, "streaming_llm": streaming_llm, "snapkv": snapkv, "h2o": h2o}
# What rows carry is computed in every run, also where all of them are kept.
runs_always = {"h2o"}


def metadata(path):
    raw = open(path, "rb").read()
    return json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]]).get("__metadata__", {})


def check_run(policy, path, length, budget, only=range(layers), before=None):
    """A run of --dump-runs kept what the rule says; returns positions before and after, by layer and head.
    `before`: what rows carried behind the last run, by layer and head, and what they carry behind this one."""
    tensors, result = load(path), []
    new = int(metadata(path).get("new", 0))
    for layer in range(layers):
        get = lambda name: numbers(tensors[f"layers.{layer}.{name}"])
        counts = get("lengths")
        positions = per_head(get("positions"), counts)
        kept = per_head(get("kept.positions"), get("kept.counts"))
        mass, carried = [[0.0] * n for n in counts], [{} for _ in counts]
        if policy in runs_always:
            if f"layers.{layer}.state.mass" in tensors:
                mass = per_head(get("state.mass"), counts)
            carried = [dict(zip(*head)) for head in zip(kept, per_head(get("kept.state.mass"), get("kept.counts")))]
            # Rows carry on what the run before has left with them, new ones nothing.
            if before:
                for head in range(heads):
                    assert mass[head] == [before[layer][head].get(p, 0.0) for p in positions[head]], (path, layer, head)
                before[layer] = carried
        result.append((positions, kept))
        if layer not in only:
            continue
        keys = per_head(get("k"), counts, dim)
        queries = per_head(get("q"), [tensors[f"layers.{layer}.q"][1][1]] * heads * group, dim) \
            if f"layers.{layer}.q" in tensors else []
        for head in range(heads):
            rows = {"positions": positions[head], "k": keys[head], "q": queries[head * group:head * group + group],
                    "mass": mass[head], "new": new}
            want, scores = rules[policy](rows, length, budget)
            if policy in runs_always:
                for p, m in zip(rows["positions"], rows["mass"]):
                    # Logits of a hundred are rounded by some 1e-5, which is a share of the weight then.
                    assert abs(carried[head].get(p, m) - m) <= 1e-4 * (1 + m), (path, layer, head, p, carried[head].get(p), m)
            if counts[head] <= budget:
                want = set(positions[head])
            if differ := want ^ set(kept[head]):
                # fp32 may order what is nearly equal another way.
                near = [score for p, score in scores if p in differ]
                apart = 1e-4 if policy in runs_always else 1e-5
                assert len(near) == len(differ) and len(want) == len(kept[head]) and \
                    max(near) - min(near) <= apart * max(map(abs, near)), (policy, path, layer, head, sorted(differ), near)
    return result


def check_chain(policy, folder, runs, only=range(layers)):
    """Runs [(length, budget, check)] of a folder, each on what the one before has kept and all tokens since."""
    before, after = [[[] for _ in range(heads)] for _ in range(layers)], 0
    carried = [[{} for _ in range(heads)] for _ in range(layers)]
    for i, (length, budget, wanted) in enumerate(runs):
        result = check_run(policy, f"{folder}/{i}.safetensors", length, budget, only if wanted else (), carried)
        for layer, (positions, kept) in enumerate(result):
            for head in range(heads):
                assert positions[head] == before[layer][head] + list(range(after, length)), (i, layer, head)
                before[layer][head] = kept[head]
        after = length
    assert not os.path.exists(f"{folder}/{len(runs)}.safetensors")
    return before


def fresh(name):
    folder = f"{work}/{name}"
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        os.remove(f"{folder}/{old}")
    return folder


def same_caches(a, b, names=("counts", "k", "v")):
    """Saved caches, to the byte."""
    a, b = load(a), load(b)
    for name in a:
        if name == "logits" or name.split(".")[-1] in names:
            assert a[name] == b[name], name


def check_first_layer(run, whole, length):
    """What the first layer makes of a token depends on nothing else: rows and queries of a run are those of a
    prompt that was read at once, at the run's positions."""
    tensors, prompt, total = load(run), load(whole), load(whole)["layers.0.q"][1][1]
    counts = numbers(tensors["layers.0.lengths"])
    positions = per_head(numbers(tensors["layers.0.positions"]), counts)
    for name in ("k", "v"):
        rows = per_head(numbers(tensors[f"layers.0.{name}"]), counts, dim)
        wanted = per_head(numbers(prompt[f"layers.0.{name}"]), [total] * heads, dim)
        for head in range(heads):
            assert close(rows[head], [wanted[head][p] for p in positions[head]]), (run, name, head)
    if "layers.0.q" in tensors:
        count = tensors["layers.0.q"][1][1]
        rows = per_head(numbers(tensors["layers.0.q"]), [count] * heads * group, dim)
        wanted = per_head(numbers(prompt["layers.0.q"]), [total] * heads * group, dim)
        for head in range(heads * group):
            assert close(rows[head], wanted[head][length - count:length]), (run, "q", head)


def close(rows, wanted):
    return len(rows) == len(wanted) and all(abs(x - y) <= 1e-4 + 1e-4 * abs(y)
                                            for a, b in zip(rows, wanted) for x, y in zip(a, b))


def check_room():
    tokens, ids = 150, prompt(150)
    whole = generate("whole", *ids, tokens=8)
    for library in policies:
        for size in (1, 7, 64, tokens):
            plain = generate("plain", *ids, "--chunk", size, "--save-cache", work + "/plain", tokens=8)
            for share in (["--keep", 1], ["--budget", tokens + 8]):
                roomy = generate("roomy", *ids, "--policy", library, *share, "--chunk", size, "--rerank", "--every", 3,
                                 "--save-cache", work + "/roomy", tokens=8)
                assert roomy["answers"] == plain["answers"] and roomy["top"] == plain["top"], (library, size)
                same_caches(work + "/roomy", work + "/plain", ("counts", "k", "v", "positions"))
            # Products of other sizes are added up in another order.
            assert plain["tokens"] == whole["tokens"]
            assert all(abs(a[1] - b[1]) < 1e-3 for a, b in zip(plain["top"], whole["top"])), (plain["top"], whole["top"])


def check_once():
    ids = prompt(150)
    for library in policies:
        # Budgets within a window, too.
        for budget in (3, 20, 60):
            options = [*ids, "--policy", library, "--budget", budget]
            dense = generate("dense", *options, "--save-cache", work + "/dense", tokens=6)
            for size in (150, 1000):
                chunk = generate("chunk", *options, "--chunk", size, "--rerank", "--save-cache", work + "/chunk", tokens=6)
                assert chunk["answers"] == dense["answers"] and chunk["top"] == dense["top"], library
                same_caches(work + "/chunk", work + "/dense", ("counts", "k", "v", "positions"))


def check_chunks():
    for library in policies:
        policy = name_of(library)
        for tokens, size, budget in ((70, 1, 64), (130, 7, 48), (150, 64, 20), (150, 150, 60), (130, 16, "0.3")):
            folder = fresh("runs")
            share = ["--keep", budget] if isinstance(budget, str) else ["--budget", budget]
            result = generate("chunks", *prompt(tokens), "--policy", library, *share, "--chunk", size, "--rerank",
                              "--dump-runs", folder)
            ends = [min(tokens, first + size) for first in range(0, tokens, size)]
            of = lambda end: max(1, 3 * end // 10) if budget == "0.3" else budget
            always = policy in runs_always
            kept = check_chain(policy, folder, [(end, of(end), True) for end in ends if end > of(end) or always])
            generate("whole", *prompt(tokens), "--dump-layers", work + "/layers")
            runs = [end for end in ends if end > of(end) or always]
            for run in range(0, len(runs), 4):
                check_first_layer(f"{folder}/{run}.safetensors", work + "/layers", runs[run])
            assert result["kept"] == [[len(head) for head in layer] for layer in kept], (policy, size)
            # Never the whole cache: what is kept, and in one layer a chunk more.
            if size < tokens and budget != "0.3":
                assert result["cache_bytes_peak"] <= ((layers - 1) * min(tokens, budget + size) + budget + size) * heads * row_bytes
                last = min(budget, tokens) * layers * heads * row_bytes
                assert policy == "streaming_llm" or result["cache_bytes_kept"] == last, result["cache_bytes_kept"]


def check_decoding():
    tokens, budget = 120, 40
    for library in policies:
        policy = name_of(library)
        for every in (1, 8, 32):
            folder = fresh("runs")
            result = generate("decoding", *prompt(tokens), "--policy", library, "--budget", budget, "--chunk", every,
                              "--rerank", "--every", every, "--dump-runs", folder, tokens=201)
            assert len(result["tokens"]) == 201  # the last is not read
            ends = [min(tokens, first + every) for first in range(0, tokens, every)]
            ends += [tokens + n for n in range(every, 201, every)]
            runs = [(end, budget, end > tokens and (end - tokens) % 96 == 0) for end in ends
                    if end > budget or policy in runs_always]
            check_chain(policy, folder, runs, only=(0, 3))
            # Full of rows, a layer has B + N of them for each head, and the others one less.
            most = layers * (budget + every) - (layers - 1)
            assert most * 0.9 <= result["cache_bytes_peak"] / (heads * row_bytes) <= most, (every, result["cache_bytes_peak"])
            in_the_end = result["answers"][0]["kept"]
            assert all(sum(layer) <= heads * (budget + 200 % every) for layer in in_the_end), in_the_end
        # A prompt that was not compressed: the first run is N tokens behind its end all the same.
        folder = fresh("runs")
        generate("late", *prompt(30), "--policy", library, "--budget", budget, "--every", 7, "--dump-runs", folder, tokens=30)
        late = [(44, budget, True), (51, budget, True), (58, budget, True)]
        if policy not in runs_always:  # the chain of what rows carry begins with the prompt
            check_chain(policy, folder, late)
        else:
            check_late(folder, budget)
        # A share is one of the true length.
        folder = fresh("runs")
        generate("share", *prompt(60), "--policy", library, "--keep", "0.5", "--chunk", 60, "--rerank", "--every", 10,
                 "--dump-runs", folder, tokens=21)
        check_chain(policy, folder, [(60, 30, True), (70, 35, True), (80, 40, True)])


def check_late(folder, budget):
    """H2O behind a prompt of 30 tokens that was not evicted from: all of them carry what they have drawn."""
    generate("whole", *prompt(30), "--dump-layers", work + "/layers")
    tensors = load(work + "/layers")
    carried = []
    for layer in range(layers):
        get = lambda name: per_head(numbers(tensors[f"layers.{layer}.{name}"]), [30] * (heads * group if name == "q" else heads), dim)
        keys, queries = get("k"), get("q")
        carried.append([])
        for head in range(heads):
            rows = {"positions": list(range(30)), "k": keys[head], "q": queries[head * group:head * group + group],
                    "mass": [0.0] * 30, "new": 30}
            h2o(rows, 30, 1)
            carried[-1].append(rows["mass"])
    first = load(f"{folder}/0.safetensors")
    for layer in range(layers):
        counts = numbers(first[f"layers.{layer}.lengths"])
        assert counts == [37] * heads
        for head, mass in enumerate(per_head(numbers(first[f"layers.{layer}.state.mass"]), counts)):
            assert mass[30:] == [0.0] * 7
            for x, y in zip(mass, carried[layer][head]):
                assert abs(x - y) <= 1e-4 * (1 + y), (layer, head, x, y)
    for run, length in enumerate((37, 44, 51, 58)):
        assert metadata(f"{folder}/{run}.safetensors")["new"] == "7"
        check_run("h2o", f"{folder}/{run}.safetensors", length, budget)


def check_squeeze():
    ids = prompt(150)
    for library in policies:
        policy = name_of(library)
        generate("first", *ids, "--policy", library, "--budget", 90, "--save-cache", work + "/first")
        folder = fresh("runs")
        second = generate("second", "--load-cache", work + "/first", "--policy", library, "--budget", 50, "--dump-runs", folder,
                          "--save-cache", work + "/second", tokens=4)
        ((before, after),) = {(len(p[0]), len(k[0])) for p, k in check_run(policy, folder + "/0.safetensors", 150, 50)}
        assert (before, after) == (90, 50), (policy, before, after)
        assert second["policy"] == policy and second["budget"] == 50
        assert second["cache_bytes_kept"] == 50 * layers * heads * row_bytes
        assert second["cache_bytes_peak"] == 90 * layers * heads * row_bytes
        # What does not depend on other rows is the same in one step.
        if policy in ("knorm", "streaming_llm"):
            generate("direct", *ids, "--policy", library, "--budget", 50, "--save-cache", work + "/direct")
            same_caches(work + "/second", work + "/direct", ("counts", "k", "v", "positions"))
        third = generate("third", "--load-cache", work + "/second", "--policy", library, "--budget", 50, "--every", 4, tokens=13)
        assert third["kept"] == second["kept"]
        assert third["answers"][0]["kept"] == second["kept"]
        again = generate("again", "--load-cache", work + "/second", tokens=4)
        assert again["tokens"] == second["tokens"]
    # A file from before caches knew positions can be read, and asked, but not made smaller.
    tensors = {name: tensor for name, tensor in load(work + "/first").items() if not name.endswith("positions")}
    save(work + "/old", tensors, {"kvc_cache": "1", "architecture": "LlamaForCausalLM", "layers": "4", "position": "150"})
    assert generate("old", "--load-cache", work + "/old")["tokens"] == generate("new", "--load-cache", work + "/first")["tokens"]
    refused = subprocess.run(["kvc-run", "generate", "--model", needle, "--target", "host", "--load-cache", work + "/old",
                              "--policy", policies[0], "--budget", "50"], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr) == (1, "error: a cache must know its rows' positions to be evicted again\n"), refused


def check_asked():
    questions = ["\nWhat is the special magic number for carrot? The special magic number for carrot is ", "\nAnd for needle? "]
    for library in policies:
        share = ["--prompt", text, "--policy", library, "--keep", "0.3", "--chunk", 32, "--rerank", "--every", 8]
        ask = lambda *texts: [part for question in texts for part in ("--question", question)]
        both = generate("both", *share, *ask(*questions), tokens=20)
        for i, question in enumerate(questions):
            alone = generate("alone", *share, *ask(question), tokens=20)
            assert alone["answers"][0] == both["answers"][i], (library, i)
        between = generate("between", "--prompt", text, "--policy", library, "--budget", 60, "--chunk", 64, "--evict-between",
                           "--every", 8, tokens=17)
        assert all(sum(layer) <= heads * 60 for layer in between["answers"][0]["kept"]), between["answers"][0]["kept"]


def check_apply():
    table = work + "/table"
    importance = [1 + (7 * i) % 13 for i in range(layers * heads * group)]
    save(table, {"importance": ("F32", [layers, heads * group], struct.pack(f"<{len(importance)}f", *importance))})
    for library in policies:
        folder = fresh("runs")
        extra = ["--table", table] if b'"table"' in open(library, "rb").read() else []
        generate("applied", *prompt(120), "--policy", library, *extra, "--budget", 48, "--chunk", 40, "--rerank", "--every", 6,
                 "--dump-runs", folder, tokens=13)
        runs = len(os.listdir(folder))
        # Behind 80, 120, 126 and 132 tokens; 40 fit the budget.
        assert runs == 4 + (b'"states"' in open(library, "rb").read()), (library, runs)
        for run in range(runs):
            out = work + "/applied"
            subprocess.run(["kvc-run", "apply", "--policy", library, *extra, "--budget", "48", "--input",
                            f"{folder}/{run}.safetensors", "--output", out, "--target", "host"], check=True, capture_output=True)
            want, got = load(f"{folder}/{run}.safetensors"), load(out)
            for layer in range(layers):
                carried = [name.split(".kept.")[1] for name in want if name.startswith(f"layers.{layer}.kept.state.")]
                for name in ["counts", "positions", *carried]:
                    assert want[f"layers.{layer}.kept.{name}"][2] == got[f"layers.{layer}.{name}"][2], (library, run, layer)


def check_eval():
    def evaluate(name, *options):
        out = f"{work}/{name}.json"
        subprocess.run(["kvc-run", "eval", "--model", needle, "--policy", ",".join(policies), "--tasks",
                        f"{models}/tasks/256.jsonl,text:{needle}/README.md", "--length", "200", "--limit", "1", "--target", "host",
                        "--results", out, *map(str, options)], check=True, capture_output=True)
        return [(s["task"], [(c["policy"], c["budget"], c["cache_bytes"], c["cache_bytes_peak"], c["score"], c.get("prediction"))
                             for c in s["cells"]]) for s in json.load(open(out))["samples"]]

    def same(a, b, peaks=True):
        assert len(a) == len(b) == 6
        for (task, ours), (other, theirs) in zip(a, b):
            for x, y in zip(ours, theirs):
                assert task == other and x[:3] == y[:3] and x[5] == y[5] and abs(x[4] - y[4]) < 1e-4 * abs(y[4]) + 1e-9, (x, y)

    # With a fifth, two norms of a prompt are so near each other that their rounding says which token stays.
    once = evaluate("once", "--budgets", "25%,100%", "--details", 0)
    # One chunk, a cache that is whole until it is compressed, room for all.
    same(evaluate("one", "--budgets", "25%,100%", "--chunk", 1000, "--rerank"), once)
    same(evaluate("plain", "--budgets", "25%,100%", "--chunk", 50), once)
    roomy = evaluate("roomy", "--budgets", "25%,100%", "--chunk", 50, "--rerank", "--every", 9)
    keep = lambda samples: [(task, [c for c in cells if c[1] == "100%"]) for task, cells in samples]
    same(keep(roomy), keep(once))
    between = evaluate("between", "--budgets", "25%,100%", "--chunk", 50, "--evict-between")
    for samples in (roomy, between):
        for task, cells in samples:
            if not task.startswith("text"):
                full = cells[0][2]
                assert all(c[3] < 0.6 * full for c in cells if c[1] == "25%"), cells


{"eval": check_eval, "apply": check_apply, "room": check_room, "once": check_once, "chunks": check_chunks, "decoding": check_decoding, "squeeze": check_squeeze,
 "asked": check_asked}[check]()
print(check, "as it should be, for", len(policies), "policies")
