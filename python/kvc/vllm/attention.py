"""The CPU's attention backend, with eviction behind prompts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from vllm.config import get_current_vllm_config_or_none
from vllm.forward_context import get_forward_context
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)
from vllm.v1.kv_cache_interface import FullAttentionSpec

from ..errors import InternalError
from .blocks import KvcSpec
from .eviction import Eviction
from .model import Output
from .options import Options
from .pages import HeadPages
from .steps import KvcBuilder, KvcMetadata, Later, Part, Prompt


class KvcBackend(CPUAttentionBackend):  # type: ignore[misc]
    """Stands where vLLM has its backend of the CPU, and is that one where nobody asks for kvc."""

    options: Options | None = None
    """Of a layer that evicts (`evicting`)."""

    @staticmethod
    def get_impl_cls() -> Any:
        config = get_current_vllm_config_or_none()
        asked = None if config is None else Options.of(config)
        return CPUAttentionBackendImpl if asked is None else KvcAttention

    @classmethod
    def get_builder_cls(cls) -> Any:
        return CPUAttentionMetadataBuilder if cls.options is None else KvcBuilder

    @classmethod
    def customize_spec(cls, spec: Any) -> Any:
        if cls.options is not None and type(spec) is FullAttentionSpec:
            return KvcSpec.of(spec, cls.options)
        return spec


@cache
def evicting(options: Options) -> type[KvcBackend]:
    """The backend of layers that evict so."""
    return type(KvcBackend.__name__, (KvcBackend,), {"options": options, "__module__": __name__})


@dataclass
class _Coming:
    """Chunks of a prompt that is not complete: its keys and values, and as many of its last
    queries as the policy reads. Pages have the keys and values too, in an order that the
    CPU's kernels choose."""

    blocks: frozenset[int]
    q: torch.Tensor | None
    k: torch.Tensor
    v: torch.Tensor


class KvcAttention(CPUAttentionBackendImpl):  # type: ignore[misc]
    """One layer."""

    output: Output | None = None
    """Set for policies that read it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._coming: dict[int, _Coming] = {}
        self._pages: dict[int, HeadPages] = {}
        """Of requests behind their eviction, by their first block, where heads keep different
        numbers of rows."""

    def do_kv_cache_update(
        self,
        layer: Any,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Called in front of `forward`, with slots that know of no eviction."""
        metadata = _metadata_of(layer)
        if isinstance(metadata, KvcMetadata):
            if not metadata.whole:
                # What lies behind prompts goes where the prompts still are.
                if metadata.ahead is not None:
                    self._write(layer, key, value, kv_cache, metadata.ahead)
                return
            slot_mapping = metadata.slot_mapping
        super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        if not isinstance(attn_metadata, KvcMetadata):
            return self._attend(layer, query, key, value, kv_cache, attn_metadata, output, *args, **kwargs)
        ahead, behind = attn_metadata.ahead, attn_metadata.behind
        if attn_metadata.whole:
            self._attend(layer, query, key, value, kv_cache, attn_metadata, output, *args, **kwargs)
        elif ahead is not None:
            self._attend_part(layer, query, kv_cache, ahead, output)
        self._forget(attn_metadata)
        for prompt in attn_metadata.prompts:
            assert attn_metadata.eviction is not None
            self._take_in(attn_metadata.eviction, layer, prompt, query, key, value, kv_cache)
        if behind is not None:
            self._write(layer, key, value, kv_cache, behind)
            self._attend_part(layer, query, kv_cache, behind, output)
        for later in attn_metadata.later:
            self._attend_later(layer, query, key, value, later, output)
        return output

    def _attend(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        out: torch.Tensor = super().forward(*args, **kwargs)
        return out

    def _attend_part(
        self, layer: Any, query: torch.Tensor, kv_cache: torch.Tensor, part: Part, output: torch.Tensor
    ) -> None:
        out = torch.empty_like(output[: len(part.tokens)])
        # Keys and values are read from the cache alone.
        none: Any = None
        self._attend(layer, query[part.tokens], none, none, kv_cache, part.metadata, out)
        output[part.tokens] = out

    def _attend_later(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        later: Later,
        output: torch.Tensor,
    ) -> None:
        rows = slice(later.first, later.last)
        pages = self._pages.get(later.held[0])
        if pages is None or pages.length != later.position:
            raise InternalError(
                f"what a prompt kept must be followed by the token at {later.position}, "
                f"got {pages.length if pages else 'none'} in {layer.layer_name}"
            )
        pages.attend(query[rows], key[rows], value[rows], later.held, self.scale, output[rows])

    def _write(self, layer: Any, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, part: Part) -> None:
        super().do_kv_cache_update(layer, key[part.tokens], value[part.tokens], kv_cache, part.slots)

    def _take_in(
        self,
        eviction: Eviction,
        layer: Any,
        prompt: Prompt,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
    ) -> None:
        """A chunk of a prompt; behind the last one, the eviction."""
        rows = slice(prompt.first, prompt.last)
        k, v = key[rows], value[rows]
        wanted = eviction.queries
        q = query[rows] if wanted else None
        earlier = self._coming.pop(prompt.key, None)
        if prompt.done:
            if earlier is None or len(earlier.k) != prompt.done:
                raise InternalError(
                    f"{prompt.done} tokens of a prompt must have come before, "
                    f"got {len(earlier.k) if earlier else 0} in {layer.layer_name}"
                )
            k, v = torch.cat([earlier.k, k]), torch.cat([earlier.v, v])
            q = None if q is None or earlier.q is None else torch.cat([earlier.q, q])
        if q is not None and wanted != "all":
            q = q[-wanted:]
        if not prompt.ends:
            # Copies: a slice would hold the step's.
            self._coming[prompt.key] = _Coming(prompt.blocks, None if q is None else q.clone(), k.clone(), v.clone())
            return
        kept = eviction.kept(layer, q, k, v, prompt.state)
        if prompt.slots is None:
            assert prompt.place is not None
            self._pages[prompt.held[0]] = HeadPages(kept, prompt.length, prompt.held, prompt.place.page_rows, kv_cache)
            return
        index = kept.indices[0, :, : len(prompt.slots)].long().T[:, :, None].expand(-1, -1, k.shape[2])
        super().do_kv_cache_update(layer, k.gather(0, index), v.gather(0, index), kv_cache, prompt.slots)

    def _forget(self, metadata: KvcMetadata) -> None:
        """Requests that ended, or were preempted or aborted: others have blocks of theirs by now."""
        coming = {prompt.key for prompt in metadata.prompts}
        for key, prompt in list(self._coming.items()):
            if key not in coming and not prompt.blocks.isdisjoint(metadata.live):
                del self._coming[key]
        evicted = {later.held[0] for later in metadata.later}
        for key, pages in list(self._pages.items()):
            if key not in evicted and not metadata.live.isdisjoint(pages.blocks):
                del self._pages[key]


def _metadata_of(layer: Any) -> Any:
    """Of the step that is running."""
    metadata = get_forward_context().attn_metadata
    return metadata.get(layer.layer_name) if isinstance(metadata, dict) else metadata
