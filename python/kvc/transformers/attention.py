"""The attention function and the mask function that models call "kvc"."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ..errors import UnsupportedError

NAME = "kvc"
"""model.set_attn_implementation(NAME)"""


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """sdpa's, but for keys that a KvcCache gave out."""
    layer = getattr(key, "_kvc_layer", None)
    if layer is None:
        out: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return out
    # What a policy kept was chosen without these, and neither kvc.attend nor sdpa has them.
    for name in ("softcap", "position_bias", "sliding_window", "s_aux"):
        if kwargs.get(name) is not None:
            raise UnsupportedError(f"attention over a KvcCache must be plain, got {name}")
    if dropout:
        raise UnsupportedError(f"attention over a KvcCache must be plain, got a dropout of {dropout}")
    # The layer will hold the keys; they must not hold the layer.
    key = key.view_as(key)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return layer.attention(module, query, key, value, attention_mask, scale, kwargs), None


def register() -> None:
    AttentionInterface.register(NAME, attention)
    # Without one of the same name the attention function would get no mask.
    AttentionMaskInterface.register(NAME, sdpa_mask)
