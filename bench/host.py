"""host.py BIN [--tokens 4096,16384,65536] [--types f32,bf16] [--policies snapkv,...] [--runs 5]
[--limit 60] [--small] [--write]: policies on the host target, beside eager torch and a floor.

One layer of 8 KV heads of 4 query heads, head_dim 128 and hidden size 4096, of which a fifth of the
tokens is kept. In one process, one after the other and in turns:

  command   kvc-run apply: process start, reading and writing of files included
  kernels   the same call from Python, memory for what is kept included
  given     kernels, where the engine's attention brings the log-sum-exp of the window's queries
  torch     eager.py, without its start; where torch is not there the column says so
  floor     floor.py: matrix products, exponentials and one reading of K

Times are medians, in seconds of wall time and, in brackets, of all cores. What took over a sixth of
--limit is run once more at most; what would take more than --limit seconds, by the run with fewer
tokens, is not run. --small takes a layer of two narrow heads: it shows that the benchmark runs.
--write puts the table into bench/README.md, or into the file that follows.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import resource
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
POLICIES = "snapkv,adakv,kvec,criticalkv,h2o,ems,knorm"
MARKS = "<!-- host.py -->\n", "<!-- end of host.py -->\n"

parser = argparse.ArgumentParser()
parser.add_argument("bin", type=pathlib.Path)
parser.add_argument("--tokens", default="4096,16384,65536")
parser.add_argument("--types", default="f32,bf16")
parser.add_argument("--policies", default=POLICIES)
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--limit", type=float, default=60)
parser.add_argument("--small", action="store_true")
parser.add_argument("--write", nargs="?", const=ROOT / "bench/README.md", type=pathlib.Path)
options = parser.parse_args()
for name in set(options.policies.split(",")) - set(POLICIES.split(",")):
    parser.error(f"--policies must be of {POLICIES}, got '{name}'")
for name in set(options.types.split(",")) - {"f32", "bf16"}:
    parser.error(f"--types must be f32 or bf16, got '{name}'")
HEADS, GROUP, DIM, HIDDEN = (2, 2, 32, 48) if options.small else (8, 4, 128, 4096)

home = options.bin.resolve().parent
os.environ["KVC_HOME"] = str(home)
sys.path.insert(0, str(ROOT / "python"))
import floor  # noqa: E402
import kvc  # noqa: E402

try:
    import torch

    import eager
except ImportError:
    torch = None


def rounded(values, dtype):
    """Numbers in a type, bf16 as its bits, and the same numbers as fp32."""
    if dtype == "f32":
        return values, values
    bits = (values.view(np.uint32) + 0x8000 >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


def layer_of(policy, tokens, dtype):
    """A layer of what the policy reads, as each of the four wants it."""
    random = np.random.default_rng(tokens)
    queries = tokens if policy.manifest.queries == "all" else policy.manifest.queries
    shapes = {"q": (HEADS * GROUP, queries, DIM), "k": (HEADS, tokens, DIM), "v": (HEADS, tokens, DIM),
              "k_raw": (HEADS, tokens, DIM), "wo": (HIDDEN, HEADS * GROUP * DIM)}
    stored, wide = {}, {}
    for name, shape in shapes.items():
        if name in ("k", "v") or name in policy.manifest.reads:
            values = random.standard_normal(shape, np.float32) * (0.02 if name == "wo" else 1)
            if name == "k_raw":  # some are alike, or nothing would be merged
                values = values * 0.5 + random.standard_normal((HEADS, 64, DIM), np.float32)[:, np.arange(tokens) % 64]
            stored[name], wide[name] = rounded(np.ascontiguousarray(values, np.float32), dtype)
    rooms = np.empty(0, np.float32)

    def room(count):
        nonlocal rooms
        if rooms.size < count:
            rooms = np.empty(count, np.float32)
        return rooms

    return {**wide, "stored": stored, "room": room, "budget": tokens // 5}


def log_sum_exp(layer):
    """Of the last queries, [1, Hq, queries], as an engine's attention has it; None without queries, or of all."""
    q, k = layer.get("q"), layer["k"]
    if q is None or q.shape[1] == k.shape[1]:
        return None
    queries, tokens = q.shape[1], k.shape[1]
    unseen = np.triu(np.ones((queries, tokens), bool), tokens - queries + 1)
    rows = []
    for head, rest in enumerate(q):
        logits = np.where(unseen, -np.inf, rest @ k[head // GROUP].T * np.float32(DIM**-0.5))
        most = logits.max(axis=1)
        rows.append(most + np.log(np.exp(logits - most[:, None]).sum(axis=1)))
    return np.stack(rows)[None].astype(np.float32)


def save(path, layer, dtype):
    """Input of kvc-run apply."""
    header, at = {}, 0
    for name, array in layer["stored"].items():
        header[f"layers.0.{name}"] = {"dtype": dtype.upper(), "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in layer["stored"].values():
            array.tofile(file)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


def contenders(policy, layer, dtype, folder):
    """What is measured, by name: functions without arguments."""
    stored, budget, tokens = layer["stored"], layer["budget"], layer["k"].shape[1]
    command = [options.bin / "kvc-run", "apply", "--policy", policy.path, "--input", folder / "layer", "--output",
               folder / "kept", "--budget", str(budget), "--target", "host"]
    plan = policy.plan(kv_heads=HEADS, max_tokens=tokens)
    given = {name: array[None] for name, array in stored.items() if name != "wo"}
    given.setdefault("q", None)

    def kernels(**more):
        return plan.evict(**given, **more, wo=stored.get("wo"), budget=budget, layer=0, layers=1, state=plan.state())

    found = {"command": lambda: run(command), "kernels": kernels,
             "floor": lambda: floor.POLICIES[policy.name](layer)}
    lse = log_sum_exp(layer)
    if lse is not None:
        found["given"] = lambda: kernels(lse=lse)
    if torch:
        tensors = {name: torch.from_numpy(array) if dtype == "f32" else torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
                   for name, array in stored.items()}
        found["torch"] = lambda: eager.POLICIES[policy.name](dict(tensors), budget)
    return found


def measured(function):
    """Seconds, those of all cores, and the result."""
    def used():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    time.sleep(0.1)  # threads that wait for work of the one before spin for a while
    cores, start = used(), time.perf_counter()
    result = function()
    seconds = time.perf_counter() - start
    return seconds, used() - cores, result


class Table:
    """Rows of the table, and what the next row needs to know of those before."""

    def __init__(self):
        self.lines, self.alike = [], {}
        self.first = {}  # seconds of the first run, and of how many tokens; by policy, type and contender

    def expected(self, key, tokens, power):
        seconds, before = self.first.get(key, (0, tokens))
        return seconds * (tokens / before) ** power

    def add(self, policy, dtype, tokens):
        power = 2 if policy.manifest.queries == "all" else 1
        names = [name for name in ("command", "kernels", "given", "torch", "floor") if torch or name != "torch"]
        names = [name for name in names if self.expected((policy.name, dtype, name), tokens, power) <= options.limit]
        cells = {}
        if names:
            layer, results = layer_of(policy, tokens, dtype), {}
            with tempfile.TemporaryDirectory() as folder:
                save(folder + "/layer", layer, dtype)
                found = contenders(policy, layer, dtype, pathlib.Path(folder))
                names = [name for name in names if name in found]
                times = {name: [] for name in names}
                for name in names:
                    seconds, _, results[name] = measured(found[name])
                    self.first[policy.name, dtype, name] = seconds, tokens
                for turn in range(options.runs):
                    for name in names:
                        if not turn or self.first[policy.name, dtype, name][0] * 6 <= options.limit:
                            times[name].append(measured(found[name])[:2])
            if "kernels" in results and "torch" in results:
                self.compare(dtype, results["kernels"], results["torch"][0])
        for name in ("command", "kernels", "given", "torch", "floor"):
            if name in names:
                wall, cores = (statistics.median(values) for values in zip(*times[name]))
                cells[name] = wall, f"{wall:#.3g} ({cores:#.3g})"
            else:
                missing = "no torch" if name == "torch" and not torch else "" if name == "given" else f"over {options.limit:g}"
                cells[name] = None, missing
        share = lambda a, b: f"{cells[a][0] / cells[b][0]:.2f}" if cells[a][0] and cells[b][0] else ""
        line = [policy.name, dtype, tokens, *(cells[name][1] for name in ("command", "kernels", "given", "torch", "floor")),
                share("torch", "command"), share("kernels", "floor"), share("given", "floor")]
        self.lines.append("| " + " | ".join(map(str, line)) + " |")
        print(self.lines[-1], file=sys.stderr, flush=True)

    def compare(self, dtype, ours, theirs):
        """What share of the rows both keep."""
        same = [len(np.intersect1d(ours[0, g].indices, theirs[g].numpy())) / max(1, len(theirs[g])) for g in range(HEADS)]
        self.alike[dtype] = min([self.alike.get(dtype, 1), *same])

    def text(self):
        head = ["| policy | type | tokens | kvc, command | kvc, kernels | log-sum-exp given | eager torch | floor | torch / command "
                "| kernels / floor | given / floor |",
                "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
        return "\n".join(head + self.lines) + "\n"


def machine(load):
    models = {line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")}
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()
    commit = git("rev-parse", "--short", "HEAD") or "unknown"
    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/README.md") else ""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__} with {floor.blas()}, " + (
        f"torch {torch.__version__}" if torch else "no torch, so its column is missing")
    return (f"{', '.join(models) or platform.machine()}, {floor.CORES} cores, load {load[0]:.1f} before and {os.getloadavg()[0]:.1f} "
            f"behind; {versions}; commit {commit}{changed}, {datetime.date.today()}.")


load, table = os.getloadavg(), Table()
with tempfile.TemporaryDirectory() as cache:
    for name in options.policies.split(","):
        for dtype in options.types.split(","):
            policy = kvc.compile(name, head_dim=DIM, group=GROUP, dtype=dtype, cache_dir=cache)
            for tokens in map(int, options.tokens.split(",")):
                table.add(policy, dtype, tokens)
arguments = [word for word in sys.argv[1:] if not word.startswith("--write")]
text = f"`python3 bench/host.py {shlex.join(arguments)}`: {machine(load)}\n\n{table.text()}"
if table.alike:
    text += "\nOf what torch keeps kvc keeps at least " + ", ".join(
        f"{100 * share:.1f} % ({dtype})" for dtype, share in table.alike.items()) + ", of each head.\n"
print(text)
if options.write:
    whole = options.write.read_text()
    begin, end = (whole.index(mark) for mark in MARKS)
    options.write.write_text(whole[: begin + len(MARKS[0])] + text + whole[end:])
