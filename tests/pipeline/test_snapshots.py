"""The commands on snapshots: what differs, going back, removing old ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.pipeline.workspaces import demo_texts, index, invoke, make_workspace, manifest, vector_hashes, write_document

pytestmark = pytest.mark.storage

FIRST = ("letters/2031-10-23-castellan-to-maske.txt", "letters/2032-05-08-verrall-to-courant.txt")
ADDED = "news/2032-06-08-quarry-strike.txt"


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A workspace with four snapshots: two documents, a third, one edited, one deleted."""
    root = make_workspace(tmp_path_factory.mktemp("snapshots"), demo_texts(*FIRST), method="fast")
    found = [index(root)["snapshot"]]
    write_document(root, ADDED, demo_texts(ADDED)[ADDED])
    found.append(index(root)["snapshot"])
    write_document(root, FIRST[0], demo_texts(FIRST[0])[FIRST[0]] + "\nRosamund Quill signed it in Skarne.")
    found.append(index(root)["snapshot"])
    (root / "input" / FIRST[1]).unlink()
    found.append(index(root)["snapshot"])
    assert len(set(found)) == 4
    return root, found


def diff(root: Path, *parts: object) -> dict[str, Any]:
    return invoke("snapshots", "diff", *parts, "--root", root, "--json").json


def test_diff(versions: tuple[Path, list[str]]) -> None:
    root, ids = versions
    added = diff(root, ids[0], ids[1])
    documents = added["tables"]["documents"]
    assert (documents["added"], documents["removed"], documents["changed"], documents["unchanged"]) == (1, 0, 0, 2)
    assert documents["examples"] == {"added": [ADDED]}
    assert added["tables"]["entities"]["added"] > 0
    assert added["tables"]["entities"]["removed"] == 0
    edited = diff(root, ids[1], ids[2])["tables"]["documents"]
    assert (edited["changed"], edited["examples"]["changed"]) == (1, [FIRST[0]])
    last = diff(root)
    assert (last["from"], last["to"]) == (ids[2], ids[3])
    assert last["tables"]["documents"]["removed"] == 1
    same = diff(root, ids[1], ids[1])
    assert set(same["fates"]) == {"kept"}
    assert not same["communities"]
    assert all(rows["added"] == rows["removed"] == rows["changed"] == 0 for rows in same["tables"].values())


def test_diff_and_back_are_mirror_images(versions: tuple[Path, list[str]]) -> None:
    root, ids = versions
    there, back = diff(root, ids[0], ids[3])["tables"], diff(root, ids[3], ids[0])["tables"]
    for name in there:
        assert there[name]["added"] == back[name]["removed"]
        assert there[name]["removed"] == back[name]["added"]
        assert there[name]["changed"] == back[name]["changed"]


def test_fates_account_for_every_community(versions: tuple[Path, list[str]]) -> None:
    root, ids = versions
    found = diff(root, ids[0], ids[1])
    rows = found["communities"]
    gone = sum(row["size"] == 0 for row in rows)
    new = sum(row["size_before"] == 0 for row in rows)
    tables = found["tables"]["communities"]
    assert (tables["added"], tables["removed"]) == (new, gone)
    assert {row["fate"] for row in rows} <= {"grown", "shrunk", "changed", "split", "merged", "new", "gone"}


def test_diff_as_text(versions: tuple[Path, list[str]]) -> None:
    root, ids = versions
    run = invoke("snapshots", "diff", ids[0], ids[1], "--examples", 1, "--root", root)
    assert run.code == 0
    assert f"documents added: {ADDED}" in run.out
    assert "more" in run.out, "what is not listed is counted"
    first = invoke("snapshots", "diff", ids[0], "nix", "--root", root)
    assert first.code == 1
    assert "no snapshot 'nix'" in first.err


def test_the_first_snapshot_has_none_before(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, demo_texts(FIRST[0]), method="fast")
    assert invoke("snapshots", "diff", "--root", root).code == 1
    only = index(root)["snapshot"]
    run = invoke("snapshots", "diff", "--root", root)
    assert run.code == 1
    assert f"snapshot {only} is the first one" in run.err


def test_rollback_and_forward(versions: tuple[Path, list[str]]) -> None:
    root, ids = versions
    question = ("query", "Who signed?", "--method", "basic", "--root", root, "--json")
    done = invoke("snapshots", "rollback", ids[0], "--root", root, "--json").json
    assert done == {"published": ids[0], "before": ids[3]}
    assert manifest(root).id == ids[0]
    assert invoke(*question).json["snapshot"] == ids[0]
    assert invoke("snapshots", "rollback", ids[0], "--root", root).out.startswith(f"Snapshot {ids[0]} is the published")
    again = index(root)
    assert again["new_snapshot"]
    assert again["documents"] == {"added": 1, "edited": 1, "deleted": 1, "unchanged": 0, "rejected": 0}
    assert manifest(root).content_hash.startswith(ids[3].split("-")[1])


def test_prune(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, demo_texts(*FIRST), method="fast")
    ids = [index(root)["snapshot"]]
    for i in range(3):
        write_document(root, f"note-{i}.txt", f"Edda Lindrow wrote note {i} to Tobin Ashe in Skarne.")
        ids.append(index(root)["snapshot"])
    store = SnapshotStore(open_filesystem(str(root / "output")))
    assert invoke("snapshots", "prune", "--root", root).code == 2
    told = invoke("snapshots", "prune", "--keep", 2, "--dry-run", "--root", root, "--json").json
    assert told["snapshots"] == ids[:2]
    assert len(store.all()) == 4
    invoke("snapshots", "rollback", ids[0], "--root", root)
    before = {name: vector_hashes(root)[name] for name in vector_hashes(root)}
    done = invoke("snapshots", "prune", "--keep", 1, "--root", root, "--json").json
    assert done["snapshots"] == ids[1:3], "the published one stays, however old it is"
    assert done["bytes"] > 0
    assert [m.id for m in store.all()] == [ids[0], ids[3]]
    assert vector_hashes(root) == before
    for kept in (ids[0], ids[3]):
        answer = invoke("query", "Who wrote?", "--method", "local", "--snapshot", kept, "--root", root, "--json")
        assert answer.json["snapshot"] == kept
    gone = invoke("query", "Who wrote?", "--snapshot", ids[1], "--root", root)
    assert gone.code == 1
    assert ids[3] in gone.err
    assert (
        invoke("snapshots", "prune", "--keep", 1, "--older-than", 1, "--root", root, "--json").json["snapshots"] == []
    )
    assert index(root)["new_snapshot"]
    assert {m.id for m in store.all()} >= {ids[0], ids[3]}
