"""Ids and hashes derived from content, so that equal input gives equal ids on every machine and in every order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

#: Hexadecimal digits of an id: 128 bits, where a chance collision needs some 10^19 rows.
ID_DIGITS = 32


def digest(*parts: str) -> str:
    """Hash of a sequence of strings; unlike that of their concatenation, it tells ("ab", "c") from ("a", "bc").

    Args:
        parts: Any number of strings.

    Returns:
        32 hexadecimal digits.
    """
    h = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()[:ID_DIGITS]


def digest_json(value: object) -> str:
    """Hash of a JSON-like value, whatever the order of its keys."""
    return digest(json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str))


def document_id(path: str) -> str:
    """Id of the document at a logical path."""
    return digest("document", path)


def text_unit_id(document: str, text: str, occurrence: int) -> str:
    """Id of a text unit: an edit elsewhere in the document leaves it alone.

    Args:
        document: Document id.
        text: Text of the unit.
        occurrence: 0 for the first unit of this document with this text, 1 for the second, and so on.
    """
    return digest("text_unit", document, text, str(occurrence))


def entity_id(title: str) -> str:
    """Id of the entity with a canonical title."""
    return digest("entity", title)


def relationship_id(source: str, target: str) -> str:
    """Id of the relationship between two titles, in either direction."""
    return digest("relationship", *sorted((source, target)))


def covariate_id(text_unit: str, *fields: str) -> str:
    """Id of a claim: its text unit and all of its fields."""
    return digest("covariate", text_unit, *fields)


def community_id(level: int, entity_ids: Iterable[str]) -> str:
    """Id of a community from its level and members."""
    return digest("community", str(level), *sorted(entity_ids))


def report_id(community: str, input_hash: str) -> str:
    """Id of a report: the community and the content it was written from."""
    return digest("report", community, input_hash)
