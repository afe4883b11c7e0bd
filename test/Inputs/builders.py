"""builders.py FOLDER: each file there has at most 300 lines, and each that builds a kernel says
in front of its code, or in the header that it names there, what it launches and what that moves."""
import pathlib
import re
import sys

most, words = 300, ("grid", "shared memory", "barrier", "reads")
folder = pathlib.Path(sys.argv[1])
builders = failures = 0
for path in sorted(folder.glob("*.cpp")):
    text = path.read_text()
    lines = len(text.splitlines())
    if lines > most:
        failures += 1
        print(f"{path.name}: {lines} lines, at most {most} go")
    if not re.search(r"^void kvc::build\w+\(KernelOp", text, re.M):
        continue
    builders += 1
    head = text.split("#include", 1)[0]
    for name in re.findall(r"\w+\.h\b", head):
        if (folder / name).exists():
            head += "".join(re.findall(r"//.*\n", (folder / name).read_text()))
    missing = [word for word in words if word not in head.lower()]
    if missing:
        failures += 1
        print(f"{path.name}: its head comment says nothing of {', '.join(missing)}")
print(f"{builders} builders, {failures} failures")
sys.exit(not builders or failures > 0)
