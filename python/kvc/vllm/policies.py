"""Which policies vLLM can serve: its one table of blocks, for all layers, holds as many rows of each
layer."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..errors import UnsupportedError
from ..policy import Policy
from .model import DTYPES, compile_for
from .options import Options
from .trial import findings


def accept(options: Options, *, head_dim: int, group: int, dtype: torch.dtype, workers: int) -> tuple[Policy, Options]:
    """The policy, and the options with what was found out about it. Others are refused by name."""
    policy = compile_for(options, head_dim=head_dim, group=group, dtype=dtype)
    manifest = policy.manifest
    if manifest.merges:
        raise UnsupportedError(f"in vLLM a policy must only drop rows, got {policy.name!r}, which merges them")
    for tensor, what in (("k_raw", "keys before RoPE"), ("table", "the importance of heads")):
        if tensor in manifest.reads:
            raise UnsupportedError(f"in vLLM a policy must not read {what}, got {policy.name!r}, which does")
    found = findings(policy.path, head_dim, DTYPES[dtype])
    if found.counts is not None:
        raise UnsupportedError(
            "in vLLM a policy must keep in the heads of each layer as many rows as the budget says, "
            f"got {policy.name!r}: {found.counts}"
        )
    if (found.mixes_heads or found.by_head) and workers > 1:
        raise UnsupportedError(
            "with tensor_parallel_size above 1 a policy must rank each head by itself, "
            f"got {policy.name!r}, which looks across heads, and {workers} workers"
        )
    return policy, replace(options, keeps_all=found.keeps_all, by_head=found.by_head)
