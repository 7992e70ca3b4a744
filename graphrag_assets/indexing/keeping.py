"""Whether the communities of an earlier clustering may stay, and what they are compared with.

They may stay as long as their modularity is at most a set share below that of a fresh clustering. A fresh one need not be
made each time to know that: how far the graph has changed since bounds what a fresh one can have gained
(:func:`graphrag_assets.indexing.upkeep.drift`). Where they have fallen behind, they are mended before they are given up:
all entities may move to better communities of level 0, and the communities that gain most by it are divided anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphrag_assets.indexing import leiden
from graphrag_assets.indexing.leiden import Graph, Part
from graphrag_assets.indexing.upkeep import Before, drift, identities, keep_up, lifted

Integers = NDArray[np.int64]

#: In how many ways a community is divided, of which the best is taken, where its division is to be better than it was.
_WAYS = 8


@dataclass(frozen=True)
class Standing:
    """How a clustering compares with a fresh one.

    Args:
        how: fresh: there was none before, or it was asked for; kept: earlier communities were kept up; renewed: they had
            fallen too far behind, and were made afresh.
        top: Modularity of level 0 that a fresh clustering may reach, at most.
        leaves: The same of the deepest communities.
        compared: Whether a fresh clustering was made to compare with.
    """

    how: Literal["fresh", "kept", "renewed"]
    top: float
    leaves: float
    compared: bool = True

    @classmethod
    def of_fresh(
        cls, graph: Graph, tree: Sequence[Part], resolution: float, how: Literal["fresh", "renewed"] = "fresh"
    ) -> Standing:
        """Standing of a fresh clustering."""
        return cls(how, *_modularities(graph, tree, resolution))


@dataclass(frozen=True)
class Earlier:
    """A clustering as it was.

    Args:
        communities: Columns id, community, parent, entity_ids.
        entities: Columns id, title of its entities.
        relationships: Columns source, target, weight of its relationships.
        top: What it knew of fresh clusterings: see :class:`Standing`.
        leaves: The same of the deepest communities.
    """

    communities: pa.Table
    entities: pa.Table
    relationships: pa.Table
    top: float
    leaves: float


@dataclass(frozen=True)
class Method:
    """How communities are made; see :func:`graphrag_assets.indexing.leiden.hierarchy`."""

    max_size: int
    seed: int
    resolution: float

    def fresh(self, graph: Graph) -> list[Part]:
        """A fresh clustering."""
        return leiden.hierarchy(graph, max_size=self.max_size, seed=self.seed, resolution=self.resolution)

    def divide(self, graph: Graph, turn: int) -> Part:
        """A fresh clustering of the inside of one community; another one each turn."""
        return leiden.divide(graph, max_size=self.max_size, seed=(self.seed + turn) % 2**64, resolution=self.resolution)


def keep(
    graph: Graph, entity_ids: pa.Array, earlier: Earlier, method: Method, max_drift: float
) -> tuple[list[Part], Standing]:
    """Communities of a graph: those of before as far as they can stay.

    Args:
        graph: The graph of now; every node has a neighbour.
        entity_ids: Id of the entity of each node.
        earlier: The clustering of before.
        method: How communities are made.
        max_drift: Share by which the modularity may be below that of a fresh clustering.

    Returns:
        Communities of level 0 with their descendants, and their standing.
    """
    before = _tree_before(earlier.communities, entity_ids)
    pairs, was, now = _weights(graph, entity_ids, earlier)
    changed = pairs[was != now]
    tree = keep_up(graph, before, changed, max_size=method.max_size, seed=method.seed, resolution=method.resolution)
    top, leaves = _modularities(graph, tree, method.resolution)
    gained = drift(was, now, method.resolution)
    standing = Standing("kept", earlier.top + gained, earlier.leaves + gained, compared=False)
    if _close(top, standing.top, max_drift) and _close(leaves, standing.leaves, max_drift):
        return tree, standing
    fresh = method.fresh(graph)
    best_top, best_leaves = _modularities(graph, fresh, method.resolution)
    if not _close(top, best_top, max_drift):
        tree = keep_up(
            graph,
            before,
            changed,
            max_size=method.max_size,
            seed=method.seed,
            resolution=method.resolution,
            everywhere=True,
        )
        top, leaves = _modularities(graph, tree, method.resolution)
    if _close(top, best_top, max_drift) and not _close(leaves, best_leaves, max_drift):
        wanted = best_leaves - max_drift * abs(best_leaves)
        tree = _divided_anew(graph, tree, before, method, wanted - leaves)
        top, leaves = _modularities(graph, tree, method.resolution)
    if _close(top, best_top, max_drift) and _close(leaves, best_leaves, max_drift):
        return tree, Standing("kept", max(top, best_top), max(leaves, best_leaves))
    _name(fresh, before, graph.nodes)
    return fresh, Standing("renewed", best_top, best_leaves)


def _divided_anew(
    graph: Graph, tree: Sequence[Part], before: Sequence[Before], method: Method, lacking: float
) -> list[Part]:
    """Divide communities of the two top levels anew, until the leaves have gained as much modularity as is lacking.

    How well a clustering divides its communities varies by more than a hundredth from one seed to the next. To take all
    of a fresh one for that would change most communities; the modularity of the leaves is a sum over communities, so that
    a few of them can make up for it: those that gain most for each of their entities.
    """
    strength = np.bincount(graph.rows, weights=graph.data, minlength=graph.nodes)
    total = float(graph.data.sum())

    def of_leaves(part: Part, nodes: Integers, spanned: Graph) -> float:
        labels = np.empty(len(nodes), dtype=np.int64)
        for number, leaf in enumerate(_leaves([part])):
            labels[np.searchsorted(nodes, leaf.nodes)] = number
        inside = float(spanned.data[labels[spanned.rows] == labels[spanned.indices]].sum())
        mass = np.bincount(labels, weights=strength[nodes])
        return inside / total - method.resolution * float(np.square(mass / total).sum())

    made: list[tuple[float, int, Part, Part]] = []
    for parts in (list(tree), [child for part in tree for child in part.children or [part]]):
        for part, (nodes, spanned) in zip(parts, graph.parts(_labels(parts, graph.nodes)), strict=True):
            if len(nodes) <= method.max_size or any(part is known for *_, known, _ in made):
                continue
            ways = [lifted(method.divide(spanned, turn), nodes) for turn in range(_WAYS)]
            worth = [of_leaves(way, nodes, spanned) for way in ways]
            best = int(np.argmax(worth))
            made.append((worth[best] - of_leaves(part, nodes, spanned), len(made), part, ways[best]))
    former = _by_id(before)
    done = np.zeros(graph.nodes, dtype=bool)
    for gain, _, part, fresh in sorted(made, key=lambda item: (-item[0] / len(item[2].nodes), item[1])):
        if gain <= 0 or lacking <= 0:
            break
        if done[part.nodes].any():
            continue
        done[part.nodes] = True
        part.children, part.unsplit, lacking = fresh.children, fresh.unsplit, lacking - gain
        if part.id in former:
            _name(part.children, former[part.id].children, graph.nodes)
    return list(tree)


def _by_id(communities: Sequence[Before]) -> dict[str, Before]:
    """Communities and all that is below them, by id."""
    found = {community.id: community for community in communities}
    for community in communities:
        found |= _by_id(community.children)
    return found


def _close(modularity: float, of_fresh: float, max_drift: float) -> bool:
    return modularity >= of_fresh - max_drift * abs(of_fresh)


def _modularities(graph: Graph, tree: Sequence[Part], resolution: float) -> tuple[float, float]:
    """Modularity of level 0, and of the leaves."""
    leaves = _leaves(tree)
    found = [leiden.modularity(graph, _labels(parts, graph.nodes), resolution) for parts in (tree, leaves)]
    return found[0], found[1]


def _leaves(tree: Sequence[Part]) -> list[Part]:
    leaves: list[Part] = []
    waiting = list(tree)
    while waiting:
        part = waiting.pop()
        waiting += part.children
        if not part.children:
            leaves.append(part)
    return leaves


def _labels(parts: Sequence[Part], nodes: int) -> Integers:
    labels = np.zeros(nodes, dtype=np.int64)
    for number, part in enumerate(parts):
        labels[part.nodes] = number
    return labels


def _tree_before(communities: pa.Table, entity_ids: pa.Array) -> list[Before]:
    """The former hierarchy, by the nodes of now."""
    rows: list[dict[str, Any]] = communities.select(["id", "community", "parent", "entity_ids"]).to_pylist()
    position = {entity: node for node, entity in enumerate(entity_ids.to_pylist())}
    found: dict[int, Before] = {}
    for row in rows:
        members = row["entity_ids"]
        nodes = np.array(sorted(position[e] for e in members if e in position), dtype=np.int64)
        found[row["community"]] = Before(row["id"], nodes, len(nodes) == len(members))
    for row in rows:
        if row["parent"] in found:
            found[row["parent"]].children.append(found[row["community"]])
    return [found[row["community"]] for row in rows if row["parent"] not in found]


def _weights(
    graph: Graph, entity_ids: pa.Array, earlier: Earlier
) -> tuple[Integers, NDArray[np.float64], NDArray[np.float64]]:
    """Every pair that is or was related, with its weight before and now.

    Returns:
        Pairs of nodes, -1 for an entity that is not in the graph any more, shape (pairs, 2); weights, 0 where there is
        no relationship.
    """
    titles = earlier.entities["title"].combine_chunks().cast(pa.string())
    ids_before = earlier.entities["id"].combine_chunks().cast(pa.string())
    ends = []
    for name in ("source", "target"):
        place = pc.index_in(earlier.relationships[name].cast(pa.string()), value_set=titles)
        end = pc.index_in(pc.take(ids_before, place), value_set=entity_ids.cast(pa.string()))
        ends.append(np.asarray(pc.fill_null(end, -1).to_numpy(), dtype=np.int64))
    weight = np.asarray(earlier.relationships["weight"].cast(pa.float64()).to_numpy(), dtype=np.float64)
    weight = leiden.binding(weight)
    low, high = np.minimum(*ends), np.maximum(*ends)
    rows = graph.rows
    once = rows < graph.indices
    a, b = np.r_[low, rows[once]], np.r_[high, graph.indices[once].astype(np.int64)]
    was = np.r_[weight, np.zeros(int(once.sum()))]
    now = np.r_[np.zeros(len(weight)), graph.data[once]]
    # Pairs with an end that is gone stay apart from each other: each is a change of its own.
    span = graph.nodes + 1
    keys = np.where(low >= 0, low * span + high, -1 - np.arange(len(low)))
    keys = np.r_[keys, a[len(low) :] * span + b[len(low) :]]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    pairs = np.stack([a[first], b[first]], axis=1)
    before, after = (np.bincount(which, weights=weights).astype(np.float64) for weights in (was, now))
    return pairs, before, after


def _name(tree: Sequence[Part], before: Sequence[Before], nodes: int) -> None:
    """Give the communities of a fresh clustering the ids of those of before that most of their members come from."""
    level, former = list(tree), list(before)
    while level and former:
        labels = np.full(nodes, -1, dtype=np.int64)
        for number, part in enumerate(level):
            labels[part.nodes] = number
        origin = np.full(nodes, -1, dtype=np.int64)
        for number, community in enumerate(former):
            origin[community.nodes] = number
        origin[labels < 0] = -1
        for number, earlier in identities(origin, labels).items():
            level[number].id = former[earlier].id
        level = [child for part in level for child in part.children]
        former = [child for community in former for child in community.children]
