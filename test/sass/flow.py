"""Basic blocks of a function, and its natural loops.

A branch that is taken only where the lanes of a warp have parted (BRA.DIV) is left out: behind it
ptxas puts a shuffle or a vote once more, for warps that our kernels do not have."""
from dataclasses import dataclass, field

from disassembly import Unreadable
from operands import PREDICATE

ENDS = {"EXIT", "RET", "KILL"}
BRANCHES = {"BRA", "BRX", "JMP", "JMX"}


@dataclass
class Loop:
    header: int  # a block
    blocks: frozenset
    inner: list = field(default_factory=list)  # loops within
    depth: int = 1

    @property
    def innermost(self):
        return not self.inner


def is_conditional(instruction):
    return bool(instruction.guard) or any(
        PREDICATE.match(operand) and operand not in ("PT", "UPT")
        for operand in instruction.operands)


class Flow:
    """`blocks`: ranges of instructions; `successors` of each; `loops`, outer ones first."""

    def __init__(self, function):
        self.function = function
        self.instructions = function.instructions
        self.blocks = self.split()
        self.block_at = {block.start: i for i, block in enumerate(self.blocks)}
        self.successors = self.connect()
        self.order = self.reachable_order()
        self.dominator = self.dominators()
        self.loops = self.find_loops()

    def split(self):
        starts = {0, *self.function.labels.values()}
        for i, instruction in enumerate(self.instructions):
            if instruction.base in ENDS | BRANCHES or instruction.base == "BSYNC":
                starts.add(i + 1)
        count = len(self.instructions)
        starts = sorted(start for start in starts if start < count)
        return [range(start, end) for start, end in zip(starts, starts[1:] + [count])]

    def block_of_label(self, label):
        if label not in self.function.labels:
            raise Unreadable(f"{self.function.name}: a branch must have its label in the function, "
                             f"found {label}")
        # A label behind the last instruction is the end.
        return self.block_at.get(self.function.labels[label])

    def leave(self, i):
        """Blocks behind block i, without those that BSYNC leads to."""
        last = self.instructions[self.blocks[i][-1]]
        behind = [i + 1] if i + 1 < len(self.blocks) else []
        if last.base in ENDS:
            return behind if last.guard else []
        if last.base not in BRANCHES:
            return behind
        if "DIV" in last.modifiers:
            return behind
        if not last.targets:
            raise Unreadable(f"{self.function.name}: a branch must name its targets, found {last}")
        targets = [self.block_of_label(target) for target in last.targets]
        targets = [target for target in targets if target is not None]
        conditional = is_conditional(last) or "CONV" in last.modifiers
        return targets + (behind if conditional else [])

    def connect(self):
        """BSYNC goes on where the BSSY said that set its barrier: barriers are followed through
        the blocks until nothing changes."""
        count = len(self.blocks)
        leaving = [set(self.leave(i)) for i in range(count)]
        barriers = [{} for _ in range(count)]  # on entry: barrier -> blocks
        reached, queue = {0}, [0]
        while queue:
            i = queue.pop()
            state = dict(barriers[i])
            for at in self.blocks[i]:
                instruction = self.instructions[at]
                if instruction.base == "BSSY":
                    target = self.block_of_label(instruction.targets[0])
                    state[instruction.operands[0]] = frozenset({target} - {None})
            last = self.instructions[self.blocks[i][-1]]
            met = state.get(last.operands[0]) if last.base == "BSYNC" else None
            if met:
                # All lanes that still run go there; without a guard nothing falls through.
                leaving[i] = set(met) | (set(self.leave(i)) if last.guard else set())
            for successor in leaving[i]:
                entry, grown = barriers[successor], successor not in reached
                for name, blocks in state.items():
                    grown |= not blocks <= entry.get(name, frozenset())
                    entry[name] = entry.get(name, frozenset()) | blocks
                if grown:
                    reached.add(successor)
                    queue.append(successor)
        return [sorted(blocks) for blocks in leaving]

    def reachable_order(self):
        """Reverse postorder from the entry."""
        seen, order, stack = {0}, [], [(0, iter(self.successors[0]))]
        while stack:
            block, rest = stack[-1]
            step = next((s for s in rest if s not in seen), None)
            if step is None:
                order.append(block)
                stack.pop()
            else:
                seen.add(step)
                stack.append((step, iter(self.successors[step])))
        return order[::-1]

    def dominators(self):
        """The immediate dominator of each reachable block (Cooper, Harvey, Kennedy)."""
        place = {block: i for i, block in enumerate(self.order)}
        before = {block: [] for block in self.order}
        for block in self.order:
            for successor in self.successors[block]:
                before[successor].append(block)
        self.predecessors = before
        found = {0: 0}

        def meet(a, b):
            while a != b:
                while place[a] > place[b]:
                    a = found[a]
                while place[b] > place[a]:
                    b = found[b]
            return a

        changed = True
        while changed:
            changed = False
            for block in self.order[1:]:
                new = None
                for predecessor in before[block]:
                    if predecessor in found:
                        new = predecessor if new is None else meet(predecessor, new)
                if found.get(block) != new:
                    found[block], changed = new, True
        return found

    def dominates(self, a, b):
        while b != a and b != 0:
            b = self.dominator[b]
        return a == b

    def find_loops(self):
        place = {block: i for i, block in enumerate(self.order)}
        bodies = {}
        for block in self.order:
            for header in self.successors[block]:
                if place[header] > place[block]:
                    continue
                if not self.dominates(header, block):
                    # A lint that misses a loop would pass it.
                    raise Unreadable(f"{self.function.name}: a loop must have one entry, found "
                                     f"a second into the one at "
                                     f"{self.instructions[self.blocks[header].start]}")
                body = bodies.setdefault(header, {header})
                queue = [block]
                while queue:
                    at = queue.pop()
                    if at not in body:
                        body.add(at)
                        queue.extend(self.predecessors[at])
        loops = [Loop(header, frozenset(body)) for header, body in bodies.items()]
        loops.sort(key=lambda loop: (-len(loop.blocks), loop.header))
        for i, loop in enumerate(loops):
            outside = [outer for outer in loops[:i] if loop.header in outer.blocks]
            loop.depth = 1 + len(outside)
            for outer in outside:
                outer.inner.append(loop)
        return loops

    def own(self, loop, without=None):
        """Instructions of a loop and of none within it, or of none of those named, in the order of
        their addresses."""
        inner = loop.inner if without is None else without
        blocks = loop.blocks.difference(*(other.blocks for other in inner))
        return [self.instructions[at] for block in sorted(blocks) for at in self.blocks[block]]

    def around(self, loop):
        """The loops that a loop lies in, by their headers."""
        return {other.header for other in self.loops if loop in other.inner}

    def where(self, loop):
        return f"the loop at {self.instructions[self.blocks[loop.header].start].address:04x}"
