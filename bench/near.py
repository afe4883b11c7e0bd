"""Why answers in bf16 may differ from those of PyTorch's attention where nothing is evicted.

    build/python/torch/bin/python bench/near.py [SEEDS]

Random models of 3 layers answer greedily in bf16, with a KvcCache that keeps all and with the
library's cache. Prints how many answers differ, how far the logits of both lie from those of the same
model in double, and how far apart the tokens were where answers part. `tools/python transformers` makes the
environment; KVC_HOME names a build folder.
"""

import sys

import torch
import transformers

from kvc.transformers import KvcCache

seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 16
STEPS, ALL = 24, 1 << 30
SIZES = dict(
    hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, vocab_size=300, max_position_embeddings=2048, pad_token_id=0, bos_token_id=1, eos_token_id=None,
)  # fmt: skip
transformers.logging.set_verbosity_error()
torch.set_grad_enabled(False)


def made(family, seed):
    """Weights large enough that tokens differ, rounded to bf16."""
    torch.manual_seed(seed)
    text, more = ("Text", {"layer_types": ["full_attention"] * 3}) if family == "Gemma3" else ("", {})
    config = getattr(transformers, f"{family}{text}Config")(**SIZES, **more)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.mul_(3.0)
    return model.bfloat16()


def logits(model, cache, ids, answer):
    """Of every step in double, whatever this model itself would have answered."""
    steps = [ids, *answer[:, :-1].split(1, dim=1)]
    return torch.cat([model(step, past_key_values=cache).logits[:, -1].double() for step in steps])


def new(model):
    if model.config._attn_implementation == "kvc":
        return KvcCache(model, "snapkv", ALL)
    return transformers.DynamicCache(config=model.config)


cases, errors, parted = 0, [], []
for family in ("Llama", "Qwen2", "Qwen3", "Gemma3"):
    for seed in range(seeds):
        exact = made(family, seed).double()
        exact.set_attn_implementation("eager")
        model = made(family, seed)
        for tokens in (40, 200):
            torch.manual_seed(100 + seed)
            ids = torch.randint(3, 300, (1, tokens))
            answers, found = [], []
            for attention in ("sdpa", "kvc"):
                model.set_attn_implementation(attention)
                out = model.generate(ids, past_key_values=new(model), max_new_tokens=STEPS, do_sample=False)
                answers.append(out[:, tokens:])
                found.append(logits(model, new(model), ids, answers[0]))
            wanted = logits(exact, new(exact), ids, answers[0])
            # The prompt's last logits are before the eviction.
            errors.append([(one - wanted)[1:].square().mean().item() for one in found])
            cases += 1
            theirs, ours = answers
            if not torch.equal(theirs, ours):
                step = int((theirs != ours)[0].nonzero()[0])
                pair = [theirs[0, step], ours[0, step]]
                parted.append(float(wanted[step, pair[0]] - wanted[step, pair[1]]))

theirs, ours = (sum(column) ** 0.5 for column in zip(*errors))
print(f"{cases} answers of {STEPS} tokens in bf16, {len(parted)} differ")
print(f"error of logits against double: kvc's {ours / theirs:.3f} of PyTorch's")
if parted:
    print(f"where they part, the two tokens are at most {max(map(abs, parted)):.4f} apart in double, which is on")
    print(f"PyTorch's side in {sum(gap > 0 for gap in parted)} and on kvc's in {sum(gap < 0 for gap in parted)}")
