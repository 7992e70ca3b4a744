"""Dagster IO managers: Parquet tables and LanceDB vector tables of the build area."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from graphrag_assets.storage.build import BuildArea, Built, TableRef
from graphrag_assets.storage.failures import fails_at_once
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.lease import check
from graphrag_assets.storage.vectors import Marker, VectorStore, database_path, read_marker, write_marker

#: Declared with an asset, but shown by Dagster only where the materialization carries it.
LINEAGE = "dagster/column_lineage"


def _single(value: Built | Mapping[str, Built], keys: list[str]) -> dict[str | None, Built]:
    """The tables of an output by partition; None for an unpartitioned asset."""
    if isinstance(value, Mapping):
        missing = sorted(set(keys) - value.keys())
        if missing:
            raise dg.Failure(f"no table for {len(missing)} partitions, such as {missing[:3]}", allow_retries=False)
        return {key: value[key] for key in keys}
    return {keys[0] if keys else None: value}


def _report(context: dg.OutputContext, key: str | None, several: bool, metadata: Mapping[str, Any]) -> None:
    """Attach metadata to the materialization of one partition, or of the asset."""
    declared = context.definition_metadata
    if LINEAGE in declared:
        metadata = {**metadata, LINEAGE: declared[LINEAGE]}
    if several:
        context.step_context.add_asset_metadata(metadata, asset_key=context.asset_key, partition_key=key)
    else:
        context.add_output_metadata(metadata)


def table_metadata(area: BuildArea, name: str, key: str | None, rows: int, size: int) -> dict[str, Any]:
    """What every materialization of a table, or of one partition of it, tells.

    Args:
        area: The build area.
        name: Table.
        key: Partition.
        rows: Its rows.
        size: Size of its file in bytes.
    """
    uri = area.filesystem.uri(area.path(name, key))
    return {"dagster/row_count": rows, "dagster/uri": uri, "size_bytes": size}


def vector_metadata(filesystem: FileSystem, table: str, marker: Marker) -> dict[str, Any]:
    """What every materialization of a vector table, or of one partition of it, tells.

    Args:
        filesystem: The storage base.
        table: Vector table.
        marker: What lies beside it.
    """
    folder = database_path(marker.model, marker.dimension)
    return {
        "dagster/row_count": marker.rows,
        "dagster/uri": f"{filesystem.uri(folder)}/{table}.lance",
        "embedding_model": marker.model,
        "vector_dimension": marker.dimension,
    }


def _keys(context: dg.InputContext | dg.OutputContext) -> list[str]:
    return list(context.asset_partition_keys) if context.has_asset_partitions else []


class ParquetTables(dg.IOManager):
    """One Parquet file for each table, or for each partition of a partitioned table.

    An asset hands over a :class:`Built`, or one for each partition key. An input annotated as :class:`TableRef` gets a
    reference to the files of all partitions, anything else the Arrow table itself (a dictionary by partition key in a
    run over several partitions).

    Args:
        filesystem: The storage base.
    """

    def __init__(self, filesystem: FileSystem) -> None:
        self.area = BuildArea(filesystem)

    @fails_at_once
    def handle_output(self, context: dg.OutputContext, obj: Built | Mapping[str, Built]) -> None:
        """Write the table of each partition; row count, file and size become its metadata, with its own figures."""
        name = context.asset_key.path[-1]
        for key, built in _single(obj, _keys(context)).items():
            size = self.area.write(name, built, key)
            facts = table_metadata(self.area, name, key, built.table.num_rows, size)
            _report(context, key, isinstance(obj, Mapping), {**built.metadata, **facts})
            built.release()

    @fails_at_once
    def load_input(self, context: dg.InputContext) -> Any:
        """Load a table, a dictionary of tables by partition, or a reference; see the class."""
        name = context.asset_key.path[-1]
        keys = _keys(context)
        if context.dagster_type.typing_type is TableRef:
            return self.area.ref(name, keys)
        if not context.has_asset_partitions:
            return self.area.read(name)
        if len(keys) == 1:
            return self.area.read(name, keys[0])
        return {key: self.area.read(name, key) for key in keys}


class LanceVectors(dg.IOManager):
    """Vector tables: one LanceDB table an asset, the rows of a partition replaced in one commit.

    Beside each table (or partition) lies a small marker file with the fingerprint of what the vectors were made from.

    Args:
        filesystem: The storage base.
        tables: Name of the vector table by asset name.
    """

    def __init__(self, filesystem: FileSystem, tables: Mapping[str, str]) -> None:
        self.filesystem = filesystem
        self.tables = tables

    @fails_at_once
    def handle_output(self, context: dg.OutputContext, obj: Built | Mapping[str, Built]) -> None:
        """Write the vectors of each partition."""
        name = context.asset_key.path[-1]
        for key, built in _single(obj, _keys(context)).items():
            check(self.filesystem)
            dimension = built.table.schema.field("vector").type.list_size
            store = VectorStore(self.filesystem, built.model, dimension)
            write_marker(self.filesystem, name, key, Marker("", built.model, dimension, 0, 0))
            version = store.write(self.tables[name], built.table, key or "")
            marker = Marker(built.fingerprint, built.model, dimension, built.table.num_rows, version)
            write_marker(self.filesystem, name, key, marker)
            facts = vector_metadata(self.filesystem, self.tables[name], marker)
            _report(context, key, isinstance(obj, Mapping), {**built.metadata, **facts})
            built.release()

    @fails_at_once
    def load_input(self, context: dg.InputContext) -> list[Marker]:
        """Markers of the partitions that exist: what was embedded with which model."""
        name = context.asset_key.path[-1]
        keys: list[str | None] = list(_keys(context)) if context.has_asset_partitions else [None]
        return [m for m in (read_marker(self.filesystem, name, key) for key in keys) if m is not None]
