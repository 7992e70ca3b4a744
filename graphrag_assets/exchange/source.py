"""The tables of an index that Microsoft GraphRAG wrote: where they are, which version they are of, their rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from graphrag_assets.exchange.findings import Findings
from graphrag_assets.exchange.values import Rows

#: Tables of an index; the first ones must be there.
REQUIRED = ("text_units", "entities", "relationships")
OPTIONAL = ("documents", "communities", "community_reports", "covariates")

#: What our own exports hold beside the tables of the reference.
OWN = ("entity_aliases", "rejected_inputs")

#: Before version 2 the files were named so.
LEGACY_PREFIX = "create_final_"

#: File in which an export of ours says what it is.
RECORD = "graphrag-assets.json"


class ExchangeError(Exception):
    """A source or target cannot be used; the message says which, why, and how to mend it."""


@dataclass
class Source:
    """An index of Microsoft GraphRAG.

    Args:
        folder: Folder of the tables.
        version: "3", "2", "1" or "0.3": which schema they have.
        tables: Rows by the names of version 3.
        settings: Its settings.yaml; empty where there is none.
        record: What an export of ours says of itself; empty for any other source.
    """

    folder: Path
    version: str
    tables: dict[str, Rows]
    settings: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)


def open_source(folder: Path, findings: Findings) -> Source:
    """Read the tables of an index.

    Args:
        folder: Folder of the tables, or the root that holds settings.yaml and output/.
        findings: Takes what is missing or cannot be read.

    Raises:
        ExchangeError: There is no index, or one of a version that is not read; the message names what was found.
    """
    tables_folder, legacy = _locate(folder)
    settings = _settings([folder, tables_folder, tables_folder.parent])
    record: dict[str, Any] = {}
    for place in (tables_folder, tables_folder.parent):
        if (place / RECORD).is_file():
            record = _record(place / RECORD)
            break
    names = (*REQUIRED, *OPTIONAL, *(("nodes",) if legacy else OWN))
    tables: dict[str, Rows] = {}
    for name in names:
        file = tables_folder / f"{LEGACY_PREFIX if legacy else ''}{name}.parquet"
        rows = _read(file, name, findings)
        if rows is not None:
            tables[name] = rows
    if legacy and "nodes" not in tables:
        raise ExchangeError(
            f"{tables_folder} holds tables of a version before 2, but no {LEGACY_PREFIX}nodes.parquet, which says what "
            "belongs to which community: open the index with graphrag 2 once (its notebook index_migration_to_v2 "
            "converts it), then import it"
        )
    return Source(tables_folder, _version(tables, legacy), tables, settings, record)


def _record(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ExchangeError(f"{file} is damaged: export the snapshot again, or remove the file")
    return found


def _locate(folder: Path) -> tuple[Path, bool]:
    """The folder that holds the tables, and whether they have the names of a version before 2."""
    if not folder.is_dir():
        raise ExchangeError(f"{folder} is not a folder")
    places = [folder, folder / "output", *sorted(folder.glob("output/*/artifacts"), reverse=True)]
    for legacy in (False, True):
        prefix = LEGACY_PREFIX if legacy else ""
        for place in places:
            missing = [name for name in REQUIRED if not (place / f"{prefix}{name}.parquet").is_file()]
            if not missing:
                return place, legacy
            if len(missing) < len(REQUIRED):
                named = ", ".join(f"{prefix}{name}.parquet" for name in missing)
                raise ExchangeError(f"{place} holds a part of an index only: {named} is missing")
    there = sorted(path.name for path in folder.iterdir())
    if any((place / f"{name}.csv").is_file() for place in places for name in REQUIRED):
        raise ExchangeError(
            f"{folder} holds tables as CSV, in which findings and lists do not survive: set table_provider.type: parquet "
            "in its settings and index again, then import it"
        )
    shown = ", ".join(there[:8]) + (f" and {len(there) - 8} more" if len(there) > 8 else "") or "nothing"
    raise ExchangeError(
        f"{folder} holds no index of Microsoft GraphRAG: {', '.join(f'{n}.parquet' for n in REQUIRED)} are expected "
        f"there or in its folder output; it holds {shown}"
    )


def _read(file: Path, name: str, findings: Findings) -> Rows | None:
    if not file.is_file():
        if name in OPTIONAL and name != "covariates":  # claims are off by default
            findings.add("missing_table", name)
        return None
    try:
        rows: Rows = pq.read_table(file).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        told = " ".join(str(error).split())
        if name in REQUIRED:
            raise ExchangeError(f"{file} cannot be read as Parquet: {told}") from error
        findings.add("missing_table", name, "", told)
        return None
    return rows


def _version(tables: dict[str, Rows], legacy: bool) -> str:
    if legacy:
        return "0.3" if tables["entities"] and "name" in tables["entities"][0] else "1"
    first = next(iter(tables["text_units"]), {})
    return "2" if "document_ids" in first and "document_id" not in first else "3"


def _settings(places: list[Path]) -> dict[str, Any]:
    """The first settings file that can be read; only what names models, encodings and places is used."""
    for place in places:
        for name in ("settings.yaml", "settings.yml", "settings.json"):
            try:
                found = yaml.safe_load((place / name).read_text(encoding="utf-8"))
            except (OSError, yaml.YAMLError, UnicodeDecodeError):
                continue
            if isinstance(found, dict):
                return found
    return {}


def settings_value(settings: dict[str, Any], *path: str) -> Any:
    """A value of nested settings; None where there is none."""
    value: Any = settings
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def encoding_of(source: Source) -> str:
    """Token encoding that the text units were counted in: as set, else the default of the version."""
    for path in (("chunking", "encoding_model"), ("chunks", "encoding_model"), ("encoding_model",)):
        if isinstance(found := settings_value(source.settings, *path), str) and found:
            return found
    recorded = settings_value(source.record, "info", "encoding_model")
    if isinstance(recorded, str):
        return recorded
    return "o200k_base" if source.version == "3" else "cl100k_base"
