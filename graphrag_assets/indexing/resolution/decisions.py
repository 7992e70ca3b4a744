"""From judged pairs to groups: stars around a canonical title, never chains.

A title joins a group only by evidence with the group's canonical title itself, and only while it contradicts no other
member. So A like B and B like C never makes A and C one where they are not alike themselves.

Nodes are numbered in rank order: the most frequent title first, then the longest, then the first in the alphabet. The
number of a node is its rank; every function below relies on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from graphrag_assets.indexing.resolution.judgement import Judgement

Pair = tuple[int, int]
Judge = Callable[[int, int], Judgement]


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """A short form that can stand for several entities.

    Args:
        short: The short form.
        longs: What it can stand for, in rank order.
        method: Rule by which it can.
    """

    short: int
    longs: tuple[int, ...]
    method: str


@dataclass(frozen=True, slots=True)
class Locality:
    """Where titles are found.

    Args:
        documents: Documents of a node.
    """

    documents: Callable[[int], frozenset[int]]

    def nearest(self, short: int, longs: list[int]) -> list[int]:
        """The long forms that share a document with the short one, where each of its documents has such a form.

        Documents that do not tell whom they mean leave the short form ambiguous: then nothing is returned.
        """
        own = self.documents(short)
        near = [i for i in longs if not own.isdisjoint(self.documents(i))]
        covered = frozenset[int]().union(*(self.documents(i) for i in near))
        return near if near and own <= covered else []


def resolve_ambiguity(
    judgements: Mapping[Pair, Judgement],
    crowded: Mapping[int, list[int]],
    judge: Judge,
    locality: Locality,
    *,
    merge_threshold: float,
    doubt_threshold: float,
    max_block: int,
) -> tuple[set[Pair], list[Ambiguity]]:
    """Find the short forms that can stand for several entities.

    A short form keeps its evidence only where all that it can stand for are one entity: in the whole corpus, or else
    among what is named in the very documents that name it.

    Args:
        judgements: By pair, the smaller node first.
        crowded: Short forms with more long forms than could be judged, with these.
        judge: Judges any pair.
        locality: Documents of nodes.
        merge_threshold: Score from which two long forms are one.
        doubt_threshold: Score from which a short form can stand for a long one.
        max_block: Most long forms that are compared with each other.

    Returns:
        Pairs whose evidence does not hold, and the ambiguities.
    """
    long_forms: dict[int, dict[int, str]] = defaultdict(dict)
    for (a, b), judgement in judgements.items():
        if judgement.shorter and judgement.score >= doubt_threshold:
            short, long = (a, b) if judgement.shorter == "first" else (b, a)
            long_forms[short][long] = judgement.method
    dropped: set[Pair] = set()
    ambiguities: list[Ambiguity] = []
    for short in sorted({*long_forms, *crowded}):
        methods = long_forms.get(short, {})
        longs = sorted({*methods, *crowded.get(short, ())})
        if len(longs) < 2 or _are_one(longs, judge, merge_threshold, max_block):
            continue
        near = [i for i in locality.nearest(short, longs) if i in methods]
        one = bool(near) and _are_one(near, judge, merge_threshold, max_block)
        kept = set(near) if one else set()
        rest = [i for i in longs if i not in kept]
        dropped.update((min(short, i), max(short, i)) for i in rest)
        if not one:
            names = sorted({methods[i] for i in longs if i in methods})
            ambiguities.append(Ambiguity(short, tuple(longs), names[0] if names else "surname"))
    return dropped, ambiguities


def _are_one(nodes: list[int], judge: Judge, merge_threshold: float, max_block: int) -> bool:
    if len(nodes) > max_block:
        return False
    return all(judge(a, b).score >= merge_threshold for i, a in enumerate(nodes) for b in nodes[i + 1 :])


def star_groups(edges: Mapping[Pair, float], conflicts: Callable[[int, int], bool]) -> dict[int, int]:
    """Group nodes around canonical ones.

    Nodes are taken by rank. A node joins the canonical node with which it has the best evidence (ties: the higher rank)
    and none of whose members it contradicts; else it becomes canonical itself.

    Args:
        edges: Score by pair, the smaller node first, only of pairs whose evidence suffices.
        conflicts: Whether two nodes can never be one.

    Returns:
        Canonical node by node, for nodes that joined one.
    """
    above: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for (a, b), score in edges.items():
        above[b].append((-score, a))
    canonical: dict[int, int] = {}
    members: dict[int, list[int]] = defaultdict(list)
    for node in sorted(above):
        for _, centre in sorted(above[node]):
            if centre in canonical:
                continue
            if not conflicts(node, centre) and not any(conflicts(node, other) for other in members[centre]):
                canonical[node] = centre
                members[centre].append(node)
                break
    return canonical
