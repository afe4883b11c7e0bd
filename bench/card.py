"""card.py OUT [--seconds 540] [--parts smoke,constants,...]: all that is to be run on a machine with a GPU, the most
telling first, until the time is over. `tools/gpu-check` packs it with what it runs. Nothing is installed, no setting of
the card is touched.

Parts, in their order unless --parts has another:

    smoke      every policy once, some kernels for their answers, each beside the others: is it right at all
    constants  what the cost model rests on
    layers     the policies of the README at 4K and 32K
    attention  calls of kvc_attend
    peers      the same in PyTorch
    checks     everything else that must be right, as many at once as there are processors; with them the shapes of the
               matrix test and the golden kept sets
    counters   what Nsight Compute counts in the kernels of some policies at 32K
    others     the other policies at 4K and 32K
    longest    128K
    executor   a model: prefill, eviction, decoding
    sanitizer  compute-sanitizer on each policy, as many at once

OUT gets at most 8 files, each written again behind every step, so that what was done is kept whenever it ends:

    run.json         device, driver, clocks, commit, command line; what ran, how it ended, how long it took; steps that
                     did not run any more, by name
    layers.json      `kvc-run measure`, of every policy and length
    attention.json   `kvc-run measure-attention`
    card.json        `kvc-run measure-card`: the constants of the cost model
    peers.json       the same layers in PyTorch (peers.py)
    executor.md      the tables of executor.py
    counters.csv     of Nsight Compute
    log.txt          the end of what each step has printed
"""
import argparse
import concurrent.futures
import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PARTS = ("smoke", "constants", "layers", "attention", "peers", "checks", "counters", "others", "longest", "executor",
         "sanitizer")
parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--seconds", type=int, default=540)
parser.add_argument("--parts", default=",".join(PARTS))
parser.add_argument("--small", action="store_true", help="short lengths, for a rehearsal")
options = parser.parse_args()
wanted = options.parts.split(",")
if set(wanted) - set(PARTS):
    parser.error(f"--parts must be of {','.join(PARTS)}, got {options.parts}")
deadline = time.monotonic() + options.seconds
os.makedirs(options.out, exist_ok=True)
fake = os.environ.get("KVC_FAKE_CUDA", "")
scratch = tempfile.TemporaryDirectory()
steps, log, written = [], [], threading.Lock()


# cuBLASLt may be there as a part of PyTorch alone.
cublas = [os.path.dirname(path) for place in sys.path for path in glob.glob(place + "/nvidia/*/lib/libcublasLt.so.*")]
plain = dict(os.environ, KVC_FIXTURES=ROOT + "/test/models", PYTHONUNBUFFERED="1",
             PATH=ROOT + "/bin:" + os.environ["PATH"])
environment = dict(plain, LD_LIBRARY_PATH=":".join(
    filter(None, [fake, ROOT + "/lib", *cublas[:1], os.environ.get("LD_LIBRARY_PATH")])))


def write(name, value):
    path = f"{options.out}/{name}"
    with open(path + ".part", "w") as file:
        file.write(value if isinstance(value, str) else json.dumps(value, indent=1) + "\n")
    os.replace(path + ".part", path)


def note(step, text=""):
    with written:
        steps.append(step)
        if text:
            log.append(f"== {step['step']}: {step['status']}\n{text[-3000:]}\n")
        write("run.json", {**about, "steps": steps})
        write("log.txt", "".join(log))
    print(step["step"], step["status"], flush=True)


def run(name, command, most, least=5, variables=environment):
    """A command that may take `most` seconds, and is not begun with less than `least`. What it has printed, or None."""
    left = deadline - time.monotonic()
    if left < least:
        return note({"step": name, "status": "not run"})
    begin = time.monotonic()
    process = subprocess.Popen(command, env=variables, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=min(most, left))
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        printed, _ = process.communicate()
        status = "out of time"
    note({"step": name, "status": status, "seconds": round(time.monotonic() - begin, 1)}, printed)
    return printed if status == 0 else None


def together(works):
    """Functions, as many at once as there are processors: they are right or wrong, their times say nothing."""
    with concurrent.futures.ThreadPoolExecutor(1 if fake else os.cpu_count()) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


def collect(name, file, command, most=90, variables=environment):
    """Adds what a command writes to --json to one of the results."""
    part = f"{scratch.name}/part.json"
    if run(name, [*command, "--json", part], most, variables=variables) is not None:
        path = f"{options.out}/{file}"
        before = json.load(open(path)) if os.path.exists(path) else []
        write(file, before + json.load(open(part)))


def device():
    query = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,temperature.gpu"
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    found = dict(zip(query.split(","), (part.strip() for part in text.split(",")))) if text else {"name": "unknown"}
    return {**found, "commit": open(ROOT + "/commit").read().strip(),
            "command": f"card.py --parts {options.parts} --seconds {options.seconds}" + " --small" * options.small,
            "date": time.strftime("%Y-%m-%d %H:%M")}


POLICIES = sorted(name[:-3] for name in os.listdir(ROOT + "/layers") if name.endswith(".so"))
FIRST = [name for name in ("snapkv", "adakv", "kvec", "keydiff", "expected_attention", "criticalkv", "lagkv")
         if name in POLICIES]
SLOW = {"h2o", "ems", "ems_nopos", "defensivekv"}  # milliseconds a layer, and more with the square of its tokens
SLOWER = SLOW | {name for name in POLICIES if name.startswith("critical")}
FILES = [path for folder in ("policies", "policies/merged") for path in sorted(glob.glob(f"{ROOT}/{folder}/*.mlir"))]


def measured(policy, tokens, repeats, budget=1024, few=options.small):
    """`few`: heads, and little of the output projection."""
    return ["kvc-run", "measure", "--policy", f"layers/{policy}.so", "--tokens", tokens, "--budget", str(budget),
            "--repeats", str(repeats), *(["--kv-heads", "2", "--hidden", "256"] if few else [])]


def measure(policies, tokens):
    for policy in policies:
        repeats = 5 if options.small else 20 if policy in SLOWER else 100
        collect(f"measure {policy} {tokens}", "layers.json", measured(policy, tokens, repeats))


def once(policy):
    """A layer with few tokens and heads."""
    return measured(policy, "600", 1, budget=128, few=True)


def check(name, *policies, most=200):
    """One of the checks of gpu.py, in a folder of its own, where the policies are packed that it is about."""
    paths = [path for path in FILES if os.path.basename(path)[:-5] in policies]
    title = " ".join([name, *policies])
    if len(paths) < len(policies):
        return
    work = tempfile.mkdtemp(dir=scratch.name)
    for path in glob.glob(ROOT + "/work/*"):
        os.symlink(path, f"{work}/{os.path.basename(path)}")
    run(title, [sys.executable, "test/Inputs/gpu.py", name, "models", fake, work, *paths], most)


def kernels(shard, count):
    variables = {**environment, "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(shard)}
    run(f"kernels, {shard + 1} of {count}", ["gpu_test", "--gtest_brief=1"], 200, variables=variables)


def missing(step, what):
    """Says that a step is not run where something is not there."""
    note({"step": step, "status": "not run", "why": "no " + what})


def tool(name):
    """One of the card's maker; None: it is not there."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def in_torch(name):
    """One of the checks of torch_gpu.py: the Python package over tensors on the GPU."""
    package = name if name == "transformers" else "torch"
    if importlib.util.find_spec(package) is None:
        return missing(f"python {name}", package)
    variables = {**plain, "KVC_HOME": ROOT, "PYTHONPATH": ROOT + "/python"}
    run(f"python {name}", [sys.executable, "test/Inputs/torch_gpu.py", name, "cpu" if fake else "cuda", "models", "work"],
        200, variables=variables)


def smoke():
    # Longest first. The driver keeps what it compiles here, and need not do it again while times are taken.
    together([lambda: run("kernels, some", ["gpu_test", "--gtest_brief=1",
                                            "--gtest_filter=*Attention*bf16:*View*bf16:*AtOnce*"], 90),
              *[lambda one=one: check("apply", one, most=90) for one in ("snapkv", "adakv")],
              *[lambda one=one: run(f"once {one}", once(one), 60) for one in POLICIES]])


def constants():
    collect("constants", "card.json", ["kvc-run", "measure-card", *(["--small"] if options.small else [])])


SHORT, LONG, LONGEST = ("128", "200", "300") if options.small else ("4096", "32768", "131072")


def layers():
    measure(FIRST, f"{SHORT},{LONG}")


def attention():
    repeats = ["--repeats", "2" if options.small else "30"]
    for rows, queries in ((f"{SHORT},{LONG}", "1"), (SHORT, "0"), (LONG, "0")):
        collect(f"attention {rows} rows, {queries} queries", "attention.json",
                ["kvc-run", "measure-attention", "--rows", rows, "--queries", queries, *repeats])
    for extra in (["--skew", "8"], ["--page", "16"]):
        collect("attention " + " ".join(extra), "attention.json",
                ["kvc-run", "measure-attention", "--rows", LONG, *extra, *repeats])


def peers():
    if importlib.util.find_spec("torch") is None:
        return missing("peers", "PyTorch")
    collect("peers", "peers.json", [sys.executable, "bench/peers.py", *(["--small"] if options.small else [])], 150,
            variables=plain)


def checks():
    shards = 1 if fake else 8
    every = [os.path.basename(path)[:-5] for path in FILES]
    plainly = [os.path.basename(path)[:-5] for path in FILES if "/merged/" not in path]
    together([*[lambda i=i: kernels(i, shards) for i in range(shards)],
              *[lambda one=one: check("over_time", one) for one in ("snapkv", "headkv", "kvec", "keydiff", "lagkv")],
              *[lambda one=one: check("sessions", one) for one in ("adakv", "ems")],
              lambda: check("merged", "ems", "ems_decode"), lambda: check("eval", "adakv", "ems"),
              *[lambda one=one: check("policies", one) for one in plainly],
              *[lambda one=one: check("apply", one) for one in plainly],
              *[lambda one=one: check("matrix", one) for one in every],
              *[lambda one=one: check("golden", one) for one in plainly],
              *[lambda one=one: in_torch(one) for one in ("plans", "attention", "transformers")],
              lambda: check("plain"), lambda: check("dump")])


def counters():
    """Of one layer's launches, the first that there are; each of them runs alone, with a cold cache."""
    if (ncu := tool("ncu")) is None:
        return missing("counters", "ncu")
    text, part = "", f"{scratch.name}/counters.csv"
    sections = ["SpeedOfLight", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "SchedulerStats", "WarpStateStats",
                "InstructionStats", "LaunchStats", "Occupancy"]
    attend = ["kvc-run", "measure-attention", "--repeats", "1", "--rows"]
    works = {"attention, one token": [*attend, LONG], "attention, a prompt": [*attend, SHORT, "--queries", "0"],
             **{name: measured(name, LONG, 1) for name in (*FIRST, "h2o", "ems") if name in POLICIES}}
    for name, work in works.items():
        run(f"counters {name}", [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--log-file", part,
                                 *(word for one in sections for word in ("--section", one)), "--launch-count",
                                 "16" if name == "ems" else "8", *work], 60, least=15)
        if os.path.exists(part):
            text += f"== {name}\n{open(part).read()}"
            os.remove(part)
            write("counters.csv", text)


def others():
    measure([name for name in POLICIES if name not in FIRST], f"{SHORT},{LONG}")


def longest():
    measure([*FIRST, *(name for name in POLICIES if name not in SLOW and name not in FIRST)], LONGEST)


def executor():
    table = run("executor", [sys.executable, "bench/executor.py", "bin", "--compiled", "layers",
                             *(["--small", "--policies", "snapkv", "--tokens", f"{SHORT},{LONG}"]
                               if options.small else [])], 240)
    if table:
        write("executor.md", table)


def sanitizer():
    """Races and reads outside, as the tools of the card's maker see them."""
    if (checker := tool("compute-sanitizer")) is None:
        return missing("sanitizer", "compute-sanitizer")
    together([lambda one=one, kind=kind: run(f"{kind} {one}", [checker, "--tool", kind, "--error-exitcode", "9", *once(one)],
                                             120)
              for one in POLICIES for kind in ("memcheck", "racecheck")])


about = device()
for part in wanted:
    globals()[part]()
ended = {"passed": 0, "failed": 0, "out of time": 0, "not run": 0}
for step in steps:
    ended["passed" if step["status"] == 0 else step["status"] if step["status"] in ended else "failed"] += 1
print(", ".join(f"{count} {how}" for how, count in ended.items()))
sys.exit(ended["failed"] > 0)
