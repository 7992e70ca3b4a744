"""Importing an index of Microsoft GraphRAG: sound ones as they are, worn ones repaired and told, none with a crash."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from graphrag_assets.cli.main import main
from graphrag_assets.exchange.corpus import place
from graphrag_assets.exchange.values import strings
from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.query import Index, open_index
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from graphrag_assets.storage.vectors import open_vectors
from tests.published import HashEmbedder
from tests.unit.query_doubles import LETTER, MINUTES

pytestmark = pytest.mark.storage

Tables = dict[str, list[dict[str, Any]]]
TOKENS = tokenizer("o200k_base")


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> HashEmbedder:
    """The workspace's embedding model: quick, and the same everywhere."""
    double = HashEmbedder()
    monkeypatch.setattr("graphrag_assets.llm.embedding.models.embedder", lambda *_: double)
    return double


def sound() -> Tables:
    """A small index as version 3 writes it: two documents, four text units, four entities, two levels."""
    texts = {"letter.txt": LETTER, "minutes.txt": MINUTES}
    documents, units = [], []
    for i, (title, text) in enumerate(texts.items()):
        parts = text.split("\n\n")
        own = [f"u{len(units) + j}" for j in range(len(parts))]
        documents.append(
            {"id": f"d{i}", "human_readable_id": i, "title": title, "text": text, "text_unit_ids": own}
            | {"creation_date": "2025-01-01", "raw_data": None}
        )
        for name, part in zip(own, parts, strict=True):
            units.append(
                {"id": name, "human_readable_id": len(units), "text": f"title: {title}.\n{part}"}
                | {"n_tokens": TOKENS.count(part), "document_id": f"d{i}"}
            )
    named = {"TOM FINCH": ["u0", "u2"], "ADA FINCH": ["u0", "u3", "u0"], "MILL": ["u0", "u1"], "COUNCIL": ["u2"]}
    entities = [
        {
            "id": f"e{i}",
            "human_readable_id": i,
            "title": title,
            "type": "PERSON" if "FINCH" in title else "ORGANIZATION",
        }
        | {"description": f"{title} is told of.", "text_unit_ids": own, "frequency": len(own), "degree": 0}
        for i, (title, own) in enumerate(named.items())
    ]
    ends = [("ADA FINCH", "MILL"), ("TOM FINCH", "ADA FINCH"), ("ADA FINCH", "TOM FINCH"), ("TOM FINCH", "COUNCIL")]
    degree = {"ADA FINCH": 2, "TOM FINCH": 2, "MILL": 1, "COUNCIL": 1}
    for entity in entities:
        entity["degree"] = degree[str(entity["title"])]
    relationships = [
        {"id": f"r{i}", "human_readable_id": i, "source": a, "target": b, "description": f"{a} and {b}.", "weight": 2.0}
        | {"combined_degree": degree[a] + degree[b], "text_unit_ids": ["u0"]}
        for i, (a, b) in enumerate(ends)
    ]
    members = {0: (0, -1, [1, 2], [0, 1, 2, 3]), 1: (1, 0, [], [1, 2]), 2: (1, 0, [], [0, 3])}
    inside = {0: ["r0", "r1", "r2", "r3"], 1: ["r0"], 2: ["r3"]}
    communities = [
        {"id": f"c{n}", "human_readable_id": n, "community": n, "level": level, "parent": parent, "children": children}
        | {"title": f"Community {n}", "entity_ids": [f"e{i}" for i in own], "relationship_ids": inside[n]}
        | {"text_unit_ids": ["u0"], "period": "2025-01-01", "size": len(own)}
        for n, (level, parent, children, own) in members.items()
    ]
    reports = [
        {
            "id": f"p{c['community']}",
            **{k: c[k] for k in ("human_readable_id", "community", "level", "parent", "children")},
        }
        | {
            "title": f"Report {c['community']}",
            "summary": "On the mill.",
            "full_content": "# R\n\nThe mill [Data: Entities (2)].",
        }
        | {"rank": 7.5, "rating_explanation": "", "findings": [{"explanation": "It had looms.", "summary": "The mill"}]}
        | {"full_content_json": "{}", "period": c["period"], "size": c["size"]}
        for c in sorted(communities, key=lambda c: (-int(str(c["level"])), c["community"]))
    ]
    claims = [
        {
            "id": "k0",
            "human_readable_id": 0,
            "covariate_type": "claim",
            "type": "LOAN",
            "description": "Tom asked for a loan.",
        }
        | {"subject_id": "TOM FINCH", "object_id": "COUNCIL", "status": "TRUE", "start_date": "1935-05-03"}
        | {"end_date": "NONE", "source_text": "Tom Finch asked for a loan", "text_unit_id": "u2"}
    ]
    return {
        "documents": documents,
        "text_units": units,
        "entities": entities,
        "relationships": relationships,
        "communities": communities,
        "community_reports": reports,
        "covariates": claims,
    }


def write(folder: Path, tables: Tables, prefix: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{prefix}{name}.parquet")
    return folder


def run(root: Path, command: str, *arguments: object) -> Result:
    root.mkdir(exist_ok=True)
    settings = root / "settings.yaml"
    if not settings.exists():
        settings.write_text("{}", encoding="utf-8")
    done = CliRunner().invoke(main, [command, "--root", str(root), *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def imported(tmp_path: Path, tables: Tables, *arguments: str) -> tuple[dict[str, Any], Index]:
    """Import tables; returns the report and the open snapshot."""
    done = run(tmp_path / "root", "import", write(tmp_path / "source", tables), "--json", *arguments)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), open_index(str(tmp_path / "root" / "output"))


def kinds(report: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {(f["table"], f["kind"]): f["count"] for f in report["findings"]}


def test_a_sound_index_keeps_ids_numbers_and_rows(tmp_path: Path) -> None:
    tables = sound()
    report, index = imported(tmp_path, copy.deepcopy(tables))
    # repeated mentions are counted once, and a pair of entities has a row for each direction: both are told
    assert kinds(report) == {("entities", "frequency"): 1, ("relationships", "check"): 1}
    for name, rows in tables.items():
        order = "-level, community" if name == "community_reports" else "human_readable_id"
        read = index.rows(f"select id, human_readable_id from {name} order by {order}")
        assert read == [{"id": r["id"], "human_readable_id": r["human_readable_id"]} for r in rows]
    spans = 'select t.*, substr(d.text, t.start + 1, t."end" - t.start) as passage from text_units t, documents d'
    for unit in index.rows(f"{spans} where d.id = document_id"):
        assert unit["text"].endswith(unit["passage"])
        assert unit["text"].startswith("title: ")
        assert unit["passage"] in (LETTER + "\n" + MINUTES)
    assert index.rows("select entity_ids, covariate_ids from text_units where id = 'u2'") == [
        {"entity_ids": ["e0", "e3"], "covariate_ids": ["k0"]}
    ]
    assert index.rows("select children from communities where community = 0") == [{"children": [1, 2]}]
    assert {v.rows for v in index.manifest.vectors.values()} == {3, 4}


Wear = Callable[[Tables], None]


def _set(table: str, row: int, **cells: Any) -> Wear:
    return lambda tables: tables[table][row].update(cells)


def _drop(table: str, column: str) -> Wear:
    def wear(tables: Tables) -> None:
        for row in tables[table]:
            row.pop(column)

    return wear


def _remove(table: str, *rows: int) -> Wear:
    def wear(tables: Tables) -> None:
        tables[table] = [row for i, row in enumerate(tables[table]) if i not in rows]

    return wear


def _repeat(table: str, row: int, **cells: Any) -> Wear:
    return lambda tables: tables[table].append(tables[table][row] | cells)


WORN: list[tuple[Wear, str, str]] = [
    (lambda t: t.pop("documents"), "documents", "missing_table"),
    (lambda t: t.pop("communities"), "communities", "missing_table"),
    (lambda t: t.pop("community_reports"), "community_reports", "missing_table"),
    (_drop("entities", "text_unit_ids"), "entities", "missing_column"),
    (_drop("relationships", "weight"), "relationships", "missing_column"),
    (_drop("entities", "id"), "entities", "missing_id"),
    (_drop("text_units", "n_tokens"), "text_units", "no_tokens"),
    (_remove("documents", 1), "documents", "document_rebuilt"),
    (_set("documents", 0, text=None), "documents", "document_rebuilt"),
    (_set("text_units", 1, text="Words that stand nowhere."), "text_units", "place_unknown"),
    (_set("text_units", 1, text="  "), "text_units", "empty_text_unit"),
    (_repeat("text_units", 0), "text_units", "duplicate_row"),
    (_repeat("text_units", 0, text="Ada Finch bought the mill"), "text_units", "duplicate_id"),
    (_set("entities", 1, human_readable_id=0), "entities", "renumbered"),
    (_set("entities", 1, title="TOM FINCH"), "entities", "duplicate_title"),
    (_set("entities", 1, title=None), "entities", "empty_title"),
    (_set("entities", 1, text_unit_ids=["u0", "gone"]), "entities", "unknown_text_unit"),
    (_set("entities", 1, text_unit_ids=None), "entities", "no_text_unit"),
    (_set("entities", 1, degree=77), "entities", "degree"),
    (_set("relationships", 0, target="NOBODY"), "entities", "entity_added"),
    (_set("relationships", 0, target=' "mill"'), "relationships", "end_renamed"),
    (_set("relationships", 0, target=None), "relationships", "empty_end"),
    (_set("relationships", 0, target="ADA FINCH"), "relationships", "self_relationship"),
    (_set("relationships", 2, source="TOM FINCH", target="ADA FINCH"), "relationships", "duplicate_relationship"),
    (_set("relationships", 0, weight=math.nan), "relationships", "weight"),
    (_set("relationships", 0, weight=-0.5), "relationships", "weight"),
    (_set("covariates", 0, text_unit_id="gone"), "covariates", "claim_text_unit"),
    (_set("covariates", 0, subject_id="NOBODY"), "covariates", "claim_subject"),
    (_set("covariates", 0, subject_id="tom finch"), "covariates", "claim_renamed"),
    (_set("covariates", 0, description=None), "covariates", "claim_incomplete"),
    (_set("communities", 1, entity_ids=["e1", "gone"]), "communities", "unknown_member"),
    (_set("communities", 1, entity_ids=None), "communities", "no_members"),
    (_set("communities", 1, community=0), "communities", "community_number"),
    (_set("communities", 1, level=None), "communities", "community_number"),
    (_set("communities", 1, parent=9), "communities", "parent"),
    (_set("communities", 1, parent=9, entity_ids=[]), "communities", "no_parent"),
    (_set("communities", 0, children=[1]), "communities", "children"),
    (_set("communities", 1, relationship_ids=["r3"]), "communities", "inner_relationships"),
    (_set("community_reports", 0, community=9), "community_reports", "report_without_community"),
    (_set("community_reports", 0, full_content=None, summary=None), "community_reports", "report_missing"),
    (_remove("community_reports", 0), "community_reports", "report_missing"),
    (_repeat("community_reports", 0), "community_reports", "duplicate_report"),
    (_set("community_reports", 0, rank=math.nan), "community_reports", "rank"),
    (_set("community_reports", 0, rank=11.0), "community_reports", "rank"),
    (_set("community_reports", 0, full_content="Yes [Data: Claims (99)]."), "community_reports", "report_citation"),
]


@pytest.mark.parametrize(("wear", "table", "kind"), WORN, ids=[f"{t}-{k}-{i}" for i, (_, t, k) in enumerate(WORN)])
def test_what_is_worn_is_repaired_or_told(tmp_path: Path, wear: Wear, table: str, kind: str) -> None:
    tables = sound()
    wear(tables)
    report, index = imported(tmp_path, tables)
    found = kinds(report)
    assert found[table, kind] >= 1
    rows = index.rows(
        "select count(*) as n from rejected_inputs where file = ? and reason = ?", [f"{table}.parquet", kind]
    )
    assert rows[0]["n"] >= 1
    assert {f["table"] for f in report["findings"]} <= {*sound()}


def test_entities_that_only_relationships_name_are_added(tmp_path: Path) -> None:
    tables = sound()
    tables["relationships"][0]["target"] = "NOBODY"
    _, index = imported(tmp_path, tables)
    assert index.rows(
        "select human_readable_id as n, title, degree, text_unit_ids from entities where title = 'NOBODY'"
    ) == [{"n": 4, "title": "NOBODY", "degree": 1, "text_unit_ids": ["u0"]}]
    assert index.rows("select count(*) as n from relationships") == [{"n": 4}]


def test_a_merged_title_keeps_what_both_rows_say(tmp_path: Path) -> None:
    tables = sound()
    tables["entities"][1] |= {"title": "TOM FINCH", "type": "FARMER"}
    _, index = imported(tmp_path, tables)
    (row,) = index.rows("select * from entities where title = 'TOM FINCH'")
    assert row["id"] == "e0"
    assert row["text_unit_ids"] == ["u0", "u2", "u3"]
    assert row["descriptions"] == ["ADA FINCH is told of.", "TOM FINCH is told of."]
    assert [vote["type"] for vote in row["types"]] == ["PERSON", "FARMER"]
    assert index.rows("select entity_ids from communities where community = 1") == [{"entity_ids": ["e0", "e2"]}]


def test_titles_in_small_letters_are_found_by_questions(tmp_path: Path) -> None:
    tables = sound()
    tables["entities"][2]["title"] = "the Mill"
    for relationship in tables["relationships"]:
        relationship["target"] = relationship["target"].replace("MILL", "the Mill")
    _, index = imported(tmp_path, tables)
    from graphrag_assets.query.entities import mentions

    assert [m.entity.title for m in mentions(index, "Who bought The Mill?")] == ["the Mill"]


def test_text_units_in_version_2_and_numpy_lists(tmp_path: Path) -> None:
    tables = sound()
    for unit in tables["text_units"]:
        unit["document_ids"] = [unit.pop("document_id")]
    for document in tables["documents"]:
        document["metadata"] = {"author": "Ada", "year": 1934}
        document.pop("raw_data")
    report, index = imported(tmp_path, tables)
    assert report["version"] == "2"
    assert index.rows("select distinct raw_data from documents") == [{"raw_data": '{"author": "Ada", "year": 1934}'}]
    assert index.rows("select document_id from text_units where id = 'u3'") == [{"document_id": "d1"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array(["a", "b", "a"], dtype=object), ["a", "b"]),
        (("a", None, math.nan), ["a"]),
        (None, []),
        ("a", ["a"]),
        ("['a', 'b']", ["a", "b"]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),
        ('["a", "b"]', ["a", "b"]),
        ("[a, b]", ["a", "b"]),
        ("[]", []),
        ("['a']", ["a"]),
    ],
)
def test_lists_in_all_their_forms(value: Any, expected: list[str]) -> None:
    assert strings(value) == expected


def test_an_index_without_rows(tmp_path: Path) -> None:
    empty = {name: rows[:0] for name, rows in sound().items() if name in ("text_units", "entities", "relationships")}
    report, index = imported(tmp_path, empty)
    assert report["tables"]["entities"] == 0
    assert index.manifest.vectors["entity_description"].dimension == HashEmbedder.dimension


def test_text_units_of_which_none_can_be_used_are_refused(tmp_path: Path) -> None:
    tables = sound() | {"text_units": [{"chunk": "A text in a column of another name."}]}
    done = run(tmp_path / "root", "import", write(tmp_path / "source", tables), "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["error"]["type"] == "exchange"
    assert "none of the 1 rows of the text units" in done.stderr
    assert "found the columns chunk" in done.stderr
    assert SnapshotStore(open_filesystem(str(tmp_path / "root" / "output"))).current() is None


def test_vectors_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    source = write(tmp_path / "source", sound())
    (source / "embeddings.entity_description.parquet").write_bytes(b"x")
    done = run(tmp_path / "root", "import", source, "--vectors", "keep")
    assert done.exit_code == 1
    assert "--vectors embed" in done.stderr
    assert run(tmp_path / "root", "import", source, "--vectors", "embed").exit_code == 0


@pytest.mark.parametrize(
    ("document", "unit", "expected"),
    [
        ("one two three", "two", (4, 7, "two")),
        ("one two three", "title: a.\ntwo", (4, 7, "title: a.\ntwo")),
        ("水の中の魚", "の中\ufffd", (1, 3, "の中")),
        ("水の中の魚", "title: a.\n\ufffdの中\ufffd", (1, 3, "title: a.\nの中")),
        ("aaa bbb aaa", "aaa", (8, 11, "aaa")),
        ("one", "two", (0, 0, "two")),
    ],
)
def test_places_of_text_units(document: str, unit: str, expected: tuple[int, int, str]) -> None:
    assert place(document, unit, 1) == expected


@pytest.mark.local_disk
def test_any_wear_is_survived(tmp_path: Path, embedder: HashEmbedder) -> None:
    """Random damage to cells, rows and columns never ends in a crash, nor in a snapshot that fails the checks."""
    random_ = random.Random(20)
    junk: list[Any] = [None, "", "nan", "  "]
    for round_ in range(60):
        tables = sound()
        for _ in range(random_.randint(1, 12)):
            rows = tables[random_.choice(list(tables))]
            if not rows:
                continue
            column = random_.choice(list(rows[0]))
            row = random_.choice(rows)
            match random_.randint(0, 4):
                case 0:
                    row[column] = random_.choice(junk) if isinstance(row.get(column), str) else None
                case 1:
                    rows.append(dict(row))
                case 2:
                    rows.remove(row)
                case 3:
                    row[column] = copy.deepcopy(random_.choice(rows).get(column))
                case 4:
                    random_.shuffle(rows)
        tables = {name: rows for name, rows in tables.items() if rows}
        source = write(tmp_path / f"s{round_}", tables)
        if not {"text_units", "entities", "relationships"} <= tables.keys():
            continue
        done = run(tmp_path / f"r{round_}", "import", source, "--json")
        assert done.exit_code == 0, done.stderr


def write_lancedb(folder: Path, names: dict[str, str], dimension: int, tables: Tables) -> dict[str, np.ndarray]:
    import lancedb

    database = lancedb.connect(str(folder))
    kept = {}
    for table, name in names.items():
        vectors = np.random.default_rng(len(name)).normal(size=(len(tables[table]), dimension)).astype(np.float32)
        rows = [{"id": r["id"], "vector": v.tolist()} for r, v in zip(tables[table], vectors, strict=True)]
        database.create_table(name, rows)
        kept[table] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return kept


@pytest.mark.parametrize(
    "names",
    [
        {
            "text_units": "text_unit_text",
            "entities": "entity_description",
            "community_reports": "community_full_content",
        },
        {
            "text_units": "default-text_unit-text",
            "entities": "default-entity-description",
            "community_reports": "default-community-full_content",
        },
    ],
)
def test_vectors_are_kept_on_the_callers_word(tmp_path: Path, names: dict[str, str]) -> None:
    tables = sound()
    kept = write_lancedb(tmp_path / "source" / "lancedb", names, 64, tables)
    report, index = imported(tmp_path, tables, "--vectors", "keep")
    assert report["vectors"]["entity_description"] == {"kept": 4, "embedded": 0}
    table = index.manifest.vectors["entity_description"]
    read = open_vectors(index.filesystem, table).search().limit(None).to_arrow().sort_by("id")
    assert np.allclose(np.array(read["vector"].to_pylist()), kept["entities"], atol=1e-6)
    assert table.model == HashEmbedder.model


def test_vectors_of_a_model_that_is_not_named_are_made_anew(tmp_path: Path) -> None:
    tables = sound()
    write_lancedb(tmp_path / "source" / "lancedb", {"entities": "entity_description"}, 64, tables)
    report, _ = imported(tmp_path, tables)
    assert report["vectors"]["entity_description"] == {"kept": 0, "embedded": 4}


def test_vectors_of_the_model_that_both_settings_name_are_kept(tmp_path: Path) -> None:
    tables = sound()
    source = write(tmp_path / "source" / "output", tables).parent
    model = {
        "model_provider": "openai",
        "model": "text-embedding-3-small",
        "api_key": "k",
        "call_args": {"dimensions": 64},
    }
    settings = {"embedding_models": {"default_embedding_model": model}}
    (source / "settings.yaml").write_text(json.dumps(settings), encoding="utf-8")
    rows = [{"id": e["id"], "embedding": [1.0] * 64} for e in tables["entities"][:3]] + [
        {"id": "gone", "embedding": [1.0] * 64}
    ]
    rows[1]["embedding"] = [0.0] * 64
    pq.write_table(pa.Table.from_pylist(rows), source / "output" / "embeddings.entity_description.parquet")
    root = tmp_path / "root"
    root.mkdir()
    (root / "settings.yaml").write_text(json.dumps(settings), encoding="utf-8")
    report = json.loads(run(root, "import", source, "--json").stdout)
    assert report["vectors"]["entity_description"] == {"kept": 2, "embedded": 2}
    found = kinds(report)
    assert found["entities", "vector_unknown"] == found["entities", "vector_unusable"] == 1
    assert found["entities", "vector_missing"] == 2


def test_vectors_of_another_length_are_refused(tmp_path: Path) -> None:
    tables = sound()
    write_lancedb(tmp_path / "source" / "lancedb", {"entities": "entity_description"}, 32, tables)
    done = run(tmp_path / "root", "import", write(tmp_path / "source", tables), "--vectors", "keep")
    assert done.exit_code == 1
    assert "32 dimensions" in done.stderr
    assert "--vectors embed" in done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A workspace with an imported snapshot."""
    run(tmp_path / "root", "import", write(tmp_path / "source", sound()))
    return tmp_path / "root"


def test_an_imported_snapshot_is_not_replaced_unasked(root: Path, tmp_path: Path) -> None:
    (root / "input").mkdir()
    (root / "input" / "a.txt").write_text("Ada Finch met Tom Finch in Brook End.", encoding="utf-8")
    refused = run(root, "index")
    assert refused.exit_code == 1
    assert "--replace" in refused.stderr
    again = run(root, "import", tmp_path / "source")
    assert again.exit_code == 1
    assert "--replace" in again.stderr
    same = run(root, "import", tmp_path / "source", "--replace", "--json")
    assert json.loads(same.stdout)["new_snapshot"] is False


def test_status_says_that_it_was_imported(root: Path, tmp_path: Path) -> None:
    (root / "input").mkdir()
    told = run(root, "status").stdout
    assert f"imported from {tmp_path / 'source'}" in told
    assert "index --replace" in told
    assert "the frequency was not the number" in told
    report = json.loads(run(root, "status", "--json").stdout)
    assert report["published"]["imported"]["version"] == "3"
    assert report["published"]["import_findings"]
    assert report["settings_changed"] == {}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "it holds nothing"),
        ({"text_units.csv": b"id"}, "tables as CSV"),
        ({"text_units.parquet": b"x", "entities.parquet": b"x"}, "relationships.parquet is missing"),
        ({f"{n}.parquet": b"x" for n in ("text_units", "entities", "relationships")}, "cannot be read as Parquet"),
    ],
)
def test_what_is_no_index_is_refused(tmp_path: Path, files: dict[str, bytes], told: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name, data in files.items():
        (source / name).write_bytes(data)
    done = run(tmp_path / "root", "import", source, "--json")
    assert done.exit_code == 1
    assert told in done.stderr
    assert json.loads(done.stdout)["error"]["type"] == "exchange"
    assert SnapshotStore(open_filesystem(str(tmp_path / "root" / "output"))).current() is None


@pytest.mark.parametrize("name", ["index-carol-msft", "index-dulce-msft/current", "index-dulce-msft/legacy-v0.3"])
def test_finished_indexes(tmp_path: Path, shared: Path, name: str) -> None:
    source = shared / "data" / name
    done = run(tmp_path / "root", "import", source, "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    prefix = "create_final_" if "legacy" in name else ""
    with open_index(str(tmp_path / "root" / "output")) as index:
        for table in ("text_units", "relationships", "covariates", "communities"):
            theirs = pq.read_table(source / f"{prefix}{table}.parquet", columns=["id"])
            assert index.count(table) == theirs.num_rows
            if not (prefix and table == "communities"):
                assert {r["id"] for r in index.rows(f"select id from {table}")} == set(theirs["id"].to_pylist())
        assert index.rows('select count(*) as n from text_units where "end" = 0') == [{"n": 0}]
    added = kinds(report).get(("entities", "entity_added"), 0)
    assert added == {"index-carol-msft": 32, "index-dulce-msft/current": 2}.get(name, 0)
