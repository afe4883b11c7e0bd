"""Attention over what a policy has kept, and what came behind it.

`kvc.attend` does it, over the ragged memory as it lies. It has no gradients, and a query sees all
rows of a position up to its own; where that will not do (`takes`) it is done in PyTorch, head by
head. What neither does (soft caps, sinks, sliding windows, dropout) the attention function refuses.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .. import attention as kvc
from .merged import Merged
from .packed import of
from .ragged import Ragged


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    rows: Ragged,
    merged: Merged | None,
    scale: float,
) -> torch.Tensor:
    """[batch, tokens, q_heads, d]: attention of new tokens, which are added to `rows`.

    q: [batch, q_heads, tokens, d]; k, v: [batch, kv_heads, tokens, d]. mask: [batch, tokens,
    tokens], which of the new ones each sees, or None: those up to its own. It is on the CPU, whatever
    the device of the rest: it is looked at here. What the last one does not see is padding, for all
    time; what padding gives means nothing. All see all that was kept.
    """
    real = None if mask is None or bool(mask[:, -1].all()) else mask[:, -1]
    if takes(q, k, v, mask):
        return by_kvc(q, k, v, real, rows, merged, scale)
    out = by_torch(q, k, v, mask, rows, merged, scale)
    _append(rows, k, v, real)
    return out


def takes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Whether `kvc.attend` does it: nobody wants gradients, and but for padding each token sees
    those up to its own."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (q, k, v)):
        return False
    if mask is None or mask.shape[-1] == 1:
        return True
    real = mask[:, -1]
    return bool(((mask == _causal(mask.shape[-1]) & real[:, None]) | ~real[:, :, None]).all())


def by_kvc(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    real: torch.Tensor | None,
    rows: Ragged,
    merged: Merged | None,
    scale: float,
) -> torch.Tensor:
    _append(rows, k, v, real)
    if real is None:
        return _whole(q, rows, merged, scale, None).transpose(1, 2)
    out = torch.zeros(len(q), q.shape[2], q.shape[1], q.shape[3], dtype=q.dtype, device=q.device)
    for sequence, tokens in _parts(real, q.device):
        queries = q[of(sequence)][:, :, tokens]
        out[of(sequence), tokens] = _whole(queries, rows, merged, scale, sequence).transpose(1, 2)
    return out


def _append(rows: Ragged, k: torch.Tensor, v: torch.Tensor, real: torch.Tensor | None) -> None:
    for sequence, tokens in _parts(real, k.device):
        keys, values = (tensor[of(sequence)][:, :, tokens] for tensor in (k, v))
        rows.append(keys, values, sequence)


def _whole(q: torch.Tensor, rows: Ragged, merged: Merged | None, scale: float, sequence: int | None) -> torch.Tensor:
    """Of tokens whose rows are there."""
    threads = torch.get_num_threads()
    if merged is None:
        most = rows.most(sequence)
        found: torch.Tensor = kvc.attend(rows.view(sequence), q, scale=scale, threads=threads, max_rows=most)
        return found
    # Every token sees all that was merged, so to these rows tokens are like more heads.
    heads = q.reshape(len(q), -1, 1, q.shape[3])
    parts = []
    for part, queries, rope in ((rows, q, None), (merged, heads, merged.angles())):
        # Rounded once, when they are one.
        out, lse = (
            torch.empty(shape, dtype=torch.float32, device=q.device) for shape in (queries.shape, queries.shape[:3])
        )
        view, most = part.view(sequence), part.most(sequence)
        kvc.attend(view, queries, scale=scale, out=out, lse=lse, rope=rope, threads=threads, max_rows=most)
        parts.append((out.view(q.shape), lse.view(q.shape[:3])))
    outs, sums = zip(*parts, strict=True)
    return joined(outs, sums).to(q.dtype)


def joined(outs: tuple[torch.Tensor, ...], sums: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Attention over all keys, of that over some each and the log-sum-exp of their logits."""
    weights = torch.stack(sums).softmax(dim=0)
    return (torch.stack(outs) * weights[..., None]).sum(dim=0)


def by_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    rows: Ragged,
    merged: Merged | None,
    scale: float,
) -> torch.Tensor:
    """Gradients reach the new tokens. 16-bit types are computed in f32."""
    batch, heads, new, _ = k.shape
    group = q.shape[1] // heads
    work = torch.promote_types(q.dtype, torch.float32)
    seen = _causal(new).expand(batch, -1, -1) if mask is None else mask
    hidden = torch.zeros(seen.shape, dtype=work).masked_fill(~seen, -torch.inf).to(q.device)
    kept = [rows.heads(), *([] if merged is None else [merged.heads()])]
    out = []
    for b in range(batch):
        for h in range(heads):
            keys, values = (
                torch.cat([*(part[b][h][which].to(work) for part in kept), new_ones[b, h].to(work)])
                for which, new_ones in enumerate((k, v))
            )
            logits = q[b, h * group : (h + 1) * group].to(work) @ keys.T * scale
            behind = len(keys) - new
            logits = torch.cat([logits[..., :behind], logits[..., behind:] + hidden[b]], dim=-1)
            out.append(logits.softmax(dim=-1) @ values)
    return torch.stack(out).view(batch, q.shape[1], new, -1).transpose(1, 2).to(q.dtype)


def _parts(real: torch.Tensor | None, device: torch.device) -> Iterator[tuple[int | None, torch.Tensor | slice]]:
    """Sequences and which of the new tokens are theirs, on the device: all at once, or, where some
    are padding, one by one."""
    if real is None:
        yield None, slice(None)
        return
    for sequence, tokens in enumerate(real):
        if tokens.any():
            yield sequence, tokens.nonzero()[:, 0].to(device)


def _causal(tokens: int) -> torch.Tensor:
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()
