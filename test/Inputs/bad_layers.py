"""bad_layers.py CASES COMMAND... FILE: of each two lines of CASES the first is written to
FILE, and the command must then fail in one line that has the second."""
import pathlib
import subprocess
import sys

cases, *command = sys.argv[1:]
lines = pathlib.Path(cases).read_text().splitlines()
assert len(lines) % 2 == 0, "an input without what is said about it"
for text, said in zip(lines[::2], lines[1::2]):
    pathlib.Path(command[-1]).write_text(text)
    result = subprocess.run(command, capture_output=True, text=True)
    expected = f"error: {command[-1]}: {said}"
    if result.returncode != 1 or not result.stderr.startswith(expected) \
            or result.stderr.count("\n") != 1 or result.stdout:
        sys.exit(f"{text}\nexpected: {expected}\n"
                 f"got exit {result.returncode}: {result.stderr}{result.stdout}")
