"""bad_models.py MODELS FIXTURES DIR: each lying copy of a model directory must be refused
with one line that names the rule."""
import json
import pathlib
import shutil
import struct
import subprocess
import sys

needle, fixtures, out = pathlib.Path(sys.argv[1]) / "needle", pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sharded = fixtures / "models/mistral_sharded"


def edit(name, change):
    def apply(folder):
        path = folder / name
        doc = json.loads(path.read_text())
        change(doc)
        path.write_text(json.dumps(doc))
    return apply


def tensors(folder, change):
    """Changes the header of a copy's model.safetensors; the data stay."""
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length:])


def rename(header):
    header["model.layers.1.mlp.up.weight"] = header.pop("model.layers.1.mlp.up_proj.weight")


def reshape(header):
    header["model.norm.weight"]["shape"] = [64, 2]


def swap_ids(doc):
    doc["model"]["vocab"]["a"] = doc["model"]["vocab"]["b"]


def write(name, raw):
    return lambda folder: (folder / name).write_bytes(raw)


config = "config.json"
cases = [
    (needle, lambda f: (f / config).unlink(), "config.json"),
    (needle, write(config, b"{"), "must be a JSON object"),
    (needle, edit(config, lambda c: c.update(architectures=["GPT2LMHeadModel"])),
     "architectures must be one of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
     "Qwen3ForCausalLM, got [\"GPT2LMHeadModel\"]"),
    (needle, edit(config, lambda c: c.pop("hidden_size")), "hidden_size is missing"),
    (needle, edit(config, lambda c: c.update(num_hidden_layers=-1)), "num_hidden_layers must be a whole number"),
    (needle, edit(config, lambda c: c.update(num_key_value_heads=3)), "multiple of num_key_value_heads (3), got 8"),
    (needle, edit(config, lambda c: c.update(head_dim=33)), "head_dim must be even"),
    (needle, edit(config, lambda c: c.update(rope_scaling={"type": "longrope", "factor": 4})),
     "rope_type must be default, linear, llama3 or yarn, got \"longrope\""),
    (needle, edit(config, lambda c: c.update(rope_scaling={"type": "llama3", "factor": 4})),
     "low_freq_factor is missing"),
    (needle, edit(config, lambda c: c.update(quantization_config={"bits": 4})), "quantization_config must be absent"),
    (needle, edit(config, lambda c: c.update(vocab_size=1000)), "must have shape [1000, 128], got BF16 [1442, 128]"),
    (needle, lambda f: (f / "model.safetensors").unlink(), "model.safetensors"),
    (needle, write("model.safetensors", struct.pack("<Q", 1 << 60) + b"{}"), "header"),
    (needle, lambda f: tensors(f, rename), "tensor 'model.layers.1.mlp.up_proj.weight'"),
    (needle, lambda f: tensors(f, reshape), "must have shape [128], got BF16 [64, 2]"),
    (needle, lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json"),
    (needle, edit("tokenizer.json", lambda t: t["added_tokens"][0].update(id=5000)),
     "must fit the model's vocabulary of 1442 tokens, got token 5000"),
    (needle, edit("tokenizer.json", swap_ids), "an id of its own"),
    (needle, edit("tokenizer.json", lambda t: t["model"]["merges"].append("zq qz")),
     "must be made of tokens of the vocabulary"),
    (needle, edit("tokenizer.json", lambda t: t.update(pre_tokenizer={"type": "Whitespace"})), "pre_tokenizer.type"),
    (sharded, lambda f: (f / "model-00002-of-00006.safetensors").unlink(), "model-00002-of-00006.safetensors"),
    (sharded, edit("model.safetensors.index.json", lambda i: i["weight_map"].pop("model.norm.weight")),
     "tensor 'model.norm.weight' is missing"),
    (sharded, edit("model.safetensors.index.json",
                   lambda i: i["weight_map"].update({"model.norm.weight": "../x.safetensors"})),
     "must name files of the directory"),
]
wrong = []
for number, (good, spoil, words) in enumerate(cases):
    folder = out / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder)
    spoil(folder)
    prompt = ["--prompt", "x"] if good == needle else ["--tokens", "1,2"]
    run = subprocess.run(["kvc-run", "generate", "--model", str(folder), *prompt], capture_output=True, text=True)
    lines = run.stderr.splitlines()
    if run.returncode != 1 or len(lines) != 1 or not lines[0].startswith("error: ") or words not in lines[0]:
        wrong.append(f"{number}, '{words}': exit {run.returncode}, {run.stderr.strip()[:300]}")
if wrong:
    sys.exit("\n".join(wrong))
print(len(cases), "refused")
