"""What is asked of a kernel's SASS; goals.csv has the numbers.

A check gives a value for each place it looks at; the worst of them is the kernel's. Instructions of
a loop are its own, without those of loops within: how often those run is not known here."""
from collections import Counter
from dataclasses import dataclass

import warpgroups
from flow import Flow
from operands import reads_and_writes

LOADS = {"LDG", "LD"}
GLOBAL = LOADS | {"STG", "ST", "ATOM", "ATOMG", "RED", "REDG", "LDGSTS"}


@dataclass
class Kernel:
    name: str
    flow: Flow
    threads: int  # a block; 0 where the launch alone knows
    blocks: int  # that an SM holds at once
    serialised: int = 0  # times that ptxas says so of its products by warpgroups

    @property
    def loops(self):
        return [(loop, self.flow.own(loop)) for loop in self.flow.loops]


@dataclass(frozen=True)
class Finding:
    value: float
    where: str


def count(instructions, *bases):
    return sum(instruction.base in bases for instruction in instructions)


def products(instructions):
    """Matrix products, in the unit of one warp's HMMA, of 16 rows and 8 columns. Of an HGMMA's 64
    rows a warp has 16, and all of its columns."""
    return sum(warpgroups.columns(instruction) // 8 if instruction.base == "HGMMA" else
               instruction.base == "HMMA" for instruction in instructions)


def matrix_loops(kernel):
    """Loops that have matrix products of their own. What is in a loop within one, without products,
    is there as well, once at least."""
    flow = kernel.flow
    with_products = [loop for loop, own in kernel.loops if products(own)]
    found = []
    for loop in with_products:
        apart = [inner for inner in loop.inner
                 if any(other is inner or other in inner.inner for other in with_products)]
        found.append((loop, flow.own(loop, apart)))
    return found


def of_matrix_loops(measure):
    """A check of each loop with matrix products."""
    return lambda kernel: [Finding(measure(own), kernel.flow.where(loop))
                           for loop, own in matrix_loops(kernel)]


def of_innermost_loops(measure):
    return lambda kernel: [Finding(measure(own), kernel.flow.where(loop))
                           for loop, own in kernel.loops if loop.innermost]


def is_move(instruction):
    """MOV, and what is one: 0 * 0 + x. With a carry or a minus it is a sum."""
    if instruction.base in ("MOV", "UMOV"):
        return True
    operands, modifiers = instruction.operands, instruction.modifiers
    return (instruction.base == "IMAD" and operands[1:3] == ("RZ", "RZ") and
            "X" not in modifiers and not operands[3].startswith("-"))


def slots_per_product(own):
    # ptxas fills waits with NOP: they are issued like the others.
    return len(own) / products(own)


def moves_per_product(own):
    return sum(map(is_move, own)) / products(own)


def loads(own):
    """Global loads into registers; LDGSTS and bulk copies go to shared memory on their own."""
    return count(own, *LOADS)


def stores(own):
    return count(own, "STS")


def narrow_loads(own):
    return sum(instruction.base in LOADS and
               bool({"U16", "S16", "U8", "S8"} & set(instruction.modifiers))
               for instruction in own)


def follow(own, seed):
    """Walks a loop's body in the order of its addresses, twice, so that what one trip leaves is
    known in the next. `seed(instruction, tags, again)` gets the tags that the sources of an
    instruction carry and returns those that its results add; again: in the second walk."""
    tags = {}
    for again in (False, True):
        for instruction in own:
            reads, writes = reads_and_writes(instruction)
            carried = frozenset().union(*(tags.get(register, frozenset()) for register in reads))
            carried |= seed(instruction, carried, again) or frozenset()
            for register in writes:
                # A guarded write may leave what was there.
                kept = tags.get(register, frozenset()) if instruction.guard else frozenset()
                tags[register] = carried | kept


def integer_divisions(own):
    """Sequences that divide integers by way of a reciprocal: I2F, MUFU.RCP of it, F2I of that."""
    found = set()

    def seed(instruction, carried, again):
        if instruction.base in ("I2F", "I2FP"):
            return {"integer"}
        if instruction.base == "MUFU" and "RCP" in instruction.modifiers and "integer" in carried:
            return {instruction.address}
        if instruction.base == "F2I":
            found.update(tag for tag in carried if tag != "integer")
        return None

    follow(own, seed)
    return len(found)


def divisions(own):
    """Divisions that have a helper or are long sequences. A float division in place has an FCHK,
    and calls a slow path, which is not counted again."""
    calls = [instruction for instruction in own if instruction.base == "CALL"]
    slow_paths = sum("div_r" in target and "slowpath" in target
                     for call in calls for target in call.targets)
    return len(calls) - slow_paths + count(own, "FCHK") + integer_divisions(own)


def in_flight(own):
    """How many global loads are under way, on average, where the first result of them is waited
    for. A wait is taken to be for all that were issued before it. None where the loop does not
    stream: no load, none that is read within, or only such whose address comes of another load,
    which nobody can issue earlier."""
    under_way, waits, free = {}, [], set()

    def seed(instruction, carried, again):
        reads, writes = reads_and_writes(instruction)
        if any(register in under_way for register in reads):
            if again:
                waits.append(len(set(under_way.values())))
            under_way.clear()
        for register in writes:
            under_way.pop(register, None)
        if instruction.base not in LOADS:
            return None
        # Twice the same instruction is two loads.
        under_way.update((register, (instruction.address, again)) for register in writes)
        if again and "load" not in carried:
            free.add(instruction.address)
        return {"load"}

    follow(own, seed)
    return sum(waits) / len(waits) if waits and free else None


# What unrolling repeats and nothing merges or folds.
REPEATED = LOADS | {"STG", "LDS", "STS", "ATOMS", "ATOMG", "RED", "REDG", "SHFL", "MUFU"}


def is_rest(flow, loop, before):
    """Whether a loop does the trips that the one before it leaves, an unrolled one: that does the
    same several times over, in the same place. The rest has few loads because it has few trips."""
    once, often = (Counter(one.opcode for one in flow.own(each) if one.base in REPEATED)
                   for each in (loop, before))
    times = sum(often.values()) // max(sum(once.values()), 1)
    return (times > 1 and often == Counter({opcode: n * times for opcode, n in once.items()}) and
            flow.around(loop) == flow.around(before))


def streaming_loops(kernel):
    flow, found, before = kernel.flow, [], None
    streams = [(loop, own) for loop, own in kernel.loops
               if loop.innermost and count(own, *LOADS) and not products(own)]
    for loop, own in sorted(streams, key=lambda stream: stream[0].header):
        value = in_flight(own)
        if value is not None and not (before and is_rest(flow, loop, before)):
            found.append(Finding(value, flow.where(loop)))
        before = loop
    return found


def spills(kernel):
    places = [instruction for instruction in kernel.flow.instructions
              if instruction.base in ("LDL", "STL")]
    return [Finding(len(places), f"{places[0].address:04x}" if places else "the kernel")]


def serial_products(kernel):
    """A product by warpgroups is begun, and others run beside it until it is waited for. Where
    something touches its registers before, ptxas waits for each one of the kernel by itself, and
    says so."""
    if not count(kernel.flow.instructions, "HGMMA"):
        return []
    return [Finding(kernel.serialised, "the kernel")]


def early_accesses(kernel):
    """Accesses to global memory in front of the wait for earlier launches (griddepcontrol.wait)."""
    instructions = kernel.flow.instructions
    waits = [at for at, instruction in enumerate(instructions) if instruction.base == "ACQBULK"]
    if not waits:
        return []
    early = [instruction for instruction in instructions[:waits[0]] if instruction.base in GLOBAL]
    return [Finding(len(early), f"{early[0].address:04x}" if early else "the kernel")]


def has_products(kernel):
    return bool(products(kernel.flow.instructions))


def warps(kernel):
    if has_products(kernel) or not kernel.threads:
        return []
    return [Finding(kernel.blocks * ((kernel.threads + 31) // 32), "the kernel")]


def blocks(kernel):
    if not has_products(kernel) or not kernel.threads:
        return []
    return [Finding(kernel.blocks, "the kernel")]


@dataclass(frozen=True)
class Check:
    measure: object
    at_most: bool  # else at least


CHECKS = {
    "slots per HMMA": Check(of_matrix_loops(slots_per_product), True),
    "moves per HMMA": Check(of_matrix_loops(moves_per_product), True),
    "loads beside HMMA": Check(of_matrix_loops(loads), True),
    "stores beside HMMA": Check(of_matrix_loops(stores), True),
    "divisions": Check(of_innermost_loops(divisions), True),
    "narrow loads": Check(of_innermost_loops(narrow_loads), True),
    "loads in flight": Check(streaming_loops, False),
    "spills": Check(spills, True),
    "serial products": Check(serial_products, True),
    "early accesses": Check(early_accesses, True),
    "warps an SM": Check(warps, False),
    "blocks an SM": Check(blocks, False),
}


def worst(kernel):
    """The worst finding of each check that has something to look at."""
    found = {}
    for name, check in CHECKS.items():
        if findings := check.measure(kernel):
            choose = max if check.at_most else min
            at = choose(findings, key=lambda finding: finding.value)
            found[name] = Finding(round(at.value, 2), at.where)
    return found
