"""Rows of the published tables, as searches use them.

``number`` is human_readable_id: what contexts and citations show.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entity:
    """An entity."""

    number: int
    id: str
    title: str
    type: str
    description: str
    degree: int


@dataclass(frozen=True)
class Relationship:
    """A relationship out of the entities that a question is about.

    Args:
        links: Selected entities that the outside end is related to; None where both ends are selected.
    """

    number: int
    id: str
    source: str
    target: str
    description: str
    weight: float
    rank: int
    links: int | None


@dataclass(frozen=True)
class Claim:
    """A claim about an entity."""

    number: int
    id: str
    subject: str
    object: str
    status: str
    start_date: str
    end_date: str
    description: str


@dataclass(frozen=True)
class Report:
    """A community report; its number is the number of its community."""

    number: int
    id: str
    title: str
    content: str
    level: int
    rank: float


@dataclass(frozen=True)
class TextUnit:
    """A text unit and where it stands.

    Args:
        start: First character in the text of its document.
        end: Character after the last one.
    """

    number: int
    id: str
    text: str
    document_id: str
    start: int
    end: int
