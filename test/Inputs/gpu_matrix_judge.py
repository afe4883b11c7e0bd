"""gpu_matrix_judge.py POLICY.mlir DIR: what gpu_matrix.py must find wrong with a GPU's results, it finds.

The results are the host's, each damaged in one way; undamaged they pass."""
import copy
import os
import struct
import subprocess
import sys

import gpu_matrix
from layers import load, save

path, work = sys.argv[1:]
os.makedirs(work, exist_ok=True)
library = gpu_matrix.compiled(path, work)
policy = gpu_matrix.Policy(path, library)
shape = next([*sizes, dtype.lower()] for (*sizes, dtype), _ in gpu_matrix.shapes_of(path) if dtype != "F32")
tokens, budget, prefix = 200, 80, "layers.0."
given = gpu_matrix.prompt(shape, tokens, "Random", 70, 1, "judge")
save(work + "/in", given, {"rope_theta": gpu_matrix.ROPE_THETA})
subprocess.run(["kvc-run", "apply", "--policy", library, "--input", work + "/in", "--output", work + "/out", "--scores",
                "--budget", str(budget), "--target", "host"], check=True, capture_output=True)
host = load(work + "/out")


def judged(cuda):
    """What the judge says; "" if nothing."""
    judge = gpu_matrix.Judge(policy)
    try:
        judge.layer(host, cuda, given, prefix, policy.slack(shape[3]), (policy.name,))
        judge.end()
    except AssertionError as error:
        return str(error)
    return ""


def damaged(name, form, change):
    cuda = copy.deepcopy(host)
    dtype, extents, raw = cuda[prefix + name]
    values = list(struct.unpack(f"<{len(raw) // struct.calcsize(form)}{form}", raw))
    change(values)
    cuda[prefix + name] = dtype, extents, struct.pack(f"<{len(values)}{form}", *values)
    return cuda


def other_token(indices):
    """The first token that is not kept, in the place of the kept one behind it or before it."""
    missing = next(t for t in range(tokens) if t not in indices[:budget])
    at = next((i for i, t in enumerate(indices[:budget]) if t > missing), budget - 1)
    indices[at] = missing


def scaled(scores):
    scores[7] *= 1.01


def flipped(bits):
    bits[100] ^= 1


def shorter(counts):
    counts[0] -= 1


def swapped(indices):
    indices[0], indices[1] = indices[1], indices[0]


assert judged(copy.deepcopy(host)) == "", judged(copy.deepcopy(host))
for damage, said in ((("indices", "i", other_token), "not the best by their own scores"),
                     (("indices", "i", swapped), "kept tokens ascend"), (("scores", "f", scaled), "score of token"),
                     (("k", "H", flipped), "bytes of k"), (("v", "H", flipped), "bytes of v")):
    assert said in judged(damaged(*damage)), (damage, judged(damaged(*damage)))
assert judged(damaged("counts", "i", shorter)), "a row less"
print("each damage is found")
