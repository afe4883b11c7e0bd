"""refuse.py STATUS TEXT -- COMMAND...: the command must exit with STATUS and say TEXT
on one line that begins with 'error: ', and not take for ever to do so."""
import subprocess
import sys

status, text, _, *command = sys.argv[1:]
result = subprocess.run(command, capture_output=True, text=True, timeout=120)
lines = result.stderr.strip().splitlines()
problems = []
if result.returncode != int(status):
    problems.append(f"exit {result.returncode}, expected {status}")
if text not in result.stderr:
    problems.append(f"does not say '{text}'")
if not (len(lines) == 1 and lines[0].startswith("error: ")):
    problems.append("is not one line 'error: ...'")
if problems:
    sys.exit("; ".join(problems) + ":\n" + result.stderr)
