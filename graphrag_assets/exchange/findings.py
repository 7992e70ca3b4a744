"""What an import found to be wrong with the tables of a source, and what became of it.

Every row that was changed, left out or is only in doubt is told: counted by kind for people, and row by row in the table
rejected_inputs of the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Places that the summary of a kind names.
EXAMPLES = 5

REPAIRED, LEFT_OUT, KEPT = "repaired", "left out", "kept"

#: Kinds of findings: what was done, and what it means.
KINDS: Mapping[str, tuple[str, str]] = {
    "missing_table": (KEPT, "the source holds no such table, or one that cannot be read"),
    "missing_column": (REPAIRED, "the table has no such column; its values are derived or neutral"),
    "missing_id": (REPAIRED, "the row had no id and got one"),
    "duplicate_row": (LEFT_OUT, "an equal id stands in an earlier row with the same content"),
    "duplicate_id": (REPAIRED, "an earlier row with other content has the id; this one got a new id"),
    "renumbered": (REPAIRED, "human_readable_id was missing or not unique; the rows are numbered anew in their order"),
    "document_rebuilt": (REPAIRED, "the document or its text was missing; it is put together from its text units"),
    "several_documents": (REPAIRED, "the text unit names several documents; it belongs to the first"),
    "empty_text_unit": (LEFT_OUT, "the text unit has no text"),
    "no_tokens": (REPAIRED, "the number of tokens was missing; it is counted"),
    "cut_character": (REPAIRED, "a character was cut in two at an end of the text unit; its remains are removed"),
    "place_unknown": (KEPT, "the text is not in its document as it stands; citations lead to the text unit only"),
    "document_without_text_units": (KEPT, "no text unit belongs to the document"),
    "unknown_text_unit": (LEFT_OUT, "a text unit is named that does not exist"),
    "no_text_unit": (KEPT, "no text unit names it"),
    "empty_title": (LEFT_OUT, "the entity has no title"),
    "duplicate_title": (REPAIRED, "an earlier entity has the title; both are merged"),
    "end_renamed": (REPAIRED, "an end was no entity, but is one when written in the usual form"),
    "entity_added": (
        REPAIRED,
        "relationships name it and no entity has the title; an entity without description is added",
    ),
    "empty_end": (LEFT_OUT, "an end of the relationship has no name"),
    "self_relationship": (LEFT_OUT, "the relationship leads from an entity to itself"),
    "duplicate_relationship": (REPAIRED, "an earlier relationship has the same ends; both are merged, weights added"),
    "weight": (REPAIRED, "the weight was missing, no number (now 1) or negative (now 0)"),
    "degree": (REPAIRED, "degree or combined_degree did not agree with the relationships; it is counted"),
    "frequency": (REPAIRED, "the frequency was not the number of text units (repeated mentions); it is counted"),
    "claim_renamed": (REPAIRED, "the subject is an entity when written in the usual form"),
    "claim_subject": (KEPT, "the subject of the claim is no entity"),
    "claim_incomplete": (KEPT, "the claim has no description"),
    "claim_text_unit": (LEFT_OUT, "the text unit of the claim does not exist"),
    "community_number": (LEFT_OUT, "the community has no number or level, or one that an earlier row has"),
    "unknown_member": (LEFT_OUT, "a member is named that is no entity"),
    "no_members": (KEPT, "the community has no members"),
    "parent": (
        REPAIRED,
        "the parent was missing or is no community one level above; the one that holds most members is",
    ),
    "no_parent": (KEPT, "no community one level above holds the members; it stands on its own"),
    "children": (REPAIRED, "the children were not the communities that name it as parent"),
    "inner_relationships": (REPAIRED, "relationship_ids were not the relationships between its members"),
    "report_without_community": (LEFT_OUT, "the report is on a community that does not exist"),
    "duplicate_report": (LEFT_OUT, "an earlier report is on the same community"),
    "report_missing": (REPAIRED, "the community has no report, or one without content; a stand-in says so"),
    "rank": (REPAIRED, "the rank was missing (now 0) or not between 0 and 10 (now the nearest end)"),
    "report_citation": (KEPT, "the report cites a number that no row has"),
    "vector_unknown": (LEFT_OUT, "the vector belongs to no row"),
    "vector_unusable": (LEFT_OUT, "the vector is empty, has another length, or holds what is no number; made anew"),
    "vector_missing": (REPAIRED, "the source holds no vector of the row; it is embedded"),
    "check": (KEPT, "what indexes made here promise, and this one does not hold"),
}


@dataclass
class Findings:
    """Collects what is wrong, row by row.

    Args:
        rows: Kind, table, place in it, and detail.
    """

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    def add(self, kind: str, table: str, place: object = "", detail: str = "") -> None:
        """Tell one finding.

        Args:
            kind: One of :data:`KINDS`.
            table: Table of the source.
            place: What names the row: its id, title or number; empty for the whole table.
            detail: What it is about beside that.
        """
        assert kind in KINDS, kind
        self.rows.append((kind, table, str(place), detail))

    def summary(self) -> list[dict[str, Any]]:
        """By table and kind: how often, what was done, what it means, and some of the places."""
        groups: dict[tuple[str, str], list[str]] = {}
        for kind, table, place, detail in self.rows:
            groups.setdefault((table, kind), []).append(": ".join(part for part in (place, detail) if part))
        return [
            {
                "table": table,
                "kind": kind,
                "count": len(places),
                "action": KINDS[kind][0],
                "meaning": KINDS[kind][1],
                "examples": list(dict.fromkeys(filter(None, places)))[:EXAMPLES],
            }
            for (table, kind), places in sorted(groups.items())
        ]

    def rejected_inputs(self, *, kept: bool = True) -> list[dict[str, str]]:
        """Every finding on a row as a row of the table rejected_inputs, each once.

        Args:
            kept: Also what stays as it was; an export of ours holds the rows on that already.
        """
        found = {
            (table, place, kind, "; ".join(part for part in (detail, f"{KINDS[kind][0]}: {KINDS[kind][1]}") if part))
            for kind, table, place, detail in self.rows
            if kind != "check" and (kept or KINDS[kind][0] != KEPT)
        }
        return [
            dict(zip(("file", "location", "reason", "detail"), (f"{table}.parquet", *rest), strict=True))
            for table, *rest in sorted(found)
        ]
