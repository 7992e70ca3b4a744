"""The graph of entities and text units around some nodes, read from the link tables as a walk reaches it.

An entity is linked to the text units that name it and to the entities it has a relationship with; a text unit to the
entities that it names.
"""

# ruff: noqa: S608 (SQL is put together from integers only)

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphrag_assets.query.index import Index, integers
from graphrag_assets.query.pagerank import Links, Node

ENTITY, TEXT_UNIT = "entity", "text unit"

#: Share of the mass of an entity that goes to its text units; the rest goes to its neighbours. The kinds share by a fixed
#: rule, as the weights of relationships have another scale in each method.
TO_TEXT_UNITS = 0.5


class GraphLinks:
    """Links of nodes, kept for as long as one question needs them.

    Args:
        index: The snapshot.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._links: dict[Node, Links] = {}
        self._widths: dict[int, tuple[int, int]] = {}
        self._named: dict[int, int] = {}

    def __call__(self, wanted: Mapping[Node, int]) -> dict[Node, Links]:
        """Links of nodes; see :data:`graphrag_assets.query.pagerank.Fetch`. They are the same however often asked for."""
        self._read_widths(number for (kind, number), _ in wanted.items() if kind == ENTITY)
        narrow = [node for node, most in wanted.items() if node[0] != ENTITY or sum(self._widths[node[1]]) <= most]
        new = sorted(node for node in narrow if node not in self._links)
        self._read_entities([number for kind, number in new if kind == ENTITY])
        self._read_text_units([number for kind, number in new if kind == TEXT_UNIT])
        return {node: self._links[node] for node in narrow}

    def frequency(self, entities: Sequence[int]) -> dict[int, int]:
        """In how many text units entities are named."""
        self._read_widths(entities)
        return {entity: self._widths[entity][0] for entity in entities}

    def entities_in(self, text_units: Sequence[int]) -> dict[int, int]:
        """How many entities text units name."""
        new = sorted({unit for unit in text_units if unit not in self._named})
        if new:
            rows = self._index.rows(
                f"select text_unit, count(*) as named from text_unit_entities where text_unit in ({integers(new)}) "
                "group by text_unit"
            )
            self._named.update(dict.fromkeys(new, 0) | {row["text_unit"]: row["named"] for row in rows})
        return {unit: self._named[unit] for unit in text_units}

    def _read_widths(self, entities: Iterable[int]) -> None:
        new = sorted({entity for entity in entities if entity not in self._widths})
        if not new:
            return
        rows = self._index.rows(
            f"""select human_readable_id as entity, frequency, degree from entities
                where human_readable_id in ({integers(new)})"""
        )
        self._widths.update(dict.fromkeys(new, (0, 0)) | {r["entity"]: (r["frequency"], r["degree"]) for r in rows})

    def _read_entities(self, entities: Sequence[int]) -> None:
        if not entities:
            return
        listed = integers(entities)
        units: dict[int, list[Node]] = {entity: [] for entity in entities}
        neighbours: dict[int, list[Node]] = {entity: [] for entity in entities}
        for row in self._index.rows(
            f"""select distinct entity, text_unit from text_unit_entities where entity in ({listed})
                order by entity, text_unit"""
        ):
            units[row["entity"]].append((TEXT_UNIT, row["text_unit"]))
        for row in self._index.rows(
            f"""select distinct entity, neighbour from entity_neighbours where entity in ({listed})
                order by entity, neighbour"""
        ):
            neighbours[row["entity"]].append((ENTITY, row["neighbour"]))
        for entity in entities:
            named, related = units[entity], neighbours[entity]
            share = TO_TEXT_UNITS if named and related else 1.0 if named else 0.0
            self._links[ENTITY, entity] = [*_shared(named, share), *_shared(related, 1 - share)]

    def _read_text_units(self, text_units: Sequence[int]) -> None:
        if not text_units:
            return
        named: dict[int, list[Node]] = {unit: [] for unit in text_units}
        for row in self._index.rows(
            f"""select distinct text_unit, entity from text_unit_entities where text_unit in ({integers(text_units)})
                order by text_unit, entity"""
        ):
            named[row["text_unit"]].append((ENTITY, row["entity"]))
        for unit in text_units:
            self._links[TEXT_UNIT, unit] = _shared(named[unit], 1.0)
            self._named[unit] = len(named[unit])


def _shared(nodes: Sequence[Node], mass: float) -> list[tuple[Node, float]]:
    return [(node, mass / len(nodes)) for node in nodes]
