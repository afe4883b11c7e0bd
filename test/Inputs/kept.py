"""kept.py REFERENCE POLICY BUDGET INPUT OUTPUT...: every OUTPUT, which `kvc-run apply` has made of INPUT, has
the tokens that REFERENCE (reference_apply) keeps in the first layer."""
import json
import subprocess
import sys

from layers import load

reference, policy, budget, source, *outputs = sys.argv[1:]
want = json.loads(subprocess.check_output([reference, policy, budget, "-", source]))[0]["kept"]
for path in outputs:
    tensors = load(path)
    numbers = lambda name: memoryview(tensors["layers.0." + name][2]).cast("i").tolist()
    indices, heads = iter(numbers("indices")), numbers("counts")
    got = [[next(indices) for _ in range(count)] for count in heads]
    assert got == want, f"{path}: {[len(set(a) ^ set(b)) for a, b in zip(got, want)]} tokens of each head differ"
print(f"{len(outputs)} outputs, {sum(map(len, want))} tokens kept")
