"""Communities that stay while the graph changes."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets import ids
from graphrag_assets.indexing.communities import Clustering, cluster
from graphrag_assets.indexing.keeping import Earlier
from graphrag_assets.indexing.upkeep import drift
from tests.unit.test_communities import Edge, caves, entity_table, relationship_table

SIZE = 6


class Corpus:
    """A graph that changes, and its clustering, kept up after each change."""

    def __init__(self, edges: list[Edge], **options: object) -> None:
        self.weights = {(s, t): w for s, t, w in edges}
        self.options = {"max_cluster_size": SIZE, **options}
        self.result = cluster(*self.tables(), **self.options)  # type: ignore[arg-type]
        self.kept_tables = self.tables()

    def tables(self) -> tuple[pa.Table, pa.Table]:
        titles = sorted({title for pair in self.weights for title in pair})
        return entity_table(titles), relationship_table([(s, t, w) for (s, t), w in sorted(self.weights.items())])

    def keep_up(self, **options: object) -> Clustering:
        entities, relationships = self.kept_tables
        standing = self.result.standing
        earlier = Earlier(self.result.communities, entities, relationships, standing.top, standing.leaves)
        self.kept_tables = self.tables()
        self.result = cluster(*self.kept_tables, earlier=earlier, **{**self.options, **options})  # type: ignore[arg-type]
        return self.result

    def fresh(self) -> Clustering:
        return cluster(*self.tables(), **self.options)  # type: ignore[arg-type]


def members(result: Clustering) -> dict[str, frozenset[str]]:
    return {row["id"]: frozenset(row["entity_ids"]) for row in result.communities.to_pylist()}


def check_sound(corpus: Corpus) -> None:
    """Cover, nesting, connection, bound."""
    rows = corpus.result.communities.to_pylist()
    graph = nx.Graph((ids.entity_id(s), ids.entity_id(t)) for s, t in corpus.weights)
    assert len({row["id"] for row in rows}) == len(rows)
    assert [row["community"] for row in rows] == list(range(len(rows)))
    by_parent: dict[int, list[str]] = defaultdict(list)
    reasons = {o.community for o in corpus.result.oversized}
    for row in rows:
        by_parent[row["parent"]] += row["entity_ids"]
        assert row["size"] == len(set(row["entity_ids"])) >= 2
        assert nx.is_connected(graph.subgraph(row["entity_ids"]))
        assert len(row["children"]) != 1
        if not row["children"] and row["size"] > SIZE:
            assert row["community"] in reasons, "a leaf above the bound has a reason"
    assert sorted(by_parent[-1]) == sorted(graph.nodes)
    for row in rows:
        if row["children"]:
            assert sorted(by_parent[row["community"]]) == sorted(row["entity_ids"])


def modularities(result: Clustering) -> tuple[float, float]:
    """Of level 0, and of the leaves."""
    return result.levels[0].modularity, result.levels[-1].modularity


NAMES = [f"N{i:02d}" for i in range(30)]
PAIRS = [(a, b) for i, a in enumerate(NAMES) for b in NAMES[i + 1 :]]
edits = st.lists(
    st.tuples(st.sampled_from(PAIRS), st.sampled_from([0.0, 0.5, 1.0, 3.0])).map(lambda edit: (*edit[0], edit[1])),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(edits, min_size=2, max_size=8), st.sampled_from([0.0, 0.01, 0.2]))
def test_sound_and_near_to_fresh_after_any_changes(steps: list[list[Edge]], max_drift: float) -> None:
    """A weight of 0 takes the relationship away."""
    start = {(s, t): w for s, t, w in [*steps[0], ("N00", "N01", 1.0)] if w}
    corpus = Corpus([(s, t, w) for (s, t), w in start.items()])
    for step in steps[1:]:
        for source, target, weight in step:
            if weight:
                corpus.weights[source, target] = weight
            elif len(corpus.weights) > 1:
                corpus.weights.pop((source, target), None)
        corpus.keep_up(max_drift=max_drift)
        check_sound(corpus)
        for kept, fresh in zip(modularities(corpus.result), modularities(corpus.fresh()), strict=True):
            assert kept >= fresh - max_drift * abs(fresh) - 1e-9


def test_nothing_changes_where_nothing_changed() -> None:
    corpus = Corpus(caves(8, 7))
    before = corpus.result
    after = corpus.keep_up()
    assert after.communities.equals(before.communities)
    assert after.standing.how == "kept"
    assert not after.standing.compared, "no fresh clustering is needed to know that nothing changed"


def test_a_change_touches_its_own_community_only() -> None:
    corpus = Corpus(caves(30, 9))
    before = members(corpus.result)
    corpus.weights["G05 N03", "NEW ONE"] = 1.0
    corpus.weights["G05 N04", "NEW ONE"] = 1.0
    del corpus.weights["G20 N07", "G20 N08"]
    after = members(corpus.keep_up())
    assert corpus.result.standing.how == "kept"
    new = ids.entity_id("NEW ONE")
    near = {entity for i in before.values() if ids.entity_id("G05 N03") in i for entity in i}
    near |= {entity for i in before.values() if ids.entity_id("G20 N07") in i for entity in i}
    untouched = {name for name, inside in before.items() if not inside & near}
    assert len(untouched) > 0.7 * len(before)
    assert all(after[name] == before[name] for name in untouched)
    joined = [name for name, inside in after.items() if new in inside and name in before]
    assert joined, "the community that a new entity joins keeps its id"
    assert all(after[name] >= before[name] for name in joined)


def test_ids_stay_when_the_graph_is_clustered_afresh() -> None:
    corpus = Corpus(caves(12, 7))
    before = members(corpus.result)
    names = [f"G{g:02d} N{i:02d}" for g in (3, 4) for i in range(7)]
    corpus.weights |= {(a, b): 5.0 for i, a in enumerate(names) for b in names[i + 1 :]}
    result = corpus.keep_up(max_drift=0.0)
    kept = members(result)
    assert result.standing.compared
    same = {name for name, inside in before.items() if kept.get(name) == inside}
    assert len(same) >= 0.5 * len(before)


def test_entities_that_go_take_nothing_else_along() -> None:
    corpus = Corpus(caves(20, 8))
    before = members(corpus.result)
    gone = [f"G07 N{i:02d}" for i in range(8)]
    corpus.weights = {pair: w for pair, w in corpus.weights.items() if not set(pair) & set(gone)}
    after = members(corpus.keep_up())
    lost = {ids.entity_id(name) for name in gone}
    assert all(not inside & lost for inside in after.values())
    alone = {name for name, inside in before.items() if not inside & lost}
    assert all(after[name] == before[name] for name in alone)


def test_a_long_life_costs_no_more_than_is_allowed() -> None:
    """A thousand small changes, one after the other."""
    chance = random.Random(4)
    corpus = Corpus(caves(25, 6))
    names = sorted({name for pair in corpus.weights for name in pair})
    compared = 0
    for _ in range(100):
        for _ in range(10):
            a, b = sorted(chance.sample(names, 2))
            corpus.weights[a, b] = chance.choice([0.5, 1.0, 2.0])
            if len(corpus.weights) > 350:
                del corpus.weights[chance.choice(sorted(corpus.weights))]
        compared += corpus.keep_up().standing.compared
        top, leaves = modularities(corpus.result)
        of_fresh = modularities(corpus.fresh())
        assert top >= of_fresh[0] * 0.99 - 1e-9
        assert leaves >= of_fresh[1] - abs(of_fresh[1]) * 0.01 - 1e-9
    check_sound(corpus)
    assert compared


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.5, 1.0, 2.0]))
def test_drift_bounds_the_modularity_of_every_partition(seed: int, resolution: float) -> None:
    from graphrag_assets.indexing import leiden

    chance = np.random.default_rng(seed)
    pairs = np.array([(a, b) for a in range(8) for b in range(a + 1, 8)])
    was, now = (chance.random(len(pairs)) * (chance.random(len(pairs)) < 0.5) for _ in range(2))
    if not was.sum() or not now.sum():
        return
    labels = chance.integers(0, 4, 8)

    def modularity(weight: np.ndarray) -> float:
        there = weight > 0
        graph = leiden.Graph.from_edges(8, pairs[there, 0], pairs[there, 1], weight[there])
        return leiden.modularity(graph, labels, resolution)

    assert abs(modularity(now) - modularity(was)) <= drift(was, now, resolution) + 1e-12


@pytest.mark.slow
def test_wordnet_keeps_nearly_all_of_its_communities(shared: Path) -> None:
    """Of 184,000 relationships one in a thousand goes, and as many come."""
    relations = pq.read_table(shared / "data/graph-scale-wordnet/relations.parquet", columns=["source", "target"])
    pairs = {
        tuple(sorted(pair))
        for pair in zip(relations["source"].to_pylist(), relations["target"].to_pylist(), strict=True)
    }
    corpus = Corpus([(a, b, 1.0) for a, b in sorted(pairs) if a != b], max_cluster_size=10)
    before = members(corpus.result)
    chance = random.Random(1)
    known = sorted(corpus.weights)
    names = sorted({name for pair in known for name in pair})
    for pair in chance.sample(known, len(known) // 1000):
        del corpus.weights[pair]
    for _ in range(len(known) // 1000):
        a, b = sorted(chance.sample(names, 2))
        corpus.weights[a, b] = 1.0
    after = members(corpus.keep_up())
    assert corpus.result.standing.how == "kept"
    assert sum(after.get(name) == inside for name, inside in before.items()) > 0.95 * len(before)
    for kept, of_fresh in zip(modularities(corpus.result), modularities(corpus.fresh()), strict=True):
        assert kept >= 0.99 * of_fresh
