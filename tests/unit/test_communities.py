"""Communities: what must hold for every graph, and how the result compares with recorded ones."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets import ids
from graphrag_assets.indexing.communities import Clustering, cluster, membership, modularity

Edge = tuple[str, str, float]


def entity_table(titles: list[str]) -> pa.Table:
    rows = [{"id": ids.entity_id(t), "title": t, "text_unit_ids": [f"unit-{i % 7}"]} for i, t in enumerate(titles)]
    schema = pa.schema([("id", pa.string()), ("title", pa.string()), ("text_unit_ids", pa.list_(pa.string()))])
    return pa.Table.from_pylist(rows, schema=schema)


def relationship_table(edges: list[Edge]) -> pa.Table:
    columns = {
        "id": pa.array([ids.relationship_id(s, t) for s, t, _ in edges], pa.string()),
        "source": pa.array([s for s, _, _ in edges], pa.string()),
        "target": pa.array([t for _, t, _ in edges], pa.string()),
        "weight": pa.array([w for _, _, w in edges], pa.float64()),
        "text_unit_ids": pa.array([[f"unit-{s}-{t}"] for s, t, _ in edges], pa.list_(pa.string())),
    }
    return pa.table(columns)


def caves(groups: int, size: int) -> list[Edge]:
    """Rings of cliques: groups that are close inside and loosely tied to the next."""
    edges = []
    for g in range(groups):
        names = [f"G{g:02d} N{i:02d}" for i in range(size)]
        edges += [(a, b, 2.0) for i, a in enumerate(names) for b in names[i + 1 :]]
        edges.append((names[0], f"G{(g + 1) % groups:02d} N01", 1.0))
    return edges


def run(edges: list[Edge], lonely: list[str] | None = None, **options: object) -> Clustering:
    titles = sorted({title for s, t, _ in edges for title in (s, t)} | set(lonely or []))
    return cluster(entity_table(titles), relationship_table(edges), **options)  # type: ignore[arg-type]


def check_invariants(result: Clustering, edges: list[Edge], size: int) -> None:
    rows = result.communities.to_pylist()
    titles = sorted({title for s, t, _ in edges for title in (s, t)})
    by_id = {ids.entity_id(t): t for t in titles}
    graph = nx.Graph((s, t) for s, t, _ in edges if s != t)
    assert [r["community"] for r in rows] == list(range(len(rows))), "numbers are consecutive"
    assert [r["level"] for r in rows] == sorted(r["level"] for r in rows)
    at_level: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        members = [by_id[i] for i in row["entity_ids"]]
        at_level[row["level"]] += members
        assert members == sorted(members), "members stand in the order of the entities table"
        assert row["size"] == len(members) >= 2
        assert nx.is_connected(graph.subgraph(members)), f"community {row['community']} is not connected"
        inside = sorted(ids.relationship_id(s, t) for s, t, _ in edges if s in members and t in members)
        assert row["relationship_ids"] == inside
        assert row["text_unit_ids"] == sorted(set(row["text_unit_ids"]))
        assert row["id"] == ids.community_id(row["level"], row["entity_ids"])
        assert row["title"] == f"Community {row['community']}"
        assert row["human_readable_id"] == row["community"]
        children = [r for r in rows if r["parent"] == row["community"]]
        assert [c["community"] for c in children] == row["children"]
        assert (row["parent"] == -1) == (row["level"] == 0)
        if children:
            assert len(children) > 1
            assert all(c["level"] == row["level"] + 1 for c in children)
            covered = sorted(i for c in children for i in c["entity_ids"])
            assert covered == sorted(row["entity_ids"]), "children cover their parent"
    assert sorted(at_level[0]) == sorted(graph.nodes), "level 0 covers every entity with a relationship once"
    assert all(len(members) == len(set(members)) for members in at_level.values()), "one community per level"
    told = {o.community for o in result.oversized}
    assert told == {r["community"] for r in rows if not r["children"] and r["size"] > size}


names = st.integers(0, 25).map(lambda i: f"E{i:02d}")
graphs = st.dictionaries(
    st.tuples(names, names).filter(lambda p: p[0] < p[1]), st.floats(1e-3, 100), min_size=1, max_size=70
).map(lambda d: [(s, t, w) for (s, t), w in d.items()])


@settings(max_examples=60, deadline=None)
@given(graphs, st.integers(2, 8), st.floats(0.3, 4.0), st.randoms(use_true_random=False))
def test_any_graph_gives_nested_connected_communities_whatever_the_order_of_its_rows(
    edges: list[Edge], size: int, resolution: float, rng: random.Random
) -> None:
    titles = sorted({title for s, t, _ in edges for title in (s, t)})
    entities, relationships = entity_table(titles), relationship_table(edges)
    result = cluster(entities, relationships, max_cluster_size=size, resolution=resolution)
    check_invariants(result, edges, size)
    shuffled_entities = entities.take(rng.sample(range(len(titles)), len(titles)))
    shuffled = [(t, s, w) if rng.random() < 0.5 else (s, t, w) for s, t, w in rng.sample(edges, len(edges))]
    again = cluster(shuffled_entities, relationship_table(shuffled), max_cluster_size=size, resolution=resolution)
    for column in ("id", "community", "level", "parent", "children", "entity_ids", "relationship_ids"):
        assert again.communities[column].to_pylist() == result.communities[column].to_pylist()


def test_cliques_come_out_as_communities() -> None:
    edges = caves(6, 8)
    result = run(edges, max_cluster_size=10)
    check_invariants(result, edges, 10)
    assert sorted(r["size"] for r in result.communities.to_pylist() if r["level"] == 0) == [8] * 6
    assert result.levels[0].modularity > 0.7
    assert not result.oversized


def test_large_communities_are_divided_until_they_fit() -> None:
    edges = caves(40, 5)
    result = run(edges, max_cluster_size=5, resolution=0.1)
    check_invariants(result, edges, 5)
    leaves = [r for r in result.communities.to_pylist() if not r["children"]]
    assert max(r["size"] for r in leaves) <= 5
    assert len(result.levels) > 1
    assert max(result.communities["size"].to_pylist()) > 5


def test_a_community_that_modularity_would_keep_is_divided_at_a_higher_resolution() -> None:
    """A clique of 12 has no modular structure; it is divided all the same, since it is above the wanted size."""
    names = [f"N{i:02d}" for i in range(12)]
    edges = [(a, b, 1.0 + (i == 0)) for i, a in enumerate(names) for b in names[i + 1 :]]
    result = run(edges, max_cluster_size=6)
    check_invariants(result, edges, 6)


def test_a_star_stays_whole_and_the_statistics_say_why() -> None:
    edges = [("HUB", f"LEAF {i}", 1.0) for i in range(15)]
    result = run(edges, max_cluster_size=10)
    check_invariants(result, edges, 10)
    assert result.communities.num_rows == 1
    (oversized,) = result.oversized
    assert (oversized.community, oversized.size) == (0, 16)
    assert "connected parts of two members" in oversized.reason


def test_isolated_entities_and_self_relationships_are_in_no_community() -> None:
    result = run([("A", "B", 1.0), ("C", "C", 5.0)], lonely=["D"])
    (row,) = result.communities.to_pylist()
    assert row["entity_ids"] == [ids.entity_id("A"), ids.entity_id("B")]
    assert result.isolated == 2


@pytest.mark.parametrize("titles", [[], ["ALONE"]])
def test_no_relationships_give_no_communities(titles: list[str]) -> None:
    result = cluster(entity_table(titles), relationship_table([]))
    assert result.communities.num_rows == 0
    assert result.communities.schema.field("children").type == pa.list_(pa.int64())
    assert result.levels == ()


def test_only_the_largest_component_where_that_is_wanted() -> None:
    edges = [("A", "B", 1.0), ("X", "Y", 1.0), ("Y", "Z", 1.0)]
    result = run(edges, lonely=["LONE"], use_lcc=True)
    (row,) = result.communities.to_pylist()
    assert row["entity_ids"] == [ids.entity_id(t) for t in "XYZ"]
    assert (result.outside_largest_component, result.isolated) == (2, 1)


def test_weights_of_repeated_and_reverse_rows_are_summed() -> None:
    once = run([*caves(4, 4), ("G00 N02", "G01 N02", 60.0)], max_cluster_size=8)
    split = [*caves(4, 4), ("G00 N02", "G01 N02", 20.0), ("G01 N02", "G00 N02", 40.0)]
    titles = sorted({title for s, t, _ in split for title in (s, t)})
    again = cluster(entity_table(titles), relationship_table(split), max_cluster_size=8)
    assert again.communities["entity_ids"].to_pylist() == once.communities["entity_ids"].to_pylist()


def test_relationships_with_unknown_ends_are_left_out_and_counted() -> None:
    result = cluster(entity_table(["A", "B"]), relationship_table([("A", "B", 1.0), ("A", "NOBODY", 1.0)]))
    assert result.dangling == 1
    assert result.communities["relationship_ids"].to_pylist() == [[ids.relationship_id("A", "B")]]


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -1.0, None])
def test_weights_that_cannot_be_used_are_named(weight: float | None) -> None:
    with pytest.raises(ValueError, match=r"'B' - 'C'.*finite weights, not below 0 \(1 of 2"):
        run([("A", "B", 1.0), ("B", "C", weight)])  # type: ignore[list-item]


def test_relationships_of_weight_zero_hardly_bind_but_keep_their_entities() -> None:
    clique = caves(1, 4)
    result = run([*clique, ("G00 N00", "WEAK", 0.0), ("X", "Y", 0.0)])
    members = [set(row["entity_ids"]) for row in result.communities.to_pylist() if row["level"] == 0]
    assert {ids.entity_id("X"), ids.entity_id("Y")} in members
    assert any(ids.entity_id("WEAK") in m for m in members)
    assert run([("A", "B", 0.0)]).communities.num_rows == 1


def test_a_title_that_occurs_twice_is_named() -> None:
    with pytest.raises(ValueError, match="'B' occurs more than once"):
        cluster(entity_table(["A", "B", "B"]), relationship_table([("A", "B", 1.0)]))


def test_text_units_and_period_come_from_members_and_relationships() -> None:
    entities = entity_table(["A", "B"])
    dates = {"unit-0": "2032-05-04", "unit-A-B": "2031-11-17", "unit-9": "1999-01-01"}
    (row,) = cluster(entities, relationship_table([("A", "B", 1.0)]), dates=dates).communities.to_pylist()
    assert row["text_unit_ids"] == ["unit-0", "unit-1", "unit-A-B"]
    assert row["period"] == "2031-11-17/2032-05-04"
    (row,) = cluster(entities, relationship_table([("A", "B", 1.0)])).communities.to_pylist()
    assert row["period"] == ""


def test_a_change_elsewhere_leaves_the_inner_structure_of_a_community_alone() -> None:
    random_graph = nx.planted_partition_graph(6, 20, 0.35, 0.01, seed=5)
    near, far = [(f"N{a:03d}", f"N{b:03d}", 1.0) for a, b in random_graph.edges], [("FAR A", "FAR B", 1.0)]

    def children(edges: list[Edge]) -> dict[str, list[str]]:
        rows = run(edges, max_cluster_size=10).communities.to_pylist()
        return {row["id"]: [rows[child]["id"] for child in row["children"]] for row in rows}

    before, after = children(near), children(near + far)
    shared_ids = set(before) & set(after)
    assert sum(len(before[i]) > 1 for i in shared_ids) >= 4
    assert all(before[i] == after[i] for i in shared_ids)


def test_chunked_tables_give_the_same_communities() -> None:
    edges = caves(5, 6)
    titles = sorted({title for s, t, _ in edges for title in (s, t)})
    entities, relationships = entity_table(titles), relationship_table(edges)
    chunked = pa.concat_tables([entities.slice(0, 7), entities.slice(7)])
    pieces = pa.concat_tables([relationships.slice(0, 11), relationships.slice(11, 20), relationships.slice(31)])
    assert cluster(chunked, pieces).communities.equals(cluster(entities, relationships).communities)


def test_modularity_is_that_of_networkx() -> None:
    edges = caves(5, 4)
    result = run(edges)
    by_id = {ids.entity_id(t): t for s, t2, _ in edges for t in (s, t2)}
    members = {by_id[i]: c for i, c in membership(result.communities, 0).items()}
    groups = defaultdict(set)
    for title, community in members.items():
        groups[community].add(title)
    graph = nx.Graph()
    graph.add_weighted_edges_from(edges)
    expected = nx.community.modularity(graph, groups.values(), weight="weight")
    assert modularity(relationship_table(edges), members) == pytest.approx(expected)
    assert result.levels[0].modularity == pytest.approx(expected)


@pytest.mark.parametrize("folder", ["carol-recorded-run/expected", "index-carol-msft"])
def test_as_good_as_the_recorded_communities(shared: Path, folder: str) -> None:
    """Another release of the clustering library draws other communities; their modularity may not be worse."""
    names = ("entities", "relationships", "communities")
    entities, relationships, communities = (
        pq.read_table(shared / "data" / folder / f"{name}.parquet") for name in names
    )
    result = cluster(entities, relationships)
    titles = dict(zip(entities["id"].to_pylist(), entities["title"].to_pylist(), strict=True))
    edges = [
        (s, t, w)
        for s, t, w in zip(*(relationships[c].to_pylist() for c in ("source", "target", "weight")), strict=True)
        if s in set(titles.values()) and t in set(titles.values())
    ]
    graph = nx.Graph((s, t) for s, t, _ in edges)
    for row in result.communities.to_pylist():
        assert nx.is_connected(graph.subgraph([titles[i] for i in row["entity_ids"]]))
        assert row["size"] >= 2
    theirs = membership(communities, 0).items()
    recorded = {titles[i]: c for i, c in theirs if i in titles and titles[i] in graph}
    ours = {titles[i]: c for i, c in membership(result.communities, 0).items()}
    assert set(ours) == set(graph.nodes) >= set(recorded)
    both = {title: ours[title] for title in recorded}
    assert modularity(relationships, both) >= 0.99 * modularity(relationships, recorded)


@pytest.mark.slow
def test_a_graph_of_117_000_nodes(shared: Path) -> None:
    relations = pq.read_table(shared / "data/graph-scale-wordnet/relations.parquet")
    titles = pq.read_table(shared / "data/graph-scale-wordnet/synsets.parquet")["synset_id"].to_pylist()
    count = relations.num_rows
    relationships = pa.table(
        {
            "id": [f"{i:06d}" for i in range(count)],
            "source": relations["source"],
            "target": relations["target"],
            "weight": [1.0] * count,
            "text_unit_ids": pa.array([[f"unit-{i // 60}"] for i in range(count)]),
        }
    )
    result = cluster(entity_table(titles), relationships)
    assert result.levels[0].modularity > 0.86
    assert len(membership(result.communities, 0)) == len(titles) - result.isolated
    assert max(o.size for o in result.oversized) < 1000
