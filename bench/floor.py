"""What no implementation of a policy of host.py goes below on this machine: its matrix products in fp32 by the BLAS
behind NumPy, the exponential of each attention weight by NumPy, and reading K once, one after the other, on all
cores. Nothing is reduced, ranked or copied."""
import concurrent.futures
import os

import numpy as np

WINDOW = 32
CORES = len(os.sched_getaffinity(0))
POOL = concurrent.futures.ThreadPoolExecutor(CORES)


def blas():
    """The library behind NumPy, as far as the names of what the process has loaded tell."""
    paths = {os.path.realpath(line.split()[-1]) for line in open("/proc/self/maps") if "blas" in line}
    return "OpenBLAS" if any("openblas" in path for path in paths) else ", ".join(paths) or "an unknown BLAS"


def on_cores(function, array):
    """Of rows, a part for each core."""
    list(POOL.map(function, np.array_split(array, CORES)))


def read(layer):
    """`stored` is K in the policy's type."""
    on_cores(lambda part: np.bitwise_or.reduce(part), layer["stored"]["k"].reshape(-1).view(np.uint64))


def weights(layer, begin, end, room):
    """Of the queries from `begin` to `end`, which see no token behind them."""
    heads, kv_heads = layer["q"].shape[0], layer["k"].shape[0]
    first = layer["k"].shape[1] - layer["q"].shape[1]  # token of the first query that is there
    for g in range(kv_heads):
        group = slice(g * heads // kv_heads, (g + 1) * heads // kv_heads)
        q = layer["q"][group, begin - first : end - first].reshape(-1, layer["q"].shape[2])
        out = room[: len(q) * end].reshape(len(q), end)
        np.matmul(q, layer["k"][g, :end].T, out=out)
        on_cores(lambda part: np.exp(part, out=part), out)


def window(layer):
    tokens = layer["k"].shape[1]
    group = layer["q"].shape[0] // layer["k"].shape[0]
    weights(layer, tokens - WINDOW, tokens, layer["room"](group * WINDOW * tokens))
    read(layer)


def all_queries(layer):
    tokens, step = layer["k"].shape[1], 256
    room = layer["room"](layer["q"].shape[0] // layer["k"].shape[0] * step * tokens)
    for begin in range(0, tokens, step):
        weights(layer, begin, min(begin + step, tokens), room)
    read(layer)


def projected(layer):
    """V times the output projection, of each query head."""
    window(layer)
    (kv_heads, tokens, dim), (hidden, wide) = layer["v"].shape, layer["wo"].shape
    step = 1024
    room = layer["room"](step * hidden)
    for h in range(wide // dim):
        rows, wo = layer["v"][h // (wide // dim // kv_heads)], layer["wo"][:, h * dim : (h + 1) * dim].T
        for begin in range(0, tokens - WINDOW, step):
            part = rows[begin : min(begin + step, tokens - WINDOW)]
            np.matmul(part, wo, out=room[: len(part) * hidden].reshape(len(part), hidden))


def merged(layer):
    """And keys and values of what may be merged times those of the centres."""
    all_queries(layer)
    budget, tokens = layer["budget"], layer["k"].shape[1]
    centres = budget - WINDOW
    sources = min(3 * budget, tokens - WINDOW - centres)
    room = layer["room"](sources * centres)[: sources * centres].reshape(sources, centres)
    for side in ("k_raw", "v"):
        for rows in layer[side]:
            np.matmul(rows[:sources], rows[sources : sources + centres].T, out=room)


POLICIES = {"snapkv": window, "adakv": window, "kvec": window, "criticalkv": projected, "h2o": all_queries, "ems": merged,
            "knorm": read}
