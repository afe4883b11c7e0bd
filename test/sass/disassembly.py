"""The text that nvdisasm prints, as functions of instructions.

A section of a kernel holds the kernel and the helpers that ptxas put behind it (slow paths of
divisions); each is a function of its own here, named by its label."""
import re
from dataclasses import dataclass, field

LINE = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.+?)\s*;")
LABEL = re.compile(r"([^\s:]+):\s*$")
GUARD = re.compile(r"@(!?)(U?P(?:\d+|T))\s+")
TARGET = re.compile(r"`\(([^)]+)\)")
LISTED = re.compile(r'BRANCH_TARGETS ([^"]+)"')


class Unreadable(ValueError):
    """The text is not what this reader knows."""


@dataclass(frozen=True)
class Instruction:
    address: int
    opcode: str  # with its modifiers, "LDG.E.128"
    operands: tuple  # texts
    guard: str = ""  # "P0", "UP1"; empty where it always runs
    negated: bool = False
    targets: tuple = ()  # labels

    @property
    def base(self):
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self):
        return self.opcode.split(".")[1:]

    def __str__(self):
        return f"{self.address:04x} {self.opcode}"


@dataclass
class Function:
    name: str
    instructions: list = field(default_factory=list)
    labels: dict = field(default_factory=dict)  # name: index of the instruction behind it


def split_operands(text):
    """At commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return tuple(parts + [last] if last else parts)


def read_instruction(address, text):
    guard = GUARD.match(text)
    rest = text[guard.end():] if guard else text
    listed = LISTED.search(rest)
    targets = TARGET.findall(rest) + (listed[1].replace(" ", "").split(",") if listed else [])
    opcode, _, operands = re.sub(r"\(\*.*?\*\)", "", rest).partition(" ")
    # @PT is what always runs.
    always = not guard or (guard[2] in ("PT", "UPT") and not guard[1])
    return Instruction(address, opcode, split_operands(operands), "" if always else guard[2],
                       not always and bool(guard[1]), tuple(targets))


def read(text):
    """All functions, by name, in their order."""
    functions, current = {}, None
    for line in text.splitlines():
        label = LABEL.match(line)
        if label and label[1].startswith(".L"):
            if current:
                current.labels[label[1]] = len(current.instructions)
        elif label and not label[1].startswith("."):
            current = functions[label[1]] = Function(label[1])
        elif instruction := LINE.match(line):
            if not current:
                raise Unreadable(f"an instruction must be behind the label of its function: {line}")
            current.instructions.append(read_instruction(int(instruction[1], 16), instruction[2]))
    found = {name: function for name, function in functions.items() if function.instructions}
    if not found:
        raise Unreadable("a disassembly must have an instruction, found none")
    return found
