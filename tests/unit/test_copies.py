"""Local copies of the published files of an S3 index: true, bounded, and no reason to fail."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graphrag_assets.query.index import Index, open_index
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.storage.copies import LocalCopies
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.snapshots import TableFile
from tests.published import publish
from tests.s3_proxy import S3Proxy
from tests.unit.query_doubles import small_rows


@pytest.fixture
def files(s3_proxy: S3Proxy, bucket: str) -> FileSystem:
    return open_filesystem(f"s3://{bucket}/index", s3_proxy.endpoint_url)


def put(files: FileSystem, name: str, size: int) -> TableFile:
    data = hashlib.sha256(name.encode()).digest() * (size // 32)
    files.write(name, data)
    return TableFile(name, 1, hashlib.sha256(data).hexdigest(), len(data))


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_file_is_fetched_once(tmp_path: Path, files: FileSystem, s3_proxy: S3Proxy) -> None:
    file = put(files, "a", 3200)
    s3_proxy.forget()
    with ThreadPoolExecutor(8) as pool:
        copies = LocalCopies(tmp_path / "copies", 1_000_000)
        found = set(pool.map(lambda _: copies.get(files, file), range(40)))
    (path,) = found
    assert path is not None
    assert path.read_bytes() == files.read("a")
    assert LocalCopies(tmp_path / "copies", 1_000_000).get(files, file) == path
    assert s3_proxy.count()["GET"] == 2, "one for the copy, one of this test"


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path, files: FileSystem) -> None:
    copies = LocalCopies(tmp_path, 20_000)
    a, b, c = (put(files, name, 4_800) for name in "abc")
    for age, file in ((30, a), (20, b), (10, c)):
        path = copies.get(files, file)
        assert path is not None
        os.utime(path, (time.time() - age,) * 2)
    copies.get(files, a)
    copies.get(files, put(files, "d", 4_800))
    copies.get(files, put(files, "e", 4_800))
    kept = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert a.sha256 in kept
    assert b.sha256 not in kept
    assert used(tmp_path) <= 20_000
    assert copies.get(files, put(files, "large", 6_400)) is None


def test_a_damaged_file_is_not_copied(tmp_path: Path, files: FileSystem) -> None:
    file = put(files, "a", 3200)
    files.write("a", b"x" * 3200)
    assert LocalCopies(tmp_path, 1_000_000).get(files, file) is None
    assert used(tmp_path) == 0


def test_a_folder_that_cannot_be_written(tmp_path: Path, files: FileSystem, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    copies = LocalCopies(tmp_path / "file", 1_000_000)
    assert [copies.get(files, put(files, name, 320)) for name in "ab"] == [None, None]
    assert [r.message.partition(":")[0] for r in caplog.records] == ["storage.local_copies"]


@pytest.mark.parametrize("most", [0, 1_000_000])
def test_answers_are_the_same_with_and_without(tmp_path: Path, s3_proxy: S3Proxy, bucket: str, most: int) -> None:
    base = f"s3://{bucket}/index"
    publish(base, small_rows(), endpoint_url=s3_proxy.endpoint_url)
    storage = {"base": base, "endpoint_url": s3_proxy.endpoint_url, "local_copies_max_bytes": most}
    workspace = Workspace(root=tmp_path, settings=Settings.model_validate({"storage": storage}))

    def read(index: Index) -> object:
        titles = index.rows("select title from entities order by title")
        return titles, index.take("entities", "human_readable_id", [1, 3], ["title"]).to_pylist()

    with open_index(base, workspace=workspace) as index:
        first = read(index)
    s3_proxy.forget()
    with open_index(base, workspace=workspace) as index:
        assert read(index) == first
    assert first[0][0] == {"title": "ADA FINCH"}  # type: ignore[index]
    of_tables = [r for r in s3_proxy.requests if r.path.endswith("entities.parquet")]
    assert bool(of_tables) is (most == 0), "with copies only footers of tables are fetched, or nothing"
