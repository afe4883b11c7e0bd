"""warps.py FILE FOLDER...: which kernels of the policies have a form for a warp. Shapes
take turns, KVC_ALL_SHAPES=1: all. FILE is written over."""
import glob
import os
import subprocess
import sys

shapes = ["head_dim=128,group=4,dtype=f32", "head_dim=64,group=2,dtype=bf16,cache=paged",
          "head_dim=80,group=7,dtype=f16", "head_dim=20,group=3,dtype=f32,cache=ragged"]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


result, *folders = sys.argv[1:]
count = 0
files = sorted(path for folder in folders for path in glob.glob(folder + "/*.mlir"))
for turn, path in enumerate(files):
    for shape in shapes if os.environ.get("KVC_ALL_SHAPES") else [shapes[turn % len(shapes)]]:
        # Not every policy has a variant for caches of rows, or one that kvc-opt reads again.
        for one in (shape, shape.split(",cache=")[0], "head_dim=16,group=1,dtype=f32",
                    "head_dim=2,group=1,dtype=f32,cache=merged"):
            built = run("kvc-opt", path, "--emit=gpu", "--shape", one, "-o", result)
            if built.returncode == 0 and os.path.getsize(result) <= 1 << 20:
                break
        else:
            sys.exit(built.stderr or f"{path}: {os.path.getsize(result)} bytes")
        said = run("kvc-opt", result, "--pass-pipeline=builtin.module("
                   "gpu.module(kvc-expand-math),convert-gpu-to-warps)", "-o", os.devnull)
        if said.returncode:
            sys.exit(said.stderr)
        for line in said.stderr.splitlines():
            if "has no form" in line:
                print(path, shape, line)
            count += " for a warp: " in line and "has no form" not in line
print(count, "kernels have a form for a warp")
