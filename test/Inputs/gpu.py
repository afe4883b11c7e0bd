"""gpu.py CHECK MODELS FAKE WORK [POLICY...]: kvc-run with --target cuda beside --target host. Answers
and kept rows are the same, within what bf16 moves.

FAKE is a folder with libraries that stand in for the CUDA driver and cuBLASLt, or "" where there is a
GPU. Policies are compiled into WORK; where there is no kvc-opt they must lie there already, as
`gpu.py compile` leaves them. tools/gpu-check packs all that for a machine with a GPU.
"""
import glob
import json
import os
import random
import shutil
import struct
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)) + "/../golden")
import golden
import gpu_matrix
from layers import load, make, save

check, models, fake, work, *policies = sys.argv[1:]
os.makedirs(work, exist_ok=True)
needle = models + "/needle"
layers, heads, group = 4, 4, 2
prompts = [json.loads(line) for line in open(models + "/tasks/256.jsonl")]
prompt = next(p["context"] + p["question"] for p in prompts if p["task"] == "single")
log = work + "/log"


def kvc(target, *command):
    environment = dict(os.environ, KVC_FAKE_CUDA_LOG=log)
    if target == "cuda" and fake:
        environment["LD_LIBRARY_PATH"] = fake + ":" + environment.get("LD_LIBRARY_PATH", "")
    result = subprocess.run(["kvc-run", *command, "--target", target], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, (command, result.stderr)
    return result.stdout


def generate(target, *options, tokens=5):
    out = f"{work}/{target}.json"
    kvc(target, "generate", "--model", needle, "--max-new-tokens", str(tokens), "--ignore-eos", "--json", out, *options)
    result = json.load(open(out))
    assert result["target"] == target
    return result


def counts():
    return {name: int(value) for name, value in map(str.split, open(log))}


def close(one, other, what):
    """The same answer; heads share their rows a little differently where scores are rounded."""
    assert [a["tokens"] for a in one["answers"]] == [a["tokens"] for a in other["answers"]], what
    best = one["top"][0][1]
    assert abs(best - other["top"][0][1]) < 0.02 * best + 0.1, (what, one["top"], other["top"])
    tokens = len(one["prompt_tokens"]) or 300
    for a, b in zip(one["kept"], other["kept"]):
        assert all(abs(x - y) <= 1 + 0.02 * tokens for x, y in zip(a, b)), (what, a, b)


def kept_alike(host_cache, cuda_cache, what):
    """Nearly all rows of one cache are in the other. A row is known by its first numbers."""
    alike = total = 0
    for layer in (0, layers - 1):
        rows = []
        for cache in (host_cache, cuda_cache):
            kind, shape, raw = cache[f"layers.{layer}.k"]
            assert kind == "BF16", kind
            bits = struct.unpack(f"<{len(raw) // 2}H", raw)
            every = [struct.unpack(f"<{shape[1]}f", struct.pack(f"<{shape[1]}I", *(b << 16 for b in bits[i:i + shape[1]])))
                     for i in range(0, len(bits), shape[1])]
            heads_of, at = [], 0
            for count in struct.unpack(f"<{heads}i", cache[f"layers.{layer}.counts"][2]):
                heads_of.append([row[:8] for row in every[at:at + count]])
                at += count
            rows.append(heads_of)
        near = 0.04 * max(abs(x) for head in rows[0] for row in head for x in row)
        for mine, theirs in zip(*rows):
            total += len(mine)
            alike += sum(any(all(abs(x - y) <= near for x, y in zip(a, b)) for b in theirs) for a in mine)
    assert alike >= 0.95 * total, (what, alike, total)


def compiled(path, dtype="bf16", rows=False, options=()):
    """The library of a policy, also for caches of rows; its manifest lies beside it."""
    library = f"{work}/{os.path.basename(path)[:-5]}.{dtype}{'.rows' if rows else ''}{''.join(options)}.so"
    if shutil.which("kvc-opt"):
        shape = f"head_dim=32,group=2,dtype={dtype}"
        caches = [",cache=merged"] if is_merged(path) else ["", ",cache=ragged"] if rows else [""]
        shapes = [word for cache in caches for word in ("--shape", shape + cache)]
        for emit, out in (("library", library), ("manifest", library + ".json")):
            subprocess.run(["kvc-opt", path, "--emit=" + emit, "--host-forms=threads", "--chip=sm_80", *shapes, *options, "-o", out], check=True)
    return library


def is_merged(path):
    """Whether a policy runs over rows that another one has merged."""
    return os.path.basename(os.path.dirname(path)) == "merged"


def golden_library(path):
    library = f"{work}/{os.path.basename(path)[:-5]}.golden.so"
    if shutil.which("kvc-opt"):
        golden.compile_library(path, library, "--chip=sm_90")
    return library


def numbers(tensor):
    return struct.unpack(f"<{len(tensor[2]) // 4}i", tensor[2])


def by_head(tensors, prefix, name):
    """Pairs of a head and one of its numbers."""
    counts = numbers(tensors[prefix + "counts"])
    return set(zip(sum(([h] * n for h, n in enumerate(counts)), []), numbers(tensors[prefix + name])))


def runs_on_rows(path):
    return os.path.basename(path)[:-5] not in open(os.path.dirname(os.path.abspath(__file__)) + "/no-rows.txt").read().split()


def files():
    """The policies, of folders all."""
    return [path for policy in policies
            for path in (sorted(glob.glob(policy + "/*.mlir")) if os.path.isdir(policy) else [policy])]


def table_for(library, in_layers, in_heads):
    """The importance of heads, for a policy that reads it."""
    if '"table"' not in open(library + ".json").read():
        return []
    importance = [random.Random(5 + i).random() for i in range(in_layers * in_heads)]
    save(work + "/table.safetensors", {"importance": ("F32", [in_layers, in_heads],
                                                      struct.pack(f"<{len(importance)}f", *importance))})
    return ["--table", work + "/table.safetensors"]


def compile_all():
    for path in files():
        for dtype in ("bf16", "f32"):
            compiled(path, dtype)
        if runs_on_rows(path):
            compiled(path, rows=True)
        gpu_matrix.compiled(path, work)
        if not is_merged(path):
            golden_library(path)
    print(len(files()), "policies compiled")


def same_lists(kept, path):
    """Kept tokens are the same but for one in a hundred, where scores nearly tie."""
    for host, cuda in zip(kept["host"], kept["cuda"]):
        for name in (name for name in host if name.endswith("indices")):
            lists = [set(enumerate(struct.unpack(f"<{len(raw) // 4}i", raw))) for _, _, raw in (host[name], cuda[name])]
            assert len(lists[0] & lists[1]) >= 0.99 * len(lists[0]), (path, name, lists[0] ^ lists[1])


def check_apply():
    """Layers from a file: the same kernels leave the same bytes."""
    inputs = [f"{work}/{tokens}.safetensors" for tokens in (64, 36)]
    for path, tokens in zip(inputs, ("64", "36")):
        make(path, {"T": tokens, "seed": tokens, "layers": "2", "raw": "1", "hidden": "24", "queries": "64",
                    "rope_theta": "10000"})
    for path in files():
        library, kept = compiled(path, "f32"), {}
        for target in ("host", "cuda"):
            outputs = [f"{work}/{target}.{i}" for i in range(2)]
            command = ["apply", "--policy", library, "--budget", "40", *table_for(library, 2, 4)]
            for one, other in zip(inputs, outputs):
                command += ["--input", one, "--output", other]
            kvc(target, *command)
            kept[target] = [open(output, "rb").read() if fake else load(output) for output in outputs]
        if fake:
            assert kept["host"] == kept["cuda"], path
        else:  # a GPU's exponential is rounded another way
            same_lists(kept, path)
    print(len(files()), "policies keep the same", "bytes" if fake else "tokens")


def check_policies():
    """Every policy beside the model."""
    for path in files():
        library = compiled(path)
        # Tensors of a layer that go into a saved cache.
        saved = (7 + ("states" in json.load(open(library + ".json")))) * layers
        options = ["--policy", library, "--keep", "0.3", "--prompt", prompt, *table_for(library, layers, heads * group)]
        runs = [generate(t, *options, "--save-cache", f"{work}/cache.{t}") for t in ("host", "cuda")]
        close(*runs, path)
        did = counts() if fake else None
        kept_alike(*(load(f"{work}/cache.{t}") for t in ("host", "cuda")), path)
        # One wait a run: nobody asks the GPU anything while a run is under way but for how
        # much of a layer was kept, and then the GPU has the next layer to work on.
        if not fake:
            continue
        assert did["synchronisations"] <= 5 + 3 + saved and did["waits"] < layers, (path, did)
        assert did["idle_waits"] == 0 and did["leaked"] == 0, (path, did)
    print(len(files()), "policies agree")


def check_plain():
    """Without a policy, whole and in chunks."""
    text = ["--prompt", prompt]
    close(generate("host", *text), generate("cuda", *text), "without a policy")
    close(generate("host", *text), generate("cuda", *text, "--chunk", "100"), "without a policy, in chunks")
    print("plain sessions agree")


def check_sessions():
    """Chunks, several questions, saved caches."""
    text = ["--prompt", prompt]
    questions = ["--question", "\nWhat is the special magic number for carrot? The special magic number for carrot is ",
                 "--question", "\nAnd for needle? "]
    for library in map(compiled, files()):
        share = ["--policy", library, "--keep", "0.2"]
        cache = work + "/cache"
        whole = generate("cuda", *text, *share, *questions, "--save-cache", cache)
        close(generate("host", *text, *share, *questions), whole, library)
        loaded = generate("cuda", "--load-cache", cache, *questions)
        assert loaded["answers"] == whole["answers"] and loaded["kept"] == whole["kept"]
        close(loaded, generate("host", "--load-cache", cache, *questions), "a cache that another target loads")
        for size in ("100", "33"):
            close(whole, generate("cuda", *text, *share, *questions, "--chunk", size), f"{library} in chunks of {size}")
        between = [*text, *share, "--chunk", "100", "--evict-between"]
        close(*(generate(t, *between, "--save-cache", f"{work}/cache.{t}") for t in ("host", "cuda")),
              f"{library}, evicted between chunks")
        kept_alike(*(load(f"{work}/cache.{t}") for t in ("host", "cuda")), f"{library}, evicted between chunks")
        # Shorter than the window of a policy.
        short = ["--tokens", "1,2,3,4,5", "--policy", library, "--budget", "3"]
        close(generate("host", *short), generate("cuda", *short), f"{library} on five tokens")
    print("sessions agree")


def check_over_time():
    """Policies that run over a cache: behind chunks, while decoding, on a cache that was loaded."""
    text = ["--prompt", prompt]
    for path in filter(runs_on_rows, files()):
        library = compiled(path, rows=True)
        manifest = json.load(open(library + ".json"))
        if manifest["queries"] == "all" and "states" not in manifest:
            continue  # goes once, then it is refused
        policy = ["--policy", library, *table_for(library, layers, heads * group)]
        caches = [f"{work}/cache.{t}" for t in ("host", "cuda")]
        for size, budget, every in (("100", "0.3", "4"), ("13", "0.5", "1"), ("1000", "0.2", "3")):
            options = [*text, *policy, "--keep", budget, "--chunk", size, "--rerank", "--every", every]
            runs = [generate(t, *options, "--save-cache", f"{work}/cache.{t}") for t in ("host", "cuda")]
            close(*runs, (path, size))
            if fake:
                did = counts()
                assert did["idle_waits"] == 0 and did["leaked"] == 0, (path, did)
            kept_alike(*map(load, caches), (path, size))
        # What is prepared of a layer's weights is made once, and read by each run.
        if fake and "kvc.projected_norm" in open(path).read():
            pruned = compiled(path, rows=True, options=["--prune-norms"])
            assert '"phase": "prepare"' in open(pruned + ".json").read()
            for target, cache in zip(("host", "cuda"), caches):
                generate(target, *(pruned if word == library else word for word in options), "--save-cache", cache + ".pruned")
                assert load(cache + ".pruned") == load(cache), (path, target)
        # Behind one chunk is what a prompt read at once keeps, to the byte.
        generate("cuda", *text, *policy, "--keep", "0.2", "--save-cache", work + "/once")
        once, chunk = load(work + "/once"), load(caches[1])
        for name in (name for name in once if not name.endswith(".q")):
            assert once[name] == chunk[name], (path, name)
        # Saved by one, made smaller by both.
        smaller = [generate(t, "--load-cache", caches[1], *policy, "--keep", "0.1", "--save-cache", f"{work}/cache.{t}.less")
                   for t in ("host", "cuda")]
        close(*smaller, (path, "made smaller"))
        kept_alike(*(load(cache + ".less") for cache in caches), (path, "made smaller"))
        # What a run kept, the host keeps of the cache that the run was given.
        runs = work + "/runs"
        shutil.rmtree(runs, ignore_errors=True)
        os.mkdir(runs)
        generate("cuda", *text, *policy, "--budget", "60", "--chunk", "128", "--rerank", "--every", "3", "--dump-runs", runs)
        assert len(os.listdir(runs)) >= 3
        for run in os.listdir(runs):
            kvc("host", "apply", *policy, "--input", f"{runs}/{run}", "--budget", "60", "--output", work + "/applied")
            dumped, applied = load(f"{runs}/{run}"), load(work + "/applied")
            for layer in range(layers):
                mine = by_head(dumped, f"layers.{layer}.kept.", "positions")
                theirs = by_head(applied, f"layers.{layer}.", "positions")
                # The model's log-sum-exp is not rounded as the policy's own.
                assert len(mine & theirs) >= 0.95 * len(mine) and len(mine) == len(theirs), (path, run, layer, mine ^ theirs)
        # With room for all nothing changes.
        full = generate("cuda", *text, "--chunk", "30", "--save-cache", work + "/full")
        roomy = generate("cuda", *text, *policy, "--keep", "1", "--chunk", "30", "--rerank", "--every", "2", "--save-cache",
                         work + "/roomy")
        assert [a["tokens"] for a in full["answers"]] == [a["tokens"] for a in roomy["answers"]] and full["top"] == roomy["top"]
        full, roomy = load(work + "/full"), load(work + "/roomy")
        assert all(full[name] == roomy[name] for name in full), path
        if not fake:
            continue
        # Longer prompts take no more memory, but for lists of a number for each token: its whole cache
        # would be 2048 bytes.
        peaks = []
        for tokens in (256, 640):
            ids = ",".join(str((37 * i + 5) % 1400) for i in range(tokens))
            generate("cuda", "--tokens", ids, *policy, "--budget", "64", "--chunk", "64", "--rerank", tokens=1)
            peaks.append(counts()["peak_bytes"])
        assert (peaks[1] - peaks[0]) / 384 <= 128, (path, peaks)
    print("policies over time agree")


def check_merged():
    """Rows that a policy merged behind the prompt merge on while decoding; on a cache that was loaded."""
    first, then = map(compiled, files())
    text = ["--prompt", prompt]
    caches = [f"{work}/cache.{t}" for t in ("host", "cuda")]
    for every, share in (("1", "0.1"), ("3", "0.2")):
        options = [*text, "--policy", first, "--every-policy", then, "--every", every, "--keep", share]
        runs = [generate(t, *options, "--save-cache", f"{work}/cache.{t}", tokens=8) for t in ("host", "cuda")]
        close(*runs, every)
        if fake:
            did = counts()
            assert did["idle_waits"] == 0 and did["leaked"] == 0, did
        mine, theirs = map(load, caches)
        kept_alike(mine, theirs, every)
        for layer in range(layers):
            # A row that just misses tau goes with all of its members.
            one, other = (by_head(cache, f"layers.{layer}.members.", "position") for cache in (mine, theirs))
            assert len(one & other) >= 0.9 * len(one | other), (every, layer, one ^ other)
    # Saved by one, made smaller by both; then tokens behind merged rows, which are saved with them.
    less = [generate(t, "--load-cache", caches[1], "--policy", then, "--keep", "0.05", "--save-cache", f"{work}/cache.{t}.less")
            for t in ("host", "cuda")]
    close(*less, "made smaller")
    kept_alike(*(load(cache + ".less") for cache in caches), "made smaller")
    question = ["--load-cache", caches[1] + ".less", "--question", "\nAnd for needle? "]
    close(*(generate(t, *question, "--save-cache", f"{work}/cache.{t}.more") for t in ("host", "cuda")), "asked again")
    # What a run kept, the host keeps of the cache that the run was given.
    runs = work + "/runs"
    shutil.rmtree(runs, ignore_errors=True)
    os.mkdir(runs)
    generate("cuda", *text, "--policy", first, "--every-policy", then, "--every", "2", "--budget", "40", "--dump-runs", runs)
    assert len(os.listdir(runs)) >= 2
    for run in os.listdir(runs):
        kvc("host", "apply", "--policy", then, "--input", f"{runs}/{run}", "--budget", "40", "--output", work + "/applied")
        dumped, applied = load(f"{runs}/{run}"), load(work + "/applied")
        for layer in range(layers):
            for name in ("counts", "positions", "members.counts", "members.position", "members.row"):
                kept, wanted = dumped[f"layers.{layer}.kept.{name}"], applied[f"layers.{layer}.{name}"]
                assert not fake or kept == wanted, (run, layer, name)
    print("merged caches agree")


def check_eval():
    """Many caches of one prompt, layers described, likelihoods."""
    libraries = ",".join(map(compiled, files()))
    documents = {}
    for target in ("host", "cuda"):
        out = f"{work}/eval.{target}.json"
        if os.path.exists(out):
            os.remove(out)
        kvc(target, "eval", "--model", needle, "--policy", libraries, "--budgets", "20%", "--tasks",
            f"{models}/tasks/256.jsonl,text:{needle}/README.md", "--length", "300", "--limit", "2", "--results", out)
        documents[target] = json.load(open(out))
    host, cuda = documents["host"], documents["cuda"]
    for a, b in zip(host["samples"], cuda["samples"]):
        for x, y in zip(a["cells"], b["cells"]):
            if x.get("prediction") is None:
                assert abs(x["score"] - y["score"]) < 0.02 * abs(x["score"]), (x, y)
            elif a["task"] == "single":
                assert x["prediction"] == y["prediction"], (a["task"], x, y)
    assert len(host["samples"]) == len(cuda["samples"]) > 4
    for a, b in zip(host["layers"], cuda["layers"]):
        for x, y in zip(a["layers"], b["layers"]):
            assert abs(x["coverage"] - y["coverage"]) < 0.05, (x["coverage"], y["coverage"])
            # The model's attention is sharp, its logits exceed 200: a bf16 unit of a query may move a
            # quarter of a weight, and a sample's change is 0 or 1500 by the last query's one token.
            assert abs(x["perturbation"] - y["perturbation"]) < 0.2 * x["perturbation"] + 0.05, (x, y)
    print("eval agrees")


def check_dump():
    """A prefill's activations, brought to the host."""
    dumps = []
    for target in ("host", "cuda"):
        generate(target, "--prompt", prompt, "--dump-layers", f"{work}/{target}.layers")
        dumps.append(load(f"{work}/{target}.layers"))
    host, cuda = dumps
    assert host.keys() == cuda.keys()
    for name in host:
        (type_a, shape_a, a), (type_b, shape_b, b) = host[name], cuda[name]
        assert (type_a, shape_a) == (type_b, shape_b) == ("F32", shape_a), name
        count = len(a) // 4
        x, y = struct.unpack(f"<{count}f", a), struct.unpack(f"<{count}f", b)
        most = max(map(abs, x))
        worst = max(abs(p - q) for p, q in zip(x, y))
        # A few rounding units of bf16, more in later layers.
        assert worst <= 0.05 * most, (name, worst, most)
    print("dumps agree")


def check_memory():
    """What a token adds to the peak of device memory: a layer's cache and activations, and what is
    kept of it in all layers; never the whole cache of all layers."""
    (library,) = map(compiled, files())
    hidden, inner, wide, narrow = 128, 256, 256, 128  # bytes below: residual stream fp32, else bf16
    layer = 2 * 2 * narrow
    activations = 4 * hidden + 2 * (hidden + 2 * wide + 5 * narrow) + 2 * 2 * heads
    kept = 0.1 * layers * layer
    scores = 200  # of the policy, and its lists
    peaks = {}
    for share in ((), ("--policy", library, "--keep", "0.1")):
        for tokens in (512, 1024):
            ids = ",".join(str((37 * i + 5) % 1400) for i in range(tokens))
            generate("cuda", "--tokens", ids, *share, tokens=1)
            peaks[tokens] = counts()["peak_bytes"]
        grown = (peaks[1024] - peaks[512]) / 512
        bound = activations + (layer + kept + scores if share else layers * layer)
        assert 0.7 * bound < grown <= bound, (share, grown, bound)
    print("memory is bounded")


def check_matrix():
    """Every policy and shape of the matrix test; the stand-in leaves the host's bytes unless it runs the PTX."""
    exact = fake and os.environ.get("KVC_FAKE_CUDA_PTX") != "1"
    gpu_matrix.check(files(), kvc, table_for, work, exact)


def check_golden():
    """The kept sets of test/golden, which kernels on the host and the reference in double agree on."""
    golden.make(work)
    sets = golden.read_sets()
    for path in files():
        wanted = sets[os.path.basename(path)[:-5]]
        kvc("cuda", *golden.run_of(golden_library(path), work, golden.table_of(path, work)))
        kept, merged = golden.kept_of(work + "/kept.safetensors")
        assert kept == wanted["kept"], (path, kept, wanted["kept"])
        if golden.names_merged(path):
            assert merged == wanted.get("merged", []), (path, merged, wanted["merged"])
    print(len(files()), "policies keep the golden sets")


{"compile": compile_all, "apply": check_apply, "policies": check_policies, "memory": check_memory,
 "plain": check_plain, "over_time": check_over_time, "merged": check_merged, "sessions": check_sessions,
 "eval": check_eval, "dump": check_dump, "matrix": check_matrix, "golden": check_golden}[check]()
