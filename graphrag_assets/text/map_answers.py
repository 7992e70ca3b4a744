"""Points out of the answer to one part of a global question: what the reports say, each with a score."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from graphrag_assets.text.answer_objects import Words, find_object, with_keys
from graphrag_assets.text.json_answers import CutError, json_values
from graphrag_assets.text.numbers import read_score
from graphrag_assets.text.refusals import RefusalError, is_refusal

#: JSON schema of a map answer, for models that support structured output.
POINTS_SCHEMA: dict[str, Any] = {
    "title": "points",
    "type": "object",
    "properties": {
        "points": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"description": {"type": "string"}, "score": {"type": "number"}},
                "required": ["description", "score"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["points"],
    "additionalProperties": False,
}


_WORDS: Words = {
    "points": [
        "point",
        "key_points",
        "keypoints",
        "main_points",
        "list",
        "answers",
        "findings",
        "results",
        "要点",
        "要點",
        "关键点",
        "關鍵點",
        "观点",
        "ポイント",
        "要点リスト",
        "Punkte",
        "puntos",
        "points_clés",
        "pontos",
        "punti",
        "пункты",
        "тезисы",
        "포인트",
        "النقاط",
    ]
}
_OF_POINT: Words = {
    "description": [
        "point",
        "text",
        "content",
        "answer",
        "summary",
        "key_point",
        "statement",
        "描述",
        "说明",
        "内容",
        "説明",
        "Beschreibung",
        "descripción",
        "descrição",
        "descrizione",
        "описание",
        "설명",
        "الوصف",
    ],
    "score": [
        "importance",
        "importance_score",
        "relevance",
        "relevance_score",
        "rating",
        "weight",
        "分数",
        "得分",
        "评分",
        "重要性",
        "スコア",
        "点数",
        "Punktzahl",
        "Bewertung",
        "puntuación",
        "puntaje",
        "pontuação",
        "punteggio",
        "оценка",
        "баллы",
        "점수",
        "الدرجة",
    ],
}
#: A point as an item of a list: - What the reports say (Score: 80)
_ITEM = re.compile(
    r"[ \t]*(?:[-*•]|\d{1,3}[.)、])[ \t]+(?P<description>\S.*?)[ \t]*[(\[（|,;—–-]?[ \t]*[*_]{0,2}(?:importance |relevance )?"
    r"(?:score|rating|importance|分数|评分)[*_]{0,2}\s*[:：=]?[*_]{0,2}\s*(?P<score>\d{1,3}(?:\.\d+)?)(?:\s*/\s*100)?[)\]）]?[*_.]*\s*$",
    re.IGNORECASE,
)
_LONGEST_ITEM = 4_000


@dataclass(frozen=True)
class Point:
    """One point: what the reports say, with citations, and how well it answers the question (0 to 100)."""

    description: str
    score: float


def parse_points(text: str) -> list[Point]:
    """Read the points of an answer; one bad item costs only itself.

    Args:
        text: Answer of a model.

    Returns:
        The points in their order. Items without description or score are left out; scores are brought into 0 to 100.

    Raises:
        RefusalError: The model declined.
        ValueError: The answer holds no list of points, or none of its items can be read.
    """
    try:
        items = find_object(text, _WORDS, list_key="points")["points"]
    except ValueError as error:
        if is_refusal(text):
            raise RefusalError("the model declined to answer") from error
        items = [] if isinstance(error, CutError) else _listed(text)
        if not items:
            raise
    if isinstance(items, str):  # the list as a string of JSON
        items = next((value for value in json_values(items) if isinstance(value, list)), items)
    if isinstance(items, dict):
        items = [items] if "description" in with_keys(items, _OF_POINT) else list(items.values())
    if not isinstance(items, list):
        raise ValueError("points is no list; expected a list of objects with description and score")
    points = [point for item in items if (point := _point(item))]
    if items and not points:
        raise ValueError("no item of points can be read; expected objects with description and score")
    return points


def _listed(text: str) -> list[dict[str, str]]:
    """Points as a list of lines, each of which ends with its score."""
    lines = (line for line in text.splitlines() if len(line) <= _LONGEST_ITEM)
    return [match.groupdict() for line in lines if (match := _ITEM.match(line))]


def _point(item: Any) -> Point | None:
    if isinstance(item, list) and len(item) == 2:
        item = dict(zip(("description", "score"), item, strict=True))
    if not isinstance(item, dict):
        return None
    item = with_keys(item, _OF_POINT)
    if len(item) == 1 and isinstance(inner := next(iter(item.values())), dict):  # {"point": {...}}
        item = with_keys(inner, _OF_POINT)
    description, score = item.get("description"), read_score(item.get("score"))
    if not isinstance(description, str) or not description.strip() or score is None:
        return None
    return Point(description.strip(), score)
