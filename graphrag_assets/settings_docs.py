"""Writes docs/settings.md from the typed settings and docs/tables.md from the table contracts.

python -m graphrag_assets.settings_docs docs
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pyarrow as pa
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from graphrag_assets.settings import Section, Settings
from graphrag_assets.settings_checks import section_of
from graphrag_assets.storage.call_tables import RECORDS
from graphrag_assets.storage.contract import Table
from graphrag_assets.storage.tables import (
    BATCH_DOCUMENTS,
    BATCH_TEXT_UNITS,
    EXTRACTED_CLAIMS,
    EXTRACTED_ENTITIES,
    EXTRACTED_RELATIONSHIPS,
    EXTRACTION_STATUS,
    INPUT_FILES,
    INPUT_INVENTORY,
    PUBLISHED,
    embeddings_table,
)

_SETTINGS_HEAD = """\
# Settings

<!-- Written from the typed settings by: python -m graphrag_assets.settings_docs docs -->

`settings.yaml` (or `settings.yml`, `settings.json`) lies in the root of a workspace. Without it, and for every key
that it leaves out, the defaults below hold: no key and no network are needed. Names are those of Microsoft GraphRAG
version 3 where the thing is the same.

* **Variables.** `$NAME`, `${NAME}` and `${NAME:-default}` in values stand for environment variables; `$$` is a dollar
  sign. A `.env` file beside the settings is read first; variables that are set already win. A variable that is not set
  is an error, except in the entry of a model that no stage uses.
* **Overrides.** `GRAPHRAG__SECTION__KEY=value` sets any key from the environment, such as
  `GRAPHRAG__CHUNKING__SIZE=600` or `GRAPHRAG__EXTRACT_GRAPH__ENTITY_TYPES='[person, boat]'`; the value is YAML.
* **Mistakes** are errors: an unknown key is refused with the nearest known one, a wrong value with what was expected.
* **Files of Microsoft GraphRAG** (versions 2 and 3) are understood. Keys of another name are moved to their place here;
  keys without a counterpart are told one by one, with the reason, in the log and by `graphrag-assets doctor`.
* **Relative paths** start at the root of the workspace.
* **Which model.** A stage that names no model uses `default_completion_model` or `default_embedding_model`; where there
  is only one entry, that one.
"""
_TABLES_HEAD = """\
# Tables

<!-- Written from the table contracts by: python -m graphrag_assets.settings_docs docs -->

Every table is declared once, in `graphrag_assets/storage/tables.py`; what is written is checked against it. The
published tables have the columns of Microsoft GraphRAG version 3, in its order, and then some of our own. Rows are in a
canonical order, so that equal input gives equal files.
"""
_BATCH_TABLES = (
    INPUT_INVENTORY,
    INPUT_FILES,
    BATCH_DOCUMENTS,
    BATCH_TEXT_UNITS,
    EXTRACTED_ENTITIES,
    EXTRACTED_RELATIONSHIPS,
    EXTRACTED_CLAIMS,
    EXTRACTION_STATUS,
)


def settings_markdown() -> str:
    """The reference of all settings as Markdown."""
    top = [(key, info) for key, info in Settings.model_fields.items() if section_of(info.annotation)[0] is None]
    parts = [_SETTINGS_HEAD, "## Top level\n", _keys_table(top)]
    for key, info in Settings.model_fields.items():
        model, is_map = section_of(info.annotation)
        if key == "embedding_models":
            parts += [f"## `{key}.ID`\n", f"{info.description} The keys are those of `completion_models.ID`.\n"]
        elif model is not None:
            parts += _section_parts(f"{key}.ID" if is_map else key, model, str(info.description or ""))
    return _joined(parts)


_RECORDS_HEAD = (
    "How the rows of a snapshot were made: no part of its content, since times and prices differ from run to run. "
    "SQL has them as tables, and `call_log`, with the columns of `calls`, has every call that this host knows of "
    "([what a run costs](cost.md#calls)).\n"
)


def tables_markdown() -> str:
    """The reference of all tables as Markdown."""
    parts = [_TABLES_HEAD, "## Published tables\n"]
    for table in PUBLISHED:
        parts += _table_parts(table)
    parts += ["## Records of a snapshot\n", _RECORDS_HEAD]
    for table in RECORDS:
        parts += _table_parts(table)
    vectors = embeddings_table("text_unit_text, entity_description, community_full_content", 384)
    parts += ["## Vector tables\n", "In LanceDB; the length of the vectors is that of the embedding model.\n"]
    parts += _table_parts(vectors)
    parts += [
        "## Tables of the build\n",
        "What is known of the input and of each document batch, before the graph is made.\n",
    ]
    for table in _BATCH_TABLES:
        parts += _table_parts(table)
    return _joined(parts)


def write_docs(folder: Path) -> list[Path]:
    """Write settings.md and tables.md into a folder."""
    written = []
    for name, text in (("settings.md", settings_markdown()), ("tables.md", tables_markdown())):
        (folder / name).write_text(text, encoding="utf-8")
        written.append(folder / name)
    return written


# --- settings --------------------------------------------------------------------------------------------------------


def _section_parts(path: str, model: type[Section], description: str) -> Iterator[str]:
    """Heading and table of a section, then those of the sections inside it."""
    own = [(key, info) for key, info in model.model_fields.items() if section_of(info.annotation)[0] is None]
    yield f"## `{path}`\n"
    yield f"{description}\n"
    if own:
        yield _keys_table(own)
    for key, info in model.model_fields.items():
        below, is_map = section_of(info.annotation)
        if below is not None:
            yield from _section_parts(
                f"{path}.{key}.ID" if is_map else f"{path}.{key}", below, str(info.description or "")
            )


def _keys_table(fields: Iterable[tuple[str, FieldInfo]]) -> str:
    rows = [(f"`{key}`", _type(info), _default(info), str(info.description or "")) for key, info in fields]
    return _markdown_table(("key", "type", "default", "meaning"), rows)


def _type(info: FieldInfo) -> str:
    """The type in words, with the bounds of numbers."""
    bounds = []
    for rule in info.metadata:
        for name, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤")):
            if (bound := getattr(rule, name, None)) is not None:
                bounds.append(f"{sign} {bound:g}")
    return ", ".join([_type_name(info.annotation), *bounds])


def _type_name(annotation: Any) -> str:
    names = {str: "text", SecretStr: "secret", int: "whole number", float: "number", bool: "true or false"}
    if annotation in names:
        return names[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type_name(argument) for argument in arguments if argument is not type(None))
    if origin is list:
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return "keys and values"
    return "any"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return f"`[{', '.join(map(str, value))}]`"
    if value in ({}, ""):
        return "none"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


# --- tables ----------------------------------------------------------------------------------------------------------


def _table_parts(table: Table) -> Iterator[str]:
    order = ", ".join(
        f"{name.removeprefix('-')} (descending)" if name.startswith("-") else name for name in table.order
    )
    yield f"### {table.name}\n"
    yield f"{table.description} Order: {order}.\n"
    rows = [
        (f"`{c.name}`", _arrow_type(c.type) + (", may be null" if c.nullable else ""), c.description)
        for c in table.columns
    ]
    yield _markdown_table(("column", "type", "meaning"), rows)


def _arrow_type(kind: pa.DataType) -> str:
    if pa.types.is_fixed_size_list(kind):
        return f"vector of {_arrow_type(kind.value_type)}"
    if pa.types.is_list(kind):
        return f"list of {_arrow_type(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "{" + ", ".join(f"{field.name}: {_arrow_type(field.type)}" for field in kind) + "}"
    return {"float": "float32", "double": "float64"}.get(str(kind), str(kind))


# --- Markdown --------------------------------------------------------------------------------------------------------


def _markdown_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)


if __name__ == "__main__":
    write_docs(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
