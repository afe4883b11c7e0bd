"""executor.py BIN [--layers 4] [--tokens 4096,32768] [--policies snapkv,adakv] [--keep 10%]
[--target cuda] [--compiled DIR] [--small]: prefill, eviction and decoding of a model in the executor.

Makes a random bf16 model of the layer shapes of Llama-3.1-8B (hidden 4096, inner 14336, 32 query
and 8 KV heads of 128), compiles the policies for it, and lets `kvc-run eval` read the same five
prompts in one process; the first warms up, of the others the median counts. Beside each time
stands the floor of one H200 and its share:

  prefill   matrix products and causal attention at 790 TFLOP/s
  decode    weights and the cache as it is kept, read once per token at 4.3 TB/s

--small takes a model of two narrow layers: it shows that the benchmark runs, nothing else.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile

import model

parser = argparse.ArgumentParser()
parser.add_argument("bin")
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--tokens", default="4096,32768")
parser.add_argument("--policies", default="snapkv,adakv,criticalkv,kvec")
parser.add_argument("--keep", default="10%")
parser.add_argument("--target", default="cuda")
parser.add_argument("--compiled", help="folder with the policies as libraries, where BIN has no kvc-opt")
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
HIDDEN, INNER, HEADS, KV_HEADS, DIM, VOCAB = 4096, 14336, 32, 8, 128, 32000
if options.small:
    HIDDEN, INNER, HEADS, KV_HEADS, DIM, VOCAB, options.layers = 64, 128, 4, 1, 128, 64, 2  # as policies are packed
LETTERS, ANSWER = "abcdefghijklmnop", 8 if options.small else 64
FLOPS, BANDWIDTH = 790e12, 4.3e12


with tempfile.TemporaryDirectory() as folder:
    layer_parameters, head_parameters = model.write(folder, options.layers, HIDDEN, INNER, HEADS, KV_HEADS, DIM, VOCAB,
                                                    "BF16")
    json.dump({"model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(LETTERS)}, "merges": []}},
              open(folder + "/tokenizer.json", "w"))
    libraries = []
    for policy in options.policies.split(","):
        libraries.append(f"{folder}/{policy}.so")
        if not os.path.exists(options.bin + "/kvc-opt"):
            shutil.copy(f"{options.compiled}/{policy}.so", libraries[-1])
            continue
        source = os.path.join(os.path.dirname(__file__), f"../policies/{policy}.mlir")
        subprocess.run([options.bin + "/kvc-opt", source, "--emit=library", "--chip=sm_90", "--model", folder, "-o",
                        libraries[-1]], check=True)
    print(f"{options.layers} layers of hidden {HIDDEN}, target {options.target}")
    print("| tokens | cache | prefill, ms | share of floor | eviction, ms | of prefill | decode, ms a token | share of floor |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for tokens in map(int, options.tokens.split(",")):
        rng, results = random.Random(tokens), f"{folder}/results.json"
        with open(folder + "/tasks.jsonl", "w") as file:
            for i in range(5):
                context = "".join(rng.choice(LETTERS) for _ in range(tokens))
                file.write(json.dumps({"id": f"p{i}", "task": "speed", "context": context, "question": "a",
                                       "answer": "a" * ANSWER}) + "\n")
        subprocess.run([options.bin + "/kvc-run", "eval", "--model", folder, "--policy", ",".join(libraries), "--budgets",
                        options.keep, "--tasks", folder + "/tasks.jsonl", "--mode", "agnostic", "--details", "0",
                        "--target", options.target, "--results", results], check=True, stdout=subprocess.DEVNULL)
        samples = json.load(open(results))["samples"][1:]
        os.remove(results)
        prefill = statistics.median(s["prefill_seconds"] for s in samples)
        attention = 4 * HEADS * DIM * tokens * tokens / 2
        prefill_floor = options.layers * (2 * layer_parameters * tokens + attention) / FLOPS
        for i, cell in enumerate(samples[0]["cells"]):
            cells = [s["cells"][i] for s in samples]
            evict = statistics.median(c["evict_seconds"] for c in cells)
            decode = statistics.median(c["decode_seconds"] for c in cells) / ANSWER
            read = 2 * (options.layers * layer_parameters + head_parameters) + cells[0]["cache_bytes"]
            print(f"| {tokens} | {cell['policy']} | {prefill * 1e3:.2f} | {prefill_floor / prefill:.1%} | {evict * 1e3:.3f} | "
                  f"{evict / prefill:.2%} | {decode * 1e3:.3f} | {read / BANDWIDTH / decode:.1%} |")
