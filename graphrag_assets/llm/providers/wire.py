"""Forms that requests take on their way: JSON bytes, clean text, structured output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]+")


def clean(text: str) -> str:
    """Text that UTF-8 can carry: half of a surrogate pair becomes the replacement character."""
    return _SURROGATES.sub("\ufffd", text)


def dumps(value: Any, *, canonical: bool = False) -> bytes:
    """JSON bytes of a value.

    Args:
        value: JSON-like value.
        canonical: Sort keys, so that equal values have equal bytes.
    """
    option = orjson.OPT_SORT_KEYS if canonical else 0
    try:
        return orjson.dumps(value, option=option)
    except TypeError:  # lone surrogates, or values that JSON does not know
        return orjson.dumps(_cleaned(value), option=option | orjson.OPT_NON_STR_KEYS, default=str)


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Structured output in OpenAI's form.

    Args:
        schema: JSON schema; its title names it.

    Returns:
        Value of ``response_format``; strict where the schema keeps to what strict mode allows.
    """
    name = _NOT_IN_A_NAME.sub("_", str(schema.get("title") or "answer"))[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(schema), "strict": is_strict(schema)}}


def is_strict(schema: Any) -> bool:
    """Whether every object of a schema requires all of its properties and forbids others, as strict mode asks."""
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
    return all(is_strict(value) for key, value in schema.items() if key not in ("enum", "const", "default", "examples"))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(key) if isinstance(key, str) else key: _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value
