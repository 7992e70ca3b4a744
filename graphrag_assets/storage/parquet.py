"""Parquet files of the index: deterministic bytes on write, columns on demand on read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from graphrag_assets.storage.contract import Table
from graphrag_assets.storage.filesystem import FileSystem, LocalFileSystem
from graphrag_assets.storage.ranges import RangeFile, places, read_footer
from graphrag_assets.storage.s3 import S3FileSystem

#: Key of the fingerprint in the file's own metadata.
FINGERPRINT = b"graphrag.fingerprint"

#: Key of figures about the table in the file's own metadata, as JSON.
FIGURES = b"graphrag.figures"


#: Key of what the rows were made with in the file's own metadata.
MADE_WITH = b"graphrag.made_with"


def to_bytes(
    table: pa.Table,
    contract: Table,
    fingerprint: str = "",
    figures: Mapping[str, float] | None = None,
    made_with: str = "",
) -> bytes:
    """Serialise a table by its contract: equal rows give equal bytes.

    Args:
        table: Rows in canonical order.
        contract: Declares columns, types and row-group size.
        fingerprint: Hash of what the table was made from; kept in the file, so that a later run can tell whether it
            is still true.
        figures: Figures about the table that are kept in the file.
        made_with: Version of code, settings, prompts and models, where a later run may take over rows that would be made
            from the same with the same; kept in the file.
    """
    table = contract.conform(table).combine_chunks()
    metadata = {FINGERPRINT: fingerprint.encode()} if fingerprint else {}
    if figures:
        metadata[FIGURES] = json.dumps(figures, sort_keys=True).encode()
    if made_with:
        metadata[MADE_WITH] = made_with.encode()
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(metadata or None),
        sink,
        row_group_size=contract.row_group_size,
        write_page_index=False,
        **layout(contract),
    )
    return bytes(sink.getvalue())


def layout(contract: Table) -> dict[str, Any]:
    """How the columns of a table are stored: those of look-ups for speed, all others for size.

    Arrow makes a new Zstandard decoder for every page, which costs more than the few rows of a look-up; LZ4 has none.
    """
    fast = {*contract.keys, *contract.fetched, *contract.rising}
    if not fast:
        return {"compression": "zstd"}
    paths = _leaves(contract.schema)
    return {
        "compression": {path: "lz4" if path in fast else "zstd" for path in paths},
        "use_dictionary": [path for path in paths if path not in fast],
        "write_statistics": list(contract.keys),
        "column_encoding": dict.fromkeys(contract.rising, "DELTA_BINARY_PACKED") or None,
    }


def read_table(filesystem: FileSystem, path: str, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file, or some of its columns; of one in an object store no other columns are fetched.

    Raises:
        FileNotFoundError: No such file.
    """
    if isinstance(filesystem, S3FileSystem) and columns is not None:
        footer, size = read_footer(filesystem, path)
        source = RangeFile(filesystem, path, size)
        source.fetch(places(footer, range(footer.num_row_groups), columns))
        return pq.ParquetFile(pa.PythonFile(source, mode="r"), metadata=footer).read(columns=columns, use_threads=False)
    return pq.ParquetFile(_source(filesystem, path)).read(columns=columns)


def read_fingerprint(filesystem: FileSystem, path: str) -> str | None:
    """Fingerprint of a Parquet file; None when there is no such file or it has none."""
    try:
        own = _footer(filesystem, path)[0].metadata or {}
    except FileNotFoundError:
        return None
    value = own.get(FINGERPRINT)
    return value.decode() if value else None


@dataclass(frozen=True)
class FileFacts:
    """What a Parquet file says about itself.

    Args:
        rows: Its rows.
        size: Its size in bytes.
        fingerprint: Hash of what the table was made from; empty where it has none.
        figures: Figures about the table, as it was written with them.
        made_with: What its rows were made with; empty where it does not say.
    """

    rows: int
    size: int
    fingerprint: str
    figures: Mapping[str, float]
    made_with: str = ""


def read_facts(filesystem: FileSystem, path: str) -> FileFacts:
    """Rows, size, fingerprint and figures of a Parquet file, in one look.

    Raises:
        FileNotFoundError: No such file.
    """
    footer, size = _footer(filesystem, path)
    own = footer.metadata or {}
    figures: dict[str, float] = json.loads(own.get(FIGURES, b"{}"))
    return FileFacts(
        int(footer.num_rows),
        size,
        own.get(FINGERPRINT, b"").decode(),
        figures,
        own.get(MADE_WITH, b"").decode(),
    )


def _leaves(schema: pa.Schema) -> list[str]:
    """Paths of the stored columns: a list or structure has one for each of its parts."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    stored = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [stored.column(i).path for i in range(len(stored))]


def read_row_count(filesystem: FileSystem, path: str) -> int:
    """Number of rows of a Parquet file, from its footer.

    Raises:
        FileNotFoundError: No such file.
    """
    return int(_footer(filesystem, path)[0].num_rows)


def _footer(filesystem: FileSystem, path: str) -> tuple[pq.FileMetaData, int]:
    """Footer and size of a file."""
    if isinstance(filesystem, S3FileSystem):
        return read_footer(filesystem, path)
    source = _source(filesystem, path)
    return pq.ParquetFile(source).metadata, int(source.size())


def _source(filesystem: FileSystem, path: str) -> pa.NativeFile | pa.BufferReader:
    if isinstance(filesystem, LocalFileSystem):
        with filesystem.reading():
            return pa.memory_map(filesystem.uri(path))
    return pa.BufferReader(filesystem.read(path))
