"""The report of a community out of a model's answer, and its Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrag_assets.indexing.written_reports import read_written
from graphrag_assets.text.answer_objects import Words, find_object, with_keys
from graphrag_assets.text.json_answers import CutError, is_json, json_values
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

#: Other words for the keys, by models that answer in their own or in the language of the text.
_WORDS: Words = {
    "title": [
        "report_title",
        "name",
        "heading",
        "标题",
        "標題",
        "タイトル",
        "題名",
        "Titel",
        "Überschrift",
        "título",
        "titre",
        "titolo",
        "заголовок",
        "название",
        "제목",
        "العنوان",
        "عنوان",
    ],
    "summary": [
        "executive_summary",
        "overview",
        "abstract",
        "report_summary",
        "摘要",
        "概要",
        "总结",
        "摘要总结",
        "要約",
        "Zusammenfassung",
        "resumen",
        "résumé",
        "resume",
        "resumo",
        "riassunto",
        "резюме",
        "краткое_содержание",
        "요약",
        "ملخص",
        "الملخص",
    ],
    "findings": [
        "key_findings",
        "detailed_findings",
        "insights",
        "key_insights",
        "finding",
        "发现",
        "主要发现",
        "關鍵發現",
        "關鍵洞察",
        "关键发现",
        "調査結果",
        "所見",
        "Erkenntnisse",
        "Ergebnisse",
        "hallazgos",
        "constatations",
        "conclusions",
        "résultats",
        "achados",
        "risultati",
        "выводы",
        "находки",
        "результаты",
        "발견",
        "النتائج",
    ],
    "rating": [
        "impact_severity_rating",
        "impact_rating",
        "severity_rating",
        "impact_severity",
        "importance_rating",
        "importance",
        "score",
        "report_rating",
        "评分",
        "評分",
        "评级",
        "評価",
        "評点",
        "Bewertung",
        "calificación",
        "puntuación",
        "note",
        "évaluation",
        "avaliação",
        "valutazione",
        "оценка",
        "рейтинг",
        "평점",
        "التقييم",
    ],
    "rating_explanation": [
        *[
            "explanation_of_rating",
            "score_explanation",
            "rating_reason",
            "rating_rationale",
            "rating_justification",
            "impact_explanation",
            "评分说明",
            "評分說明",
            "评分解释",
            "评级说明",
            "評価の説明",
            "評価理由",
            "explicación_de_la_calificación",
            "explication_de_la_note",
            "объяснение_оценки",
            "평점_설명",
        ],
        "Begründung der Bewertung",
        "Erläuterung der Bewertung",
    ],
}
_OF_FINDING: Words = {
    "summary": [
        "title",
        "finding",
        "heading",
        "insight",
        "name",
        "executive_summary",
        "overview",
        "摘要",
        "标题",
        "要約",
        "タイトル",
        "Zusammenfassung",
        "Titel",
        "resumen",
        "título",
        "résumé",
        "titre",
        "резюме",
        "заголовок",
    ],
    "explanation": [
        "description",
        "details",
        "detail",
        "text",
        "content",
        "explanation_text",
        "解释",
        "说明",
        "解釋",
        "説明",
        "Erklärung",
        "Erläuterung",
        "explicación",
        "explication",
        "объяснение",
    ],
}


_NUMBERED = re.compile(r"(?:\w{1,12}\W?)?\d{1,3}")


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
        value = find_object(text, _WORDS, enough=2)
    except ValueError as error:
        if is_refusal(text):
            raise RefusalError("the model declined to answer") from error
        value = {} if isinstance(error, CutError) else read_written(text, _WORDS, _OF_FINDING)
        if not value:
            raise
    title, summary = _string(value.get("title")), _string(value.get("summary"))
    findings = tuple(finding for item in _list(value.get("findings")) if (finding := _finding(item)))
    if not title or not (summary or findings):
        raise ValueError(
            "the report has no title or no text; expected title, summary, findings, rating and rating_explanation"
        )
    rating, why = value.get("rating"), value.get("rating_explanation")
    if isinstance(rating, dict):  # the rating with its explanation
        why = why or rating.get("rating_explanation") or rating.get("explanation") or rating.get("reason")
        rating = next((v for v in rating.values() if read_score(v) is not None), None)
    return Report(
        title,
        summary,
        read_score(rating, MAX_RATING) or 0.0,
        _string(why),
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
        item = with_keys(item, _OF_FINDING)
        if len(item) == 1 and isinstance(inner := next(iter(item.values())), dict):  # {"finding": {...}}
            item = with_keys(inner, _OF_FINDING)
        if not item.keys() & _OF_FINDING.keys() and len(item) == 1:  # {"what was found": "explanation"}
            item = dict(zip(("summary", "explanation"), *item.items(), strict=True))
        summary, explanation = _string(item.get("summary")), _string(item.get("explanation"))
    elif isinstance(item, list) and len(item) == 2:
        summary, explanation = map(_string, item)
    else:
        summary, explanation = _string(item), ""
    if not summary:
        summary, explanation = explanation, ""
    return Finding(summary, explanation) if summary else None


def _list(value: Any) -> list[Any]:
    if isinstance(value, dict):  # {"1": {...}, "2": {...}}, {"what was found": "explanation"}, or one without its list
        if with_keys(value, _OF_FINDING).keys() & _OF_FINDING.keys():
            return [value]
        texts = len(value) > 0 and all(isinstance(v, str) for v in value.values())
        named = not any(_NUMBERED.fullmatch(k) for k in value)
        return [[k, v] for k, v in value.items()] if texts and named else list(value.values())
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:  # the list as a string of JSON
        for inner in json_values(value, partial=True):
            return _list(inner)
    return value if isinstance(value, list) else [] if value in (None, "") else [value]


def _string(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, list):
        return "\n".join(part for part in map(_string, value) if part)
    if isinstance(value, dict):
        return "\n".join(part for part in map(_string, value.values()) if part)
    return str(value).strip()
