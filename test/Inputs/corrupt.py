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
with_header("overlap", lambda h: h["layers.0.v"].update(
    data_offsets=h["layers.0.k"]["data_offsets"]))
