"""What a row was read from: text units, the passages in them, and their documents."""

# ruff: noqa: S608 (SQL is put together from names, integers and question marks only)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graphrag_assets.query import lookups
from graphrag_assets.query.citations import best_sentence, document_span
from graphrag_assets.query.index import Index, integers, marks
from graphrag_assets.query.row_numbers import numbers_of
from graphrag_assets.trace.finding import Found

Row = dict[str, Any]


@dataclass(frozen=True)
class Sources:
    """What a row was read from.

    Args:
        units: Numbers of its text units, in the order of the documents.
        said: What the row says, by which the sentence behind it is found; empty: the whole text unit is the passage.
        row: The row itself, as people read it.
        asked: Ids and pairs of titles that models were asked about for it.
    """

    units: list[int]
    said: str = ""
    row: Row = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


def sources(index: Index, row: Found) -> Sources:
    """The text units that a row was read from, and what it says."""
    return _READ[row.kind](index, row)


def _document(index: Index, row: Found) -> Sources:
    found = index.rows("select title, path, content_hash, creation_date from documents where id = ?", [row.id])[0]
    units = index.rows("select human_readable_id as n from text_units where document_id = ? order by n", [row.id])
    return Sources([r["n"] for r in units], row=found)


def _text_unit(index: Index, row: Found) -> Sources:
    (found,) = index.take(
        "text_units", "human_readable_id", [row.number], ["position", "n_tokens", "status", "reason"]
    ).to_pylist()
    return Sources([row.number], row=found)


def _entity(index: Index, row: Found) -> Sources:
    columns = ["title", "type", "description", "frequency", "degree", "aliases"]
    (found,) = index.take("entities", "human_readable_id", [row.number], columns).to_pylist()
    units = index.take("text_unit_entities", "entity", [row.number], ["text_unit"])["text_unit"].to_pylist()
    judged = index.rows(
        "select distinct alias, title from entity_aliases where method = 'llm' and (title = $1 or alias = $1)",
        [row.title],
    )
    pairs = [" | ".join(sorted((pair["alias"], pair["title"]))) for pair in judged]
    said = " ".join([found["title"], *found["aliases"], found["description"]])
    return Sources(sorted(set(units)), said, found, [row.id, *pairs])


def _relationship(index: Index, row: Found) -> Sources:
    columns = ["source", "target", "description", "weight"]
    (found,) = index.take("relationships", "human_readable_id", [row.number], columns).to_pylist()
    units = index.take("relationship_text_units", "relationship", [row.number], ["text_unit"])["text_unit"].to_pylist()
    said = f"{found['source']} {found['target']} {found['description']}"
    return Sources(sorted(set(units)), said, found, [row.id])


def _claim(index: Index, row: Found) -> Sources:
    columns = ["subject_id", "object_id", "type", "status", "description", "source_text", "text_unit_id"]
    (found,) = index.take("covariates", "human_readable_id", [row.number], columns).to_pylist()
    units = numbers_of(index, "text_units", [found["text_unit_id"]])
    return Sources(list(units.values()), found["source_text"] or found["description"], found)


def _community(index: Index, row: Found) -> Sources:
    found = index.rows(
        "select title, level, parent, children, size, text_unit_ids from communities where community = ?", [row.number]
    )[0]
    units = numbers_of(index, "text_units", found.pop("text_unit_ids"))
    return Sources(sorted(units.values()), row=found)


def _report(index: Index, row: Found) -> Sources:
    columns = ["title", "summary", "rank", "status", "reason", "extractive", "level", "community", "input_hash"]
    (found,) = index.take("community_reports", "community", [row.number], columns).to_pylist()
    community = index.rows("select id, text_unit_ids from communities where community = ?", [row.number])
    units = numbers_of(index, "text_units", community[0]["text_unit_ids"] if community else [])
    asked = [row.id, *(c["id"] for c in community)]
    return Sources(sorted(units.values()), f"{found['title']} {found['summary']}", found, asked)


_READ = {
    "document": _document,
    "text_unit": _text_unit,
    "entity": _entity,
    "relationship": _relationship,
    "claim": _claim,
    "community": _community,
    "report": _report,
}


def passages(index: Index, units: Sequence[int], said: str) -> list[Row]:
    """The passage of each text unit behind a row: the sentence that shares most with what it says, else the whole unit."""
    found = lookups.text_units(index, units)
    paths = documents_of(index, units)
    by_id = {document["id"]: document["path"] for document in paths}
    rows = []
    for unit in found:
        start, end = best_sentence(unit.text, said) if said else (0, len(unit.text))
        span = document_span(unit, start, end) or ((unit.start, unit.end) if not said else None)
        rows.append(
            {
                "text_unit": unit.id,
                "number": unit.number,
                "document": by_id.get(unit.document_id),
                "start": span[0] if span else None,
                "end": span[1] if span else None,
                "quote": unit.text[start:end],
            }
        )
    return rows


def documents_of(index: Index, units: Sequence[int]) -> list[Row]:
    """The documents of text units, with their versions and how many of these text units each has."""
    counted = index.rows(
        f"""select document_id as id, count(*) as text_units from text_units
            where human_readable_id in ({integers(units)}) group by document_id"""
    )
    number = {row["id"]: row["text_units"] for row in counted}
    ids = list(number)
    rows = index.rows(
        f"select id, path, title, content_hash as version from documents where id in ({marks(ids)}) order by path", ids
    )
    return [{**row, "text_units": number[row["id"]]} for row in rows]


def ids_of_units(index: Index, units: Sequence[int]) -> list[str]:
    """Ids of text units by number."""
    ids: list[str] = index.take("text_units", "human_readable_id", units, ["id"])["id"].to_pylist()
    return ids
