"""What four warps multiply together on sm_90a, HGMMA.64xNxK: its shape, and the registers of it
that a lane reads and writes.

    HGMMA.64x128x16.F32.BF16 R24, R136, gdesc[UR8].tnspB, R24, gsb0

D and C are sums of 64 rows and N columns, of which a warp has 16 rows. A lies in registers or, as B
does, in shared memory: two uniform registers for each say where, A's first."""
import re

from disassembly import Unreadable

REGISTER = re.compile(r"\b(U?[RP])(\d+)\b")
# Of A: 64 rows of 32 bytes, by 128 lanes.
LEFT = 4


def columns(instruction):
    """N."""
    shape = re.fullmatch(r"64x(\d+)x\d+", (instruction.modifiers or [""])[0])
    if not shape or int(shape[1]) % 8 or shape[1] == "0":
        raise Unreadable(f"HGMMA must have a shape 64xNxK, N a multiple of 8, found {instruction}")
    return int(shape[1])


def reads_and_writes(instruction):
    """The result of a product is there once it has been waited for; it counts as written here."""
    # 16 rows of a warp are N / 2 sums of a lane; of 16 bits two are in a register.
    sums = columns(instruction) // (2 if "F32" in instruction.modifiers else 4)
    result, *sources = instruction.operands
    from_registers = not sources[0].startswith("gdesc[")
    reads = {instruction.guard} - {""}
    for at, text in enumerate(sources):
        for kind, number in REGISTER.findall(text):
            first, count = int(number), 1
            if text.startswith("gdesc["):
                first, count = (first + 2, 2) if from_registers else (first, 4)
            elif kind == "R":
                count = LEFT if at == 0 else sums
            reads.update(f"{kind}{first + k}" for k in range(count))
    first = int(REGISTER.match(result)[2])
    return frozenset(reads), frozenset(f"R{first + k}" for k in range(sums))
