"""What is spent and left of the budget of the day, as status and index tell it."""

from __future__ import annotations

from typing import Any

from graphrag_assets.settings import Workspace


def day_of(workspace: Workspace) -> dict[str, Any] | None:
    """What is spent of this day and what is left; None where the settings set no budget for a day.

    Returns:
        ``day`` (UTC), and for ``usd`` and ``tokens``: ``limit``, ``spent``, ``reserved`` (calls in flight) and ``left``,
        null where there is no limit; ``unpriced_tokens`` are in no figure in USD. ``problem`` in their place where the
        store cannot be read.
    """
    from graphrag_assets.llm.errors import GatewayError
    from graphrag_assets.llm.limiting.day_budget import nothing_spent, open_day_budget

    settings = workspace.settings
    budget = settings.budget
    if budget.usd_per_day is None and budget.tokens_per_day is None:
        return None
    try:
        if settings.limits.redis_url is None and not workspace.path(settings.limits.path).exists():
            spent = nothing_spent()  # looking makes no file
        else:
            opened = open_day_budget(workspace)
            assert opened is not None
            spent = opened.spent()
    except GatewayError as error:
        return {"problem": str(error)}
    return {
        "day": spent.day,
        "account": budget.account,
        "usd": _figures(budget.usd_per_day, round(spent.usd, 8), round(spent.reserved_usd, 8)),
        "tokens": _figures(budget.tokens_per_day, spent.tokens, spent.reserved_tokens),
        "unpriced_tokens": spent.unpriced_tokens,
    }


def _figures(limit: float | None, spent: float, reserved: float) -> dict[str, float | None]:
    left = None if limit is None else max(0, round(limit - spent - reserved, 8))
    return {"limit": limit, "spent": spent, "reserved": reserved, "left": left}


def day_lines(day: dict[str, Any] | None) -> list[str]:
    """The same in words."""
    if day is None:
        return []
    if problem := day.get("problem"):
        return [f"Budget of the day: {problem}"]
    told = []
    for name, form in (("usd", "{:.4f} {}USD"), ("tokens", "{:,} {}tokens")):
        figures = day[name]
        text = form.format(figures["spent"], "" if figures["limit"] is None else f"of {figures['limit']:,} ")
        text += f" ({form.format(figures['left'], '')} left)" if figures["left"] is not None else ""
        told.append(text)
    flying = day["tokens"]["reserved"]
    more = f"; {flying:,} tokens are set aside for calls in flight" if flying else ""
    more += f"; the price of {day['unpriced_tokens']:,} tokens is not known" if day["unpriced_tokens"] else ""
    return [f"Spent on {day['day']} (UTC): {' and '.join(told)}{more}."]
