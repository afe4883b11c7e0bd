"""policy-names.py: no C++ file names a policy. (That folders include only what lies
before them is seen to by cmake/KVCTargets.cmake.)"""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
names = [p.stem for p in (root / "policies").glob("*.mlir") if p.stem != "full"]
pattern = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
files, bad = 0, []
for folder in ("support", "dialect", "passes", "codegen", "runtime", "emulator", "executor",
               "eval", "tools"):
    for path in (root / folder).rglob("*"):
        if path.suffix in (".h", ".cpp", ".td"):
            files += 1
            bad += [f"{path.relative_to(root)} names the policy {name}"
                    for name in sorted(set(pattern.findall(path.read_text())))]
print(f"{files} files, {len(names)} policies")
sys.exit("\n".join(bad) if bad or not files or not names else 0)
