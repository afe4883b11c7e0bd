"""A policy for a model of vLLM: compiled, and what it reads besides queries, keys and values."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ..errors import UnsupportedError
from ..policy import Policy, compile
from .options import Options

DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


def compile_for(options: Options, *, head_dim: int, group: int, dtype: torch.dtype) -> Policy:
    return compile(options.policy, head_dim=head_dim, group=group, dtype=DTYPES[dtype], params=dict(options.params))


class Output:
    """The output projection behind a layer of attention: its rank's columns."""

    def __init__(self, owner: torch.nn.Module, layer_name: str) -> None:
        self._owner = weakref.ref(owner)
        self._name = layer_name
        self._weight: torch.Tensor | None = None
        if not hasattr(owner, "o_proj"):
            raise UnsupportedError(
                f"a policy that reads the output projection needs o_proj beside {layer_name}, got none"
            )

    def weight(self) -> torch.Tensor:
        """[hidden, q_heads * d], as frameworks store it. What vLLM packs for its kernels is
        not there to be read, so the layer is asked what it makes of unit vectors: products
        with 1 and sums with 0 are exact."""
        if self._weight is None:
            owner: Any = self._owner()
            projection = owner.o_proj
            inputs = projection.input_size_per_partition
            units = torch.eye(inputs, dtype=projection.params_dtype)
            self._weight = projection.quant_method.apply(projection, units, None).T.contiguous()
        return self._weight
