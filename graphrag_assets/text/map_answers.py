"""Points out of the answer to one part of a global question: what the reports say, each with a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphrag_assets.text.json_answers import parse_json_object
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
        items = parse_json_object(text, ("points",), list_key="points")["points"]
    except ValueError as error:
        if is_refusal(text):
            raise RefusalError("the model declined to answer") from error
        raise
    if isinstance(items, dict):
        items = [items] if "description" in items else list(items.values())
    if not isinstance(items, list):
        raise ValueError("points is no list; expected a list of objects with description and score")
    points = [point for item in items if (point := _point(item))]
    if items and not points:
        raise ValueError("no item of points can be read; expected objects with description and score")
    return points


def _point(item: Any) -> Point | None:
    if not isinstance(item, dict):
        return None
    description, score = item.get("description"), read_score(item.get("score"))
    if not isinstance(description, str) or not description.strip() or score is None:
        return None
    return Point(description.strip(), score)
