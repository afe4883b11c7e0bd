"""The scheduler's side: blocks of a prompt go back once the workers have evicted from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager
from vllm.v1.kv_cache_interface import FullAttentionSpec

from ..errors import UnsupportedError
from .options import Options


@dataclass(frozen=True, kw_only=True)
class KvcSpec(FullAttentionSpec):  # type: ignore[misc]
    """The cache of a layer that evicts."""

    options: Options

    @property
    def prefix_cacheable(self) -> bool:
        # Which rows of a block stay depends on what follows it: it is nobody else's prefix.
        return False

    @classmethod
    def of(cls, spec: Any, options: Options) -> KvcSpec:
        return cls(options=options, **{f.name: getattr(spec, f.name) for f in fields(spec) if f.init})

    @classmethod
    def merge(cls, specs: list[Any]) -> KvcSpec:
        """The base class makes its own fields only."""
        whole = FullAttentionSpec.merge([spec.stock() for spec in specs])
        return cls.of(whole, specs[0].options)

    def stock(self) -> Any:
        return FullAttentionSpec(
            **{f.name: getattr(self, f.name) for f in fields(FullAttentionSpec) if f.init},
        )


class KvcManager(FullAttentionManager):  # type: ignore[misc]
    """Blocks of layers that evict. Where a block is given back its place in the request's
    list is kept by the null block, as in a sliding window: later blocks keep their numbers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prompts: dict[str, int] = {}

    def remove_skipped_blocks(
        self, request_id: str, processed_computed_tokens: int, num_prompt_tokens: int | None = None
    ) -> None:
        """Called before blocks are added for a request, with what workers have done of it."""
        if num_prompt_tokens is None:
            return
        evicted = self._prompts.get(request_id)
        if evicted is not None and evicted != num_prompt_tokens:
            raise UnsupportedError(
                f"a prompt must not grow behind its eviction, got {num_prompt_tokens} tokens after {evicted}: "
                "streaming input is not supported"
            )
        if processed_computed_tokens < num_prompt_tokens:
            return
        self._prompts[request_id] = num_prompt_tokens
        place = self.kv_cache_spec.options.place(num_prompt_tokens, self.block_size)
        self._remove_blocks_in_range(request_id, 0, place.first // self.block_size)

    def pop_blocks_for_free(self, request_id: str) -> list[Any]:
        self._prompts.pop(request_id, None)
        blocks: list[Any] = super().pop_blocks_for_free(request_id)
        return blocks

    def cache_blocks(self, *args: Any, **kwargs: Any) -> None:
        """No block is put up for sharing."""

    @classmethod
    def find_longest_cache_hit(
        cls, block_hashes: Any, max_length: int, kv_cache_group_ids: Sequence[int], *args: Any, **kwargs: Any
    ) -> tuple[tuple[list[Any], ...], int]:
        return tuple([] for _ in kv_cache_group_ids), 0
