"""layering.py: includes may only point to what lies before in the flow."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
llvm = ("mlir/", "llvm/", "mlir-c/", "llvm-c/")
# Folder -> what its files must not include. The first prefix that fits counts.
forbidden = {
    "support": llvm + ("dialect/", "passes/", "codegen/", "runtime/", "kvc/", "tools/", "fmt/", "nlohmann/"),
    "dialect": ("passes/", "codegen/", "runtime/", "kvc/"),
    "passes": ("codegen/", "runtime/", "kvc/"),
    "codegen": ("passes/", "runtime/", "kvc/kvc.h"),
    "runtime/include": llvm + ("runtime/", "dialect/", "fmt/", "nlohmann/", "cuda"),
    "runtime/base": llvm + ("dialect/", "passes/", "codegen/", "runtime/model", "runtime/executor",
                            "runtime/plan", "runtime/device", "cuda"),
    "runtime/simt": llvm + ("dialect/", "passes/", "codegen/", "runtime/plan", "runtime/model",
                            "runtime/executor", "cuda"),
    "runtime/model": llvm + ("dialect/", "passes/", "codegen/", "runtime/executor",
                             "runtime/device", "cuda"),
    # Compiled for NVPTX, without a standard library.
    "runtime/gpu/kernels": llvm + ("dialect/", "passes/", "codegen/", "runtime/device", "runtime/plan", "runtime/io",
                                   "runtime/model", "runtime/executor", "cuda"),
    "runtime": llvm + ("dialect/", "passes/", "codegen/", "cuda.h", "cuda_runtime"),
    "tools/kvc-opt": ("runtime/", "kvc/"),
    "tools/kvc-run": llvm + ("dialect/", "passes/", "codegen/"),
    "examples": llvm + ("dialect/", "passes/", "codegen/", "runtime/"),
}
bad = []
files = 0
for path in sorted(root.rglob("*")):
    name = path.relative_to(root).as_posix()
    if path.suffix not in (".h", ".cpp", ".c", ".td") or name.startswith("build"):
        continue
    rule = next((rule for folder, rule in forbidden.items() if name.startswith(folder + "/")), ())
    files += 1
    for include in re.findall(r'#?include\s*[<"]([^>"]+)[>"]', path.read_text()):
        if include.startswith(rule) if rule else False:
            bad.append(f"{name} includes {include}")
names = [p.stem for p in (root / "policies").glob("*.mlir") if p.stem != "full"]
for folder in ("dialect", "passes", "codegen", "runtime"):
    for path in (root / folder).rglob("*"):
        if path.suffix in (".h", ".cpp", ".td"):
            for policy in names:
                if re.search(rf"\b{re.escape(policy)}\b", path.read_text(), re.IGNORECASE):
                    bad.append(f"{path.relative_to(root)} knows the policy {policy}")
print(f"{files} files")
sys.exit("\n".join(bad) if bad or not files else 0)
