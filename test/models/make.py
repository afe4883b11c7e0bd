"""make.py [OUT]: tiny random models and tokenizers, with what the reference framework makes
of them, to compare against.

Needs torch, transformers, tokenizers and safetensors (a development-time need: what it
writes is stored). Made with the versions that the `made_by` of every expected.json tells.

OUT/models/NAME      config.json, weights, expected.safetensors: tokens I32 [T],
                     logits F32 [T, vocab] of a run in double
OUT/tokenizers/NAME  tokenizer.json, expected.json: texts, their tokens with and without
                     what is put around a text, and what the tokens decode to
"""
import json
import pathlib
import shutil
import sys

import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import AddedToken, trainers

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
VERSIONS = f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}"
TINY = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=48, max_position_embeddings=512, rms_norm_eps=1e-5,
            bos_token_id=0, eos_token_id=1, pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=128)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128)


def model(name, family, dtype, shards=None, old_config=False, **changes):
    """`old_config`: rope_scaling and torch_dtype, as files before transformers 5 have them."""
    torch.manual_seed(sum(name.encode()))
    config = getattr(transformers, family + "Config")(**{**TINY, **changes})
    net = getattr(transformers, family + "ForCausalLM")(config)
    with torch.no_grad():
        for key, parameter in net.named_parameters():
            wide = 1.0 if "norm" in key or "bias" in key else 0.3
            parameter.copy_(torch.randn_like(parameter) * wide + ("norm" in key))
    net = net.to(dtype)
    folder = OUT / "models" / name
    shutil.rmtree(folder, ignore_errors=True)
    net.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    # In double on the weights as stored, so that the difference is ours alone; read back,
    # because casting a network casts its frequencies too.
    exact = type(net).from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config.pop("transformers_version", None)
    if old_config:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        kind = rope.pop("rope_type")
        config["rope_scaling"] = dict(rope, type=kind) if kind != "default" else None
        config["torch_dtype"] = config.pop("dtype")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    tokens = torch.randint(0, TINY["vocab_size"], (96,))
    with torch.no_grad():
        logits = exact(tokens[None]).logits[0]
    safetensors.torch.save_file({"tokens": tokens.to(torch.int32), "logits": logits.float()},
                                folder / "expected.safetensors",
                                {"made_by": VERSIONS + f", torch {torch.__version__}"})


TEXTS = ["", " ", "a", "Hello world", "  two  spaces ", "line\n\n\tbreak\r\n x", "it's we'LL I'd",
         "12345.67 and 1 22 333 4444", "caf\u00e9 cafe\u0301 na\u00efve", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8",
         "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 x", "\u0130stanbul \u00df \ufb01 \u212b",
         "<|begin|>hi<|end|>", "a <|mid|> b", "x<s>y</s> z", "don\u2019t \u201cquote\u201d\u2026",
         "\x00\x01\x7f", "def f(x):\n    return x ** 2  # ok", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0939\u093f\u0928\u094d\u0926\u0940",
         "a\u00a0b\u3000c\u200bd", "\u2581marked \u2581", "AAAAAAAAaaaaaaaa", "new\n\n\n\nlines   \n", "\U00010348\ufffd\u0e01\u0e33"]
CORPUS = TEXTS * 3 + ["The quick brown fox jumps over the lazy dog, again and again and again.",
                      "Hello there, hello world; the world says hello.", "return the value of the function"]
GPT2 = None  # ByteLevel cuts by itself
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
                  r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")


def expect(name, tokenizer):
    folder = OUT / "tokenizers" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    cases = []
    for text in TEXTS:
        bare = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "tokens": bare, "with_begin": tokenizer.encode(text).ids,
                      "decoded": tokenizer.decode(bare, skip_special_tokens=True)})
    (folder / "expected.json").write_text(json.dumps({"made_by": VERSIONS, "cases": cases}, indent=1) + "\n")


def template(tokenizer, begin, end=None):
    single = f"{begin} $A" + (f" {end}" if end else "")
    special = [(t, tokenizer.token_to_id(t)) for t in (begin, end) if t]
    return processors.TemplateProcessing(single=single, special_tokens=special)


def byte_level(name, pattern, size=420, normalizer=None, prefix=False, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=pattern is None)
    tokenizer.pre_tokenizer = level if pattern is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens(["<|begin|>", "<|end|>"])
    tokenizer.add_tokens([AddedToken("<|mid|>", lstrip=True, rstrip=True, normalized=False)])
    if name == "llama3":
        tokenizer.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=False), template(tokenizer, "<|begin|>")])
    expect(name, tokenizer)


def sentence_piece(name, metaspace, fallback=True):
    """Llama 2 normalises spaces away; newer files have a Metaspace in front of the merges."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
    mark = "\u2581"
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(mark, prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(mark), normalizers.Replace(" ", mark)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace(mark, " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if fallback else [])
    # Merges from plain English: other characters are bytes, or unknown.
    english = [t for t in CORPUS if t.isascii()] * 2
    tokenizer.train_from_iterator(english, trainers.BpeTrainer(
        vocab_size=420 if fallback else 160, special_tokens=special, show_progress=False))
    doc = json.loads(tokenizer.to_str())
    doc["added_tokens"] = doc["added_tokens"][:3]  # bytes are plain tokens
    tokenizer = Tokenizer.from_str(json.dumps(doc))
    tokenizer.post_processor = template(tokenizer, "<s>")
    expect(name, tokenizer)


if __name__ == "__main__":
    model("llama", "Llama", torch.float32, rope_parameters=dict(LLAMA3, rope_theta=5e5),
          tie_word_embeddings=True)
    model("llama_biases", "Llama", torch.float16, attention_bias=True, mlp_bias=True, old_config=True,
          rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=1e4))
    model("mistral_sharded", "Mistral", torch.bfloat16, shards="3KB", head_dim=8, sliding_window=None,
          rope_parameters=dict(rope_type="default", rope_theta=1e6))
    model("qwen2", "Qwen2", torch.bfloat16, old_config=True, rope_parameters=dict(YARN, rope_theta=1e6))
    model("qwen3", "Qwen3", torch.bfloat16, head_dim=8, tie_word_embeddings=True,
          rope_parameters=dict(rope_type="default", rope_theta=1e6))
    byte_level("gpt2", GPT2)
    byte_level("gpt2_prefix", GPT2, prefix=True)
    byte_level("llama3", LLAMA3_PATTERN, ignore_merges=True)
    byte_level("qwen2", QWEN2_PATTERN, normalizer=normalizers.NFC())
    sentence_piece("llama2", metaspace=False)
    sentence_piece("mistral", metaspace=True)
    sentence_piece("unknown", metaspace=False, fallback=False)
