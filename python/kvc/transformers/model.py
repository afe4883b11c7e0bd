"""A policy for a model's attention: compiled, and what it reads besides queries, keys and values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..errors import ArgumentError
from ..policy import Param, Policy, compile
from .rope import Rotation
from .shared import Shape

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_CHIPS = (80, 86, 87, 89, 90, 100, 103, 120, 121)
"""GPUs that PTX is made for. It runs on every later one, too."""


def compile_for(
    model: Any,
    policy: Policy | str | os.PathLike[str],
    params: Mapping[str, Param] | None,
    cache_dir: str | os.PathLike[str] | None,
) -> tuple[Policy, Shape]:
    """The policy in the model's shape, and the shape. A compiled policy stays what it is."""
    if isinstance(policy, Policy) and params:
        raise ArgumentError(f"params must not be given with a compiled policy, which has its own, got {params!r:.80}")
    config = model.config.get_text_config(decoder=True)
    if model.device.type not in ("cpu", "cuda") or model.dtype not in _DTYPES:
        raise ArgumentError(
            f"the model must be f32, f16 or bf16 on the CPU or a CUDA GPU, got {model.dtype} on {model.device}"
        )
    q_heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // q_heads
    shape = Shape(kv_heads, q_heads, head_dim, _DTYPES[model.dtype])
    if not isinstance(policy, Policy):
        policy = compile(
            policy,
            head_dim=head_dim,
            group=q_heads // kv_heads,
            dtype=shape.dtype,
            arch=_chips(model),
            params=params,
            cache_dir=cache_dir,
        )
    return policy, shape


def _chips(model: Any) -> list[str] | None:
    """What PTX is made for: each of the GPUs that have a part of the model."""
    devices = {weight.device for weight in model.parameters() if weight.device.type == "cuda"}
    found = {chip for device in devices for chip in _chips_of(*torch.cuda.get_device_capability(device))}
    return sorted(found) or None


def _chips_of(major: int, minor: int) -> list[str]:
    """Of one GPU. Those of 9.0 have kernels of their own beside those that others run."""
    return [_chip(major, minor)] + ["sm_90a"] * ((major, minor) == (9, 0))


def _chip(major: int, minor: int) -> str:
    """The newest that PTX is made for and that is not newer than a GPU. The compiler refuses one that is too old."""
    number = 10 * major + minor
    return f"sm_{max((chip for chip in _CHIPS if chip <= number), default=number)}"


def inputs_of(
    policy: Policy,
    module: Any,
    keys: torch.Tensor,
    positions: torch.Tensor,
    rotation: Rotation,
    table: torch.Tensor | None,
    state: Callable[[], torch.Tensor],
) -> dict[str, Any]:
    """What only some policies read of a layer: arguments of `Plan.evict`.

    module: the layer's attention; keys: [batch, kv_heads, T, d] after RoPE, at `positions` [T] of
    the same device. table, state: as for `Plan.evict`; a table of torch is taken to where the keys are.
    """
    makes: dict[str, Callable[[], Any]] = {
        "wo": lambda: module.o_proj.weight,
        "k_raw": lambda: rotation.unrotate(keys, positions),
        "table": lambda: table.to(keys.device) if isinstance(table, torch.Tensor) else table,
        "state": state,
    }
    return {name: make() for name, make in makes.items() if name in policy.manifest.reads}
