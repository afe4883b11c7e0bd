"""card_results.py OUT: what bench/card.py has left says what ran, and what did not any more."""
import json
import os
import sys

out = sys.argv[1]
files = os.listdir(out)
assert len(files) <= 8 and not any(name.startswith(".") or name.endswith(".part") for name in files), files
read = {name: json.load(open(f"{out}/{name}")) for name in files if name.endswith(".json")}
run = read["run.json"]
assert all(step["status"] == "not run" or step["seconds"] >= 0 for step in run["steps"])
# Out of time is no failure of what was not begun, and what was begun is said to have been stopped.
ended = [step["status"] for step in run["steps"] if "why" not in step]
begun = [status for status in ended if status != "not run"]
assert len(begun) >= 5 and ended[len(begun):] == ["not run"] * (len(ended) - len(begun)), ended
assert run["commit"] and read["card.json"][0]["launch_gap_us"] > 0
assert [layer["tokens"] for layer in read["layers.json"][:2]] == [128, 200]
assert read["layers.json"][0]["launches"][0]["us"]["median"] > 0
assert read["attention.json"][0]["graph_us"]["p95"] > 0
assert "== constants: 0" in open(out + "/log.txt").read()
print("results are whole")
