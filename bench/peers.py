"""peers.py --json FILE [--small]: what a user would take in kvc's place, in PyTorch on the GPU, on the shapes of
`kvc-run measure`: 8 KV heads of 4 query heads of 128, bf16, a budget of 1024 tokens a head.

    eager.py's policies          whole layers, an operation after the other
    topk and gather              of scores that are there: the rows of the best tokens
    scaled_dot_product_attention one token against a cache, and a whole prompt

Medians of CUDA events over runs that take turns between layers of 128 MiB together, as measure's: as PyTorch launches
it, and, of what never asks the GPU for a number, as a CUDA graph as well, which leaves out the time that Python takes.
Where there is no GPU the CPU is timed, which shows that it runs.
"""
import argparse
import json
import statistics
import time

import torch

import eager

parser = argparse.ArgumentParser()
parser.add_argument("--json", required=True)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
cuda = torch.cuda.is_available()
torch.set_default_device("cuda" if cuda else "cpu")
KV_HEADS, GROUP, DIM, BUDGET = (2, 2, 32, 64) if options.small else (8, 4, 128, 1024)
HIDDEN = 64 if options.small else 4096
LENGTHS = (128, 200) if options.small else (4096, 32768)
REPEATS = 2 if options.small else 50
results = []


def microseconds(works, repeats):
    """Median and 95th percentile of one run."""
    for work in works:
        work()
    taken = []
    if cuda:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
        torch.cuda.synchronize()
        marks[0].record()
        for i in range(repeats):
            works[i % len(works)]()
            marks[i + 1].record()
        torch.cuda.synchronize()
        taken = [a.elapsed_time(b) * 1e3 for a, b in zip(marks, marks[1:])]
    else:
        for i in range(repeats):
            begin = time.perf_counter()
            works[i % len(works)]()
            taken.append((time.perf_counter() - begin) * 1e6)
    taken.sort()
    return {"median": statistics.median_low(taken), "p95": taken[(len(taken) - 1) * 95 // 100]}


def replay(work):
    """The work as a graph, captured behind runs that have made what it needs."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def note(name, tokens, works, repeats=REPEATS, asks=False):
    """`asks`: the GPU for a number."""
    graph_us = None
    try:
        us = microseconds(works, repeats)
        if cuda and not asks:
            graph_us = microseconds([replay(work) for work in works], repeats)
    except torch.cuda.OutOfMemoryError:
        us = "out of memory"
    results.append({"peer": name, "tokens": tokens, "us": us, "graph_us": graph_us, "torch": torch.__version__,
                    "device": torch.cuda.get_device_name() if cuda else "cpu"})
    json.dump(results, open(options.json, "w"), indent=1)


def layer(tokens, queries, raw=False):
    def rows(heads, count):
        return torch.randn(heads, count, DIM, dtype=torch.bfloat16)
    made = {"k": rows(KV_HEADS, tokens), "v": rows(KV_HEADS, tokens), "q": rows(KV_HEADS * GROUP, queries)}
    if raw:
        made["k_raw"] = rows(KV_HEADS, tokens)
    return made


with torch.inference_mode():
    for tokens in LENGTHS:
        copies = max(1, min(16, -(-(128 << 20) // (KV_HEADS * tokens * DIM * 4)))) if cuda else 1
        layers = [layer(tokens, eager.WINDOW) for _ in range(copies)]
        for name in ("snapkv", "adakv", "knorm"):
            note("eager " + name, tokens, [lambda one=one: eager.POLICIES[name](one, BUDGET) for one in layers],
                 asks=name == "adakv")

        def fresh_kvec(one):
            one.pop("state", None)
            return eager.POLICIES["kvec"](one, BUDGET)

        note("eager kvec", tokens, [lambda one=one: fresh_kvec(one) for one in layers], asks=True)
        wo = torch.randn(HIDDEN, KV_HEADS * GROUP * DIM, dtype=torch.bfloat16)
        for one in layers:
            one["wo"] = wo
        note("eager criticalkv", tokens, [lambda one=one: eager.POLICIES["criticalkv"](one, BUDGET) for one in layers],
             max(2, REPEATS // 5))
        if tokens == LENGTHS[0]:
            whole = layer(tokens, tokens)
            note("eager h2o", tokens, [lambda: eager.POLICIES["h2o"](whole, BUDGET)], max(2, REPEATS // 10))

        def topk_and_gather(one, score):
            kept = score.topk(BUDGET, dim=1).indices.sort(dim=1).values[..., None].expand(-1, -1, DIM)
            return one["k"].gather(1, kept), one["v"].gather(1, kept)

        scores = torch.randn(KV_HEADS, tokens)
        note("topk and gather", tokens, [lambda one=one: topk_and_gather(one, scores) for one in layers])
        attend = torch.nn.functional.scaled_dot_product_attention

        def decode(one):
            return attend(one["q"][None, :, -1:], one["k"][None], one["v"][None], enable_gqa=True)

        note("scaled_dot_product_attention, one token", tokens, [lambda one=one: decode(one) for one in layers])
        prompt = layer(tokens, tokens)
        note("scaled_dot_product_attention, a prompt", tokens,
             [lambda: attend(prompt["q"][None], prompt["k"][None], prompt["v"][None], is_causal=True, enable_gqa=True)],
             max(2, REPEATS // 5))
