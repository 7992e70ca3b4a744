"""The cache as one file that another host can take: Parquet, one row an answer or a vector, each with a sum of its own.

Keys are hashes of all that an answer depends on, so that what one workspace paid for is found by every other one that
asks the same. The file holds answers as they were given: whoever may not read the documents may not read it either.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_assets.llm.caching.care import TABLES, reading
from graphrag_assets.llm.caching.local import AnswerCache
from graphrag_assets.llm.caching.objects import SharedObjects
from graphrag_assets.llm.errors import GatewayError

if TYPE_CHECKING:
    import pyarrow as pa

#: Names the form of the file, in its metadata.
FORM = b"graphrag-assets cache"
VERSION = b"1"

#: Rows that are in memory together, and requests to a shared cache at one time.
_TOGETHER, _AT_ONCE = 2_000, 32

#: Rejected rows that are told one by one.
_SHOWN = 20


#: Stages that keep what was computed, not what a model answered, and the list that stands in it.
COMPUTED = {"contradictions": "conflicts"}


class CacheFileError(GatewayError):
    """A file of an exported cache cannot be read or written."""


class Entry(NamedTuple):
    """One row of the file.

    Args:
        kind: answers or vectors.
        key: What it is stored under.
        value: JSON of an answer; float32 numbers of a vector.
        stage: Stage that it was made for.
        created: When it was written, in seconds since 1970.
    """

    kind: str
    key: bytes
    value: bytes
    stage: str
    created: int

    def sum(self) -> bytes:
        """By which a damaged row is told."""
        head = f"{self.kind}\n{self.stage}\n{self.created}\n".encode()
        return hashlib.blake2b(head + self.key + self.value, digest_size=16).digest()


@dataclass
class Imported:
    """What became of the rows of a file.

    Args:
        added: Entries that were not there.
        known: Entries that were there already, whose value stays.
        rejected: Rows that cannot be used, by reason.
        examples: Some of them: number of the row and reason.
    """

    added: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, Any]] = field(default_factory=list)


def export_cache(file: Path, path: Path, shared: SharedObjects | None = None) -> dict[str, int]:
    """Write all that a cache holds.

    Args:
        file: File to write; it is put in place when it is whole.
        path: File of the cache.
        shared: Objects of a shared cache, whose entries are written too where the file has them not.

    Returns:
        Entries by kind.

    Raises:
        GatewayError: The cache cannot be read, or the file not written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema()
    counts: Counter[str] = Counter(dict.fromkeys(TABLES, 0))
    unfinished = file.with_name(file.name + ".unfinished")
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for some in _portions(_entries(path, shared)):
                counts.update(entry.kind for entry in some)
                rows = [(*entry, entry.sum()) for entry in some]
                columns = [
                    pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
                ]
                writer.write_batch(pa.record_batch(columns, schema))
        unfinished.replace(file)
    except OSError as error:
        raise CacheFileError(f"{file} cannot be written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return dict(counts)


def import_cache(file: Path, cache: AnswerCache) -> Imported:
    """Put what a file holds into a cache; what is there already stays, so that doing it twice is doing it once.

    Args:
        file: From :func:`export_cache`.
        cache: An open cache; one that is shared sends on what it gets.

    Raises:
        GatewayError: The file is none of these, or is not whole.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    done = Imported()
    try:
        with pq.ParquetFile(file) as parquet:
            schema = parquet.schema_arrow
            if (schema.metadata or {}).get(b"form") != FORM or schema.names != _schema().names:
                raise CacheFileError(f"{file} is no exported cache; graphrag-assets cache export writes one")
            if schema.metadata.get(b"version") != VERSION:
                raise CacheFileError(f"{file} was exported by another version of this program")
            number = 0
            for batch in parquet.iter_batches(_TOGETHER):
                number = _take(batch.to_pylist(), number, cache, done)
    except FileNotFoundError:
        raise CacheFileError(f"{file} does not exist") from None
    except (OSError, pa.ArrowException) as error:
        raise CacheFileError(f"{file} cannot be read: it is damaged or no exported cache ({error})") from error
    return done


def _take(rows: Sequence[dict[str, Any]], number: int, cache: AnswerCache, done: Imported) -> int:
    """Judge some rows, and put the good ones into the cache; returns the number of the next row."""
    vectors: dict[str, dict[bytes, bytes]] = {}
    good: dict[tuple[str, bytes], Entry] = {}
    for row in rows:
        entry = Entry(*(row[name] for name in Entry._fields))
        if problem := fault(entry, row["sum"]):
            done.rejected[problem] += 1
            if len(done.examples) < _SHOWN:
                done.examples.append({"row": number, "reason": problem})
        else:
            good[entry.kind, entry.key] = entry
        number += 1
    there = cache.vectors([key for kind, key in good if kind == "vectors"])
    for (kind, key), entry in good.items():
        if key in there if kind == "vectors" else cache.answer(key) is not None:
            done.known[kind] += 1
            continue
        done.added[kind] += 1
        if kind == "answers":
            cache.put_answer(key, entry.value, entry.stage)
        else:
            vectors.setdefault(entry.stage, {})[key] = entry.value
    for stage, some in vectors.items():
        cache.put_vectors(some, stage)
    cache.flush()
    return number


def fault(entry: Entry, told: object) -> str:
    """Why a row cannot be used; empty where it can.

    Args:
        entry: The row.
        told: The sum that stands beside it.
    """
    if None in entry:
        return "a column is empty"
    if entry.kind not in TABLES:
        return "neither an answer nor a vector"
    if len(entry.key) != 32:
        return "the key is none"
    if entry.sum() != told:
        return "the row was changed or damaged"
    return _fault_of_answer(entry) if entry.kind == "answers" else _fault_of_vector(entry.value)


def _fault_of_answer(entry: Entry) -> str:
    try:
        answer = orjson.loads(entry.value)
    except ValueError:
        return "the answer is no JSON"
    if entry.stage in COMPUTED:
        known = isinstance(answer, dict) and isinstance(answer.get(COMPUTED[entry.stage]), list)
        return "" if known else f"it has no list {COMPUTED[entry.stage]}"
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str) or not answer["text"]:
        return "the answer has no text"
    made = answer.get("made")
    if made is not None and not (isinstance(made, list) and len(made) == 6 and all(_is_number(part) for part in made)):
        return "what the answer took is not told in six numbers"
    return ""


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value))


def _fault_of_vector(value: bytes) -> str:
    import numpy as np

    if not value or len(value) % 4:
        return "the vector is not made of whole numbers of four bytes"
    return (
        "" if np.isfinite(np.frombuffer(value, np.float32)).all() else "the vector holds something that is not a number"
    )


def _schema() -> pa.Schema:
    import pyarrow as pa

    fields = [
        ("kind", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("stage", pa.string()),
        ("created", pa.int64()),
        ("sum", pa.binary()),
    ]
    return pa.schema(fields, metadata={b"form": FORM, b"version": VERSION})


def _portions(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    some: list[Entry] = []
    for entry in entries:
        some.append(entry)
        if len(some) == _TOGETHER:
            yield some
            some = []
    if some:
        yield some


def _entries(path: Path, shared: SharedObjects | None) -> Iterator[Entry]:
    """All entries: those of the file in the order of their keys, then those that only the shared cache has."""
    known: set[tuple[str, bytes]] = set()
    if path.is_file():
        with reading(path) as connection:
            for table in TABLES:
                rows = connection.execute(f"select key, value, stage, created from {table} order by key")  # noqa: S608
                for key, value, stage, created in rows:
                    try:
                        whole = zlib.decompress(value) if table == "answers" else value
                    except zlib.error:
                        continue  # damaged: it counts as missing here too
                    known.add((table, key))
                    yield Entry(table, key, whole, stage, created)
    if shared is None:
        return
    try:
        yield from _shared_entries(shared, known)
    except Exception as error:
        raise GatewayError(f"the shared cache cannot be used: {shared.place.told(error, shared.setting)}") from error


def _shared_entries(shared: SharedObjects, known: set[tuple[str, bytes]]) -> Iterator[Entry]:
    listed = sorted(shared.listed(), key=lambda stored: stored.name)
    answers = [(stored, bytes.fromhex(stored.name.rsplit("/", 1)[-1])) for stored in listed if not stored.vectors]
    missing = [(stored, key) for stored, key in answers if ("answers", key) not in known]
    for start in range(0, len(missing), _AT_ONCE):
        some = missing[start : start + _AT_ONCE]
        found = asyncio.run(_all([shared.answer(key) for _, key in some]))
        for (stored, key), held in zip(some, found, strict=True):
            if held is not None:
                yield Entry("answers", key, held[0], held[1], int(stored.written))
    for stored in listed:
        if stored.vectors:
            vectors, stage = asyncio.run(shared.pack(stored.name))
            for key, value in vectors.items():
                if ("vectors", key) not in known:
                    known.add(("vectors", key))
                    yield Entry("vectors", key, value, stage, int(stored.written))


async def _all(waiting: Sequence[Any]) -> list[Any]:
    return list(await asyncio.gather(*waiting))
