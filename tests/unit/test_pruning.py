"""Weights and pruning of the co-occurrence graph."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graphrag_assets.indexing.pruning import pmi_weights, prune_graph
from graphrag_assets.settings import PruneGraphSettings

STRINGS = pa.list_(pa.string())


def graph(
    units: dict[str, list[str]], pairs: dict[tuple[str, str], list[str]], types: dict[str, str] | None = None
) -> tuple[pa.Table, pa.Table]:
    """Entities by their text units and relationships by theirs; the weight is the number of text units."""
    titles = sorted(units)
    degree = {t: sum(t in pair for pair in pairs) for t in titles}
    entities = pa.table(
        {
            "title": pa.array(titles, pa.string()),
            "type": pa.array([(types or {}).get(t, "NOUN PHRASE") for t in titles], pa.string()),
            "text_unit_ids": pa.array([units[t] for t in titles], STRINGS),
            "frequency": pa.array([len(units[t]) for t in titles], pa.int64()),
            "degree": pa.array([degree[t] for t in titles], pa.int64()),
        }
    )
    ordered = sorted(pairs)
    relationships = pa.table(
        {
            "source": pa.array([a for a, _ in ordered], pa.string()),
            "target": pa.array([b for _, b in ordered], pa.string()),
            "weight": pa.array([float(len(pairs[p])) for p in ordered], pa.float64()),
            "text_unit_ids": pa.array([pairs[p] for p in ordered], STRINGS),
            "combined_degree": pa.array([degree[a] + degree[b] for a, b in ordered], pa.int64()),
        }
    )
    return entities, relationships


def unit_range(start: int, end: int) -> list[str]:
    return [f"u{i}" for i in range(start, end)]


def by_pair(table: pa.Table, column: str = "weight") -> dict[tuple[str, str], Any]:
    return dict(
        zip(
            zip(table["source"].to_pylist(), table["target"].to_pylist(), strict=True),
            table[column].to_pylist(),
            strict=True,
        )
    )


def settings(**values: Any) -> PruneGraphSettings:
    return PruneGraphSettings(**{"min_edge_weight_pct": 0, **values})


def test_weight_is_normalised_pmi_times_support() -> None:
    entities, relationships = graph(
        {
            "A": unit_range(0, 4),
            "B": unit_range(0, 4),
            "C": unit_range(0, 16),
            "D": unit_range(2, 6),
            "E": unit_range(0, 16),
        },
        {
            ("A", "B"): unit_range(0, 4),
            ("A", "C"): unit_range(0, 4),
            ("A", "D"): ["u2", "u3"],
            ("C", "E"): unit_range(0, 16),
        },
    )
    found = by_pair(pmi_weights(relationships, entities))
    assert found["A", "B"] == pytest.approx(math.log2(5)), "always together: npmi 1"
    assert found["A", "C"] == pytest.approx(0.5 * math.log2(5)), "C is everywhere: npmi 0"
    npmi = math.log(2 * 16 / (4 * 4)) / -math.log(2 / 16)
    assert found["A", "D"] == pytest.approx((1 + npmi) / 2 * math.log2(3))
    assert found["C", "E"] == pytest.approx(math.log2(17)), "in all text units together: the limit"


def test_chance_meetings_count_less_than_ties_and_often_more_than_once() -> None:
    entities, relationships = graph(
        {
            "HUB": unit_range(0, 90),
            "RARE": ["u1"],
            "X": unit_range(90, 100),
            "Y": unit_range(90, 100),
            "P": ["u0"],
            "Q": ["u0"],
        },
        {("HUB", "RARE"): ["u1"], ("X", "Y"): unit_range(90, 98), ("P", "Q"): ["u0"]},
    )
    found = by_pair(pmi_weights(relationships, entities))
    assert found["HUB", "RARE"] < found["P", "Q"] < found["X", "Y"]


@given(st.data())
@hypothesis_settings(deadline=None)
def test_weights_are_positive_and_finite(data: st.DataObject) -> None:
    titles = ["A", "B", "C", "D"]
    units = {t: data.draw(st.lists(st.sampled_from(unit_range(0, 6)), min_size=1, unique=True)) for t in titles}
    pairs = {
        (a, b): sorted(set(units[a]) & set(units[b]))
        for a in titles
        for b in titles
        if a < b and set(units[a]) & set(units[b])
    }
    entities, relationships = graph(units, pairs)
    weights = pmi_weights(relationships, entities)["weight"].to_numpy()
    assert (np.isfinite(weights) & (weights >= 0)).all()
    assert len(weights) == 0 or weights.max() <= math.log2(7)


def test_empty_graphs_pass() -> None:
    entities, relationships = graph({}, {})
    assert pmi_weights(relationships, entities).num_rows == 0
    pruned = prune_graph(entities, relationships, settings())
    assert (pruned.entities.num_rows, pruned.note) == (0, "")


def test_unknown_entity_is_named() -> None:
    entities, relationships = graph({"A": ["u"], "B": ["u"]}, {("A", "B"): ["u"]})
    entities = entities.slice(0, 1)
    with pytest.raises(ValueError, match="target 'B' is not among the entities"):
        prune_graph(entities, relationships, settings())


def test_rare_phrases_go_and_rare_names_with_a_relationship_stay() -> None:
    entities, relationships = graph(
        {
            "A": unit_range(0, 5),
            "B": unit_range(0, 5),
            "RARE PHRASE": ["u0"],
            "RARE NAME": ["u0"],
            "LONELY NAME": ["u1"],
        },
        {("A", "B"): unit_range(0, 5), ("A", "RARE PHRASE"): ["u0"], ("A", "RARE NAME"): ["u0"]},
        {"RARE NAME": "PERSON", "LONELY NAME": "PERSON"},
    )
    pruned = prune_graph(entities, relationships, settings(min_node_freq=2))
    assert pruned.entities["title"].to_pylist() == ["A", "B", "RARE NAME"]
    assert list(by_pair(pruned.relationships)) == [("A", "B"), ("A", "RARE NAME")]
    assert pruned.entities["degree"].to_pylist() == [2, 1, 1]
    assert pruned.relationships["combined_degree"].to_pylist() == [3, 3]
    assert pruned.dropped["entities_rare"] == 1


def test_light_relationships_go_and_leave_no_isolated_noise() -> None:
    entities, relationships = graph(
        {"A": unit_range(0, 9), "B": unit_range(0, 9), "PHRASE": unit_range(0, 3), "NAME": unit_range(0, 3)},
        {("A", "B"): unit_range(0, 9), ("A", "PHRASE"): ["u0"], ("A", "NAME"): ["u1"]},
        {"NAME": "PERSON"},
    )
    pruned = prune_graph(entities, relationships, settings(min_edge_weight_pct=80))
    assert pruned.entities["title"].to_pylist() == ["A", "B", "NAME"], "a frequent name stays for local search"
    assert list(by_pair(pruned.relationships)) == [("A", "B")]
    assert pruned.entities["degree"].to_pylist() == [1, 1, 0]


def test_the_hub_stays_unless_asked_otherwise() -> None:
    units = {"HUB": unit_range(0, 5), "A": unit_range(0, 3), "B": unit_range(0, 3)}
    pairs = {("A", "HUB"): unit_range(0, 3), ("B", "HUB"): unit_range(0, 3), ("A", "B"): unit_range(0, 3)}
    entities, relationships = graph({**units, "C": unit_range(3, 5)}, {**pairs, ("C", "HUB"): unit_range(3, 5)})
    assert "HUB" in prune_graph(entities, relationships, settings()).entities["title"].to_pylist()
    assert prune_graph(entities, relationships, settings(remove_ego_nodes=True)).entities["title"].to_pylist() == [
        "A",
        "B",
    ]


def test_bounds_by_deviation_and_largest_component() -> None:
    units = {t: unit_range(0, 2) for t in "ABCDEFG"} | {"HUB": unit_range(0, 60)}
    pairs = {(t, "HUB"): unit_range(0, 2) for t in "ABCDEFG"} | {
        ("A", "B"): unit_range(0, 2),
        ("B", "C"): unit_range(0, 2),
        ("D", "E"): unit_range(0, 2),
    }
    entities, relationships = graph(units, {tuple(sorted(p)): u for p, u in pairs.items()})  # type: ignore[misc]
    degrees = prune_graph(entities, relationships, settings(max_node_degree_std=2.0))
    assert degrees.entities["title"].to_pylist() == ["A", "B", "C", "D", "E"]
    frequency = prune_graph(entities, relationships, settings(max_node_freq_std=2.0, lcc_only=True))
    assert frequency.entities["title"].to_pylist() == ["A", "B", "C"]
    assert list(by_pair(frequency.relationships)) == [("A", "B"), ("B", "C")]


def test_never_prunes_everything() -> None:
    entities, relationships = graph({"A": ["u0"], "B": ["u0"]}, {("A", "B"): ["u0"]})
    pruned = prune_graph(entities, relationships, settings(min_node_freq=2))
    assert pruned.entities.num_rows == 2
    assert "kept whole" in pruned.note


def test_a_million_rows_take_seconds() -> None:
    n = 300_000
    rng = np.random.default_rng(0)
    titles = [f"T{i:07d}" for i in range(n)]
    ids = pa.array([f"u{i}" for i in range(1000)])
    lists = pa.ListArray.from_arrays(
        np.arange(0, 2 * n + 1, 2, dtype=np.int32), ids.take(pa.array(rng.integers(0, 1000, 2 * n)))
    )
    entities = pa.table({"title": titles, "type": ["PERSON"] * n, "text_unit_ids": lists, "frequency": np.full(n, 2)})
    pairs = np.unique(np.sort(rng.integers(0, n, (n, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    names = pa.array(titles)
    relationships = pa.table(
        {
            "source": names.take(pa.array(pairs[:, 0])),
            "target": names.take(pa.array(pairs[:, 1])),
            "weight": rng.integers(1, 9, len(pairs)).astype(float),
            "text_unit_ids": lists.take(pa.array(pairs[:, 0])),
        }
    )
    begun = time.process_time()
    pruned = prune_graph(
        entities, pmi_weights(relationships, entities), settings(min_edge_weight_pct=40, lcc_only=True)
    )
    assert time.process_time() - begun < 20
    assert 0 < pruned.relationships.num_rows < relationships.num_rows
