"""What policies keep while 20 tokens are decoded behind the golden prompt (docs/golden.md): decoding.jsonl.
Run by golden.py."""
import glob
import json
import os
import struct
import subprocess
import sys

from golden import (BUDGET, DIM, GROUP, HEADS, HERE, HIDDEN, KV_HEADS, LAYERS, TOKENS, floats, integers, interpreted, make,
                    numbers, split)
from layers import load, save

STEPS, QUERIES = 20, 64


def vectors(raw):
    return [raw[i:i + 4 * DIM] for i in range(0, len(raw), 4 * DIM)]


def sequence(folder):
    """[layer][name][head]: vectors, as they are in files, of the prompt's tokens and of the 20 behind it."""
    prompt, layers = load(folder + "/input.safetensors"), []
    for layer in range(LAYERS):
        layers.append({})
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS), ("k_raw", KV_HEADS)):
            old = vectors(prompt[f"layers.{layer}.{name}"][2])
            new = vectors(floats(None, numbers(f"layers.{layer}.new.{name}", heads * STEPS * DIM))[2])
            layers[-1][name] = [old[h * TOKENS:(h + 1) * TOKENS] + new[h * STEPS:(h + 1) * STEPS] for h in range(heads)]
        layers[-1]["wo"] = prompt[f"layers.{layer}.wo"]
    return layers


def step_input(path, tokens, kept, step, states):
    """An input of `apply`: what was kept, the step's token behind it, its query and those in front.
    states: [layer][name][head], what the kept rows carry."""
    length = TOKENS + step
    tensors = {}
    for layer in range(LAYERS):
        rows = [head + [length - 1] for head in kept[layer]]
        flat = lambda name: b"".join(tokens[layer][name][head][t] for head, at in enumerate(rows) for t in at)
        count = sum(map(len, rows))
        prefix = f"layers.{layer}."
        for name in ("k", "v", "k_raw"):
            tensors[prefix + name] = ("F32", [count, DIM], flat(name))
        queries = b"".join(b"".join(head[length - QUERIES:length]) for head in tokens[layer]["q"])
        tensors[prefix + "q"] = ("F32", [HEADS, QUERIES, DIM], queries)
        tensors[prefix + "wo"] = tokens[layer]["wo"]
        tensors[prefix + "lengths"] = ("I32", [KV_HEADS], struct.pack(f"<{KV_HEADS}i", *map(len, rows)))
        tensors[prefix + "positions"] = ("I32", [count], struct.pack(f"<{count}i", *(t for head in rows for t in head)))
        for name, carried in states[layer].items():
            tensors[prefix + "state." + name] = floats([count], [x for head in carried for x in head + [0.0]])
    save(path, tensors, {"length": str(length), "new": "1"})


def apply(folder, table, inputs, *options):
    """Of each input [layer][head] the kept tokens, and [layer][name][head] what they carry on."""
    outputs = [path + ".kept" for path in inputs]
    subprocess.run(["kvc-run", "apply", "--policy", folder + "/policy.so", "--budget", str(BUDGET), "--target", "host", *options,
                    *(["--table", table] if table else []), *(x for path in inputs for x in ("--input", path)),
                    *(x for path in outputs for x in ("--output", path))], check=True, capture_output=True)
    results = []
    for path in outputs:
        whole, tensors = integers(path), load(path)
        kept, states = [], []
        for layer in range(LAYERS):
            prefix = f"layers.{layer}."
            counts = whole[prefix + "counts"]
            kept.append(split(whole[prefix + "positions"], counts))
            states.append({name[len(prefix) + 6:]: split(list(struct.unpack(f"<{len(raw) // 4}f", raw)), counts)
                           for name, (_, _, raw) in tensors.items() if name.startswith(prefix + "state.")})
        results.append((kept, states))
    return results


def judged(policy, binary, table, path, kept, states):
    """The reference keeps the same of an input, and its rows carry on the same."""
    (layers,) = interpreted(policy, binary, table, path)
    same = [layer["kept"] for layer in layers] == kept
    for layer, carried in zip(layers, states):
        for name, heads in carried.items():
            for ours, theirs in zip(heads, layer["carried"][name]):
                same &= all(abs(a - b) <= 2e-5 * (1 + abs(b)) for a, b in zip(ours, theirs)) and len(ours) == len(theirs)
    return same


def goes(before, dropped):
    """[layer][head] without what a step drops, a text for each head."""
    gone = [[set() if text == "-" else set(map(int, text.split(","))) for text in layer] for layer in dropped]
    return [[[t for t in head if t not in out] for head, out in zip(*pair)] for pair in zip(before, gone)]


def went(before, kept):
    """The texts."""
    return [[",".join(str(t) for t in old if t not in set(new)) or "-" for old, new in zip(*pair)] for pair in zip(before, kept)]


def steps_of(policy, binary, folder, table, tokens, known):
    """[step][layer][head]: the tokens that each step drops; None where the reference does not agree. Where they are
    `known` and rows carry nothing, all steps are one call, each on what the known steps in front have left."""
    shape = f"head_dim={DIM},group={GROUP},dtype=f32"
    subprocess.run(["kvc-opt", policy, "--emit=library", "--chip=none", "--host-forms=threads", "--shape", shape,
                    "--shape", shape + ",cache=ragged",
                    "-o", folder + "/policy.so"], check=True)
    ((kept, states),) = apply(folder, table, [folder + "/input.safetensors"], "--state")
    at_once = known and not any(states)
    paths, befores, results = [], [], []
    for step in range(1, STEPS + 1):
        paths.append(f"{folder}/step{step}")
        befores.append([[head + [TOKENS + step - 1] for head in layer] for layer in kept])
        step_input(paths[-1], tokens, kept, step, states)
        if at_once:
            kept = goes(befores[-1], known[step - 1])
        else:
            results += apply(folder, table, paths[-1:])
            kept, states = results[-1]
    if at_once:
        results = apply(folder, table, paths)
    # The reference takes its time.
    for path, (kept, states) in list(zip(paths, results))[STEPS // 2 - 1::STEPS // 2]:
        if not judged(policy, binary, table, path, kept, states):
            return None
    return [went(before, kept) for before, (kept, _) in zip(befores, results)]


def main(mode, policies, binary, no_rows, folder):
    make(folder)
    tokens = sequence(folder)
    refused = set(open(no_rows).read().split())
    stored = {}
    if mode == "check":
        stored = {e["policy"]: e for e in map(json.loads, open(HERE + "/decoding.jsonl"))}
    lines, bad = [], []
    for policy in sorted(glob.glob(policies + "/*.mlir")):
        name = os.path.basename(policy)[:-5]
        if name in refused:
            continue
        table = folder + "/table.safetensors" if "allocate_table" in open(policy).read() else None
        known = stored[name]["dropped"] if name in stored else None
        if known:  # by step, as they are used
            known = [[[head.split()[step] for head in layer] for layer in known] for step in range(STEPS)]
        steps = steps_of(policy, binary, folder, table, tokens, known)
        if steps is None:
            bad.append(f"{name}: kernels and reference differ")
            continue
        # And by layer and head, as they are read.
        dropped = [[" ".join(step[layer][head] for step in steps) for head in range(KV_HEADS)] for layer in range(LAYERS)]
        entry = {"policy": name, "budget": BUDGET, "dropped": dropped}
        lines.append(json.dumps(entry))
        if mode == "check" and stored.pop(name, None) != entry:
            bad.append(f"{name}: not what decoding.jsonl says")
    bad += [f"{name}: in decoding.jsonl, but no policy" for name in stored]
    if bad:
        sys.exit("\n".join(bad))
    if mode == "write":
        open(HERE + "/decoding.jsonl", "w").write("\n".join(lines) + "\n")
    print(len(lines), "policies decode")
