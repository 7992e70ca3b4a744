"""What the calls for one question cost, in the form of ``query --json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from graphrag_assets.llm.usage import StageUsage, total


def copy_usage(usage: Mapping[str, StageUsage]) -> dict[str, StageUsage]:
    """The accounts as they stand."""
    return {stage: replace(account) for stage, account in usage.items()}


def usage_since(before: Mapping[str, StageUsage], now: Mapping[str, StageUsage]) -> dict[str, Any]:
    """What was used since a copy was taken.

    Returns:
        calls, cached, prompt_tokens, completion_tokens, usd (None where no price is known) and by_stage, the same for
        each stage that was used.
    """
    used = {}
    for stage in sorted(now):
        old = before.get(stage, StageUsage())
        difference = StageUsage(
            **{f.name: getattr(now[stage], f.name) - getattr(old, f.name) for f in fields(StageUsage)}
        )
        if difference != StageUsage():
            used[stage] = difference
    figures = _figures(total(used.values()))
    return {**figures, "by_stage": {stage: _figures(account) for stage, account in used.items()}}


def _figures(account: StageUsage) -> dict[str, Any]:
    names = ("calls", "cached", "prompt_tokens", "completion_tokens", "usd")
    held = account.as_dict()
    return {name: held[name] for name in names}
