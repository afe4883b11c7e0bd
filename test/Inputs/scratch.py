"""scratch.py MANIFEST Q_HEADS KV_HEADS BYTES: all buffers together, none shared,
must need at most BYTES * kv_heads * tokens plus a constant at every length."""
import json
import re
import sys

manifest = json.load(open(sys.argv[1]))
q_heads, kv_heads, limit = map(int, sys.argv[2:5])


def extent(text, tokens):
    text = re.sub(r"ceildiv\(([^,]+),([^)]+)\)", r"-(-(\1)//(\2))", text)
    return eval(text, {}, {"batch": 1, "q_heads": q_heads, "kv_heads": kv_heads,
                           "head_dim": 128, "tokens": tokens})


def total(tokens):
    result = 0
    for buffer in manifest["buffers"]:
        size = buffer["bytes"]
        for dim in buffer["dims"]:
            size *= extent(dim, tokens)
        result += size
    return result


constant = total(1) + 64 * 1024
for tokens in (1024, 4096, 32768, 131072):
    assert total(tokens) <= limit * kv_heads * tokens + constant, (tokens, total(tokens))
print("largest slope", (total(131072) - total(1024)) / (131072 - 1024) / kv_heads)
