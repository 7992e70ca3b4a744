"""The inventory of the input: which documents there are, their versions, and the batch of each.

Taking the inventory is level-triggered: it compares what the input holds with what was seen last, so that a missed event
or a run that died leaves nothing behind. Only files whose size, time or entity tag changed are read again.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets.input.batches import assign_batches
from graphrag_assets.input.documents import WARNINGS
from graphrag_assets.input.folder import list_inputs, read_contents
from graphrag_assets.input.language import detect_language
from graphrag_assets.progress import Progress
from graphrag_assets.settings import Settings
from graphrag_assets.storage.filesystem import FileInfo, FileSystem
from graphrag_assets.storage.ranges import Readable, reading_ahead
from graphrag_assets.storage.tables import INPUT_FILES, INPUT_INVENTORY, REJECTED_INPUTS

#: Files up to this size are read ahead, where that pays.
SMALL = 4_000_000


@dataclass(frozen=True)
class Changes:
    """Documents by what happened to them since the inventory before."""

    added: int
    edited: int
    deleted: int
    unchanged: int
    rejected: int


@dataclass(frozen=True)
class Inventory:
    """What the input holds now.

    Args:
        documents: One row a document (input_inventory).
        files: One row a file (input_files).
        rejected: One row for each file, row or page that could not be used (rejected_inputs).
        changes: Comparison with the inventory before.
    """

    documents: pa.Table
    files: pa.Table
    rejected: pa.Table
    changes: Changes


def count_unusable(reasons: Iterable[object]) -> int:
    """How many of these rejections mean that something is missing from the index, and not only a warning."""
    return sum(reason not in WARNINGS for reason in reasons)


def _rows_by_file(table: pa.Table) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    for row in table.to_pylist():
        found.setdefault(str(row["file"]), []).append(row)
    return found


def _tag(info: FileInfo) -> str:
    """What the listing tells of a file's state beside size and time; a right that is given changes neither of them."""
    return f"{info.problem.reason}: {info.problem.detail}" if info.problem else info.etag


def _unchanged(info: FileInfo, seen: Mapping[str, object] | None) -> bool:
    """Whether a file is as it was: an equal entity tag, or equal size and time."""
    if seen is None or info.size != seen["size"]:
        return False
    return _tag(info) == seen["etag"] if _tag(info) or seen["etag"] else info.modified == seen["modified"]


def _is_small(info: FileInfo) -> bool:
    return info.problem is None and info.size <= SMALL


def _unsettled(info: FileInfo, now: float, seconds: float) -> bool:
    """Whether a file may still be being written. A time far in the future is that of a wrong clock, and tells nothing."""
    return info.problem is None and abs(now - info.modified) < seconds


def take_inventory(
    filesystem: FileSystem, settings: Settings, before: Inventory | None = None, settle_seconds: float = 0.0
) -> Inventory:
    """Compare the input with the inventory before.

    Args:
        filesystem: The input folder or prefix.
        settings: Input and batch settings.
        before: The last inventory, made with equal input settings; None: read every file.
        settle_seconds: Files that were changed in the last seconds stay as they were seen last, new ones wait.

    Returns:
        The present inventory. Documents keep their batch; new ones fill the newest batch that has room.
    """
    seen_files = {str(row["file"]): row for row in before.files.to_pylist()} if before else {}
    seen_documents = _rows_by_file(before.documents) if before else {}
    seen_rejected = _rows_by_file(before.rejected) if before else {}
    files: list[dict[str, object]] = []
    documents: list[dict[str, object]] = []
    rejected: list[dict[str, object]] = []
    now = time.time()
    listed = list_inputs(filesystem, settings.input)
    progress = Progress("reading the input", len(listed))
    # Files that may still be being written are left as they were last seen.
    waiting = {i.path for i in listed if settle_seconds > 0 and _unsettled(i, now, settle_seconds)}
    changed = [
        info.path
        for info in listed
        if info.path not in waiting and _is_small(info) and not _unchanged(info, seen_files.get(info.path))
    ]
    with reading_ahead(filesystem, changed) as readable:
        for info in listed:
            seen = seen_files.get(info.path)
            if seen is not None and (info.path in waiting or _unchanged(info, seen)):
                files.append(seen)
                documents += seen_documents.get(info.path, [])
                rejected += seen_rejected.get(info.path, [])
            elif info.path not in waiting:
                file, found, refused = _read(readable, settings, info)
                files.append(file)
                documents += found
                rejected += refused
            progress.advance()
    batches = assign_batches(
        {str(row["path"]): int(str(row["bytes"])) for row in documents},
        _known_batches(before),
        settings.batches.max_documents,
        settings.batches.max_bytes,
    )
    for row in documents:
        row["batch"] = batches[str(row["path"])]
    table = INPUT_INVENTORY.from_rows(sorted(documents, key=lambda row: str(row["path"])))
    rejected.sort(key=lambda row: tuple(str(row[name]) for name in REJECTED_INPUTS.order))
    return Inventory(
        table,
        INPUT_FILES.from_rows(files),
        REJECTED_INPUTS.from_rows(rejected),
        compare(
            versions(before.documents) if before else {},
            versions(table),
            count_unusable(row["reason"] for row in rejected),
        ),
    )


@dataclass(frozen=True)
class FileChanges:
    """Files of which a listing shows something else than the inventory before; nothing was read.

    Args:
        new: Files that were not there.
        changed: Files of another size, time or entity tag.
        gone: Paths of files that are no longer there.
    """

    new: list[FileInfo]
    changed: list[FileInfo]
    gone: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        return {"new": len(self.new), "changed": len(self.changed), "gone": len(self.gone)}


def compare_files(listed: Sequence[FileInfo], files: pa.Table | None) -> FileChanges:
    """Compare a listing with the files of an inventory (input_files); None: there is none."""
    names = ("size", "modified", "etag")
    seen: dict[str, dict[str, object]] = {}
    if files is not None:
        columns = (files[name].to_pylist() for name in ("file", *names))
        seen = {file: dict(zip(names, facts, strict=True)) for file, *facts in zip(*columns, strict=True)}
    new = [info for info in listed if info.path not in seen]
    changed = [info for info in listed if info.path in seen and not _unchanged(info, seen[info.path])]
    there = {info.path for info in listed}
    return FileChanges(new, changed, [path for path in seen if path not in there])


def file_changes(filesystem: FileSystem, settings: Settings, before: Inventory | None) -> dict[str, int]:
    """Files by what a listing shows of them, against the inventory before: new, changed, gone. Nothing is read."""
    return compare_files(list_inputs(filesystem, settings.input), before.files if before else None).counts


def _known_batches(before: Inventory | None) -> dict[str, str]:
    if before is None:
        return {}
    return dict(zip(before.documents["path"].to_pylist(), before.documents["batch"].to_pylist(), strict=True))


def _read(
    filesystem: Readable, settings: Settings, info: FileInfo
) -> tuple[dict[str, object], list[dict[str, object]], list[dict[str, object]]]:
    """Read one file: its row of input_files, of input_inventory for each document, of rejected_inputs."""
    contents, data = read_contents(filesystem, info, settings.input)
    documents: list[dict[str, object]] = [
        {
            "document_id": document.document_id,
            "path": document.path,
            "file": info.path,
            "row": document.row,
            "batch": "",
            "content_hash": document.content_hash,
            "characters": len(document.text),
            "bytes": len(document.text.encode("utf-8", "surrogatepass")),
            "language": settings.language or detect_language(document.text),
        }
        for document in contents.documents
    ]
    rejected: list[dict[str, object]] = [
        {"file": r.file, "location": r.location, "reason": r.reason, "detail": r.detail} for r in contents.rejections
    ]
    file: dict[str, object] = {
        "file": info.path,
        "size": info.size,
        "modified": info.modified,
        "etag": _tag(info),
        "content_hash": hashlib.sha256(data).hexdigest() if data is not None else "",
        "encoding": contents.encoding or "",
        "documents": len(documents),
    }
    return file, documents, rejected


def versions(documents: pa.Table, id_column: str = "document_id") -> dict[str, str]:
    """Version (content hash) of each document by its id."""
    return dict(zip(documents[id_column].to_pylist(), documents["content_hash"].to_pylist(), strict=True))


def compare(before: Mapping[str, str], now: Mapping[str, str], rejected: int) -> Changes:
    """What happened to documents between two states, given as version by id."""
    edited = sum(1 for key, value in now.items() if key in before and before[key] != value)
    added = len(now.keys() - before.keys())
    return Changes(added, edited, len(before.keys() - now.keys()), len(now) - added - edited, rejected)


def common_language(inventory: pa.Table) -> str:
    """Language of most documents whose language is known: what the others are taken to be in; empty where there is none."""
    counts = Counter(language for language in inventory["language"].to_pylist() if language)
    language, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    return language if 2 * count > counts.total() else ""


def documents_of(inventory: pa.Table, batch: str) -> pa.Table:
    """Rows of the inventory that belong to one batch, in the order of their paths."""
    return inventory.filter(pc.equal(inventory["batch"], batch))
