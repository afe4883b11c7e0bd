"""torch_gpu.py CHECK DEVICE MODELS LIBRARIES: the Python package over tensors of PyTorch on DEVICE beside the CPU.

CHECK is `plans`: every policy, evicted and as a CUDA graph; `attention`: caches of unequal heads, appended to and read;
or `transformers`: the shipped model in Hugging Face transformers. LIBRARIES is a folder as `gpu.py compile` leaves it:
policies for heads of 32, 2 query heads of a KV head. KVC_HOME has libkvc.so. With "cpu" as DEVICE it shows that it runs.
"""
import glob
import json
import os
import sys

import torch

import kvc
import kvc.torch

check, device, models, libraries = sys.argv[1:]
HEADS, GROUP, DIM, TOKENS, BUDGET, BATCH = 2, 2, 32, 300, 60, 2
torch.set_grad_enabled(False)


def policies(dtype):
    for path in sorted(glob.glob(f"{libraries}/*.{dtype}.so")):
        name = os.path.basename(path).split(".")[0]
        if not os.path.exists(f"{models}/../policies/merged/{name}.mlir"):
            yield name, kvc.load(path)


def same_rows(name, wanted, kept):
    """As many of each head, and the same but for one in a hundred, where scores nearly tie."""
    assert torch.equal(wanted.counts, kept.counts.cpu()), (name, wanted.counts, kept.counts)
    different = 0
    for b in range(BATCH):
        for h in range(HEADS):
            mine, theirs = wanted[b, h].indices.tolist(), kept[b, h].indices.cpu().tolist()
            assert theirs == sorted(set(theirs)), (name, theirs)
            different += len(set(mine) - set(theirs))
    assert different <= 0.01 * int(wanted.counts.sum()), (name, different)
    return different


def plans():
    torch.manual_seed(0)

    def rows(heads):
        return torch.randn(BATCH, heads, TOKENS, DIM)
    given = {"q": rows(HEADS * GROUP), "k": rows(HEADS), "v": rows(HEADS), "k_raw": rows(HEADS),
             "wo": torch.randn(96, HEADS * GROUP * DIM), "table": torch.rand(2, HEADS * GROUP)}
    there = {name: tensor.to(device) for name, tensor in given.items()}
    lengths = [TOKENS, TOKENS - 77]
    different = count = 0
    for name, policy in policies("f32"):
        host, plan = (policy.plan(kv_heads=HEADS, max_tokens=TOKENS, max_batch=BATCH, device=where)
                      for where in ("cpu", device))
        more = {"budget": BUDGET, "lengths": lengths, "layer": 0, "layers": 2}
        wanted = host.evict(**given, **more, state=host.state())
        kept = plan.evict(**there, **more, state=torch.zeros(BATCH, TOKENS, dtype=torch.int32, device=device))
        assert kept.k.device.type == device, kept.k.device
        different += same_rows(name, wanted, kept)
        if not plan.manifest.merges:  # rows that are means
            for b in range(BATCH):
                for h in range(HEADS):
                    rows_kept = kept[b, h].indices.long()
                    assert torch.equal(kept[b, h].k, there["k"][b, h, rows_kept]), name
                    assert torch.equal(kept[b, h].v, there["v"][b, h, rows_kept]), name
        if device == "cuda":
            as_graph(name, plan, there, lengths, kept)
        count += 1
    print(count, "policies keep the same tokens,", different, "rows of ties differ")


def as_graph(name, plan, there, lengths, kept):
    """Captured once, replayed over other bytes: no call waits, allocates or reads back."""
    def number(values):
        return torch.tensor(values, dtype=torch.int32, device=device)
    state = torch.zeros(BATCH, TOKENS, dtype=torch.int32, device=device)
    reads = {one: tensor.clone() for one, tensor in there.items() if one in plan.manifest.reads or one in "qkv"}
    out = kvc.torch.buffers(plan, BATCH, TOKENS)
    call = dict(lengths=number(lengths), budgets=number([BUDGET] * BATCH), out=out, layer=0, layers=2,
                state=state if "state" in plan.manifest.reads else None)
    queries = TOKENS if plan.queries == "all" else plan.queries
    reads["q"] = reads["q"][:, :, TOKENS - queries:].contiguous() if queries else None
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        kvc.torch.evict(plan, **reads, **call)
    stream.synchronize()
    state.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kvc.torch.evict(plan, **reads, **call)
    for part in (out.k, out.v, out.indices, out.counts):
        part.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert out.status.item() == 0, (name, out.status)
    assert torch.equal(out.counts, kept.counts), (name, out.counts, kept.counts)
    for b in range(BATCH):
        for h in range(HEADS):
            n = int(out.counts[b, h])
            assert torch.equal(out.indices[b, h, :n], kept[b, h].indices), (name, "in a graph")


def attention():
    torch.manual_seed(1)
    counts = torch.tensor([[100, 7], [63, 40]], dtype=torch.int32)
    k, v = (torch.randn(BATCH, HEADS, 120, DIM) for _ in range(2))
    new = [torch.randn(BATCH, HEADS, 3, DIM) for _ in range(2)]
    q = torch.randn(BATCH, HEADS * GROUP, 2, DIM)
    results = []
    for where in ("cpu", device):
        numbers = {"counts": counts.clone(), "lengths": torch.tensor([200, 150], dtype=torch.int32),
                   "positions": torch.arange(120, dtype=torch.int32).expand(BATCH, HEADS, -1).contiguous()}
        cache = kvc.CacheView.dense(k.to(where), v.to(where), **{name: one.to(where) for name, one in numbers.items()})
        kvc.append(cache, *(one.to(where) for one in new))
        lse = torch.zeros(q.shape[:3], device=where)
        results.append((kvc.attend(cache, q.to(where), lse=lse).cpu(), lse.cpu()))
        cache.check()
    for mine, theirs in zip(*results):
        assert torch.allclose(mine, theirs, atol=1e-5), (mine - theirs).abs().max()
    print("attention agrees")


def answers(model, policy, context, question, where):
    from kvc.transformers import KvcCache
    table = torch.arange(1, 33, dtype=torch.float32).reshape(4, 8).to(where)
    cache = KvcCache(model, policy, "0.25", table=table)
    model(context.to(where), past_key_values=cache)
    cache.finish()
    ids = torch.cat([context, question], dim=1).to(where)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), past_key_values=cache, max_new_tokens=8, do_sample=False)
    return out[0, ids.shape[1]:].tolist(), [[len(head) for head in cache.kept(layer)[0]] for layer in range(4)]


def transformers():
    import transformers
    import kvc.transformers  # whose attention models can be told to take
    transformers.logging.set_verbosity_error()
    needle = models + "/needle"
    entry = json.loads(open(models + "/tasks/256.jsonl").readline())
    tokenizer = transformers.AutoTokenizer.from_pretrained(needle)
    ids = [tokenizer(entry[part], return_tensors="pt").input_ids for part in ("context", "question")]
    made = []
    for where in ("cpu", device):
        model = transformers.AutoModelForCausalLM.from_pretrained(needle, dtype=torch.float32).to(where)
        model.set_attn_implementation("kvc")
        made.append(model)
    torch.backends.cuda.matmul.allow_tf32 = False
    count = 0
    for name, policy in policies("f32"):
        host, gpu = (answers(model, policy, *ids, where) for model, where in zip(made, ("cpu", device)))
        assert host == gpu, (name, host, gpu)
        count += 1
    print(count, "policies answer the same in transformers", transformers.__version__)


{"plans": plans, "attention": attention, "transformers": transformers}[check]()
