"""Adding, editing and deleting documents leaves exactly the tables that a fresh index of the same input has."""

from __future__ import annotations

from pathlib import Path

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    assert_equal_indexes,
    demo_texts,
    index,
    make_workspace,
    manifest,
    rows,
    simulated,
    write_document,
)

FIRST = ("letters/2031-10-23-castellan-to-maske.txt", "letters/2032-05-08-verrall-to-courant.txt")
ADDED = "news/2032-06-08-quarry-strike.txt"


def counts(**changed: int) -> dict[str, int]:
    return {"added": 0, "edited": 0, "deleted": 0, "unchanged": 0, "rejected": 0} | changed


def test_add_edit_delete(tmp_path: Path, llmsim: LlmSim) -> None:
    texts = demo_texts(*FIRST)
    root = tmp_path / "edited"
    settings = simulated(llmsim, chunking={"size": 200, "overlap": 20}, batches={"max_documents": 2})
    make_workspace(root, texts, **settings)
    assert index(root)["documents"] == counts(added=2)
    snapshots = [manifest(root).id]

    def check(**changed: int) -> dict[str, object]:
        """Index, and compare with an index made from nothing; its answers come from the same cache."""
        report = index(root)
        assert report["documents"] == counts(**changed)
        snapshots.append(report["snapshot"])
        fresh = tmp_path / f"fresh-{len(snapshots)}"
        make_workspace(fresh, texts, **settings, cache={"path": str(root / ".cache" / "llm.sqlite")})
        assert index(fresh)["llm"]["calls"] == 0
        assert_equal_indexes(fresh, root)
        assert manifest(root).parent == snapshots[-2]
        return report

    texts |= demo_texts(ADDED)
    write_document(root, ADDED, texts[ADDED])
    assert check(added=1, unchanged=2)["batches"] == 1

    texts[FIRST[1]] = texts[FIRST[1]].replace("Sallow Viaduct", "Great Sallow Viaduct") + "\nRosamund Quill signed it."
    write_document(root, FIRST[1], texts[FIRST[1]])
    assert check(edited=1, unchanged=2)["batches"] == 1

    del texts[FIRST[0]]
    (root / "input" / FIRST[0]).unlink()
    check(deleted=1, unchanged=2)

    assert len(set(snapshots)) == 4
    assert sorted(row["path"] for row in rows(root, "documents")) == sorted(texts)
