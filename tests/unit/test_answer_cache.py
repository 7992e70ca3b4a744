"""The cache: what hits and what does not, several processes, killed processes, damaged files, full disks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.indexing.asking import AnswerError, Reply
from graphrag_assets.llm.caching.local import AnswerCache, answer_key, vector_keys
from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.gateway import Gateway, StageUsage
from graphrag_assets.settings import Workspace
from tests.llmsim_server import LlmSim
from tests.unit.llm_workspaces import KEY, points, question, workspace


def run(space: Workspace, numbers: Any, parse: Any = points, **options: Any) -> tuple[list[Any], StageUsage]:
    async def main() -> tuple[list[Any], StageUsage]:
        async with Gateway(space) as gateway:
            ask = gateway.ask("stage", "chat")
            calls = (ask(question(number), parse, **options) for number in numbers)
            answers = await asyncio.gather(*calls, return_exceptions=True)
            return answers, gateway.usage()["stage"]

    return asyncio.run(main())


# -- the store itself --------------------------------------------------------------------------------------------------


def test_a_value_can_be_read_at_once_and_after_reopening(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "deep" / "folder" / "llm.sqlite")
    cache.put_answer(b"k", b"value" * 100, "stage")
    assert cache.answer(b"k") == b"value" * 100
    cache.flush()
    assert cache.answer(b"k") == b"value" * 100
    assert cache.answer(b"other") is None
    cache.close()
    again = AnswerCache(tmp_path / "deep" / "folder" / "llm.sqlite")
    assert again.answer(b"k") == b"value" * 100
    again.close()


def test_what_comes_close_together_is_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = AnswerCache(tmp_path / "llm.sqlite")
    groups: list[int] = []
    write = cache._write
    monkeypatch.setattr(cache, "_write", lambda group, calls: (groups.append(len(group)), write(group, calls)))
    monkeypatch.setattr("graphrag_assets.llm.caching.local.GATHERING", 60.0)
    for number in range(20):
        cache.put_answer(b"k%d" % number, b"value", "stage")
        time.sleep(0.001)
    began = time.monotonic()
    cache.flush()
    assert time.monotonic() - began < 30.0, "who waits for the file does not wait for more to come"
    assert groups == [20]
    cache.close()


def test_without_a_path_nothing_is_kept() -> None:
    cache = AnswerCache(None)
    cache.put_answer(b"k", b"v", "stage")
    cache.put_vectors({b"k": b"v"}, "stage")
    assert cache.answer(b"k") is None
    assert cache.vectors([b"k"]) == {}
    cache.close()


@given(st.lists(st.text(max_size=20), max_size=50))
def test_vector_keys_depend_on_each_text_alone(texts: list[str]) -> None:
    keys = vector_keys({"model": "m"}, texts)
    assert keys == [vector_keys({"model": "m"}, [text])[0] for text in texts]
    assert len(set(keys)) == len(set(texts))
    assert not set(keys) & set(vector_keys({"model": "n"}, texts))


def test_answer_keys() -> None:
    messages = [{"role": "user", "content": "a"}]
    base = answer_key({"model": "m", "parameters": {"a": 1, "b": 2}}, messages, None)
    assert base == answer_key({"parameters": {"b": 2, "a": 1}, "model": "m"}, [{"content": "a", "role": "user"}], None)
    assert base != answer_key({"model": "m", "parameters": {"a": 1, "b": 3}}, messages, None)
    assert base != answer_key({"model": "m", "parameters": {"a": 1, "b": 2}}, messages, {"type": "object"})
    assert base != answer_key({"model": "m", "parameters": {"a": 1, "b": 2}}, [*messages, *messages], None)
    assert answer_key({}, [{"role": "user", "content": "lone \ud800 surrogate"}], None)


def test_ten_thousand_vectors_are_read_in_well_under_a_second(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "llm.sqlite")
    keys = vector_keys({}, map(str, range(10_000)))
    vectors = np.random.default_rng(1).random((10_000, 1536), dtype=np.float32)
    for start in range(0, 10_000, 16):
        cache.put_vectors(
            {k: v.tobytes() for k, v in zip(keys[start : start + 16], vectors[start:], strict=False)}, "s"
        )
    cache.flush()
    found = cache.vectors(keys)
    assert all(
        (np.frombuffer(found[key], dtype=np.float32) == vector).all() for key, vector in zip(keys, vectors, strict=True)
    )
    cache.close()


_WRITER = """
import sys
from pathlib import Path
from graphrag_assets.llm.caching.local import AnswerCache
path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
cache = AnswerCache(path)
for i in range(count):
    cache.put_answer(f"{name}-{i}".encode().ljust(32), f"{name} {i}".encode() * 50, "stage")
    if i % 50 == 0 or count > 10**6:
        cache.flush()
        print(i, flush=True)
cache.close()
"""


def test_several_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "llm.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(path), str(n), "1000"], stdout=subprocess.DEVNULL)
        for n in range(3)
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    cache = AnswerCache(path)
    for name in range(3):
        for i in range(1000):
            assert cache.answer(f"{name}-{i}".encode().ljust(32)) == f"{name} {i}".encode() * 50
    cache.close()


def test_a_killed_process_loses_nothing_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "llm.sqlite"
    command = [sys.executable, "-c", _WRITER, str(path), "w", str(10**7)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        last = 0
        while last < 200:
            last = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        last = max([last, *(int(line) for line in writer.stdout.read().splitlines() if line.isdigit())])
    cache = AnswerCache(path)
    assert all(cache.answer(f"w-{i}".encode().ljust(32)) is not None for i in range(last))
    cache.close()


@pytest.mark.parametrize("damage", [b"this is no database" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside(damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "llm.sqlite"
    path.write_bytes(damage)
    cache = AnswerCache(path)
    cache.put_answer(b"k", b"v", "stage")
    cache.close()
    assert "moved to llm.sqlite.damaged-" in caplog.text
    assert next(tmp_path.glob("llm.sqlite.damaged-*")).read_bytes() == damage
    again = AnswerCache(path)
    assert again.answer(b"k") == b"v"
    again.close()


def test_damage_that_shows_while_reading(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "llm.sqlite"
    cache = AnswerCache(path)
    for i in range(2000):
        cache.put_answer(str(i).encode().ljust(32), os.urandom(2000), "stage")
    cache.close()
    data = bytearray(path.read_bytes())
    data[40_000:-8192] = os.urandom(len(data) - 48_192)
    path.write_bytes(data)
    damaged = AnswerCache(path)
    assert any(damaged.answer(str(i).encode().ljust(32)) is None for i in range(2000))
    assert "moved to" in caplog.text
    damaged.put_answer(b"k", b"v", "stage")
    damaged.close()


def test_a_full_disk_is_told_and_the_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = AnswerCache(tmp_path / "llm.sqlite")
    cache.put_answer(b"first", b"v", "stage")
    cache.flush()
    assert cache._writer is not None
    cache._writer.execute("pragma max_page_count = 8")  # SQLite then reports a full disk
    for i in range(200):
        cache.put_answer(str(i).encode(), os.urandom(5000), "stage")
    cache.flush()
    cache.put_answer(b"late", b"v", "stage")
    assert "full" in caplog.text
    assert caplog.text.count("going on without keeping answers") == 1
    assert cache.answer(b"first") == b"v"
    cache.close()


def test_a_full_disk_stops_what_must_keep_its_answers(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "llm.sqlite", must_keep=True)
    cache.put_answer(b"first", b"v", "stage")
    cache.flush()
    assert cache._writer is not None
    cache._writer.execute("pragma max_page_count = 8")
    with suppress(GatewayError):  # the file may be found full before or after the next answer comes
        for i in range(30):
            cache.put_answer(str(i).encode(), os.urandom(5000), "stage")
            cache.flush()
    with pytest.raises(GatewayError, match="free space on its disk"):
        cache.put_answer(b"late", b"v", "stage")
    assert cache.answer(b"first") == b"v"
    cache.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = AnswerCache(tmp_path / "file" / "llm.sqlite")
    cache.put_answer(b"k", b"v", "stage")
    assert cache.answer(b"k") is None
    cache.close()
    assert "cannot be opened" in caplog.text


def test_a_file_of_another_version_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "llm.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 99")
    connection.execute("create table other (a)")
    connection.commit()
    connection.close()
    cache = AnswerCache(path)
    cache.put_answer(b"k", b"v", "stage")
    cache.close()
    assert len(list(tmp_path.glob("llm.sqlite.damaged-*"))) == 1


# -- through the gateway -----------------------------------------------------------------------------------------------


def test_the_second_pass_calls_nobody(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    first, _ = run(space, range(50))
    llmsim.reset()
    second, usage = run(space, range(50))
    assert llmsim.requests == 0
    assert [answer.value for answer in second] == [answer.value for answer in first]
    assert {answer.attempts for answer in second} == {0}
    assert (usage.calls, usage.cached, usage.usd) == (0, 50, 0.0)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "gpt-4.1-mini"},
        {"call_args": {"temperature": 0.5}},
        {"call_args": {"extra_body": {"top_k": 4}}},
        {"model_provider": "openai_like"},
        {"structured_output": False},
    ],
)
def test_what_changes_the_answer_changes_the_key(change: dict[str, Any], llmsim: LlmSim, tmp_path: Path) -> None:
    run(workspace(tmp_path, llmsim), [1])
    llmsim.reset()
    run(workspace(tmp_path, llmsim, chat=change), [1])
    assert llmsim.requests == 1
    run(workspace(tmp_path, llmsim, chat=change), [1])
    assert llmsim.requests == 1


def test_another_endpoint_or_schema_is_another_question(llmsim: LlmSim, tmp_path: Path) -> None:
    run(workspace(tmp_path, llmsim), [1])
    run(workspace(tmp_path, llmsim, chat={"api_base": llmsim.url + "/other/v1"}), [1])
    run(workspace(tmp_path, llmsim), [1], str, schema={"type": "object"})
    assert llmsim.requests == 3


@pytest.mark.parametrize(
    "change", [{"api_key": "sk-another-key"}, {"timeout": 5}, {"call_args": {"extra_headers": {"x-a": "b"}}}]
)
def test_what_does_not_change_the_answer_hits(change: dict[str, Any], llmsim: LlmSim, tmp_path: Path) -> None:
    run(workspace(tmp_path, llmsim), [1])
    run(workspace(tmp_path, llmsim, chat=change), [1])
    assert llmsim.requests == 1


@pytest.mark.parametrize("fault", ["garbage", "empty", "length", "refusal", "error400"])
def test_only_validated_answers_are_stored(fault: str, llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    llmsim.reset(faults={fault: 1.0})
    answers, _ = run(space, range(5))
    assert all(isinstance(answer, AnswerError) for answer in answers)
    llmsim.reset()
    answers, usage = run(space, range(5))
    assert all(isinstance(answer, Reply) for answer in answers)
    assert usage.cached == 0


def test_nothing_is_sent_twice_after_success(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    faults = dict.fromkeys(["error500", "malformed_json", "truncated", "empty"], 0.1)
    llmsim.reset(faults=faults)
    first, _ = run(space, range(60))
    failed = sum(isinstance(answer, BaseException) for answer in first)
    llmsim.reset()
    second, usage = run(space, range(60))
    assert all(isinstance(answer, Reply) for answer in second)
    assert llmsim.requests == failed
    assert usage.cached == 60 - failed


def test_a_stored_answer_that_the_parser_no_longer_accepts_is_asked_anew(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim, chat={"answer_attempts": 1})
    run(space, [1])

    def stricter(text: str) -> str:
        raise ValueError("no")

    answers, _ = run(space, [1], stricter)
    assert isinstance(answers[0], AnswerError)
    assert llmsim.requests == 2


def test_equal_questions_in_flight_are_sent_once(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(latency=0.05)
    for enabled in (True, False):
        answers, usage = run(workspace(tmp_path / str(enabled), llmsim, cache={"enabled": enabled}), [7] * 20)
        assert len({str(answer.value) for answer in answers}) == 1
        assert (usage.calls, usage.cached) == (1, 19)


def test_equal_questions_share_a_failure(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(latency=0.05, faults={"garbage": 1.0})
    answers, usage = run(workspace(tmp_path, llmsim), [7] * 5)
    assert {answer.status for answer in answers} == {"failed"}
    assert (usage.calls, usage.failed) == (4, 5)


def test_when_the_first_of_equal_questions_is_cancelled_the_next_one_asks(llmsim: LlmSim, tmp_path: Path) -> None:
    llmsim.reset(latency=0.2)

    async def main() -> None:
        async with Gateway(workspace(tmp_path, llmsim)) as gateway:
            ask = gateway.ask("stage", "chat")
            first, second = (asyncio.create_task(ask(question(1), points)) for _ in range(2))
            await asyncio.sleep(0.05)
            first.cancel()
            assert (await second).attempts == 1

    asyncio.run(main())


def test_two_gateways_at_once_and_no_key_in_the_file(
    llmsim: LlmSim, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    header = {"extra_headers": {"x-token": "secret-in-a-header"}}
    space = workspace(tmp_path, llmsim, chat={"call_args": header})

    async def one(numbers: range) -> None:
        async with Gateway(space) as gateway:
            ask = gateway.ask("stage", "chat")
            await asyncio.gather(*(ask(question(number), points) for number in numbers))
            await gateway.embed("vectors", "vectors", [f"text {number}" for number in numbers])

    async def main() -> None:
        await asyncio.gather(one(range(30)), one(range(20, 50)))

    asyncio.run(main())
    llmsim.reset()
    asyncio.run(one(range(50)))
    assert llmsim.requests == 0
    content = b"".join(path.read_bytes() for path in (tmp_path / ".cache").iterdir())
    assert content
    for secret in (KEY, "secret-in-a-header"):
        assert secret.encode() not in content
        assert secret not in caplog.text
