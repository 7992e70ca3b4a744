"""Tests marked ``storage`` run twice: on the local disk, and with GRAPHRAG_TEST_STORAGE=s3 on a real S3 server.

Then every storage base that a test names by a folder is the prefix of that name in a bucket, in this process and, through
their settings, in the workspaces that :func:`tests.pipeline.workspaces.make_workspace` writes. Input folders stay local.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from graphrag_assets.storage import filesystem
from graphrag_assets.storage.filesystem import STORAGE_BASE, FileSystem

BUCKET = "elsewhere"

#: Where the server is, while storage is elsewhere.
_ENDPOINT: list[str] = []


def storage_settings(root: Path) -> dict[str, Any]:
    """Section storage of the workspace in a folder; empty while storage is local."""
    if not _ENDPOINT:
        return {}
    return {"storage": {"base": _address(str(root / "output")), "endpoint_url": _ENDPOINT[0], "region": "us-east-1"}}


def _address(folder: str) -> str:
    return f"s3://{BUCKET}{Path(folder).absolute()}"


@pytest.fixture(scope="session", autouse=True)
def _storage_elsewhere(request: pytest.FixtureRequest) -> Iterator[None]:
    if os.environ.get("GRAPHRAG_TEST_STORAGE", "local") != "s3":
        yield
        return
    import boto3

    # Modules that know the class by name are imported before another thing has it.
    import graphrag_assets.cli.doctor_workspace
    import graphrag_assets.input.folder
    import graphrag_assets.query.stored
    import graphrag_assets.storage.parquet  # noqa: F401
    from graphrag_assets.storage.s3 import S3FileSystem

    server = request.getfixturevalue("s3_server")
    boto3.client("s3", endpoint_url=server.endpoint_url, region_name="us-east-1").create_bucket(Bucket=BUCKET)
    local = filesystem.LocalFileSystem

    def opened(base: str | Path, setting: str = STORAGE_BASE) -> FileSystem:
        if setting != STORAGE_BASE:
            return local(base, setting)
        return S3FileSystem(_address(str(base)), server.endpoint_url, "us-east-1", setting)

    _ENDPOINT.append(server.endpoint_url)
    with mock.patch.object(filesystem, "LocalFileSystem", opened):
        yield
    _ENDPOINT.clear()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With storage elsewhere only the tests that touch it run, without those of the local disk."""
    if os.environ.get("GRAPHRAG_TEST_STORAGE", "local") != "s3":
        return
    kept = [item for item in items if item.get_closest_marker("storage") and not item.get_closest_marker("local_disk")]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
