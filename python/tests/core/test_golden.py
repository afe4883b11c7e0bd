"""Every shipped policy keeps from Python what test/golden/kept.jsonl says."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kvc

from ..support import HOME, ROOT, read_safetensors

GOLDEN = ROOT / "test/golden"
LAYERS, KV_HEADS, TOKENS = 3, 3, 200


def numbers(runs):
    """ "3 7-9" as [3, 7, 8, 9]."""
    found = []
    for run in runs.split():
        first, _, last = run.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def merged(head):
    """Which kept token stands for each merged one, as kept.jsonl writes it."""
    pairs = zip(head.member_positions.tolist(), head.member_rows.tolist(), strict=True)
    return " ".join(f"{position}>{head.indices[row]}" for position, row in pairs if position != head.indices[row])


def opened(name, folder):
    """The policy, compiled for no more than is run here: kvc.compile makes warps' kernels as
    well, in three times as long."""
    library = pathlib.Path(folder, name + ".so")
    shape = ["--shape", "head_dim=16,group=2,dtype=f32", "--chip=none", "--host-forms=threads"]
    kvc_opt = HOME / "bin/kvc-opt"
    subprocess.run([kvc_opt, kvc.policies()[name], "--emit=library", *shape, "-o", library], check=True)
    return kvc.load(library)


class TestGolden(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_kept_sets(self):
        subprocess.run([sys.executable, GOLDEN / "golden.py", "make", self.folder], check=True)
        tensors = read_safetensors(pathlib.Path(self.folder, "input.safetensors"))
        table = read_safetensors(pathlib.Path(self.folder, "table.safetensors"))["importance"]
        entries = [json.loads(line) for line in (GOLDEN / "kept.jsonl").read_text().splitlines()]
        self.assertEqual([entry["policy"] for entry in entries], list(kvc.policies()))
        for entry in entries:
            with self.subTest(entry["policy"]):
                self.check(entry, tensors, table)

    def check(self, entry, tensors, table):
        name = entry["policy"]
        plan = opened(name, self.folder).plan(kv_heads=KV_HEADS, max_tokens=TOKENS)
        state = plan.state()
        text = kvc.policies()[name].read_text()
        # There the table does not name the tokens of a row.
        merges = "merged" in entry and "share_positions" not in text
        for layer in range(LAYERS):
            q, k, v, k_raw = (tensors[f"layers.{layer}.{part}"][None] for part in ("q", "k", "v", "k_raw"))
            kept = plan.evict(
                q, k, v, budget=entry["budget"], layer=layer, layers=LAYERS,
                wo=tensors[f"layers.{layer}.wo"], k_raw=k_raw, table=table, state=state,
            )  # fmt: skip
            for head in range(KV_HEADS):
                self.assertEqual(kept[0, head].indices.tolist(), numbers(entry["kept"][layer][head]), (layer, head))
                if merges:
                    self.assertEqual(merged(kept[0, head]), entry["merged"][layer][head], (layer, head))


if __name__ == "__main__":
    unittest.main()
