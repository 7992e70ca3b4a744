"""The plan: what is missing is found by comparing fingerprints, whatever happened before."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.assets.fingerprints import BATCH_STAGES, CORPUS_STAGES, INCOMPLETE, STAGE_ASSETS, Fingerprints
from graphrag_assets.automation.plan import VECTOR_STAGES, Work, contiguous, missing_work, nothing_to_do
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.storage.build import CONTRACTS, BuildArea, Built
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.tables import INPUT_INVENTORY
from graphrag_assets.storage.vectors import Marker, write_marker

pytestmark = pytest.mark.storage

KEYS = ["batch-000001", "batch-000002"]


def inventory(*documents: tuple[str, str]) -> pa.Table:
    """An inventory of (batch, content hash)."""
    names = [f"{number}" for number in range(len(documents))]
    return INPUT_INVENTORY.from_rows(
        [
            {
                "document_id": name,
                "path": name,
                "file": name,
                "row": None,
                "batch": batch,
                "content_hash": content,
                "characters": 1,
                "bytes": 1,
                "language": "en",
            }
            for name, (batch, content) in zip(names, documents, strict=True)
        ]
    )


class Index:
    """A build area whose tables are empty but carry fingerprints."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root=root, settings=Settings())
        self.storage: FileSystem = open_filesystem(str(root / "output"))
        self.area = BuildArea(self.storage)
        self.inventory = inventory((KEYS[0], "v1"), (KEYS[1], "v1"))

    @property
    def prints(self) -> Fingerprints:
        return Fingerprints(self.workspace, self.inventory)

    def build(self, stage: str, key: str | None = None, suffix: str = "") -> None:
        """Write the tables of a stage as if it had been computed."""
        fingerprint = (self.prints.batch(stage, key) if key else self.prints.corpus(stage)) + suffix
        if stage in VECTOR_STAGES:
            write_marker(self.storage, stage, key, Marker(fingerprint, "model", 3, 0, 1))
            return
        for asset in STAGE_ASSETS[stage]:
            self.area.write(asset, Built(CONTRACTS[asset].from_rows([]), fingerprint), key)

    def build_all(self) -> None:
        for stage in BATCH_STAGES:
            for key in self.prints.batches:
                self.build(stage, key)
        for stage in CORPUS_STAGES:
            self.build(stage)

    def missing(self, published: bool = True) -> Work:
        return missing_work(self.workspace, self.storage, self.prints, self.prints.whole_input() if published else None)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    made = Index(tmp_path)
    made.build_all()
    return made


def test_nothing_is_there(tmp_path: Path) -> None:
    assert Index(tmp_path).missing(published=False) == Work(KEYS, list(BATCH_STAGES), list(CORPUS_STAGES), True)


def test_everything_is_there(index: Index) -> None:
    assert index.missing() == Work([], [], [], False)
    assert index.missing().nothing


def test_only_the_snapshot_is_missing(index: Index) -> None:
    """A run that died between the last table and the publishing."""
    assert index.missing(published=False) == Work([], [], [], True)


def test_one_table_of_a_stage_is_missing(index: Index) -> None:
    """A stage writes several tables: all must be there, else a run that died between two would count as done."""
    index.area.delete("extracted_claims", KEYS[1])
    assert index.missing() == Work([KEYS[1]], ["extraction"], list(CORPUS_STAGES), True)


def test_failed_text_units_are_tried_again(index: Index) -> None:
    index.build("extraction", KEYS[0], INCOMPLETE)
    assert index.missing().batches == [KEYS[0]]
    assert index.missing().stages == ["extraction"]


def test_an_edited_document(index: Index) -> None:
    index.inventory = inventory((KEYS[0], "v1"), (KEYS[1], "v2"))
    assert index.missing() == Work([KEYS[1]], list(BATCH_STAGES), list(CORPUS_STAGES), True)


def test_a_batch_that_lost_its_last_document(index: Index) -> None:
    """No batch has to be computed, but the whole-corpus tables still hold what it gave."""
    index.inventory = inventory((KEYS[0], "v1"))
    assert index.missing(published=False) == Work([], [], list(CORPUS_STAGES), True)


def test_a_setting_of_a_late_stage(index: Index) -> None:
    index.workspace = Workspace(root=index.workspace.root, settings=Settings(cluster_graph={"seed": 1}))
    assert index.missing() == Work([], [], ["communities", "community_reports", "community_report_embeddings"], True)


def test_vectors_of_another_model(index: Index) -> None:
    write_marker(index.storage, "entity_embeddings", None, Marker("of another model", "other", 3, 0, 1))
    assert index.missing() == Work([], [], ["entity_embeddings"], True)


def test_without_an_inventory_there_is_something_to_do(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    made = Index(tmp_path)
    assert not nothing_to_do(made.workspace, open_filesystem(str(tmp_path / "input")), made.storage)


@given(st.sets(st.integers(0, 30)), st.integers(1, 5))
def test_groups_are_runs_of_neighbours(wanted: set[int], most: int) -> None:
    """A run over several batches covers a range of partitions: a group must not reach over one that is not wanted."""
    order = [f"batch-{number:06d}" for number in range(31)]
    keys = [order[number] for number in wanted]
    groups = contiguous(keys, order, most)
    assert [key for group in groups for key in group] == sorted(keys)
    for group in groups:
        assert 1 <= len(group) <= most
        start = order.index(group[0])
        assert group == order[start : start + len(group)]
    for one, other in pairwise(groups):
        neighbours = order.index(other[0]) == order.index(one[-1]) + 1
        assert not neighbours or len(one) == most, "neighbours are in one group as long as there is room"


def test_groups_follow_the_order_of_the_partitions() -> None:
    assert contiguous(["a", "c"], ["c", "a", "b"], 9) == [["c", "a"]]
