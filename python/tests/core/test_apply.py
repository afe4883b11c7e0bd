"""What Python gets is what `kvc-run apply` writes, byte for byte: kept sets, rows, scores and
members, in a batch of sequences of several lengths."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from ..support import HOME, ROOT, compiled, make_layers, read_safetensors

LAYERS, HEADS, GROUP, DIM, HIDDEN, BUDGET = 2, 2, 2, 16, 20, 24
TOKENS = (90, 64)


def packed(arrays):
    """Sequences of several lengths in one batch, what is behind them NaN or all bits set."""
    most = max(array.shape[1] for array in arrays)
    filler = 0xFFFF if arrays[0].dtype == np.uint16 else np.nan
    room = np.full((len(arrays), arrays[0].shape[0], most, DIM), filler, arrays[0].dtype)
    for b, array in enumerate(arrays):
        room[b, :, : array.shape[1]] = array
    return room


def queries(arrays):
    """The last query of each sequence is in the last row."""
    most = max(array.shape[1] for array in arrays)
    room = np.zeros((len(arrays), arrays[0].shape[0], most, DIM), arrays[0].dtype)
    for b, array in enumerate(arrays):
        room[b, :, most - array.shape[1] :] = array
    return room


class TestApply(unittest.TestCase):
    def test_as_kvc_run(self):
        for name, dtype in (("adakv", "bf16"), ("criticalkv", "f16"), ("ems", "f32"), ("kvec", "f32"),
                            ("headkv", "f32"), ("lagkv", "f32"), ("streaming_llm", "bf16")):  # fmt: skip
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.check(name, dtype, pathlib.Path(folder))

    def check(self, name, dtype, folder):
        options = {"heads": HEADS, "group": GROUP, "d": DIM, "layers": LAYERS, "hidden": HIDDEN, "raw": 1,
                   "dtype": dtype.upper(), "queries": 1000}  # fmt: skip
        inputs = [make_layers(folder / f"in{b}", T=tokens, seed=b, **options) for b, tokens in enumerate(TOKENS)]
        policy = compiled(name, DIM, GROUP, dtype)
        table = np.arange(1, LAYERS * HEADS * GROUP + 1, dtype=np.float32).reshape(LAYERS, -1)
        command = [HOME / "bin/kvc-run", "apply", "--policy", policy.path, "--budget", str(BUDGET), "--scores",
                   "--target", "host"]  # fmt: skip
        for b in range(len(TOKENS)):
            command += ["--input", folder / f"in{b}", "--output", folder / f"out{b}"]
        if "table" in policy.manifest.reads:
            words = [str(number) for number in table.ravel()]
            subprocess.run(
                [
                    sys.executable,
                    ROOT / "test/Inputs/layers.py",
                    "table",
                    folder / "table",
                    str(LAYERS),
                    str(HEADS * GROUP),
                    *words,
                ],
                check=True,
            )
            command += ["--table", folder / "table"]
        subprocess.run(command, check=True, capture_output=True)
        wanted = [read_safetensors(folder / f"out{b}") for b in range(len(TOKENS))]

        plan = policy.plan(kv_heads=HEADS, max_tokens=max(TOKENS), max_batch=len(TOKENS))
        state = plan.state()
        for layer in range(LAYERS):
            parts = {part: [one[f"layers.{layer}.{part}"] for one in inputs] for part in ("q", "k", "v", "k_raw", "wo")}
            kept = plan.evict(
                queries(parts["q"]), packed(parts["k"]), packed(parts["v"]), budget=BUDGET, lengths=TOKENS,
                layer=layer, layers=LAYERS, wo=np.stack(parts["wo"]), k_raw=packed(parts["k_raw"]), table=table,
                state=state, scores=True,
            )  # fmt: skip
            for b in range(len(TOKENS)):
                heads = [kept[b, h] for h in range(HEADS)]
                got = {
                    "counts": kept.counts[b],
                    "indices": joined(heads, "indices"),
                    "k": joined(heads, "k"),
                    "v": joined(heads, "v"),
                }
                if heads[0].scores is not None:
                    got["scores"] = np.stack([head.scores for head in heads])
                if kept.members is not None:
                    got["members.counts"] = kept.members.counts[b]
                    for ours, theirs in (("rows", "row"), ("positions", "position"), ("norms", "norm")):
                        got[f"members.{theirs}"] = joined(heads, f"member_{ours}")
                prefix = f"layers.{layer}."
                self.assertEqual(
                    {prefix + part for part in got}, {part for part in wanted[b] if part.startswith(prefix)}
                )
                for part, array in got.items():
                    self.assertEqual(array.tobytes(), wanted[b][prefix + part].tobytes(), (part, layer, b))


def joined(heads, part):
    return np.concatenate([getattr(head, part) for head in heads])


if __name__ == "__main__":
    unittest.main()
