"""Personalised PageRank by local pushes: the part of a graph around some seeds, whatever the size of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

#: A node: its kind and its number.
Node = tuple[str, int]

#: Where the mass of a node goes: pairs of node and share; the shares of one node add up to 1.
Links = Sequence[tuple[Node, float]]

#: Gives the links of nodes, but of none that has more links than the number that stands beside it.
Fetch = Callable[[Mapping[Node, int]], Mapping[Node, Links]]


def push(seeds: Mapping[Node, float], fetch: Fetch, damping: float, tolerance: float, rounds: int) -> dict[Node, float]:
    """Approximate personalised PageRank.

    Each round every node that holds enough mass keeps the share 1 - damping of it and passes the rest on along its
    links (Andersen, Chung and Lang 2006; here all nodes of a round at once). What is too little to be passed on stays
    where it is, so that the work is bounded by the tolerance, however many links a node of the graph has.

    Args:
        seeds: Mass that the walk starts with, by node; it need not add up to 1.
        fetch: Gives the links of nodes. A node without links keeps all it has.
        damping: Share of the mass that is passed on.
        tolerance: Least share of all mass that a node passes on, for each of its links.
        rounds: Most steps from a seed.

    Returns:
        Rank by node; all ranks add up to 1. Empty where the seeds hold no mass.
    """
    total = sum(seeds.values())
    if total <= 0:
        return {}
    waiting = {node: mass / total for node, mass in sorted(seeds.items()) if mass > 0}
    rank: dict[Node, float] = {}
    for _ in range(rounds):
        links = fetch({node: int(mass / tolerance) for node, mass in waiting.items() if mass >= tolerance})
        passed: dict[Node, float] = {}
        for node, onward in sorted(links.items()):
            if onward:
                mass = waiting.pop(node)
                rank[node] = rank.get(node, 0.0) + (1 - damping) * mass
                for target, share in onward:
                    passed[target] = passed.get(target, 0.0) + damping * mass * share
        if not passed:
            break
        for node, mass in passed.items():
            waiting[node] = waiting.get(node, 0.0) + mass
    for node, mass in waiting.items():
        rank[node] = rank.get(node, 0.0) + mass
    return rank
