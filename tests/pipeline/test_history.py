"""The Dagster history of an index that is there: lost, or never had, it comes back by itself."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.automation.history import restore_history
from graphrag_assets.automation.instance import open_instance
from graphrag_assets.cli.ui import prepare_instance
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.filesystem import open_filesystem
from tests.pipeline.workspaces import (
    FIVE_DOCUMENTS,
    copy_workspace,
    demo_texts,
    fresh_process,
    index,
    invoke,
    make_workspace,
    storage_of,
    write_document,
)
from tests.s3_server import S3Server

pytestmark = pytest.mark.storage

FAST = {"method": "fast", "extract_graph_nlp": {"processes": 1}, "batches": {"max_documents": 2}}
BATCHES = ["batch-000001", "batch-000002", "batch-000003"]
PER_BATCH = {
    *("documents", "text_units", "extracted_entities", "extracted_relationships", "extracted_claims"),
    *("extraction_status", "text_unit_embeddings"),
}


def what_dagster_shows(root: Path) -> dict[tuple[str, str | None], StaleStatus]:
    """What the UI tells of every asset and every batch of it: missing, stale or fresh."""
    with fresh_process():
        workspace = load_workspace(root)
        graph = build_definitions(workspace).resolve_asset_graph()
        with open_instance(workspace) as instance:
            resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
            batches = instance.get_dynamic_partitions("document_batches")
            return {
                (key.path[-1], batch): resolver.get_status(key, batch)
                for key in graph.toposorted_asset_keys
                for batch in (batches if graph.get(key).is_partitioned else [None])
            }


def materializations(root: Path) -> dict[tuple[str, str | None], list[dg.AssetMaterialization]]:
    """Every materialization that the history holds, by asset and batch, the newest first."""
    found: dict[tuple[str, str | None], list[dg.AssetMaterialization]] = {}
    with fresh_process():
        workspace = load_workspace(root)
        keys = build_definitions(workspace).resolve_asset_graph().toposorted_asset_keys
        with open_instance(workspace) as instance:
            for key in keys:
                for record in instance.fetch_materializations(key, limit=1000).records:
                    event: Any = record.asset_materialization
                    found.setdefault((key.path[-1], event.partition), []).append(event)
    return found


def prepare_ui(root: Path) -> None:
    """What `graphrag-assets ui` does before it starts its processes."""
    with fresh_process():
        prepare_instance(load_workspace(root))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_workspace(tmp_path_factory.mktemp("indexed"), demo_texts(*FIVE_DOCUMENTS), **FAST)
    assert index(root)["batches"] == 3
    return root


@pytest.fixture
def workspace(indexed: Path, tmp_path: Path) -> Path:
    """A copy of the indexed workspace."""
    return copy_workspace(indexed, tmp_path / "workspace")


def test_the_ui_shows_the_index_after_the_history_was_deleted(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, shown = materializations(workspace), what_dagster_shows(workspace)
    assert set(shown.values()) == {StaleStatus.FRESH}
    shutil.rmtree(workspace / ".dagster")
    prepare_ui(workspace)
    assert "33 tables" in capsys.readouterr().err
    assert what_dagster_shows(workspace) == shown
    assert len({name for name, _ in shown}) == 19
    assert {batch for name, batch in shown if name in PER_BATCH} == set(BATCHES)

    after = materializations(workspace)
    assert {place: len(found) for place, found in after.items()} == dict.fromkeys(before, 1)
    told = {"dagster/row_count", "size_bytes", "embedding_model", "vector_dimension"}
    for place, (found,) in after.items():
        expected = before[place][0].metadata
        names = [n for n in expected if n in told or n.startswith(("rows/", "vectors/")) or n == "snapshot"]
        assert names, place
        assert {n: found.metadata[n] for n in names} == {n: expected[n] for n in names}, place
        assert str(found.metadata["dagster/uri"].value).startswith(storage_of(workspace).base)
        assert ("dagster/column_lineage" in expected) == ("dagster/column_lineage" in found.metadata)
        assert found.description

    prepare_ui(workspace)
    assert capsys.readouterr().err == ""
    assert materializations(workspace).keys() == after.keys()
    assert Counter(map(len, materializations(workspace).values())) == {1: 33}
    assert index(workspace)["batches"] == 0
    status = invoke("status", "--root", workspace)
    assert "The index is up to date with the input and the settings." in status.out


def test_a_new_document_leaves_no_other_batch_stale(workspace: Path) -> None:
    write_document(workspace, "z/new.txt", "Ida Castellan wrote to Maske about the quarry at Cold Rigg.")
    assert index(workspace)["batches"] == 1
    assert set(what_dagster_shows(workspace).values()) == {StaleStatus.FRESH}


def test_the_index_command_brings_it_back_too(workspace: Path) -> None:
    shutil.rmtree(workspace / ".dagster")
    report = index(workspace)
    assert report["batches"] == 0
    assert set(what_dagster_shows(workspace).values()) == {StaleStatus.FRESH}
    assert index(workspace)["snapshot"] == report["snapshot"]
    assert Counter(map(len, materializations(workspace).values())) == {1: 33}


def test_what_is_out_of_date_is_shown_so(workspace: Path) -> None:
    """The chunking was changed after the index was built: what follows from it is there, but stale."""
    shutil.rmtree(workspace / ".dagster")
    make_workspace(workspace, {}, **FAST, chunking={"size": 300})
    prepare_ui(workspace)
    stale = {name for (name, _), status in what_dagster_shows(workspace).items() if status == StaleStatus.STALE}
    assert stale == {
        *(PER_BATCH - {"documents"}),
        *("entity_aliases", "entities", "relationships", "covariates", "communities", "community_reports"),
        *("entity_embeddings", "community_report_embeddings"),
    }


def test_new_work_and_a_lost_history(workspace: Path) -> None:
    """An index run that has something to do brings back the rest: batches that it does not touch are known, too."""
    shutil.rmtree(workspace / ".dagster")
    write_document(workspace, "news/new.txt", "Sela Verrall met Oren Courant in Dace Orrell.")
    assert index(workspace)["batches"] == 1
    shown = what_dagster_shows(workspace)
    assert StaleStatus.MISSING not in shown.values()
    found = materializations(workspace)
    assert {len(found["documents", batch]) for batch in BATCHES[:2]} == {1}


def test_a_part_of_the_history_is_lost(workspace: Path) -> None:
    """Somebody wiped one asset in the UI; only that is reported."""
    before = materializations(workspace)
    with fresh_process(), open_instance(load_workspace(workspace)) as instance:
        instance.wipe_assets([dg.AssetKey("entities"), dg.AssetKey("text_units")])
    prepare_ui(workspace)
    after = materializations(workspace)
    assert {place: len(found) for place, found in after.items()} == {p: len(found) for p, found in before.items()}
    assert StaleStatus.MISSING not in what_dagster_shows(workspace).values()


def test_nothing_is_reported_where_nothing_was_indexed(tmp_path: Path) -> None:
    prepare_ui(make_workspace(tmp_path, demo_texts(FIVE_DOCUMENTS[0]), **FAST))
    assert materializations(tmp_path) == {}


def test_a_table_that_is_not_there_is_not_reported(workspace: Path) -> None:
    shutil.rmtree(workspace / ".dagster")
    storage_of(workspace).delete("build/entities.parquet")
    storage_of(workspace).delete("build/text_units/batch-000002.parquet")
    prepare_ui(workspace)
    missing = {place for place, status in what_dagster_shows(workspace).items() if status == StaleStatus.MISSING}
    assert missing == {("entities", None), ("text_units", "batch-000002")}


def test_the_ui_starts_where_the_storage_cannot_be_read(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage_of(workspace).write("build/input_inventory.parquet", b"no table")
    prepare_ui(workspace)
    assert "Could not compare the Dagster history with the storage" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_another_machine_opens_an_index_on_s3(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    place = {"endpoint_url": s3_server.endpoint_url, "region": "us-east-1"}
    source = open_filesystem(f"s3://{bucket}/texts", **place)
    for path, text in demo_texts(*FIVE_DOCUMENTS).items():
        source.write(path, text.encode())
    settings = FAST | {
        "input_storage": {"type": "s3", "base_dir": f"s3://{bucket}/texts", **place},
        "storage": {"base": f"s3://{bucket}/index", **place},
    }
    index(make_workspace(tmp_path / "one", {}, **settings))
    other = make_workspace(tmp_path / "other", {}, **settings)
    prepare_ui(other)
    shown = what_dagster_shows(other)
    assert set(shown.values()) == {StaleStatus.FRESH}
    assert len(shown) == 33
    with fresh_process():
        workspace = load_workspace(other)
        from graphrag_assets.assets.resources import Index

        with open_instance(workspace) as instance:
            assert restore_history(Index(root=str(other)), instance) == 0
