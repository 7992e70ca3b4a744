"""Contradictions come out of the cache as they went in, and only where nothing that they follow from has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from graphrag_assets.assets import contradictions
from graphrag_assets.assets.contradictions import cached_conflicts
from graphrag_assets.llm.caching.exchange import export_cache, import_cache
from graphrag_assets.llm.caching.local import AnswerCache
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.storage.tables import COVARIATES

TEXTS = {
    "unit-1": ("a", "The Skarne bridge collapsed on 4 May 2031 during the flood. Edda Lindrow saw it."),
    "unit-2": ("b", "The Skarne bridge collapsed on 9 June 2031 during the flood. Tobin Ashe saw it."),
}


def units(**texts: tuple[str, str]) -> pa.Table:
    rows = [{"id": key, "text": text, "document_id": document} for key, (document, text) in texts.items()]
    return pa.Table.from_pylist(rows)


def tables(title: str = "SKARNE BRIDGE") -> dict[str, pa.Table]:
    entity: dict[str, Any] = {"title": title, "aliases": ["BRIDGE OF SKARNE"], "text_unit_ids": ["unit-1", "unit-2"]}
    return {"entities": pa.Table.from_pylist([entity]), "covariates": COVARIATES.empty()}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(root=tmp_path, settings=Settings.model_validate({}))


def test_they_come_back_equal(workspace: Workspace) -> None:
    found = cached_conflicts(units(**TEXTS), tables(), workspace)
    assert [conflict.kind for conflict in found.conflicts] == ["date"]
    with mock.patch.object(contradictions, "find_conflicts", side_effect=AssertionError("asked again")):
        assert cached_conflicts(units(**TEXTS), tables(), workspace) == found


def test_they_travel_with_an_exported_cache(workspace: Workspace, tmp_path: Path) -> None:
    found = cached_conflicts(units(**TEXTS), tables(), workspace)
    export_cache(tmp_path / "moved.parquet", workspace.path(workspace.settings.cache.path))
    there = Workspace(root=tmp_path / "other", settings=workspace.settings)
    cache = AnswerCache(there.path(there.settings.cache.path))
    done = import_cache(tmp_path / "moved.parquet", cache)
    cache.close()
    assert (done.added["answers"], done.examples) == (1, [])
    with mock.patch.object(contradictions, "find_conflicts", side_effect=AssertionError("asked again")):
        assert cached_conflicts(units(**TEXTS), tables(), there) == found


@pytest.mark.parametrize("damaged", [b'{"conflicts": []}', b'{"conflicts": [{"kind": "date"}]}', b"[]", b"no JSON"])
def test_what_cannot_be_read_is_found_anew(workspace: Workspace, damaged: bytes) -> None:
    found = cached_conflicts(units(**TEXTS), tables(), workspace)
    with mock.patch.object(AnswerCache, "answer", return_value=damaged):
        assert cached_conflicts(units(**TEXTS), tables(), workspace) == found


def test_another_entity_text_or_order_is_another_question(workspace: Workspace) -> None:
    first = cached_conflicts(units(**TEXTS), tables(), workspace)
    assert not cached_conflicts(units(**TEXTS), tables("LIGHTHOUSE"), workspace).conflicts
    other = TEXTS | {"unit-3": ("c", "Nothing happened in Skarne.")}
    with mock.patch.object(contradictions, "find_conflicts", return_value=first) as asked:
        cached_conflicts(units(**other), tables(), workspace)
        cached_conflicts(units(**dict(reversed(TEXTS.items()))), tables(), workspace)
    assert asked.call_count == 2


def test_without_a_cache_they_are_found_each_time(tmp_path: Path) -> None:
    workspace = Workspace(root=tmp_path, settings=Settings.model_validate({"cache": {"enabled": False}}))
    first = cached_conflicts(units(**TEXTS), tables(), workspace)
    assert cached_conflicts(units(**TEXTS), tables(), workspace) == first
    assert not list(tmp_path.rglob("*.sqlite"))
