"""What whole-corpus assets share: the order of text units, and the documents' dates."""

from __future__ import annotations

import pyarrow as pa

from graphrag_assets.storage.build import TableRef


def text_unit_order(documents: TableRef, text_units: TableRef) -> pa.Table:
    """Position of every text unit in the corpus: by document path, then by position in the document.

    Returns:
        Columns text_unit_id, document_id and order, in that order.
    """
    paths = documents.table(["id", "path"]).rename_columns(["document_id", "path"])
    units = text_units.table(["id", "document_id", "position"]).rename_columns(
        ["text_unit_id", "document_id", "position"]
    )
    joined = units.join(paths, "document_id").sort_by([("path", "ascending"), ("position", "ascending")])
    return pa.table(
        {
            "text_unit_id": joined["text_unit_id"],
            "document_id": joined["document_id"],
            "order": pa.array(range(joined.num_rows), pa.int64()),
        }
    )


def text_unit_dates(documents: TableRef, text_units: TableRef) -> dict[str, str]:
    """Date that the document of a text unit states, for those that state one."""
    dates = documents.table(["id", "creation_date"])
    by_document = dict(zip(dates["id"].to_pylist(), dates["creation_date"].to_pylist(), strict=True))
    units = text_units.table(["id", "document_id"])
    pairs = zip(units["id"].to_pylist(), units["document_id"].to_pylist(), strict=True)
    return {unit: by_document[document] for unit, document in pairs if by_document.get(document)}


def canonical_titles(entity_aliases: pa.Table) -> dict[str, str]:
    """Canonical title of every title that was merged into another."""
    rows = entity_aliases.select(["alias", "title", "decision"]).to_pylist()
    return {row["alias"]: row["title"] for row in rows if row["decision"] == "merged"}
