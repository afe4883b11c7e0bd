"""sessions.py MODELS POLICY DIR: chunks, several questions and saved caches do not change
what is kept or answered; eviction between chunks keeps as many rows."""
import json
import os
import subprocess
import sys

models, policy, folder = sys.argv[1:4]
os.makedirs(folder, exist_ok=True)
questions = ["\nWhat is the special magic number for %s? The special magic number for %s is " % (w, w)
             for w in ("carrot", "needle")]


def run(name, *options):
    out = f"{folder}/{name}.json"
    subprocess.run(["kvc-run", "generate", "--model", models + "/needle", "--max-new-tokens", "6", "--target",
                    "host", "--json", out, *options], check=True, capture_output=True)
    return json.load(open(out))


def asked(*texts):
    return [part for text in texts for part in ("--question", text)]


prompt = ["--prompt-file", models + "/needle/demo-prompt.txt"]
share = ["--policy", policy, "--keep", "0.2"]
one = [run("first", *prompt, *share, *asked(q)) for q in questions]
both = run("both", *prompt, *share, *asked(*questions), "--save-cache", folder + "/cache")
assert [a["tokens"] for a in both["answers"]] == [a["tokens"] for a in one], "a question changes the next one's cache"
loaded = run("loaded", "--load-cache", folder + "/cache", *asked(*questions))
assert loaded["answers"] == both["answers"] and loaded["kept"] == both["kept"], "a loaded cache is another one"
assert loaded["top"] == both["top"]
for size in ("1025", "100", "33"):
    chunked = run("chunked", *prompt, *share, "--chunk", size, *asked(*questions))
    assert chunked["kept"] == both["kept"], size
    assert [a["tokens"] for a in chunked["answers"]] == [a["tokens"] for a in both["answers"]], size
full = run("full", *prompt)
assert run("full-chunked", *prompt, "--chunk", "64")["tokens"] == full["tokens"]
between = run("between", *prompt, *share, "--chunk", "256", "--evict-between")
# With room for all, eviction between chunks changes nothing.
roomy = run("roomy", *prompt, "--policy", policy, "--keep", "1", "--chunk", "256", "--evict-between")
assert roomy["tokens"] == full["tokens"] and abs(roomy["top"][0][1] - full["top"][0][1]) < 1e-3
total = [sum(map(sum, r["kept"])) for r in (both, between)]
assert total[0] == total[1], total
print("sessions agree")
