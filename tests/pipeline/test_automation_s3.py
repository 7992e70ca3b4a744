"""The sensor on a prefix of a real S3 server: objects come, change and go, and the index follows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import dagster as dg
import pytest

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.automation.instance import open_instance
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.filesystem import FileSystem, StorageError, open_filesystem
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.pipeline.test_automation import FAST, Daemon, reason
from tests.pipeline.workspaces import FIVE_DOCUMENTS, demo_texts, fresh_process, make_workspace
from tests.s3_proxy import Fault, Request, S3Proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Seconds for which objects must stay as they are; the clock of a server cannot be set back as that of a file can.
SETTLE = 2.0


@pytest.fixture
def source(s3_proxy: S3Proxy, bucket: str) -> FileSystem:
    """The input, written without the proxy, so that it counts what the product asks."""
    return open_filesystem(f"s3://{bucket}/texts", f"http://{s3_proxy.target.netloc}")


@pytest.fixture
def daemon(tmp_path: Path, s3_proxy: S3Proxy, bucket: str, source: FileSystem) -> Iterator[Daemon]:
    place = {"endpoint_url": s3_proxy.endpoint_url, "region": "us-east-1"}
    settings = FAST | {
        "input_storage": {"type": "s3", "base_dir": f"s3://{bucket}/texts", **place},
        "storage": {"base": f"s3://{bucket}/index", **place},
        "automation": {"settle_seconds": SETTLE, "settle_at_most_seconds": 60},
    }
    for path, text in demo_texts(*FIVE_DOCUMENTS[:3]).items():
        source.write(path, text.encode())
    with fresh_process():
        root = make_workspace(tmp_path / "work", {}, **settings)
        workspace = load_workspace(root)
        with open_instance(workspace) as instance:
            yield Daemon(root, build_definitions(workspace), instance)


def documents(s3_proxy: S3Proxy, bucket: str) -> set[str]:
    """Paths of the published documents."""
    storage = open_filesystem(f"s3://{bucket}/index", s3_proxy.endpoint_url)
    current = SnapshotStore(storage).current()
    assert current is not None
    return set(read_table(storage, current.tables["documents"].path, ["path"])["path"].to_pylist())


def until_rest(daemon: Daemon) -> list[dg.DagsterRun]:
    """Tick at short distances until nothing is left to do; the runs that were made."""
    made = []
    for _ in range(60):
        result = daemon.tick()
        made += [run for request in result.run_requests or [] if (run := daemon.run(request))]
        if result.skip_reason and "index is up to date" in reason(result):
            return made
        time.sleep(0.5)
    raise AssertionError(f"no rest: {result}")


def read_from(s3_proxy: S3Proxy, bucket: str) -> list[str]:
    """Objects of the input that were read."""
    texts = f"/{bucket}/texts/"
    return sorted(
        r.path.removeprefix(texts) for r in s3_proxy.requests if r.method == "GET" and r.path.startswith(texts)
    )


def test_objects_come_change_and_go(daemon: Daemon, s3_proxy: S3Proxy, bucket: str, source: FileSystem) -> None:
    assert "files: 3 new; waiting" in reason(daemon.tick())
    (run,) = until_rest(daemon)
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert documents(s3_proxy, bucket) == set(FIVE_DOCUMENTS[:3])

    # --- nothing changed: one listing, and not one object of the input is read
    s3_proxy.forget()
    assert "up to date" in reason(daemon.tick())
    assert read_from(s3_proxy, bucket) == []
    listed = [unquote(r.query).split("prefix=")[1].split("&")[0] for r in s3_proxy.requests if r.kind == "LIST"]
    assert listed.count("texts/") == 1, listed
    assert len(s3_proxy.requests) < 8, "a look is a few requests, whatever the input holds"
    assert s3_proxy.count()["PUT"] == 0

    # --- a new object waits until it has settled; then it is read, with what shares its batch
    source.write("new.txt", b"The Ferryman Ottokar met Amaranth Quill at the Lantern Bridge.")
    s3_proxy.forget()
    assert "(1 changed within that time)" in reason(daemon.tick())
    (run,) = until_rest(daemon)
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert "new.txt" in documents(s3_proxy, bucket)
    assert set(read_from(s3_proxy, bucket)) <= {"new.txt", FIVE_DOCUMENTS[2]}
    event = daemon.instance.get_latest_materialization_event(dg.AssetKey("documents"))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.partition == "batch-000002"

    # --- an object that is written again as it was is read once to learn so, and nothing is published
    before = SnapshotStore(open_filesystem(f"s3://{bucket}/index", s3_proxy.endpoint_url)).head()[1]
    time.sleep(1.1)
    source.write("new.txt", b"The Ferryman Ottokar met Amaranth Quill at the Lantern Bridge.")
    runs = until_rest(daemon)
    assert SnapshotStore(open_filesystem(f"s3://{bucket}/index", s3_proxy.endpoint_url)).head()[1] == before
    assert all(run.status == dg.DagsterRunStatus.SUCCESS for run in runs)

    # --- an edit, a deletion and a rename in one go
    text = demo_texts(FIVE_DOCUMENTS[0])[FIVE_DOCUMENTS[0]]
    source.write(FIVE_DOCUMENTS[0], (text + "\n\nOttokar was there.\n").encode())
    source.copy("new.txt", "renamed.txt")
    source.delete("new.txt")
    source.delete(FIVE_DOCUMENTS[1])
    s3_proxy.forget()
    (run,) = until_rest(daemon)
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert documents(s3_proxy, bucket) == {FIVE_DOCUMENTS[0], FIVE_DOCUMENTS[2], "renamed.txt"}
    assert set(read_from(s3_proxy, bucket)) == {FIVE_DOCUMENTS[0], FIVE_DOCUMENTS[2], "renamed.txt"}, "two batches"


def test_an_object_that_is_written_again_and_again(
    daemon: Daemon, s3_proxy: S3Proxy, bucket: str, source: FileSystem
) -> None:
    """It keeps the rest waiting while it changes, and is indexed once it has come to rest: one run."""
    until_rest(daemon)
    for number in range(4):
        source.write("log.txt", f"Entry {number}: the Ferryman Ottokar crossed the river.".encode())
        result = daemon.tick()
        assert not result.run_requests
        assert "waiting" in reason(result)
        time.sleep(SETTLE / 2)
    (run,) = until_rest(daemon)
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert "log.txt" in documents(s3_proxy, bucket)


def test_a_prefix_that_loses_all_its_objects_empties_nothing(
    daemon: Daemon, s3_proxy: S3Proxy, bucket: str, source: FileSystem
) -> None:
    until_rest(daemon)
    before = documents(s3_proxy, bucket)
    for path in before:
        source.delete(path)
    failed = None
    for _ in range(20):
        result = daemon.tick()
        for request in result.run_requests or []:
            failed = daemon.run(request)
        if failed is not None:
            break
        time.sleep(0.5)
    assert failed is not None
    assert failed.status == dg.DagsterRunStatus.FAILURE
    assert documents(s3_proxy, bucket) == before


def test_a_server_that_refuses_loses_nothing(
    daemon: Daemon, s3_proxy: S3Proxy, bucket: str, source: FileSystem
) -> None:
    """A look that cannot list fails, with its message and the memory as it was; the alerts tell it; the next look goes on."""
    until_rest(daemon)
    daemon.alerts()
    cursor = daemon.cursor
    source.write("new.txt", b"The Ferryman Ottokar met Amaranth Quill.")

    def refused(request: Request) -> Fault | None:
        return Fault("status", 403, "AccessDenied") if "prefix=texts" in unquote(request.query) else None

    s3_proxy.fault = refused
    with pytest.raises(StorageError, match=f"{bucket}/texts"):
        daemon.tick()
    passed, told = daemon.alerts()["input_is_published"]
    assert not passed
    assert told.startswith("the input cannot be looked at: ")
    s3_proxy.fault = lambda _: None
    assert daemon.cursor == cursor
    (run,) = until_rest(daemon)
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert daemon.alerts()["input_is_published"] == (True, "")
