"""Looks at layers of attention as a model is built: before weights are read, every layer is
found to be one that can evict, or is refused by name. So no model runs with fewer evictions
than were asked for."""

from __future__ import annotations

from typing import Any

import torch
from vllm.config import get_current_vllm_config_or_none
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

from ..errors import UnsupportedError
from .attention import KvcAttention, evicting
from .engine import check_engine
from .model import DTYPES, Output
from .options import Options
from .policies import accept


def look_at(module: torch.nn.Module, name: str, submodule: torch.nn.Module | None) -> None:
    """torch calls it for every module that becomes part of another one."""
    if not isinstance(submodule, AttentionLayerBase) or _is_looked_at(submodule):
        return
    config = get_current_vllm_config_or_none()
    options = None if config is None else Options.of(config)
    if options is None:
        return
    check_engine(config)
    layer: Any = submodule
    _check_layer(layer)
    policy, options = accept(
        options,
        head_dim=layer.head_size,
        group=layer.num_heads // layer.num_kv_heads,
        kv_heads=layer.num_kv_heads,
        layers=config.model_config.get_num_layers(config.parallel_config),
        dtype=layer.kv_cache_torch_dtype,
        workers=config.parallel_config.tensor_parallel_size,
    )
    layer.attn_backend = evicting(options)
    if "wo" in policy.manifest.reads:
        layer.impl.output = Output(module, layer.layer_name)


def _is_looked_at(layer: Any) -> bool:
    """A layer may become part of several modules; the first one has its projections."""
    return getattr(getattr(layer, "attn_backend", None), "options", None) is not None


def _check_layer(layer: Any) -> None:
    name = getattr(layer, "layer_name", type(layer).__name__)

    def refuse(what: str) -> None:
        raise UnsupportedError(f"layers must attend as kvc can compact, got {what} in {name}")

    if not isinstance(layer, Attention) or type(layer) is not Attention:
        refuse(type(layer).__name__)
    if layer.attn_type != "decoder":
        refuse(f"attention of type {str(getattr(layer.attn_type, 'value', layer.attn_type))!r}")
    if not isinstance(layer.impl, KvcAttention):
        refuse(f"the backend {layer.attn_backend.get_name()}")
    if layer.sliding_window is not None:
        refuse(f"a sliding window of {layer.sliding_window}")
    if layer.kv_sharing_target_layer_name is not None:
        refuse(f"the cache of {layer.kv_sharing_target_layer_name}")
    if layer.impl.is_fp8_kv_cache or layer.kv_cache_torch_dtype not in DTYPES:
        refuse(f"a cache of {layer.kv_cache_dtype}")
    if layer.impl.logits_soft_cap:
        refuse(f"a soft cap of {layer.impl.logits_soft_cap}")
    if layer.impl.alibi_slopes is not None:
        refuse("ALiBi slopes")
    if layer.impl.sinks is not None:
        refuse("learned sinks")
    if layer.head_size_v != layer.head_size:
        refuse(f"values of {layer.head_size_v} channels and keys of {layer.head_size}")
