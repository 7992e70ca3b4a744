"""A bad table: told on the page of its asset, not written, nothing made from it, nothing published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from graphrag_assets.assets import communities, documents, extraction, graph
from graphrag_assets.storage.build import BuildArea, Built
from tests.pipeline.workspaces import (
    copy_workspace,
    demo_texts,
    fresh_process,
    index,
    invoke,
    log_entries,
    make_workspace,
    manifest,
    storage_of,
    write_document,
)

pytestmark = pytest.mark.storage

DOCUMENTS = ("letters/2032-05-08-verrall-to-courant.txt", "news/2032-06-08-quarry-strike.txt")
FAST = {"method": "fast", "extract_graph_nlp": {"processes": 1}, "batches": {"max_documents": 1}}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_workspace(tmp_path_factory.mktemp("indexed"), demo_texts(*DOCUMENTS), **FAST)
    assert index(root)["tables"]["community_reports"] > 0
    return root


@pytest.fixture
def workspace(indexed: Path, tmp_path: Path) -> Path:
    """A copy of the indexed workspace, to which a document came."""
    root = copy_workspace(indexed, tmp_path / "workspace")
    write_document(root, "notes/new.txt", demo_texts("notes/2032-09-06-notice-weight-limit.txt").popitem()[1])
    return root


def latest_checks(root: Path) -> dict[tuple[str, str], bool]:
    """Whether each check passed when it was evaluated last, by asset and check."""
    from graphrag_assets.automation.instance import open_instance
    from graphrag_assets.settings_file import load_workspace

    found: dict[tuple[str, str], bool] = {}
    with fresh_process(), open_instance(load_workspace(root)) as instance:
        for run in reversed(instance.get_runs()):
            for event in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION):
                data: Any = event.dagster_event and event.dagster_event.event_specific_data
                found[data.asset_key.path[-1], data.check_name] = data.passed
    return found


def published(root: Path) -> str:
    return manifest(root).id


def replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)


def shifted_spans(table: pa.Table) -> pa.Table:
    return replaced(table, "start", pc.add(table["start"], 1))


def no_reason(units: dict[str, list[Any]]) -> dict[str, list[Any]]:
    for found in units.values():
        found[0].status.update(status="failed", reason="")
    return units


def wrong_degree(tables: tuple[Any, ...]) -> Any:
    entities, relationships = tables
    return replaced(entities, "degree", pc.add(entities["degree"], 1)), relationships


def one_report_less(made: tuple[pa.Table, dict[str, Any]]) -> tuple[pa.Table, dict[str, Any]]:
    return made[0].slice(1), made[1]


BROKEN = [
    pytest.param(documents, "cut_documents", shifted_spans, "text_units", "spans", marks=pytest.mark.slow),
    pytest.param(
        extraction, "extract_with_nlp", no_reason, "extraction_status", "text_unit_status", marks=pytest.mark.slow
    ),
    pytest.param(graph, "with_degrees", wrong_degree, "relationships", "degrees"),
    pytest.param(
        communities,
        "write_extractively",
        one_report_less,
        "community_reports",
        "report_coverage",
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("module", "function", "spoil", "asset", "check"), BROKEN)
def test_a_bad_table_is_not_written(
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    function: str,
    spoil: Callable[..., Any],
    asset: str,
    check: str,
) -> None:
    """A step computes nonsense: its check fails, and the next run with sound code repairs all."""
    before, storage = published(workspace), storage_of(workspace)
    files = {info.path: storage.read(info.path) for info in storage.list("build") if asset in info.path}
    sound = getattr(module, function)
    with monkeypatch.context() as patch:
        patch.setattr(module, function, lambda *a, **k: spoil(sound(*a, **k)))
        failed = invoke("index", "--root", workspace)
    assert failed.code == 1
    assert "nothing was written" in failed.err
    assert f"{check}: " in failed.err
    assert published(workspace) == before
    assert {file: storage.read(file) for file in files} == files
    assert f"build/{asset}/batch-000003.parquet" not in {info.path for info in storage.list("build")}
    assert latest_checks(workspace)[asset, check] is False
    assert index(workspace)["snapshot"] != before
    assert set(latest_checks(workspace).values()) == {True}


def test_a_table_that_was_damaged_is_not_published(workspace: Path) -> None:
    """A file of the build area was changed behind the back of the product, with the fingerprint kept."""
    index(workspace)
    before = published(workspace)
    storage = storage_of(workspace)
    area = BuildArea(storage)
    entities, fingerprint = area.read("entities"), area.fingerprint("entities")
    assert fingerprint is not None
    spoiled = replaced(entities, "degree", pc.add(entities["degree"], 1))
    area.write("entities", Built(spoiled, fingerprint))
    for log in log_entries(workspace):
        if int(Path(log).stem) > 1:
            storage.delete(log)
    older = published(workspace)
    assert older != before
    failed = invoke("index", "--root", workspace)
    assert failed.code == 1
    assert "nothing was published" in failed.err
    assert "degrees: entities: degree is not the number of neighbours" in failed.err
    assert published(workspace) == older
    assert latest_checks(workspace)["index_snapshot", "tables"] is False
    assert latest_checks(workspace)["relationships", "degrees"] is True
    area.write("entities", Built(entities, fingerprint))
    assert index(workspace)["snapshot"].split("-")[1] == before.split("-")[1]
