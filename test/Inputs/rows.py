"""Caches of rows for the command tests, made from prompts (layers.py); standard library only.

  rows.py all PROMPT OUT [WHAT]   every token of every head has a row; WHAT spoils it
  rows.py kept PROMPT RESULT OUT  the rows that `apply` has kept of a prompt or of rows, and what they carry
  rows.py state PROMPT RESULT OUT WHAT    the same; WHAT spoils what they carry
  rows.py same A B                results of `apply` keep the same, with the same bytes
  rows.py none PROMPT OUT [LENGTH]    no row at all, behind as many tokens if so many
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from layers import load, save  # noqa: E402


def integers(raw):
    return list(struct.unpack(f"<{len(raw) // 4}i", raw))


def tensor(values):
    return ("I32", [len(values)], struct.pack(f"<{len(values)}i", *values))


def rows_of(prompt):
    """Every layer's k, v and k_raw as [rows, d], with all positions."""
    tensors, tokens = {}, prompt["layers.0.k"][1][1]
    for name, (dtype, shape, raw) in prompt.items():
        side = name.split(".")[2]
        if side in ("k", "v", "k_raw"):
            heads, _, dim = shape
            tensors[name] = (dtype, [heads * tokens, dim], raw)
            layer = name.rsplit(".", 1)[0]
            tensors[f"{layer}.lengths"] = tensor([tokens] * heads)
            tensors[f"{layer}.positions"] = tensor(list(range(tokens)) * heads)
        else:
            tensors[name] = (dtype, shape, raw)
    return tensors, {"length": str(tokens)}


def spoil(tensors, metadata, what):
    def change(name, values):
        tensors[name] = tensor(values(integers(tensors[name][2])))
    if what == "twice":
        change("layers.0.positions", lambda p: p[:5] + [p[4]] + p[6:])
    elif what == "behind":
        metadata["length"] = "63"
    elif what == "no-length":
        metadata["length"] = "-1"
    elif what == "negative":
        change("layers.0.lengths", lambda n: [-1] + n[1:])
    elif what == "few":
        change("layers.0.lengths", lambda n: [n[0] - 1] + n[1:])
    elif what == "heads":
        change("layers.1.lengths", lambda n: n + [0])
    elif what == "half":
        del tensors["layers.1.positions"]
    elif what == "floats":
        dtype, shape, raw = tensors["layers.0.lengths"]
        tensors["layers.0.lengths"] = ("F32", shape, raw)
    elif what == "keys":
        dtype, shape, raw = tensors["layers.1.v"]
        tensors["layers.1.v"] = (dtype, [shape[0] // 2, shape[1] * 2], raw)
    elif what in ("no-q", "no-wo"):
        dtype, shape, _ = tensors[f"layers.0.{what[3:]}"]
        tensors[f"layers.0.{what[3:]}"] = (dtype, [0] + shape[1:], b"")
    elif what == "nothing":
        for side in "kv":
            dtype, shape, _ = tensors[f"layers.0.{side}"]
            tensors[f"layers.0.{side}"] = (dtype, [shape[0], 0], b"")


def spoil_state(tensors, metadata, what):
    dtype, (rows,), raw = tensors["layers.0.state.mass"]
    if what == "shape":
        tensors["layers.0.state.mass"] = (dtype, [rows - 1], raw[4:])
    elif what == "nan":
        tensors["layers.0.state.mass"] = (dtype, [rows], raw[:12] + struct.pack("<f", float("nan")) + raw[16:])
    else:  # new=N
        metadata["new"] = what.split("=")[1]


command, *arguments = sys.argv[1:]
if command == "all":
    tensors, metadata = rows_of(load(arguments[0]))
    if len(arguments) > 2:
        spoil(tensors, metadata, arguments[2])
    save(arguments[1], tensors, metadata)
elif command in ("kept", "state"):
    prompt, result = load(arguments[0]), load(arguments[1])
    tensors, metadata = rows_of(prompt)
    for name in [name for name in tensors if name.endswith(".lengths")]:
        layer = name.rsplit(".", 1)[0]
        tensors[name] = result[f"{layer}.counts"]
        # Of a prompt, rows are tokens.
        tensors[f"{layer}.positions"] = result.get(f"{layer}.positions",
                                                   result[f"{layer}.indices"])
        for side in ("k", "v"):
            tensors[f"{layer}.{side}"] = result[f"{layer}.{side}"]
        tensors.pop(f"{layer}.k_raw", None)
        tensors |= {name: result[name] for name in result if name.startswith(f"{layer}.state.")}
    if command == "state":
        spoil_state(tensors, metadata, arguments[3])
    save(arguments[2], tensors, metadata)
elif command == "none":
    tensors, metadata = rows_of(load(arguments[0]))
    for name, (dtype, shape, raw) in tensors.items():
        side = name.split(".")[2]
        if side == "lengths":
            tensors[name] = tensor([0] * shape[0])
        elif side == "positions":
            tensors[name] = tensor([])
        elif side in ("k", "v"):
            tensors[name] = (dtype, [0, shape[1]], b"")
    save(arguments[1], tensors, {"length": arguments[2]} if len(arguments) > 2 else None)
elif command == "same":
    a, b = map(load, arguments)
    for name in a:
        if name.endswith(".positions") and name not in b:
            continue  # of a prompt there are none
        if name not in b or a[name][2] != b[name][2]:
            sys.exit(f"{name} differs")
    if missing := [name for name in b if name not in a and not name.endswith(".positions")]:
        sys.exit(f"only one has {missing}")
