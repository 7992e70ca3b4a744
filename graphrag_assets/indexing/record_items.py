"""Records out of structured values: JSON of any shape, the rows of a table, the fields of a listing.

The schema asks for ``{"entities": [...], "relationships": [...]}``. What comes has other keys, keys in the language of the
text, an object around it, one object a record, arrays instead of objects, or names as keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphrag_assets.indexing.tuples import Record, clean_field, read_graph_records
from graphrag_assets.text.record_words import key, kind, role

#: Deepest nesting that is looked into.
_DEEPEST = 12
_FIELDS = {"entity": (2, 4), "relationship": (3, 5)}
#: Keys of a name, those first that name nothing else.
_LAST_AS_NAME = ("label", "id", "title")


def records_in(value: Any, hint: str | None = None, depth: int = 0) -> Iterator[Record]:
    """Entity and relationship records of a value.

    Args:
        value: What was read: mappings, lists, text.
        hint: Kind that a key or a heading above names.
        depth: How deep the value lies.
    """
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        if "<|>" in value:
            yield from read_graph_records(value).records
    elif isinstance(value, list):
        if (found := _positional(value, hint if depth else None)) is not None:
            yield found
            return
        for item in value:
            yield from records_in(item, hint, depth + 1)
    elif isinstance(value, Mapping):
        if (found := record_of(value, hint)) is not None:
            yield found
            return
        for name, item in value.items():
            inner = kind(str(name)) or hint
            if inner == "entity" and isinstance(item, Mapping) and kind(str(name)) is role(str(name)) is None:
                item = {"name": name, **item} if "name" not in _parts(item) else item
            yield from records_in(item, inner, depth + 1)


def record_of(item: Mapping[str, Any], hint: str | None = None) -> Record | None:
    """The record that a mapping is, by the meaning of its keys; None where it is none.

    Args:
        item: Values by key.
        hint: Kind that is expected; an entity without a type is one only where one is expected.
    """
    parts = _parts(item)
    if "source" in parts and "target" in parts and hint != "entity":
        said = parts.get("description") or parts.get("type") or parts.get("name") or ""
        return Record("relationship", (parts["source"], parts["target"], said, parts.get("weight", "")))
    if "name" in parts and hint != "relationship" and ("type" in parts or ("description" in parts and hint)):
        return Record("entity", (parts["name"], parts.get("type", ""), parts.get("description", "")))
    return None


def _parts(item: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a mapping by the part of a record that their keys name."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, value in item.items():
        part = role(str(name))
        text = _text(value)
        if part and text:
            found.setdefault(part, []).append((key(str(name)), text))
    names = sorted(found.get("name", ()), key=lambda named: named[0] in _LAST_AS_NAME)
    if len(names) > 1 and "type" not in found and names[-1][0] == "label":
        found["type"] = [names.pop()]
    if names:
        found["name"] = names
    types = found.get("type", ())
    if len(types) > 1:  # {"type": "entity", "entity_type": "person"}
        found["type"] = [named for named in types if kind(named[1]) is None] or [*types]
    described = found.get("description", ())
    if len(described) > 1:
        found["description"] = sorted(described, key=lambda named: "desc" not in named[0])
    return {part: texts[0][1] for part, texts in found.items()}


def _positional(values: Sequence[Any], hint: str | None) -> Record | None:
    """A record as a list of its fields, with its kind first or told from above."""
    if not 2 <= len(values) <= 6 or not all(isinstance(v, str | int | float) or v is None for v in values):
        return None
    texts = [_text(value) for value in values]
    if any("<|>" in text for text in texts):
        return None
    named = kind(texts[0]) if isinstance(values[0], str) else None
    if named in _FIELDS:
        hint, texts = named, texts[1:]
    if hint not in _FIELDS or not all(texts[:2]):
        return None
    least, most = _FIELDS[hint]
    return Record(hint, tuple(texts)) if least <= len(texts) <= most else None


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool | Mapping):
        return ""
    if isinstance(value, list):
        return ", ".join(part for part in map(_text, value) if part)
    return clean_field(str(value))


def unique(records: Iterable[Record]) -> list[Record]:
    """Records in their order, each once."""
    return list(dict.fromkeys(records))
