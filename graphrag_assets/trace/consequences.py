"""What came of a row: everything downstream of it in the snapshot."""

# ruff: noqa: S608 (SQL is put together from names and integers only)

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from graphrag_assets.query.index import Index, integers
from graphrag_assets.trace.finding import Found, by_number, rows_by_id

Listed = dict[str, Any]


def consequences(index: Index, row: Found, units: Sequence[int], limit: int) -> dict[str, Listed]:
    """What came of a row, by kind: how many rows, and the first of them.

    Args:
        index: The snapshot.
        row: The row.
        units: Its text units.
        limit: Most rows of a kind that are listed.
    """
    if row.kind in ("document", "text_unit"):
        return _of_text(index, row, units, limit)
    if row.kind == "entity":
        links = index.take("entity_neighbours", "entity", [row.number], ["relationship"])["relationship"].to_pylist()
        claims = index.take("entity_claims", "entity", [row.number], ["claim"])["claim"].to_pylist()
        found = {
            "relationships": _numbered(index, "relationship", links, limit),
            "claims": _numbered(index, "claim", claims, limit),
        }
        return found | _of_entities(index, [row.number], limit)
    if row.kind == "relationship":
        holding = index.rows("select community from communities where list_contains(relationship_ids, ?)", [row.id])
        return _communities(index, [r["community"] for r in holding], limit)
    if row.kind == "community":
        reports = _numbered(index, "report", [row.number], limit)
        above = index.rows("select parent from communities where community = ? and parent >= 0", [row.number])
        return {"reports": reports, "communities": _numbered(index, "community", [r["parent"] for r in above], limit)}
    return {}


def _of_text(index: Index, row: Found, units: Sequence[int], limit: int) -> dict[str, Listed]:
    lists = index.take("text_units", "human_readable_id", units, ["relationship_ids", "covariate_ids"])
    held = {name: list(dict.fromkeys(i for ids in lists[name].to_pylist() for i in ids)) for name in lists.column_names}
    table = "entities_in_text_units" if index.table("entities_in_text_units") else "text_unit_entities"
    named = Counter(index.take(table, "text_unit", units, ["entity"])["entity"].to_pylist())
    of_index = index.take("entities", "human_readable_id", sorted(named), ["human_readable_id", "frequency"])
    frequency = dict(zip(*(column.to_pylist() for column in of_index.columns), strict=True))
    entities = _numbered(index, "entity", list(named), limit)
    entities["only_here"] = sum(count == frequency.get(entity) for entity, count in named.items())
    found = {"text_units": _numbered(index, "text_unit", units, limit)} if row.kind == "document" else {}
    return {
        **found,
        "entities": entities,
        "relationships": _with_ids(index, "relationship", held["relationship_ids"], limit),
        "claims": _with_ids(index, "claim", held["covariate_ids"], limit),
        **_of_entities(index, sorted(named), limit),
    }


def _of_entities(index: Index, entities: Sequence[int], limit: int) -> dict[str, Listed]:
    found = index.take("entity_communities", "entity", entities, ["community"])["community"].to_pylist()
    return _communities(index, found, limit)


def _communities(index: Index, communities: Sequence[int], limit: int) -> dict[str, Listed]:
    """Communities and the reports on them."""
    numbers = sorted(set(communities))
    with_report = index.rows(f"select community from community_reports where community in ({integers(numbers)})")
    return {
        "communities": _numbered(index, "community", numbers, limit),
        "reports": _numbered(index, "report", sorted(r["community"] for r in with_report), limit),
    }


def _numbered(index: Index, kind: str, numbers: Sequence[int], limit: int) -> Listed:
    distinct = sorted(set(numbers))
    return {"count": len(distinct), "listed": [_told(row) for row in by_number(index, kind, distinct[:limit])]}


def _with_ids(index: Index, kind: str, ids: Sequence[str], limit: int) -> Listed:
    return {"count": len(ids), "listed": [_told(row) for row in rows_by_id(index, kind, ids[:limit])]}


def _told(row: Found) -> dict[str, Any]:
    return {"id": row.id, "number": row.number, "title": row.title}
