"""examples.py DEFINITIONS TEXT: each op of DEFINITIONS has an example, which stands in TEXT.

TEXT is what kvc-opt printed, so that examples are read, checked and printed with it. Names of
values and attributes that passes write do not count."""
import re
import sys


def plain(text):
    text = re.sub(r"%\w+(:\d+)?(#\d+)?", "%", text)
    text = re.sub(r" attributes \{[^\n]*?\} :| \{buffer = [^}]*\}| share_positions",
                  lambda match: " :" if match[0].endswith(":") else "", text)
    return " ".join(text.split())


definitions, printed = (open(path).read() for path in sys.argv[1:])
printed = plain(printed)
missing = []
for op, body in re.findall(r'^def KVC_\w+Op : KVC_\w+<"(\w+)"([\s\S]*?)^}', definitions, re.M):
    examples = re.findall(r"Example: `([^`]*)`", body) + re.findall(r"```mlir\n([\s\S]*?)```", body)
    missing += [f"{op}: {example}" for example in examples or ["no example"]
                if plain(example) not in printed]
sys.exit("not in the text that is read\n  " + "\n  ".join(missing) if missing else 0)
