"""Exporting a snapshot: a folder of files that another program reads, written whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from graphrag_assets import __version__
from graphrag_assets.exchange.source import OPTIONAL, OWN, RECORD, REQUIRED, ExchangeError
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.snapshots import Manifest
from graphrag_assets.storage.vectors import load_lancedb, open_vectors

#: Facts of a manifest that an import of the export takes over.
_INFO = ("settings", "pruned", "method", "release", "encoding_model")

_SETTINGS_HEAD = """\
# Written by graphrag-assets {release}: snapshot {snapshot}, as Microsoft GraphRAG 3 reads it:
#   graphrag query "Who signed the contract?" --method local --root THIS_FOLDER
# The key is read from the environment variable GRAPHRAG_API_KEY. Questions are embedded by the embedding model below,
# which must be the one that made the vectors{note}.
"""


@dataclass(frozen=True)
class Snapshot:
    """What is exported.

    Args:
        storage: The storage base.
        manifest: The snapshot.
    """

    storage: FileSystem
    manifest: Manifest

    def table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """A table of the snapshot, or some of its columns."""
        return pq.read_table(pa.BufferReader(self.bytes(name)), columns=columns)

    def bytes(self, name: str) -> bytes:
        """The Parquet file of a table."""
        return self.storage.read(self.manifest.tables[name].path)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to write into, which becomes the target when all is written.

    Raises:
        ExchangeError: The target exists and is not empty, or cannot be made.
    """
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise ExchangeError(f"{target} exists and is not an empty folder: name a new one, nothing is overwritten")
    partial = target.parent / f".{target.name}.partial"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        if target.exists():
            target.rmdir()
        partial.rename(target)
    except OSError as error:
        raise ExchangeError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def export(snapshot: Snapshot, target: Path, write: Callable[[Snapshot, Path], None]) -> list[str]:
    """Write a snapshot into a new folder.

    Args:
        snapshot: What is exported.
        target: The folder; it must not exist, or be empty.
        write: Writes one format.

    Returns:
        The files that were written, relative to the folder; of a LanceDB table its folder.
    """
    with new_folder(target) as folder:
        write(snapshot, folder)
    found = [p.relative_to(target) for p in sorted(target.rglob("*")) if p.is_file() or p.suffix == ".lance"]
    return [str(p) for p in found if not any(parent.suffix == ".lance" for parent in p.parents)]


def write_graphrag(snapshot: Snapshot, folder: Path) -> None:
    """What the query code of Microsoft GraphRAG 3 reads: settings, tables, and vectors in LanceDB and Parquet."""
    output = folder / "output"
    output.mkdir()
    for name in (*REQUIRED, *OPTIONAL, *OWN):
        if name in snapshot.manifest.tables:
            (output / f"{name}.parquet").write_bytes(snapshot.bytes(name))
    database = load_lancedb().connect(str(output / "lancedb"))
    for name, described in snapshot.manifest.vectors.items():
        columns = ["id", "vector", "window", "text_hash"]
        rows = open_vectors(snapshot.storage, described).search().select(columns).limit(None).to_arrow()
        rows = rows.select(columns).sort_by([("id", "ascending"), ("window", "ascending")])
        database.create_table(name, rows)
        vectors = pc.cast(rows["vector"], pa.list_(pa.float64()))
        embeddings = pa.table({"id": rows["id"], "embedding": vectors, "window": rows["window"]})
        pq.write_table(embeddings, output / f"embeddings.{name}.parquet", compression="zstd")
    (folder / "settings.yaml").write_text(_settings(snapshot.manifest), encoding="utf-8")
    record = {
        "format": "graphrag",
        "release": __version__,
        "snapshot": snapshot.manifest.id,
        "content_hash": snapshot.manifest.content_hash,
        "info": {name: snapshot.manifest.info[name] for name in _INFO if name in snapshot.manifest.info},
        "vectors": {n: {"model": v.model, "dimension": v.dimension} for n, v in snapshot.manifest.vectors.items()},
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _settings(manifest: Manifest) -> str:
    vectors = next(iter(manifest.vectors.values()), None)
    identity = vectors.model if vectors else "openai/text-embedding-3-large@"
    provider, _, rest = identity.partition("/")
    model, _, endpoint = rest.rpartition("@")
    embedding = {"model_provider": provider, "model": model or rest, "api_key": "${GRAPHRAG_API_KEY}"}
    if endpoint.partition("#")[2]:
        embedding["call_args"] = {"dimensions": int(endpoint.partition("#")[2])}  # type: ignore[assignment]
    note = ""
    if provider == "embedded":
        note = (
            ".\n# They were made by a model inside graphrag-assets, which no server offers: global search works, local, DRIFT "
            "and\n# basic search need vectors of a model that Microsoft GraphRAG can call"
        )
    tree = {
        "completion_models": {
            "default_completion_model": {
                "model_provider": "openai",
                "model": "gpt-4.1",
                "api_key": "${GRAPHRAG_API_KEY}",
            }
        },
        "embedding_models": {"default_embedding_model": embedding},
        "chunking": {"encoding_model": manifest.info.get("encoding_model", "o200k_base")},
        "output_storage": {"type": "file", "base_dir": "output"},
        "vector_store": {
            "type": "lancedb",
            "db_uri": "output/lancedb",
            **({"vector_size": vectors.dimension} if vectors else {}),
        },
    }
    head = _SETTINGS_HEAD.format(release=__version__, snapshot=manifest.id, note=note)
    return head + yaml.safe_dump(tree, sort_keys=False)
