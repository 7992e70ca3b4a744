"""From a translated settings tree to typed settings, with one readable line for each key at fault."""

from __future__ import annotations

import codecs
import difflib
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from graphrag_assets.settings import Notice, Section, Settings
from graphrag_assets.settings_models import check_models, fill_model_ids, missing_keys, model_uses
from graphrag_assets.settings_source import KeyPath, Unset, dotted

Problem = tuple[KeyPath, str]

_MODEL_SECTIONS = ("completion_models", "embedding_models")
_SECRET = re.compile(r"key|secret|token$|password|authorization|credential|connection_string", re.IGNORECASE)


@dataclass
class Checked:
    """Typed settings, or why there are none.

    Args:
        settings: The settings; None where there are problems.
        problems: Path (in our terms) and message of each key at fault.
        notices: What is worth telling although it is no fault.
    """

    settings: Settings | None = None
    problems: list[Problem] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


def check_settings(tree: dict[str, Any]) -> Checked:
    """Validate a translated tree.

    Variables that are not set are problems, except in an entry of completion_models or embedding_models that no stage
    uses: that entry is left out and told.
    """
    out = Checked()
    unset = dict(_find_unset(tree, ()))
    in_models = {path: name for path, name in unset.items() if path[0] in _MODEL_SECTIONS and len(path) > 2}
    out.problems += [(path, _unset_message(name)) for path, name in unset.items() if path not in in_models]
    clean = _without_unset_and_nulls(tree, Settings)
    fill_model_ids(clean)
    try:
        settings = Settings.model_validate(clean)
    except ValidationError as error:
        out.problems += [_explain(details) for details in error.errors(include_url=False)]
        return out
    used = {(use.section, use.model_id) for use in model_uses(settings)}
    out.problems += [(path, _unset_message(name)) for path, name in in_models.items() if (path[0], path[1]) in used]
    spare = {(path[0], path[1]) for path in in_models} - used
    for section, model_id in sorted(spare):
        names = sorted({name for path, name in in_models.items() if path[:2] == (section, model_id)})
        why = f"no stage uses it, and the environment variable {', '.join(names)} is not set"
        out.notices.append(Notice(f"{section}.{model_id}", "left out", why, harmless=True))
    settings = _leave_out(settings, spare)
    out.problems += [*check_models(settings), *_cross_checks(settings)]
    out.notices += missing_keys(settings)
    if not out.problems:
        out.settings = settings
    return out


def _leave_out(settings: Settings, entries: set[tuple[str, str]]) -> Settings:
    kept = {
        section: {name: entry for name, entry in getattr(settings, section).items() if (section, name) not in entries}
        for section in _MODEL_SECTIONS
    }
    return settings.model_copy(update=kept) if entries else settings


# --- variables that are not set, and nulls ---------------------------------------------------------------------------


def _find_unset(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(node, Unset):
        yield path, node.variable
    elif isinstance(node, dict):
        for key, child in node.items():
            yield from _find_unset(child, (*path, key))
    elif isinstance(node, list):
        for number, child in enumerate(node):
            yield from _find_unset(child, (*path, str(number)))


def _unset_message(variable: str) -> str:
    return (
        f"the environment variable {variable} is not set; set it, put it into the .env file beside the settings, "
        f"or write ${{{variable}:-default}} (and $$ for a literal dollar sign)"
    )


def _without_unset_and_nulls(tree: dict[str, Any], model: type[Section] | None) -> dict[str, Any]:
    """A copy without unset values, and without nulls where a key cannot be null: both then have their defaults."""
    clean: dict[str, Any] = {}
    for key, value in tree.items():
        known = model.model_fields.get(key) if model else None
        below, is_map = section_of(known.annotation) if known else (None, False)
        if isinstance(value, Unset):
            if known and known.is_required():
                clean[key] = ""
        elif value is None and known and not _nullable(known.annotation):
            continue
        elif isinstance(value, dict) and is_map:
            clean[key] = {
                name: _without_unset_and_nulls(e, below) if isinstance(e, dict) else e for name, e in value.items()
            }
        elif isinstance(value, dict):
            clean[key] = _without_unset_and_nulls(value, below)
        elif isinstance(value, list):
            clean[key] = [item for item in value if not isinstance(item, Unset)]
        else:
            clean[key] = value
    return clean


# --- the shape of the typed model ------------------------------------------------------------------------------------


def section_of(annotation: Any) -> tuple[type[Section] | None, bool]:
    """The section that a key holds, and whether it holds a mapping of ids to such sections."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, False
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return section_of(arguments[1])[0], True
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        found = [section_of(argument) for argument in arguments]
        return next((pair for pair in found if pair[0]), (None, False))
    return None, False


def _nullable(annotation: Any) -> bool:
    return (
        annotation is Any
        or annotation is type(None)
        or any(argument is type(None) for argument in get_args(annotation))
    )


def _section_at(path: KeyPath) -> type[Section] | None:
    """The section model at a path; None where the path leads to none."""
    model: type[Section] | None = Settings
    is_map = False
    for key in path:
        if is_map:
            is_map = False
            continue
        if model is None or key not in model.model_fields:
            return None
        model, is_map = section_of(model.model_fields[key].annotation)
    return None if is_map else model


def known_keys(model: type[Section] = Settings, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Paths of all keys that hold a value, with ``*`` for the ids of models."""
    for key, info in model.model_fields.items():
        below, is_map = section_of(info.annotation)
        if below:
            yield from known_keys(below, (*path, key, "*") if is_map else (*path, key))
        else:
            yield (*path, key)


# --- messages --------------------------------------------------------------------------------------------------------


def _explain(details: ErrorDetails) -> Problem:
    path = tuple(str(key) for key in details["loc"])
    kind, context = details["type"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return path, _unknown(path)
    if kind == "missing":
        return path, "is missing"
    if kind == "value_error":
        return path, str(context.get("error", details["msg"]))
    expected = _expected(kind, context)
    message = f"expected {expected}" if expected else details["msg"][:1].lower() + details["msg"][1:]
    return path, message + _found(path, details["input"], kind)


def _expected(kind: str, context: dict[str, Any]) -> str:
    if kind == "literal_error":
        return "one of " + str(context["expected"]).replace("'", "").replace(" or ", ", ")
    for bound, words in (("gt", "above"), ("ge", "of at least"), ("lt", "below"), ("le", "of at most")):
        if bound in context:
            return f"a number {words} {context[bound]}"
    families = {
        ("int_type", "int_parsing", "int_from_float", "int_parsing_size"): "a whole number",
        ("float_type", "float_parsing", "finite_number"): "a number",
        ("bool_type", "bool_parsing"): "true or false",
        ("string_type",): "text",
        ("list_type",): "a list, such as [a, b]",
        ("dict_type", "model_type", "model_attributes_type"): "a section with keys",
    }
    return next((words for kinds, words in families.items() if kind in kinds), "")


def _found(path: KeyPath, value: Any, kind: str) -> str:
    if any(_SECRET.search(key) for key in path):
        return ""
    if isinstance(value, dict | list | tuple):
        return f", found {'a section' if isinstance(value, dict) else 'a list'}"
    shown = "nothing" if value is None else repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}…"
    hint = "; put it in quotes" if kind == "string_type" and isinstance(value, int | float) else ""
    return f", found {shown}{hint}"


def _unknown(path: KeyPath) -> str:
    """The message for an unknown key: the nearest known one, here or elsewhere, else what is known here."""
    section = _section_at(path[:-1])
    here = sorted(section.model_fields) if section else []
    elsewhere = [dotted(known) for known in known_keys() if known[-1] == path[-1]]
    # A misspelling here is likelier than a key in the wrong section, unless it is hardly alike.
    close = difflib.get_close_matches(path[-1], here, n=1, cutoff=0.6 if len(elsewhere) not in (1, 2, 3) else 0.8)
    if close:
        return f"unknown key; did you mean {dotted((*path[:-1], close[0]))}?"
    if 0 < len(elsewhere) <= 3:
        return f"unknown key; did you mean {' or '.join(elsewhere)}?"
    known = f"; known here: {', '.join(here)}" if here else ""
    return f"unknown key{known}"


# --- values that must fit each other ---------------------------------------------------------------------------------


#: The two-letter codes of ISO 639-1.
_LANGUAGES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee "
    "el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is "
    "it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms "
    "mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk "
    "sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi "
    "yo za zh zu "
)


def _cross_checks(settings: Settings) -> Iterator[Problem]:
    if settings.language is not None and settings.language not in _LANGUAGES.split():
        yield ("language",), f"{settings.language!r} is no two-letter code of ISO 639-1, such as en, de or zh"
    source = settings.input_storage
    if source.type == "s3" and not source.base_dir.startswith("s3://"):
        yield ("input_storage", "base_dir"), f"type s3 needs an address s3://bucket/prefix, found {source.base_dir!r}"
    for path, address in (
        (("storage", "base"), settings.storage.base),
        (("input_storage", "base_dir"), source.base_dir),
    ):
        scheme, separator, _ = address.partition("://")
        if separator and scheme not in ("s3", "file"):
            yield path, f"{scheme}:// is not supported; use a folder or s3://bucket/prefix"
        if not address.strip():
            yield path, "is empty; name a folder or s3://bucket/prefix"
    if settings.input.file_pattern is not None:
        try:
            re.compile(settings.input.file_pattern)
        except re.error as error:
            yield ("input", "file_pattern"), f"not a regular expression: {error}"
    if settings.input.encoding is not None:
        try:
            codecs.lookup(settings.input.encoding)
        except (LookupError, ValueError):
            yield (
                ("input", "encoding"),
                f"{settings.input.encoding!r} is not an encoding that Python knows, such as utf-8 or cp1252",
            )
