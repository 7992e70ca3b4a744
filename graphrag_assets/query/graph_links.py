"""The graph of entities and text units around some nodes, read from the link tables as a walk reaches it.

An entity is linked to the text units that name it and to the entities it has a relationship with; a text unit to the
entities that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphrag_assets.query.index import Index
from graphrag_assets.query.pagerank import Links, Node

ENTITY, TEXT_UNIT = "entity", "text unit"

Counts = np.ndarray[Any, np.dtype[np.int32]]

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
        self._frequency = _counted(index, "text_unit_entities", "entity")
        self._degree = _counted(index, "entity_neighbours", "entity")
        self._named = _counted(index, "text_unit_entities", "text_unit")

    def __call__(self, wanted: Mapping[Node, int]) -> dict[Node, Links]:
        """Links of nodes; see :data:`graphrag_assets.query.pagerank.Fetch`. They are the same however often asked for."""
        narrow = [node for node, most in wanted.items() if node[0] != ENTITY or self._width(node[1]) <= most]
        new = sorted(node for node in narrow if node not in self._links)
        self._read_entities([number for kind, number in new if kind == ENTITY])
        self._read_text_units([number for kind, number in new if kind == TEXT_UNIT])
        return {node: self._links[node] for node in narrow}

    def frequency(self, entity: int) -> int:
        """In how many text units an entity is named."""
        return _at(self._frequency, entity)

    def named_in(self, text_unit: int) -> int:
        """How many entities a text unit names."""
        return _at(self._named, text_unit)

    def _width(self, entity: int) -> int:
        return _at(self._frequency, entity) + _at(self._degree, entity)

    def _read_entities(self, entities: Sequence[int]) -> None:
        units = self._read("text_unit_entities", "entity", entities, "text_unit")
        neighbours = self._read("entity_neighbours", "entity", entities, "neighbour")
        for entity in entities:
            named, related = units.get(entity, []), neighbours.get(entity, [])
            share = TO_TEXT_UNITS if named and related else 1.0 if named else 0.0
            self._links[ENTITY, entity] = [*_shared(TEXT_UNIT, named, share), *_shared(ENTITY, related, 1 - share)]

    def _read_text_units(self, text_units: Sequence[int]) -> None:
        table = "entities_in_text_units"
        if self._index.table(table) is None:  # a snapshot of an earlier release
            table = "text_unit_entities"
        named = self._read(table, "text_unit", text_units, "entity")
        for unit in text_units:
            self._links[TEXT_UNIT, unit] = _shared(ENTITY, named.get(unit, []), 1.0)

    def _read(self, table: str, key: str, values: Sequence[int], column: str) -> dict[int, list[int]]:
        """Distinct values of a column by key, both ascending."""
        found: dict[int, list[int]] = {}
        if values:
            rows = self._index.take(table, key, values, [key, column])
            for left, right in sorted(set(zip(*(c.to_pylist() for c in rows.columns), strict=True))):
                found.setdefault(left, []).append(right)
        return found


def _counted(index: Index, table: str, column: str) -> Counts:
    """How often each number occurs in a column of a link table: counted once for an open index, four bytes a row."""

    def count() -> Counts:
        stored = index.table(table)
        numbers = stored.whole([column])[column].to_numpy() if stored else np.zeros(0, np.int64)
        return np.bincount(numbers, minlength=1).astype(np.int32)

    counts: Counts = index.kept(f"{table} by {column}", count)
    return counts


def _at(counts: Counts, number: int) -> int:
    return int(counts[number]) if number < len(counts) else 0


def _shared(kind: str, numbers: Sequence[int], mass: float) -> list[tuple[Node, float]]:
    return [((kind, number), mass / len(numbers)) for number in numbers]
