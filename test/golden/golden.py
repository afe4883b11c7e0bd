"""golden.py: kept sets that any implementation of a policy can be checked against.

  golden.py make DIR                      writes input.safetensors and table.safetensors
  golden.py check POLICIES REFERENCE DIR  kernels on the host and the reference in double
                                          must both keep what kept.jsonl says
  golden.py write POLICIES REFERENCE DIR  writes kept.jsonl, if those two agree
  golden.py decoding check|write POLICIES REFERENCE NO-ROWS DIR
                                          the same of decoding.jsonl, for policies that run on
                                          caches of rows: those that the file NO-ROWS does not name

docs/golden.md says what the inputs are and how to use the sets. Standard library only.
"""
import glob
import json
import os
import struct
import subprocess
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE + "/../Inputs")
from layers import load, save
LAYERS, KV_HEADS, GROUP, DIM, TOKENS, HIDDEN, BUDGET = 3, 3, 2, 16, 200, 40, 80
HEADS = KV_HEADS * GROUP


def numbers(name, count):
    """Multiples of 1/64 from -2 up to, not including, 2: exact in every type."""
    state, mask, values = zlib.crc32(name.encode()), (1 << 64) - 1, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask  # splitmix64
        z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        values.append((((z ^ z >> 31) >> 56) - 128) / 64)
    return values


def floats(shape, values):
    return "F32", shape, struct.pack(f"<{len(values)}f", *values)


def make(folder):
    os.makedirs(folder, exist_ok=True)
    tensors = {}
    for layer in range(LAYERS):
        for name, shape in (("q", [HEADS, TOKENS, DIM]), ("k", [KV_HEADS, TOKENS, DIM]),
                            ("v", [KV_HEADS, TOKENS, DIM]),
                            ("k_raw", [KV_HEADS, TOKENS, DIM]),
                            ("wo", [HIDDEN, HEADS * DIM])):
            count = 1
            for extent in shape:
                count *= extent
            full = f"layers.{layer}.{name}"
            tensors[full] = floats(shape, numbers(full, count))
    save(folder + "/input.safetensors", tensors)
    importance = [x + 2 for x in numbers("importance", LAYERS * HEADS)]
    save(folder + "/table.safetensors", {"importance": floats([LAYERS, HEADS], importance)})


def integers(path):
    return {name: list(struct.unpack(f"<{len(raw) // 4}i", raw))
            for name, (dtype, _, raw) in load(path).items() if dtype == "I32"}


def runs(tokens):
    """[1, 2, 3, 7] as "1-3 7"."""
    parts = []
    for t in tokens:
        if parts and parts[-1][1] == t - 1:
            parts[-1][1] = t
        else:
            parts.append([t, t])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def split(values, counts):
    at, result = 0, []
    for count in counts:
        result.append(values[at:at + count])
        at += count
    return result


def compile_library(policy, library, *options):
    # Threads, which compile soon; with warps the Python package has the same sets.
    subprocess.run(["kvc-opt", policy, "--emit=library", "--host-forms=threads", *options, "--shape",
                    f"head_dim={DIM},group={GROUP},dtype=f32", "-o", library], check=True)


def run_of(library, folder, table):
    """kvc-run's arguments but for the target; the result is DIR/kept.safetensors."""
    return ["apply", "--policy", library, "--budget", str(BUDGET), "--input", folder + "/input.safetensors",
            "--output", folder + "/kept.safetensors", *(["--table", table] if table else [])]


def kept_of(result):
    """Kept tokens, and which kept token represents each merged one, of a file that kvc-run has written."""
    tensors, kept, merged = integers(result), [], []
    for layer in range(LAYERS):
        prefix = f"layers.{layer}."
        heads = split(tensors[prefix + "indices"], tensors[prefix + "counts"])
        kept.append([runs(head) for head in heads])
        if prefix + "members.counts" in tensors:
            counts = tensors[prefix + "members.counts"]
            rows = split(tensors[prefix + "members.row"], counts)
            positions = split(tensors[prefix + "members.position"], counts)
            merged.append([" ".join(f"{p}>{head[r]}" for p, r in zip(ps, rs) if p != head[r])
                           for head, rs, ps in zip(heads, rows, positions)])
    return kept, merged


def kernels(policy, folder, table):
    compile_library(policy, folder + "/policy.so", "--chip=none")
    subprocess.run(["kvc-run", *run_of(folder + "/policy.so", folder, table), "--target", "host"],
                   check=True, capture_output=True)
    return kept_of(folder + "/kept.safetensors")


def read_sets():
    """kept.jsonl, by policies."""
    return {entry["policy"]: entry for entry in map(json.loads, open(HERE + "/kept.jsonl"))}


def table_of(policy, folder):
    return folder + "/table.safetensors" if "allocate_table" in open(policy).read() else None


def names_merged(policy):
    """Whether the table of members names the tokens of a row; where rows share positions it does not."""
    return "share_positions" not in open(policy).read()


def interpreted(policy, binary, table, *inputs):
    text = subprocess.run([binary, policy, str(BUDGET), table or "-", *inputs], check=True, capture_output=True,
                          text=True).stdout
    return list(map(json.loads, text.splitlines()))


def reference(policy, binary, folder, table):
    (layers,) = interpreted(policy, binary, table, folder + "/input.safetensors")
    kept = [[runs(head) for head in layer["kept"]] for layer in layers]
    merged = [[" ".join(f"{t}>{d}" for t, d in enumerate(head) if d >= 0)
               for head in layer["destination"]] for layer in layers if "destination" in layer]
    return kept, merged


def main():
    if sys.argv[1] == "make":
        return make(sys.argv[2])
    if sys.argv[1] == "decoding":
        import decoding
        return decoding.main(*sys.argv[2:])
    mode, policies, binary, folder = sys.argv[1:]
    make(folder)
    stored = {}
    if mode == "check":
        stored = read_sets()
    lines, bad = [], []
    for policy in sorted(glob.glob(policies + "/*.mlir")):
        name = os.path.basename(policy)[:-5]
        table = table_of(policy, folder)
        kept, merged = kernels(policy, folder, table)
        want_kept, want_merged = reference(policy, binary, folder, table)
        if not names_merged(policy):
            merged = want_merged
        if kept != want_kept or merged != want_merged:
            bad.append(f"{name}: kernels and reference differ")
        entry = {"policy": name, "budget": BUDGET, "kept": kept}
        if merged:
            entry["merged"] = merged
        lines.append(json.dumps(entry))
        if mode == "check" and stored.pop(name, None) != entry:
            bad.append(f"{name}: not what kept.jsonl says")
    bad += [f"{name}: in kept.jsonl, but no policy" for name in stored]
    if bad:
        sys.exit("\n".join(bad))
    if mode == "write":
        open(HERE + "/kept.jsonl", "w").write("\n".join(lines) + "\n")
    print(len(lines), "policies")


if __name__ == "__main__":
    main()
