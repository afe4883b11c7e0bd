"""What a prompt's cache holds behind an eviction, in kvpress and in kvc.transformers.

    build/python/kvpress/bin/python bench/held.py [BUDGET]

BUDGET is a share of the prompt, 0.2 by default. Prints a table of Markdown: bytes of keys and
values of the demo prompt of models/needle, in f32. `tools/python kvpress` makes the environment;
KVC_HOME names a build folder.
"""

import pathlib
import sys
from fractions import Fraction

import kvpress
import torch
import transformers

from kvc.transformers import KvcCache

models = pathlib.Path(__file__).resolve().parents[1] / "models"
share = Fraction(sys.argv[1] if len(sys.argv) > 1 else "0.2")
ratio = float(1 - share)
transformers.logging.set_verbosity_error()
torch.set_grad_enabled(False)


def load(attention):
    return transformers.AutoModelForCausalLM.from_pretrained(
        models / "needle", dtype="float32", attn_implementation=attention
    )


tokenizer = transformers.AutoTokenizer.from_pretrained(models / "needle")
ids = tokenizer(open(models / "needle/demo-prompt.txt").read(), return_tensors="pt")["input_ids"]


def theirs(press):
    """Of a press: the cache's keys and values, masked ones too."""
    model = load("sdpa")
    cache = transformers.DynamicCache(config=model.config)
    with press(model):
        model.model(ids, past_key_values=cache)
    return sum(tensor.nbytes for layer in cache.layers for tensor in (layer.keys, layer.values))


def ours(policy):
    """Of a policy: keys and values of the kept rows, and all else that is held."""
    model = load("kvc")
    cache = KvcCache(model, policy, share)
    model(ids, past_key_values=cache)
    cache.finish()
    kept = sum(len(head) for layer in range(len(cache.layers)) for head in cache.kept(layer)[0])
    rows = kept * 2 * model.config.head_dim * model.dtype.itemsize
    return rows, cache.bytes() - rows


def snapkv():
    return kvpress.SnapKVPress(ratio, window_size=32)


PAIRS = {
    "snapkv": snapkv(),
    "criticalkv": kvpress.CriticalKVPress(snapkv()),
    "adakv": kvpress.AdaKVPress(snapkv()),
    "critical_adakv": kvpress.CriticalAdaKVPress(snapkv()),
}
full = theirs(kvpress.KnormPress(0.0))
print(f"| {ids.shape[1]} tokens, budget {float(share):g} | kvpress | `kvc.transformers` | and which tokens they are |")
print("|---|---:|---:|---:|")
for policy, press in PAIRS.items():
    rows, numbers = ours(policy)
    print(f"| `{policy}` | {theirs(press):,} of {full:,} | {rows:,} | {numbers:,} |")
