"""From a row up to its documents and calls, and down to all that came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from graphrag_assets.query.index import Index
from graphrag_assets.trace.calls import calls_behind
from graphrag_assets.trace.consequences import consequences
from graphrag_assets.trace.finding import Found, find
from graphrag_assets.trace.lives import lives
from graphrag_assets.trace.sources import documents_of, ids_of_units, passages, sources

#: Rows of each kind that are listed, unless more are asked for.
LIMIT = 20

#: Stages whose calls made a row: those that were asked about its text units, and those about itself.
_OF_UNITS = {
    "document": ("extract_graph", "extract_claims", "text_unit_embeddings"),
    "text_unit": ("extract_graph", "extract_claims", "text_unit_embeddings"),
    "entity": ("extract_graph",),
    "relationship": ("extract_graph",),
    "claim": ("extract_claims",),
}
_OF_ROW = ("resolve_entities", "summarize_descriptions", "community_reports", "entity_embeddings")


@dataclass(frozen=True)
class Trace:
    """Where a row comes from and what came of it.

    Args:
        snapshot: The snapshot that was read.
        traced: The row.
        row: What it says.
        documents: Documents it was read from, with their versions: count, listed.
        passages: Places in them, with the quote: count, listed.
        calls: Calls of models that made it; see :func:`graphrag_assets.trace.calls.calls_behind`.
        snapshots: Where it lived: first, last, in.
        downstream: What came of it, by kind: count, listed.
        limit: Most rows of a kind that are listed.
    """

    snapshot: str
    traced: Found
    row: dict[str, Any]
    documents: dict[str, Any]
    passages: dict[str, Any]
    calls: dict[str, Any]
    snapshots: dict[str, Any]
    downstream: dict[str, Any]
    limit: int

    def to_dict(self) -> dict[str, Any]:
        """The object of ``trace --json``."""
        told = asdict(self)
        return {"snapshot": told.pop("snapshot"), **told.pop("traced"), **told}


def trace(index: Index, what: str, *, kind: str | None = None, limit: int = LIMIT) -> Trace:
    """Trace a row of a snapshot.

    Args:
        index: The snapshot, from :func:`graphrag_assets.query.open_index`.
        what: An id, a path, a title or alias, ``A -> B``, or a citation marker such as ``Reports (12)``.
        kind: Only a row of this kind: document, text_unit, entity, relationship, claim, community or report.
        limit: Most rows of a kind that are listed; the counts are of all.

    Raises:
        NotFound: There is no such row.
        Ambiguous: Several rows answer to the name.
    """
    row = find(index, what, kind)
    read = sources(index, row)
    of_units = _OF_UNITS.get(row.kind, ())
    asked = [*read.asked, *(ids_of_units(index, read.units) if of_units else ())]
    stages = (*of_units, *_OF_ROW, *(("community_report_embeddings",) if row.kind == "report" else ()))
    documents = documents_of(index, read.units)
    if row.kind == "document" and not documents:  # one without text
        documents = [{"id": row.id, "path": row.title, "title": read.row["title"], "version": read.row["content_hash"]}]
    return Trace(
        index.snapshot,
        row,
        read.row,
        {"count": len(documents), "listed": documents[:limit]},
        {"count": len(read.units), "listed": passages(index, read.units[:limit], read.said)},
        calls_behind(index, asked, stages, limit),
        lives(index, row),
        consequences(index, row, read.units, limit),
        limit,
    )
