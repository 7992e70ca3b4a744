"""What a model says of a collection of documents, by which prompts are tuned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphrag_assets.text.json_answers import parse_json_object
from graphrag_assets.text.templates import render

#: Longest domain, persona and so on, and longest name of an entity type, in characters.
MAX_FIELD, MAX_TYPE = 1_500, 60

#: Most entity types.
MAX_TYPES = 20

#: How several languages are told instead of one.
_SEVERAL = re.compile(r"^\W*$|[,;/&]|\b(?:and|or|mixed|multiple|several|various|unknown)\b", re.IGNORECASE)

_TEXTS = ("domain", "language", "persona", "reader", "rating")

#: JSON schema of a profile, for models that support structured output.
PROFILE_SCHEMA: dict[str, Any] = {
    "title": "profile",
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in _TEXTS},
        "entity_types": {"type": "array", "items": {"type": "string"}},
    },
    "required": [*_TEXTS, "entity_types"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Profile:
    """A collection of documents.

    Args:
        domain: What it is about.
        language: English name of its language; mixed where there are several.
        persona: Who the model is to be.
        reader: Who reads reports on it.
        rating: What makes a group of entities matter.
        entity_types: Kinds of entities, the most important first.
    """

    domain: str
    language: str
    persona: str
    reader: str
    rating: str
    entity_types: tuple[str, ...]

    @property
    def language_rule(self) -> str:
        """The sentence of a prompt that says in which language to write."""
        if _SEVERAL.search(self.language):
            return "Write in the language of the text."
        return f"Write in {self.language}."


@dataclass(frozen=True)
class Given:
    """What the user says of the collection; None is left to the model."""

    domain: str | None = None
    language: str | None = None
    entity_types: tuple[str, ...] | None = None

    def known(self) -> str:
        """The same for the prompt, as lines; empty where nothing is given."""
        lines = [f"domain: {self.domain}"] if self.domain else []
        lines += [f"language: {self.language}"] if self.language else []
        lines += [f"entity_types: {', '.join(self.entity_types)}"] if self.entity_types else []
        return "\n".join(["", "This is known already, take it as it is:", *lines, ""]) if lines else ""

    def applied(self, profile: Profile) -> Profile:
        """A profile in which what is given stands."""
        told: Mapping[str, Any] = {name: value for name, value in vars(self).items() if value}
        return replace(profile, **told)


def profile_question(template: str, texts: Sequence[str], given: Given) -> str:
    """The question for a profile of a collection."""
    shown = "\n\n".join(f"Passage {number}\n{text}" for number, text in enumerate(texts, start=1))
    return render(template, {"known": given.known(), "input_text": shown})


def read_profile(answer: str) -> Profile:
    """Read a profile.

    Raises:
        ValueError: No JSON object, or a key of it is missing or of no use; the message says which.
    """
    found = parse_json_object(answer, [*_TEXTS, "entity_types"])
    texts = {name: _text(found, name) for name in _TEXTS}
    return Profile(**texts, entity_types=read_types(found.get("entity_types")))


def read_types(value: Any) -> tuple[str, ...]:
    """Entity types out of a list, or out of text with commas.

    Raises:
        ValueError: There is none, or there are too many.
    """
    names = value if isinstance(value, list) else re.split(r"[,;\n]", value) if isinstance(value, str) else []
    cleaned = [re.sub(r"[^\w &/'’().-]+", " ", str(name)) for name in names if isinstance(name, str)]
    types = tuple(dict.fromkeys(name for text in cleaned if (name := " ".join(text.split()).strip(" .-").lower())))
    if not types:
        raise ValueError('entity_types: expected a list of names, such as ["person", "place"]')
    if len(types) > MAX_TYPES:
        raise ValueError(f"entity_types: expected at most {MAX_TYPES} names, found {len(types)}")
    long = [name for name in types if len(name) > MAX_TYPE]
    if long:
        raise ValueError(f"entity_types: expected one or two words for each, found {long[0][:MAX_TYPE]!r}…")
    return types


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text:
        raise ValueError(f"{name}: expected a text, found {value!r}")
    if len(text) > MAX_FIELD:
        raise ValueError(f"{name}: expected at most {MAX_FIELD} characters, found {len(text)}")
    return text
