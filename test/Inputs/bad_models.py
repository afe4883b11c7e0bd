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


config, tokenizer = "config.json", "tokenizer.json"
cases = [
    (needle, lambda f: (f / config).unlink(), "config.json"),
    (needle, write(config, b"{"), "must be a JSON object"),
    (needle, edit(config, lambda c: c.update(architectures=["GPT2LMHeadModel"])),
     "architectures must be one of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
     "Qwen3ForCausalLM, got [\"GPT2LMHeadModel\"]"),
    (needle, edit(config, lambda c: c.pop("hidden_size")), "hidden_size is missing"),
    (needle, edit(config, lambda c: c.update(num_hidden_layers=-1)), "num_hidden_layers must be a whole number"),
    (needle, edit(config, lambda c: c.update(num_key_value_heads=3)), "num_attention_heads must be a multiple of num_key_value_heads (3), got 8"),
    (needle, edit(config, lambda c: c.update(head_dim=33)), "head_dim must be even and above 0"),
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
     "/model.safetensors.index.json: tensor 'model.norm.weight' is missing"),
    (sharded, edit("model.safetensors.index.json",
                   lambda i: i["weight_map"].update({"model.norm.weight": "../x.safetensors"})),
     "must name files of the directory"),
    (needle, edit(config, lambda c: c.update(rms_norm_eps="x")), 'rms_norm_eps must be a number above 0, got "x"'),
    (needle, edit(config, lambda c: c.update(rms_norm_eps=-1)), "rms_norm_eps must be a number above 0, got -1"),
    (needle, edit(config, lambda c: c.update(tie_word_embeddings=1)), "tie_word_embeddings must be true or false, got 1"),
    (needle, edit(config, lambda c: c.update(torch_dtype=5)), "torch_dtype must be a text, got 5"),
    (needle, edit(config, lambda c: c.update(torch_dtype="int8")),
     'torch_dtype must be float32, float16 or bfloat16, got "int8"'),
    (needle, edit(config, lambda c: c.update(partial_rotary_factor=.5)), "partial_rotary_factor must be 1, got 0.5"),
    (needle, edit(config, lambda c: c.update(rope_scaling={"type": "yarn", "factor": 4, "mscale": 1})),
     "mscale must be absent (it is not implemented), got 1"),
    (needle, edit(config, lambda c: c.update(rope_scaling={
        "type": "llama3", "factor": 4, "low_freq_factor": 4, "high_freq_factor": 1})),
     "high_freq_factor must be above low_freq_factor, got 1"),
    (needle, edit(config, lambda c: c.update(hidden_act="gelu")), 'hidden_act must be silu, got "gelu"'),
    (needle, edit(config, lambda c: c.update(eos_token_id="x")), 'eos_token_id must be token ids, got "x"'),
    (needle, edit(config, lambda c: c.update(eos_token_id=[1, 1 << 32])), "eos_token_id must be token ids"),
    (needle, lambda f: tensors(f, lambda h: h["model.norm.weight"].update(dtype="I16")),
     "tensor 'model.norm.weight' must be F32, F16 or BF16, got I16 [128]"),
    (sharded, edit("model.safetensors.index.json", lambda i: i.update(weight_map=[])), "weight_map must be an object"),
    (sharded, edit("model.safetensors.index.json", lambda i: i.update(weight_map={})), "weight_map must name tensors, got none"),
    (needle, edit(tokenizer, lambda t: t["model"].update(type="Unigram")), 'model.type must be BPE, got "Unigram"'),
    (needle, edit(tokenizer, lambda t: t["model"].update(vocab=[])), "model.vocab must be an object of tokens, got []"),
    (needle, edit(tokenizer, lambda t: t["model"]["vocab"].update(a="x")), "model.vocab['a'] must be a token id"),
    (needle, edit(tokenizer, lambda t: t["model"].update(merges={})), "model.merges must be a list, got {}"),
    (needle, edit(tokenizer, lambda t: t["model"].update(merges=["ab"])),
     'model.merges[0] must be two tokens, got "ab"'),
    (needle, edit(tokenizer, lambda t: t["model"].update(merges=[["a"]])), "model.merges[0] must be two tokens"),
    (needle, edit(tokenizer, lambda t: t["model"].update(dropout=.5)), "model.dropout must be null, got 0.5"),
    (needle, edit(tokenizer, lambda t: t["model"].update(unk_token="zzz")), "model.unk_token must be in the vocabulary"),
    (needle, edit(tokenizer, lambda t: t["added_tokens"].append({})),
     "added_tokens must be objects with id and content, got {}"),
    (needle, edit(tokenizer, lambda t: t.update(normalizer={"type": "Lowercase"})),
     "normalizer.type must be Sequence, NFC, NFD, NFKC, NFKD, Prepend or Replace, got"),
    (needle, edit(tokenizer, lambda t: t.update(normalizer={"type": "Replace", "pattern": {"Regex": "a"}})),
     "normalizer must be a Replace of a String, got"),
    (needle, edit(tokenizer, lambda t: t.update(pre_tokenizer={"type": "Split", "pattern": {"String": "a"}})),
     "pre_tokenizer must be Split by a Regex, Isolated, not inverted, got"),
    (needle, edit(tokenizer, lambda t: t.update(
        pre_tokenizer={"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "("}})),
     "a pre_tokenizer's pattern must be a regular expression, got '('"),
    (needle, edit(tokenizer, lambda t: t.update(pre_tokenizer={"type": "Metaspace"})),
     "pre_tokenizer.replacement must be a character, got"),
    (needle, edit(tokenizer, lambda t: t.update(post_processor={"type": "RobertaProcessing"})),
     "post_processor.type must be TemplateProcessing, ByteLevel or Sequence, got"),
    (needle, edit(tokenizer, lambda t: t["post_processor"].update(special_tokens={})),
     "post_processor.single must be special tokens and a sequence, got"),
    (needle, edit(tokenizer, lambda t: t["post_processor"]["special_tokens"]["<|begin_of_text|>"].update(ids=["x"])),
     'post_processor.special_tokens must be token ids, got "x"'),
    (needle, edit(tokenizer, lambda t: t.update(decoder={"type": "Strip", "content": " ", "start": "1"})),
     "decoder must be a Strip of one space in front, got"),
    (needle, edit(tokenizer, lambda t: t.update(decoder={"type": "WordPiece"})),
     "decoder.type must be Sequence, ByteLevel, Metaspace, Replace, ByteFallback, Fuse or Strip, got"),
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
