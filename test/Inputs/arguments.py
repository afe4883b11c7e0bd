"""arguments.py FOLDER...: no kernel of any policy has an argument twice, and every launch
has three extents."""
import glob
import json
import subprocess
import sys

kernels = 0
for folder in sys.argv[1:]:
    for path in sorted(glob.glob(folder + "/*.mlir")):
        manifest = json.loads(subprocess.run(
            ["kvc-opt", path, "--emit=manifest", "--shape", "head_dim=32,group=2,dtype=f32"],
            check=True, capture_output=True, text=True).stdout)
        for kernel in manifest["variants"][0]["kernels"]:
            assert len(set(kernel["args"])) == len(kernel["args"]), (path, kernel["name"], kernel["args"])
            assert len(kernel["grid"]) == 3
            kernels += 1
print(kernels, "kernels")
