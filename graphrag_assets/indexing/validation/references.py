"""Checks of everything that points to something else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets.indexing.links import link_tables, row_numbers, text_unit_links
from graphrag_assets.indexing.validation.base import Booleans, Check, Published, Violation, positions, violation

#: List columns of ids, with the table they point to.
_LISTS = (
    ("documents", "text_unit_ids", "text_units"),
    ("text_units", "entity_ids", "entities"),
    ("text_units", "relationship_ids", "relationships"),
    ("text_units", "covariate_ids", "covariates"),
    ("entities", "text_unit_ids", "text_units"),
    ("relationships", "text_unit_ids", "text_units"),
    ("communities", "entity_ids", "entities"),
    ("communities", "relationship_ids", "relationships"),
    ("communities", "text_unit_ids", "text_units"),
)
_SINGLE = (("text_units", "document_id", "documents"), ("covariates", "text_unit_id", "text_units"))

_LINK_TABLES = (
    "text_unit_entities",
    "entities_in_text_units",
    "entity_neighbours",
    "entity_communities",
    "entity_claims",
    "community_occurrences",
    "relationship_text_units",
    "row_numbers",
)

#: Vector tables, with the table whose rows they hold.
VECTOR_TABLES = {
    "text_unit_text": "text_units",
    "entity_description": "entities",
    "community_full_content": "community_reports",
}


def _references(p: Published) -> list[Violation]:
    found = []
    for table, column, target in _LISTS:
        rows, at = p.list_positions(table, column, target)
        places = p.column(table, "id").take(pa.array(rows))
        found += violation(f"{table}: {column} names an id that {target} does not hold", at < 0, places)
    for table, column, target in _SINGLE:
        missing = positions(p.column(table, column), p.column(target, "id")) < 0
        message = f"{table}: {column} is no id of {target}"
        found += violation(message, missing, p.column(table, "id"))
    return found


def _text_unit_links(p: Published) -> list[Violation]:
    """What a text unit lists is what lists the text unit."""
    units = p.tables["text_units"]
    order = pa.table({"text_unit_id": units["id"], "order": units["human_readable_id"]})
    expected = text_unit_links(order, p.tables["entities"], p.tables["relationships"], p.tables["covariates"])
    by_id = positions(p.column("text_units", "id"), expected["text_unit_id"].combine_chunks())
    found = []
    for column in ("entity_ids", "relationship_ids", "covariate_ids"):
        lists = expected[column].take(pa.array(by_id)).combine_chunks()
        wrong = _differ(p.column("text_units", column), lists)
        message = f"text_units: {column} is not what lists the text unit, in the order of its table"
        found += violation(message, wrong, p.column("text_units", "id"))
    return found


def _differ(a: pa.Array, b: pa.Array) -> Booleans:
    """Which rows of two list columns differ."""
    if a.cast(b.type).equals(b):
        return np.zeros(len(a), dtype=np.bool_)
    joined_a, joined_b = (pc.binary_join(x.cast(pa.list_(pa.string())), "\n") for x in (a, b))
    different: Booleans = pc.not_equal(joined_a, joined_b).to_numpy(zero_copy_only=False)
    return different


def _links(p: Published) -> list[Violation]:
    """The link tables hold what the lists hold."""
    sources = ("text_units", "entities", "relationships", "communities", "covariates")
    expected = link_tables(*(p.tables[name] for name in sources))
    expected["row_numbers"] = row_numbers(*(p.tables[name] for name in ("text_units", "entities", "community_reports")))
    found = []
    for name, table in expected.items():
        actual = p.tables[name]
        if actual.num_rows != table.num_rows:
            difference = abs(actual.num_rows - table.num_rows)
            found.append(Violation(f"{name}: {actual.num_rows} rows, expected {table.num_rows}", difference))
            continue
        wrong = np.zeros(table.num_rows, dtype=np.bool_)
        for column in table.column_names:
            wrong |= pc.not_equal(actual[column], table[column]).to_numpy(zero_copy_only=False)
        rows = [str(row) for row in actual.filter(pa.array(wrong)).slice(0, 5).to_pylist()]
        if wrong.any():
            found.append(Violation(f"{name}: rows are not what the lists hold", int(wrong.sum()), tuple(rows)))
    return found


def _full_text(p: Published) -> list[Violation]:
    """The full-text index belongs to these text units: its postings are complete, the lengths are those of the texts."""
    held = int(pc.sum(p.tables["terms"]["text_units"]).as_py() or 0)
    postings, units = p.tables["postings"], p.tables["text_units"]
    if held != postings.num_rows:
        difference = abs(held - postings.num_rows)
        return [Violation(f"postings: {postings.num_rows} rows, but terms name {held}", difference)]
    lengths = postings.slice(0, units.num_rows)  # those of the empty term, which leads
    expected = pc.utf8_length(units["text"]).cast(pa.int32())
    if lengths.num_rows != units.num_rows or not lengths["text_unit"].equals(
        units["human_readable_id"].cast(pa.int32())
    ):
        return [Violation("postings: the first rows are not the text units in their order", units.num_rows)]
    wrong = pc.not_equal(lengths["count"], expected).to_numpy(zero_copy_only=False)
    return violation("postings: not the length of the text unit", wrong, p.column("text_units", "id"))


def _vectors(p: Published) -> list[Violation]:
    found = []
    for name, table in VECTOR_TABLES.items():
        ids, vectors = p.column(table, "id"), pa.array(list(p.vector_ids.get(name, ())), pa.string())
        found += violation(f"{name}: no vector for a row of {table}", positions(ids, vectors) < 0, ids)
        found += violation(f"{name}: vector of a row that {table} does not hold", positions(vectors, ids) < 0, vectors)
        if pc.count_distinct(vectors).as_py() != len(vectors):
            counts = pc.value_counts(vectors)
            twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist()
            found.append(Violation(f"{name}: several vectors of one row", len(twice), tuple(sorted(twice)[:5])))
    return found


_ALL = ("documents", "text_units", "entities", "relationships", "covariates", "communities")

REFERENCE_CHECKS = (
    Check("references", "Every id in every list exists.", True, _ALL, _references),
    Check("text_unit_links", "Text units list what lists them.", True, _ALL[1:5], _text_unit_links),
    Check("link_tables", "The link tables hold what the lists hold.", True, (*_ALL, *_LINK_TABLES), _links),
    Check(
        "full_text",
        "The full-text index is that of the text units.",
        True,
        ("text_units", "terms", "postings"),
        _full_text,
    ),
    Check(
        "vectors",
        "Every text unit, entity and report has its vector (a long text unit one for each window), and nothing else has.",
        True,
        tuple(VECTOR_TABLES.values()),
        _vectors,
    ),
)
