"""Checks of documents, text units, ids and row order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets.indexing.validation.base import Check, Published, Violation, ascending, positions, violation

#: Tables with ids.
WITH_IDS = ("documents", "text_units", "entities", "relationships", "covariates", "communities", "community_reports")

_FAILED = ("failed", "truncated", "refused")
_STATUSES = ("ok", "empty", *_FAILED)


def _unique_ids(p: Published) -> list[Violation]:
    found = []
    for table in WITH_IDS:
        for column in ("id", "human_readable_id"):
            query = f"select {column} as place from {table} group by {column} having count(*) > 1"  # noqa: S608
            found += p.faults(f"{table}: rows share the {column}", query, table)
    return found


def _positions(p: Published) -> list[Violation]:
    found = []
    for table in ("documents", "text_units", "entities", "relationships", "covariates"):
        numbers = p.column(table, "human_readable_id")
        wrong = numbers.to_numpy(zero_copy_only=False) != np.arange(len(numbers))
        found += violation(f"{table}: human_readable_id is not the position of the row", wrong, p.column(table, "id"))
    for table in ("communities", "community_reports"):
        numbers, communities = p.column(table, "human_readable_id"), p.column(table, "community")
        wrong = pc.not_equal(numbers, communities).to_numpy(zero_copy_only=False)
        found += violation(f"{table}: human_readable_id is not the number of the community", wrong, communities)
    return found


def _canonical_order(p: Published) -> list[Violation]:
    paths = p.column("documents", "path")
    document = pa.array(positions(p.column("text_units", "document_id"), p.column("documents", "id")))
    unit = pa.array(positions(p.column("covariates", "text_unit_id"), p.column("text_units", "id")))
    reports = "community_reports"
    keys: dict[str, list[pa.Array]] = {
        "documents": [paths],
        "text_units": [document, p.column("text_units", "position")],
        "entities": [p.column("entities", "title")],
        "relationships": [p.column("relationships", "source"), p.column("relationships", "target")],
        "communities": [p.column("communities", "level"), p.column("communities", "community")],
        reports: [pc.negate(p.column(reports, "level")), p.column(reports, "community")],
        "entity_aliases": [p.column("entity_aliases", "alias"), p.column("entity_aliases", "title")],
    }
    found = []
    for table, columns in keys.items():
        places = p.column(table, "id" if table in WITH_IDS else "alias").slice(1)
        found += violation(f"{table}: row out of canonical order", ~ascending(columns), places)
    columns = [unit, *(p.column("covariates", name) for name in ("subject_id", "object_id", "type"))]
    wrong = ~ascending(columns, strictly=False)
    return found + violation("covariates: row out of canonical order", wrong, p.column("covariates", "id").slice(1))


def _documents_and_units(p: Published) -> list[Violation]:
    """Documents list exactly their text units, in order; positions count from 0."""
    rows, units = p.list_positions("documents", "text_unit_ids", "text_units")
    count = p.tables["text_units"].num_rows
    owner = positions(p.column("text_units", "document_id"), p.column("documents", "id"))
    listed = np.bincount(units[units >= 0], minlength=count)
    ids = p.column("text_units", "id")
    found = violation("documents: text unit not listed once by its document", listed != 1, ids)
    known = units >= 0
    foreign = owner[units[known]] != rows[known]
    found += violation("documents: text unit listed by another document", foreign, ids.take(pa.array(units[known])))
    falling = np.zeros(len(units), dtype=np.bool_)
    falling[1:] = (np.diff(rows) == 0) & (np.diff(units) <= 0)
    found += violation("documents: text units out of order", falling, p.column("documents", "id").take(pa.array(rows)))
    place = p.column("text_units", "position").to_numpy(zero_copy_only=False)
    by_document = np.argsort(owner, kind="stable")
    sorted_owner = owner[by_document]
    expected = np.empty(count, dtype=np.int64)
    expected[by_document] = np.arange(count) - np.searchsorted(sorted_owner, sorted_owner)
    return found + violation("text_units: position does not count from 0 in its document", place != expected, ids)


def _spans(p: Published) -> list[Violation]:
    return spans_hold(p)


def spans_hold(p: Published, unknown: bool = False) -> list[Violation]:
    """The span of a text unit in its document holds its text, up to metadata written before it.

    Args:
        p: The tables.
        unknown: Whether an empty span is allowed, where the place of the text is not known.
    """
    texts = p.column("documents", "text")
    owner = positions(p.column("text_units", "document_id"), p.column("documents", "id"))
    starts = p.column("text_units", "start").to_pylist()
    ends = p.column("text_units", "end").to_pylist()
    units = p.column("text_units", "text")
    wrong = np.zeros(len(owner), dtype=np.bool_)
    document, text = -1, ""
    for row in np.argsort(owner, kind="stable").tolist():  # one document in memory as a string at a time
        if owner[row] != document:
            document = int(owner[row])
            text = texts[document].as_py() if document >= 0 else ""
        start, end = starts[row], ends[row]
        if unknown and start == end == 0:
            continue
        wrong[row] = not (0 <= start < end <= len(text) and _holds(units[row].as_py(), text[start:end]))
    return violation("text_units: the span does not hold the text", wrong, p.column("text_units", "id"))


def _holds(unit: str, passage: str) -> bool:
    """Whether a text unit is a passage, or lines of metadata and then the passage."""
    head = unit[: len(unit) - len(passage)]
    return unit.endswith(passage) and (not head or head.endswith("\n"))


def _status(p: Published) -> list[Violation]:
    status, reason = p.column("text_units", "status"), p.column("text_units", "reason")
    ids = p.column("text_units", "id")
    unknown = ~pc.is_in(status, value_set=pa.array(_STATUSES)).to_numpy(zero_copy_only=False)
    failed = pc.is_in(status, value_set=pa.array(_FAILED)).to_numpy(zero_copy_only=False)
    silent = failed & pc.equal(reason, "").to_numpy(zero_copy_only=False)
    found = violation(f"text_units: status is none of {', '.join(_STATUSES)}", unknown, ids)
    return found + violation("text_units: failed without a reason", silent, ids)


def _share(p: Published, statuses: tuple[str, ...], limit: float, what: str, setting: str) -> list[Violation]:
    status = p.column("text_units", "status")
    wrong = pc.is_in(status, value_set=pa.array(statuses)).to_numpy(zero_copy_only=False)
    if not len(wrong) or wrong.mean() <= limit:
        return []
    reasons = p.column("text_units", "reason")
    message = f"{wrong.mean():.1%} of the text units {what}; checks.{setting} allows {limit:.1%}"
    return violation(message, wrong, [f"{u}: {r}" for u, r in zip(p.column("text_units", "id"), reasons, strict=True)])


def _failed_share(p: Published) -> list[Violation]:
    return _share(p, _FAILED, p.limits.max_failed_share, "failed", "max_failed_share")


def _empty_share(p: Published) -> list[Violation]:
    return _share(p, ("empty",), p.limits.max_empty_share, "have no entities", "max_empty_share")


def _batch_rows(p: Published) -> list[Violation]:
    """The rows of all batches are the rows of the published table."""
    found = []
    for name, batches in sorted(p.batch_rows.items()):
        published, together = p.tables[name].num_rows, sum(batches.values())
        if published != together:
            message = f"{name}: {published} rows are published, the {len(batches)} batches hold {together}"
            found.append(Violation(message, abs(published - together)))
    return found


CORPUS_CHECKS = (
    Check(
        "batch_rows",
        "The rows of all document batches are the rows of the table.",
        True,
        ("documents", "text_units"),
        _batch_rows,
    ),
    Check("unique_ids", "No two rows of a table share an id or a human_readable_id.", True, WITH_IDS, _unique_ids),
    Check("positions", "human_readable_id is the position of the row.", True, WITH_IDS, _positions),
    Check("canonical_order", "Rows are in the canonical order.", True, (*WITH_IDS, "entity_aliases"), _canonical_order),
    Check(
        "documents_and_text_units",
        "Documents list their text units once, in order.",
        True,
        ("documents", "text_units"),
        _documents_and_units,
    ),
    Check("spans", "The span of a text unit holds its text.", True, ("documents", "text_units"), _spans, "text_units"),
    Check(
        "text_unit_status",
        "Every text unit has a status; a failed one has a reason.",
        True,
        ("text_units",),
        _status,
        "extraction_status",
    ),
    Check(
        "failed_text_units", "The share of failed text units is within the limit.", True, ("text_units",), _failed_share
    ),
    Check(
        "empty_text_units", "The share of text units without entities is usual.", False, ("text_units",), _empty_share
    ),
)
