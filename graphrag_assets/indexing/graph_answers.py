"""Entities and relationships out of one answer, be it tuples or JSON."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from graphrag_assets.indexing.listings import read_listing
from graphrag_assets.indexing.record_items import records_in
from graphrag_assets.indexing.tuples import DELIMITER, LABELLED, Record, clean_field, read_graph_records, read_weight
from graphrag_assets.text.json_answers import CutError, is_json, json_values, parse_json_object
from graphrag_assets.text.names import canonical_title, clean_name, is_named_in
from graphrag_assets.text.reasoning import strip_reasoning
from graphrag_assets.text.record_words import role
from graphrag_assets.text.refusals import RefusalError, is_refusal, is_short, says_nothing_found

#: Strength of a relationship that states none.
DEFAULT_WEIGHT = 1.0
#: A longer name is a sentence.
MAX_NAME = 300
MAX_TYPE = 60
#: Longest description that only says that there is no relationship.
MAX_NEGATION = 200

#: JSON schema of an extraction answer, for models that support structured output.
GRAPH_SCHEMA: dict[str, Any] = {
    "title": "graph",
    "type": "object",
    "properties": {
        "entities": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "type": {"type": "string"},
                    "description": {"type": "string"},
                },
                "required": ["name", "type", "description"],
                "additionalProperties": False,
            },
        },
        "relationships": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "source": {"type": "string"},
                    "target": {"type": "string"},
                    "description": {"type": "string"},
                    "weight": {"type": "number"},
                },
                "required": ["source", "target", "description", "weight"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["entities", "relationships"],
    "additionalProperties": False,
}

_KEYS = ("entities", "relationships")
_NAME = ("name", "entity_name", "title", "entity", "id")
_TYPE = ("type", "entity_type", "label", "category")
_DESCRIPTION = (
    "description",
    "entity_description",
    "relationship_description",
    "relationship",
    "explanation",
    "summary",
)
_SOURCE = ("source", "source_entity", "source_name", "from", "subject", "head")
_TARGET = ("target", "target_entity", "target_name", "to", "object", "tail")
_WEIGHT = ("weight", "relationship_strength", "strength", "score", "relationship_weight")

# Names of the format description and of programs that models write instead of records: <entity_name>, {source_entity}
_PLACEHOLDER = re.compile(
    r"\s*(?:\{[^{}]*\}|<[^<>]*>|\[[\w ]*entity[\w ]*\]|(?:source|target) entity|entity (?:name|type))\s*|"
    r".*(?:entity_(?:name|type|description)|(?:source|target)_entity).*",
    re.IGNORECASE | re.DOTALL,
)
# A strength that slipped into the description: ...the party>8 or ..."7
_GLUED_WEIGHT = re.compile(r"(?P<text>.*\S)\s*(?:\"?\s*[|>]+|\"|”)\s*(?P<weight>\d{1,3}(?:\.\d+)?)\"?", re.DOTALL)
#: Names and types that are remembered cleaned: the same ones stand in many records.
_REMEMBERED = 4096
_clean_name = lru_cache(maxsize=_REMEMBERED)(clean_name)
_title = lru_cache(maxsize=_REMEMBERED)(canonical_title)
#: An answer in exactly the form that is asked for.
_EXACT = re.compile(
    r'\s*+(?:\("(?:entity|relationship)"(?:<\|>[^<>\n]*+)++(?<=\))\s*+(?:##\s*+)?)*+<\|COMPLETE\|>\s*+', re.DOTALL
)
#: Titles that may stand for any name: A, B, E1. Two letters are a name, as the US are in a text on the United States.
_ANY_NAME = re.compile(r"[A-Z]\d?")
#: Small models answer for each pair of entities, related or not.
_NEGATION = re.compile(
    r"(?:there (?:is|are|was|were) |the text (?:states|mentions|describes|gives|shows) )?no "
    r"(?:(?:direct|explicit|clear|apparent|known|stated|specific|mentioned|evident) )*"
    r"(?:relation(?:ship)?|connection|link|interaction|association)s?"
    r"(?: (?:between|of|with|is|are|was|were|can|could|mentioned|stated|found|described|given|exists?|in|from)\b[^.]*)?\.?|"
    r"[^.]{0,80}\b(?:are|is) not (?:directly |explicitly )?(?:related|connected|linked)(?: to each other)?"
    r"(?: (?:in|by|within|to) [^.]{0,60})?\.?|"
    r".{0,30}(?:没有|无|未提及)(?:直接|明确)?(?:的)?(?:关系|联系|关联).{0,20}",
    re.IGNORECASE,
)
_EXAMPLE_NAME = re.compile(r'"(?:name|source|target)"\s*:\s*"([^"]+)"')


@dataclass(frozen=True)
class EntityMention:
    """One entity record."""

    title: str
    name: str
    type: str
    description: str


@dataclass(frozen=True)
class RelationshipMention:
    """One relationship record; the names are those of its two titles, as written."""

    source: str
    target: str
    description: str
    weight: float
    names: tuple[str, str]


@dataclass
class GraphAnswer:
    """What one answer holds.

    Args:
        entities: Entity records in their order.
        relationships: Relationship records in their order.
        ended: Whether the answer says that it is complete (end mark, closed JSON).
        cut: Whether it breaks off inside a record (which is left out).
        dropped: What could not be used, counted by reason.
        mended: Whether its form is not the one that was asked for.
    """

    entities: list[EntityMention] = field(default_factory=list)
    relationships: list[RelationshipMention] = field(default_factory=list)
    ended: bool = False
    cut: bool = False
    dropped: Counter[str] = field(default_factory=Counter)
    mended: bool = field(default=False, compare=False)

    def __bool__(self) -> bool:
        """Whether it holds any record."""
        return bool(self.entities or self.relationships)

    @property
    def unended(self) -> bool:
        """Whether it holds records and does not say that they are all."""
        return bool(self) and not self.ended


def parse_tuples(answer: str) -> GraphAnswer:
    """Read an answer in the tuple format; never fails, what is no record is left out.

    Args:
        answer: Raw answer of a model.
    """
    read = read_graph_records(answer)
    found = GraphAnswer(ended=read.ended, cut=read.cut)
    for record in read.records[: -1 if read.cut and not read.records[-1].whole else None]:
        if record.kind == "entity":
            _add_entity(found, *_entity_fields(record))
        else:
            _add_relationship(found, *_relationship_fields(record))
    return found


def parse_json(answer: str, *, partial: bool = False) -> GraphAnswer:
    """Read an answer in JSON.

    Args:
        answer: Raw answer of a model.
        partial: Take the complete records of an answer that was cut.

    Raises:
        ValueError: The answer holds no object with entities or relationships, or it was cut.
    """
    try:
        found = _from_schema(parse_json_object(answer, _KEYS, partial=partial))
    except CutError:
        raise
    except ValueError:
        found = _from_values(answer, partial)
        if not found:
            raise
        return found
    if found.dropped or not (found.entities and found.relationships) or not is_json(answer):
        other = _from_values(answer, partial)
        found = other if _size(other) > _size(found) else found
    if found.dropped and not found:
        raise ValueError(
            "no item of the answer can be read; expected entities and relationships as the schema has them"
        )
    return found


def _from_schema(value: Mapping[str, Any]) -> GraphAnswer:
    """The records of an object with the keys that are asked for."""
    found = GraphAnswer(ended=True)
    found.dropped.update("no list of records" for key in _KEYS if not isinstance(value.get(key) or [], list))
    for item in _items(value.get("entities")):
        name, type_, description = (_text(item, keys) for keys in (_NAME, _TYPE, _DESCRIPTION))
        _add_entity(found, name, type_, description)
    for item in _items(value.get("relationships")):
        weight = read_weight(_text(item, _WEIGHT))
        _add_relationship(found, _text(item, _SOURCE), _text(item, _TARGET), _text(item, _DESCRIPTION), weight)
    return found


def _from_values(answer: str, partial: bool) -> GraphAnswer:
    """The records of all JSON in an answer, whatever its shape; of two whole graphs the later one."""
    values = [list(records_in(value)) for value in json_values(answer, partial=partial)]
    whole = [records for records in values if len({record.kind for record in records}) > 1]
    return _of_records(whole[-1] if len(whole) > 1 else [r for records in values for r in records])


def _of_records(records: Iterable[Record]) -> GraphAnswer:
    found = GraphAnswer(ended=True)
    for record in dict.fromkeys(records):
        if record.kind == "entity":
            _add_entity(found, *_entity_fields(record))
        else:
            _add_relationship(found, *_relationship_fields(record))
    return found


def _size(answer: GraphAnswer) -> int:
    return len(answer.entities) + len(answer.relationships)


def read_answer(answer: str) -> GraphAnswer:
    """Read an answer in either format, and judge whether it is one.

    An honest "nothing found" is an answer: an end mark without records, empty lists, or words that say so.

    Raises:
        RefusalError: The model declined.
        ValueError: The answer is empty, holds no record and does not say that there is none, or was cut.
    """
    found = parse_tuples(answer)
    if not (found.entities and found.relationships):
        found = _in_another_form(answer, found)
    if found.cut:
        raise ValueError("the answer breaks off inside a record; expected all records, then the end mark")
    if found or (found.ended and is_short(answer)):
        found.mended = found.mended or (bool(found) and not _EXACT.fullmatch(answer))
        return found
    if not answer.strip():
        raise ValueError("the answer is empty; expected records, or the end mark alone when there are none")
    if is_refusal(answer):
        raise RefusalError("the model declined to answer")
    if says_nothing_found(answer):
        return found
    raise ValueError("the answer holds no record; expected records, or the end mark alone when there are none")


def _in_another_form(answer: str, found: GraphAnswer) -> GraphAnswer:
    """What an answer holds as JSON or as a listing, where that is more than its tuples.

    Raises:
        CutError: It is JSON, and was cut.
    """
    try:
        other = parse_json(answer)
        other.mended = not is_json(answer)
    except CutError:
        if not found and '"entities"' in answer:
            raise
        other = GraphAnswer()
    except ValueError:
        other = GraphAnswer()
    if not found and not other and not other.ended:
        other = _of_records(read_listing(strip_reasoning(answer)))
        other.ended, other.mended = bool(other), True
    return other if _size(other) > _size(found) or (other.ended and not found) else found


def salvage(answer: str) -> GraphAnswer | None:
    """The complete records of an answer that :func:`read_answer` refuses; None when there are none."""
    found = parse_tuples(answer)
    if not found:
        try:
            found = parse_json(answer, partial=True)
        except ValueError:
            return None
    return found or None


def without_echoes(answer: GraphAnswer, text: str, examples: frozenset[str]) -> GraphAnswer:
    """Leave out what the model copied instead of read.

    That is, entities and relationships of the examples in the prompt that the text does not name, records that stand in
    the text itself (a document may hold lines that look like records), and placeholders: names of a letter that the
    text does not hold.

    Args:
        answer: Answer of a model.
        text: Text unit that was asked about.
        examples: Titles of the examples in the prompt.
    """
    strange = {
        title
        for title in _titles(answer)
        if (title in examples or _ANY_NAME.fullmatch(title)) and not is_named_in(title, text)
    }
    planted = parse_tuples(text) if re.search(DELIMITER, text) else GraphAnswer()
    if not strange and not planted:
        return answer
    entities = [e for e in answer.entities if e.title not in strange and e not in planted.entities]
    relationships = [
        r
        for r in answer.relationships
        if r.source not in strange and r.target not in strange and r not in planted.relationships
    ]
    dropped = answer.dropped.copy()
    dropped["echo"] += len(answer.entities) + len(answer.relationships) - len(entities) - len(relationships)
    return GraphAnswer(entities, relationships, answer.ended, answer.cut, +dropped)


@lru_cache(maxsize=8)
def example_titles(prompt: str) -> frozenset[str]:
    """Titles of the entities in the worked examples of a prompt, tuples or JSON."""
    names = {canonical_title(name) for name in _EXAMPLE_NAME.findall(prompt)}
    return frozenset(names | _titles(parse_tuples(prompt)))


def _titles(answer: GraphAnswer) -> set[str]:
    ends = (end for r in answer.relationships for end in (r.source, r.target))
    return {e.title for e in answer.entities}.union(ends)


def _entity_fields(record: Record) -> tuple[str, str, str]:
    name, *rest = _without_labels(record.fields, ("name", "type", "description"))
    rest = rest or [""]
    if len(rest) == 1 and (len(rest[0]) > MAX_TYPE or len(rest[0].split()) > 3):  # the type was left out
        rest = ["", *rest]
    return name, rest[0], " ".join(part for part in rest[1:] if part)


def _without_labels(fields: Sequence[str], parts: Sequence[str]) -> tuple[str, ...]:
    """Fields without the names of the format that a model wrote before them: entity_name: SCROOGE."""
    found = [LABELLED.match(field) for field in fields]
    if not found[0] or role(found[0]["label"]) != parts[0]:
        return tuple(fields)
    labelled = zip(fields, found, (*parts, *[""] * len(fields)), strict=False)
    return tuple(field[m.end() :] if m and role(m["label"]) == part else field for field, m, part in labelled)


def _relationship_fields(record: Record) -> tuple[str, str, str, float | None]:
    fields = _without_labels(record.fields, ("source", "target", "description"))
    source, target, *rest = (*fields, "")[: max(2, len(fields))]
    while len(rest) > 1 and not rest[-1]:  # a stray delimiter before the closing bracket
        rest.pop()
    weight = read_weight(rest[-1]) if len(rest) > 1 else None
    if weight is not None:
        rest.pop()
    elif rest and (glued := _GLUED_WEIGHT.fullmatch(rest[-1])):
        weight, rest[-1] = float(glued["weight"]), clean_field(glued["text"])
    elif len(rest) > 1 and re.fullmatch(r"[-+]?(?:\d[\d.,e+-]*|nan|inf(?:inity)?)", rest[-1], re.IGNORECASE):
        rest.pop()  # a number, but no strength
    return source, target, " ".join(part for part in rest if part), weight


def _add_entity(found: GraphAnswer, name: str, type_: str, description: str) -> None:
    name = _clean_name(name)
    if not _is_name(name) or not (type_ or description):
        found.dropped["entity without a name" if not _is_name(name) else "entity without type and description"] += 1
        return
    type_ = _title(type_).strip("<>[](){} ")
    if len(type_) > MAX_TYPE:
        type_, description = "", description or clean_field(type_)
    found.entities.append(EntityMention(_title(name), name, type_, description))


def _add_relationship(found: GraphAnswer, source: str, target: str, description: str, weight: float | None) -> None:
    source, target = _clean_name(source), _clean_name(target)
    if not _is_name(source) or not _is_name(target):
        found.dropped["relationship without two names"] += 1
        return
    if len(description) <= MAX_NEGATION and _NEGATION.fullmatch(description):
        found.dropped["relationship that says that there is none"] += 1
        return
    ends = _title(source), _title(target)
    found.relationships.append(
        RelationshipMention(*ends, description, DEFAULT_WEIGHT if weight is None else weight, (source, target))
    )


@lru_cache(maxsize=_REMEMBERED)
def _is_name(name: str) -> bool:
    return (
        any(c.isalnum() or unicodedata.category(c) == "So" for c in name)
        and len(name) <= MAX_NAME
        and not _PLACEHOLDER.fullmatch(name)
    )


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(item: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    value = next((item[key] for key in keys if item.get(key) not in (None, "")), "")
    if isinstance(value, list):
        value = ", ".join(str(part) for part in value)
    return clean_field(str(value)) if not isinstance(value, dict) else ""
