"""Attention over a cache whose heads keep different numbers of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .rope import Rotation


@dataclass(frozen=True)
class Rows:
    """What one KV head keeps of a prompt."""

    tokens: torch.Tensor
    """Kept tokens, from 0 where the sequence begins."""
    k: torch.Tensor
    v: torch.Tensor
    members: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
    """Of merged rows: the row, position and norm of every token that is represented."""

    def keys_and_values(self, rotation: Rotation) -> tuple[torch.Tensor, torch.Tensor]:
        """As attention sees them: a merged row once for each of its members."""
        if self.members is None:
            return self.k, self.v
        rows, positions, norms = self.members
        return rotation.rotate(self.k[rows] * norms[:, None].to(self.k.dtype), positions), self.v[rows]

    def bytes(self) -> int:
        return held(self.tokens, self.k, self.v, *(self.members or ()))


@dataclass(frozen=True)
class Tail:
    """The tokens that came behind the prompt, the same for all heads."""

    k: torch.Tensor
    """[batch, kv_heads, tokens, d]"""
    v: torch.Tensor
    real: torch.Tensor
    """[batch, tokens], False for padding."""

    def and_then(self, k: torch.Tensor, v: torch.Tensor, real: torch.Tensor) -> Tail:
        return Tail(torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2), torch.cat([self.real, real], dim=-1))

    def bytes(self) -> int:
        return held(self.k, self.v, self.real)


def held(*tensors: torch.Tensor | None) -> int:
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


def attend(
    q: torch.Tensor,
    kept: list[list[Rows]],
    tail: Tail,
    visible: torch.Tensor,
    scale: float,
    rotation: Rotation,
) -> torch.Tensor:
    """[batch, queries, q_heads, d]: softmax over all kept rows, and what came behind them.

    q [batch, q_heads, queries, d]; visible [batch, queries, tokens of the tail]. Kept rows are
    seen by every query. 16-bit types are computed in f32.
    """
    batch, heads = tail.k.shape[:2]
    group = q.shape[1] // heads
    work = torch.promote_types(q.dtype, torch.float32)
    hidden = torch.full(visible.shape, -torch.inf, dtype=work).masked_fill(visible, 0)
    out = torch.empty(batch, q.shape[2], q.shape[1], q.shape[3], dtype=q.dtype)
    for b in range(batch):
        for h in range(heads):
            keys, values = (rows.to(work) for rows in kept[b][h].keys_and_values(rotation))
            queries = q[b, h * group : (h + 1) * group].to(work)
            behind = queries @ tail.k[b, h].to(work).T * scale + hidden[b]
            weights = torch.cat([queries @ keys.T * scale, behind], dim=-1).softmax(dim=-1)
            mean = weights[..., : len(keys)] @ values + weights[..., len(keys) :] @ tail.v[b, h].to(work)
            out[b, :, h * group : (h + 1) * group] = mean.transpose(0, 1)
    return out
