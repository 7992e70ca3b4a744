"""Merging extracted rows into entities and relationships, and linking them to text units."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets import ids
from graphrag_assets.indexing.graph import MergedGraph, merge_graph, with_degrees
from graphrag_assets.indexing.links import link_covariates, link_tables, text_unit_links
from graphrag_assets.storage import tables as contracts

Row = dict[str, Any]


def entity(unit: str, title: str, type_: str = "PERSON", description: str = "") -> Row:
    return {
        "text_unit_id": unit,
        "title": title,
        "name": title,
        "type": type_,
        "description": description,
        "mentions": 1,
    }


def relationship(unit: str, source: str, target: str, weight: float = 1.0, description: str = "") -> Row:
    return {"text_unit_id": unit, "source": source, "target": target, "description": description, "weight": weight}


def order(*units: str) -> pa.Table:
    return pa.table(
        {"text_unit_id": pa.array(list(units), pa.string()), "order": pa.array(range(len(units)), pa.int64())}
    )


def merge(
    entities: Sequence[Row], relationships: Sequence[Row], units: pa.Table, mapping: dict[str, str] | None = None
) -> MergedGraph:
    return merge_graph(
        contracts.EXTRACTED_ENTITIES.from_rows(list(entities)),
        contracts.EXTRACTED_RELATIONSHIPS.from_rows(list(relationships)),
        units,
        mapping,
    )


def rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[c].to_pylist() for c in columns), strict=True))


def test_same_title_with_two_types_is_one_entity_with_all_mentions() -> None:
    graph = merge(
        [
            entity("u1", "IBM", "ORGANIZATION", "A maker of computers."),
            entity("u2", "IBM", "COMPANY", "Big Blue."),
            entity("u3", "IBM", "COMPANY", "Big Blue."),
            entity("u3", "IBM", "", ""),
        ],
        [],
        order("u3", "u1", "u2"),
    )
    (row,) = graph.entities.to_pylist()
    assert row["type"] == "COMPANY"
    assert row["types"] == [{"type": "COMPANY", "count": 2}, {"type": "ORGANIZATION", "count": 1}]
    assert row["text_unit_ids"] == ["u3", "u1", "u2"], "in the order of text units, each once"
    assert row["frequency"] == 3
    assert row["descriptions"] == ["A maker of computers.", "Big Blue."]
    assert row["needs_summary"]
    assert row["description"] is None
    assert row["id"] == ids.entity_id("IBM")
    assert row["aliases"] == []


def test_type_ties_go_to_the_first_in_the_alphabet_and_no_type_loses() -> None:
    graph = merge(
        [
            entity("u1", "A", "GEO"),
            entity("u2", "A", "EVENT"),
            entity("u1", "B", ""),
            entity("u2", "B", ""),
            entity("u3", "B", "GEO"),
        ],
        [],
        order("u1", "u2", "u3"),
    )
    assert rows(graph.entities, "title", "type") == [("A", "EVENT"), ("B", "GEO")]


def test_a_vote_is_a_text_unit_not_a_record() -> None:
    graph = merge(
        [
            entity("u1", "A", "GEO", "one"),
            entity("u1", "A", "GEO", "two"),
            entity("u1", "A", "GEO", "three"),
            entity("u2", "A", "ORGANIZATION"),
            entity("u3", "A", "ORGANIZATION"),
        ],
        [],
        order("u1", "u2", "u3"),
    )
    assert rows(graph.entities, "type", "frequency") == [("ORGANIZATION", 3)]


def test_one_description_is_kept_and_none_is_empty() -> None:
    graph = merge(
        [entity("u1", "A", description="Only."), entity("u1", "B"), entity("u2", "B", description="  ")],
        [],
        order("u1", "u2"),
    )
    assert rows(graph.entities, "title", "description", "needs_summary") == [("A", "Only.", False), ("B", "", False)]


def test_both_directions_are_one_relationship() -> None:
    graph = merge(
        [entity("u1", "A"), entity("u1", "B")],
        [
            relationship("u1", "A", "B", 2, "x"),
            relationship("u2", "B", "A", 3, "y"),
            relationship("u3", "B", "A", 4, "x"),
        ],
        order("u1", "u2", "u3"),
    )
    (row,) = graph.relationships.to_pylist()
    assert (row["source"], row["target"], row["weight"]) == ("B", "A", 9.0)
    assert row["text_unit_ids"] == ["u1", "u2", "u3"]
    assert row["descriptions"] == ["x", "y"]
    assert row["combined_degree"] == 2
    assert row["id"] == ids.relationship_id("A", "B")


@pytest.mark.parametrize(
    ("records", "direction"),
    [
        ([("u1", "A", "B", 1.0), ("u2", "B", "A", 5.0)], ("B", "A")),  # units tie: the greater weight
        ([("u1", "A", "B", 1.0), ("u2", "B", "A", 1.0)], ("A", "B")),  # all tie: the alphabet
        ([("u1", "A", "B", 9.0), ("u2", "B", "A", 1.0), ("u3", "B", "A", 1.0)], ("B", "A")),  # units before weight
        (
            [("u1", "A", "B", 0.1), ("u1", "A", "B", 0.2), ("u2", "B", "A", 0.3)],
            ("A", "B"),
        ),  # 0.1 + 0.2 > 0.3, exactly rounded
    ],
)
def test_direction(records: list[tuple[str, str, str, float]], direction: tuple[str, str]) -> None:
    made = [relationship(*r, description=str(i)) for i, r in enumerate(records)]
    graph = merge([], made, order("u1", "u2", "u3"))
    assert rows(graph.relationships, "source", "target") == [direction]


def test_ends_without_a_record_of_their_own_are_entities() -> None:
    graph = merge([entity("u1", "A")], [relationship("u2", "A", "C")], order("u1", "u2"))
    assert rows(graph.entities, "title", "type", "frequency", "degree") == [("A", "PERSON", 2, 1), ("C", "", 1, 1)]


def test_merged_titles_carry_everything_and_self_relationships_are_dropped_and_counted() -> None:
    graph = merge(
        [entity("u1", "INES HALLORAN", description="An engineer."), entity("u2", "HALLORAN", description="A witness.")],
        [
            relationship("u1", "INES HALLORAN", "PIER"),
            relationship("u2", "PIER", "HALLORAN", 2),
            relationship("u2", "HALLORAN", "INES HALLORAN", 7),
        ],
        order("u1", "u2"),
        {"HALLORAN": "INES HALLORAN"},
    )
    assert graph.self_relationships == 1
    assert rows(graph.entities, "title", "aliases", "frequency", "degree") == [
        ("INES HALLORAN", ["HALLORAN"], 2, 1),
        ("PIER", [], 2, 1),
    ]
    assert graph.entities["descriptions"].to_pylist()[0] == ["A witness.", "An engineer."]
    assert rows(graph.relationships, "weight", "text_unit_ids") == [(3.0, ["u1", "u2"])]


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, -1.0])
def test_unusable_weights_count_one_and_are_told(weight: float) -> None:
    graph = merge([], [relationship("u1", "A", "B", weight), relationship("u1", "A", "B", 2.0, "x")], order("u1"))
    assert graph.weights_replaced == 1
    assert graph.relationships["weight"].to_pylist() == [3.0]


def test_titles_sort_by_code_point() -> None:
    titles = ["Z", "É", "A", "a", "中", "😀", "Ａ", "A B", "A-B"]
    graph = merge([entity("u1", t) for t in titles], [], order("u1"))
    assert graph.entities["title"].to_pylist() == sorted(titles)
    assert graph.entities["human_readable_id"].to_pylist() == list(range(len(titles)))


def test_empty_corpus() -> None:
    graph = merge([], [], order())
    assert graph.entities.num_rows == graph.relationships.num_rows == 0
    contracts.ENTITIES.conform(graph.entities.drop_columns(["needs_summary"]))
    contracts.RELATIONSHIPS.conform(graph.relationships.drop_columns(["needs_summary"]))
    links = link_tables(
        contracts.TEXT_UNITS.empty(),
        graph.entities,
        graph.relationships,
        contracts.COMMUNITIES.empty(),
        contracts.COVARIATES.empty(),
    )
    assert {name: t.num_rows for name, t in links.items()} == dict.fromkeys(links, 0)


def test_rows_of_unknown_text_units_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="gone"):
        merge([entity("gone", "A")], [], order("u1"))


def test_a_title_mapped_twice_is_refused() -> None:
    mapping = pa.table({"title": ["A", "A"], "canonical": ["B", "C"]})
    with pytest.raises(ValueError, match="twice"):
        merge_graph(contracts.EXTRACTED_ENTITIES.empty(), contracts.EXTRACTED_RELATIONSHIPS.empty(), order(), mapping)


def test_degrees_after_pruning() -> None:
    graph = merge([], [relationship("u1", "A", "B"), relationship("u1", "B", "C")], order("u1"))
    entities, relationships = with_degrees(graph.entities, graph.relationships.slice(1))
    assert rows(entities, "title", "degree") == [("A", 0), ("B", 1), ("C", 1)]
    assert rows(relationships, "human_readable_id", "combined_degree") == [(0, 2)]
    with pytest.raises(ValueError, match="'A'"):
        with_degrees(graph.entities.slice(1), graph.relationships)


TITLES = st.sampled_from(["A", "B", "C", "D", "É", "THE A"])
UNITS = [f"u{i}" for i in range(5)]
TEXTS = st.sampled_from(["", " ", "one", "two", "Zwei", "été"])
ENTITIES = st.builds(entity, st.sampled_from(UNITS), TITLES, st.sampled_from(["", "GEO", "PERSON"]), TEXTS)
RELATIONSHIPS = st.builds(
    relationship, st.sampled_from(UNITS), TITLES, TITLES, st.floats(0, 1e6, allow_subnormal=False), TEXTS
)


@settings(max_examples=60, deadline=None)
@given(
    entities=st.lists(ENTITIES, max_size=30),
    relationships=st.lists(RELATIONSHIPS, max_size=30),
    seed=st.integers(0, 1000),
    merged=st.booleans(),
)
def test_order_and_batches_change_no_byte_and_nothing_is_lost(
    entities: list[Row], relationships: list[Row], seed: int, merged: bool
) -> None:
    units = order(*UNITS)
    mapping = {"THE A": "A"} if merged else {}
    graph = merge(entities, relationships, units, mapping)

    rng = random.Random(seed)
    shuffled_entities, shuffled_relationships = entities[:], relationships[:]
    rng.shuffle(shuffled_entities)
    rng.shuffle(shuffled_relationships)
    cut = rng.randint(0, len(entities))
    again = merge_graph(
        pa.concat_tables(
            contracts.EXTRACTED_ENTITIES.from_rows(part) for part in (shuffled_entities[:cut], shuffled_entities[cut:])
        ),
        contracts.EXTRACTED_RELATIONSHIPS.from_rows(shuffled_relationships),
        units.take(pa.array(rng.sample(range(len(UNITS)), len(UNITS)))),
        mapping,
    )
    assert _bytes(graph.entities) == _bytes(again.entities)
    assert _bytes(graph.relationships) == _bytes(again.relationships)

    def canonical(title: str) -> str:
        return mapping.get(title, title)

    mentions = {(canonical(e["title"]), e["text_unit_id"]) for e in entities}
    mentions |= {(canonical(r[end]), r["text_unit_id"]) for r in relationships for end in ("source", "target")}
    kept = {(t, u) for t, us in rows(graph.entities, "title", "text_unit_ids") for u in us}
    assert kept == mentions
    assert sum(graph.entities["frequency"].to_pylist()) == len(mentions)
    crossing = [r for r in relationships if canonical(r["source"]) != canonical(r["target"])]
    assert graph.self_relationships == len(relationships) - len(crossing)
    by_pair: dict[frozenset[str], Fraction] = {}
    for r in crossing:
        pair = frozenset((canonical(r["source"]), canonical(r["target"])))
        by_pair[pair] = by_pair.get(pair, Fraction(0)) + Fraction(r["weight"])
    found = {frozenset((s, t)): w for s, t, w in rows(graph.relationships, "source", "target", "weight")}
    assert found == {pair: float(total) for pair, total in by_pair.items()}
    degrees = dict(rows(graph.entities, "title", "degree"))
    assert sum(degrees.values()) == 2 * graph.relationships.num_rows
    assert all(
        c == degrees[s] + degrees[t] for s, t, c in rows(graph.relationships, "source", "target", "combined_degree")
    )


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_claims_get_canonical_titles_and_are_kept_once() -> None:
    claim = {
        "text_unit_id": "u2",
        "subject": "HALLORAN",
        "object": "NONE",
        "type": "FRAUD",
        "status": "TRUE",
        "start_date": "NONE",
        "end_date": "NONE",
        "description": "d",
        "source_text": "s",
    }
    claims = contracts.EXTRACTED_CLAIMS.from_rows(
        [claim, {**claim, "subject": "INES HALLORAN"}, {**claim, "text_unit_id": "u1", "object": "BTC"}]
    )
    table = link_covariates(
        claims, order("u2", "u1"), {"HALLORAN": "INES HALLORAN", "BTC": "BRANNOCK TIDAL CO-OPERATIVE"}
    )
    assert rows(
        contracts.COVARIATES.conform(table), "human_readable_id", "subject_id", "object_id", "text_unit_id"
    ) == [
        (0, "INES HALLORAN", "NONE", "u2"),
        (1, "INES HALLORAN", "BRANNOCK TIDAL CO-OPERATIVE", "u1"),
    ]


def test_links_go_both_ways() -> None:
    graph = merge(
        [entity("u2", "C")], [relationship("u1", "B", "A"), relationship("u2", "A", "C", 5)], order("u1", "u2", "u3")
    )
    ids_of = dict(rows(graph.entities, "title", "id"))
    links = text_unit_links(order("u1", "u2", "u3"), graph.entities, graph.relationships)
    assert links["text_unit_id"].to_pylist() == ["u1", "u2", "u3"]
    assert links["entity_ids"].to_pylist() == [[ids_of["A"], ids_of["B"]], [ids_of["A"], ids_of["C"]], []]
    assert links["relationship_ids"].to_pylist()[2] == []
    units = pa.table({"id": ["u1", "u2", "u3"], "human_readable_id": [0, 1, 2]})
    communities = pa.table({"community": [0, 1], "level": [0, 1], "entity_ids": [list(ids_of.values()), [ids_of["A"]]]})
    claims = pa.table({"human_readable_id": [0, 1], "subject_id": ["C", "NOBODY"]})
    tables = link_tables(units, graph.entities, graph.relationships, communities, claims)
    for name, table in tables.items():
        contract = {t.name: t for t in contracts.PUBLISHED}[name]
        contract.conform(table)
    assert rows(tables["text_unit_entities"], "text_unit", "entity", "relationships") == [
        (0, 0, 1),
        (1, 0, 1),
        (0, 1, 1),
        (1, 2, 1),
    ]
    assert rows(tables["entity_claims"], "entity", "claim") == [(2, 0)]
    assert rows(tables["community_occurrences"], "community", "text_units") == [(0, 2), (1, 2)]
    assert rows(tables["entity_neighbours"], "entity", "neighbour", "relationship") == [
        (0, 2, 0),
        (0, 1, 1),
        (1, 0, 1),
        (2, 0, 0),
    ]
    assert rows(tables["entity_communities"], "entity", "community", "level") == [
        (0, 0, 0),
        (0, 1, 1),
        (1, 0, 0),
        (2, 0, 0),
    ]
    assert rows(tables["relationship_text_units"], "relationship", "text_unit") == [(0, 1), (1, 0)]
