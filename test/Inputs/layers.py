"""Makes and reads safetensors files for the command tests; standard library only.

  layers.py make OUT [T=64] [heads=2] [group=2] [d=32] [dtype=F32] [layers=1]
                     [queries=40] [seed=1] [without=q] [nan=k] [equal=k]
                     [k_lengths=A/B/... v_lengths=...: rows along the first axis, as long as one of these]
                     [hidden=D: with wo] [raw=1: with k_raw] [scale=S] [rope_theta=B] [new=N]
                     [period=N: of a tensor so many elements are drawn, which then repeat; no
                     multiple of what rows have, or these repeat]
  layers.py table OUT LAYERS HEADS NUMBER...    the importance of heads
  layers.py show FILE     every tensor: name, type, shape, and small ones whole
  layers.py same FILE FILE NAME...    these tensors are equal
  layers.py move FILE OUT BYTES       the same, the first tensor so far behind a multiple of 64
"""
import itertools
import json
import math
import random
import struct
import sys


def encoded(dtype, values):
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    raw = struct.pack(f"<{len(values)}f", *values)
    if dtype == "F32":
        return raw
    truncated = bytearray(2 * len(values))  # BF16
    truncated[0::2], truncated[1::2] = raw[2::4], raw[3::4]
    return bytes(truncated)


def normals():
    """The numbers that random.gauss(0, 1) would give, in half the time."""
    draw, cos, sin, log, sqrt, turn = random.random, math.cos, math.sin, math.log, math.sqrt, 2 * math.pi
    while True:
        angle = draw() * turn
        radius = sqrt(-2.0 * log(1.0 - draw()))
        yield cos(angle) * radius
        yield sin(angle) * radius


def save(path, tensors, metadata=None):
    header, end = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [end, end + len(raw)]}
        end += len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(raw for _, _, raw in tensors.values())


def load(path):
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (entry["dtype"], entry["shape"],
                             raw[8 + length + begin:8 + length + end])
    return tensors


def make(path, options):
    get = lambda name, default: int(options.get(name, default))
    tokens, heads, group, dim = get("T", 64), get("heads", 2), get("group", 2), get("d", 32)
    queries, dtype = min(get("queries", 40), tokens), options.get("dtype", "F32")
    random.seed(get("seed", 1))
    drawing = normals()
    tensors = {}
    for layer in range(get("layers", 1)):
        shapes = {"q": [heads * group + get("odd", 0), queries, dim], "k": [heads, tokens, dim],
                  "v": [heads, tokens, dim]}
        if "raw" in options:
            shapes["k_raw"] = [heads, tokens, dim]
        if "hidden" in options:
            shapes["wo"] = [get("hidden", 0), heads * group * dim]
        for name, shape in shapes.items():
            if options.get("without") == name:
                continue
            count = math.prod(shape)
            drawn = min(get("period", count), count)
            values = list(itertools.islice(drawing, drawn))
            if lengths := options.get(f"{name}_lengths"):
                lengths = [float(text) for text in lengths.split("/")]
                values = [0.0 if i % dim else random.choice(lengths) for i in range(drawn)]
            if options.get("equal") == name:
                values = [0.5] * drawn
            if options.get("nan") == name:
                values[drawn // 2] = float("nan")
            raw = encoded(dtype, values)
            whole, rest = divmod(count, max(drawn, 1))
            raw = raw * whole + raw[:len(raw) // max(drawn, 1) * rest]
            tensors[f"layers.{layer}.{name}"] = (dtype, shape, raw)
    metadata = {key: options[key] for key in ("scale", "rope_theta", "new") if key in options}
    save(path, tensors, metadata)


def move(path, out, distance):
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack("<Q", raw[:8])
    padded = length + (int(distance) - 8 - length) % 64
    with open(out, "wb") as file:
        file.write(struct.pack("<Q", padded) + raw[8:8 + length].ljust(padded) + raw[8 + length:])


def show(path):
    formats = {"I32": "<%di", "F32": "<%df"}
    for name, (dtype, shape, raw) in sorted(load(path).items()):
        line = f"{name} {dtype} {shape}"
        count = len(raw) // 4
        if dtype in formats and 0 < count <= 200:
            line += " " + " ".join(f"{x:g}" for x in struct.unpack(formats[dtype] % count, raw))
        print(line)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], dict(item.split("=", 1) for item in sys.argv[3:]))
    elif sys.argv[1] == "table":
        layers, heads, *values = sys.argv[3:]
        raw = struct.pack(f"<{len(values)}f", *map(float, values))
        save(sys.argv[2], {"importance": ("F32", [int(layers), int(heads)], raw)})
    elif sys.argv[1] == "same":
        one, other = load(sys.argv[2]), load(sys.argv[3])
        for name in sys.argv[4:]:
            assert one[name] == other[name], name
    elif sys.argv[1] == "move":
        move(*sys.argv[2:])
    else:
        show(sys.argv[2])
