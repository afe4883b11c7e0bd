"""merged.py RESULTS.json...: the table of bench/merged: perplexity of the second half of each text, and of all,
from the mean of the log-likelihood; the most bytes that the cache has held."""
import json
import math
import sys

cells = {}
for path in sys.argv[1:]:
    for sample in json.load(open(path))["samples"]:
        for cell in sample["cells"]:
            texts = cells.setdefault((cell["policy"], cell["budget"]), {})
            texts[sample["task"]] = (cell["score"], cell["cache_bytes_peak"])
count = len(next(iter(cells.values())))
print("| policy | rows | " + " | ".join(f"text {i + 1}" for i in range(count)) + " | all | peak KiB |")
print("|---|---:|" + "---:|" * (count + 2))
for (policy, budget), texts in cells.items():
    scores = [score for score, _ in texts.values()]
    scores.append(sum(scores) / count)
    peak = sum(peak for _, peak in texts.values()) / count / 1024
    print(f"| {policy} | {budget} | " + " | ".join(f"{math.exp(-score):.2f}" for score in scores) + f" | {peak:.0f} |")
