"""round_trip.py DIR... WORK: what is compiled from level fused is what is compiled from
the policy, byte for byte."""
import glob
import os
import subprocess
import sys

*folders, work = sys.argv[1:]
os.makedirs(work, exist_ok=True)
fused, straight, again = (os.path.join(work, name) for name in ("fused.mlir", "one", "two"))
gpu = ["--emit=gpu", "--shape", "head_dim=64,group=2,dtype=bf16"]
policies = sorted(path for folder in folders for path in glob.glob(folder + "/*.mlir"))
for policy in policies[::2]:
    subprocess.run(["kvc-opt", policy, "--emit=fused", "-o", fused], check=True)
    shape = gpu[:-1] + [gpu[-1] + (",cache=merged" if os.path.dirname(policy).endswith("merged") else "")]
    subprocess.run(["kvc-opt", fused, *shape, "-o", again], check=True)
    subprocess.run(["kvc-opt", policy, *shape, "-o", straight], check=True)
    assert open(straight, "rb").read() == open(again, "rb").read(), policy
assert len(policies) > 30, policies
