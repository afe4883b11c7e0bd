"""evaluate.py MODELS POLICY DIR: kvc-run eval, stopped and gone on; its results."""
import json
import os
import signal
import subprocess
import sys
import time

models, policy, folder = sys.argv[1:4]
os.makedirs(folder, exist_ok=True)
prompts, tasks = open(models + "/tasks/256.jsonl").read(), folder + "/tasks.jsonl"
assert "8264" in prompts
open(tasks, "w").write(prompts)


def command(name, *more):
    return ["kvc-run", "eval", "--model", models + "/needle", "--policy", policy, "--budgets", "10%,64",
            "--tasks", tasks, "--limit", "3", "--mode", "both", "--target", "host",
            "--results", f"{folder}/{name}.json", *more]


def scores(name):
    doc = json.load(open(f"{folder}/{name}.json"))
    return doc["scores"], [[(c["policy"], c["budget"], c["score"], c["prediction"]) for c in s["cells"]]
                           for s in doc["samples"]]


whole = subprocess.run(command("whole"), check=True, capture_output=True, text=True)
assert "single, question-aware, n = 3" in whole.stdout and "alias, question-agnostic" in whole.stdout, whole.stdout
for leftover in ("whole.json.part", "stopped.json", "stopped.json.part"):
    if leftover.startswith("whole"):
        assert not os.path.exists(f"{folder}/{leftover}")
    elif os.path.exists(f"{folder}/{leftover}"):
        os.remove(f"{folder}/{leftover}")
part = f"{folder}/stopped.json.part"
for lines, sent in ((2, signal.SIGINT), (4, signal.SIGTERM), (6, signal.SIGHUP), (8, signal.SIGKILL)):
    # A shell's background job would ignore SIGINT.
    process = subprocess.Popen(command("stopped"), stdout=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while not os.path.exists(part) or open(part, "rb").read().count(b"\n") < lines:
        assert process.poll() is None, "finished before it could be stopped"
        time.sleep(0.005)
    process.send_signal(sent)
    assert process.wait() == -sent
    assert not os.path.exists(f"{folder}/stopped.json")
done = open(part, "rb").read()
with open(part, "ab") as file:
    file.write(b'{"key": "aware half a li')  # what a stop in the middle of a write leaves
other = subprocess.run(command("stopped", "--seed", "7"), capture_output=True, text=True)
assert other.returncode == 1 and "another setup (seed)" in other.stderr, other.stderr
open(tasks, "w").write(prompts.replace("8264", "8265"))
changed = subprocess.run(command("stopped"), capture_output=True, text=True)
assert changed.returncode == 1 and "another setup (prompts)" in changed.stderr, changed.stderr
open(tasks, "w").write(prompts)
subprocess.run(command("stopped"), check=True, capture_output=True)
assert scores("stopped") == scores("whole")
# A record that is none.
with open(part, "wb") as file:
    file.write(done[:done.index(b"\n") + 1] + b'{"key": "aware x"}\n')
broken = subprocess.run(command("stopped"), capture_output=True, text=True)
assert broken.returncode == 1 and "must hold what an earlier run wrote" in broken.stderr, broken.stderr
doc = json.load(open(f"{folder}/whole.json"))
assert len(doc["samples"]) == 30 and len(doc["scores"]) == 5 * 2 * 3
layers = doc["layers"][0]["layers"]
assert len(layers) == 4 and len(layers[0]["retention"]) == 4 and len(layers[0]["retention"][0]) == 64
assert layers[0]["perturbation"] > 0 and 0 < layers[0]["coverage"] <= 1
full = [s for s in doc["scores"] if s["policy"] == "full" and s["task"] == "single"]
assert all(s["mean"] == 1 for s in full), full
print("eval went on")
