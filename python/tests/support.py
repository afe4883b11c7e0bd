"""What several tests need."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np

import kvc

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = pathlib.Path(os.environ["KVC_HOME"])


def normal(*shape, seed=1, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)


def layer(batch=1, tokens=100, kv_heads=2, group=2, head_dim=16, queries=32, seed=1):
    """q, k, v of a layer of normal numbers."""
    return (
        normal(batch, kv_heads * group, queries, head_dim, seed=seed),
        normal(batch, kv_heads, tokens, head_dim, seed=seed + 1),
        normal(batch, kv_heads, tokens, head_dim, seed=seed + 2),
    )


def compiled(name="snapkv", head_dim=16, group=2, dtype="f32", **more):
    return kvc.compile(name, head_dim=head_dim, group=group, dtype=dtype, **more)


def planned(name="snapkv", kv_heads=2, max_tokens=256, max_batch=2, **more):
    return compiled(name).plan(kv_heads=kv_heads, max_tokens=max_tokens, max_batch=max_batch, **more)


def indices(kept):
    """Kept tokens as lists: [sequence][head]."""
    batch, heads = kept.counts.shape
    return [[kept[b, h].indices.tolist() for h in range(heads)] for b in range(batch)]


def read_safetensors(path):
    raw = pathlib.Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    types = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I32": np.int32}
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            tensors[name] = np.frombuffer(raw[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def make_layers(path, **options):
    """Input of `kvc-run apply`, by the maker that the command tests have."""
    script = ROOT / "test/Inputs/layers.py"
    words = [f"{name}={value}" for name, value in options.items()]
    subprocess.run([sys.executable, script, "make", path, *words], check=True)
    return read_safetensors(path)


@contextlib.contextmanager
def environment(**values):
    """Environment variables for a while; None takes one away."""
    before = {name: os.environ.get(name) for name in values}

    def write(entries):
        for name, value in entries.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = str(value)

    write(values)
    try:
        yield
    finally:
        write(before)


class Case(unittest.TestCase):
    @contextlib.contextmanager
    def refused(self, kind, text):
        """The one exception of that class, its message one line that has `text`."""
        with self.assertRaises(kind) as caught:
            yield
        message = str(caught.exception)
        self.assertIs(type(caught.exception), kind, message)
        self.assertIn(text, message)
        self.assertNotIn("\n", message)
