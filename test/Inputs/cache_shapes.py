"""cache_shapes.py NAMES FOLDER...: of the policies in the folders, kvc-opt refuses those
that NAMES lists for cache=ragged, in one line that says so, and compiles the others."""
import pathlib
import subprocess
import sys

refused = set(pathlib.Path(sys.argv[1]).read_text().split())
problems = []
for folder in sys.argv[2:]:
    for policy in sorted(pathlib.Path(folder).glob("*.mlir")):
        result = subprocess.run(
            ["kvc-opt", policy, "--emit=manifest", "--shape", "head_dim=64,group=4,cache=ragged"],
            capture_output=True, text=True, timeout=60)
        errors = [line for line in result.stderr.splitlines() if "error: " in line]
        named = len(errors) == 1 and "cannot be compiled for cache=ragged" in errors[0]
        if policy.stem in refused and not (result.returncode == 1 and named):
            problems.append(f"{policy.stem}: exit {result.returncode}, not refused: {result.stderr}")
        if policy.stem not in refused and result.returncode:
            problems.append(f"{policy.stem}: {result.stderr}")
sys.exit("\n".join(problems) or None)
