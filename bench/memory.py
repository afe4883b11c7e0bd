"""memory.py BIN [TOKENS ...]: peak resident bytes of a prefill with and without a policy.

Makes a random model (16 layers, 4 query and KV heads of 64, hidden 256), compiles
policies/snapkv.mlir for it, reads prompts of two lengths and prints the peak of
`kvc-run generate`, beside what it has to hold:

  weights          as fp32
  one layer        its full cache (K and V) and its activations: residual stream, queries,
                   raw keys, attention output
  compressed       the rows kept of all layers

The difference between two lengths is what counts; the rest is the process itself.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

import model

BIN = sys.argv[1]
LENGTHS = [int(x) for x in sys.argv[2:]] or [4096, 8192]
LAYERS, HEADS, DIM, HIDDEN, INNER, VOCAB, KEEP = 16, 4, 64, 256, 512, 256, 0.1
WIDE = HEADS * DIM


def peak(*options):
    """In a child of its own: ru_maxrss is the largest of all children."""
    code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, "
            "stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")
    return int(subprocess.run([sys.executable, "-c", code, *options], check=True, capture_output=True, text=True).stdout)


with tempfile.TemporaryDirectory() as folder:
    layer_parameters, embedding = model.write(folder, LAYERS, HIDDEN, INNER, HEADS, HEADS, DIM, VOCAB, "F32")
    weights = 4 * (LAYERS * (layer_parameters + 2 * HIDDEN) + embedding + HIDDEN)
    policy = folder + "/snapkv.so"
    source = os.path.join(os.path.dirname(__file__), "../policies/snapkv.mlir")
    subprocess.run([BIN + "/kvc-opt", source, "--emit=library", "--chip=none", "--model", folder, "-o", policy], check=True)
    mib = 1 / (1 << 20)
    print(f"weights {weights * mib:.1f} MiB; {LAYERS} layers")
    print("| tokens | peak, full cache | peak, 10 % kept | all layers' cache | one layer's cache | its activations | kept rows |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    before = None
    for tokens in LENGTHS:
        rng = random.Random(1)
        ids = ",".join(str(rng.randrange(VOCAB)) for _ in range(tokens))
        open(folder + "/ids", "w").write(ids)
        run = [BIN + "/kvc-run", "generate", "--model", folder, "--tokens", ids, "--max-new-tokens", "1",
               "--target", "host"]
        full = peak(*run)
        kept = peak(*run, "--policy", policy, "--keep", str(KEEP))
        cache = 2 * WIDE * tokens * 4
        activations = (2 * HIDDEN + 3 * WIDE) * tokens * 4
        rows = int(KEEP * tokens) * 2 * WIDE * 4 * LAYERS
        print(f"| {tokens} | {full * mib:.1f} | {kept * mib:.1f} | {cache * LAYERS * mib:.1f} | {cache * mib:.1f} | "
              f"{activations * mib:.1f} | {rows * mib:.1f} |")
        if before:
            held = [k - b for k, b in zip((full, kept, cache, activations, rows), before)]
            print(f"\nFrom {LENGTHS[0]} to {tokens} tokens the peak grows by {held[0] * mib:.1f} MiB with the full cache, "
                  f"by {held[1] * mib:.1f} MiB with the policy; a layer's cache, its activations and the kept rows "
                  f"grow by {(held[2] + held[3] + held[4]) * mib:.1f} MiB.")
        else:
            before = (full, kept, cache, activations, rows)
