"""What a compiled policy says of itself (docs/manifest.md), as typed objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

# Arguments of kernels that an engine brings, by the names that plans use.
_TENSORS = ("q", "k", "v", "wo", "k_raw", "table", "state")


@dataclass(frozen=True)
class Variant:
    """One shape that a policy is compiled for."""

    head_dim: int
    group: int
    """Query heads per KV head."""
    dtype: str
    """f32, f16 or bf16."""
    vector: int
    """Elements of one access: addresses and strides are multiples of it."""


@dataclass(frozen=True)
class Manifest:
    """What a policy is, and what it needs."""

    policy: str
    params: Mapping[str, float]
    """Parameters with the values that it was compiled with."""
    queries: int | Literal["all"]
    """How many of the last queries scoring reads."""
    window: int | None
    """The last tokens, which always stay; None where that depends on the budget."""
    variants: tuple[Variant, ...]
    reads: frozenset[str]
    """Tensors that ranking reads: of q, k, v, wo (the output projection), k_raw (keys before
    RoPE), table (the importance of heads), state (what earlier layers left)."""
    by_layer: bool
    """Which layer it is makes a difference."""
    merges: bool
    """Rows may stand for several tokens: keys before RoPE, and a table of members."""
    ranks: bool
    """There are scores to ask for."""
    json: Mapping[str, Any] = field(repr=False)
    """All of it, as the compiler wrote it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Manifest.parse, (json.dumps(dict(self.json)),)

    @staticmethod
    def parse(text: str) -> Manifest:
        """From the JSON text in an artefact, which the runtime has checked."""
        data = json.loads(text)
        arguments = {
            name
            for variant in data["variants"]
            for kernel in variant["kernels"]
            if kernel["phase"] != "compact"
            for name in kernel["args"]
            # Who lists kept rows may move them, too, in calls that compact.
            if not (name == "v" and "moves" in kernel["args"])
        }
        everywhere = {name for v in data["variants"] for kernel in v["kernels"] for name in kernel["args"]}
        merges = "member_rows" in everywhere
        reads = {name for name in _TENSORS if name in arguments}
        if not data["queries"]:
            reads.discard("q")
        # Rows of merged keys are made of keys before RoPE when they are gathered, too.
        reads |= {"k_raw"} & everywhere
        return Manifest(
            policy=data["policy"],
            params=MappingProxyType(data["params"]),
            queries=data["queries"],
            window=data["window"],
            variants=tuple(Variant(v["head_dim"], v["group"], v["dtype"], v["vector"]) for v in data["variants"]),
            reads=frozenset(reads),
            by_layer=bool(arguments & {"layer", "layers"}),
            merges=merges,
            ranks=data["scores"] is not None,
            json=MappingProxyType(data),
        )
