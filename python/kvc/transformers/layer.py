"""One layer of the cache: a prompt, and what a policy has kept of it."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
from transformers.cache_utils import CacheLayerMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from ..errors import ArgumentError, Error, UnsupportedError
from ..kept import Kept
from ..policy import Policy
from . import packed
from .attend import attend
from .merged import Merged
from .model import inputs_of
from .ragged import Ragged
from .shared import Shared


class KvcLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """A layer's cache: the whole prompt at first, then what the policy has kept of it, and
    behind that the tokens that came later."""

    is_sliding = False
    is_compileable = False
    is_croppable = False
    supports_early_init = False

    def __init__(self, shared: Shared, order: int, layers: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._shared = shared
        self._order, self._layers = order, layers
        self.reset()

    def reset(self) -> None:
        self._seen = 0
        self._waiting = False
        self._dense: _Prompt | None = None
        self._rows: Ragged | None = None
        """Behind the eviction, with what came later."""
        self._merged: Merged | None = None
        self._shared.forget_state()

    # What transformers asks of a layer.

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Notes the tokens; the attention function, which has the queries too, takes them in."""
        if self._waiting:
            raise Error("the model's attention must be 'kvc' for a KvcCache, got one that does not know it")
        self.lazy_initialization(key_states, value_states)
        self._waiting = True
        self._seen += key_states.shape[2]
        marked = key_states.view_as(key_states)
        marked._kvc_layer = self  # type: ignore[attr-defined]
        return marked, value_states

    def get_seq_length(self) -> int:
        """The position of the next token, whatever the number of rows."""
        return self._seen

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length  # its name in earlier versions

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        new = query_length if isinstance(query_length, int) else len(query_length)
        return self._seen + new, 0

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        raise UnsupportedError("a KvcCache must not be reordered: beam search is not supported")

    def crop(self, tokens_to_remove: int) -> None:
        raise UnsupportedError("a KvcCache must not be cropped: assisted decoding is not supported")

    def activate_past_recording(self) -> None:
        self.crop(0)

    def batch_repeat_interleave(self, repeats: int) -> None:
        raise UnsupportedError("the batch of a KvcCache must stay as it is, got repeats")

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        raise UnsupportedError("the batch of a KvcCache must stay as it is, got a selection")

    # What the attention function asks.

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def attention(
        self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None,
        scale: float, kwargs: dict[str, Any],
    ) -> torch.Tensor:  # fmt: skip
        """A compiled model breaks here, once a layer, and not at every address that kvc takes."""
        self._waiting = False
        if mask is not None and mask.dtype != torch.bool:
            raise ArgumentError(f"a mask must say what is seen, as bool, got {mask.dtype}")
        if self._rows is None and self._dense is not None and q.shape[2] == 1:
            self.evict()
        if self._rows is None:
            if self._dense is None:
                self._dense = _Prompt(self._shared.policy)
            seen = None if mask is None else self._shared.masks.of_last_query(mask)
            return self._dense.attention(module, q, k, v, mask, seen, scale, kwargs)
        visible = None if mask is None else self._shared.masks.of_newest(mask, q.shape[2]).expand(len(q), -1, -1)
        return attend(q, k, v, visible, self._rows, self._merged, scale)

    def evict(self) -> None:
        """Once: runs the policy, sequence by sequence, and drops what it has not kept."""
        prompt, shared = self._dense, self._shared
        if prompt is None:
            return
        k, v = prompt.k, prompt.v
        batch, tokens = len(k), k.shape[2]
        plan = shared.plan(tokens, k.device)
        every: list[Kept] = []
        places = []
        for b, start in enumerate(prompt.starts):
            if start == tokens:
                raise ArgumentError(f"a prompt must have a token that is no padding, got none in sequence {b}")
            one = slice(b, b + 1)
            positions = prompt.positions[b % len(prompt.positions), start:]
            queries = prompt.q[one, :, max(0, prompt.q.shape[2] - (tokens - start)) :] if prompt.q is not None else None
            kept = plan.evict(
                queries,
                k[one, :, start:],
                v[one, :, start:],
                budget=shared.budget,
                layer=self._order,
                layers=self._layers,
                scale=prompt.scale,
                **inputs_of(
                    shared.policy,
                    prompt.module,
                    k[one, :, start:],
                    positions,
                    shared.rotation,
                    shared.table,
                    partial(shared.state, b, batch, tokens, k.device),
                ),
            )
            every.append(kept)
            places.append(positions)
        lengths = [tokens - start for start in prompt.starts]
        if shared.policy.manifest.merges:
            self._merged = Merged(every, places, shared.rotation)
            self._rows = Ragged.empty(k, lengths)
        else:
            self._rows = Ragged(*packed.rows(every), packed.tokens(every), packed.counts(every), lengths)
        self._dense = None

    def kept(self) -> list[list[torch.Tensor]] | None:
        """[sequence][KV head] tokens of the prompt; None in front of the eviction."""
        if self._rows is None:
            return None
        return self._rows.kept() if self._merged is None else self._merged.kept()

    def bytes(self) -> int:
        if self._dense is not None:
            return packed.held(self._dense.k, self._dense.v, self._dense.q)
        parts = (self._rows, self._merged)
        return sum(part.bytes() for part in parts if part is not None)


class _Prompt:
    """A prompt that is still coming in: all of its keys and values, and as many of its last
    queries as the policy reads."""

    def __init__(self, policy: Policy) -> None:
        self._queries = policy.manifest.queries
        self.q: torch.Tensor | None = None
        self.k: torch.Tensor
        self.v: torch.Tensor
        self.positions: torch.Tensor
        self.length = 0

    def __deepcopy__(self, memo: object) -> _Prompt:
        """Its tensors are replaced and never written to; the module is the model's."""
        return copy.copy(self)

    def attention(
        self, module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None,
        seen: torch.Tensor | None, scale: float, kwargs: dict[str, Any],
    ) -> torch.Tensor:  # fmt: skip
        """seen: of `mask`, what the last query sees, on the CPU."""
        positions = kwargs.get("position_ids")
        if positions is None:
            positions = torch.arange(self.length, self.length + k.shape[2], device=k.device)[None]
        positions = positions.to(k.device)
        if self.length:
            k, v = torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2)
            positions = torch.cat([self.positions, positions], dim=-1)
        self.k, self.v, self.positions = k, v, positions
        self.length = k.shape[2]
        self.module: Any = module
        self.scale = scale
        if self._queries:
            recent = q if self.q is None else torch.cat([self.q, q], dim=2)
            # A copy: a slice would hold them all.
            self.q = recent if self._queries == "all" else recent[:, :, -self._queries :].clone()
        self.starts = _padding(seen, len(k), self.length)
        out, _ = sdpa_attention_forward(module, q, k, v, mask, scaling=scale, **kwargs)
        return out


def _padding(seen: torch.Tensor | None, batch: int, tokens: int) -> list[int]:
    """How many rows in front of each sequence are padding: what its last query does not see. A
    first chunk may be nothing else."""
    if seen is None:
        return [0] * batch
    seen = seen[:, :tokens].expand(batch, -1)
    starts = (tokens - seen.sum(dim=-1)).tolist()
    for b, start in enumerate(starts):
        if not seen[b, start:].all():
            raise ArgumentError(f"padding must be in front of a prompt, got some behind or within sequence {b}")
    return [int(start) for start in starts]
