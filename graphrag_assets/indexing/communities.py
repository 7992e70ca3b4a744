"""Entities and relationships to a hierarchy of communities.

Policy:

* Every entity with a relationship to another one is in exactly one community per level, from level 0 down to its leaf.
  Entities without one are in no community; they are found by name and by vector in local search.
* Communities are connected, have two members or more, and nest: the children of a community hold all of its members.
* ``max_cluster_size`` is what the clustering aims at. A community that cannot be divided (a hub whose neighbours know
  only the hub) stays whole, and the statistics name it with the reason.
* Nothing depends on the order of rows: nodes are numbered by title, weights of a pair are summed.
* Where there is an earlier clustering, its communities stay as far as they can (:mod:`graphrag_assets.indexing.upkeep`),
  with their ids; they are made afresh where they may be worse than fresh ones by more than is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphrag_assets import ids
from graphrag_assets.indexing import leiden
from graphrag_assets.indexing.keeping import Earlier, Method, Standing, keep
from graphrag_assets.indexing.leiden import Graph, Part

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class LevelStatistics:
    """One level of the hierarchy.

    Args:
        level: Level; 0 is the coarsest.
        communities: Communities of the level.
        largest: Members of its largest community.
        modularity: Modularity of the partition by the deepest communities down to this level.
    """

    level: int
    communities: int
    largest: int
    modularity: float


@dataclass(frozen=True)
class Oversized:
    """A leaf that is larger than wanted.

    Args:
        community: Its number.
        size: Its members.
        reason: Why it was not divided.
    """

    community: int
    size: int
    reason: str


@dataclass(frozen=True)
class Clustering:
    """Result of :func:`cluster`.

    Args:
        communities: Rows of the communities table, in its canonical order.
        levels: Statistics by level.
        oversized: Leaves above ``max_cluster_size``.
        isolated: Entities without a relationship to another entity; they are in no community.
        outside_largest_component: Entities left out because only the largest component was asked for.
        dangling: Relationships left out because an end is no entity.
        standing: How it compares with a fresh clustering.
    """

    communities: pa.Table
    levels: tuple[LevelStatistics, ...]
    oversized: tuple[Oversized, ...]
    isolated: int
    outside_largest_component: int
    dangling: int
    standing: Standing


def cluster(
    entities: pa.Table,
    relationships: pa.Table,
    *,
    max_cluster_size: int = 10,
    use_lcc: bool = False,
    seed: int = 0xDEADBEEF,
    resolution: float = 1.0,
    dates: Mapping[str, str] | None = None,
    earlier: Earlier | None = None,
    max_drift: float = 0.01,
) -> Clustering:
    """Find communities by hierarchical Leiden clustering, or keep up those that there are.

    Args:
        entities: Columns id, title, text_unit_ids.
        relationships: Columns id, source, target, weight, text_unit_ids.
        max_cluster_size: Communities above this size are divided where they can be.
        use_lcc: Cluster only the largest connected component.
        seed: Seed of the random choices.
        resolution: Resolution of modularity.
        dates: Date (ISO 8601) of the document of a text unit, where it states one; gives the period of a community.
        earlier: A clustering of this corpus as it was, by the same settings, whose communities are to stay.
        max_drift: Share by which the modularity of communities that stay may be below that of fresh ones.

    Returns:
        Communities and statistics. Without relationships there are no communities.

    Raises:
        ValueError: A title occurs twice, or a weight is not a finite number of at least 0.
    """
    links = _Links.read(entities, relationships)
    graph = Graph.from_edges(len(links.titles), links.source, links.target, links.weight)
    clustered = np.diff(graph.indptr) > 0
    isolated = int(np.count_nonzero(~clustered))
    if use_lcc:
        clustered &= _largest_component(graph, clustered)
    nodes, spanned = _induced(graph, clustered)
    method = Method(max_cluster_size, seed, resolution)
    if earlier is None:
        tree = method.fresh(spanned)
        standing = Standing.of_fresh(spanned, tree, resolution)
    else:
        names = links.entity_ids.take(pa.array(nodes))
        tree, standing = keep(spanned, names, earlier, method, max_drift)
    numbered = _number(tree)
    whole = [community for level in numbered for community in level if community.part.unsplit]
    return Clustering(
        communities=_table(links, nodes, numbered, dates or {}),
        levels=_level_statistics(spanned, numbered, resolution),
        oversized=tuple(Oversized(c.number, len(c.part.nodes), c.part.unsplit) for c in whole),
        isolated=isolated,
        outside_largest_component=len(links.titles) - isolated - len(nodes),
        dangling=links.dangling,
        standing=standing,
    )


def modularity(relationships: pa.Table, membership: Mapping[str, int], resolution: float = 1.0) -> float:
    """Modularity of any partition of the entities.

    Args:
        relationships: Columns source, target, weight.
        membership: Community of each entity title; relationships with an end that is not in it are left out.
        resolution: Resolution.
    """
    known_titles = sorted(membership)
    titles = pa.array(known_titles, pa.string())
    numbers = np.array([membership[title] for title in known_titles], dtype=np.int64)
    _, labels = np.unique(numbers, return_inverse=True)
    source, target = _positions(relationships["source"], titles), _positions(relationships["target"], titles)
    known = (source >= 0) & (target >= 0)
    weight = _floats(relationships["weight"])[known]
    return leiden.modularity(Graph.from_edges(len(titles), source[known], target[known], weight), labels, resolution)


def membership(communities: pa.Table, level: int) -> dict[str, int]:
    """The community of each clustered entity at a level, or its leaf where the hierarchy ends above.

    Args:
        communities: Columns community, level, entity_ids, in canonical order.
        level: Deepest level.

    Returns:
        Number of the community by entity id.
    """
    result: dict[str, int] = {}
    for row in communities.select(["community", "level", "entity_ids"]).to_pylist():
        if row["level"] <= level:
            result |= dict.fromkeys(row["entity_ids"], row["community"])
    return result


# --- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Links:
    """Entities and relationships as integers: nodes are positions in the order of titles."""

    titles: pa.Array
    entity_ids: pa.Array
    entity_text_units: pa.ChunkedArray
    relationship_ids: pa.Array
    relationship_text_units: pa.ChunkedArray
    source: Integers
    target: Integers
    weight: NDArray[np.float64]
    dangling: int

    @classmethod
    def read(cls, entities: pa.Table, relationships: pa.Table) -> _Links:
        """Sort both tables into canonical order and check them."""
        entities = entities.select(["id", "title", "text_unit_ids"]).sort_by("title")
        titles = _array(entities["title"])
        repeated = pc.value_counts(titles)
        if len(repeated) < len(titles):
            title = next(item["values"].as_py() for item in repeated if item["counts"].as_py() > 1)
            raise ValueError(f"entities: title {title!r} occurs more than once; merge the rows of one title first")
        _check_weights(relationships)
        relationships = relationships.select(["id", "source", "target", "weight", "text_unit_ids"]).sort_by("id")
        source, target = _positions(relationships["source"], titles), _positions(relationships["target"], titles)
        known = (source >= 0) & (target >= 0)
        relationships = relationships.filter(pa.array(known))
        return cls(
            titles,
            _array(entities["id"]),
            entities["text_unit_ids"],
            _array(relationships["id"]),
            relationships["text_unit_ids"],
            source[known],
            target[known],
            leiden.binding(_floats(relationships["weight"])),
            int(np.count_nonzero(~known)),
        )


def _check_weights(relationships: pa.Table) -> None:
    weight = _floats(relationships["weight"])
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong):
        row = relationships.select(["source", "target", "weight"]).slice(int(wrong[0]), 1).to_pylist()[0]
        raise ValueError(
            f"relationships: weight of {row['source']!r} - {row['target']!r} is {row['weight']}; clustering needs "
            f"finite weights, not below 0 ({len(wrong)} of {len(weight)} rows have others). Drop or mend these rows"
        )


def _array(column: pa.ChunkedArray) -> pa.Array:
    """One array of plain strings, whatever string type and chunks the column has."""
    return pa.chunked_array(column.cast(pa.string()).chunks, type=pa.string()).combine_chunks()


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _positions(column: pa.ChunkedArray, values: pa.Array) -> Integers:
    """Position of each item among the values, -1 where it is not among them."""
    found = pc.fill_null(pc.index_in(column.cast(pa.string()), value_set=values), -1)
    return np.asarray(found.to_numpy(), dtype=np.int64)


def _largest_component(graph: Graph, clustered: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Members of the largest component; of equal ones, that with the first title."""
    if not clustered.any():
        return clustered
    component = graph.components()
    return np.asarray(component == int(np.bincount(component[clustered]).argmax()), dtype=np.bool_)


def _induced(graph: Graph, chosen: NDArray[np.bool_]) -> tuple[Integers, Graph]:
    """The chosen nodes and the graph that they span."""
    nodes = np.flatnonzero(chosen)
    if not len(nodes):
        return nodes, Graph(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0))
    return graph.parts(np.where(chosen, 0, 1))[0]


# --- numbering -------------------------------------------------------------------------------------------------------


@dataclass
class _Numbered:
    """A community with its place in the numbering."""

    number: int
    parent: int
    part: Part


def _number(tree: list[Part]) -> list[list[_Numbered]]:
    """Number the communities level by level, within a level by parent, then larger first, then by first title."""
    levels: list[list[_Numbered]] = []
    next_number = 0
    current = [(-1, part) for part in tree]
    while current:
        current.sort(key=lambda item: (item[0], -len(item[1].nodes), int(item[1].nodes[0])))
        level = [_Numbered(next_number + i, parent, part) for i, (parent, part) in enumerate(current)]
        next_number += len(level)
        levels.append(level)
        current = [(community.number, child) for community in level for child in community.part.children]
    return levels


def _level_statistics(graph: Graph, levels: list[list[_Numbered]], resolution: float) -> tuple[LevelStatistics, ...]:
    labels = np.zeros(graph.nodes, dtype=np.int64)
    statistics = []
    for depth, level in enumerate(levels):
        for community in level:
            labels[community.part.nodes] = community.number
        largest = max(len(community.part.nodes) for community in level)
        statistics.append(LevelStatistics(depth, len(level), largest, leiden.modularity(graph, labels, resolution)))
    return tuple(statistics)


# --- the table -------------------------------------------------------------------------------------------------------


def _table(links: _Links, nodes: Integers, levels: list[list[_Numbered]], dates: Mapping[str, str]) -> pa.Table:
    """All columns of the communities table; work on list columns is done on integer arrays, level by level."""
    communities = [community for level in levels for community in level]
    count = len(communities)
    text_units, (entity_units, relationship_units) = _encode([links.entity_text_units, links.relationship_text_units])
    inside: list[tuple[Integers, Integers]] = []
    mentioned: list[tuple[Integers, Integers]] = []
    for level in levels:
        number = np.full(len(links.titles), -1, dtype=np.int64)
        for community in level:
            number[nodes[community.part.nodes]] = community.number
        both = np.flatnonzero((number[links.source] == number[links.target]) & (number[links.source] >= 0))
        inside.append((number[links.source[both]], both))
        relationship_number = np.full(len(links.source), -1, dtype=np.int64)
        relationship_number[both] = number[links.source[both]]
        for owner, (row, unit) in ((number, entity_units), (relationship_number, relationship_units)):
            known = owner[row] >= 0
            mentioned.append((owner[row[known]], unit[known]))
    units = _Groups.of(mentioned, count, len(text_units))
    pairs = [(np.full(len(c.part.nodes), c.number), nodes[c.part.nodes]) for c in communities]
    entity_ids = _Groups.of(pairs, count, len(links.titles)).lists(links.entity_ids)
    children: list[list[int]] = [[] for _ in communities]
    for community in communities:
        if community.parent >= 0:
            children[community.parent].append(community.number)
    depth = [d for d, level in enumerate(levels) for _ in level]
    numbers = [community.number for community in communities]
    community_ids = _ids(communities, depth, entity_ids.to_pylist())
    columns = {
        "id": pa.array(community_ids, pa.string()),
        "human_readable_id": pa.array(numbers, pa.int64()),
        "community": pa.array(numbers, pa.int64()),
        "level": pa.array(depth, pa.int64()),
        "parent": pa.array([community.parent for community in communities], pa.int64()),
        "children": pa.array(children, pa.list_(pa.int64())),
        "title": pa.array([f"Community {number}" for number in numbers], pa.string()),
        "entity_ids": entity_ids,
        "relationship_ids": _Groups.of(inside, count, len(links.relationship_ids)).lists(links.relationship_ids),
        "text_unit_ids": units.lists(text_units),
        "period": pa.array(units.spans([dates.get(unit, "") for unit in text_units.to_pylist()]), pa.string()),
        "size": pa.array([len(community.part.nodes) for community in communities], pa.int64()),
    }
    return pa.table(columns)


def _ids(communities: list[_Numbered], depth: list[int], entity_ids: list[list[str]]) -> list[str]:
    """Ids: of communities that were there before their own, of new ones from level and members.

    A new one may consist of the very entities that one which has grown began with, whose id is taken.
    """
    found = [community.part.id for community in communities]
    taken = set(found)
    for i, (level, members) in enumerate(zip(depth, entity_ids, strict=True)):
        if not found[i]:
            found[i] = ids.community_id(level, members)
            while found[i] in taken:
                found[i] = ids.digest("community", found[i])
            taken.add(found[i])
    return found


def _encode(columns: list[pa.ChunkedArray]) -> tuple[pa.Array, list[tuple[Integers, Integers]]]:
    """List columns of strings as (row, position of the string among all strings, sorted)."""
    whole = [pa.chunked_array(column.chunks, column.type).combine_chunks() for column in columns]
    flat = [pc.list_flatten(column).cast(pa.string()) for column in whole]
    values = pc.unique(pa.concat_arrays(flat))
    values = values.take(pc.sort_indices(values))
    encoded = []
    for column, items in zip(whole, flat, strict=True):
        rows = np.asarray(pc.list_parent_indices(column).to_numpy(), dtype=np.int64)
        encoded.append((rows, _positions(pa.chunked_array([items]), values)))
    return values, encoded


@dataclass(frozen=True)
class _Groups:
    """Sets of integers, one per community.

    Args:
        offsets: Start of each set, and the end of the last.
        values: Members of the sets, ascending within a set.
    """

    offsets: Integers
    values: Integers

    @classmethod
    def of(cls, pairs: list[tuple[Integers, Integers]], groups: int, values: int) -> _Groups:
        """Gather pairs of (group, value), each pair once."""
        keys = [group * np.int64(max(values, 1)) + value for group, value in pairs]
        distinct = np.unique(np.concatenate(keys)) if keys else np.zeros(0, dtype=np.int64)
        group, value = np.divmod(distinct, np.int64(max(values, 1)))
        return cls(np.searchsorted(group, np.arange(groups + 1)), value)

    def lists(self, strings: pa.Array) -> pa.ListArray:
        """The sets as lists of the strings that the integers stand for."""
        return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), strings.take(pa.array(self.values)))

    def spans(self, dates: list[str]) -> list[str]:
        """'from/to' over the dates of each set, empty where none has one."""
        result = []
        for start, end in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            known = [date for value in self.values[start:end].tolist() if (date := dates[value])]
            result.append(f"{min(known)}/{max(known)}" if known else "")
        return result
