"""The rows that text units gave, and taking over those of text units whose extraction would be made from the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets.assets.fingerprints import code_version
from graphrag_assets.ids import digest
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import CONTRACTS, BuildArea
from graphrag_assets.storage.undone import Undone

OUTPUTS = ("extracted_entities", "extracted_relationships", "extracted_claims", "extraction_status")
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class UnitExtraction:
    """Rows that one text unit gave."""

    entities: Rows
    relationships: Rows
    claims: Rows
    status: dict[str, Any]


def to_tables(units: Sequence[UnitExtraction]) -> dict[str, pa.Table]:
    """The four tables of a batch, in the order of its text units."""
    rows: dict[str, Rows] = {
        "extracted_entities": [row for unit in units for row in unit.entities],
        "extracted_relationships": [row for unit in units for row in unit.relationships],
        "extracted_claims": [row for unit in units for row in unit.claims],
        "extraction_status": [unit.status for unit in units],
    }
    return {name: CONTRACTS[name].from_rows(rows[name]) for name in OUTPUTS}


def input_hashes(units: pa.Table, workspace: Workspace, languages: Mapping[str, str] | None = None) -> dict[str, str]:
    """Hash of all that the extraction of each text unit is made from, its id left out: equal texts give equal rows.

    Args:
        units: Columns id, text and document_id.
        workspace: Settings and prompts.
        languages: Language by document, where it decides how a text is read.
    """
    version = code_version(workspace, "extraction")
    rows = zip(*(units[name].to_pylist() for name in ("id", "text", "document_id")), strict=True)
    return {unit: digest(version, text, (languages or {}).get(document, "")) for unit, text, document in rows}


def earlier_extractions(area: BuildArea, wanted: Collection[str]) -> dict[str, UnitExtraction]:
    """What the build area holds of text units, whatever batch they were in and whatever their document was called.

    Only what came of a text unit as a whole is taken over: anything else is tried again.

    Args:
        area: The build area.
        wanted: Input hashes.

    Returns:
        Extractions by input hash, with the ids that the text units had.
    """
    found: dict[str, UnitExtraction] = {}
    for batch in area.partitions("extraction_status"):
        missing = pa.array(sorted(set(wanted) - found.keys()), pa.string())
        if not len(missing):
            break
        if len({area.fingerprint(name, batch) for name in OUTPUTS}) > 1:
            continue  # a run died while it wrote them: they are not of one piece
        try:
            status = area.read("extraction_status", batch)
            chosen = pc.and_(
                pc.is_in(status["status"], pa.array(["ok", "empty"])), pc.is_in(status["input_hash"], missing)
            )
            by_unit = {row["text_unit_id"]: row for row in status.filter(chosen).to_pylist()}
            rows = {name: _rows_of(area, name, batch, by_unit) if by_unit else {} for name in OUTPUTS[:3]}
        except KeyError:  # of an earlier release, without hashes
            continue
        for unit, row in by_unit.items():
            entities, relationships, claims = (part.get(unit, []) for part in rows.values())
            found[row["input_hash"]] = UnitExtraction(entities, relationships, claims, row)
    return found


def _rows_of(area: BuildArea, name: str, batch: str, units: Collection[str]) -> dict[str, Rows]:
    """Rows of some text units in a batch, each in its order."""
    table = area.read(name, batch)
    rows: dict[str, Rows] = defaultdict(list)
    for row in table.filter(pc.is_in(table["text_unit_id"], pa.array(list(units), pa.string()))).to_pylist():
        rows[row["text_unit_id"]].append(row)
    return rows


def of_unit(extraction: UnitExtraction, unit: str, input_hash: str) -> UnitExtraction:
    """An extraction as that of a text unit: one of the same text may have had another id.

    One that lacks something for a reason that may pass gets no hash, so that it is never taken over.
    """

    def named(rows: Rows) -> Rows:
        return [row | {"text_unit_id": unit} for row in rows]

    (status,) = named([extraction.status])
    return UnitExtraction(
        named(extraction.entities),
        named(extraction.relationships),
        named(extraction.claims),
        status | {"input_hash": "" if status.get("passing") else input_hash},
    )


def undone_units(extractions: Iterable[UnitExtraction], hashes: Iterable[str]) -> list[Undone]:
    """The text units of which something is missing.

    Args:
        extractions: Those of a batch.
        hashes: Their input hashes, in the same order.
    """
    rows = [(each.status, made_from) for each, made_from in zip(extractions, hashes, strict=True)]
    return [
        Undone(row["text_unit_id"], made_from, row["status"], row["reason"], bool(row.get("passing")))
        for row, made_from in rows
        if row.get("passing") or row["status"] not in ("ok", "empty")
    ]
