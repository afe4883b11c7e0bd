"""needle.py MODELS POLICY KEEP TASK LENGTH N LEAST: at least the share LEAST of N
prompts must be answered token for token."""
import json
import subprocess
import sys
import tempfile

models, policy, keep, task, length, count, least = sys.argv[1:8]
right = total = 0
with tempfile.NamedTemporaryFile() as out:
    for line in open(f"{models}/tasks/{length}.jsonl"):
        prompt = json.loads(line)
        if prompt["task"] != task or total == int(count):
            continue
        total += 1
        subprocess.run(["kvc-run", "generate", "--model", models + "/needle", "--policy", policy,
                        "--keep", keep, "--prompt", prompt["context"] + prompt["question"],
                        "--max-new-tokens", "24", "--json", out.name, "--target", "host"],
                       check=True, capture_output=True)
        right += json.load(open(out.name))["text"] == prompt["answer"]
print(f"{right} of {total} right")
assert total == int(count) and right >= float(least) * total
