"""How long the calls of a plan would take at the configured limits."""

from __future__ import annotations

from collections.abc import Sequence

from graphrag_assets.plan.asking import GLEANINGS
from graphrag_assets.plan.figures import StagePlan
from graphrag_assets.settings import ModelSettings, Workspace


def seconds_of(stages: Sequence[StagePlan], workspace: Workspace) -> float | None:
    """Seconds that the calls would take: one stage after the other, each at the pace that slots and limits allow.

    What this machine computes in between is not counted. None where a provider answers in batches: it takes its time.
    """
    if any(stage.by_batch for stage in stages):
        return None
    settings = workspace.settings
    entries: dict[str, ModelSettings] = {
        f"{model.model_provider}/{model.model}": model
        for section in (settings.completion_models, settings.embedding_models)
        for model in section.values()
    }
    groups: dict[str, list[StagePlan]] = {}
    for stage in stages:
        groups.setdefault(stage.stage.removesuffix(GLEANINGS), []).append(stage)
    return sum(_group(group, settings.concurrent_requests, entries) for group in groups.values())


def _group(stages: Sequence[StagePlan], slots: int, entries: dict[str, ModelSettings]) -> float:
    """Seconds of a stage with its gleanings: no shorter than one call after the other in a slot, nor than its limits."""
    calls = sum(stage.calls for stage in stages)
    if not calls:
        return 0.0
    # Not shorter than a question with its gleanings, which wait for each other.
    longest = sum(stage.seconds / stage.calls for stage in stages if stage.calls)
    spread = max(sum(stage.seconds for stage in stages) / slots, longest)
    entry = entries.get(stages[0].model)
    if entry is None or entry.rate_limit is None:
        return spread
    limit = entry.rate_limit
    tokens = sum(stage.prompt_tokens + stage.completion_tokens for stage in stages)
    windows = [
        calls / limit.requests_per_period if limit.requests_per_period else 0.0,
        tokens / limit.tokens_per_period if limit.tokens_per_period else 0.0,
    ]
    return max(spread, (max(windows) - 1) * limit.period_in_seconds)
