"""What a run cost, by stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from graphrag_assets.llm.providers.clients import TokenUsage

#: What is done about an answer that cannot be used as it is, in order: its form is mended; it is asked for again, as it was
#: asked for; with what was wrong with it; with less to read; the fallback model is asked; of one that was cut, the part
#: before the cut is taken.
LADDER = ("mended", "asked_again", "asked_with_error", "smaller_input", "fallback", "part_kept")


@dataclass
class StageUsage:
    """Calls, tokens and price of one stage.

    Args:
        calls: Requests sent, those that failed and were repeated included.
        cached: Answers (for embeddings: texts) that cost nothing: from the cache, or from an equal call in flight.
        failed: Questions that got no usable answer at all.
        retries: How many of the calls were repeats, after a failure or after an answer that could not be used.
        prompt_tokens: Tokens sent, as the provider counted them.
        completion_tokens: Tokens received.
        priced_usd: Price of the calls whose price is known.
        priced_calls: How many those are.
        unpriced_calls: Answered calls whose price is not known: no price for the model, or no tokens reported.
        seconds: Time spent waiting for answers, summed over calls.
        tried: How many questions came to each step of the ladder (:data:`LADDER`).
        recovered: How many of them got their answer there.
        batched: How many of the calls travelled in a batch of the provider.
    """

    calls: int = 0
    cached: int = 0
    failed: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    priced_usd: float = 0.0
    priced_calls: int = 0
    unpriced_calls: int = 0
    seconds: float = 0.0
    tried: Counter[str] = field(default_factory=Counter)
    recovered: Counter[str] = field(default_factory=Counter)
    batched: int = 0

    @property
    def usd(self) -> float | None:
        """Price in USD; a lower bound where ``unpriced_calls`` is not 0, None where no price at all is known."""
        return None if self.unpriced_calls and not self.priced_calls else self.priced_usd

    def answered(self, tokens: TokenUsage | None, usd: float | None) -> None:
        """Book an answered call.

        Args:
            tokens: What the provider counted, None where it does not say.
            usd: Price, None where it is not known.
        """
        if tokens is not None:
            self.prompt_tokens += tokens.prompt
            self.completion_tokens += tokens.completion
        if usd is None:
            self.unpriced_calls += 1
        else:
            self.priced_calls += 1
            self.priced_usd += usd

    def add(self, other: StageUsage) -> None:
        """Add the figures of another stage or run."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def step(self, name: str, *, recovered: bool) -> None:
        """Book that a question came to a step of the ladder.

        Args:
            name: One of :data:`LADDER`.
            recovered: Whether it got its answer there.
        """
        self.tried[name] += 1
        self.recovered[name] += recovered

    @property
    def ladder(self) -> dict[str, dict[str, int]]:
        """The steps that questions came to, in their order; empty where every first answer could be used as it was."""
        return {
            name: {"tried": self.tried[name], "recovered": self.recovered[name]} for name in LADDER if self.tried[name]
        }

    def as_dict(self) -> dict[str, Any]:
        """Figures for people and JSON."""
        return {
            "calls": self.calls,
            "cached": self.cached,
            "failed": self.failed,
            "retries": self.retries,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "usd": None if self.usd is None else round(self.usd, 8),
            "unpriced_calls": self.unpriced_calls,
            "seconds": round(self.seconds, 3),
            "ladder": self.ladder,
            "batched": self.batched,
        }


def total(usages: Iterable[StageUsage]) -> StageUsage:
    """Sum of several usages."""
    result = StageUsage()
    for usage in usages:
        result.add(usage)
    return result
