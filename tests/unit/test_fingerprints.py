"""Fingerprints: what a table is made from decides whether it has to be made again, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from graphrag_assets.assets.fingerprints import (
    ALGORITHM_VERSIONS,
    BATCH_STAGES,
    CORPUS_STAGES,
    STAGE_ASSETS,
    Fingerprints,
    code_version,
)
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.storage.build import CONTRACTS
from graphrag_assets.storage.tables import INPUT_INVENTORY

MODEL = {"model_provider": "openai", "model": "gpt-4o-mini", "api_key": "sk-1"}
MODELS = {
    "completion_models": {"default_completion_model": MODEL},
    "embedding_models": {"default_embedding_model": MODEL},
}
STAGES = [*BATCH_STAGES, *CORPUS_STAGES]


def workspace(root: Path, **sections: Any) -> Workspace:
    return Workspace(root=root, settings=Settings(**{**MODELS, **sections}))


def inventory(*documents: tuple[str, str, str]) -> Any:
    """An inventory of (path, batch, content hash)."""
    rows = [
        {
            "document_id": f"id of {path}",
            "path": path,
            "file": path,
            "row": None,
            "batch": batch,
            "content_hash": content,
            "characters": 1,
            "bytes": 1,
            "language": "en",
        }
        for path, batch, content in documents
    ]
    return INPUT_INVENTORY.from_rows(rows)


TWO_BATCHES = (("a", "batch-000001", "v1"), ("b", "batch-000001", "v1"), ("c", "batch-000002", "v1"))


def changed_stages(one: Workspace, other: Workspace) -> set[str]:
    """Stages whose fingerprint differs between two workspaces with equal input."""
    prints = [Fingerprints(w, inventory(*TWO_BATCHES)) for w in (one, other)]
    batch = {stage for stage in BATCH_STAGES if len({p.batch(stage, "batch-000001") for p in prints}) == 2}
    return batch | {stage for stage in CORPUS_STAGES if len({p.corpus(stage) for p in prints}) == 2}


def test_documents_of_unknown_language_depend_on_that_of_the_others() -> None:
    """And no others do, so that a new majority makes no sure document be read again."""
    some = inventory(("a", "batch-000001", "v1"), ("b", "batch-000002", "v1"), ("c", "batch-000003", "v1"))

    def prints(*languages: str) -> Fingerprints:
        column = pa.array(languages, pa.string())
        table = some.set_column(some.column_names.index("language"), "language", column)
        return Fingerprints(workspace(Path("/w")), table)

    english, german, mixed = prints("en", "en", ""), prints("en", "de", ""), prints("de", "de", "")
    assert english.batch("documents", "batch-000001") == german.batch("documents", "batch-000001")
    assert english.batch("documents", "batch-000003") != german.batch("documents", "batch-000003")
    assert mixed.batch("documents", "batch-000003") not in (
        english.batch("documents", "batch-000003"),
        german.batch("documents", "batch-000003"),
    )
    assert english.corpus("graph") != mixed.corpus("graph")


def test_every_stage_is_complete() -> None:
    assert set(ALGORITHM_VERSIONS) == set(STAGE_ASSETS) == set(STAGES)
    tables = {asset for assets in STAGE_ASSETS.values() for asset in assets}
    assert set(CONTRACTS) - tables == {"input_inventory", "input_files", "rejected_inputs"}
    for number, stage in enumerate(STAGES):
        sources = {**BATCH_STAGES, **CORPUS_STAGES}[stage]
        assert set(sources) <= set(STAGES[:number]), "stages are listed in the order in which they are computed"


GRAPH_ON = {
    "graph",
    "covariates",
    "communities",
    "community_reports",
    "entity_embeddings",
    "community_report_embeddings",
}
REPORTS_ON = {"community_reports", "community_report_embeddings"}
VECTORS = {"text_unit_embeddings", "entity_embeddings", "community_report_embeddings"}


@pytest.mark.parametrize(
    ("sections", "stages"),
    [
        ({"chunking": {"size": 500}}, set(STAGES) - {"documents"}),
        ({"extract_graph": {"max_gleanings": 0}}, GRAPH_ON | {"extraction"}),
        ({"extract_graph": {"entity_types": ["ship"]}}, GRAPH_ON | {"extraction"}),
        ({"summarize_descriptions": {"max_length": 9}}, GRAPH_ON),
        ({"entity_resolution": {"lexical": False}}, GRAPH_ON),
        ({"cluster_graph": {"seed": 1}}, REPORTS_ON | {"communities"}),
        ({"community_reports": {"max_length": 9}}, REPORTS_ON),
        ({"input": {"encoding": "cp1252"}}, set(STAGES)),
        ({"method": "fast"}, GRAPH_ON | {"extraction"}),
        ({"embedding_models": {"default_embedding_model": {**MODEL, "model": "other"}}}, VECTORS),
        ({"completion_models": {"default_completion_model": {**MODEL, "model": "other"}}}, GRAPH_ON | {"extraction"}),
        # what changes no table
        ({"completion_models": {"default_completion_model": {**MODEL, "api_key": "sk-2", "timeout": 5}}}, set()),
        ({"concurrent_requests": 3}, set()),
        ({"batches": {"max_documents": 3}}, set()),
        ({"storage": {"base": "elsewhere"}}, set()),
        ({"local_search": {"top_k_entities": 3}}, set()),
        ({"checks": {"max_failed_share": 0.5}}, set()),
        ({"prune_graph": {"min_node_freq": 5}}, set()),
        ({"extract_graph_nlp": {"processes": 1}}, set()),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "+".join(sorted(value)),
)
def test_settings(tmp_path: Path, sections: dict[str, Any], stages: set[str]) -> None:
    """A setting makes exactly those tables stale that depend on it."""
    assert changed_stages(workspace(tmp_path), workspace(tmp_path, **sections)) == stages


@pytest.mark.parametrize(
    ("prompt", "stages"),
    [
        ("extract_graph", GRAPH_ON | {"extraction"}),
        ("summarize_descriptions", GRAPH_ON),
        ("community_report_graph", REPORTS_ON),
        ("local_search_system_prompt", set()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_prompts(tmp_path: Path, prompt: str, stages: set[str]) -> None:
    """An edited prompt makes what is made with it stale."""
    from graphrag_assets.prompt_files import load_prompt

    one, other = tmp_path / "one", tmp_path / "other"
    text = load_prompt(workspace(tmp_path), prompt)
    for root, edited in ((one, text), (other, text + "\nBe brief.")):
        (root / "prompts").mkdir(parents=True)
        (root / "prompts" / f"{prompt}.txt").write_text(edited, encoding="utf-8")
    assert changed_stages(workspace(one), workspace(other)) == stages


def test_overrides_of_entities(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    (other / "entity_overrides.yaml").write_text("merge:\n- [A, B]\n")
    assert changed_stages(workspace(one), workspace(other)) == GRAPH_ON


def test_an_edit_touches_its_batch_only(tmp_path: Path) -> None:
    before = Fingerprints(workspace(tmp_path), inventory(*TWO_BATCHES))
    after = Fingerprints(workspace(tmp_path), inventory(*TWO_BATCHES[:2], ("c", "batch-000002", "v2")))
    for stage in BATCH_STAGES:
        assert before.batch(stage, "batch-000001") == after.batch(stage, "batch-000001")
        assert before.batch(stage, "batch-000002") != after.batch(stage, "batch-000002")
    assert all(before.corpus(stage) != after.corpus(stage) for stage in CORPUS_STAGES)
    assert before.whole_input() != after.whole_input()


def test_grouping_and_order_change_no_whole_corpus_table(tmp_path: Path) -> None:
    one = Fingerprints(workspace(tmp_path), inventory(*TWO_BATCHES))
    other = Fingerprints(
        workspace(tmp_path),
        inventory(("c", "batch-000003", "v1"), ("b", "batch-000001", "v1"), ("a", "batch-000002", "v1")),
    )
    assert one.batches == ["batch-000001", "batch-000002"]
    assert all(one.corpus(stage) == other.corpus(stage) for stage in CORPUS_STAGES)
    assert one.whole_input() == other.whole_input()


def test_code_version_is_what_dagster_shows(tmp_path: Path) -> None:
    versions = {stage: code_version(workspace(tmp_path), stage) for stage in STAGES}
    assert all(len(version) == 12 for version in versions.values())
    assert code_version(workspace(tmp_path, chunking={"size": 500}), "text_units") != versions["text_units"]
    assert code_version(workspace(tmp_path, chunking={"size": 500}), "documents") == versions["documents"]
