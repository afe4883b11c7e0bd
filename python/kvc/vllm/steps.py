"""One step of the engine, as attention sees it behind evictions.

vLLM keeps a request's true length and its blocks; where a prompt was evicted from, rows of its
cache are moved (`geometry`). A builder is asked once per step and group of layers. It gives
attention the moved length, block table and slots, and says which prompts come to their end.

A step may have both sides of a prompt's end: a request that was preempted comes back with its
prompt and the tokens that were decoded from it. These saw what the policy has kept, so they
must again: such a step is attended in two parts, up to the end of prompts, and behind it.

Where heads keep different numbers of rows vLLM's kernels cannot attend to what is behind an
eviction: these tokens are for `pages`, request by request, and the rest of the step is a part.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import torch
from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadata, CPUAttentionMetadataBuilder

from ..errors import InternalError
from .blocks import KvcSpec
from .eviction import Eviction
from .geometry import Geometry

_FOR_PROMPT_LENGTHS = 1 << 30
"""Builders get prompt lengths where a model has a reference window (R-SWA). Nothing else of it
is read by the backend of the CPU."""


@dataclass
class Prompt:
    """What a step has of a prompt that is not complete before it."""

    key: int
    """The request's first block: its name while the prompt is coming in."""
    blocks: frozenset[int]
    """All of its blocks."""
    first: int
    last: int
    """Rows of the step's queries, keys and values."""
    done: int
    """Tokens of the prompt before them."""
    length: int
    """Of the whole prompt."""
    place: Geometry | None = None
    slots: torch.Tensor | None = None
    """Where kept rows go: given where the prompt ends in this step; not where it is `by_head`."""
    held: list[int] = field(default_factory=list)
    """Blocks that the request holds behind the eviction, in order."""
    state: torch.Tensor | None = None
    """What layers leave for those that follow."""

    @property
    def ends(self) -> bool:
        return self.done + self.last - self.first == self.length


@dataclass
class Part:
    """Some of the step's tokens."""

    tokens: torch.Tensor
    slots: torch.Tensor
    metadata: CPUAttentionMetadata


@dataclass
class Later:
    """Tokens behind a prompt whose heads keep different numbers of rows."""

    first: int
    last: int
    """Rows of the step's queries, keys and values."""
    position: int
    """Of the first of them."""
    held: list[int]
    """Blocks that the request holds, in order; the first is its name."""


@dataclass
class KvcMetadata(CPUAttentionMetadata):  # type: ignore[misc]
    """Of a step; the base class is what all tokens attend by, where it is `whole`."""

    eviction: Eviction | None = None
    prompts: list[Prompt] = field(default_factory=list)
    live: frozenset[int] = frozenset()
    """All blocks of the step's requests."""
    whole: bool = True
    ahead: Part | None = None
    behind: Part | None = None
    """Tokens behind the end of a prompt that ends in this step, and all others."""
    later: list[Later] = field(default_factory=list)


@dataclass
class _Span:
    """Tokens of one request that are attended together."""

    first: int
    last: int
    length: int
    """Rows of the cache that the last one sees."""
    blocks: torch.Tensor
    slots: torch.Tensor


class KvcBuilder(CPUAttentionMetadataBuilder):  # type: ignore[misc]
    """Makes a step's metadata."""

    def __init__(self, kv_cache_spec: KvcSpec, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._eviction = Eviction(kv_cache_spec, layer_names, self.num_heads // kv_cache_spec.num_kv_heads)
        # This part of the configuration is frozen: nobody promises that it may be written to.
        object.__setattr__(vllm_config.model_config.model_arch_config, "rswa_window", _FOR_PROMPT_LENGTHS)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        step = common_attn_metadata
        if step.rswa_prefix_lens is None:
            raise InternalError("vLLM must say how long prompts are, got none")
        starts = step.query_start_loc_cpu.tolist()
        lengths, prompts = step.seq_lens.tolist(), step.rswa_prefix_lens.tolist()
        options = self._eviction.options
        spans: list[_Span] = []
        late: list[_Span] = []
        later: list[Later] = []
        ending: list[Prompt] = []
        live: set[int] = set()
        for number in range(step.num_reqs):
            first, last = starts[number], starts[number + 1]
            blocks, length, prompt = step.block_table_tensor[number], lengths[number], prompts[number]
            done = length - (last - first)
            place = options.place(prompt, self.block_size) if prompt else Geometry.of(0, 0, self.block_size)
            held = blocks[: -(-length // self.block_size)].tolist()
            kept = held[place.first // self.block_size :]
            if not prompt or not options.evicts(prompt):
                spans.append(_Span(first, last, length, blocks, step.slot_mapping[first:last]))
            elif done >= prompt:
                if options.by_head:
                    later.append(Later(first, last, done, kept))
                else:
                    spans.append(self._moved(first, last, done, length, blocks, place))
                held = kept
            else:
                end = min(last, first + prompt - done)
                spans.append(_Span(first, end, min(length, prompt), blocks, step.slot_mapping[first:end]))
                coming = Prompt(held[0], frozenset(held), first, end, done, prompt)
                if coming.ends:
                    coming.place, coming.held = place, kept
                    coming.state = self._eviction.state(prompt)
                    if not options.by_head:
                        coming.slots = self._slots(blocks, place.first, prompt - place.gone)
                ending.append(coming)
                if end < last and options.by_head:
                    later.append(Later(end, last, prompt, kept))
                elif end < last:
                    late.append(self._moved(end, last, prompt, length, blocks, place))
            live.update(held)
        everything: Any
        whole = not late and not later
        everything = self._metadata(spans, step) if whole else super().build(common_prefix_len, step, fast_build)
        metadata = KvcMetadata(**{f.name: getattr(everything, f.name) for f in fields(CPUAttentionMetadata)})
        if not whole:
            metadata.ahead = self._part(spans, step) if spans else None
            metadata.behind = self._part(late, step) if late else None
        metadata.whole, metadata.later = whole, later
        metadata.eviction, metadata.prompts, metadata.live = self._eviction, ending, frozenset(live)
        return metadata

    def _slots(self, blocks: torch.Tensor, first: int, count: int) -> torch.Tensor:
        """Of the request's rows from `first` on, as the cache counts slots."""
        at = torch.arange(first, first + count)
        slots: torch.Tensor = blocks[at // self.block_size].long() * self.block_size + at % self.block_size
        return slots

    def _moved(self, first: int, last: int, position: int, length: int, blocks: torch.Tensor, place: Geometry) -> _Span:
        """Tokens from `position` on, behind a prompt that was evicted from."""
        given_back = place.first // self.block_size
        moved = torch.zeros_like(blocks)
        moved[: len(blocks) - given_back] = blocks[given_back:]
        slots = self._slots(blocks, place.slot(position), last - first)
        return _Span(first, last, length - place.gone, moved, slots)

    def _metadata(self, spans: list[_Span], step: Any) -> Any:
        """Of spans that follow each other."""
        counts = torch.tensor([0] + [span.last - span.first for span in spans], dtype=torch.int32)
        starts = counts.cumsum(0, dtype=torch.int32)
        lengths = torch.tensor([span.length for span in spans], dtype=torch.int32)
        return super().build(
            0,
            step.replace(
                query_start_loc=starts,
                query_start_loc_cpu=starts,
                seq_lens=lengths,
                num_reqs=len(spans),
                num_actual_tokens=int(starts[-1]),
                max_query_len=int(counts.max()),
                max_seq_len=int(lengths.max()),
                block_table_tensor=torch.stack([span.blocks for span in spans]),
                slot_mapping=torch.cat([span.slots for span in spans]),
            ),
        )

    def _part(self, spans: list[_Span], step: Any) -> Part:
        tokens = torch.cat([torch.arange(span.first, span.last) for span in spans])
        metadata = self._metadata(spans, step)
        return Part(tokens, metadata.slot_mapping, metadata)
