"""The cache as a person keeps it: looked at, pruned, moved to another host and to a shared store and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.llm.caching import care as cache_care
from graphrag_assets.llm.caching import exchange as cache_exchange
from graphrag_assets.llm.caching.local import AnswerCache
from graphrag_assets.llm.caching.objects import BucketObjects, SharedObjects
from graphrag_assets.llm.caching.shared import SharedCache
from graphrag_assets.llm.ledger import Call
from graphrag_assets.object_store import ObjectStore
from tests.pipeline.workspaces import command, invoke, make_workspace
from tests.s3_server import S3Server

DAY = 86_400
VECTOR = np.arange(8, dtype=np.float32).tobytes()


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def answer(number: int) -> bytes:
    return json.dumps({"text": f"answer {number} " * 20, "made": [1.0e9, 10, 5, 0.001, 0.5, 1]}).encode()


def fill(path: Path, answers: int = 20, vectors: int = 30) -> None:
    cache = AnswerCache(path)
    for number in range(answers):
        cache.put_answer(key(number), answer(number), "extract_graph")
    if vectors:
        cache.put_vectors({key(1000 + number): VECTOR for number in range(vectors)}, "text_unit_embeddings")
    cache.close()


def make_old(path: Path, days: int, *numbers: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("answers", "vectors"):
            connection.executemany(
                f"update {table} set created = created - ? where key = ?",
                [(days * DAY, key(number)) for number in numbers],
            )


def held(path: Path) -> dict[bytes, bytes]:
    with closing(AnswerCache(path)) as cache:
        numbers = [*range(2000)]
        found = {key(n): value for n in numbers if (value := cache.answer(key(n))) is not None}
        return found | cache.vectors([key(n) for n in numbers])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work", {"a.txt": "Some text."})


@pytest.fixture
def file(root: Path) -> Path:
    path = root / ".cache" / "llm.sqlite"
    fill(path)
    return path


def test_show(root: Path, file: Path) -> None:
    with closing(AnswerCache(file)) as cache:
        for cached, row in ((False, "a"), (True, "a"), (True, "b"), (True, "c")):
            call = Call(
                key(1), "here", "extract_graph", row, "openai/m", "p", 1, 9, 9, 0.1, 1.0, 1, 1.0, 2.0, "r", cached, "ok"
            )
            cache.note(call)
    found = invoke("cache", "show", "--root", root, "--json").json
    assert (found["answers"], found["vectors"], found["shared"]) == (20, 30, None)
    assert found["bytes"] > 0
    assert [(s["kind"], s["stage"], s["entries"]) for s in found["stages"]] == [
        ("answers", "extract_graph", 20),
        ("vectors", "text_unit_embeddings", 30),
    ]
    assert found["hits"] == [{"stage": "extract_graph", "model": "openai/m", "asked": 1, "taken": 3, "rate": 0.75}]
    text = invoke("cache", "show", "--root", root).out
    assert "20 answers, 30 vectors" in text
    assert "75%" in text


def test_show_of_a_cache_that_is_not_there(root: Path) -> None:
    assert invoke("cache", "show", "--root", root, "--json").json["answers"] == 0
    assert not (root / ".cache").exists(), "looking makes nothing"


def test_prune_by_age(root: Path, file: Path) -> None:
    make_old(file, 40, *range(5), 1000)
    told = invoke("cache", "prune", "--root", root, "--json", "--older-than", "30d", "--dry-run").json
    assert told["entries"] == {"answers": 5, "vectors": 1}
    assert len(held(file)) == 50
    assert invoke("cache", "prune", "--root", root, "--json", "--older-than", "30d").json["entries"] == told["entries"]
    assert set(held(file)) == {key(n) for n in (*range(5, 20), *range(1001, 1030))}
    assert invoke("cache", "prune", "--root", root, "--json", "--older-than", "30d").json["entries"] == {
        "answers": 0,
        "vectors": 0,
    }


def test_what_a_run_took_is_not_old(root: Path, file: Path) -> None:
    make_old(file, 40, *range(5))
    import time

    with closing(AnswerCache(file)) as cache:
        call = Call(key(3), "here", "s", "a", "m", "p", 1, 9, 9, 0.1, 1.0, 1, 1.0, time.time(), "r", True, "ok")
        cache.note(call)
    assert invoke("cache", "prune", "--root", root, "--json", "--older-than", "30d").json["entries"]["answers"] == 4
    assert key(3) in held(file)


def test_prune_by_size_takes_the_oldest_and_the_file_shrinks(root: Path, tmp_path: Path) -> None:
    file = root / ".cache" / "llm.sqlite"
    cache = AnswerCache(file)
    rng = np.random.default_rng(1)
    for number in range(600):
        text = rng.bytes(3000).hex()
        cache.put_answer(key(number), json.dumps({"text": text, "made": None}).encode(), "s")
    cache.close()
    make_old(file, 5, *range(300))
    before = file.stat().st_size
    prune = ("cache", "prune", "--root", root, "--max-size", f"{before // 2 / 1e6:.3f}MB")
    supposed = invoke(*prune, "--json", "--dry-run").json
    assert file.stat().st_size == before == supposed["bytes"]["before"]
    assert f"about {supposed['bytes']['after'] / 1e6:.1f} MB after" in invoke(*prune, "--dry-run").out
    told = invoke(*prune, "--json").json
    assert supposed["bytes"]["after"] == pytest.approx(told["bytes"]["after"], rel=0.15)
    assert told["shrunk"]
    assert told["bytes"]["after"] <= before // 2
    assert told["bytes"]["after"] > before // 4, "no more than needed"
    left = held(file)
    gone = {n for n in range(600) if key(n) not in left}
    assert gone
    assert gone <= set(range(300)) or gone >= set(range(300)), "the oldest go first"


def test_a_file_that_another_process_has_open_is_pruned_and_not_shrunk(root: Path, file: Path) -> None:
    make_old(file, 40, *range(20))
    with closing(AnswerCache(file)) as other:
        other.answer(key(1))
        told = invoke("cache", "prune", "--root", root, "--json", "--older-than", "30d").json
        assert told["entries"]["answers"] == 20
        assert not told["shrunk"]
        other.put_answer(key(77), answer(77), "s")
        other.flush()
        assert other.answer(key(77)) == answer(77), "the other process goes on"
    assert invoke("cache", "prune", "--root", root, "--json", "--older-than", "30d").json["shrunk"]


def test_never_while_the_index_is_worked_on(root: Path, file: Path) -> None:
    from graphrag_assets.storage.filesystem import open_filesystem
    from graphrag_assets.storage.lease import exclusive

    make_old(file, 40, *range(20))
    with exclusive(open_filesystem(str(root / "output")), "a run", 60):
        run = command("cache", "prune", "--root", root, "--json", "--older-than", "1d")
    assert json.loads(run.out)["error"]["type"] == "busy"
    assert len(held(file)) == 50


def test_what_to_prune_has_to_be_said(root: Path) -> None:
    assert invoke("cache", "prune", "--root", root).code == 2
    assert "such as 30d" in invoke("cache", "prune", "--root", root, "--older-than", "a month").err
    assert "such as 2GB" in invoke("cache", "prune", "--root", root, "--max-size", "large").err
    assert "cache.shared" in invoke("cache", "prune", "--root", root, "--older-than", "1d", "--shared").err


def test_export_and_import(root: Path, file: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved.parquet"
    told = invoke("cache", "export", moved, "--root", root, "--json").json
    assert (told["answers"], told["vectors"]) == (20, 30)
    other = make_workspace(tmp_path / "other", {"a.txt": "Some text."})
    first = invoke("cache", "import", moved, "--root", other, "--json").json
    assert first["added"] == {"answers": 20, "vectors": 30}
    assert held(other / ".cache" / "llm.sqlite") == held(file)
    again = invoke("cache", "import", moved, "--root", other, "--json").json
    assert again["added"] == {"answers": 0, "vectors": 0}
    assert again["known"] == {"answers": 20, "vectors": 30}
    assert held(other / ".cache" / "llm.sqlite") == held(file)
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


def test_what_is_there_stays(root: Path, file: Path, tmp_path: Path) -> None:
    invoke("cache", "export", tmp_path / "x.parquet", "--root", root)
    with closing(AnswerCache(file)) as cache:
        cache.put_answer(key(1), answer(99), "s")
    told = invoke("cache", "import", tmp_path / "x.parquet", "--root", root, "--json").json
    assert told["added"] == {"answers": 0, "vectors": 0}
    assert held(file)[key(1)] == answer(99)


BAD: list[tuple[str, Callable[[dict[str, Any]], dict[str, Any]], bool]] = [
    ("the row was changed or damaged", lambda row: row | {"value": row["value"] + b" "}, False),
    ("neither an answer nor a vector", lambda row: row | {"kind": "pictures"}, True),
    ("the key is none", lambda row: row | {"key": b"short"}, True),
    ("a column is empty", lambda row: row | {"stage": None}, False),
    ("the answer is no JSON", lambda row: row | {"kind": "answers", "value": b"{"}, True),
    ("the answer has no text", lambda row: row | {"kind": "answers", "value": b'{"text": ""}'}, True),
    (
        "what the answer took is not told in six numbers",
        lambda row: row | {"kind": "answers", "value": b'{"text": "a", "made": ["x"]}'},
        True,
    ),
    (
        "the vector is not made of whole numbers of four bytes",
        lambda row: row | {"kind": "vectors", "value": b"abc"},
        True,
    ),
    (
        "the vector holds something that is not a number",
        lambda row: row | {"kind": "vectors", "value": np.array([np.nan], np.float32).tobytes()},
        True,
    ),
]


@pytest.mark.parametrize(("reason", "spoil", "summed"), BAD, ids=[bad[0] for bad in BAD])
def test_rows_that_cannot_be_used_are_told(
    root: Path, file: Path, tmp_path: Path, reason: str, spoil: Callable[[dict[str, Any]], dict[str, Any]], summed: bool
) -> None:
    moved = tmp_path / "moved.parquet"
    invoke("cache", "export", moved, "--root", root)
    table = pq.read_table(moved)
    rows = table.to_pylist()
    rows[7] = spoil(rows[7])
    if summed:
        rows[7]["sum"] = cache_exchange.Entry(*(rows[7][name] for name in cache_exchange.Entry._fields)).sum()
    pq.write_table(pa.Table.from_pylist(rows, table.schema), moved)
    other = make_workspace(tmp_path / "other", {"a.txt": "Some text."})
    told = invoke("cache", "import", moved, "--root", other, "--json").json
    assert told["rejected"] == {reason: 1}
    assert told["examples"] == [{"row": 7, "reason": reason}]
    assert sum(told["added"].values()) == 49
    assert len(held(other / ".cache" / "llm.sqlite")) == 49
    assert f"Rejected 1 rows: {reason} (rows 7)" in invoke("cache", "import", moved, "--root", other).out


def test_files_that_are_no_export(root: Path, file: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved.parquet"
    invoke("cache", "export", moved, "--root", root)
    (tmp_path / "cut.parquet").write_bytes(moved.read_bytes()[:-50])
    (tmp_path / "words.txt").write_text("no table")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    for name, words in (
        ("cut.parquet", "damaged or no exported cache"),
        ("words.txt", "damaged or no exported cache"),
        ("other.parquet", "is no exported cache"),
        ("nothing.parquet", "does not exist"),
    ):
        run = invoke("cache", "import", tmp_path / name, "--root", root)
        assert run.code == 1
        assert words in run.err


@given(st.binary(max_size=60), st.sampled_from(["answers", "vectors", "x"]), st.binary(min_size=30, max_size=34))
def test_no_row_is_an_exception(value: bytes, kind: str, name: bytes) -> None:
    entry = cache_exchange.Entry(kind, name, value, "s", 1)
    assert isinstance(cache_exchange.fault(entry, entry.sum()), str)


# -- with a store that hosts share -------------------------------------------------------------------------------------


@pytest.fixture
def shared_root(s3_server: S3Server, bucket: str, tmp_path: Path) -> Path:
    place = {"shared": f"s3://{bucket}/cache", "endpoint_url": s3_server.endpoint_url, "region": "us-east-1"}
    return make_workspace(tmp_path / "shared", {"a.txt": "Some text."}, cache=place)


@pytest.fixture
def objects(s3_server: S3Server, bucket: str) -> SharedObjects:
    return BucketObjects(ObjectStore(f"s3://{bucket}/cache", s3_server.endpoint_url, "us-east-1"))


def test_from_a_file_to_a_shared_store_and_back(
    root: Path, file: Path, shared_root: Path, objects: SharedObjects, tmp_path: Path
) -> None:
    invoke("cache", "export", tmp_path / "x.parquet", "--root", root)
    invoke("cache", "import", tmp_path / "x.parquet", "--root", shared_root)
    found = invoke("cache", "show", "--root", shared_root, "--json").json
    assert (found["shared"]["answers"], found["shared"]["vectors"], found["not_yet_shared"]) == (20, 30, 0)
    for path in (shared_root / ".cache").iterdir():
        path.unlink()  # another host
    told = invoke("cache", "export", tmp_path / "y.parquet", "--root", shared_root, "--json").json
    assert (told["answers"], told["vectors"]) == (20, 30)
    other = make_workspace(tmp_path / "other", {"a.txt": "Some text."})
    invoke("cache", "import", tmp_path / "y.parquet", "--root", other)
    assert held(other / ".cache" / "llm.sqlite") == held(file)


def test_pruning_a_shared_store(shared_root: Path, objects: SharedObjects, tmp_path: Path) -> None:
    with closing(SharedCache(tmp_path / "host.sqlite", objects)) as cache:
        for number in range(10):
            cache.put_answer(key(number), answer(number), "s")
        cache.put_vectors({key(1000): VECTOR}, "s")
    assert cache_care.shared_contents(objects)["answers"] == 10
    prune = ("cache", "prune", "--root", shared_root, "--json", "--shared")
    assert invoke(*prune, "--older-than", "1d").json["entries"] == {"answers": 0, "packs": 0}
    told = invoke(*prune, "--max-size", "0.5KB", "--dry-run").json
    assert told["entries"]["answers"] > 0
    assert told["bytes"]["after"] <= 500 < told["bytes"]["before"]
    assert cache_care.shared_contents(objects)["answers"] == 10
    done = invoke(*prune, "--max-size", "0.5KB").json
    assert cache_care.shared_contents(objects)["bytes"] <= 500
    assert done["bytes"]["after"] <= 500
    assert invoke(*prune, "--older-than", "0s").json["kept"] == {"answers": 0, "packs": 0}
