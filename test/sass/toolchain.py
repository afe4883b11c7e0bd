"""From a policy to kernels: kvc-opt, ptxas and nvdisasm, and how many blocks an SM holds."""
import math
import os
import pathlib
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass

import disassembly
from checks import Kernel
from flow import Flow
from forms import kernels_with_forms, only_forms

CHIP = "sm_90"
# The same one, for kernels that multiply by warpgroups: no other chip runs them.
WARPGROUPS_CHIP = "sm_90a"
# Of an SM of this chip; registers are given out 256 to a warp at a time, shared memory with 1 KiB
# of the system's own a block.
REGISTERS, WARPS, BLOCKS, SHARED = 65536, 64, 32, 228 * 1024


class Failed(Exception):
    """A program said no, or said what this does not know."""


@dataclass(frozen=True)
class Tools:
    ptxas: str
    nvdisasm: str

    @property
    def release(self):
        """Of ptxas: what it makes of a kernel changes from release to release."""
        said = run([self.ptxas, "--version"])
        found = re.search(r"release (\d+\.\d+)", said)
        if not found:
            raise Failed(f"{self.ptxas} --version must name a release, said {said[-80:]!r}")
        return found[1]


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"{os.path.basename(str(command[0]))} failed with status {done.returncode}: "
                     f"{said[0][:200] if said else 'it said nothing'}")
    return done.stdout + done.stderr


def find(variable, program, *places):
    """A program by its variable, on PATH or in a place; None where it is not. A variable that
    names nothing is a mistake, not a machine without the program."""
    if named := os.environ.get(variable):
        if not shutil.which(named):
            raise Failed(f"{variable} must name a program, got {named!r}")
        return shutil.which(named)
    return shutil.which(program) or next(filter(None, map(shutil.which, places)), None)


def find_tools():
    """Both programs, or the name of the one that is missing."""
    ptxas = find("KVC_PTXAS", "ptxas", "/usr/local/cuda/bin/ptxas")
    if not ptxas:
        return None, "ptxas"
    nvdisasm = find("KVC_NVDISASM", "nvdisasm", pathlib.Path(ptxas).parent / "nvdisasm")
    return (Tools(ptxas, nvdisasm), None) if nvdisasm else (None, "nvdisasm")


def threads_of(ptx):
    """Threads a block of each kernel; 0 where the launch alone knows."""
    found = {}
    for name, directives in re.findall(r"\.entry\s+(\w+)\s*\([^)]*\)([^{]*)\{", ptx):
        sizes = re.search(r"\.(?:maxntid|reqntid)\s+([\d, ]+)", directives)
        found[name] = math.prod(map(int, sizes[1].split(","))) if sizes else 0
    return found


def used(printed):
    """Registers and bytes of shared memory of each kernel, from what ptxas -v prints."""
    found = {}
    kernel = r"entry function '(\w+)'[\s\S]*?(Used \d+ registers[^\n]*)"
    for name, line in re.findall(kernel, printed):
        registers = re.search(r"Used (\d+) registers", line)
        shared = re.search(r"(\d+) bytes smem", line)
        found[name] = int(registers[1]), int(shared[1]) if shared else 0
    return found


def serialised(printed):
    """Of each kernel, how often ptxas says that products by warpgroups wait for each other."""
    found = Counter()
    for line in printed.splitlines():
        if "wgmma" not in line or "serialized" not in line:
            continue
        if not (name := re.search(r"in (?:the )?function '(\w+)'", line)):
            raise Failed(f"ptxas must name the kernel whose products it serialises, said {line!r}")
        found[name[1]] += 1
    return found


def blocks_of_an_sm(threads, registers, shared):
    """0 where the threads are not known."""
    if not threads:
        return 0
    warps = (threads + 31) // 32
    per_warp = (registers * 32 + 255) // 256 * 256
    return min(REGISTERS // per_warp // warps, WARPS // warps, BLOCKS, SHARED // (shared + 1024))


def launch_bytes(text):
    """Shared memory that the launch gives a block, by kernel, as the policy's text at level gpu says
    it."""
    return {name: int(size) for name, size in re.findall(
        r"gpu\.func @(\w+)\(.*kvc\.shared_bytes = (\d+)", text)}


def read_kernels(listing, ptx, printed, must_say_threads=True, given=()):
    """Kernels of a program, from nvdisasm's text, the PTX, and what ptxas -v printed. Occupancy is
    asked of those that say their threads. `given`: launch_bytes."""
    given = dict(given)
    for memory in re.findall(r"\.extern\s+[^;]*\.shared[^;]*?(\w+)\[\]", ptx):
        # An array without a length: there is no occupancy without what the launch gives.
        if must_say_threads and memory.removesuffix("_memory") not in given:
            raise Failed(f"{memory}: the launch must say its size, it does not")
    functions, sizes, kernels = disassembly.read(listing), used(printed), []
    waits = serialised(printed)
    for name, threads in threads_of(ptx).items():
        if name not in functions or name not in sizes:
            raise Failed(f"{name}: ptxas and nvdisasm must know the kernel, one does not")
        if must_say_threads and not threads:
            raise Failed(f"{name}: a kernel must say its threads (.maxntid), it does not")
        registers, own = sizes[name]
        kernels.append(Kernel(name, Flow(functions[name]), threads,
                              blocks_of_an_sm(threads, registers, given.get(name, own)),
                              waits[name]))
    if not kernels:
        raise Failed("the PTX must have a kernel, found none")
    return kernels


def assemble(tools, ptx, chip, work, must_say_threads=True, given=()):
    """Kernels of a PTX file; cubin and disassembly stay in the folder `work`. `given` as above."""
    work.mkdir(parents=True, exist_ok=True)
    cubin = work / (ptx.stem + ".cubin")
    printed = run([tools.ptxas, "-arch=" + chip, "-v", ptx, "-o", cubin])
    listing = run([tools.nvdisasm, "-c", cubin])
    (work / (ptx.stem + ".sass")).write_text(listing)
    return read_kernels(listing, ptx.read_text(), printed, must_say_threads, given)


def emit(compiler, subject, level, output, *options):
    output.parent.mkdir(parents=True, exist_ok=True)
    run([compiler, subject.policy, "--emit=" + level, "-o", output, *options, *subject.options,
         *(part for shape in subject.shapes for part in ("--shape", shape))])


def compile_policy(compiler, subject, work):
    """PTX files, their chips, and launch_bytes: for all GPUs, and where kernels have forms that
    multiply by warpgroups, these alone."""
    ptx = work / f"{subject.name}.ptx"
    emit(compiler, subject, "ptx", ptx, "--chip=" + CHIP)
    # Cheaper than PTX, which most policies need no second time.
    text = work / f"{subject.name}.gpu"
    emit(compiler, subject, "gpu", text)
    given = launch_bytes(text.read_text())
    if not (names := kernels_with_forms(text.read_text())):
        return [(ptx, CHIP, given)]
    forms = work / f"{subject.name}.{WARPGROUPS_CHIP}.ptx"
    emit(compiler, subject, "ptx", forms, "--chip=" + WARPGROUPS_CHIP)
    forms.write_text(only_forms(forms.read_text(), names))
    return [(ptx, CHIP, given), (forms, WARPGROUPS_CHIP, given)]
