"""Which registers an instruction reads and which it writes: "R4", "UR2", "P0", "UP1".

Only what the checks need: widths of loads, stores, matrix products and 64-bit results are right,
since a load's result may be read by any of its registers."""
import re
from functools import lru_cache

import warpgroups

REGISTER = re.compile(r"\b(UR|R|UP|P)(\d+)(\.64)?\b")
PREDICATE = re.compile(r"!?U?P(\d+|T|R)$")
PREDICATES = frozenset(f"P{i}" for i in range(7))

# Their first register is a source.
STORES = {"ST", "STG", "STS", "STL", "STSM", "RED", "REDG", "REDS", "LDGSTS", "UBLKCP", "UBLKRED",
          "UTMALDG", "UTMASTG", "SYNCS", "CCTL", "ARRIVES", "BAR", "CALL", "RET", "BRA", "BRX",
          "NANOSLEEP", "WARPSYNC", "R2P", "FCHK", "BMOV"}
# Both predicates in front are results.
COMPARES = ("SETP", "SETP2", "PLOP3")


def access_width(instruction):
    """Registers of what a load or store moves."""
    for name, width in (("128", 4), ("64", 2), ("4", 4), ("2", 2)):
        if name in instruction.modifiers:
            return width
    return 1


def matrix_widths(instruction):
    """Registers of D, A, B and C of HMMA, by its shape and type."""
    shape = instruction.modifiers[0]
    wide = "TF32" in instruction.modifiers
    a, b = {"16816": (4, 2), "1688": (4, 2) if wide else (2, 1), "1684": (2, 1)}.get(shape, (4, 2))
    c = 4 if "F32" in instruction.modifiers else 2
    return c, a, b, c


def widths(instruction, named):
    """How many registers stand at each of the operands that name one (their places are given),
    the result first."""
    base, modifiers = instruction.base, instruction.modifiers
    registers = len(named)
    one = [1] * registers
    if base in ("LDG", "LD", "LDS", "LDL", "LDSM", "ATOM", "ATOMG", "ATOMS", "LDC"):
        return [access_width(instruction)] * registers
    if base in ("STG", "ST", "STS", "STL", "STSM"):
        return one[:-1] + [access_width(instruction)]
    if base == "HMMA":
        return (list(matrix_widths(instruction)) + one)[:registers]
    if base == "IMAD" and "WIDE" in modifiers:
        # A 64-bit sum: its addend is the last operand.
        return [2] + one[1:-1] + [2 if named[-1] == len(instruction.operands) - 1 else 1]
    if base in ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"):
        return [2] * registers
    if base == "CS2R":
        return [1 if "32" in modifiers else 2]
    if base in ("I2F", "F2I", "F2F") and {"U64", "S64", "F64"} & set(modifiers):
        return [2] * registers
    return one


@lru_cache(maxsize=None)
def reads_and_writes(instruction):
    if instruction.base == "HGMMA":
        return warpgroups.reads_and_writes(instruction)
    reads, writes = set(), set()
    if instruction.guard:
        reads.add(instruction.guard)
    operands, base = instruction.operands, instruction.base
    compares = base.endswith(COMPARES)
    stores = base in STORES
    # Predicates in front of the result and right behind it are results as well (carries), but of
    # a vote only the first is one.
    first = next((i for i, text in enumerate(operands) if not PREDICATE.match(text)), len(operands))
    results = {i for i in range(first) if not stores}
    if compares:
        results = {0, 1}
    elif not stores and first < len(operands):
        results.add(first)
        behind = first + 1
        while (behind + 1 < len(operands) and PREDICATE.match(operands[behind]) and
               operands[behind][0] != "!" and operands[behind] != "PR" and
               not (base.startswith("VOTE") and behind > first + 1)):
            results.add(behind)
            behind += 1
    if base in ("FCHK", "R2P") or (base.startswith("VOTE") and first == len(operands)):
        results = {0}
    named = [i for i, text in enumerate(operands)
             if any(kind in ("R", "UR") for kind, _, _ in REGISTER.findall(text)) or
             re.search(r"\bU?RZ\b", text)]
    counts = dict(zip(named, widths(instruction, named)))
    for i, text in enumerate(operands):
        if text == "PR":
            (writes if i in results else reads).update(PREDICATES)
        memory = "[" in text
        # The address of a store, and of anything in brackets, is read.
        into = writes if i in results and not memory else reads
        for kind, number, pair in REGISTER.findall(text):
            count = 2 if pair else 1 if memory or "P" in kind else counts.get(i, 1)
            into.update(f"{kind}{int(number) + k}" for k in range(count))
    return frozenset(reads), frozenset(writes)
