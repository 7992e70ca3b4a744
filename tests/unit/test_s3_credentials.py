"""Credentials by the usual AWS chain, for tables and for vectors; least rights; nothing of them in what is written."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from graphrag_assets.cli.main import main
from graphrag_assets.query import open_index
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.storage.filesystem import StorageError, open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from graphrag_assets.storage.vectors import VectorStore, open_vectors
from tests.published import publish as publish_index
from tests.s3_proxy import Fault, S3Proxy
from tests.s3_server import KEY, SECRET, S3Server
from tests.unit.query_doubles import small_rows
from tests.unit.test_storage import publish, vectors


@pytest.fixture
def profile(tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, address and region in a profile of the shared files, and nothing in the environment but its name."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    keys, config = tmp_path / "credentials", tmp_path / "config"
    keys.write_text(f"[archive]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    config.write_text(f"[profile archive]\nregion = eu-west-3\nendpoint_url = {s3_server.endpoint_url}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "archive")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_a_profile_of_the_shared_files(bucket: str, profile: None) -> None:
    place = open_filesystem(f"s3://{bucket}/prefix")
    assert place.place.region == "eu-west-3"  # type: ignore[attr-defined]
    snapshot, _ = publish(SnapshotStore(place), "a.txt")
    assert SnapshotStore(place).head() == (1, snapshot)
    store = VectorStore(place, "model", 3)
    store.write("t", vectors(a=[1, 0, 0]))
    assert open_vectors(place, store.describe("t")).count_rows() == 1


def test_a_profile_that_does_not_exist(bucket: str, profile: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(StorageError, match=r"^storage\.base: .*no credentials were found.*nobody.*AWS_PROFILE"):
        list(open_filesystem(f"s3://{bucket}/prefix").list())


def test_the_environment_names_the_server(bucket: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server.endpoint_url)
    place = open_filesystem(f"s3://{bucket}/prefix")
    place.write("a", b"1")
    assert place.read("a") == b"1"


def test_who_asks_needs_to_read_only(tmp_path: Path, s3_proxy: S3Proxy, bucket: str) -> None:
    base = f"s3://{bucket}/index"
    publish_index(base, small_rows(), endpoint_url=s3_proxy.endpoint_url)
    storage = {"base": base, "endpoint_url": s3_proxy.endpoint_url, "region": "us-east-1"}
    (tmp_path / "settings.yaml").write_text(json.dumps({"storage": storage}), encoding="utf-8")
    s3_proxy.fault = lambda r: Fault("status", 403, "AccessDenied") if r.method not in ("GET", "HEAD") else None
    for command in (
        ["sql", "select count(*) from entities"],
        ["snapshots", "list"],
        ["snapshots", "show"],
        ["export", "--format", "csv", str(tmp_path / "out")],
        ["status"],
    ):
        done = CliRunner().invoke(main, [*command[:1], *command[1:], "--root", str(tmp_path)])
        assert done.exit_code == 0, (command, done.stderr)
    workspace = Workspace(root=tmp_path, settings=Settings.model_validate({"storage": storage}))
    with open_index(base, workspace=workspace) as index:
        assert len(index.vectors("entity_description").nearest([0.1] * 64, 3)) == 3
    assert {request.method for request in s3_proxy.requests if request.method not in ("GET", "HEAD")} <= {"PUT", "POST"}
    assert s3_proxy.count()["GET"] > 0


def test_no_secret_is_written_or_told(
    tmp_path: Path, s3_proxy: S3Proxy, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    address = s3_proxy.endpoint_url.replace("//", "//someone:hidden-word@")
    base = f"s3://{bucket}/index"
    publish_index(base, small_rows(), endpoint_url=s3_proxy.endpoint_url)
    written = open_filesystem(base, s3_proxy.endpoint_url)
    for info in written.list():
        data = written.read(info.path)
        assert SECRET.encode() not in data
        assert KEY.encode() + b":" not in data
    s3_proxy.fault = lambda _: Fault("status", 403, "SignatureDoesNotMatch")
    with pytest.raises(StorageError) as caught:
        list(open_filesystem(base, address).list())
    assert "hidden-word" not in str(caught.value)
    assert "SignatureDoesNotMatch" in str(caught.value)
    ours = "".join(record.getMessage() for record in caplog.records if record.name.startswith("graphrag"))
    assert SECRET not in ours
