"""Parts that written and extractive reports share: ratings, citations, findings on contradictions, table rows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphrag_assets import ids
from graphrag_assets.indexing.conflicts import Conflict, Kind, Side
from graphrag_assets.indexing.report_answers import Finding, Report, report_markdown
from graphrag_assets.text.citations import find_citations, format_citation, map_citations, strip_citations

Row = Mapping[str, Any]

_PART = re.compile(r"\d+:\d\d|\d+(?:[.,]\d+)*|[^\W\d_]+")
_YEAR = re.compile(r"\d{4}")
_DISAGREEMENT: dict[Kind, str] = {
    "date": "the date",
    "number": "a number",
    "status": "whether a claim holds",
    "negation": "whether it is so",
    "cause": "the cause",
}


def publish_citations(text: str, human_ids: Mapping[str, Mapping[str, int]]) -> str:
    """Rewrite the full ids of a stored report to the numbers that people see.

    Args:
        text: Report, summary or explanation with citations of full ids.
        human_ids: human_readable_id by data set (Reports, Entities, Relationships, Claims, Sources) and id.

    Returns:
        The text with ``[Data: Entities (5)]``; ids that are in no table are dropped.
    """

    def translate(dataset: str, id_: str) -> str | None:
        number = human_ids.get(dataset, {}).get(id_)
        return None if number is None else str(number)

    return map_citations(text, translate)


def cite_full_ids(text: str, local: Mapping[str, Mapping[str, str]]) -> tuple[str, int]:
    """Rewrite the local numbers that a model cites to full ids.

    Args:
        text: Text of an answer.
        local: Full id by data set and local number.

    Returns:
        The text, and how many cited ids were dropped because the model made them up.
    """
    dropped = 0

    def translate(dataset: str, id_: str) -> str | None:
        nonlocal dropped
        full = local.get(dataset, {}).get(id_)
        dropped += full is None
        return full

    return map_citations(text, translate), dropped


def map_report(report: Report, rewrite: Callable[[str], str]) -> Report:
    """A report with all of its texts rewritten."""

    def rewrite_all(value: Any) -> Any:
        if isinstance(value, str):
            return rewrite(value)
        if isinstance(value, list):
            return [rewrite_all(item) for item in value]
        return {key: rewrite_all(item) for key, item in value.items()} if isinstance(value, dict) else value

    return replace(
        report,
        title=rewrite(report.title),
        summary=rewrite(report.summary),
        rating_explanation=rewrite(report.rating_explanation),
        findings=tuple(Finding(rewrite(f.summary), rewrite(f.explanation)) for f in report.findings),
        extra={key: rewrite_all(value) for key, value in report.extra.items()},
    )


def conflict_finding(conflict: Conflict, name: str) -> Finding:
    """A finding that tells both accounts with their sources.

    Args:
        conflict: Contradiction between two sources.
        name: Name of the entity, as it is to be written.
    """
    first, second = _account(conflict.first), _account(conflict.second)
    return Finding(
        summary=f"Sources disagree on {_DISAGREEMENT[conflict.kind]}: {name}",
        explanation=f"One account: {first} Another account: {second}",
    )


def _account(side: Side) -> str:
    groups = [("Sources", [side.text_unit_id, *side.also][:5], len(side.also) > 4)]
    if side.claim_id:
        groups.insert(0, ("Claims", [side.claim_id], False))
    status = f" (status {side.value})" if side.value in {"TRUE", "FALSE", "SUSPECTED"} else ""
    return f"“{side.text}”{status} {format_citation(groups)}"


def mentions(conflict: Conflict, findings: Sequence[Finding]) -> bool:
    """Whether a finding tells a contradiction: it cites the sources of both sides, or gives both values.

    Args:
        conflict: Contradiction between two sources.
        findings: Findings with citations of full ids.
    """
    sides = (conflict.first, conflict.second)
    for finding in findings:
        text = f"{finding.summary} {finding.explanation}"
        cited = {(c.dataset, id_) for c in find_citations(text) for id_ in c.ids}
        by_claims = all(side.claim_id and ("Claims", side.claim_id) in cited for side in sides)
        by_sources = all(any(("Sources", unit) in cited for unit in (side.text_unit_id, *side.also)) for side in sides)
        one_source = sides[0].text_unit_id == sides[1].text_unit_id
        plain = strip_citations(text)
        by_values = conflict.kind in {"date", "number"} and all(_tells(plain, side.value) for side in sides)
        if by_claims or by_values or (by_sources and not one_source):
            return True
    return False


def _tells(text: str, value: str) -> bool:
    """Whether a text gives a value; the year of a day may be left out."""
    parts = _PART.findall(value.lower())
    needed = [part for part in parts if not _YEAR.fullmatch(part)] or parts
    return bool(needed) and set(needed) <= set(_PART.findall(text.lower()))


def rating(degrees: int, all_degrees: int, text_units: int, all_text_units: int) -> tuple[float, str]:
    """How much of a corpus a community is, as a rating from 0 to 10.

    Args:
        degrees: Sum of the degrees of its members.
        all_degrees: Sum of the degrees of all entities.
        text_units: Text units that name its members.
        all_text_units: Text units of the corpus.

    Returns:
        Ten times the square root of the mean of both shares, and the explanation.
    """
    linked = min(1.0, degrees / all_degrees) if all_degrees else 0.0
    read = min(1.0, text_units / all_text_units) if all_text_units else 0.0
    value = round(10 * math.sqrt((linked + read) / 2), 1)
    reason = (
        f"Its members hold {linked:.0%} of all ends of relationships and are named in {read:.0%} of the text units; "
        f"the rating is ten times the square root of the mean of both shares."
    )
    return value, reason


def join_names(names: Sequence[str]) -> str:
    """Names as a list in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def report_row(
    community: Row, report: Report, *, input_hash: str, extractive: bool, status: str = "ok", reason: str = ""
) -> dict[str, Any]:
    """A row of the community_reports table.

    Args:
        community: Row of the communities table.
        report: The report, citing full ids.
        input_hash: Hash of what it was written from.
        extractive: Whether it was put together from sentences of the sources.
        status: ok or failed.
        reason: Why the status is not ok.
    """
    return {
        "id": ids.report_id(community["id"], input_hash),
        "human_readable_id": community["community"],
        "community": community["community"],
        "level": community["level"],
        "parent": community["parent"],
        "children": list(community["children"]),
        "title": report.title,
        "summary": report.summary,
        "full_content": report_markdown(report),
        "rank": min(10.0, max(0.0, float(report.rating))),
        "rating_explanation": report.rating_explanation,
        "findings": [{"explanation": f.explanation, "summary": f.summary} for f in report.findings],
        "full_content_json": json.dumps(report.as_json(), ensure_ascii=False, indent=4),
        "period": community["period"],
        "size": community["size"],
        "status": status,
        "reason": reason,
        "extractive": extractive,
        "input_hash": input_hash,
    }


def in_table_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of reports in their canonical order: deepest level first, then by community."""
    return sorted(rows, key=lambda row: (-row["level"], row["community"]))
