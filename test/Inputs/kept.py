"""kept.py REFERENCE POLICY BUDGET INPUT OUTPUT... [--table FILE]: every OUTPUT, which `kvc-run apply` has made of
INPUT, has the tokens that REFERENCE (reference_apply) keeps, in each layer."""
import argparse
import json
import subprocess

from layers import load

parser = argparse.ArgumentParser()
for name in ("reference", "policy", "budget", "source"):
    parser.add_argument(name)
parser.add_argument("outputs", nargs="+")
parser.add_argument("--table", default="-")
given = parser.parse_args()
layers = json.loads(subprocess.check_output([given.reference, given.policy, given.budget, given.table, given.source]))
for path in given.outputs:
    tensors = load(path)
    for layer, want in enumerate(one["kept"] for one in layers):
        numbers = lambda name: memoryview(tensors[f"layers.{layer}.{name}"][2]).cast("i").tolist()
        indices, heads = iter(numbers("indices")), numbers("counts")
        got = [[next(indices) for _ in range(count)] for count in heads]
        differ = [len(set(a) ^ set(b)) for a, b in zip(got, want)]
        assert got == want, f"{path}, layer {layer}: {differ} tokens of each head differ"
print(f"{len(given.outputs)} outputs, {sum(len(head) for one in layers for head in one['kept'])} tokens kept")
