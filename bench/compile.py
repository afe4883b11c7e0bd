"""compile.py KVC_OPT [RUNS]: wall time of whole compiler commands, median and 95th
percentile, after one run that warms the page cache."""
import os
import pathlib
import statistics
import subprocess
import sys
import time

root = pathlib.Path(__file__).resolve().parents[1]
compiler, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
shape = "head_dim=128,group=4,dtype=bf16"
commands = [
    ("ptx, sm_90", ["--emit=ptx", "--chip=sm_90", "--shape", shape]),
    ("object, sm_90", ["--emit=object", "--chip=sm_90", "--shape", shape]),
    ("fused", ["--emit=fused"]),
]
print("| policy | command | median s | p95 s |\n|---|---|---|---|")
for policy in sorted((root / "policies").glob("*.mlir")):
    for name, options in commands:
        command = [compiler, str(policy), *options, "-o", os.devnull]
        times = []
        for _ in range(runs + 1):
            start = time.perf_counter()
            subprocess.run(command, check=True)
            times.append(time.perf_counter() - start)
        times = sorted(times[1:])
        p95 = times[min(len(times) - 1, int(0.95 * len(times)))]
        print(f"| {policy.stem} | {name} | {statistics.median(times):.3f} | {p95:.3f} |")
