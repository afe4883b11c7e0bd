"""The shipped model answers in transformers what it answers in `kvc-run generate`, by every
policy, with the question in the prompt and behind it."""

import json
import pathlib
import struct
import subprocess
import tempfile
import unittest

import torch
import transformers

import kvc
from kvc.transformers import KvcCache

from ..support import HOME, ROOT, Case

MODEL = ROOT / "models/needle"
NEW = 8


def sample():
    """A context, a question about it, and the answer."""
    entry = json.loads((ROOT / "models/tasks/256.jsonl").read_text().splitlines()[0])
    return entry["context"], entry["question"], entry["answer"]


class TestNeedle(Case):
    def setUp(self):
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, True)
        transformers.logging.set_verbosity_error()
        self.model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
        self.model.set_attn_implementation("kvc")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.table = torch.arange(1, 33, dtype=torch.float32).reshape(4, 8)
        header = json.dumps({"importance": {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]}}).encode()
        data = struct.pack("<Q", len(header)) + header + self.table.numpy().tobytes()
        (self.folder / "table").write_bytes(data)

    def kvc_run(self, policy, prompt, question):
        (self.folder / "prompt").write_text(prompt)
        command = [HOME / "bin/kvc-run", "generate", "--model", MODEL, "--policy", policy.path, "--keep", "0.25",
                   "--target", "host", "--prompt-file", self.folder / "prompt", "--max-new-tokens", str(NEW),
                   "--json", self.folder / "json"]  # fmt: skip
        command += ["--question", question] if question else []
        command += ["--table", self.folder / "table"] if "table" in policy.manifest.reads else []
        subprocess.run(command, check=True, capture_output=True)
        return json.loads((self.folder / "json").read_text())

    def test_answers(self):
        context, question, answer = sample()
        for name in kvc.policies():
            policy = kvc.compile(name, head_dim=32, group=2, dtype="f32")
            for behind in (False, True):
                with self.subTest(name, question_behind=behind):
                    prompt = context if behind else f"{context} {question}"
                    wanted = self.kvc_run(policy, prompt, question if behind else "")
                    cache = KvcCache(self.model, policy, "0.25", table=self.table)
                    ids = torch.tensor([wanted["prompt_tokens"]])
                    if behind:
                        self.model(ids, past_key_values=cache)
                        cache.finish()
                        ids = torch.cat([ids, torch.tensor([wanted["question_tokens"]])], dim=1)
                    out = self.model.generate(
                        ids, attention_mask=torch.ones_like(ids), past_key_values=cache, max_new_tokens=NEW,
                        do_sample=False,
                    )  # fmt: skip
                    tokens = out[0, ids.shape[1] :].tolist()
                    self.assertEqual(tokens, wanted["tokens"])
                    counts = [[len(head) for head in cache.kept(layer)[0]] for layer in range(4)]
                    self.assertEqual(counts, wanted["kept"])
                    if name == "full":
                        self.assertIn(answer.strip(), wanted["text"])


if __name__ == "__main__":
    unittest.main()
