"""Upkeep of a hierarchy of communities after its graph changed: what was not touched stays as it is.

Going down from the top, at each community:

1. Entities that were there before stay with their community. A new one joins the neighbouring community to which it is
   bound most strongly; new ones that know only each other are clustered among themselves.
2. On level 0 the ends of changed relationships may move to a neighbouring community where that raises modularity; a move
   lets the neighbours look again (local moving from a frontier, as in Dynamic Frontier Leiden, Sahu 2024, and, with
   bounds, HIT-Leiden, Lin et al. 2026).
3. A community that fell apart is divided into its connected parts; a part of one entity joins its closest neighbour.
4. A community with the members and the inner relationships of before keeps all that is below it. One that outgrew the
   size wanted is clustered afresh; any other one is kept up in the same way, one level deeper.

A community keeps its id as long as most of its entities that still exist are in it. Nothing here decides whether the
result is still good: see :func:`drift`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphrag_assets.indexing import leiden
from graphrag_assets.indexing.leiden import Graph, Part

Integers = NDArray[np.int64]

#: A move must raise modularity by more than this share of the total weight: rounding must not move anything for ever.
_LEAST_GAIN = 1e-12


@dataclass
class Before:
    """A community as it was.

    Args:
        id: Its id.
        nodes: Its members that still are in the graph, ascending, by their numbers in the graph of now.
        whole: Whether all of its members still are.
        children: Its children.
    """

    id: str
    nodes: Integers
    whole: bool
    children: list[Before] = field(default_factory=list)


def keep_up(
    graph: Graph,
    before: Sequence[Before],
    changed: Integers,
    *,
    max_size: int,
    seed: int,
    resolution: float,
    everywhere: bool = False,
) -> list[Part]:
    """The hierarchy of a graph, as near as may be to the one before the graph changed.

    Args:
        graph: The graph of now; every node has a neighbour.
        before: Communities of level 0 with their descendants.
        changed: Relationships that are new, gone or of another weight, as pairs of nodes, shape (pairs, 2); one end is
            -1 where it is no longer in the graph.
        max_size: Communities above this size are divided where they can be.
        seed: Seed of the random choices.
        resolution: Resolution of modularity.
        everywhere: Whether all nodes may move to another community of level 0, not only those near a change.

    Returns:
        Communities of level 0 with their descendants; connected, nested, of two members or more. Those that were there
        before carry their id.
    """
    if not graph.nodes:
        return []
    return _Upkeep(max_size, seed, resolution, everywhere).level(graph, before, changed, top=True)


@dataclass(frozen=True)
class _Upkeep:
    max_size: int
    seed: int
    resolution: float
    everywhere: bool

    def level(self, graph: Graph, before: Sequence[Before], changed: Integers, *, top: bool = False) -> list[Part]:
        """Communities of one level inside one parent; all nodes go by their numbers in the graph.

        Args:
            graph: What the members of the parent span.
            before: The former children of the parent.
            changed: Changed relationships with an end in the parent.
            top: Whether this is level 0.
        """
        former = np.full(graph.nodes, -1, dtype=np.int64)
        for i, community in enumerate(before):
            former[community.nodes] = i
        labels = self._joined(graph, former)
        if top:
            near = np.r_[changed[changed >= 0], np.flatnonzero(former < 0)]
            frontier = np.arange(graph.nodes) if self.everywhere else np.unique(near)
            labels = _moved(graph, labels, frontier, self.resolution)
        labels = _connected(graph, labels)
        kept = identities(former, labels)
        inner = changed[(changed >= 0).all(axis=1)]
        touched = np.zeros(int(labels.max()) + 1, dtype=bool)
        touched[labels[inner[labels[inner[:, 0]] == labels[inner[:, 1]], 0]]] = True
        parts = []
        for number, (members, spanned) in enumerate(graph.parts(labels)):
            earlier = before[kept[number]] if number in kept else None
            if earlier and earlier.whole and not touched[number] and np.array_equal(earlier.nodes, members):
                parts.append(_as_before(earlier, self.max_size))
            else:
                parts.append(self._part(earlier, spanned, members, _renumbered(inner, members)))
        return parts

    def _part(self, earlier: Before | None, spanned: Graph, nodes: Integers, changed: Integers) -> Part:
        """One community with what is below it."""
        part = Part(nodes, id=earlier.id if earlier else "")
        if len(nodes) <= self.max_size:
            return part
        if earlier and earlier.children:
            children = self.level(spanned, _within(earlier.children, nodes), changed)
            if len(children) > 1:
                part.children = [lifted(child, nodes) for child in children]
                return part
        fresh = leiden.divide(spanned, max_size=self.max_size, seed=self.seed, resolution=self.resolution)
        part.unsplit = fresh.unsplit
        part.children = [lifted(child, nodes) for child in fresh.children]
        return part

    def _joined(self, graph: Graph, former: Integers) -> Integers:
        """New nodes go to the community they are bound to most; those that know only each other are clustered."""
        labels = former.copy()
        rows = graph.rows
        while (labels < 0).any():
            known = (labels[rows] < 0) & (labels[graph.indices] >= 0)
            if not known.any():
                break
            groups = int(labels.max()) + 1
            pairs, which = np.unique(rows[known] * groups + labels[graph.indices[known]], return_inverse=True)
            weight = np.bincount(which, weights=graph.data[known])
            node, label = np.divmod(pairs, groups)
            order = np.lexsort((label, -weight, node))
            first = order[np.r_[True, np.diff(node[order]) != 0]]
            labels[node[first]] = label[first]
        rest = np.flatnonzero(labels < 0)
        if len(rest):
            _, spanned = graph.parts(np.where(labels < 0, 0, 1))[0]
            labels[rest] = leiden.partition(spanned, self.seed, self.resolution) + int(labels.max()) + 1
        return labels


def _positions(wanted: Integers, among: Integers) -> Integers:
    """Positions of the wanted numbers that are among some ascending ones."""
    position = np.searchsorted(among, wanted)
    found = position < len(among)
    found[found] = among[position[found]] == wanted[found]
    return np.asarray(position[found], dtype=np.int64)


def _within(communities: Iterable[Before], nodes: Integers) -> list[Before]:
    """Former communities by the numbers inside their parent of now; members that left it are gone."""
    found = []
    for community in communities:
        inside = _positions(community.nodes, nodes)
        whole = community.whole and len(inside) == len(community.nodes)
        found.append(Before(community.id, inside, whole, _within(community.children, nodes)))
    return found


def _renumbered(pairs: Integers, members: Integers) -> Integers:
    """The pairs with both ends among some nodes, by their positions among them."""
    inside = np.isin(pairs, members).all(axis=1)
    return np.searchsorted(members, pairs[inside])


def _as_before(community: Before, max_size: int) -> Part:
    """A community that nothing touched, with all that is below it."""
    children = [_as_before(child, max_size) for child in community.children]
    whole = "" if children or len(community.nodes) <= max_size else leiden.WHOLE
    return Part(community.nodes, children, unsplit=whole, id=community.id)


def lifted(part: Part, nodes: Integers) -> Part:
    """A part by the numbers of the graph around it."""
    return Part(nodes[part.nodes], [lifted(child, nodes) for child in part.children], part.unsplit, part.id)


def _connected(graph: Graph, labels: Integers) -> Integers:
    """Connected parts of two nodes or more, numbered from 0."""
    parts = leiden.absorb_singles(graph, graph.within(labels).components())
    return np.asarray(np.unique(parts, return_inverse=True)[1], dtype=np.int64)


def identities(former: Integers, labels: Integers) -> dict[int, int]:
    """Which community of now is which of before: by part, the former one that has most of its nodes there.

    A former community goes on in the part that holds more than half of its nodes; a part that would be several goes on
    as the one that gave it most nodes.

    Args:
        former: Former community of each node, -1 where there was none.
        labels: Part of each node, from 0.

    Returns:
        Number of the former community by part.
    """
    known = former >= 0
    if not known.any():
        return {}
    groups = int(former.max()) + 1
    pairs, counts = np.unique(labels[known] * groups + former[known], return_counts=True)
    sizes = np.bincount(former[known], minlength=groups)
    part, earlier = np.divmod(pairs, groups)
    most = counts * 2 > sizes[earlier]
    found: dict[int, int] = {}
    order = np.lexsort((earlier[most], -counts[most], part[most]))
    for i in np.flatnonzero(most)[order].tolist():
        found.setdefault(int(part[i]), int(earlier[i]))
    return found


def _moved(graph: Graph, labels: Integers, frontier: Integers, resolution: float) -> Integers:
    """Let nodes move to neighbouring communities while that raises modularity, beginning with a frontier."""
    labels = labels.copy()
    strength = np.bincount(graph.rows, weights=graph.data, minlength=graph.nodes)
    total = float(strength.sum())
    mass = np.bincount(labels, weights=strength)
    waiting = deque(frontier.tolist())
    queued = np.zeros(graph.nodes, dtype=bool)
    queued[frontier] = True
    while waiting:
        node = waiting.popleft()
        queued[node] = False
        row = slice(graph.indptr[node], graph.indptr[node + 1])
        neighbours = graph.indices[row]
        here = int(labels[node])
        around, which = np.unique(np.r_[here, labels[neighbours]], return_inverse=True)
        bound = np.bincount(which[1:], weights=graph.data[row], minlength=len(around))
        others = mass[around] - np.where(around == here, strength[node], 0.0)
        gain = bound - resolution * strength[node] * others / total
        best = int(np.argmax(gain))
        if gain[best] <= gain[around.searchsorted(here)] + _LEAST_GAIN * total:
            continue
        mass[here] -= strength[node]
        mass[around[best]] += strength[node]
        labels[node] = around[best]
        for neighbour in neighbours[labels[neighbours] != around[best]].tolist():
            if not queued[neighbour]:
                queued[neighbour] = True
                waiting.append(neighbour)
    return labels


def drift(before: NDArray[np.float64], after: NDArray[np.float64], resolution: float) -> float:
    """By how much the modularity of any partition can have changed, at most.

    Modularity is the share of the weight inside communities, less the resolution times the sum of the squared shares of
    their ends. When a share ``d`` of the weight lies elsewhere (total variation), the first term changes by at most
    ``d``, the second by at most ``4 d``.

    Args:
        before: Weight of every relationship that is or was there, in any order.
        after: The same now.
        resolution: Resolution of modularity.
    """
    if not before.sum() or not after.sum():
        return float("inf")
    apart = float(np.abs(before / before.sum() - after / after.sum()).sum()) / 2
    return apart * (1 + 4 * resolution)
