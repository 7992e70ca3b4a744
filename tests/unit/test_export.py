"""Exporting a snapshot: what was exported comes back equal, and graph tools get the whole graph."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import networkx as nx
import pyarrow.parquet as pq
import pytest

from graphrag_assets.query import open_index
from graphrag_assets.storage.snapshots import Manifest
from tests.published import HashEmbedder
from tests.unit.test_import import run, sound, write

pytestmark = pytest.mark.storage


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphrag_assets.llm.embedding.models.embedder", lambda *_: HashEmbedder())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a snapshot: imported, with an entity that was added and one in no community."""
    tables = sound()
    tables["relationships"][0] |= {"target": "NOBODY", "description": 'Said: "buy", or\nclose;\x0b done'}
    tables["entities"][0]["title"] = "TOM & <FINCH>"
    done = run(tmp_path / "root", "import", write(tmp_path / "source", tables))
    assert done.exit_code == 0, done.stderr
    return tmp_path / "root"


def manifest(root: Path) -> Manifest:
    with open_index(str(root / "output")) as index:
        return index.manifest


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def exported(root: Path, form: str, *arguments: str) -> Path:
    target = root.parent / "made" / form
    done = run(root, "export", "--format", form, target, "--json", *arguments)
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert all((target / file).exists() for file in report["files"])
    return target


def assert_comes_back_equal(root: Path) -> None:
    """Tables, ids and vectors of an export that is imported again are those of the snapshot."""
    target = exported(root, "graphrag")
    report = json.loads(run(root.parent / "back", "import", target, "--json").stdout)
    assert {name for name, counts in report["vectors"].items() if counts["embedded"]} == set()
    before, after = manifest(root), manifest(root.parent / "back")
    assert {n: f.sha256 for n, f in after.tables.items()} == {n: f.sha256 for n, f in before.tables.items()}
    assert {n: v.sha256 for n, v in after.vectors.items()} == {n: v.sha256 for n, v in before.vectors.items()}
    assert after.content_hash == before.content_hash
    assert after.info["method"] == before.info["method"]


def test_an_imported_snapshot_comes_back_equal(root: Path) -> None:
    assert_comes_back_equal(root)


@pytest.mark.parametrize("name", ["index-carol-msft", "index-dulce-msft/current", "index-dulce-msft/legacy-v0.3"])
def test_finished_indexes_come_back_equal(tmp_path: Path, shared: Path, name: str) -> None:
    assert run(tmp_path / "root", "import", shared / "data" / name).exit_code == 0
    assert_comes_back_equal(tmp_path / "root")


def test_the_export_holds_the_vectors_in_both_forms(root: Path) -> None:
    import lancedb

    output = exported(root, "graphrag") / "output"
    database = lancedb.connect(str(output / "lancedb"))
    for name, table in {"text_unit_text": 4, "entity_description": 6, "community_full_content": 3}.items():
        rows = {r["id"]: r["vector"] for r in database.open_table(name).to_arrow().to_pylist()}
        files = {r["id"]: r["embedding"] for r in pq.read_table(output / f"embeddings.{name}.parquet").to_pylist()}
        assert rows == files
        assert len(rows) == table


def test_graphml_holds_every_node_and_edge(root: Path) -> None:
    graph = nx.read_graphml(exported(root, "graphml") / "graph.graphml")
    assert set(graph) == {"TOM & <FINCH>", "ADA FINCH", "MILL", "COUNCIL", "NOBODY", "TOM FINCH"}
    assert graph.nodes["ADA FINCH"]["community_1"] == 1
    assert "community_0" not in graph.nodes["NOBODY"]
    assert graph.edges["ADA FINCH", "NOBODY"]["weight"] == 2.0
    assert graph.edges["ADA FINCH", "NOBODY"]["description"] == 'Said: "buy", or\nclose; done'


def test_csv_for_gephi(root: Path) -> None:
    target = exported(root, "csv")
    nodes, edges = read_csv(target / "nodes.csv"), read_csv(target / "edges.csv")
    label = {node["Id"]: node["Label"] for node in nodes}
    assert len(nodes) == 6
    assert {(label[e["Source"]], label[e["Target"]]) for e in edges} >= {
        ("ADA FINCH", "NOBODY"),
        ("TOM FINCH", "COUNCIL"),
    }
    assert {edge["Type"] for edge in edges} == {"Directed"}
    assert edges[0]["Label"] == 'Said: "buy", or\nclose;\x0b done'


def test_neo4j_files_fit_together(root: Path) -> None:
    target = exported(root, "neo4j")
    command = (target / "README.md").read_text(encoding="utf-8")
    ids: dict[str, set[str]] = {}
    for file in target.glob("*.csv"):
        rows = read_csv(file)
        head = next(iter(rows)).keys()
        own = next((name for name in head if name.startswith("id:ID")), None)
        assert f"={file.name}" in command
        if own:
            label = own[6:-1]
            ids[label] = {row[own] for row in rows}
            assert len(ids[label]) == len(rows)
            assert {row[":LABEL"] for row in rows} == {label}
    for file in target.glob("*.csv"):
        for row in read_csv(file):
            for name, value in row.items():
                if name.startswith((":START_ID", ":END_ID")):
                    assert value in ids[name[name.index("(") + 1 : -1]], (file.name, row)
    assert len(read_csv(target / "mentions.csv")) == 9


def test_nothing_is_overwritten(root: Path) -> None:
    target = root.parent / "full"
    target.mkdir()
    (target / "mine.txt").write_text("mine", encoding="utf-8")
    done = run(root, "export", "--format", "csv", target, "--json")
    assert done.exit_code == 1
    assert "not an empty folder" in done.stderr
    assert [p.name for p in target.iterdir()] == ["mine.txt"]
    assert run(root, "export", "--format", "csv", root.parent / "empty").exit_code == 0


def test_an_older_snapshot_is_exported(root: Path, tmp_path: Path) -> None:
    first = manifest(root).id
    assert run(root, "import", write(tmp_path / "other", sound()), "--replace").exit_code == 0
    assert manifest(root).id != first
    old = exported(root, "graphml", "--snapshot", first)
    assert "NOBODY" in nx.read_graphml(old / "graph.graphml")


def test_nothing_published(tmp_path: Path) -> None:
    done = run(tmp_path / "root", "export", "--format", "csv", tmp_path / "out")
    assert done.exit_code == 1
    assert "nothing is published" in done.stderr
    assert not (tmp_path / "out").exists()
