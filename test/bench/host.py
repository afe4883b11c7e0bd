"""host.py KVC_BIN: bench/host.py runs to its end, has a line for each cell, and writes its table where it is told to.
What it prints means nothing here."""
import pathlib
import re
import subprocess
import sys
import tempfile

BIN = sys.argv[1]
BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
MARKS = "<!-- host.py -->", "<!-- end of host.py -->"


def run(*options, status=0):
    done = subprocess.run([sys.executable, "-B", BENCH / "host.py", BIN, "--small", "--runs", "1", *options],
                          capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


time = r"(\d+\.?\d*(e-\d+)? \(\d+\.?\d*(e-\d+)?\))"
# Of each floor one, and one below.
policies = "kvec", "criticalkv", "ems", "knorm"
text = run("--policies", ",".join(policies), "--tokens", "200", "--types", "f32")
for policy in policies:
    line = rf"\| {policy} \| f32 \| 200 \| {time} \| {time} \| ({time}|) \| ({time}|no torch) \| {time} \| [\d.]* \| [\d.]+ \| [\d.]* \|"
    assert re.search(line, text), (policy, text)
# A commit, a load, and what is not there.
assert re.search(r"load \d.*NumPy \d.* with .*commit \w+", text) and ("torch 2" in text or "no torch" in text), text

# With four times the tokens it would take more than the limit.
with tempfile.NamedTemporaryFile("w+", suffix=".md") as file:
    file.write(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nbehind\n")
    file.flush()
    run("--policies", "h2o", "--types", "bf16", "--tokens", "64,4096", "--limit", "0.5", "--write", file.name)
    text = pathlib.Path(file.name).read_text()
assert re.fullmatch(rf"before\n{MARKS[0]}\n`python3 .*\| h2o \| bf16 \| 64 \| {time}.*"
                    rf"\| h2o \| bf16 \| 4096 \| over 0.5 .*\n{MARKS[1]}\nbehind\n", text, re.DOTALL), text

error = run("--policies", "snapkv,best", status=2)
assert error.endswith("got 'best'\n"), error
# The page that is written to has the marks.
readme = (BENCH / "README.md").read_text()
assert all(readme.count(mark + "\n") == 1 for mark in MARKS)
