"""Parquet: one document a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphrag_assets.input.documents import RejectedError
from graphrag_assets.input.readers.source import Row, Source

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_BATCH_ROWS = 1_024


def read(source: Source) -> None:
    """Read a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(source.data))
    except (pa.ArrowException, OSError) as error:
        raise RejectedError("broken", f"not a Parquet file that can be read: {error}") from error
    expanded = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
    if expanded > source.settings.max_expanded_bytes:
        raise RejectedError(
            "too_large",
            f"expands to {expanded} bytes, above input.max_expanded_bytes ({source.settings.max_expanded_bytes})",
        )
    columns = file.schema_arrow.names
    if source.text_column.split(".")[0] not in columns and source.text_column not in columns:
        raise source.without_text_column(columns)
    if file.metadata.num_rows == 0:
        source.reject("empty", "the file has no rows")
    try:
        source.add_rows(_rows(file, source.settings.max_expanded_bytes))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        source.reject("broken", f"reading stopped: {error}", f"row {len(source.documents)}")


def _rows(file: pq.ParquetFile, most_bytes: int) -> Iterator[Row]:
    """Rows of the file; repeated values are small in the file and large in memory, so that what was decoded counts."""
    number = decoded = 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS):
        decoded += batch.nbytes
        if decoded > most_bytes:
            raise RejectedError(
                "too_large", f"expands to more than input.max_expanded_bytes ({most_bytes}) at row {number}"
            )
        for values in batch.to_pylist():
            yield Row(number, f"row {number}", values)
            number += 1
