"""Answers and vectors as objects, in a bucket or elsewhere, where several hosts share them.

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
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from graphrag_assets.object_store import ObjectStore

if TYPE_CHECKING:
    from obstore.store import S3Store

#: Setting that names the bucket.
SETTING = "cache.shared"

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


class Place(Protocol):
    """Where a shared cache is."""

    @property
    def address(self) -> str:
        """Its address, without a password."""
        ...

    @property
    def given_endpoint(self) -> str | None:
        """Address of the server, where it is given apart."""
        ...

    def told(self, error: BaseException, setting: str) -> str:
        """An error of its client in words."""
        ...


class SharedObjects(ABC):
    """The objects of a shared cache. Whatever goes wrong is raised as the client raises it.

    Args:
        place: Where they are.
    """

    #: Setting that names the place.
    setting = SETTING

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    async def read(self, name: str, length: int | None = None) -> bytes | None:
        """Bytes of an object, or the first of them; None where there is none."""
        ...

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write an object; one that is there already is as good."""
        ...

    @abstractmethod
    def packs(self) -> list[str]:
        """Names of all packs of vectors."""
        ...

    @abstractmethod
    def listed(self) -> Iterator[Stored]:
        """All objects."""
        ...

    @abstractmethod
    def remove(self, names: Sequence[str]) -> None:
        """Delete objects; one that is gone already is no error."""
        ...

    async def answer(self, key: bytes) -> tuple[bytes, str] | None:
        """Value and stage of an answer; None where there is none."""
        data = await self.read(answer_path(key))
        return None if data is None else read_answer(data)

    def put_answer(self, key: bytes, value: bytes, stage: str) -> None:
        """Store an answer."""
        self.write(answer_path(key), answer_object(value, stage))

    async def pack_keys(self, name: str) -> list[bytes]:
        """Keys of the vectors in a pack."""
        return read_keys(await self.read(name, head_bytes(name)) or b"")

    async def pack(self, name: str) -> tuple[dict[bytes, bytes], str]:
        """Vectors of a pack by key, and their stage."""
        return read_pack(await self.read(name) or b"")

    def put_packs(self, vectors: Mapping[bytes, tuple[bytes, str]]) -> None:
        """Store vectors, given by key with their stages, in as few packs as may be."""
        alike: dict[tuple[str, int], dict[bytes, bytes]] = {}
        for key, (value, stage) in vectors.items():
            alike.setdefault((stage, len(value)), {})[key] = value
        for (stage, _), some in alike.items():
            for keys in _parts(list(some), PACK_VECTORS):
                at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
                name = f"vectors/{at}-{len(keys)}-{uuid.uuid4().hex[:12]}"
                self.write(name, pack({key: some[key] for key in keys}, stage))


class BucketObjects(SharedObjects):
    """The same in a bucket.

    Args:
        store: The bucket and prefix.
    """

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._store = store

    @cached_property
    def client(self) -> S3Store:
        """The client, made at first use."""
        return self._store.connect(max_retries=_RETRIES)

    async def read(self, name: str, length: int | None = None) -> bytes | None:
        """See :meth:`SharedObjects.read`."""
        import obstore

        try:
            if length is not None:
                return bytes(await obstore.get_range_async(self.client, name, start=0, length=length))
            found = await obstore.get_async(self.client, name)
            return bytes(await found.bytes_async())
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`SharedObjects.write`."""
        import obstore

        obstore.put(self.client, name, data)

    def packs(self) -> list[str]:
        """See :meth:`SharedObjects.packs`: one request for each thousand."""
        import obstore

        return [item["path"] for chunk in obstore.list(self.client, prefix="vectors") for item in chunk]

    def listed(self) -> Iterator[Stored]:
        """See :meth:`SharedObjects.listed`."""
        import obstore

        for kind in ("answers", "vectors"):
            for chunk in obstore.list(self.client, prefix=kind):
                for item in chunk:
                    count = int(item["path"].rsplit("/", 1)[-1].split("-")[1]) if kind == "vectors" else 0
                    yield Stored(item["path"], item["size"], item["last_modified"].timestamp(), count)

    def remove(self, names: Sequence[str]) -> None:
        """See :meth:`SharedObjects.remove`."""
        import obstore

        for some in _parts(names, 500):
            obstore.delete(self.client, list(some))


def _parts(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
