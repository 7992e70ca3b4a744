"""Answers and vectors in an object store, where several hosts share them.

An answer is an object of its own, ``answers/<two digits>/<key>``: it is asked for one at a time, and the model that would
answer takes a hundred times as long as the look. Vectors are asked for by the thousand, so that they travel in packs of
some hundred, ``vectors/<time>-<count>-<random>``: the keys stand first, so that a few bytes tell what a pack holds. All
objects are written whole and never changed; one that is damaged counts as missing.
"""

from __future__ import annotations

import hashlib
import struct
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphrag_assets.object_store import ObjectStore

if TYPE_CHECKING:
    from obstore.store import S3Store

#: Most vectors in a pack.
PACK_VECTORS = 512

_ANSWER, _PACK = b"GRA1", b"GRV1"

#: A pack begins with this mark, the stage, the number of vectors and the bytes of each; keys of so many bytes follow.
_HEAD = struct.Struct("<4s64sII")
_KEY_BYTES = 32
_SUM_BYTES = 32

#: Requests are repeated less than elsewhere: a cache that does not answer is done without.
_RETRIES = 2


def answer_path(key: bytes) -> str:
    """Object of an answer."""
    name = key.hex()
    return f"answers/{name[:2]}/{name}"


def answer_object(value: bytes, stage: str) -> bytes:
    """Bytes of the object of an answer."""
    return _ANSWER + stage.encode() + b"\n" + zlib.compress(value, 6)


def read_answer(data: bytes) -> tuple[bytes, str] | None:
    """Value and stage of an answer; None where the object is damaged."""
    stage, found, body = data.removeprefix(_ANSWER).partition(b"\n")
    if not data.startswith(_ANSWER) or not found:
        return None
    try:
        return zlib.decompress(body), stage.decode()
    except (zlib.error, UnicodeDecodeError):
        return None


def pack(vectors: Mapping[bytes, bytes], stage: str) -> bytes:
    """Bytes of a pack of vectors of one size."""
    size = len(next(iter(vectors.values())))
    head = _HEAD.pack(_PACK, stage.encode()[:64], len(vectors), size)
    data = head + b"".join(vectors) + b"".join(vectors.values())
    return data + hashlib.sha256(data).digest()


def head_bytes(name: str) -> int:
    """How many bytes of a pack tell its keys; its name tells their number."""
    return _HEAD.size + _KEY_BYTES * int(name.rsplit("/", 1)[-1].split("-")[1])


def read_keys(head: bytes) -> list[bytes]:
    """Keys of the vectors of a pack, from its first bytes; none where it is damaged."""
    if len(head) < _HEAD.size:
        return []
    mark, _, count, _ = _HEAD.unpack_from(head)
    if mark != _PACK or len(head) < _HEAD.size + count * _KEY_BYTES:
        return []
    return [head[_HEAD.size + i * _KEY_BYTES :][:_KEY_BYTES] for i in range(count)]


def read_pack(data: bytes) -> tuple[dict[bytes, bytes], str]:
    """Vectors of a pack by key, and their stage; no vectors where it is damaged."""
    body, told = data[:-_SUM_BYTES], data[-_SUM_BYTES:]
    if len(data) < _HEAD.size + _SUM_BYTES or hashlib.sha256(body).digest() != told:
        return {}, ""
    _, stage, count, size = _HEAD.unpack_from(body)
    start = _HEAD.size + count * _KEY_BYTES
    vectors = {key: body[start + i * size :][:size] for i, key in enumerate(read_keys(body))}
    return vectors, stage.rstrip(b"\0").decode()


@dataclass(frozen=True)
class Stored:
    """One object.

    Args:
        name: Its path.
        size: Its bytes.
        written: When it was written, in seconds since 1970.
        vectors: Vectors in it; 0 for an answer.
    """

    name: str
    size: int
    written: float
    vectors: int


class SharedObjects:
    """The objects of a shared cache. Whatever goes wrong is raised as the client raises it.

    Args:
        place: Where they are.
    """

    def __init__(self, place: ObjectStore) -> None:
        self.place = place
        self._client: S3Store | None = None

    @property
    def client(self) -> S3Store:
        """The client, made at first use."""
        if self._client is None:
            self._client = self.place.connect(max_retries=_RETRIES)
        return self._client

    async def answer(self, key: bytes) -> tuple[bytes, str] | None:
        """Value and stage of an answer; None where there is none."""
        import obstore

        try:
            found = await obstore.get_async(self.client, answer_path(key))
            return read_answer(bytes(await found.bytes_async()))
        except FileNotFoundError:
            return None

    def put_answer(self, key: bytes, value: bytes, stage: str) -> None:
        """Store an answer; one that is there already is as good."""
        import obstore

        obstore.put(self.client, answer_path(key), answer_object(value, stage))

    def packs(self) -> list[str]:
        """Names of all packs of vectors: one request for each thousand."""
        import obstore

        return [item["path"] for chunk in obstore.list(self.client, prefix="vectors") for item in chunk]

    async def pack_keys(self, name: str) -> list[bytes]:
        """Keys of the vectors in a pack."""
        import obstore

        try:
            return read_keys(bytes(await obstore.get_range_async(self.client, name, start=0, length=head_bytes(name))))
        except FileNotFoundError:
            return []

    async def pack(self, name: str) -> tuple[dict[bytes, bytes], str]:
        """Vectors of a pack by key, and their stage."""
        import obstore

        try:
            found = await obstore.get_async(self.client, name)
            return read_pack(bytes(await found.bytes_async()))
        except FileNotFoundError:
            return {}, ""

    def listed(self) -> Iterator[Stored]:
        """All objects."""
        import obstore

        for kind in ("answers", "vectors"):
            for chunk in obstore.list(self.client, prefix=kind):
                for item in chunk:
                    count = int(item["path"].rsplit("/", 1)[-1].split("-")[1]) if kind == "vectors" else 0
                    yield Stored(item["path"], item["size"], item["last_modified"].timestamp(), count)

    def remove(self, names: Sequence[str]) -> None:
        """Delete objects; one that is gone already is no error."""
        import obstore

        for some in _parts(names, 500):
            obstore.delete(self.client, list(some))

    def put_packs(self, vectors: Mapping[bytes, tuple[bytes, str]]) -> None:
        """Store vectors, given by key with their stages, in as few packs as may be."""
        import obstore

        alike: dict[tuple[str, int], dict[bytes, bytes]] = {}
        for key, (value, stage) in vectors.items():
            alike.setdefault((stage, len(value)), {})[key] = value
        for (stage, _), some in alike.items():
            for keys in _parts(list(some), PACK_VECTORS):
                at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
                name = f"vectors/{at}-{len(keys)}-{uuid.uuid4().hex[:12]}"
                obstore.put(self.client, name, pack({key: some[key] for key in keys}, stage))


def _parts(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
