"""chunked.py RESULTS.json...: the table of bench/chunked, a column for each results file: per cent of
answers that are right, and the most that the cache has held, in KiB, means over all prompts."""
import json
import os
import sys

columns = [(os.path.basename(path)[:-5], json.load(open(path))) for path in sys.argv[1:]]
samples = columns[0][1]["samples"]
tasks = list(dict.fromkeys(sample["task"] for sample in samples))
cells = [(cell["policy"], cell["budget"]) for cell in samples[0]["cells"]]


def mean(results, cell, name, wanted):
    values = [c[name] for s in results["samples"] if s["task"] in wanted for c in s["cells"]
              if (c["policy"], c["budget"]) == cell]
    return sum(values) / len(values)


print(f"{sum(s['task'] == tasks[0] for s in samples)} prompts of each task")
print("| policy | budget | read | " + " | ".join(tasks) + " | all | peak KiB |")
print("|---|---:|---|" + "---:|" * (len(tasks) + 2))
for cell in cells:
    for name, results in columns:
        scores = [100 * mean(results, cell, "score", [task]) for task in tasks]
        read = "at once" if name == "once" else f"chunks of {name}"
        print(f"| {cell[0]} | {cell[1]} | {read} | " + " | ".join(f"{s:.0f}" for s in scores) +
              f" | {sum(scores) / len(scores):.1f} | {mean(results, cell, 'cache_bytes_peak', tasks) / 1024:.0f} |")
