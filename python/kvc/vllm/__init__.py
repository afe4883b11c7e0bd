"""Eviction in stock vLLM: a plugin, found by its entry point, no fork and nothing replaced.

    LLM(model, additional_config={"kvc": {"policy": "snapkv", "budget": 1024}})

Behind the last chunk of a prompt the policy says, layer by layer, which rows stay. They are
packed into the last blocks of the prompt; the blocks in front of them go back to the
scheduler. A request keeps its true length everywhere but in attention: block table, length
and slots are moved there (`steps`), so that scheduler and sampler need not know.

Where heads keep different numbers of rows, blocks that stay are shared out anew in pages of one
head's rows, which kvc attends to itself (`pages`).

Everything that decides about blocks follows from the prompt's length and the budget. So the
scheduler and every worker come to the same blocks without a message.

An engine that is not told "kvc" runs as it would without this package.
"""

from .plugin import register

__all__ = ["register"]
