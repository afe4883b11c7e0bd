"""chunked.py RESULTS.json...: the table of bench/chunked from its results, BUDGETS.HOW.json: per cent of
answers that are right, and the most that the cache has held, in KiB, means over all prompts."""
import json
import os
import sys

files = [(os.path.basename(path).split(".")[-2], json.load(open(path))) for path in sys.argv[1:]]
samples = files[0][1]["samples"]
tasks = list(dict.fromkeys(sample["task"] for sample in samples))


def mean(results, cell, name, wanted):
    values = [c[name] for s in results["samples"] if s["task"] in wanted for c in s["cells"]
              if (c["policy"], c["budget"]) == cell]
    return sum(values) / len(values)


def line(cell, how, results):
    scores = [100 * mean(results, cell, "score", [task]) for task in tasks]
    peak = mean(results, cell, "cache_bytes_peak", tasks) / 1024
    return "| " + " | ".join([*cell, how, *(f"{s:.0f}" for s in scores), f"{sum(scores) / len(scores):.1f}", f"{peak:.0f}"]) + " |"


print(f"{sum(s['task'] == tasks[0] for s in samples)} prompts of each task")
print("| policy | budget | read | " + " | ".join(tasks) + " | all | peak KiB |")
print("|---|---:|---|" + "---:|" * (len(tasks) + 2))
print(line(("full", "100%"), "at once", files[0][1]))
for policy in ("snapkv", "criticalkv"):
    for budget in dict.fromkeys(b for _, results in files for b in results["budgets"]):
        for how, results in files:
            if budget in results["budgets"]:
                print(line((policy, budget), "at once" if how == "once" else f"chunks of {how}", results))
