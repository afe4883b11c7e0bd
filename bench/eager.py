"""What policies of host.py compute, in plain torch, an operation after the other: logits of whole windows are
stored, keys repeated for the query heads of a group, as presses do it. The definitions are those of the policies'
files. With softmax in fp32; all else in the tensors' type where torch has it so.

Each function takes a layer: q [Hq, queries, d], the last ones; k, v [Hkv, T, d]; where it reads them k_raw, as k, and
wo [D, Hq * d]; and the budget of a head. It returns kept tokens of each head, ascending, and their keys and values.
"""
import torch
from torch.nn.functional import avg_pool1d, max_pool1d

WINDOW = 32


def attention(q, k):
    """Rows of the last queries, [Hq, queries, T]."""
    (heads, queries, dim), (kv_heads, tokens, _) = q.shape, k.shape
    keys = k.repeat_interleave(heads // kv_heads, dim=0)
    logits = torch.matmul(q, keys.transpose(1, 2)) * dim**-0.5
    unseen = torch.ones(queries, tokens, dtype=torch.bool).triu(tokens - queries + 1)
    return torch.softmax(logits.masked_fill_(unseen, float("-inf")), dim=-1, dtype=torch.float32)


def of_groups(scores, layer):
    """The mean over a group: [Hq, T] to [Hkv, T]."""
    return scores.unflatten(0, (layer["k"].shape[0], -1)).mean(dim=1)


def column_sums(layer):
    """Over all queries, [Hq, T], a block of queries at a time."""
    q, k = layer["q"], layer["k"]
    sums = torch.zeros(q.shape[0], k.shape[1])
    for begin in range(0, k.shape[1], 256):
        end = min(begin + 256, k.shape[1])
        sums[:, :end] += attention(q[:, begin:end], k[:, :end]).sum(dim=1)
    return sums


def gathered(kept, layer):
    """A list of tokens for each head."""
    keys, values = ([layer[side][g, tokens] for g, tokens in enumerate(kept)] for side in ("k", "v"))
    return kept, keys, values


def best_and_last(score, count, layer):
    """The best of the past, and all behind it."""
    tokens = layer["k"].shape[1]
    last = torch.arange(score.shape[1], tokens).expand(score.shape[0], -1)
    kept = torch.cat([score.topk(count, dim=1).indices.sort(dim=1).values, last], dim=1)
    return gathered(list(kept), layer)


def window_scores(layer):
    rows = attention(layer["q"][:, -WINDOW:], layer["k"])
    mean = of_groups(rows.mean(dim=1), layer)[:, :-WINDOW]
    return max_pool1d(mean[None], 7, stride=1, padding=3)[0]


def snapkv(layer, budget):
    return best_and_last(window_scores(layer), budget - WINDOW, layer)


def adakv(layer, budget):
    score, past = window_scores(layer), budget - WINDOW
    heads, tokens = score.shape
    chosen = score.flatten().topk(heads * past).indices // tokens
    # Fifths: .8 of how often a head is among the best of all heads, .2 of the equal share.
    share = 4 * torch.bincount(chosen, minlength=heads) + past
    counts = share // 5
    left = heads * past - int(counts.sum())
    counts[torch.sort(share % 5, descending=True, stable=True).indices[:left]] += 1
    kept = []
    for head, count in zip(score, counts.tolist()):
        best = head.topk(count).indices.sort().values
        kept.append(torch.cat([best, torch.arange(tokens, tokens + WINDOW)]))
    return gathered(kept, layer)


def kvec(layer, budget):
    short, heads = 16, layer["k"].shape[0]
    rows = attention(layer["q"][:, -WINDOW:], layer["k"])[:, :, :-WINDOW]
    score = of_groups(rows[:, -short:].mean(dim=1), layer)
    blurred = score.std(dim=1, correction=0).topk(min(3, heads), largest=False).indices
    score[blurred] = of_groups(rows.mean(dim=1), layer)[blurred]
    score = max_pool1d(score[None], 7, stride=1, padding=3)[0]
    # Of a model's first layer: none before it has kept anything, and the next ones are told.
    kept_in = layer.setdefault("state", torch.zeros(layer["k"].shape[1], dtype=torch.int32))
    focus = rows[:, -short:].amax(dim=0).mean(dim=0) * (1 - kept_in[:-WINDOW])
    past = budget - WINDOW
    sure = score.topk(past // 4, dim=1).indices
    kept = best_and_last((score + focus).scatter(1, sure, float("inf")), past, layer)
    kept_in[torch.cat(kept[0]).unique()] += 1
    return kept


def criticalkv(layer, budget):
    score, past = window_scores(layer), budget - WINDOW
    v, wo = layer["v"], layer["wo"].unflatten(1, (layer["q"].shape[0], -1))
    group = wo.shape[1] // v.shape[0]
    norms = torch.stack([torch.matmul(v[h // group, :-WINDOW], wo[:, h].T).abs().sum(dim=-1, dtype=torch.float32)
                         for h in range(wo.shape[1])])
    product = (score + 1e-4) * of_groups(norms, layer)
    first = score.topk(past // 2, dim=1).indices
    return best_and_last(product.scatter(1, first, float("inf")), past, layer)


def h2o(layer, budget):
    recent = budget // 2
    score = of_groups(column_sums(layer), layer)[:, : layer["k"].shape[1] - recent]
    return best_and_last(score, budget - recent, layer)


def ems(layer, budget):
    k, v, tokens = layer["k_raw"].float(), layer["v"].float(), layer["k"].shape[1]
    local = of_groups(attention(layer["q"][:, -WINDOW:], layer["k"]).mean(dim=1), layer)
    either = torch.maximum(of_groups(column_sums(layer), layer) / tokens, local)[:, :-WINDOW]
    score = avg_pool1d(either[None], 7, stride=1, padding=3, count_include_pad=False)[0]
    centres = budget - WINDOW
    order = score.topk(min(score.shape[1], centres + 3 * budget), dim=1).indices
    unit = torch.nn.functional.normalize(k, dim=-1)
    direction = torch.nn.functional.normalize(v, dim=-1)
    kept, keys, values = [], [], []
    for g in range(k.shape[0]):
        rows = order[g, :centres].sort().values
        sources = order[g, centres:].sort().values
        alike = torch.matmul(unit[g, sources], unit[g, rows].T), torch.matmul(direction[g, sources], direction[g, rows].T)
        both = (alike[0] * alike[1]).masked_fill_((alike[0] < 0) & (alike[1] < 0), -1)
        most, centre = both.max(dim=1)
        merged = most >= 0.6
        own = torch.cat([rows, torch.arange(tokens - WINDOW, tokens)])
        member = torch.cat([own, sources[merged]])
        row = torch.cat([torch.arange(len(own)), centre[merged]])
        weight = local[g, member]
        sums = torch.zeros(len(own)).index_add_(0, row, weight)
        # Where nothing was looked at all members count alike.
        weight = torch.where(sums[row] == 0, 1.0, weight)
        sums = torch.zeros(len(own)).index_add_(0, row, weight)
        for means, whole in ((keys, unit), (values, v)):
            total = torch.zeros(len(own), k.shape[2]).index_add_(0, row, weight[:, None] * whole[g, member])
            means.append((total / sums[:, None]).to(layer["v"].dtype))
        kept.append(own)
    return kept, keys, values


def knorm(layer, budget):
    score = -layer["k"].norm(dim=-1)
    return gathered(list(score.topk(budget, dim=1).indices.sort(dim=1).values), layer)


POLICIES = {function.__name__: torch.inference_mode()(function)
            for function in (snapkv, adakv, kvec, criticalkv, h2o, ems, knorm)}
