"""What a table contract is: columns, types, order, and how rows are made to match it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa


class TableContractError(ValueError):
    """A table does not match its declared columns and types."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Args:
        name: Column name.
        type: Arrow type.
        description: What the column holds, in one sentence; shown in the UI and the docs.
        nullable: Whether nulls are allowed.
    """

    name: str
    type: pa.DataType
    description: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """A table contract.

    Args:
        name: Table name; also the file name and the asset name where the asset writes this table.
        description: What one row is.
        columns: Columns in their fixed order.
        order: Columns of the canonical row order (human_readable_id, where there is one, counts in this order).
        row_group_size: Rows per Parquet row group: small for tables that are looked up by id, large for scanned ones.
        keys: Columns by which rows are looked up: only of these the file keeps statistics, which tell row groups apart.
        fetched: Columns that look-ups read: compressed for speed (LZ4), the others for size.
        rising: Integers that mostly rise from row to row: stored as differences.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]
    row_group_size: int = 65_536
    keys: tuple[str, ...] = ()
    fetched: tuple[str, ...] = ()
    rising: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the table."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @property
    def column_names(self) -> list[str]:
        """Names of the columns in their fixed order."""
        return [c.name for c in self.columns]

    def empty(self) -> pa.Table:
        """A table with no rows."""
        return self.schema.empty_table()

    def from_rows(self, rows: list[dict[str, object]]) -> pa.Table:
        """Build the table from dictionaries; missing keys become null and then fail where null is not allowed."""
        arrays = [pa.array([row.get(c.name) for row in rows], type=c.type) for c in self.columns]
        return self.conform(pa.table(arrays, names=self.column_names))

    def from_columns(self, columns: Mapping[str, object]) -> pa.Table:
        """Build the table from column lists or arrays of equal length, in any column order."""
        arrays = []
        for c in self.columns:
            values = columns[c.name]
            arrays.append(values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, type=c.type))
        return self.conform(pa.table(arrays, names=self.column_names))

    def conform(self, table: pa.Table) -> pa.Table:
        """Cast to the declared types and column order.

        Raises:
            TableContractError: A column is missing, unknown, of another type, or null where null is not allowed.
        """
        missing = [n for n in self.column_names if n not in table.column_names]
        unknown = [n for n in table.column_names if n not in self.column_names]
        if missing or unknown:
            raise TableContractError(f"table {self.name}: missing columns {missing}, unknown columns {unknown}")
        table = table.select(self.column_names)
        for column in self.columns:
            if not column.nullable and table[column.name].null_count:
                raise TableContractError(
                    f"table {self.name}: column {column.name} holds {table[column.name].null_count} nulls, none are allowed"
                )
        try:
            return table.cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise TableContractError(f"table {self.name}: {error}") from error
