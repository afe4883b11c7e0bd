"""What the layers of a cache share. They hold this and not the cache, so that a cache that is
dropped is freed at once."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..budget import Budget, tokens_of
from ..plan import Plan
from ..policy import Policy
from .masks import Masks
from .rope import Rotation

_MOST_TOKENS = 2**31 - 1


class Shape(NamedTuple):
    """Of a layer's attention."""

    kv_heads: int
    q_heads: int
    head_dim: int
    dtype: str


class Shared:
    def __init__(
        self,
        policy: Policy,
        budget: Budget,
        table: torch.Tensor | None,
        shape: Shape,
        rotation: Rotation,
        device: torch.device,
    ) -> None:
        """device: that of the model's first layer; others may be elsewhere."""
        self.policy = policy
        self.budget = budget
        self.table = table
        self.rotation = rotation
        self._shape = shape
        self._plans: dict[tuple[int, torch.device], Plan] = {}
        self._state: torch.Tensor | None = None
        self.masks = Masks()
        # A budget or a policy that cannot be is refused here, not in the middle of a prompt.
        tokens_of(budget, _MOST_TOKENS)
        self.plan(1, device)

    def plan(self, tokens: int, device: torch.device) -> Plan:
        """The policy for prompts of so many tokens, of layers on that device."""
        key = tokens, device
        if key not in self._plans:
            self._plans[key] = self.policy.plan(max_tokens=tokens, device=str(device), **self._shape._asdict())
        return self._plans[key]

    def state(self, sequence: int, batch: int, tokens: int, device: torch.device) -> torch.Tensor:
        """What layers leave for those that follow, of one sequence; it goes where they go."""
        if self._state is None:
            self._state = torch.zeros(batch, tokens, dtype=torch.int32, device=device)
        self._state = self._state.to(device)
        return self._state[sequence : sequence + 1]

    def forget_state(self) -> None:
        self._state = None
