"""A cache of answers that hosts share over a real Redis server."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from pydantic import ValidationError

from graphrag_assets.llm.caching import care as cache_care
from graphrag_assets.llm.caching.redis import PREFIX, RedisObjects, RedisPlace
from graphrag_assets.llm.caching.shared import SharedCache
from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.progress import begin_telling
from graphrag_assets.settings_sections import CacheSettings
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import invoke, make_workspace
from tests.unit.llm_workspaces import points, question, workspace

KEYS = [bytes([i]) * 32 for i in range(200)]


@pytest.fixture
def url(redis_server: str) -> Iterator[str]:
    """A database of its own, empty."""
    address = redis_server.removesuffix("/0") + "/5"
    client = redis.Redis.from_url(address)
    client.flushdb()
    yield address
    client.flushdb()


@pytest.fixture
def objects(url: str) -> RedisObjects:
    return RedisObjects(RedisPlace(url))


def find(cache: SharedCache, *keys: bytes) -> list[bytes | None]:
    async def ask() -> list[bytes | None]:
        return list(await asyncio.gather(*(cache.find_answer(key) for key in keys)))

    return asyncio.run(ask())


def test_what_one_host_paid_for_another_one_has(tmp_path: Path, objects: RedisObjects) -> None:
    vectors = {key: bytes([i]) * 16 for i, key in enumerate(KEYS)}
    with closing(SharedCache(tmp_path / "a.sqlite", objects)) as cache:
        cache.put_answer(KEYS[0], b'{"text": "yes"}', "extract_graph")
        cache.put_vectors(vectors, "embed")
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as file:
        assert file.execute("select count(*) from unsent").fetchone() == (0,)
    with closing(SharedCache(tmp_path / "b.sqlite", objects)) as cache:
        assert find(cache, KEYS[0], KEYS[1]) == [b'{"text": "yes"}', None]
        assert asyncio.run(cache.find_vectors(KEYS)) == vectors
        assert cache.answer(KEYS[0]) == b'{"text": "yes"}', "kept in the file of this host"


def test_gateways_of_two_hosts(tmp_path: Path, llmsim: LlmSim, url: str) -> None:
    async def host(name: str) -> int:
        async with Gateway(workspace(tmp_path / name, llmsim, cache={"redis_url": url})) as gateway:
            await asyncio.gather(*(gateway.ask("stage", "chat")(question(n), points) for n in range(10)))
            await gateway.embed("stage", "vectors", ["a text", "another"])
            return gateway.usage()["stage"].calls

    assert asyncio.run(host("a")) == 11
    assert asyncio.run(host("b")) == 0


def test_what_the_server_evicted_counts_as_missing(tmp_path: Path, objects: RedisObjects, url: str) -> None:
    with closing(SharedCache(tmp_path / "a.sqlite", objects)) as cache:
        cache.put_answer(KEYS[0], b"paid", "s")
        cache.put_answer(KEYS[1], b"paid", "s")
    client = redis.Redis.from_url(url)
    client.delete(next(client.scan_iter(f"{PREFIX}answers/*{KEYS[0].hex()}")))
    with closing(SharedCache(tmp_path / "b.sqlite", objects)) as cache:
        assert find(cache, KEYS[0], KEYS[1]) == [None, b"paid"]
    assert cache_care.shared_contents(objects)["answers"] == 1
    assert client.zcard(f"{PREFIX}answers") == 1


def test_a_server_that_is_gone_is_told_once_and_its_password_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = RedisObjects(RedisPlace("redis://user:secret-word@127.0.0.1:1/0"))
    began = time.monotonic()
    with closing(SharedCache(tmp_path / "a.sqlite", gone)) as cache:
        assert find(cache, *KEYS[:5]) == [None] * 5
        cache.put_answer(KEYS[0], b"paid", "s")
        cache.flush()
        assert cache.answer(KEYS[0]) == b"paid"
    for _ in range(3):  # further steps of the same run
        with closing(SharedCache(tmp_path / "a.sqlite", gone)) as cache:
            assert find(cache, *KEYS[1:5]) == [None] * 4
    assert time.monotonic() - began < 20
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "cache.redis_url: redis://127.0.0.1:1/0" in told
    assert "secret-word" not in caplog.text
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as file:
        assert file.execute("select count(*) from unsent").fetchone() == (1,), "it is sent later"
    begin_telling()
    caplog.clear()
    with closing(SharedCache(tmp_path / "a.sqlite", gone)) as cache:
        assert find(cache, KEYS[1]) == [None]
    assert "cache.redis_url" in caplog.text, "the next run is told again"


def test_commands(tmp_path: Path, objects: RedisObjects, url: str) -> None:
    root = make_workspace(tmp_path / "work", {"a.txt": "Some text."}, cache={"redis_url": url})
    with closing(SharedCache(tmp_path / "host.sqlite", objects)) as cache:
        for key in KEYS[:10]:
            cache.put_answer(key, b'{"text": "yes"}', "s")
        cache.put_vectors({KEYS[11]: b"\0" * 16}, "s")
    shown = invoke("cache", "show", "--root", root, "--json").json["shared"]
    assert shown["answers"] == 10
    assert shown["packs"] == shown["vectors"] >= 1  # what is noted as unsent may be sent twice
    told = invoke("cache", "export", tmp_path / "x.parquet", "--root", root, "--json").json
    assert (told["answers"], told["vectors"]) == (10, 1)
    assert "shared cache: redis://" in invoke("doctor", "--root", root).out
    prune = ("cache", "prune", "--root", root, "--json", "--shared", "--older-than")
    assert invoke(*prune, "1h").json["entries"] == {"answers": 0, "packs": 0}
    assert invoke(*prune, "0s").json["entries"] == {"answers": 10, "packs": shown["packs"]}
    assert cache_care.shared_contents(objects)["bytes"] == 0
    assert list(redis.Redis.from_url(url).scan_iter(f"{PREFIX}*")) == []


def test_two_places_are_one_too_many(url: str) -> None:
    with pytest.raises(ValidationError, match="set one of them"):
        CacheSettings.model_validate({"redis_url": url, "shared": "s3://bucket/cache"})
