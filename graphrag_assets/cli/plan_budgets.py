"""Whether the budgets of the settings would let a planned run reach its end."""

from __future__ import annotations

from typing import Any

from graphrag_assets.cli.day import day_of
from graphrag_assets.llm.limiting.budget import USUAL_ANSWER
from graphrag_assets.plan.figures import Plan
from graphrag_assets.settings import Workspace

_WORDS = {
    "yes": "the run would stop there, since it takes",
    "likely": "the run would probably stop there, since it takes about",
    "perhaps": "the run might stop there, since it takes about",
    "no": "enough for the run, which takes about",
}


def budgets_of(workspace: Workspace, plan: Plan) -> list[dict[str, Any]]:
    """Each budget that is set, against what a run would take.

    Args:
        workspace: Settings of budgets, and where what was spent in the day is kept.
        plan: The run.

    Returns:
        For each: ``setting``, ``unit`` (usd or tokens), ``limit``, ``left``, ``day`` (null for that of a run), ``expected``
        and ``range`` of the run, ``stops``: no, perhaps (the upper figure of the range, with what is set aside for the
        answer to a call, is more than what is left), likely (the expected one is), yes (the lower one is), or unpriced
        (the price of a model is not known, so that no call to it would be sent). ``problem`` in place of the figures
        where it cannot be read what was spent in the day.
    """
    settings, takes = workspace.settings.budget, _takes(plan)
    found = []
    for unit in ("usd", "tokens"):
        if (limit := getattr(settings, f"{unit}_per_run")) is not None:
            found.append(_against(f"budget.{unit}_per_run", unit, limit, limit, None, takes[unit]))
    day = day_of(workspace)
    if day is not None and "problem" in day:
        return [*found, {"setting": "budget of the day", "problem": day["problem"]}]
    for unit in ("usd", "tokens"):
        if day is not None and day[unit]["limit"] is not None:
            figures = day[unit]
            name = f"budget.{unit}_per_day"
            found.append(_against(name, unit, figures["limit"], figures["left"], day["day"], takes[unit]))
    return found


def _takes(plan: Plan) -> dict[str, tuple[float | None, float | None, float | None, float]]:
    """What a run takes in each unit: as expected, at least, at most, and what is set aside for one answer more."""
    told = plan.to_dict()
    sums = [0, 0]
    for stage in plan.stages:
        bounds = stage.bounds()
        for side in (0, 1):
            sums[side] += int(bounds["prompt_tokens"][side] or 0) + int(bounds["completion_tokens"][side] or 0)
    answering = [stage for stage in plan.stages if stage.calls and stage.completion_tokens]
    dearest = max((stage.facts.output_usd or 0.0 for stage in answering), default=0.0)
    tokens = told["prompt_tokens"] + told["completion_tokens"]
    return {
        "usd": (told["usd"], *told["usd_range"], dearest * USUAL_ANSWER),
        "tokens": (tokens, *sums, USUAL_ANSWER if answering else 0),
    }


def _against(
    setting: str,
    unit: str,
    limit: float,
    left: float,
    day: str | None,
    takes: tuple[float | None, float | None, float | None, float],
) -> dict[str, Any]:
    expected, least, most, aside = takes
    if expected is None or least is None or most is None:
        stops = "unpriced"
    elif not most:
        stops = "no"
    else:
        stops = "yes" if least > left else "likely" if expected > left else "perhaps" if most + aside > left else "no"
    return {
        "setting": setting,
        "unit": unit,
        "limit": limit,
        "left": left,
        "day": day,
        "expected": expected,
        "range": [least, most],
        "stops": stops,
    }


def budget_lines(budgets: list[dict[str, Any]], unpriced: list[str]) -> list[str]:
    """The same in words.

    Args:
        budgets: From :func:`budgets_of`.
        unpriced: Models whose price is not known.
    """
    lines = []
    for budget in budgets:
        if "problem" in budget:
            lines.append(f"Budget of the day: {budget['problem']}")
            continue
        unit = budget["unit"]
        limit = _amount(budget["limit"], unit)
        head = f"Budget of a run ({budget['setting']}): {limit}"
        if budget["day"]:
            left = _amount(budget["left"], unit)
            head = f"Budget of the day ({budget['setting']}): {left} of {limit} left on {budget['day']} (UTC)"
        if budget["stops"] == "unpriced":
            why = f"the price of {', '.join(unpriced)} is not known, so that the run would stop before its first call to it"
            lines.append(f"{head}; {why}: set its prices in the entry")
            continue
        least, most = budget["range"]
        takes = _amount(budget["expected"], unit) + (
            "" if least == most else f" ({_plain(least, unit)} to {_plain(most, unit)})"
        )
        end = "" if budget["stops"] == "no" else "; what it paid for is kept, and the next run goes on from there"
        lines.append(f"{head}; {_WORDS[budget['stops']]} {takes}{end}.")
    return lines


def _plain(value: float, unit: str) -> str:
    return f"{value:.4f}" if unit == "usd" else f"{value:,.0f}"


def _amount(value: float, unit: str) -> str:
    return f"{_plain(value, unit)} {'USD' if unit == 'usd' else 'tokens'}"
