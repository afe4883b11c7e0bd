"""Which policies vLLM can serve: its one table of blocks, for all layers, holds what is known before a
prompt comes."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..errors import ArgumentError, UnsupportedError
from ..policy import Policy
from .counts import Counts
from .model import DTYPES, compile_for
from .options import Options
from .trial import findings


def accept(
    options: Options, *, head_dim: int, group: int, kv_heads: int, layers: int, dtype: torch.dtype, workers: int
) -> tuple[Policy, Options]:
    """The policy, and the options with what was found out about it. Others are refused by name."""
    policy = compile_for(options, head_dim=head_dim, group=group, dtype=dtype)
    manifest = policy.manifest
    if manifest.merges:
        raise UnsupportedError(f"in vLLM a policy must only drop rows, got {policy.name!r}, which merges them")
    if "k_raw" in manifest.reads:
        raise UnsupportedError(f"in vLLM a policy must not read keys before RoPE, got {policy.name!r}, which does")
    table = options.table if "table" in manifest.reads else None
    if "table" in manifest.reads:
        shape = None if table is None else [len(table), len(table[0])]
        if shape != [layers, group * kv_heads * workers]:
            raise ArgumentError(
                f"policy {policy.name!r} reads the importance of heads: additional_config['kvc']['table'] must be "
                f"[layers {layers}, q_heads {group * kv_heads * workers}], got {shape}"
            )
    found = findings(policy.path, head_dim, DTYPES[dtype], options.policy, options.params)
    if found.counts is not None:
        raise UnsupportedError(
            "in vLLM a policy must keep in the heads of each layer as many rows as the lengths and the budget say, "
            f"got {policy.name!r}: {found.counts}"
        )
    if workers > 1 and (found.mixes_heads or found.by_head):
        what = "looks across heads" if found.mixes_heads else "keeps more rows in some layers than in others"
        raise UnsupportedError(
            "with tensor_parallel_size above 1 a policy must rank each head by itself, "
            f"got {policy.name!r}, which {what}, and {workers} workers"
        )
    counts = None
    if found.by_layer:
        counts = Counts(options.policy, options.params, kv_heads, group, layers, table)
    return policy, replace(options, keeps_all=found.keeps_all, by_head=found.by_head, table=table, counts=counts)
