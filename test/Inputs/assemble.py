"""assemble.py PTXAS KVC_OPT POLICY WORK: compiles a policy to PTX and assembles it.
A spill (fp32 columns: more than 12 bytes), an error or a kernel that is missing is a failure;
77: there is no ptxas. Policies have kernels in common: one that has been assembled, for this
chip and by this ptxas, is noted in WORK and is not assembled again."""
import hashlib
import os
import re
import subprocess
import sys

from shapes import caches, in_turn, others, usual

ptxas, compiler, policy, work = sys.argv[1:]
if not os.path.exists(ptxas):
    print("skipped: no ptxas")
    sys.exit(77)
os.makedirs(work, exist_ok=True)
name = os.path.splitext(os.path.basename(policy))[0]
# The chips have the same registers; the older one, on the usual shape, shows what its PTX
# lacks, and has half of what ships. The newer one has one of the others, in turn, so that
# all policies together see each. KVC_ALL_SHAPES=1: all of them.
ships = os.path.basename(os.path.dirname(os.path.abspath(policy))) == "policies"
older = ships and in_turn(name, [True, False])
shapes = [in_turn(name, others)]
if os.environ.get("KVC_ALL_SHAPES"):
    shapes = [usual, *others]
runs = [("sm_90", shapes, [])]
if older or os.environ.get("KVC_ALL_SHAPES"):
    runs.append(("sm_80", [usual], []))
# Caches of rows: of what ships, one kind each in turn.
here = os.path.dirname(os.path.abspath(__file__))
refused = open(os.path.join(here, "no-rows.txt")).read().split()
if name not in refused and (ships or os.environ.get("KVC_ALL_SHAPES")):
    kinds = caches if os.environ.get("KVC_ALL_SHAPES") else [in_turn(name, caches)]
    runs.append(("sm_90", [f"{usual},cache={kind}" for kind in kinds], []))
# Pruned norms are an option; at head_dim 256 a bound spills a few registers.
if name == "criticalkv":
    runs.append(("sm_90", list(dict.fromkeys([usual, *shapes[:-1]])), ["--prune-norms"]))
failures = 0


def kernels_of(text):
    """The PTX in front of the first kernel, with what any declares of its launch, and
    name -> text of each."""
    given = re.findall(r"^\.extern \.shared .*\n", text, flags=re.M)
    text = re.sub(r"^\.extern \.shared .*\n", "", text, flags=re.M)
    head, *rest = re.split(r"^(?=\.visible \.entry )", text, flags=re.M)
    head += "".join(given)
    return head, {re.match(r"\.visible \.entry (\w+)", kernel)[1]: kernel for kernel in rest}


def note_of(head, name, kernel, chip):
    """The file that says that this text has been assembled, whatever the kernel's name."""
    memory = "".join(line for line in head.splitlines(True)
                     if not line.startswith((".", "\t//", "//")) or name in line)
    tool = f"{os.path.getsize(ptxas)} {os.path.getmtime(ptxas)} {chip}"
    # Labels have the kernel's number.
    kernel = re.sub(r"\$L__BB\d+_|//.*", "$L", kernel)
    text = "\n".join([tool, *(part.replace(name, "kernel") for part in (memory, kernel))])
    return os.path.join(work, "assembled", hashlib.sha256(text.encode()).hexdigest())


os.makedirs(os.path.join(work, "assembled"), exist_ok=True)
for chip, chosen, options in runs:
    ptx = os.path.join(work, name + ".ptx")
    shape_args = [item for shape in chosen for item in ("--shape", shape)]
    subprocess.run([compiler, policy, "--emit=ptx", "--chip=" + chip, "-o", ptx, *options,
                    *shape_args], check=True)
    head, kernels = kernels_of(open(ptx).read())
    notes = {kernel: note_of(head, kernel, text, chip) for kernel, text in kernels.items()}
    new = [kernel for kernel in kernels if not os.path.exists(notes[kernel])]
    print(chip, *options, len(kernels), "kernels,", len(kernels) - len(new), "known")
    if not kernels or len(kernels) % len(chosen):
        failures += 1
        print("wrong: kernels are missing")
    if not new:
        continue
    with open(ptx, "w") as file:
        file.write(head + "".join(kernels[kernel] for kernel in new))
    result = subprocess.run([ptxas, "-arch=" + chip, "-v", ptx, "-o", ptx + ".cubin"],
                            capture_output=True, text=True)
    spills = []
    told = re.findall(r"Function properties for (\S+)\n.* (\d+) bytes spill stores, (\d+) bytes spill loads",
                      result.stderr)
    for function, stores, loads in told:
        # fp32 has no matrix instructions: a lane holds the 16 products of its token, and sums
        # over queries beside them leave a few registers too few.
        allowed = 12 if re.search(r"_columns\d+_.*_f32$", function) else 0
        # Two tiles of keys or values leave no register over, nor do rows of all heads beside
        # keys. On the older chip ten numbers at most wait in memory: what is needed behind a
        # walk or once a round or head.
        if chip == "sm_80" and re.search(r"_(columns\d+|carried)_d128_", function):
            allowed = max(allowed, 40)
        # Keys of 256 dimensions are half of the registers: three numbers that are needed in front
        # of the tokens' loop and behind it wait in memory (kvec, two windows).
        if re.search(r"_columns\d+_d256_", function):
            allowed = max(allowed, 12)
        if max(int(stores), int(loads)) > allowed:
            spills.append(f"{function}: {stores} bytes stored, {loads} loaded")
    if result.returncode or spills or {function for function, *_ in told} < set(new):
        failures += 1
        print("wrong:", spills, result.stderr[-400:])
        continue
    for kernel in new:
        open(notes[kernel], "w").close()
sys.exit(failures > 0)
