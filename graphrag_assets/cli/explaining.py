"""The explanation of an answer for the terminal: which search and why, what was read, what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphrag_assets.cli.output import table

#: Rows of one kind that the terminal shows; --json gives all of them.
SHOWN = 12


def explanation_lines(explanation: Mapping[str, Any]) -> list[str]:
    """An explanation as lines of text.

    Args:
        explanation: See :func:`graphrag_assets.query.explanation.explain`.
    """
    lines = ["", "How this answer came about", *_route(explanation["route"])]
    for number, context in enumerate(explanation["contexts"][:SHOWN], start=1):
        lines += _context(number, context)
    if (more := len(explanation["contexts"]) - SHOWN) > 0:
        lines.append(f"… and {more} further contexts (all with --json)")
    return [*lines, *_search(explanation["search"]), *_budget(explanation["budget"])]


def _route(route: Mapping[str, Any]) -> Iterator[str]:
    yield f"Search: {route['method']} (chosen by {route['by']}: {route['why']})"
    for step in route["fell_back"]:
        yield f"  {step['from']} search was given up for {step['to']} search: {step['why']}"
    if route["alternatives"] and not any(a["calls"] for a in route["alternatives"]):
        yield "No language model is configured: no search calls one or costs anything."
    elif route["alternatives"]:
        rows = [
            {
                "search": f"{'*' if a['chosen'] else ' '} {a['method']}",
                "calls": a["calls"],
                "tokens in": f"{a['prompt_tokens']:,}",
                "tokens out": f"{a['completion_tokens']:,}",
                "USD": "unknown" if a["usd"] is None else f"{a['usd']:.5f}",
            }
            for a in route["alternatives"]
        ]
        yield "What each search would cost (estimated; of DRIFT at most):"
        yield from _indented(table(rows, ["search", "calls", "tokens in", "tokens out", "USD"]))


def _context(number: int, context: Mapping[str, Any]) -> Iterator[str]:
    yield f"Context {number}: {context['tokens']:,} tokens"
    for name, value in context.items():
        if name in ("tokens", "sections"):
            continue
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield f"  {name.replace('_', ' ')}:"
            yield from (f"    {_found(row)}" for row in value[:SHOWN])
            if len(value) > SHOWN:
                yield f"    … and {len(value) - SHOWN} more"
        elif value not in (None, [], {}, ""):
            yield f"  {name.replace('_', ' ')}: {value}"
    rows = [
        {
            "section": section["name"],
            "rows": len(section["rows"]),
            "tokens": section["used"],
            "of": section["budget"],
            "left out": section["left_out"],
        }
        for section in context["sections"]
    ]
    if rows:
        yield from _indented(table(rows, ["section", "rows", "tokens", "of", "left out"]))
    for section in context["sections"]:
        if section["too_long"]:
            named = ", ".join(f"{row['id']} ({row['tokens']} tokens)" for row in section["too_long"][:SHOWN])
            yield f"  {section['name']} that did not fit into what was left: {named}"


def _found(row: Mapping[str, Any]) -> str:
    score = f" {row['score']:.4f}" if isinstance(row.get("score"), int | float) else ""
    parts = [str(value) for name, value in row.items() if name not in ("score", "id")]
    return f"{row.get('id', '')}{score} {' '.join(parts)}".rstrip()


def _search(search: Mapping[str, Any]) -> Iterator[str]:
    """What a search of several steps did on the way."""
    if "dynamic" in search:
        dynamic = search["dynamic"]
        for level in dynamic["levels"]:
            told = ", ".join(f"{number}: {'none' if rating is None else rating}" for number, rating in level.items())
            yield f"Ratings of reports (0 to 5): {told}"
        yield f"Reports chosen: {_listed(dynamic['chosen'])}"
    if "points" in search:
        yield f"Points found, by importance: {_listed([point['score'] for point in search['points']])}"
    if search.get("points_left_out"):
        yield f"Points that did not fit into the last call: {search['points_left_out']}"
    if "drift" in search:
        for step in search["drift"]["steps"]:
            yield f"Step ({step['score']:g}): {step['question']}"
        if search["drift"]["not_asked"]:
            yield f"Follow-up questions that were not asked: {len(search['drift']['not_asked'])}"


def _budget(budget: Mapping[str, Any]) -> Iterator[str]:
    if budget["max_usd"] is not None:
        yield f"Price: {budget['spent_usd']:.5f} of {budget['max_usd']:g} USD"
    if budget["max_tokens"] is not None:
        yield f"Tokens: {budget['spent_tokens']:,} of {budget['max_tokens']:,}"
    if budget["reached"]:
        yield "The ceiling was reached: at least one call was not sent."


def _listed(values: Sequence[object]) -> str:
    shown = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values[:SHOWN])
    return (shown + (f", … ({len(values)} in all)" if len(values) > SHOWN else "")) or "none"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
