"""cursor.py COMMAND...: the command, with one argument more that moves the cursor, must say
in one line of printable text what it has against it."""
import subprocess
import sys

result = subprocess.run([*sys.argv[1:], "a\x1b[2Jb\tc"], capture_output=True)
line = result.stderr.removesuffix(b"\n")
if result.returncode not in (1, 2) or b"a?[2Jb?c" not in line or any(c < 32 or c == 127 for c in line):
    sys.exit(f"exit {result.returncode}: {result.stderr}")
