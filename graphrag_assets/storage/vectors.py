"""Vector tables in LanceDB: one database folder for each embedding model, so that models never mix.

Writing a batch or a whole table is one commit. A snapshot names the version of each table; readers check that version
out, so that what a later run writes does not reach them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import pyarrow as pa

from graphrag_assets.object_store import is_told_by_client
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.s3 import S3FileSystem
from graphrag_assets.storage.snapshots import VectorTable

if TYPE_CHECKING:
    import lancedb

P = ParamSpec("P")
T = TypeVar("T")

FOLDER = "lancedb"

#: From this many rows on, a scan costs more than an index (measured: exact search of 20,000 rows takes some 10 ms).
INDEX_FROM_ROWS = 20_000


_ROWS_IN_A_PIECE = 512

#: Values that one condition names.
_LISTED = 1000

#: Fragments from which on a table is written together: each change leaves one, and a scan opens them all.
_FRAGMENTS = 64

#: LanceDB's upkeep of a table removes versions older than this, and takes a week where nothing is said: snapshots name
#: versions, and only pruning knows which of them are no longer needed.
_NO_VERSION = timedelta(days=36_500)


def database_path(model: str, dimension: int) -> str:
    """Folder of the vector tables of one embedding model, relative to the storage base."""
    slug = re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-")[:60]
    tag = hashlib.sha256(model.encode()).hexdigest()[:8]
    return f"{FOLDER}/{slug}-{dimension}-{tag}"


def load_lancedb() -> ModuleType:
    """Import lancedb, without the REST client of remote catalogues, which nothing here uses.

    The package module of that client builds hundreds of validators: a third of the time to import lancedb. What lancedb
    itself takes from the package, the models, is a module of its own that loads without it.
    """
    name = "lance_namespace_urllib3_client"
    spec = importlib.util.find_spec(name) if name not in sys.modules else None
    if spec is not None:
        sys.modules[name] = importlib.util.module_from_spec(spec)
    import lancedb

    module: ModuleType = lancedb
    return module


def connect(filesystem: FileSystem, path: str) -> lancedb.DBConnection:
    """Open a LanceDB database below a storage base."""
    options: dict[str, str] | None = None
    if isinstance(filesystem, S3FileSystem):
        options = filesystem.place.lance_options()
    else:
        os.makedirs(filesystem.uri(path), exist_ok=True)
    database: lancedb.DBConnection = load_lancedb().connect(
        filesystem.uri(path), storage_options=options, read_consistency_interval=timedelta(0)
    )
    return database


def telling(filesystem: FileSystem) -> AbstractContextManager[None]:
    """Say in words why vector tables cannot be read or written, where they lie in an object store.

    Raises:
        StorageError: They cannot.
    """
    return filesystem.telling() if isinstance(filesystem, S3FileSystem) else nullcontext()


def open_vectors(filesystem: FileSystem, vector_table: VectorTable) -> Any:
    """Open one vector table at the version that a snapshot names."""
    with telling(filesystem):
        table = connect(filesystem, vector_table.path).open_table(vector_table.table)
        table.checkout(vector_table.version)
    return table


@dataclass(frozen=True)
class Marker:
    """What a vector table of the build area, or one batch of it, was made from.

    Args:
        fingerprint: Hash of what the vectors were made from.
        model: Identity of the embedding model.
        dimension: Length of a vector.
        rows: Number of vectors.
        version: Version of the LanceDB table after they were written.
    """

    fingerprint: str
    model: str
    dimension: int
    rows: int
    version: int


def _marker_path(name: str, batch: str | None) -> str:
    return f"build/{name}/{batch}.json" if batch else f"build/{name}.json"


def write_marker(filesystem: FileSystem, name: str, batch: str | None, marker: Marker) -> None:
    """Write the marker of a vector asset or of one batch of it.

    It is written twice: without a fingerprint before the vectors change, so that those of a run that dies are made again
    whatever is wanted then, and with it when they are there.
    """
    filesystem.write(_marker_path(name, batch), json.dumps(asdict(marker), sort_keys=True).encode())


def read_marker(filesystem: FileSystem, name: str, batch: str | None) -> Marker | None:
    """Read the marker of a vector asset or of one batch of it; None where it was not built."""
    try:
        return Marker(**json.loads(filesystem.read(_marker_path(name, batch))))
    except FileNotFoundError:
        return None


def _stream(data: pa.Table) -> pa.RecordBatchReader:
    """The rows in small pieces: LanceDB copies what it is given whole, and keeps it until the next write."""
    return pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=_ROWS_IN_A_PIECE))


def _told(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method of the store with :func:`telling`."""

    @wraps(method)
    def guarded(*args: P.args, **named: P.kwargs) -> T:
        with telling(cast(VectorStore, args[0]).filesystem):
            return method(*args, **named)

    return guarded


def _versions(rows: pa.Table) -> dict[tuple[str, int], str]:
    """Hash of the text of each row, by id and window."""
    keys = zip(rows["id"].to_pylist(), rows["window"].to_pylist(), strict=True)
    return dict(zip(keys, rows["text_hash"].to_pylist(), strict=True))


def _listed(values: Iterable[str]) -> str:
    """Values as a list of SQL."""
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)


def _any_of(keys: Sequence[tuple[str, int]]) -> str:
    """Condition that a row is one of these, given by id and window."""
    windows = sorted({window for _, window in keys})
    return " or ".join(f"(window = {w} and id in ({_listed(i for i, of in keys if of == w)}))" for w in windows)


class VectorStore:
    """The vector tables of one embedding model.

    Args:
        filesystem: The storage base.
        model: Identity of the embedding model.
        dimension: Length of a vector.
        path: Folder of the tables; None: the one of the model, where ``index`` keeps its vectors.
    """

    def __init__(self, filesystem: FileSystem, model: str, dimension: int, path: str | None = None) -> None:
        self.filesystem = filesystem
        self.model = model
        self.dimension = dimension
        self.path = path or database_path(model, dimension)
        self._database: lancedb.DBConnection | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns of a vector table; a long text may have several windows; batch is empty for whole-corpus tables."""
        return pa.schema(
            [
                pa.field("id", pa.string(), nullable=False),
                pa.field("window", pa.int32(), nullable=False),
                pa.field("vector", pa.list_(pa.float32(), self.dimension), nullable=False),
                pa.field("text_hash", pa.string(), nullable=False),
                pa.field("batch", pa.string(), nullable=False),
            ]
        )

    def _open(self, name: str) -> Any:
        if self._database is None:
            self._database = connect(self.filesystem, self.path)
        try:
            return self._database.open_table(name)
        except (ValueError, FileNotFoundError) as error:
            if is_told_by_client(error):
                raise
            return self._database.create_table(name, schema=self.schema, exist_ok=True)

    @_told
    def write(self, name: str, rows: pa.Table, batch: str = "") -> int:
        """Make the rows of a batch (or of the whole table) exactly these. Rows that are as before are not touched.

        What a row holds follows from its id, its window and the hash of its text, where it has one: only these are compared.

        Args:
            name: Table name.
            rows: Columns id, window, vector, text_hash.
            batch: Document batch, or empty for a whole-corpus table.

        Returns:
            Version of the table after the last commit.
        """
        table = self._open(name)
        before = _versions(self.rows(name, batch, vectors=False))
        wanted = _versions(rows)
        data = rows.append_column("batch", pa.array([batch] * rows.num_rows, pa.string()))
        data = data.select(self.schema.names).cast(self.schema)
        gone = sorted(before.keys() - wanted.keys())
        merge = table.merge_insert(["id", "window"]).when_matched_update_all().when_not_matched_insert_all()
        if len(gone) > _LISTED and rows.num_rows:  # more than a condition can name: all rows anew, in one commit
            merge.when_not_matched_by_source_delete(f"batch = '{batch}'").execute(_stream(data))
            return int(table.version)
        if gone:
            table.delete(f"batch = '{batch}'" + (f" and ({_any_of(gone)})" if rows.num_rows else ""))
        changed = [not text_hash or text_hash != before.get(key) for key, text_hash in wanted.items()]
        data = data.filter(pa.array(changed, pa.bool_()))
        if data.num_rows and table.count_rows() == 0:
            table.add(_stream(data))
        elif data.num_rows:
            merge.execute(_stream(data))
        return int(table.version)

    @_told
    def keep_batches(self, name: str, batches: list[str]) -> None:
        """Delete the rows of batches that no longer exist."""
        table = self._open(name)
        listed = ", ".join(f"'{b}'" for b in batches)
        where = f"batch not in ({listed})" if batches else "true"
        if table.count_rows(where):
            table.delete(where)

    @_told
    def known(self, name: str, hashes: Collection[str]) -> pa.Table:
        """Rows of texts, by their hashes, whatever they are the texts of: text_hash, window and vector, in that order."""
        columns = ["text_hash", "window", "vector"]
        there = self._open(name).search().select(["text_hash"]).limit(None).to_arrow()["text_hash"]
        found = sorted(set(there.to_pylist()).intersection(hashes))
        table = self._open(name)
        parts = [
            table.search()
            .where(f"text_hash in ({_listed(found[start : start + _LISTED])})")
            .select([*columns, "id"])
            .limit(None)
            .to_arrow()
            for start in range(0, len(found), _LISTED)
        ]
        if not parts:
            return self.schema.empty_table().select(columns)
        rows = pa.concat_tables(parts).sort_by(
            [("text_hash", "ascending"), ("id", "ascending"), ("window", "ascending")]
        )
        # A text that several rows have in common is told once.
        told = _versions(rows.select(["id", "window", "text_hash"]))
        first: dict[str, str] = {}
        for (identifier, _), text_hash in told.items():
            first.setdefault(text_hash, identifier)
        once = [first[text_hash] == identifier for (identifier, _), text_hash in told.items()]
        return rows.filter(pa.array(once, pa.bool_())).select(columns)

    @_told
    def rows(self, name: str, batch: str | None = None, vectors: bool = True) -> pa.Table:
        """Rows of a table or of one batch, sorted by id and window: id, window, text_hash and, if asked for, vector."""
        columns = ["id", "window", "text_hash", "vector"] if vectors else ["id", "window", "text_hash"]
        query = self._open(name).search().select(columns)
        if batch is not None:
            query = query.where(f"batch = '{batch}'")
        return query.limit(None).to_arrow().select(columns).sort_by([("id", "ascending"), ("window", "ascending")])

    def ids(self, name: str) -> list[str]:
        """The ids in a table, sorted, each once however many windows it has."""
        rows = self.rows(name, vectors=False)
        windows = zip(rows["id"].to_pylist(), rows["window"].to_pylist(), strict=True)
        return [identifier for identifier, window in windows if not window]

    @_told
    def describe(self, name: str) -> VectorTable:
        """The present version of a table, as a snapshot names it. An index is built or extended where it pays.

        Vectors are not read: the texts that they stand for and the model, which is named beside them, tell one state of
        the table from another.
        """
        table = self._open(name)
        count = int(table.count_rows())
        if count >= INDEX_FROM_ROWS:
            self._index(table)
        elif table.stats()["fragment_stats"]["num_fragments"] > _FRAGMENTS:
            table.optimize(cleanup_older_than=_NO_VERSION)
        rows = self.rows(name, vectors=False)
        h = hashlib.sha256()
        for row in zip(*(rows[column].to_pylist() for column in ("id", "window", "text_hash")), strict=True):
            h.update(" ".join(map(str, row)).encode() + b"\n")
        return VectorTable(self.path, name, int(table.version), count, self.model, self.dimension, h.hexdigest())

    def _index(self, table: Any) -> None:
        from lancedb.index import IvfSq

        if not any("vector" in index.columns for index in table.list_indices()):
            table.create_index("vector", config=IvfSq(distance_type="cosine"))
        else:
            table.optimize(cleanup_older_than=_NO_VERSION)
