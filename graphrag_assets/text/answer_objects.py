"""The object that an answer should be, found by the meaning of its keys and wherever it stands.

Where the object with the keys that were asked for is not there, one with other keys for the same is taken: in another
case, in camel case, in the language of the text; inside of other objects, and in several parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphrag_assets.text.json_answers import CutError, is_json, json_values, parse_json_object
from graphrag_assets.text.record_words import key

#: Deepest nesting that is looked into.
_DEEPEST = 8

#: Other words for a key, as :func:`~graphrag_assets.text.record_words.key` writes them.
Words = Mapping[str, Sequence[str]]


def find_object(text: str, words: Words, *, list_key: str | None = None, enough: int = 1) -> dict[str, Any]:
    """Read the object of an answer.

    Args:
        text: Answer of a model.
        words: The keys that are asked for, each with other words for it.
        list_key: Where the answer may be a bare list, the key under which it is returned.
        enough: Keys that an object must have to be the one.

    Returns:
        The object with the keys that are asked for; what has other keys is kept under them.

    Raises:
        CutError: The answer was cut.
        ValueError: There is no such object.
    """
    try:
        found = parse_json_object(text, list(words), list_key=list_key)
        if words.keys() <= found.keys() or (len(words.keys() & found.keys()) >= enough and is_json(text)):
            return found
        missing: ValueError | None = None
    except CutError:
        raise
    except ValueError as error:
        found, missing = {}, error
    try:
        values = [list(_objects(value, words)) for value in json_values(text)]
    except CutError:
        if missing is not None:
            raise
        return found
    best = max((o for objects in values for o in objects), key=lambda o: len(words.keys() & o.keys()), default={})
    for objects in values:  # an object that was written in parts
        for other in objects[:1]:
            best = {**{k: v for k, v in other.items() if k in words}, **best}
    if len(words.keys() & best.keys()) > len(words.keys() & found.keys()):
        return best
    if missing is not None:
        raise missing
    return found


def with_keys(item: Mapping[str, Any], words: Words) -> dict[str, Any]:
    """An object with the keys that are asked for in place of other words for them; a key that is there stays."""
    named = {key(other): name for name, others in words.items() for other in (name, *others)}
    found: dict[str, Any] = {}
    for own, value in item.items():
        name = own if own in words else named.get(key(str(own)), own)
        if name not in found or (own in words and found[name] in (None, "")):
            found[name] = value
    return found


def _objects(value: Any, words: Words, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The objects in a value that have any of the keys, from the outside to the inside."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        named = with_keys(value, words)
        if words.keys() & named.keys():
            yield named
        for item in value.values():
            yield from _objects(item, words, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item, words, depth + 1)
