"""The project as people meet it in Dagster: it loads, it documents itself, and its parts can be run by themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.assets.fingerprints import STAGE_ASSETS
from graphrag_assets.settings import Workspace
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.build import CONTRACTS
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    FIVE_DOCUMENTS,
    REPOSITORY,
    command,
    demo_texts,
    environment,
    fresh_process,
    index,
    make_workspace,
    simulated,
    storage_of,
)

pytestmark = pytest.mark.storage

INVENTORY = ("input_inventory", "input_files", "rejected_inputs")
#: Assets that are made for each batch, as Parquet files.
BATCH_TABLES = ("documents", "text_units", *STAGE_ASSETS["extraction"])


def keys(*names: str) -> list[dg.AssetKey]:
    return [dg.AssetKey(name) for name in names]


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    with fresh_process():
        return build_definitions(load_workspace(make_workspace(tmp_path_factory.mktemp("empty"), {})))


def test_every_asset_documents_itself(definitions: dg.Definitions) -> None:
    specs = [spec for asset in definitions.resolve_asset_graph().assets_defs for spec in asset.specs]
    names = {spec.key.path[-1] for spec in specs}
    assert names == {*INVENTORY, *(asset for assets in STAGE_ASSETS.values() for asset in assets), "index_snapshot"}
    for spec in specs:
        name = spec.key.path[-1]
        assert spec.description, name
        assert spec.group_name != "default", name
        assert spec.owners, name
        assert 0 < len(spec.kinds) <= 3, name
        if name in CONTRACTS:
            schema = spec.metadata["dagster/column_schema"]
            schema = getattr(schema, "schema", schema)
            assert [column.name for column in schema.columns] == CONTRACTS[name].column_names
            assert all(column.description for column in schema.columns), name
        if name not in (*INVENTORY, "index_snapshot"):
            assert spec.code_version, name
            lineage = spec.metadata.get("dagster/column_lineage")
            assert lineage or name not in CONTRACTS, name


def test_column_lineage_names_existing_columns(definitions: dg.Definitions) -> None:
    for spec in (spec for asset in definitions.resolve_asset_graph().assets_defs for spec in asset.specs):
        lineage = spec.metadata.get("dagster/column_lineage")
        if lineage is None or spec.key.path[-1] not in CONTRACTS:
            continue
        lineage = getattr(lineage, "lineage", lineage)
        for column, sources in lineage.deps_by_column.items():
            assert column in CONTRACTS[spec.key.path[-1]].column_names
            for source in sources:
                assert source.column_name in CONTRACTS[source.asset_key.path[-1]].column_names


def test_loading_is_light() -> None:
    """The code server loads the definitions anew for each look; what is heavy waits until an asset needs it."""
    program = "import sys, graphrag_assets.definitions; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), cwd=REPOSITORY, check=True
    )
    heavy = {"litellm", "spacy", "lancedb", "onnxruntime", "pandas", "openai", "tiktoken", "scipy"}
    assert heavy & set(done.stdout.split()) == set()
    assert done.stderr == ""


def batch_files(root: Path, batch: str) -> dict[str, bytes]:
    return {name: storage_of(root).read(f"build/{name}/{batch}.parquet") for name in BATCH_TABLES}


def materialize(workspace: Workspace, instance: dg.DagsterInstance, *names: str, **options: object) -> None:
    """Run assets as the UI does: through the job that Dagster derives for them."""
    job = build_definitions(workspace).resolve_implicit_global_asset_job_def()
    done = job.execute_in_process(instance=instance, asset_selection=keys(*names), **options)  # type: ignore[arg-type]
    assert done.success


def test_one_batch_and_a_range(tmp_path: Path, llmsim: LlmSim) -> None:
    """Batches run one by one or in ranges from Dagster give the files that the index command gives."""
    from graphrag_assets.automation.instance import open_instance

    settings = simulated(llmsim, chunking={"size": 200, "overlap": 20}, batches={"max_documents": 2})
    texts = demo_texts(*FIVE_DOCUMENTS)
    indexed = make_workspace(tmp_path / "indexed", texts, **settings)
    assert index(indexed)["batches"] == 3
    by_hand = make_workspace(tmp_path / "by-hand", texts, **settings)
    per_batch = (*BATCH_TABLES, "text_unit_embeddings")
    with fresh_process():
        workspace = load_workspace(by_hand)
        with open_instance(workspace) as instance:
            materialize(workspace, instance, *INVENTORY)
            assert instance.get_dynamic_partitions("document_batches") == [
                "batch-000001",
                "batch-000002",
                "batch-000003",
            ]
            materialize(workspace, instance, *per_batch, partition_key="batch-000001")
            assert [info.path.rpartition("/")[2] for info in storage_of(by_hand).list("build/text_units")] == [
                "batch-000001.parquet"
            ]
            assert batch_files(by_hand, "batch-000001") == batch_files(indexed, "batch-000001")
            span = {
                "dagster/asset_partition_range_start": "batch-000002",
                "dagster/asset_partition_range_end": "batch-000003",
            }
            materialize(workspace, instance, *per_batch, tags=span)
            for batch in ("batch-000002", "batch-000003"):
                assert batch_files(by_hand, batch) == batch_files(indexed, batch)
                assert instance.get_materialized_partitions(dg.AssetKey("text_units")) >= {batch}
            event = instance.get_latest_materialization_event(dg.AssetKey("text_units"))
            assert event is not None
            assert event.asset_materialization is not None
            assert event.asset_materialization.metadata["dagster/row_count"].value  # type: ignore[union-attr]
    # The command finds the batches done and only builds the graph.
    report = index(by_hand)
    assert report["batches"] == 0
    assert report["snapshot"].split("-")[1] == index(indexed)["snapshot"].split("-")[1]


def dg_command(*parts: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "dg"
    return subprocess.run(
        [str(program), *parts], capture_output=True, text=True, cwd=cwd, env=environment(**more), check=False
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_repository_loads(tmp_path: Path) -> None:
    done = dg_command("check", "defs", cwd=REPOSITORY, GRAPHRAG_ROOT=str(make_workspace(tmp_path, {})))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.local_disk
def test_a_new_workspace_loads_and_runs_one_batch(tmp_path: Path) -> None:
    """As the README says: init, put documents in, and use Dagster's own tools on the folder."""
    root = tmp_path / "mine"
    assert command("init", root).code == 0
    for path, text in demo_texts(*FIVE_DOCUMENTS[:2]).items():
        (root / "input" / Path(path).name).write_text(text, encoding="utf-8")
    where = {"GRAPHRAG_ROOT": str(root), "DAGSTER_HOME": str(root / ".dagster")}
    (root / ".dagster").mkdir(exist_ok=True)
    done = dg_command("check", "defs", cwd=REPOSITORY, **where)
    assert done.returncode == 0, done.stdout + done.stderr
    done = dg_command("launch", "--assets", ",".join(INVENTORY), cwd=REPOSITORY, **where)
    assert done.returncode == 0, done.stdout + done.stderr
    done = dg_command(
        "launch", "--assets", "documents,text_units", "--partition", "batch-000001", cwd=REPOSITORY, **where
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert storage_of(root).exists("build/text_units/batch-000001.parquet")
