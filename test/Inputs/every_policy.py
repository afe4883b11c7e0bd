"""every_policy.py POLICIES MODELS WORK [LENGTH]: every policy runs inside the model
at 5 and 20 % of the cache or at 10 and 40 %, in turn, and the rows that it keeps are
what was asked for in total, but for the policies whose sources drift."""
import glob
import json
import os
import random
import struct
import subprocess
import sys

from layers import save

policies, models, work = sys.argv[1:4]
length = sys.argv[4] if len(sys.argv) > 4 else "256"
os.makedirs(work, exist_ok=True)
drifts = {"adakv-author", "pyramidkv-author"}
layers, heads, group = 4, 4, 2
random.seed(5)
importance = [random.random() for _ in range(layers * heads * group)]
table = os.path.join(work, "table.safetensors")
save(table, {"importance": ("F32", [layers, heads * group],
                            struct.pack(f"<{len(importance)}f", *importance))})
prompts = [json.loads(line) for line in open(f"{models}/tasks/{length}.jsonl")]
prompts = [p["context"] + p["question"] for p in prompts if p["task"] == "single"]
failures = []
for number, path in enumerate(sorted(glob.glob(policies + "/*.mlir"))):
    name = os.path.basename(path)[:-5]
    library = os.path.join(work, name + ".so")
    subprocess.run(["kvc-opt", path, "--emit=library", "--chip=none", "--host-forms=threads", "--shape",
                    "head_dim=32,group=2,dtype=f32", "-o", library], check=True)
    needs_table = '"table"' in subprocess.run(
        ["kvc-opt", path, "--emit=manifest", "--shape", "head_dim=32,group=2,dtype=f32"],
        check=True, capture_output=True, text=True).stdout
    for keep, prompt in list(zip(("0.05", "0.1", "0.2", "0.4"), prompts))[number % 2::2]:
        result = os.path.join(work, "run.json")
        command = ["kvc-run", "generate", "--model", models + "/needle", "--policy", library,
                   "--keep", keep, "--prompt", prompt, "--max-new-tokens", "4",
                   "--json", result, "--target", "host"]
        run = subprocess.run(command + (["--table", table] if needs_table else []),
                             capture_output=True, text=True)
        if run.returncode:
            failures.append(f"{name} at {keep}: {run.stderr.strip()}")
            continue
        got = json.load(open(result))
        rows = sum(sum(layer) for layer in got["kept"])
        tokens = len(got["prompt_tokens"])
        # The exact share of the decimal text: twentieths.
        asked = tokens * round(float(keep) * 20) // 20
        wanted = layers * heads * (tokens if name == "full" else asked)
        drift = abs(rows - wanted) / wanted
        if rows != wanted and not (name in drifts and drift < 0.2):
            failures.append(f"{name} at {keep}: {rows} rows kept, {wanted} asked for")
print(len(failures), "failures")
sys.exit("\n".join(failures) if failures else 0)
