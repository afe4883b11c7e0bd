"""orderings.py RESULTS.json A:B [A:B ...]: does policy A answer better than B?

Both have read the same prompts, so differences are paired: per task and budget the mean of
A's score less B's, in points, and its standard error; at the end over all tasks.
"""
import json
import math
import sys

results = json.load(open(sys.argv[1]))
budgets, tasks = results["budgets"], []
scores = {}
for sample in results["samples"]:
    if sample["task"] not in tasks:
        tasks.append(sample["task"])
    for cell in sample["cells"]:
        scores[sample["key"], cell["policy"], cell["budget"]] = cell["score"]


def paired(better, worse, budget, wanted):
    diffs = [scores[s["key"], better, budget] - scores[s["key"], worse, budget]
             for s in results["samples"] if s["task"] in wanted]
    mean = sum(diffs) / len(diffs)
    spread = sum((d - mean) ** 2 for d in diffs) / max(1, len(diffs) - 1)
    return f"{100 * mean:+.1f} ± {100 * math.sqrt(spread / len(diffs)):.1f}"


print("| | task | " + " | ".join(budgets) + " |")
print("|---|---|" + "---:|" * len(budgets))
for pair in sys.argv[2:]:
    better, worse = pair.split(":")
    for name, wanted in [(task, [task]) for task in tasks] + [("all", tasks)]:
        print(f"| {better} - {worse} | {name} | " +
              " | ".join(paired(better, worse, budget, wanted) for budget in budgets) + " |")
