"""The graph of entities and text units around some nodes, from the link tables.

An entity is linked to the text units that name it and to the entities it has a relationship with; a text unit to the
entities that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphrag_assets.query.index import Index
from graphrag_assets.query.pagerank import Links, Node

ENTITY, TEXT_UNIT = "entity", "text unit"

#: Share of the mass of an entity that goes to its text units; the rest goes to its neighbours. The kinds share by a fixed
#: rule, as the weights of relationships have another scale in each method.
TO_TEXT_UNITS = 0.5

#: Rows of a link table that an open index keeps: 16 MB.
KEPT_ROWS = 4_000_000


class GraphLinks:
    """Links of nodes, kept for as long as one question needs them.

    Args:
        index: The snapshot.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._links: dict[Node, Links] = {}
        self._units = LinkTable.of(index, "text_unit_entities", "entity", "text_unit")
        self._neighbours = LinkTable.of(index, "entity_neighbours", "entity", "neighbour")
        table = "entities_in_text_units"
        if index.table(table) is None:  # a snapshot of an earlier release
            table = "text_unit_entities"
        self._entities = LinkTable.of(index, table, "text_unit", "entity")

    def __call__(self, wanted: Mapping[Node, int]) -> dict[Node, Links]:
        """Links of nodes; see :data:`graphrag_assets.query.pagerank.Fetch`. They are the same however often asked for."""
        narrow = [node for node, most in wanted.items() if node[0] != ENTITY or self._width(node[1]) <= most]
        new = sorted(node for node in narrow if node not in self._links)
        self._read_entities([number for kind, number in new if kind == ENTITY])
        self._read_text_units([number for kind, number in new if kind == TEXT_UNIT])
        return {node: self._links[node] for node in narrow}

    def frequency(self, entity: int) -> int:
        """In how many text units an entity is named."""
        return self._units.count(entity)

    def named_in(self, text_unit: int) -> int:
        """How many entities a text unit names."""
        return self._entities.count(text_unit)

    def _width(self, entity: int) -> int:
        return self._units.count(entity) + self._neighbours.count(entity)

    def _read_entities(self, entities: Sequence[int]) -> None:
        units, neighbours = self._units.read(self._index, entities), self._neighbours.read(self._index, entities)
        for entity in entities:
            named, related = units[entity], neighbours[entity]
            share = TO_TEXT_UNITS if named and related else 1.0 if named else 0.0
            self._links[ENTITY, entity] = [*_shared(TEXT_UNIT, named, share), *_shared(ENTITY, related, 1 - share)]

    def _read_text_units(self, text_units: Sequence[int]) -> None:
        for unit, named in self._entities.read(self._index, text_units).items():
            self._links[TEXT_UNIT, unit] = _shared(ENTITY, named, 1.0)


class LinkTable:
    """What the numbers of one column of a link table stand beside in another one.

    How often each number occurs is counted once for an open index, four bytes a number. A table of up to ``KEPT_ROWS``
    rows stays in memory, four bytes a row: a walk asks for a few hundred numbers in as many row groups. Of larger ones
    the row groups are read anew for each question.

    Args:
        index: The snapshot.
        table: Name of the table.
        key: Column of the numbers, ascending or not.
        column: The other column.
    """

    def __init__(self, index: Index, table: str, key: str, column: str) -> None:
        self._names = (table, key, column)
        stored = index.table(table)
        self._kept = stored is None or index.count(table) <= KEPT_ROWS
        rows = stored.whole([key, column] if self._kept else [key]) if stored else None
        keys = rows[key].to_numpy() if rows is not None else np.zeros(0, np.int32)
        self._counts = np.bincount(keys, minlength=1).astype(np.int32)
        if rows is not None and self._kept:
            ascending = bool((keys[1:] >= keys[:-1]).all())
            values = rows[column].to_numpy()
            self._values = (values if ascending else values[np.argsort(keys, kind="stable")]).astype(np.int32)
            self._ends = np.cumsum(self._counts, dtype=np.int32)

    @classmethod
    def of(cls, index: Index, table: str, key: str, column: str) -> LinkTable:
        """The table as the index keeps it."""
        kept: LinkTable = index.kept(f"{table} by {key}", lambda: cls(index, table, key, column))
        return kept

    def count(self, number: int) -> int:
        """In how many rows a number occurs."""
        return int(self._counts[number]) if number < len(self._counts) else 0

    def read(self, index: Index, numbers: Sequence[int]) -> dict[int, list[int]]:
        """What each number stands beside: distinct, ascending.

        The index is given anew: one that held a table that holds the index would stay in memory when nobody needs it.
        """
        if self._kept:
            return {number: self._beside(number) for number in numbers}
        found: dict[int, set[int]] = {number: set() for number in numbers}
        table, key, column = self._names
        rows = index.take(table, key, numbers, [key, column])
        for number, other in zip(*(values.to_pylist() for values in rows.columns), strict=True):
            found[number].add(other)
        return {number: sorted(others) for number, others in found.items()}

    def _beside(self, number: int) -> list[int]:
        count = self.count(number)
        if not count:
            return []
        end = int(self._ends[number])
        return sorted(set(self._values[end - count : end].tolist()))


def _shared(kind: str, numbers: Sequence[int], mass: float) -> list[tuple[Node, float]]:
    if not numbers:
        return []
    share = mass / len(numbers)
    return [((kind, number), share) for number in numbers]
