"""What of a snapshot lies inside a filter on documents.

A text unit lies inside with its document, a claim with its text unit. What was merged from several text units would tell
of all of them: relationships and reports are inside only where all their text units are; an entity that is partly
inside can be found, but only its title and type are shown.
"""

# ruff: noqa: S608 (SQL is put together from names and file addresses only)

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_assets.query.filters import COLUMNS, Filter
from graphrag_assets.query.stored import Integers, StoredTable
from graphrag_assets.storage import tables

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Open = Callable[[str], StoredTable | None]

#: Columns that tell of the texts of an entity: empty where it is only partly inside.
_TELLING = ("description", "descriptions")


class Scope:
    """The rows inside a filter, as masks over the numbers of rows.

    Args:
        table: Opens a whole table of the snapshot.
        wanted: The filter.

    Raises:
        QueryError: The filter names what there is not, or leaves no document.
    """

    def __init__(self, table: Open, wanted: Filter) -> None:
        self._table = table
        self.documents = frozenset(wanted.select(self._rows("documents", [*COLUMNS, "raw_data"]).to_pylist()))

    def _rows(self, table: str, columns: Sequence[str]) -> pa.Table:
        stored = self._table(table)
        if stored is None:
            return next(t for t in tables.PUBLISHED if t.name == table).empty().select(list(columns))
        return stored.whole(columns)

    def _numbers(self, table: str, *columns: str) -> list[Integers]:
        rows = self._rows(table, columns)
        return [rows[column].to_numpy().astype(np.int64) for column in columns]

    @cached_property
    def text_units(self) -> Mask:
        """Text units of the documents."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self._rows("text_units", ["human_readable_id", "document_id"])
        inside = pc.is_in(rows["document_id"], pa.array(sorted(self.documents), pa.string()))
        return _mask(rows["human_readable_id"].to_numpy(), inside.to_numpy())

    def has_text_units(self, numbers: Integers) -> Mask:
        """For each number whether that text unit lies inside."""
        return _inside(self.text_units, numbers)

    @cached_property
    def _named(self) -> tuple[Integers, Mask]:
        """Every pair of an entity and a text unit: the entity, and whether the text unit is inside."""
        units, entities = self._numbers("text_unit_entities", "text_unit", "entity")
        return entities, _inside(self.text_units, units)

    @cached_property
    def entities(self) -> Mask:
        """Entities that a text unit inside names."""
        return _mask(*self._named)

    @cached_property
    def whole_entities(self) -> Mask:
        """Entities that only text units inside name."""
        return _only(*self._named)

    @cached_property
    def relationships(self) -> Mask:
        """Relationships that were read from text units inside only."""
        relationships, units = self._numbers("relationship_text_units", "relationship", "text_unit")
        return _only(relationships, _inside(self.text_units, units))

    @cached_property
    def claims(self) -> Mask:
        """Claims of text units inside."""
        import pyarrow.compute as pc

        claims = self._rows("covariates", ["human_readable_id", "text_unit_id"])
        units = self._rows("text_units", ["human_readable_id", "id"]) if claims.num_rows else None
        if units is None:
            return np.zeros(0, np.bool_)
        ids = units["id"].filter(_inside(self.text_units, units["human_readable_id"].to_numpy())).combine_chunks()
        inside = pc.is_in(claims["text_unit_id"], ids)
        return _mask(claims["human_readable_id"].to_numpy(), inside.to_numpy())

    @cached_property
    def communities(self) -> Mask:
        """Communities of which everything lies inside: members, relationships between them, claims about them."""
        entity, neighbour, relationship = self._numbers("entity_neighbours", "entity", "neighbour", "relationship")
        telling = self.whole_entities.copy()
        # In an index of ours what is said of members lies in text units that name them; in others it may not.
        both = _inside(telling, entity) & _inside(telling, neighbour) & ~_inside(self.relationships, relationship)
        telling[entity[both]] = False
        about, claim = self._numbers("entity_claims", "entity", "claim")
        telling[about[_inside(telling, about) & ~_inside(self.claims, claim)]] = False
        members, community = self._numbers("entity_communities", "entity", "community")
        return _only(community, _inside(telling, members))

    @cached_property
    def _degrees(self) -> Integers:
        """Relationships inside of every entity."""
        entity, relationship = self._numbers("entity_neighbours", "entity", "relationship")
        return np.bincount(entity[_inside(self.relationships, relationship)], minlength=len(self.entities))

    @property
    def _rules(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """For each table the columns that hold numbers of rows, with the mask in which they must be."""
        return {
            "text_units": (("human_readable_id", "text_units"),),
            "entities": (("human_readable_id", "entities"),),
            "relationships": (("human_readable_id", "relationships"),),
            "covariates": (("human_readable_id", "claims"),),
            "communities": (("community", "communities"),),
            "community_reports": (("community", "communities"),),
            "text_unit_entities": (("text_unit", "text_units"),),
            "entities_in_text_units": (("text_unit", "text_units"),),
            "entity_neighbours": (("relationship", "relationships"),),
            "entity_communities": (("community", "communities"),),
            "entity_claims": (("claim", "claims"),),
            "community_occurrences": (("community", "communities"),),
            "relationship_text_units": (("relationship", "relationships"),),
        }

    def count(self, table: str) -> int | None:
        """Rows inside of a table with numbered rows; None for other tables."""
        if table not in ("text_units", "entities", "relationships", "covariates", "communities", "community_reports"):
            return None
        return int(np.count_nonzero(getattr(self, self._rules[table][0][1])))

    def needs(self, table: str) -> tuple[str, ...]:
        """Columns that are needed to tell which rows of a table lie inside."""
        if table == "documents":
            return ("id",)
        return tuple(column for column, _ in self._rules.get(table, ()))

    def keep(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows inside; of entities that are partly inside without what tells of their texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if table == "documents":
            return rows.filter(pc.is_in(rows["id"], pa.array(sorted(self.documents), pa.string())))
        for column, mask in self._rules.get(table, ()):
            rows = rows.filter(pa.array(_inside(getattr(self, mask), rows[column].to_numpy())))
        if table == "entities":
            return self._without_texts(rows)
        return rows

    def _without_texts(self, rows: pa.Table) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        numbers = rows["human_readable_id"].to_numpy()
        partly = pa.array(~_inside(self.whole_entities, numbers))
        for name in rows.column_names:
            place, kind = rows.column_names.index(name), rows.schema.field(name).type
            if name in _TELLING:
                empty = pa.scalar("" if name == "description" else [], kind)
                rows = rows.set_column(place, rows.schema.field(name), pc.if_else(partly, empty, rows[name]))
            elif name == "degree":
                rows = rows.set_column(place, rows.schema.field(name), pa.array(self._degrees[numbers], kind))
        return rows

    def ids(self, table: str) -> frozenset[str]:
        """Ids of the rows inside of a table with vectors."""
        key = self.needs(table)[0]
        rows = self._rows(table, ["id", key])
        inside = _inside(getattr(self, self._rules[table][0][1]), rows[key].to_numpy())
        return frozenset(rows["id"].filter(inside).to_pylist())

    def restrict(self, connection: duckdb.DuckDBPyConnection, name: str, source: str) -> str:
        """SQL of a view of the rows inside.

        Args:
            connection: Gets tables of the numbers of rows inside.
            name: Table name.
            source: SQL that gives all its rows.
        """
        import pyarrow as pa

        if name == "documents":
            _register(connection, "inside_documents", pa.table({"id": sorted(self.documents)}))
            return f"{source} where id in (select id from inside_documents)"
        conditions = []
        for column, mask in self._rules.get(name, ()):
            inside = np.flatnonzero(getattr(self, mask))
            _register(connection, f"inside_{mask}", pa.table({"number": pa.array(inside, pa.int64())}))
            conditions.append(f'"{column}" in (select number from inside_{mask})')
        if name == "entities":
            numbers = np.flatnonzero(self.whole_entities)
            _register(connection, "whole_entities", pa.table({"number": pa.array(numbers, pa.int64())}))
            degrees = pa.array(self._degrees, pa.int64())
            _register(
                connection,
                "inside_degrees",
                pa.table({"number": pa.array(range(len(degrees)), pa.int64()), "d": degrees}),
            )
            whole = "human_readable_id in (select number from whole_entities)"
            source = source.replace(
                "select *",
                f"""select * replace (case when {whole} then description else '' end as description,
                    case when {whole} then descriptions else [] end as descriptions,
                    (select d from inside_degrees where number = human_readable_id) as degree)""",
                1,
            )
        return f"{source} where {' and '.join(conditions)}" if conditions else source


class ScopedTable:
    """A table of which only the rows inside a filter are read.

    Args:
        stored: The table.
        name: Its name.
        scope: What lies inside.
    """

    def __init__(self, stored: StoredTable, name: str, scope: Scope) -> None:
        self._stored = stored
        self._name = name
        self._scope = scope
        self.columns = stored.columns

    def take(self, key: str, values: Sequence[int] | Sequence[str] | Integers, columns: Sequence[str]) -> pa.Table:
        """See :meth:`StoredTable.take`."""
        wanted = list(dict.fromkeys([*columns, *self._scope.needs(self._name)]))
        return self._scope.keep(self._name, self._stored.take(key, values, wanted)).select(list(columns))

    def whole(self, columns: Sequence[str]) -> pa.Table:
        """See :meth:`StoredTable.whole`."""
        wanted = list(dict.fromkeys([*columns, *self._scope.needs(self._name)]))
        return self._scope.keep(self._name, self._stored.whole(wanted)).select(list(columns))


def _mask(numbers: Any, inside: Any) -> Mask:
    """A mask over numbers from the numbers of rows and whether each lies inside: one that does is enough."""
    mask = np.zeros(int(numbers.max()) + 1 if len(numbers) else 0, np.bool_)
    mask[numbers[inside]] = True
    return mask


def _only(numbers: Any, inside: Any) -> Mask:
    """A mask over numbers that lie inside wherever they occur."""
    only: Mask = _mask(numbers, inside) & ~_mask(numbers, ~inside)
    return only


def _inside(mask: Mask, numbers: Any) -> Mask:
    """For each number whether it is in a mask; numbers beyond its end are not."""
    found = np.zeros(len(numbers), np.bool_)
    known = (numbers >= 0) & (numbers < len(mask))
    found[known] = mask[numbers[known]]
    return found


def _register(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    connection.register("made", rows)
    connection.execute(f'create or replace table "{name}" as select * from made')
    connection.unregister("made")
