"""The figures of a plan: what each stage would ask, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.settings import BatchApiSettings

#: Shares by which an estimate without history, and one with it, may be off either way.
WIDE, NARROW = 0.5, 0.25

#: Repeated calls beyond those that a plan counts, as a share, in the upper figure of a range.
REPEATS = 0.05


@dataclass
class StagePlan:
    """What one stage would ask.

    Args:
        stage: Name of the stage; gleanings are apart from the questions they follow.
        model: Provider and model.
        facts: Prices of the model.
        calls: Questions that would be sent.
        cached: Answers (for embeddings: texts) that are there already.
        prompt_tokens: Tokens that would be sent.
        completion_tokens: Tokens that would be received.
        exact: Whether calls and prompt tokens are counted on the very prompts that would be sent.
        learnt: Whether past calls tell how long answers are.
        seconds: Time that the calls would take one after the other.
        batch_api: How questions to the model travel in batches of the provider; None: they do not.
    """

    stage: str
    model: str
    facts: ModelFacts
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    exact: bool = True
    learnt: bool = False
    seconds: float = 0.0
    batch_api: BatchApiSettings | None = None

    @property
    def by_batch(self) -> bool:
        """Whether the questions would travel in a batch of the provider."""
        return self.batch_api is not None and self.calls >= self.batch_api.min_requests

    @property
    def usd(self) -> float | None:
        """Price; None where it is not known."""
        return self._usd(self.prompt_tokens, self.completion_tokens)

    def _usd(self, prompt: float, completion: float) -> float | None:
        if not self.calls:
            return 0.0
        if self.facts.input_usd is None or self.facts.output_usd is None:
            return None
        share = self.batch_api.price if self.batch_api is not None and self.by_batch else 1.0
        return (prompt * self.facts.input_usd + completion * self.facts.output_usd) * share

    def bounds(self) -> dict[str, list[float | None]]:
        """Least and greatest value of each figure; both are equal where it is exact."""
        off = NARROW if self.learnt else WIDE
        asked = (1.0, 1.0) if self.exact else (1 - off, 1 + off + REPEATS)
        calls = [round(self.calls * share) for share in asked]
        prompt = [round(self.prompt_tokens * share) for share in asked]
        answers = [round(self.completion_tokens * (1 - off)), round(self.completion_tokens * (1 + off + REPEATS))]
        prices = [self._usd(p, c) for p, c in zip(prompt, answers, strict=True)]
        return {
            "calls": [*calls],
            "prompt_tokens": [*prompt],
            "completion_tokens": [*answers],
            "usd": [_rounded(price) for price in prices],
        }

    def to_dict(self) -> dict[str, Any]:
        """The stage as ``plan --json`` has it."""
        nothing = not self.calls
        return {
            "stage": self.stage,
            "model": self.model,
            "calls": self.calls,
            "cached": self.cached,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "usd": _rounded(self.usd),
            "exact": {
                "calls": self.exact,
                "prompt_tokens": self.exact,
                "completion_tokens": (nothing and self.exact) or "embedding" in self.stage,
            },
            "range": self.bounds(),
            "seconds": None if self.by_batch else round(self.seconds, 1),
            "by_batch": self.by_batch,
        }


def _rounded(price: float | None) -> float | None:
    return None if price is None else round(price, 8)


@dataclass(frozen=True)
class Plan:
    """What a reconcile would do and cost.

    Args:
        method: standard or fast.
        documents: Documents by what happened to them since the published snapshot.
        text_units: Text units of the corpus as it would be, and how many of them would be extracted.
        batches: Batches that would be materialized.
        stages: What each stage would ask; those that would ask nothing as well.
        work: Stages that would be computed.
        seconds: Time expected at the configured limits; None: not known, since a provider takes its time for batches.
        notes: What else a reader should know.
        nothing: Whether there is nothing to do.
    """

    method: str
    documents: dict[str, int]
    text_units: dict[str, int]
    batches: int
    stages: list[StagePlan]
    work: list[str]
    seconds: float | None
    notes: list[str] = field(default_factory=list)
    nothing: bool = False

    @property
    def usd(self) -> float | None:
        """Price of all stages; None where that of any is not known."""
        return total([stage.usd for stage in self.stages])

    def to_dict(self) -> dict[str, Any]:
        """The object of ``plan --json``."""
        bounds = [stage.bounds()["usd"] for stage in self.stages]
        return {
            "method": self.method,
            "nothing_to_do": self.nothing,
            "documents": self.documents,
            "text_units": self.text_units,
            "batches": self.batches,
            "stages": [stage.to_dict() for stage in self.stages],
            "calls": sum(stage.calls for stage in self.stages),
            "cached": sum(stage.cached for stage in self.stages),
            "prompt_tokens": sum(stage.prompt_tokens for stage in self.stages),
            "completion_tokens": sum(stage.completion_tokens for stage in self.stages),
            "usd": _rounded(self.usd),
            "usd_range": [_rounded(total([bound[side] for bound in bounds])) for side in (0, 1)],
            "unpriced": sorted({stage.model for stage in self.stages if stage.usd is None}),
            "seconds_estimated": None if self.seconds is None else round(self.seconds, 1),
            "work": self.work,
            "notes": self.notes,
        }


def total(prices: Iterable[float | None]) -> float | None:
    """Sum of prices; None where any is not known."""
    known = list(prices)
    return None if None in known else sum(price for price in known if price is not None)
