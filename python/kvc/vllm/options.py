"""What a user asks for: additional_config={"kvc": {...}}."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..budget import Budget, tokens_of
from ..errors import ArgumentError
from .counts import Counts, Table
from .geometry import Geometry

NAME = "kvc"
"""The key in additional_config."""

_MOST_TOKENS = 2**31 - 1


@dataclass(frozen=True)
class Options:
    """policy: as for `kvc.compile`: a shipped policy, a file, or a text.
    budget: tokens of a KV head, or a share of the prompt (see `kvc.Budget`).
    params: parameters of the policy that differ from the file's, sorted.

    They travel to the scheduler with the layers' cache specs: plain values, to be compared.
    """

    policy: str
    budget: int | str
    params: tuple[tuple[str, int | float | str], ...] = ()
    keeps_all: bool = False
    """The policy keeps every token, whatever the budget: found out by trying it (`trial`)."""
    by_head: bool = False
    """Heads keep different numbers of rows, or layers do: found out as well. Without `counts` all
    heads of a layer together keep what the budget says."""
    table: Table | None = None
    """[layers][q_heads], the importance of heads, for policies that read it."""
    counts: Counts | None = None
    """Where layers keep different numbers of rows."""

    @staticmethod
    def of(config: Any) -> Options | None:
        """Of a VllmConfig; None where nobody asks for kvc."""
        additional = config.additional_config
        if not isinstance(additional, Mapping) or NAME not in additional:
            return None
        given = additional[NAME]
        if not isinstance(given, Mapping):
            raise ArgumentError(f"additional_config[{NAME!r}] must be a mapping, got {type(given).__name__}")
        unknown = sorted(set(given) - {"policy", "budget", "params", "table"})
        if unknown:
            raise ArgumentError(f"additional_config[{NAME!r}] has policy, budget, params and table, got {unknown[0]!r}")
        for name in ("policy", "budget"):
            if name not in given:
                raise ArgumentError(f"additional_config[{NAME!r}] must have {name!r}, got {sorted(given)}")
        if not isinstance(given["policy"], str):
            raise ArgumentError(f"a policy must be a name, a file or a text, got {given['policy']!r}")
        params = given.get("params", {})
        if not isinstance(params, Mapping):
            raise ArgumentError(f"params must be a mapping, got {type(params).__name__}")
        table = None if given.get("table") is None else _table(given["table"])
        return Options(given["policy"], _plain(given["budget"]), tuple(sorted(params.items())), table=table)

    def rows(self, tokens: int) -> int:
        """How many rows each head keeps of a prompt of `tokens`; where it is `by_head`, on average
        in the layer that keeps most."""
        if self.counts is not None:
            return self.counts.most_rows(tokens, self.tokens(tokens))
        return self.tokens(tokens)

    def evicts(self, tokens: int) -> bool:
        """From a prompt of `tokens`."""
        return self.tokens(tokens) < tokens

    def tokens(self, tokens: int) -> int:
        """The budget of a head for a prompt of `tokens`. Of prompts so short that a share leaves no
        token one stays: a server must not fall over a request."""
        if self.keeps_all:
            return tokens
        if isinstance(self.budget, int):
            return min(self.budget, tokens)
        share = Fraction(self.budget)
        return max(1, share.numerator * tokens // share.denominator)

    def place(self, tokens: int, block_size: int) -> Geometry:
        """Where the rows of a prompt of `tokens` lie."""
        return Geometry.of(tokens, self.rows(tokens), block_size, self.by_head)


def _plain(budget: Budget) -> int | str:
    """A share as its decimal text; what no budget can be is refused."""
    tokens_of(budget, _MOST_TOKENS)
    if isinstance(budget, (float, str, Decimal, Fraction)):
        return str(budget)
    return int(budget)


def _table(given: Any) -> Table:
    """Rows of numbers; how many there must be is known when layers are."""
    rows = given.tolist() if hasattr(given, "tolist") else given
    try:
        table = tuple(tuple(float(number) for number in row) for row in rows)
    except (TypeError, ValueError):
        table = ()
    if not table or any(len(row) != len(table[0]) or not row for row in table):
        raise ArgumentError(f"table must be [layers, q_heads] numbers, got {given!r:.80}")
    return table
