"""Text units by what links them to a question: personalised PageRank over entities and text units.

After HippoRAG 2 (Gutiérrez et al. 2025): a walk starts at the entities that the question names or is near to, rare ones
first, and at the text units that are near to it, and spreads over relationships and mentions. What it reaches is
weighed with how near each text unit is to the question by itself. Of a question in two steps ("who led the body that
published X?") the text about X names the body, and a walk from there reaches the texts about the body, of which the
question tells the right one.

Three things differ. The walk is a bounded neighbourhood (:mod:`graphrag_assets.query.pagerank`). It starts twice, the
second time also from the best text unit of the first. And rank is weighed per entity that a text unit names, as one
that names many is reached from everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphrag_assets.query.entities import Found
from graphrag_assets.query.graph_links import ENTITY, TEXT_UNIT, GraphLinks
from graphrag_assets.query.index import Index
from graphrag_assets.query.pagerank import Node, push
from graphrag_assets.query.relevance import relevance_by_number

#: Share of the mass that a walk passes on at each step, as in HippoRAG.
DAMPING = 0.5

#: Steps of a walk: what lies further away gets less than a tenth of the mass.
ROUNDS = 4

#: Least share of the mass that is passed on to a node.
TOLERANCE = 3e-4

#: Entities near to the question by vector that a walk starts from, beside those that it names.
NEAR_ENTITIES = 5

#: Text units near to the question that a walk starts from, and their mass beside that of the entities.
NEAR_TEXT_UNITS, TEXT_UNIT_MASS = 50, 0.2

#: Mass of the second walk, from the best text unit of the first, beside that of the first.
SECOND_WALK = 4.0

#: How a difference in nearness counts beside a difference in the logarithm of the rank, and how much the nearest and the
#: farthest of the near text units may differ by it: similarities of some models lie further apart.
NEARNESS_WEIGHT, MOST_BY_NEARNESS = 20.0, 5.0

#: Text units of the highest ranks that are weighed; the others were hardly reached.
CANDIDATES = 500

#: Rank of a text unit that no walk reached.
UNREACHED = 1e-6


@dataclass(frozen=True)
class GraphRanking:
    """What the walks found.

    Args:
        text_units: Numbers of text units with their scores, best first, each once.
        entities: Numbers of entities that were reached, highest rank first.
    """

    text_units: tuple[tuple[int, float], ...]
    entities: tuple[int, ...]


def rank_near(index: Index, question: str, vector: Sequence[float] | None, found: Found) -> GraphRanking:
    """Rank text units around a question; see :func:`rank_by_graph`.

    Args:
        index: The snapshot.
        question: The question.
        vector: Its embedding, comparable with those of the text units; None: near are those that share its words.
        found: Entities that the question names or is near to.
    """
    return rank_by_graph(index, found, relevance_by_number(index, question, vector))


def rank_by_graph(index: Index, found: Found, near: Mapping[int, float]) -> GraphRanking:
    """Rank text units around a question.

    Args:
        index: The snapshot.
        found: Entities that the question names or is near to.
        near: How near text units are to the question, by number, as :func:`graphrag_assets.query.relevance.relevance`
            tells.

    Returns:
        The ranking; the same for the same question, whatever the order of the arguments' items.
    """
    links = GraphLinks(index)
    first = push(_seeds(links, found, near), links, DAMPING, TOLERANCE, ROUNDS)
    scores = _scores(links, first, near)
    if not scores:
        return GraphRanking((), ())
    best = max(scores, key=lambda unit: (scores[unit], -unit))
    second = push({(TEXT_UNIT, best): 1.0}, links, DAMPING, TOLERANCE, ROUNDS)
    both = {node: first.get(node, 0.0) + SECOND_WALK * second.get(node, 0.0) for node in first.keys() | second.keys()}
    scores = _scores(links, both, near)
    reached = sorted((-rank, number) for (kind, number), rank in both.items() if kind == ENTITY)
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return GraphRanking(tuple(ordered), tuple(number for _, number in reached))


def _seeds(links: GraphLinks, found: Found, near: Mapping[int, float]) -> dict[Node, float]:
    """Where the walk starts: named entities, near ones and near text units, each kind with mass of its own."""
    floor = found.near[-1].score if len(found.near) > NEAR_ENTITIES else 0.0
    similar = {seed.entity.number: seed.score - floor for seed in found.near[:NEAR_ENTITIES]}
    named = {mention.entity.number: 1.0 for mention in found.named} | {s.entity.number: 1.0 for s in found.partly}
    nearest = sorted(near.items(), key=lambda item: (-item[1], item[0]))[:NEAR_TEXT_UNITS]
    least = min(near.values(), default=0.0)
    seeds: dict[Node, float] = {}
    for kind, mass, weights in (
        (ENTITY, 0.5, {entity: weight / max(1, links.frequency(entity)) for entity, weight in similar.items()}),
        (ENTITY, 0.5, {entity: weight / max(1, links.frequency(entity)) for entity, weight in named.items()}),
        (TEXT_UNIT, TEXT_UNIT_MASS, {unit: (score - least) ** 2 for unit, score in nearest}),
    ):
        for number, share in _shares(weights).items():
            seeds[kind, number] = seeds.get((kind, number), 0.0) + mass * share
    return seeds


def _shares(weights: Mapping[int, float]) -> dict[int, float]:
    """Weights as shares of their sum; equal ones where all are 0."""
    total = sum(weights.values())
    return {number: weight / total if total > 0 else 1 / len(weights) for number, weight in weights.items()}


def _scores(links: GraphLinks, rank: Mapping[Node, float], near: Mapping[int, float]) -> dict[int, float]:
    """Logarithm of the rank per entity, and nearness, of the text units that are near or of the highest ranks."""
    units = sorted((-value, number) for (kind, number), value in rank.items() if kind == TEXT_UNIT)
    candidates: Sequence[int] = sorted({*near, *(number for _, number in units[:CANDIDATES])})
    floor = min(near.values(), default=0.0)
    spread = max(near.values(), default=0.0) - floor
    weight = min(NEARNESS_WEIGHT, MOST_BY_NEARNESS / spread) if spread else NEARNESS_WEIGHT
    return {
        unit: math.log((rank.get((TEXT_UNIT, unit), 0.0) + UNREACHED) / max(1, links.named_in(unit)))
        + weight * (near.get(unit, floor) - floor)
        for unit in candidates
    }
