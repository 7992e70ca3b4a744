"""The report of a community out of a model's answer, and its Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrag_assets.text.json_answers import is_json, parse_json_object
from graphrag_assets.text.numbers import read_score
from graphrag_assets.text.refusals import RefusalError, is_refusal

MAX_RATING = 10.0

#: JSON schema of a report, for models that support structured output.
REPORT_SCHEMA: dict[str, Any] = {
    "title": "community_report",
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "summary": {"type": "string"},
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"summary": {"type": "string"}, "explanation": {"type": "string"}},
                "required": ["summary", "explanation"],
                "additionalProperties": False,
            },
        },
        "rating": {"type": "number"},
        "rating_explanation": {"type": "string"},
    },
    "required": ["title", "summary", "findings", "rating", "rating_explanation"],
    "additionalProperties": False,
}

_KEYS = ("title", "summary", "findings", "rating", "rating_explanation")


@dataclass(frozen=True)
class Finding:
    """One finding: what was found in a sentence, and the explanation with its citations."""

    summary: str
    explanation: str


@dataclass(frozen=True)
class Report:
    """A report as the model wrote it.

    Args:
        title: Title.
        summary: Summary.
        rating: Importance from 0 to 10; 0 when the answer gives none.
        rating_explanation: Why it has this rating.
        findings: Findings in their order.
        extra: Keys beyond the known ones, such as date_range.
        mended: Whether the form of the answer is not the one that was asked for.
    """

    title: str
    summary: str
    rating: float = 0.0
    rating_explanation: str = ""
    findings: tuple[Finding, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    mended: bool = field(default=False, compare=False)

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object, with the extra keys at the end."""
        findings = [{"summary": f.summary, "explanation": f.explanation} for f in self.findings]
        own = {"title": self.title, "summary": self.summary, "findings": findings, "rating": self.rating}
        return {**own, "rating_explanation": self.rating_explanation, **self.extra}


def parse_report(text: str) -> Report:
    """Read a report.

    Args:
        text: Answer of a model.

    Raises:
        RefusalError: The model declined.
        ValueError: The answer holds no object with a title and a text, or it was cut.
    """
    try:
        value = parse_json_object(text, _KEYS)
    except ValueError as error:
        if is_refusal(text):
            raise RefusalError("the model declined to answer") from error
        raise
    title, summary = _string(value.get("title")), _string(value.get("summary"))
    findings = tuple(finding for item in _list(value.get("findings")) if (finding := _finding(item)))
    if not title or not (summary or findings):
        raise ValueError(
            "the report has no title or no text; expected title, summary, findings, rating and rating_explanation"
        )
    return Report(
        title,
        summary,
        read_score(value.get("rating"), MAX_RATING) or 0.0,
        _string(value.get("rating_explanation")),
        findings,
        {key: item for key, item in value.items() if key not in _KEYS},
        mended=not is_json(text),
    )


def report_markdown(report: Report) -> str:
    """The report as Markdown: title, summary, then a section for each finding."""
    blocks = [f"# {report.title}", report.summary]
    for finding in report.findings:
        blocks += [f"## {finding.summary}", finding.explanation]
    return "\n\n".join(block for block in blocks if block)


def _finding(item: Any) -> Finding | None:
    """One finding; a bare string is one without explanation, an empty item none."""
    if isinstance(item, dict):
        summary, explanation = (
            _string(item.get("summary") or item.get("title")),
            _string(item.get("explanation") or item.get("description")),
        )
    else:
        summary, explanation = _string(item), ""
    if not summary:
        summary, explanation = explanation, ""
    return Finding(summary, explanation) if summary else None


def _list(value: Any) -> list[Any]:
    if isinstance(value, dict):  # {"1": {...}, "2": {...}}, or one finding without its list
        return [value] if "summary" in value or "explanation" in value else list(value.values())
    return value if isinstance(value, list) else [] if value in (None, "") else [value]


def _string(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, list):
        return "\n".join(part for part in map(_string, value) if part)
    if isinstance(value, dict):
        return "\n".join(part for part in map(_string, value.values()) if part)
    return str(value).strip()
