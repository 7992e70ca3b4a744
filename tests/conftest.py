"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = [
    "tests.llmsim_server",
    "tests.batch_server",
    "tests.otlp_server",
    "tests.redis_server",
    "tests.s3_server",
    "tests.s3_proxy",
    "tests.storage_elsewhere",
]

_DEFAULT_SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    """A test is a run: what an earlier one was told of is told again."""
    from graphrag_assets.progress import begin_telling

    begin_telling()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real corpora and recorded runs that cannot be shipped; tests that need it skip without it."""
    path = Path(os.environ.get("GRAPHRAG_SHARED", _DEFAULT_SHARED))
    if not (path / "data").is_dir():
        pytest.skip(f"real data sets are not at {path}; set GRAPHRAG_SHARED to their folder")
    return path
