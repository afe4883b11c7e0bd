"""alignment.py POLICIES FILES NAME...: each policy keeps the same bytes wherever a file's
tensors begin; FILES.f32 and FILES.bf16 are what is moved."""
import pathlib
import subprocess
import sys

policies, files, *names = sys.argv[1:]
layers = pathlib.Path(__file__).with_name("layers.py")


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


for dtype in "f32", "bf16":
    moved = {distance: f"{files}.{dtype}.{distance}" for distance in (0, 4, 16, 18)}
    for distance, path in moved.items():
        run(sys.executable, layers, "move", f"{files}.{dtype}", path, distance)
    # Half of the policies have either type.
    for name in names[:len(names) // 2] if dtype == "f32" else names[len(names) // 2:]:
        library = f"{files}.{name}.{dtype}.so"
        run("kvc-opt", f"{policies}/{name}.mlir", "--emit=library", "--chip=none", "-o", library,
            "--shape", f"head_dim=32,group=2,dtype={dtype}")
        for seed in "0", "5":
            kept = set()
            for distance, path in moved.items():
                run("kvc-run", "apply", "--policy", library, "--input", path, "--budget", "64", "--output", files + ".kept",
                    "--target", "host", "--seed", seed)
                kept.add(pathlib.Path(files + ".kept").read_bytes())
            assert len(kept) == 1, f"{name}, {dtype}, seed {seed}: other bytes where tensors begin elsewhere"
