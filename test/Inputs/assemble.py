"""assemble.py PTXAS DIR... WORK: compiles every policy of the folders to PTX and
assembles it. A spill, an error or a kernel that is missing is a failure."""
import glob
import os
import re
import subprocess
import sys

ptxas, *folders, work = sys.argv[1:]
os.makedirs(work, exist_ok=True)
shapes = ["head_dim=128,group=4,dtype=bf16", "head_dim=64,group=8,dtype=f16",
          "head_dim=80,group=7,dtype=bf16", "head_dim=128,group=4,dtype=f32",
          "head_dim=256,group=2,dtype=bf16"]
failures = assembled = 0


def assemble(policy, chip, shapes, options):
    global failures, assembled
    ptx = os.path.join(work, "kernel.ptx")
    shape_args = [item for shape in shapes for item in ("--shape", shape)]
    subprocess.run(["kvc-opt", policy, "--emit=ptx", "--chip=" + chip, "-o", ptx, *options,
                    *shape_args], check=True)
    result = subprocess.run([ptxas, "-arch=" + chip, "-v", ptx, "-o", ptx + ".cubin"],
                            capture_output=True, text=True)
    spills = re.findall(r"[1-9]\d* bytes spill \w+", result.stderr)
    entries = open(ptx).read().count(".visible .entry")
    assembled += entries
    if result.returncode or spills or entries == 0 or entries % len(shapes):
        failures += 1
        print(policy, chip, *options, entries, "kernels", spills, result.stderr[-400:])


for policy in sorted(path for folder in folders for path in glob.glob(folder + "/*.mlir")):
    for chip in ("sm_80", "sm_90"):
        assemble(policy, chip, shapes, [])
    # Pruned norms are an option; at head_dim 256 a bound spills a few registers.
    if os.path.basename(policy) == "criticalkv.mlir":
        assemble(policy, "sm_90", shapes[:-1], ["--prune-norms"])
print(assembled, "kernels assembled")
sys.exit(failures > 0 or assembled == 0)
