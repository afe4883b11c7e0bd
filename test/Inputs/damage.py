"""damage.py LIBRARY SEED COMMAND...: runs the command with LIBRARY replaced by
damaged copies of it; each must be refused in one line with exit 1."""
import random
import subprocess
import sys

library, seed, *command = sys.argv[1:]
good = open(library, "rb").read()
dice = random.Random(int(seed))
copy = library + ".damaged"


def flipped(at):
    return good[:at] + bytes([good[at] ^ 1 << dice.randrange(8)]) + good[at + 1:]


def zeroed(at, size=4096):
    return good[:at] + bytes(len(good[at:at + size])) + good[at + size:]


damaged = [good[:n] for n in (0, 1, 64, 4096, 8000, len(good) - 24, len(good) - 1)]
damaged += [good[:dice.randrange(len(good))] for _ in range(20)]
damaged += [good + b"\0", good + good, good[1:], good[:4096] + good[4097:]]
# The ELF header, the table of segments, anywhere, the seal.
damaged += [flipped(at) for at in range(0, 64, 4)]
damaged += [flipped(dice.randrange(64, 600)) for _ in range(20)]
damaged += [flipped(dice.randrange(len(good))) for _ in range(20)]
damaged += [flipped(at) for at in range(len(good) - 24, len(good))]
damaged += [zeroed(at) for at in range(0, len(good), 4096)]
checksums = 0
for number, data in enumerate(damaged):
    if data == good:
        continue
    open(copy, "wb").write(data)
    run = subprocess.run([copy if word == library else word for word in command],
                         capture_output=True, text=True)
    lines = run.stderr.splitlines()
    if run.returncode != 1 or len(lines) != 1 or \
            not lines[0].startswith("error: cannot open a policy library: "):
        sys.exit(f"copy {number}: exit {run.returncode}, {run.stderr!r}")
    checksums += "it is damaged: its checksum must be " in run.stderr
assert checksums, "no copy has another checksum"
print(f"{len(damaged)} damaged copies refused")
