"""Adding, editing and deleting documents leaves exactly the tables that a fresh index of the same input has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from graphrag_assets.indexing.communities import membership, modularity
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    OF_COMMUNITIES,
    assert_equal_indexes,
    demo_texts,
    index,
    make_workspace,
    manifest,
    rows,
    simulated,
    storage_of,
    write_document,
)

pytestmark = pytest.mark.storage

FIRST = ("letters/2031-10-23-castellan-to-maske.txt", "letters/2032-05-08-verrall-to-courant.txt")
ADDED = "news/2032-06-08-quarry-strike.txt"


def counts(**changed: int) -> dict[str, int]:
    return {"added": 0, "edited": 0, "deleted": 0, "unchanged": 0, "rejected": 0} | changed


EDITED = {"Leonora Quayle": "Eleonora Quayle"}


def edited(text: str) -> str:
    """Another version of a document, with a name that was not there before."""
    for old, new in EDITED.items():
        assert old in text
        text = text.replace(old, new)
    return text + "\nRosamund Quill signed it."


class Edits:
    """An index whose input changes, and the same input indexed from nothing.

    Args:
        root: Folder for the workspaces.
        llmsim: The models.
    """

    def __init__(self, root: Path, llmsim: LlmSim) -> None:
        self.folder = root
        self.root = root / "edited"
        self.texts = demo_texts(*FIRST)
        sections = {"chunking": {"size": 200, "overlap": 20}, "batches": {"max_documents": 2}}
        self.settings = simulated(llmsim, **sections)
        make_workspace(self.root, self.texts, **self.settings)
        assert index(self.root)["documents"] == counts(added=2)
        self.snapshots = [manifest(self.root).id]

    def write(self, path: str, text: str) -> None:
        self.texts[path] = text
        write_document(self.root, path, text)

    def delete(self, path: str) -> None:
        del self.texts[path]
        (self.root / "input" / path).unlink()

    def check(self, **changed: int) -> dict[str, Any]:
        """Index, and compare with an index made from nothing, whose answers come from the same cache.

        Communities stay as far as they can, so that those of the other index may be others, with other reports.
        """
        report = index(self.root)
        assert report["documents"] == counts(**changed)
        fresh = self.folder / f"fresh-{len(self.snapshots)}"
        cache = {"path": str(self.root / ".cache" / "llm.sqlite")}
        make_workspace(fresh, self.texts, **self.settings, cache=cache)
        asked = {stage for stage, used in index(fresh)["llm"]["by_stage"].items() if used["calls"]}
        assert asked <= {"community_reports", "community_report_embeddings"}
        assert_equal_indexes(fresh, self.root, but=OF_COMMUNITIES)
        self.check_communities(fresh)
        assert manifest(self.root).parent == self.snapshots[-1]
        self.snapshots.append(report["snapshot"])
        self.check_reports()
        assert sorted(row["path"] for row in rows(self.root, "documents")) == sorted(self.texts)
        return report

    def check_communities(self, fresh: Path) -> None:
        """They stay as far as they can, and are as good as fresh ones."""
        kept, other = (read_communities(root) for root in (self.root, fresh))
        relationships = pa.Table.from_pylist(rows(self.root, "relationships"))
        for level in (0, 99):
            good, best = (modularity(relationships, by_title(self.root, kept_or, level)) for kept_or in (kept, other))
            assert good >= best - 0.01 * abs(best) - 1e-9
        assert sorted(by_title(self.root, kept, 0)) == sorted(by_title(self.root, other, 0))

    def check_reports(self) -> None:
        """Reports that were carried over are those that would be written now."""
        published = [{**row} for row in rows(self.root, "community_reports")]
        storage_of(self.root).delete("build/community_reports.parquet")
        again = index(self.root)
        assert again["llm"]["calls"] == 0
        assert again["new_snapshot"] is False
        assert rows(self.root, "community_reports") == published


def read_communities(root: Path) -> pa.Table:
    return pa.Table.from_pylist(rows(root, "communities"))


def by_title(root: Path, communities: pa.Table, level: int) -> dict[str, int]:
    titles = {row["id"]: row["title"] for row in rows(root, "entities")}
    return {titles[entity]: number for entity, number in membership(communities, level).items()}


@pytest.fixture
def edits(tmp_path: Path, llmsim: LlmSim) -> Edits:
    return Edits(tmp_path, llmsim)


def test_all_at_once(edits: Edits) -> None:
    edits.write(ADDED, demo_texts(ADDED)[ADDED])
    edits.write(FIRST[1], edited(edits.texts[FIRST[1]]))
    edits.delete(FIRST[0])
    edits.check(added=1, edited=1, deleted=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_after_the_other(edits: Edits) -> None:
    edits.write(ADDED, demo_texts(ADDED)[ADDED])
    assert edits.check(added=1, unchanged=2)["batches"] == 1
    edits.write(FIRST[1], edited(edits.texts[FIRST[1]]))
    assert edits.check(edited=1, unchanged=2)["batches"] == 1
    edits.delete(FIRST[0])
    edits.check(deleted=1, unchanged=2)
    assert len(set(edits.snapshots)) == 4


def test_documents_after_an_empty_input(tmp_path: Path, llmsim: LlmSim) -> None:
    """A workspace that was indexed before it held any document is as good as a new one."""
    llmsim.reset()
    root = make_workspace(tmp_path, {}, **simulated(llmsim))
    (root / "input").mkdir(exist_ok=True)
    assert index(root)["tables"]["documents"] == 0
    write_document(root, "new.txt", "Ebenezer Scrooge met Jacob Marley in London. Bob Cratchit saw Tiny Tim at home.")
    report = index(root)
    assert report["documents"] == counts(added=1)
    assert report["tables"]["entities"] > 0
    assert all(table.rows > 0 for table in manifest(root).vectors.values())
