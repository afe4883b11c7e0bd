"""merged.py RESULTS.json...: the table of bench/merged: perplexity of the second half of each text, the mean
over texts of the log-likelihood, and of the most bytes that the cache has held behind the prompt."""
import json
import math
import sys

lines = []
for path in sys.argv[1:]:
    results = json.load(open(path))
    cells = list(dict.fromkeys((c["policy"], c["budget"]) for s in results["samples"] for c in s["cells"]))
    for policy, budget in cells:
        own = [c for s in results["samples"] for c in s["cells"] if (c["policy"], c["budget"]) == (policy, budget)]
        score = sum(c["score"] for c in own) / len(own)
        evict = sum(c["evict_seconds"] for c in own) / len(own)
        lines.append((policy, budget, math.exp(-score), evict, len(own)))
print(f"{lines[0][4]} texts")
print("| policy | rows | perplexity | seconds of evicting |")
print("|---|---:|---:|---:|")
for policy, budget, perplexity, evict, _ in dict.fromkeys(lines):
    if policy != "full" or lines[0][:2] == (policy, budget) and (policy, budget, perplexity, evict, _) == lines[0]:
        print(f"| {policy} | {budget} | {perplexity:.2f} | {evict:.0f} |")
