"""One request to a model on its way: how large it is, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphrag_assets.llm.errors import PassingError, PermanentError
from graphrag_assets.llm.limiting.budget import Budget
from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.llm.providers.clients import TokenUsage


@dataclass(frozen=True)
class Size:
    """How large a prompt is: characters, and for the budgets that it is charged to, tokens."""

    characters: int
    tokens: int
    budgets: list[Budget]


@dataclass
class Turn:
    """One request that holds a slot: its parameters, whether it left, and what it used."""

    parameters: dict[str, Any]
    sent: bool = False
    free: bool = False
    usage: TokenUsage | None = None

    def refused_by(self, error: PassingError | PermanentError) -> None:
        """Note a failure: what the provider refused, or never got, costs nothing."""
        self.free = error.status is not None or error.kind == "unreachable"

    def cost(self, facts: ModelFacts) -> tuple[int | None, float | None]:
        """Tokens and price; None where nobody knows, so that what was set aside counts."""
        if self.free or not self.sent:
            return 0, 0.0
        if self.usage is None:
            return None, None
        return self.usage.prompt + self.usage.completion, facts.usd(self.usage)
