"""Answers and vectors in Redis, where several hosts share them: the objects of a bucket, as values of a server.

Answers and packs of vectors are the same bytes as in an object store. Two sorted sets tell when each was written; a value
that the server has evicted counts as missing. For a cache that outlives its server, an object store is the better place.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from graphrag_assets.llm.caching.objects import SharedObjects, Stored
from graphrag_assets.llm.errors import GatewayError, redact

if TYPE_CHECKING:
    import redis

#: Put before all names.
PREFIX = "graphrag-assets:cache:"

#: Seconds that are waited for the server.
_TIMEOUT = 10.0

_TOGETHER = 500


class RedisPlace:
    """A Redis server.

    Args:
        url: Address, such as redis://host:6379/0; it may hold a password, which is never told.
    """

    given_endpoint = None

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self.address = f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"

    def told(self, error: BaseException, setting: str) -> str:
        """An error of the client in words; see :meth:`graphrag_assets.object_store.ObjectStore.told`."""
        said = redact(str(error), [urlsplit(self.url).password or ""])
        return f"{setting}: {self.address}: Redis cannot be used; check the address and that the server is up. It said: {said}"


class RedisObjects(SharedObjects):
    """The objects of a shared cache in Redis. Whatever goes wrong is raised as the client raises it.

    Args:
        place: The server.
    """

    setting = "cache.redis_url"

    def __init__(self, place: RedisPlace) -> None:
        super().__init__(place)
        self._url = place.url

    @cached_property
    def _redis(self) -> redis.Redis:
        try:
            import redis
        except ImportError as error:
            raise GatewayError(
                "settings: cache.redis_url needs the package redis: pip install 'graphrag-assets[redis]'"
            ) from error
        return redis.Redis.from_url(self._url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT)

    async def read(self, name: str, length: int | None = None) -> bytes | None:
        """See :meth:`SharedObjects.read`."""
        if length is None:
            return await asyncio.to_thread(lambda: self._value(self._redis.get(PREFIX + name)))
        return await asyncio.to_thread(lambda: self._value(self._redis.getrange(PREFIX + name, 0, length - 1)))

    def write(self, name: str, data: bytes) -> None:
        """See :meth:`SharedObjects.write`."""
        with self._redis.pipeline() as pipe:
            pipe.set(PREFIX + name, data)
            pipe.zadd(PREFIX + _kind(name), {name: time.time()})
            pipe.execute()

    def packs(self) -> list[str]:
        """See :meth:`SharedObjects.packs`."""
        return [name for name, _ in self._names("vectors")]

    def listed(self) -> Iterator[Stored]:
        """See :meth:`SharedObjects.listed`; names of evicted values are forgotten."""
        for kind in ("answers", "vectors"):
            named = self._names(kind)
            for start in range(0, len(named), _TOGETHER):
                some = named[start : start + _TOGETHER]
                with self._redis.pipeline(transaction=False) as pipe:
                    for name, _ in some:
                        pipe.strlen(PREFIX + name)
                    sizes: list[int] = pipe.execute()
                for (name, written), size in zip(some, sizes, strict=True):
                    if size:
                        count = int(name.rsplit("/", 1)[-1].split("-")[1]) if kind == "vectors" else 0
                        yield Stored(name, size, written, count)
                if gone := [name for (name, _), size in zip(some, sizes, strict=True) if not size]:
                    self._redis.zrem(PREFIX + kind, *gone)

    def remove(self, names: Sequence[str]) -> None:
        """See :meth:`SharedObjects.remove`."""
        for start in range(0, len(names), _TOGETHER):
            with self._redis.pipeline() as pipe:
                for name in names[start : start + _TOGETHER]:
                    pipe.delete(PREFIX + name)
                    pipe.zrem(PREFIX + _kind(name), name)
                pipe.execute()

    def _names(self, kind: str) -> list[tuple[str, float]]:
        found: Any = self._redis.zrange(PREFIX + kind, 0, -1, withscores=True)
        return [(name.decode(), written) for name, written in found]

    @staticmethod
    def _value(found: Any) -> bytes | None:
        return bytes(found) if found else None


def _kind(name: str) -> str:
    return name.partition("/")[0]
