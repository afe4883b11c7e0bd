"""bad_caches.py MODELS CACHE MERGED DIR: kvc-run generate on lying copies of a saved cache
and of one of a merging policy."""
import os
import struct
import subprocess
import sys

from layers import load, save

models, plain, merged, folder = sys.argv[1:5]
os.makedirs(folder, exist_ok=True)
metadata = {"kvc_cache": "1", "architecture": "LlamaForCausalLM", "layers": "4"}


def attempt(good, name, change, position="1025"):
    tensors = load(good)
    change(tensors)
    save(f"{folder}/{name}", tensors, dict(metadata, position=position))
    return subprocess.run(["kvc-run", "generate", "--model", models + "/needle", "--load-cache", f"{folder}/{name}",
                           "--max-new-tokens", "1", "--target", "host"], capture_output=True, text=True, timeout=60)


def number(name, index, value):
    """One number of an I32 tensor."""
    def change(tensors):
        dtype, shape, raw = tensors[name]
        tensors[name] = (dtype, shape, raw[:4 * index] + struct.pack("<i", value) + raw[4 * index + 4:])
    return change


def reshape(name, dtype, shape, count):
    return lambda tensors: tensors.update({name: (dtype, shape, bytes(count))})


cases = [
    (plain, "2049", "position must be 0 to 2048, got '2049'"),
    (plain, "-1", "position must be 0 to 2048, got '-1'"),
    (plain, lambda t: t.pop("layers.3.v"), "tensor 'layers.3.v' is missing"),
    (plain, lambda t: t.pop("logits"), "tensor 'logits' is missing"),
    (plain, reshape("logits", "F32", [1441], 4 * 1441), "tensor 'logits' must be F32 [1442], got F32 [1441]"),
    (plain, reshape("layers.0.counts", "I32", [3], 12), "tensor 'layers.0.counts' must be I32 [4], got I32 [3]"),
    (plain, number("layers.0.counts", 0, -1), "layers.0.counts must be 0 to 1025, got -1"),
    (plain, number("layers.0.counts", 0, 1026), "layers.0.counts must be 0 to 1025, got 1026"),
    (plain, number("layers.0.counts", 0, 0), "tensor 'layers.0.k' must be"),
    (plain, number("layers.2.positions", 1, 0), "layers.2.positions must ascend from 0 to 1024 in each head, got 0 behind"),
    (plain, number("layers.2.positions", 0, -1), "in each head, got -1 first in head 0"),
    (plain, number("layers.2.positions", 3, 1025), "in each head, got 1025 behind"),
    (plain, reshape("layers.2.positions", "I32", [1], 4), "tensor 'layers.2.positions' must be I32"),
    (plain, reshape("layers.0.q", "F32", [256], 4 * 256),
     "tensor 'layers.0.q' must have up to 2048 queries for each head, got F32 [256]"),
    (plain, reshape("layers.1.q", "F32", [8, 31, 32], 4 * 8 * 31 * 32), "tensor 'layers.1.q' must be F32 [8, 32, 32]"),
    (merged, number("layers.1.members.counts", 0, 2000), "layers.1.members.counts must be 0 to 1025, got 2000"),
    (merged, number("layers.1.members.row", 0, 1025), "layers.1.members must name rows below"),
    (merged, number("layers.1.members.row", 0, -1), "layers.1.members must name rows below"),
    (merged, number("layers.1.members.position", 0, 1025), "positions below 1025, got 0 and 1025"),
]
for good in (plain, merged):
    result = attempt(good, "good", lambda tensors: None)
    assert result.returncode == 0, result
for i, (good, change, words) in enumerate(cases):
    result = (attempt(good, str(i), lambda tensors: None, position=change) if isinstance(change, str)
              else attempt(good, str(i), change))
    lines = result.stderr.splitlines()
    assert result.returncode == 1 and len(lines) == 1 and lines[0].startswith("error: ") and words in lines[0], (
        words, result)
print(len(cases), "refused")
