"""card.py OUT [--seconds 540]: all that is to be run on a machine with a GPU, the most telling first, until the time
is over. `tools/gpu-check` packs it with what it runs. Nothing is installed, no setting of the card is touched.

OUT gets at most 8 files, each written again behind every step, so that what was done is kept whenever it ends:

    steps.json       what ran, how it ended, how long it took; steps that did not run any more, by name
    device.json      name, driver, clocks, commit, command line
    layers.json      `kvc-run measure`, of every policy and length
    attention.json   `kvc-run measure-attention`
    card.json        `kvc-run measure-card`: the constants of the cost model
    peers.json       the same layers in PyTorch (peers.py)
    executor.md      the tables of executor.py
    log.txt          the end of what each step has printed
"""
import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--seconds", type=int, default=540)
parser.add_argument("--small", action="store_true", help="short lengths, for a rehearsal")
options = parser.parse_args()
deadline = time.monotonic() + options.seconds
os.makedirs(options.out, exist_ok=True)
fake = os.environ.get("KVC_FAKE_CUDA", "")
environment = dict(os.environ, KVC_FIXTURES=ROOT + "/test/models", PYTHONUNBUFFERED="1",
                   PATH=ROOT + "/bin:" + os.environ["PATH"],
                   LD_LIBRARY_PATH=":".join(filter(None, [fake, ROOT + "/lib", os.environ.get("LD_LIBRARY_PATH", "")])))
steps, log = [], []


def write(name, value):
    path = f"{options.out}/{name}"
    with open(path + ".part", "w") as file:
        file.write(value if isinstance(value, str) else json.dumps(value, indent=1) + "\n")
    os.replace(path + ".part", path)


def run(name, command, most, least=5):
    """A command that may take `most` seconds, and is not begun with less than `least`. What it has printed, or None."""
    left = deadline - time.monotonic()
    if left < least:
        steps.append({"step": name, "status": "not run"})
        write("steps.json", steps)
        return None
    begin = time.monotonic()
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=min(most, left))
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        printed, _ = process.communicate()
        status = "out of time"
    steps.append({"step": name, "status": status, "seconds": round(time.monotonic() - begin, 1)})
    log.append(f"== {name}: {status}\n{printed[-3000:]}\n")
    write("steps.json", steps)
    write("log.txt", "".join(log))
    print(name, status, flush=True)
    return printed if status == 0 else None


def collect(name, file, command, most=90):
    """Adds what a command writes to --json to one of the results."""
    part = f"{options.out}/.part.json"
    if run(name, [*command, "--json", part], most) is not None:
        path = f"{options.out}/{file}"
        before = json.load(open(path)) if os.path.exists(path) else []
        write(file, before + json.load(open(part)))
    if os.path.exists(part):
        os.remove(part)


def device():
    query = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,temperature.gpu"
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    found = dict(zip(query.split(","), (part.strip() for part in text.split(",")))) if text else {"name": "unknown"}
    write("device.json", {**found, "commit": open(ROOT + "/commit").read().strip(),
                          "command": " ".join(sys.argv), "date": time.strftime("%Y-%m-%d %H:%M")})


POLICIES = sorted(name[:-3] for name in os.listdir(ROOT + "/layers") if name.endswith(".so"))
FIRST = [name for name in ("snapkv", "adakv", "kvec", "keydiff", "expected_attention", "criticalkv", "lagkv")
         if name in POLICIES]
SLOW = {"h2o", "ems", "ems_nopos", "defensivekv"}  # milliseconds a layer


def measure(policies, tokens, most=90):
    for policy in policies:
        repeats = "5" if options.small else "30" if policy in SLOW else "100"
        collect(f"measure {policy} {tokens}", "layers.json",
                ["kvc-run", "measure", "--policy", f"layers/{policy}.so", "--tokens", tokens, "--budget", "1024",
                 "--repeats", repeats, *(["--kv-heads", "2", "--hidden", "256"] if options.small else [])], most)


def check(name, *arguments, most=200):
    """One of the checks of gpu.py, where a policy is packed that it is about."""
    if len(arguments) > 1 or name in ("plain", "dump"):
        run(name, [sys.executable, "test/Inputs/gpu.py", arguments[0], "models", fake, "work", *arguments[1:]], most)


def packed(*names):
    return [path for path in (f"policies/{name}.mlir" for name in names) if os.path.exists(f"{ROOT}/{path}")]


SHORT, LONG, LONGEST = ("128", "200", "300") if options.small else ("4096", "32768", "131072")
device()
# Right first: what is wrong need not be timed.
run("kernels, some", ["gpu_test", "--gtest_brief=1", "--gtest_filter=*Attention*bf16:*View*bf16:*AtOnce*"], 90)
check("apply, some", "apply", *packed("snapkv", "adakv"), most=90)
# What the estimates rest on, and what decides the ranking of kernels.
collect("constants", "card.json", ["kvc-run", "measure-card", *(["--small"] if options.small else [])])
measure(FIRST, f"{SHORT},{LONG}")
for rows, queries in ((f"{SHORT},{LONG}", "1"), (SHORT, "0"), (LONG, "0")):
    collect(f"attention {rows} rows, {queries} queries", "attention.json",
            ["kvc-run", "measure-attention", "--rows", rows, "--queries", queries, "--repeats",
             "2" if options.small else "30"])
for extra in (["--skew", "8"], ["--page", "16"]):
    collect("attention " + " ".join(extra), "attention.json",
            ["kvc-run", "measure-attention", "--rows", LONG, *extra, "--repeats", "2" if options.small else "30"])
# What a user would take in our place, on the same card.
if importlib.util.find_spec("torch") is None:
    steps.append({"step": "peers", "status": "not run", "why": "no PyTorch"})
else:
    collect("peers", "peers.json", [sys.executable, "bench/peers.py", *(["--small"] if options.small else [])], 150)
# Everything else that must be right.
run("kernels", ["gpu_test", "--gtest_brief=1"], 200)
check("apply", "apply", "policies")
check("policies", "policies", "policies")
check("sessions", "sessions", *packed("adakv", "ems"))
check("over time", "over_time", *packed("snapkv"))
both = packed("ems", "merged/ems_decode")
check("merged", "merged", *both if len(both) == 2 else [])
# The rest of the times.
measure([name for name in POLICIES if name not in FIRST], f"{SHORT},{LONG}")
measure(POLICIES, LONGEST)
table = run("executor", [sys.executable, "bench/executor.py", "bin", "--compiled", "layers",
                         *(["--small", "--policies", "snapkv"] if options.small else [])], 240)
if table:
    write("executor.md", table)
# Races and reads outside, as the tools of the card's maker see them.
sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
for policy in POLICIES if sanitizer else []:
    for tool in ("memcheck", "racecheck"):
        run(f"{tool} {policy}", [sanitizer, "--tool", tool, "--error-exitcode", "9", "kvc-run", "measure", "--policy",
                                 f"layers/{policy}.so", "--tokens", "600", "--budget", "128", "--kv-heads", "2",
                                 "--hidden", "256", "--repeats", "1"], 60)
for name, *arguments in (("plain", "plain"), ("eval", "eval", *packed("adakv", "ems")), ("dump", "dump")):
    check(name, *arguments)
ended = {"passed": 0, "failed": 0, "out of time": 0, "not run": 0}
for step in steps:
    ended["passed" if step["status"] == 0 else step["status"] if step["status"] in ended else "failed"] += 1
print(", ".join(f"{count} {how}" for how, count in ended.items()))
sys.exit(ended["failed"] > 0)
