"""warps.py FOLDER...: which kernels of the policies have a form for a warp. Shapes take
turns, KVC_ALL_SHAPES=1: all."""
import glob
import os
import subprocess
import sys

shapes = ["head_dim=128,group=4,dtype=f32", "head_dim=64,group=2,dtype=bf16,cache=paged",
          "head_dim=80,group=7,dtype=f16", "head_dim=20,group=3,dtype=f32,cache=ragged"]

count = 0
files = sorted(path for folder in sys.argv[1:] for path in glob.glob(folder + "/*.mlir"))
for turn, path in enumerate(files):
    for shape in shapes if os.environ.get("KVC_ALL_SHAPES") else [shapes[turn % len(shapes)]]:
        # Not every policy has a variant for caches of rows, or one for prompts.
        plain = shape.split(",cache=")[0]
        for one in dict.fromkeys((shape, plain, plain + ",cache=merged")):
            said = subprocess.run(["kvc-opt", path, "--emit=host", "--remarks", "--shape", one,
                                   "-o", os.devnull], capture_output=True, text=True)
            if said.returncode == 0:
                break
        else:
            sys.exit(said.stderr)
        for line in said.stderr.splitlines():
            if "has no form" in line:
                print(path, shape, line)
            count += " for a warp: " in line and "has no form" not in line
print(count, "kernels have a form for a warp")
