"""From a policy edited in a string to its score and a picture of what it keeps.

    python3 examples/python/retention.py [BUDGET]

Needs torch and transformers; docs/python.md says how to install kvc."""

import json
import pathlib
import sys

import torch
import transformers

import kvc
from kvc.transformers import KvcCache

models = pathlib.Path(__file__).resolve().parents[2] / "models"
budget = sys.argv[1] if len(sys.argv) > 1 else "0.3"
transformers.logging.set_verbosity_error()
model = transformers.AutoModelForCausalLM.from_pretrained(models / "needle", dtype="float32", attn_implementation="kvc")
tokenizer = transformers.AutoTokenizer.from_pretrained(models / "needle")
tasks = [json.loads(line) for line in open(models / "tasks/256.jsonl")][:5]

# SnapKV, and SnapKV with long keys preferred: two lines that were not there.
snapkv = kvc.policies()["snapkv"].read_text()
weighed = snapkv.replace("@snapkv", "@weighed").replace(
    "%score  = kvc.pool max %group",
    "%norm   = kvc.norm l2 key : !scores\n"
    "  %times  = arith.mulf %group, %norm : !scores\n"
    "  %score  = kvc.pool max %times",
)


def answer(task, policy):
    """The tokens behind the question, and the cache: the question is in the prompt."""
    inputs = tokenizer(f"{task['context']} {task['question']}", return_tensors="pt")
    cache = KvcCache(model, policy, budget)
    out = model.generate(**inputs, past_key_values=cache, max_new_tokens=8, do_sample=False)
    return tokenizer.decode(out[0, inputs["input_ids"].shape[1] :]), cache, inputs["input_ids"].shape[1]


def picture(cache, tokens, columns=64):
    """A line per layer: how many of its heads kept the tokens of each place, from " " to "@"."""
    for number, layer in enumerate(cache.layers):
        heads = cache.kept(number)[0]
        density = torch.zeros(tokens)
        for kept in heads:
            density[kept.long()] += 1 / len(heads)
        shares = torch.nn.functional.adaptive_avg_pool1d(density[None], columns)[0]
        print(f"  layer {number} |" + "".join(" .:-=+*#%@"[min(9, int(9.99 * share))] for share in shares) + "|")


for name, text in (("snapkv", snapkv), ("weighed", weighed)):
    answers = [answer(task, text) for task in tasks]
    right = sum(task["answer"].strip() in said for task, (said, *_) in zip(tasks, answers))
    print(f"{name}: {right} of {len(tasks)} right with a budget of {budget}")
    picture(*answers[0][1:])
