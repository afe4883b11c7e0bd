"""corrupt.py GOOD PREFIX: writes lying copies of a safetensors file."""
import json
import struct
import sys

good = open(sys.argv[1], "rb").read()
prefix = sys.argv[2]
(length,) = struct.unpack("<Q", good[:8])
header = json.loads(good[8:8 + length])
data = good[8 + length:]


def write(name, raw):
    open(f"{prefix}.{name}", "wb").write(raw)


def with_header(name, change):
    copy = json.loads(json.dumps(header))
    change(copy)
    text = json.dumps(copy).encode()
    write(name, struct.pack("<Q", len(text)) + text + data)


write("header", struct.pack("<Q", 1 << 62) + good[8:])
write("tiny", good[:5])
write("cut", good[:-100])
write("json", struct.pack("<Q", length) + b"[" + good[9:])
with_header("shape", lambda h: h["layers.0.k"].update(shape=[2, 64, 33]))
with_header("dtype", lambda h: h["layers.0.k"].update(dtype="F31"))
def change(name, **fields):
    with_header(name, lambda h: h["layers.0.k"].update(fields))


with_header("entry", lambda h: h["layers.0.k"].pop("dtype"))
change("list", shape=7)
change("whole", shape=[2, -64, 32])
change("product", shape=[1 << 40, 1 << 40, 32])
change("two", data_offsets=[0])
change("type", dtype="I32")
with_header("metadata", lambda h: h.update(__metadata__=[]))
with_header("gap", lambda h: h.update({"layers.2.k": h.pop("layers.0.k")}))
with_header("rank", lambda h: h["layers.0.k"].update(shape=[2, 64 * 32]))
write("more", good + b"xxxx")
with_header("overlap", lambda h: h["layers.0.v"].update(
    data_offsets=h["layers.0.k"]["data_offsets"]))
