"""An index of our own leaves and comes back equal, and an imported one gives way only when asked to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.pipeline import workspaces

pytestmark = [pytest.mark.slow, pytest.mark.storage]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("indexed")
    shutil.copytree(workspaces.DEMO / "input" / "reports", root / "input")
    workspaces.make_workspace(root, {}, method="fast")
    workspaces.index(root)
    return root


def test_an_index_of_our_own_comes_back_equal(indexed: Path, tmp_path: Path) -> None:
    before = workspaces.manifest(indexed)
    assert workspaces.invoke("export", "--root", indexed, "--format", "graphrag", tmp_path / "out").code == 0
    back = workspaces.make_workspace(tmp_path / "back", {}, method="fast")
    report = workspaces.invoke("import", "--root", back, tmp_path / "out", "--json").json
    after = workspaces.manifest(back)
    assert {n: f.sha256 for n, f in after.tables.items()} == {n: f.sha256 for n, f in before.tables.items()}
    assert after.content_hash == before.content_hash
    assert {name for name, counts in report["vectors"].items() if counts["embedded"]} == set()
    assert after.info["method"] == "fast"


def test_index_replaces_an_imported_snapshot_only_when_asked_to(indexed: Path, tmp_path: Path) -> None:
    workspaces.invoke("export", "--root", indexed, "--format", "graphrag", tmp_path / "out")
    root = workspaces.make_workspace(tmp_path / "root", {"a.txt": "Ada Finch met Tom Finch."}, method="fast")
    workspaces.invoke("import", "--root", root, tmp_path / "out")
    imported = workspaces.manifest(root)
    refused = workspaces.invoke("index", "--root", root)
    assert refused.code == 1
    assert workspaces.manifest(root).id == imported.id
    (root / "input" / "a.txt").rename(root / "a.txt")
    emptied = workspaces.invoke("index", "--root", root, "--replace")
    assert emptied.code == 1
    assert "holds no files" in emptied.err
    assert workspaces.manifest(root).id == imported.id
    (root / "a.txt").rename(root / "input" / "a.txt")
    done = workspaces.invoke("index", "--root", root, "--replace", "--json").json
    assert done["new_snapshot"]
    assert done["documents"]["added"] == 1
    assert done["documents"]["deleted"] == 0
    assert workspaces.manifest(root).parent == imported.id
    assert workspaces.index(root)["up_to_date"]
    older = workspaces.invoke(
        "sql", "--root", root, "--snapshot", imported.id, "--json", "select count(*) from entities"
    )
    assert older.json["rows"] == [[imported.tables["entities"].rows]]
    refused = workspaces.invoke("import", "--root", root, tmp_path / "out")
    assert refused.code == 1
    assert "made by graphrag-assets index" in refused.err
