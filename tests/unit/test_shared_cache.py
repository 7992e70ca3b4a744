"""A cache of answers that hosts share over a real S3 server: each test stands for hosts with a file of their own."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.indexing.asking import AnswerError
from graphrag_assets.llm.caching import objects as shared_objects
from graphrag_assets.llm.caching import shared as shared_cache
from graphrag_assets.llm.caching.objects import BucketObjects
from graphrag_assets.llm.caching.shared import SharedCache
from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.object_store import ObjectStore
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from tests.llmsim_server import LlmSim
from tests.s3_proxy import Fault, Request, S3Proxy
from tests.s3_server import S3Server
from tests.unit.llm_workspaces import KEY, points, question, workspace

KEYS = [bytes([i]) * 32 for i in range(200)]


@pytest.fixture
def place(s3_server: S3Server, bucket: str) -> ObjectStore:
    return ObjectStore(f"s3://{bucket}/cache", s3_server.endpoint_url, "us-east-1")


@pytest.fixture
def objects(s3_server: S3Server, bucket: str) -> FileSystem:
    return open_filesystem(f"s3://{bucket}/cache", s3_server.endpoint_url)


@contextmanager
def host(folder: Path, place: ObjectStore) -> Iterator[SharedCache]:
    """The cache as a process of a host opens it."""
    cache = SharedCache(folder / "llm.sqlite", BucketObjects(place))
    yield cache
    cache.close()


def unsent(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "llm.sqlite")) as connection:
        return int(connection.execute("select count(*) from unsent").fetchone()[0])


def find(cache: SharedCache, *keys: bytes) -> list[bytes | None]:
    async def ask() -> list[bytes | None]:
        return list(await asyncio.gather(*(cache.find_answer(key) for key in keys)))

    return asyncio.run(ask())


def find_vectors(cache: SharedCache, keys: list[bytes]) -> dict[bytes, bytes]:
    return asyncio.run(cache.find_vectors(keys))


def test_what_one_host_paid_for_another_one_has(tmp_path: Path, place: ObjectStore) -> None:
    vectors = {key: bytes([i]) * 16 for i, key in enumerate(KEYS)}
    with host(tmp_path / "a", place) as cache:
        cache.put_answer(KEYS[0], b'{"text": "yes"}', "extract_graph")
        cache.put_vectors(vectors, "embed")
        cache.put_vectors({KEYS[5]: b"x" * 16}, "other stage")
        assert find(cache, KEYS[0]) == [b'{"text": "yes"}']
    assert unsent(tmp_path / "a") == 0
    with host(tmp_path / "b", place) as cache:
        assert cache.answer(KEYS[0]) is None
        assert find(cache, KEYS[0], KEYS[1]) == [b'{"text": "yes"}', None]
        found = find_vectors(cache, KEYS)
        assert found.keys() == vectors.keys()
        assert {k: v for k, v in found.items() if k != KEYS[5]} == {k: v for k, v in vectors.items() if k != KEYS[5]}
    assert unsent(tmp_path / "b") == 0, "what was fetched is not sent again"


def test_what_was_fetched_is_kept_on_the_host(tmp_path: Path, s3_proxy: S3Proxy, bucket: str) -> None:
    place = ObjectStore(f"s3://{bucket}/cache", s3_proxy.endpoint_url, "us-east-1")
    with host(tmp_path / "a", place) as cache:
        for key in KEYS[:20]:
            cache.put_answer(key, b"{}", "s")
        cache.put_vectors(dict.fromkeys(KEYS, b"v" * 16), "s")
    # A new bucket may refuse its first objects for a moment, which are then sent again.
    assert len({request.path for request in s3_proxy.requests if request.kind == "PUT"}) == 20 + 1, "packs of vectors"
    s3_proxy.forget()
    for again in (False, True):
        with host(tmp_path / "b", place) as cache:
            assert find(cache, *KEYS[:20]) == [b"{}"] * 20
            assert len(find_vectors(cache, KEYS)) == len(KEYS)
        count = s3_proxy.count()
        assert (count["GET"], count["LIST"]) == ((0, 0) if again else (20 + 2, 1)), count
        s3_proxy.forget()


def test_a_file_that_was_not_shared_before_is_sent_whole(tmp_path: Path, place: ObjectStore) -> None:
    from graphrag_assets.llm.caching.local import AnswerCache

    alone = AnswerCache(tmp_path / "a" / "llm.sqlite")
    alone.put_answer(KEYS[0], b"old", "s")
    alone.put_vectors({KEYS[1]: b"v" * 16}, "s")
    alone.close()
    with host(tmp_path / "a", place):
        pass
    with host(tmp_path / "b", place) as cache:
        assert find(cache, KEYS[0]) == [b"old"]
        assert find_vectors(cache, [KEYS[1]]) == {KEYS[1]: b"v" * 16}


def _pay_and_die(folder: Path, place: ObjectStore, ready: str) -> None:
    shared_cache.LINGER = 1000.0
    cache = SharedCache(folder / "llm.sqlite", BucketObjects(place))
    cache.send = lambda group: []  # type: ignore[method-assign]  # nothing gets through before it dies
    cache.put_answer(KEYS[0], b"paid", "s")
    cache.put_vectors({KEYS[1]: b"v" * 16}, "s")
    cache.flush()
    Path(ready).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_loses_nothing(tmp_path: Path, place: ObjectStore) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=_pay_and_die, args=(tmp_path / "a", place, str(tmp_path / "ready"))
    )
    process.start()
    process.join(60)
    assert (tmp_path / "ready").exists()
    assert unsent(tmp_path / "a") == 2
    with host(tmp_path / "a", place):
        pass
    assert unsent(tmp_path / "a") == 0
    with host(tmp_path / "b", place) as cache:
        assert find(cache, KEYS[0]) == [b"paid"]
        assert find_vectors(cache, [KEYS[1]]) == {KEYS[1]: b"v" * 16}


def test_damaged_objects_count_as_missing(tmp_path: Path, place: ObjectStore, objects: FileSystem) -> None:
    with host(tmp_path / "a", place) as cache:
        cache.put_answer(KEYS[0], b"paid", "s")
        cache.put_vectors(dict.fromkeys(KEYS, b"v" * 16), "s")
    for info in objects.list():
        data = bytearray(objects.read(info.path))
        data[-3] ^= 1
        objects.write(info.path, bytes(data))
    with host(tmp_path / "b", place) as cache:
        assert find(cache, KEYS[0]) == [None]
        assert find_vectors(cache, KEYS) == {}
        cache.put_answer(KEYS[0], b"paid again", "s")
    with host(tmp_path / "c", place) as cache:
        assert find(cache, KEYS[0]) == [b"paid again"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault("status", 500), "cache.shared: .* does not answer as it should"),
        (Fault("status", 403, "AccessDenied"), "cache.shared: .* refuses access"),
    ],
    ids=lambda value: str(getattr(value, "status", "")),
)
def test_a_store_that_fails_is_told_once_and_done_without(
    tmp_path: Path, s3_proxy: S3Proxy, bucket: str, fault: Fault, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    import re

    place = ObjectStore(f"s3://{bucket}/cache", s3_proxy.endpoint_url, "us-east-1")
    s3_proxy.fault = lambda _: fault
    started = time.monotonic()
    with host(tmp_path / "a", place) as cache:
        assert find(cache, *KEYS[:20]) == [None] * 20
        for key in KEYS[:20]:
            cache.put_answer(key, b"paid", "s")
        cache.put_vectors({KEYS[1]: b"v" * 16}, "s")
        cache.flush()
        assert cache.answer(KEYS[3]) == b"paid"
    assert time.monotonic() - started < 20
    (message,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert re.search(told, message)
    assert unsent(tmp_path / "a") == 21
    s3_proxy.fault = lambda _: None
    with host(tmp_path / "a", place):
        pass
    with host(tmp_path / "b", place) as cache:
        assert find(cache, *KEYS[:20]) == [b"paid"] * 20


def test_a_failure_that_passes_is_not_noticed(
    tmp_path: Path, s3_proxy: S3Proxy, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = ObjectStore(f"s3://{bucket}/cache", s3_proxy.endpoint_url, "us-east-1")
    seen: set[tuple[str, str]] = set()

    def each_once(request: Request) -> Fault | None:
        known = (request.method, request.path) in seen
        seen.add((request.method, request.path))
        return None if known else Fault("status", 503, "SlowDown")

    s3_proxy.fault = each_once
    with host(tmp_path / "a", place) as cache:
        for key in KEYS[:5]:
            cache.put_answer(key, b"paid", "s")
    with host(tmp_path / "b", place) as cache:
        assert find(cache, *KEYS[:5]) == [b"paid"] * 5
    assert not caplog.records


def _many(folder: Path, place: ObjectStore, number: int) -> None:
    cache = SharedCache(folder / "llm.sqlite", BucketObjects(place))
    for key in KEYS[:60]:
        cache.put_answer(key, b"answer " + key[:1].hex().encode(), "s")
    cache.put_vectors({key: key[:1] * 16 for key in KEYS}, "s")
    cache.close()


def test_many_processes_of_several_hosts_at_once(tmp_path: Path, place: ObjectStore) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [
        spawn.Process(target=_many, args=(tmp_path / name, place, number))
        for number, name in enumerate(("a", "a", "b"))
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert unsent(tmp_path / "a") == unsent(tmp_path / "b") == 0
    with host(tmp_path / "c", place) as cache:
        assert find(cache, *KEYS[:60]) == [b"answer " + key[:1].hex().encode() for key in KEYS[:60]]
        assert find_vectors(cache, KEYS) == {key: key[:1] * 16 for key in KEYS}


def test_through_the_gateway_only_usable_answers_are_shared(
    tmp_path: Path, llmsim: LlmSim, s3_server: S3Server, bucket: str, objects: FileSystem
) -> None:
    cache = {"shared": f"s3://{bucket}/cache", "endpoint_url": s3_server.endpoint_url}

    async def run(root: Path) -> tuple[int, int]:
        async with Gateway(workspace(root, llmsim, cache=cache)) as gateway:
            ask = gateway.ask("map", "chat")
            await asyncio.gather(*(ask(question(i), points) for i in range(10)))
            await gateway.embed("embed", "vectors", [f"text {i}" for i in range(40)])
            with pytest.raises(AnswerError, match="never"):
                await ask(question(99), _never)
            usage = gateway.usage()
            return usage["map"].cached, usage["embed"].cached

    assert asyncio.run(run(tmp_path / "a")) == (0, 0)
    found = [info.path for info in objects.list()]
    assert sum(path.startswith("answers/") for path in found) == 10
    assert sum(path.startswith("vectors/") for path in found) == 1
    assert asyncio.run(run(tmp_path / "b")) == (10, 40)
    assert not any(KEY.encode() in objects.read(path) for path in found)


def _never(text: str) -> object:
    raise ValueError("never")


@given(
    st.dictionaries(st.binary(min_size=32, max_size=32), st.binary(min_size=8, max_size=8), min_size=1),
    st.text("ab_", max_size=64),
)
def test_a_pack_comes_back(vectors: dict[bytes, bytes], stage: str) -> None:
    data = shared_objects.pack(vectors, stage)
    name = f"vectors/20310101T000000Z-{len(vectors)}-abc"
    assert shared_objects.read_keys(data[: shared_objects.head_bytes(name)]) == list(vectors)
    assert shared_objects.read_pack(data) == (vectors, stage)
    assert shared_objects.read_pack(data[:-1]) == ({}, "")
