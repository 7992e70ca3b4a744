"""Checks of a snapshot that was made from the index of another system.

What readers rely on must hold as for an index of our own: ids, references, links, degrees, the tree of communities,
reports, vectors. What only our own algorithms promise need not: titles in order, one row for each pair of entities,
communities that cover every entity, numbers without gaps. Those of our checks that such an index does not pass are told,
and block nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from graphrag_assets.indexing.validation.base import Check, Published, Violation, ascending, violation
from graphrag_assets.indexing.validation.communities import COMMUNITY_CHECKS, members_and_relationships, tree_is_sound
from graphrag_assets.indexing.validation.corpus import CORPUS_CHECKS, spans_hold
from graphrag_assets.indexing.validation.graph import GRAPH_CHECKS, ends_of_relationships, frequency_is_counted
from graphrag_assets.indexing.validation.references import REFERENCE_CHECKS

#: Checks of our own that hold in part only, by the checks of this module; the rest of what they ask is no fault.
_REPLACED = {"batch_rows", "positions", "canonical_order", "frequency", "spans", "community_content"}

#: Checks of our own that tell how the index differs from one made here.
_TOLD = {
    "unique_pairs",
    "failed_text_units",
    "failed_reports",
    "empty_text_units",
    "community_cover",
    "community_nesting",
}


def _numbers_ascend(p: Published) -> list[Violation]:
    """Rows stand in the order of the numbers by which citations name them."""
    found = []
    for table in ("documents", "text_units", "entities", "relationships", "covariates"):
        numbers = p.column(table, "human_readable_id")
        found += violation(f"{table}: row out of order", ~ascending([numbers]), numbers.slice(1))
        negative = pc.less(numbers, 0).to_numpy(zero_copy_only=False)
        found += violation(f"{table}: human_readable_id is negative", negative, p.column(table, "id"))
    reports = "community_reports"
    for table, columns in {
        "communities": [p.column("communities", "level"), p.column("communities", "community")],
        reports: [pc.negate(p.column(reports, "level")), p.column(reports, "community")],
    }.items():
        numbers = p.column(table, "community")
        found += violation(f"{table}: row out of order", ~ascending(columns), numbers.slice(1))
        wrong = pc.not_equal(p.column(table, "human_readable_id"), numbers).to_numpy(zero_copy_only=False)
        found += violation(f"{table}: human_readable_id is not the number of the community", wrong, numbers)
    return found


def _pairs(p: Published) -> list[Violation]:
    query = """select concat_ws(' / ', source, target) as place from relationships
        group by source, target having count(*) > 1"""
    return p.faults("relationships: several rows from one entity to another", query, "relationships") + (
        ends_of_relationships(p)
    )


def _communities(p: Published) -> list[Violation]:
    lengths = pc.list_value_length(p.column("communities", "entity_ids"))
    wrong = pc.not_equal(p.column("communities", "size"), lengths).to_numpy(zero_copy_only=False)
    found = violation("communities: size is not the number of members", wrong, p.column("communities", "community"))
    return found + members_and_relationships(p, more=True) + tree_is_sound(p, orphans=True)


_GRAPH = ("communities", "entities", "relationships")

_INSTEAD = (
    Check("numbers", "Rows stand in the order of their numbers.", True, _GRAPH, _numbers_ascend),
    Check("pairs", "One relationship in each direction between two entities.", True, _GRAPH[1:], _pairs),
    Check("counted", "Frequency is the number of text units.", True, _GRAPH[1:], frequency_is_counted),
    Check(
        "known_spans",
        "The span of a text unit holds its text, where its place is known.",
        True,
        ("documents", "text_units"),
        lambda p: spans_hold(p, unknown=True),
    ),
    Check(
        "community_tree", "Communities hold what they say, and parents and children agree.", True, _GRAPH, _communities
    ),
)

_ALL = (*CORPUS_CHECKS, *REFERENCE_CHECKS, *GRAPH_CHECKS, *COMMUNITY_CHECKS)

#: Checks of an imported snapshot. Those that do not block tell how it differs from an index made here.
IMPORT_CHECKS: tuple[Check, ...] = (
    *(check for check in _ALL if check.name not in _REPLACED | _TOLD),
    *_INSTEAD,
    *(replace(check, blocking=False) for check in _ALL if check.name in _TOLD),
)
