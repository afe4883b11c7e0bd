"""untested.py: which labelled constraints, ops of level policy and messages no test names.

A label (C1 ... in an op's description) is tested by a comment `// SomeOp C1` in test/, an
op of level policy by its value in test/reference, each of its kinds by one there and by its
name in the op's description, a message by a text in test/ that has its
longest literal part, or five words of it in a row. What cannot be provoked is in `exceptions`,
with the reason; an exception that is tested, or that no source has, is an error too."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
# Messages that no test can get out of the program.
never = "an answer of LLVM's that passes and checks leave no way to"
memory = "memory or file descriptors must run out in that very call"
earlier = "what runs before refuses it; said to whoever changes that"
exceptions = {
    "the reference has no meaning for this constant": earlier,
    "the reference has no meaning for": earlier,
    "lowering to the host failed": never,
    "lowering to NVVM failed": never,
    "translation to LLVM IR failed": never,
    "the target cannot emit this kind of file": never,
    "no memory for the linker": memory,
    "no files in memory for the linker": memory,
    "cannot read what the linker wrote": memory,
    "a library needs the linker ld.lld, which was not found (package lld-22)":
        "the linker is also looked for at a fixed path, where the build's is",
    "no description": "the driver must know no words for its own error",
    "it became shorter while it was read": "two programs must meet in a microsecond",
    "bytes of stacks": memory,
    "cannot allocate": memory,
    "cannot write a temporary file for ptxas": memory,
    "a layer of a cache must have at most": "2^31 rows of a layer",
    "a cache must have below 2^31 slots, got": "2^31 slots of a layer",
    "merged rows go behind merged rows only": earlier,
    "a maximum must be in global memory": "builders make no others",
    "kept rows do not fit their cache": "a policy's kernel must have gone wrong",
    "the view of a cache is wrong": "the executor makes views that are right",
    "reads a table of": earlier,
    "carries state: layers must come in order, got": earlier,
    "built without the GPU executor, whose kernels need clang with its NVPTX target; "
    "take --target host": "another build of kvc-run",
    "this program was built without kernels for GPUs": "another build of kvc-run",
    "keeps other tokens in a CUDA graph": "a driver must run a graph otherwise than its launches",
}

folders = ("dialect", "passes", "codegen", "tools", "support", "runtime", "emulator", "ptx", "executor",
           "eval")
calls = re.compile(r"\b(?:emitOpError|emitError|createStringError|fail|bad|refuse|require|"
                   r"ValidationError|RequiredError|throw [\w.:]+)\(")
# The programs' own files also return what is wrong as a text.
returns = re.compile(calls.pattern + r'|\breturn (?:[\w:]+\()?(?=")')
literal = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
words_in_a_row = 5


def plain(text):
    """A text as source and test both may write it: one space, no escapes."""
    return re.sub(r"\s+", " ", text.replace("\\", ""))


def without_comments(text):
    return re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*', lambda m: m[1] or "", text)


def statement(text, start):
    """From `start` to the semicolon, or the brace, that ends it."""
    depth, at = 0, start
    while at < len(text):
        if text[at] == '"':
            at = literal.match(text, at).end() if literal.match(text, at) else at + 1
            continue
        if text[at] == "'":
            at += 4 if text[at + 1] == "\\" else 3
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth < 0 or (depth == 0 and text[at] == ";"):
            break
        at += 1
    return text[start:at]


def message(code):
    """The longest part of a statement's texts that holds no value."""
    texts = ["".join(literal.findall(run)) for run in
             re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', code)]
    parts = [part for text in texts for part in re.split(r"\{[^}]*\}", plain(text))]
    return max((part.strip(" '\":,.;") for part in parts), key=len, default="")


def messages():
    found = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h"):
                continue
            text = without_comments(path.read_text())
            ended = 0
            for call in (returns if folder in ("support", "tools") else calls).finditer(text):
                if call.start() < ended:
                    continue
                code = statement(text, call.start())
                ended = call.start() + len(code)
                said = message(code)
                if len(said) >= 8 and " " in said:
                    found.setdefault(said, str(path.relative_to(root)))
    return found


def tests():
    parts = []
    for path in sorted((root / "test").rglob("*")):
        if path.suffix in (".test", ".mlir", ".cpp", ".py") and "corpus" not in path.parts:
            text = path.read_text()
            # Texts that a test writes on several lines.
            parts.append(re.sub(r'"\s*\n\s*"', "", text))
    return plain(" ".join(parts))


def is_said(text, corpus):
    words = text.split(" ")
    count = min(words_in_a_row, len(words))
    return any(" ".join(words[i:i + count]) in corpus for i in range(len(words) - count + 1))


def enums():
    """The words of each enumeration."""
    return {name: re.findall(r'I32EnumAttrCase<"\w+", \d+, "(\w+)">', cases)
            for name, cases in re.findall(r"^def KVC_(\w+) : KVC_Enum<([\s\S]*?)^\]>;",
                                          (root / "dialect/KVCAttrs.td").read_text(), re.M)}


def kinds(body, known):
    """The words of an op's enumerations."""
    return [word for name in re.findall(r"KVC_(\w+)Attr:\$", body) for word in known.get(name, [])]


def ops():
    """(op's class, its mnemonic, its labels, whether it is of level policy, its text)"""
    for path in sorted((root / "dialect").glob("*.td")):
        for name, mnemonic, body in re.findall(
                r'^def KVC_(\w+Op) : KVC_\w+<"(\w+)"([\s\S]*?)^}', path.read_text(), re.M):
            yield (name, mnemonic, re.findall(r"- (C\d+):", body),
                   path.name != "KVCKernelOps.td", body)


def main():
    corpus = tests()
    missing = []
    reference = "\n".join(path.read_text() for path in (root / "test/reference").glob("*.mlir"))
    known = enums()
    for name, mnemonic, labels, of_policy, body in ops():
        missing += [f"{name} {label}" for label in labels
                    if not re.search(rf"// {name} {label}\b", corpus)]
        if of_policy and not re.search(rf"(= |// |, )kvc\.{mnemonic}\b", reference):
            missing.append(f"test/reference has no kvc.{mnemonic}")
        for kind in kinds(body, known) if of_policy else []:
            if not re.search(rf"\bkvc\.{mnemonic}\b[^:\n]*\b{kind}\b", reference):
                missing.append(f"test/reference has no kvc.{mnemonic} {kind}")
            if not re.search(rf"\b{kind}\b", body):
                missing.append(f"the description of {name} has no word of {kind}")
    said = messages()
    for text, path in said.items():
        if text not in exceptions and not is_said(text, corpus):
            missing.append(f"{path}: {text}")
        if text in exceptions and is_said(text, corpus):
            missing.append(f"an exception that is tested: {text}")
    missing += [f"an exception that nobody says: {text}" for text in exceptions
                if text not in said]
    print(f"{len(list(ops()))} ops, {len(said)} messages, {len(exceptions)} exceptions")
    sys.exit("no test has\n  " + "\n  ".join(missing) if missing else 0)


main()
