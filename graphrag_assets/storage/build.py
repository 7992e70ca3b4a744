"""The build area: what index runs are working on, apart from what is published.

One Parquet file for each whole-corpus table (``build/entities.parquet``) and one for each document batch of a
partitioned table (``build/text_units/batch-000001.parquet``). A file is replaced as a whole, and carries the fingerprint
of what it was made from, so that a later run can tell whether it is still true. Queries never read this area.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from graphrag_assets.storage import parquet, tables
from graphrag_assets.storage.contract import Table
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.lease import check

FOLDER = "build"

#: The contract of every table in the build area, by asset name.
CONTRACTS: dict[str, Table] = {
    "input_inventory": tables.INPUT_INVENTORY,
    "input_files": tables.INPUT_FILES,
    "rejected_inputs": tables.REJECTED_INPUTS,
    "documents": tables.BATCH_DOCUMENTS,
    "text_units": tables.BATCH_TEXT_UNITS,
    "extracted_entities": tables.EXTRACTED_ENTITIES,
    "extracted_relationships": tables.EXTRACTED_RELATIONSHIPS,
    "extracted_claims": tables.EXTRACTED_CLAIMS,
    "extraction_status": tables.EXTRACTION_STATUS,
    "entity_aliases": tables.ENTITY_ALIASES,
    "entities": tables.ENTITIES,
    "relationships": tables.RELATIONSHIPS,
    "covariates": tables.COVARIATES,
    "communities": tables.COMMUNITIES,
    "community_reports": tables.COMMUNITY_REPORTS,
}


@dataclass
class Built:
    """What an asset hands to the IO manager.

    Args:
        table: Rows in canonical order.
        fingerprint: Hash of what they were made from.
        model: Identity of the embedding model (vector tables only).
        metadata: Figures about these rows, for the page of their asset or partition.
        figures: Figures that stay in the file, for later runs.
        made_with: Version of what the rows were made with, where later runs may take over some of them.
    """

    table: pa.Table
    fingerprint: str = ""
    model: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    made_with: str = ""

    def release(self) -> None:
        """Let go of the rows once they are written: Dagster keeps all outputs of a run of this process until its end."""
        self.table = self.table.schema.empty_table()


@dataclass(frozen=True)
class TableRef:
    """The files behind a partitioned input; nothing is read until it is asked for.

    Args:
        area: The build area.
        name: Table name.
        partitions: Partitions that exist, in order.
    """

    area: BuildArea = field(repr=False)
    name: str
    partitions: tuple[str, ...]

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of all partitions, or some of their columns."""
        contract = CONTRACTS[self.name]
        names = list(columns) if columns is not None else contract.column_names
        parts = [self.area.read(self.name, p, names) for p in self.partitions]
        schema = pa.schema([contract.schema.field(n) for n in names])
        return pa.concat_tables([p.cast(schema) for p in parts]) if parts else schema.empty_table()


class BuildArea:
    """Reads and writes the build area of a storage base.

    Args:
        filesystem: The storage base.
    """

    def __init__(self, filesystem: FileSystem) -> None:
        self.filesystem = filesystem

    def path(self, name: str, partition: str | None = None) -> str:
        """Path of a table's file, relative to the storage base."""
        return f"{FOLDER}/{name}/{partition}.parquet" if partition else f"{FOLDER}/{name}.parquet"

    def write(self, name: str, built: Built, partition: str | None = None) -> int:
        """Write a table; returns the size of the file in bytes.

        Raises:
            TableContractError: The rows do not match the contract.
            LeaseLostError: Another process took over the index.
        """
        check(self.filesystem)
        data = parquet.to_bytes(built.table, CONTRACTS[name], built.fingerprint, built.figures, built.made_with)
        self.filesystem.write(self.path(name, partition), data)
        return len(data)

    def read(self, name: str, partition: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a table.

        Raises:
            FileNotFoundError: It was not built yet; the message says what to materialize.
        """
        try:
            return parquet.read_table(self.filesystem, self.path(name, partition), list(columns) if columns else None)
        except FileNotFoundError as error:
            what = f"{name}, partition {partition}," if partition else name
            raise FileNotFoundError(
                f"{what} was not built yet at {self.filesystem.base}: materialize it, or run graphrag-assets index"
            ) from error

    def fingerprint(self, name: str, partition: str | None = None) -> str | None:
        """Fingerprint of a table in the build area; None where it was not built."""
        return parquet.read_fingerprint(self.filesystem, self.path(name, partition))

    def rows(self, name: str, partition: str | None = None) -> int:
        """Number of rows of a table or one partition, without reading them."""
        return parquet.read_row_count(self.filesystem, self.path(name, partition))

    def facts(self, name: str, partition: str | None = None) -> parquet.FileFacts:
        """Rows, size and fingerprint of a table.

        Raises:
            FileNotFoundError: It was not built yet.
        """
        return parquet.read_facts(self.filesystem, self.path(name, partition))

    def parts(self, name: str) -> list[str]:
        """Paths of all files of a partitioned table, in order."""
        return sorted(info.path for info in self.filesystem.list(f"{FOLDER}/{name}"))

    def partitions(self, name: str) -> list[str]:
        """Partitions of a table that have a file, in order."""
        prefix = f"{FOLDER}/{name}"
        found = [info.path.removeprefix(f"{prefix}/").removesuffix(".parquet") for info in self.filesystem.list(prefix)]
        return sorted(found)

    def ref(self, name: str, live: Iterable[str]) -> TableRef:
        """Reference to the partitions of a table that are live and exist."""
        there = set(self.partitions(name))
        return TableRef(self, name, tuple(key for key in sorted(live) if key in there))

    def delete(self, name: str, partition: str) -> None:
        """Remove a partition of a table."""
        self.filesystem.delete(self.path(name, partition))
