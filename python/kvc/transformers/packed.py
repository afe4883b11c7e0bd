"""What policies keep of the sequences of a batch, behind each other in one memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..kept import Kept


def rows(kept: Sequence[Kept]) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values, [rows, d]: head after head, sequence after sequence. Each of `kept` is one
    sequence, without slack."""
    many = [int(one.counts.sum()) for one in kept]
    k, v = (
        torch.cat([getattr(one, name)[0, :count] for one, count in zip(kept, many, strict=True)]) for name in ("k", "v")
    )
    return k, v


def tokens(kept: Sequence[Kept]) -> torch.Tensor:
    """[rows] i32, which token each row was."""
    filled = [torch.arange(one.indices.shape[2], device=one.counts.device) < one.counts[0, :, None] for one in kept]
    return torch.cat([one.indices[0][mask] for one, mask in zip(kept, filled, strict=True)])


def counts(kept: Sequence[Kept]) -> torch.Tensor:
    """[batch, kv_heads] i32"""
    return torch.cat([one.counts for one in kept])


def starts(lengths: torch.Tensor) -> torch.Tensor:
    """Where each begins, of what lies behind each other: [batch, kv_heads] i32, as `lengths`."""
    flat = lengths.flatten()
    return (flat.cumsum(0, dtype=torch.int32) - flat).view_as(lengths)


def places(begin: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Numbers of all rows of heads that begin at `begin` and have `count`."""
    many = count.flatten().long()
    shift = begin.flatten() - starts(many)
    rows = int(many.sum())
    return shift.repeat_interleave(many, output_size=rows) + torch.arange(rows, device=many.device)


def by_head(values: torch.Tensor, count: torch.Tensor) -> list[list[torch.Tensor]]:
    """[sequence][KV head] of what lies behind each other."""
    heads: tuple[torch.Tensor, ...] = torch.split(values, count.flatten().tolist())
    return [list(heads[b : b + count.shape[1]]) for b in range(0, len(heads), count.shape[1])]


def of(sequence: int | None) -> slice:
    """One sequence of a batch, or all."""
    return slice(None) if sequence is None else slice(sequence, sequence + 1)


def held(*tensors: torch.Tensor | None) -> int:
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)
