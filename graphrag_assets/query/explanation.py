"""How an answer came about, as plain data: the route and its alternatives, the contexts, what was left out, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphrag_assets.llm.limiting.budget import Budget
from graphrag_assets.query.context import Context, Section
from graphrag_assets.query.costs import Cost
from graphrag_assets.query.result import Draft
from graphrag_assets.query.routing import Route


def explain(
    route: Route,
    fell_back: Sequence[Mapping[str, str]],
    costs: Mapping[str, Cost],
    draft: Draft,
    budget: Budget,
) -> dict[str, Any]:
    """Everything about one question.

    Args:
        route: The choice of the search.
        fell_back: Searches that were tried first, with why they were given up.
        costs: Estimates by method.
        draft: What the last search handed over.
        budget: The ceiling of the question.

    Returns:
        route (method, by, why, fell_back, alternatives with estimated calls, tokens and USD), contexts (tokens, what was
        found and how, sections with budget, used and left out), search (ratings, points or steps, by method), budget.
    """
    method = fell_back[-1]["to"] if fell_back else route.method
    return {
        "route": {
            "method": method,
            "by": route.by,
            "why": route.why,
            "fell_back": [dict(step) for step in fell_back],
            "alternatives": [
                {**cost.as_dict(), "chosen": cost.method == method} for cost in sorted(costs.values(), key=_order)
            ],
        },
        "contexts": [_context(context) for context in draft.contexts],
        "search": dict(draft.notes),
        "budget": {
            "max_usd": budget.usd,
            "max_tokens": budget.tokens,
            "spent_usd": round(budget.spent_usd, 8) if budget.usd is not None else None,
            "spent_tokens": budget.spent_tokens if budget.limited else None,
            "reached": budget.reached,
        },
    }


def _order(cost: Cost) -> tuple[int, str]:
    return cost.prompt_tokens + cost.completion_tokens, cost.method


def _context(context: Context) -> dict[str, Any]:
    return {
        "tokens": context.tokens,
        **context.notes,
        "sections": [_section(section) for section in context.sections],
    }


def _section(section: Section) -> dict[str, Any]:
    return {
        "name": section.name,
        "rows": [row.number for row in section.rows if row.number >= 0],
        "used": section.used,
        "budget": section.budget,
        "left_out": section.left_out,
        "too_long": [{"id": number, "tokens": tokens} for number, tokens in section.too_long if number >= 0],
    }
