"""Checks before publishing: a good snapshot passes all of them, and each finds what is broken in its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from graphrag_assets import ids
from graphrag_assets.indexing.graph import merge_graph
from graphrag_assets.indexing.links import link_covariates, text_unit_links
from graphrag_assets.indexing.look_ups import look_up_tables
from graphrag_assets.indexing.validation import CHECKS, Violation
from graphrag_assets.settings import CheckSettings
from graphrag_assets.storage import tables as contracts

Tables = dict[str, pa.Table]
Vectors = dict[str, list[str]]


@pytest.fixture
def snapshot() -> tuple[Tables, Vectors]:
    """Two documents, three text units, six entities in two components and one alone, two levels of communities."""
    texts = {"a.txt": "Anna met Bert. Carl left.", "b.txt": "Dora paid Emil. Finn slept."}
    spans = {"a.txt": [(0, 14), (15, 25)], "b.txt": [(0, 27)]}
    documents, units = [], []
    for path, text in texts.items():
        document = ids.document_id(path)
        unit_ids = []
        for position, (start, end) in enumerate(spans[path]):
            unit = ids.text_unit_id(document, text[start:end], 0)
            unit_ids.append(unit)
            units.append(
                {
                    "id": unit,
                    "text": f"title: {path}\n{text[start:end]}",
                    "n_tokens": 5,
                    "document_id": document,
                    "position": position,
                    "start": start,
                    "end": end,
                }
                | {"human_readable_id": len(units), "status": "ok", "reason": ""}
            )
        documents.append(
            {
                "id": document,
                "human_readable_id": len(documents),
                "title": path,
                "text": text,
                "text_unit_ids": unit_ids,
                "creation_date": "",
                "path": path,
            }
            | {"raw_data": None, "content_hash": "h", "language": "en"}
        )
    u0, u1, u2 = (u["id"] for u in units)
    order = pa.table({"text_unit_id": [u0, u1, u2], "order": [0, 1, 2]})
    entities = contracts.EXTRACTED_ENTITIES.from_rows(
        [
            {"text_unit_id": u, "title": t, "name": t, "type": "PERSON", "description": "A person.", "mentions": 1}
            for u, t in [
                (u0, "ANNA"),
                (u0, "BERT"),
                (u1, "CARL"),
                (u1, "ANNA"),
                (u2, "DORA"),
                (u2, "EMIL"),
                (u2, "FINN"),
                (u2, "MR. FINN"),
            ]
        ]
    )
    relationships = contracts.EXTRACTED_RELATIONSHIPS.from_rows(
        [
            {"text_unit_id": u, "source": s, "target": t, "description": "", "weight": w}
            for u, s, t, w in [
                (u0, "ANNA", "BERT", 2.0),
                (u1, "CARL", "ANNA", 1.0),
                (u1, "CARL", "BERT", 1.0),
                (u2, "DORA", "EMIL", 3.0),
            ]
        ]
    )
    merged = merge_graph(entities, relationships, order, {"MR. FINN": "FINN"})
    claim = {
        "text_unit_id": u2,
        "subject": "DORA",
        "object": "EMIL",
        "type": "PAYMENT",
        "status": "TRUE",
        "start_date": "NONE",
        "end_date": "NONE",
    }
    claims = link_covariates(
        contracts.EXTRACTED_CLAIMS.from_rows(
            [claim | {"description": "d", "source_text": "s"}, claim | {"description": "e", "source_text": "s"}]
        ),
        order,
    )
    graph = {
        "entities": merged.entities.drop_columns(["needs_summary"]),
        "relationships": merged.relationships.drop_columns(["needs_summary"]),
    }
    links = text_unit_links(order, graph["entities"], graph["relationships"], claims)
    for unit, row in zip(units, links.to_pylist(), strict=True):
        unit |= {k: v for k, v in row.items() if k != "text_unit_id"}
    communities = [
        _community(graph, 0, 0, -1, [2, 3], ["ANNA", "BERT", "CARL"]),
        _community(graph, 1, 0, -1, [], ["DORA", "EMIL"]),
        _community(graph, 2, 1, 0, [], ["ANNA", "BERT"]),
        _community(graph, 3, 1, 0, [], ["CARL"]),
    ]
    report = {
        "title": "T",
        "summary": "s",
        "full_content": "# T",
        "rank": 5.0,
        "rating_explanation": "",
        "findings": [],
        "full_content_json": "{}",
    }
    report |= {"period": "", "status": "ok", "reason": "", "extractive": True, "input_hash": "h"}
    reports = [
        report
        | {k: c[k] for k in ("community", "human_readable_id", "level", "parent", "children", "size")}
        | {"id": ids.report_id(c["id"], "h")}
        for c in communities
    ]
    alias = {
        "alias": "MR. FINN",
        "title": "FINN",
        "decision": "merged",
        "method": "honorific",
        "score": 0.93,
        "evidence": "same but for MR",
    }
    tables: Tables = {
        "documents": contracts.DOCUMENTS.from_rows(documents),
        "text_units": contracts.TEXT_UNITS.from_rows(units),
        **graph,
        "covariates": claims,
        "communities": contracts.COMMUNITIES.from_rows(communities),
        "community_reports": contracts.COMMUNITY_REPORTS.from_rows(
            sorted(reports, key=lambda r: (-r["level"], r["community"]))
        ),
        "entity_aliases": contracts.ENTITY_ALIASES.from_rows([alias]),
        "rejected_inputs": contracts.REJECTED_INPUTS.empty(),
    }
    tables |= look_up_tables(tables)
    tables = {t.name: t.conform(tables[t.name]) for t in contracts.PUBLISHED}
    vectors = {
        "text_unit_text": tables["text_units"]["id"].to_pylist(),
        "entity_description": tables["entities"]["id"].to_pylist()[::-1],
        "community_full_content": tables["community_reports"]["id"].to_pylist(),
    }
    return tables, vectors


def _community(
    graph: Tables, number: int, level: int, parent: int, children: list[int], titles: list[str]
) -> dict[str, Any]:
    rows = [r for r in graph["entities"].to_pylist() if r["title"] in titles]
    inside = [r for r in graph["relationships"].to_pylist() if r["source"] in titles and r["target"] in titles]
    members = [r["id"] for r in rows]
    return {
        "id": ids.community_id(level, members),
        "human_readable_id": number,
        "community": number,
        "level": level,
        "parent": parent,
        "children": children,
        "title": f"Community {number}",
        "entity_ids": members,
        "relationship_ids": sorted(r["id"] for r in inside),
        "text_unit_ids": sorted({u for r in rows + inside for u in r["text_unit_ids"]}),
        "period": "",
        "size": len(members),
    }


def run(tables: Tables, vectors: Vectors, *names: str, **limits: float) -> dict[str, list[Violation]]:
    return {c.name: c.run(tables, vectors, CheckSettings(**limits)) for c in CHECKS if not names or c.name in names}


def test_a_good_snapshot_passes(snapshot: tuple[Tables, Vectors]) -> None:
    assert {name: [str(v) for v in found] for name, found in run(*snapshot).items() if found} == {}


def test_an_empty_snapshot_passes() -> None:
    tables = {t.name: t.empty() for t in contracts.PUBLISHED}
    assert {name: [str(v) for v in found] for name, found in run(tables, {}).items() if found} == {}


def test_check_names_are_unique_and_tables_exist() -> None:
    names = [c.name for c in CHECKS]
    assert len(set(names)) == len(names)
    published = {t.name for t in contracts.PUBLISHED}
    assert all(set(c.tables) <= published and c.description.endswith(".") for c in CHECKS)
    assert {c.name for c in CHECKS if not c.blocking} == {"empty_text_units"}


Change = Callable[[list[dict[str, Any]]], object]


def put(column: str, value: Any, row: int = 0) -> Change:
    return lambda rows: rows[row].__setitem__(column, value)


def item(column: str, value: Any, row: int = 0) -> Change:
    return lambda rows: rows[row].__setitem__(column, [*rows[row][column], value])


def drop(row: int) -> Change:
    return lambda rows: rows.pop(row)


def cut(column: str, row: int = 0) -> Change:
    return lambda rows: rows[row].__setitem__(column, rows[row][column][1:])


def swap(column: str, row: int = 0) -> Change:
    return lambda rows: rows[row].__setitem__(column, rows[row][column][::-1])


def same(column: str, row: int = 1, of: int = 0) -> Change:
    return lambda rows: rows[row].__setitem__(column, rows[of][column])


BROKEN: list[tuple[str, str, Change]] = [
    ("unique_ids", "entities", same("id")),
    ("unique_ids", "text_units", same("human_readable_id")),
    ("unique_ids", "community_reports", same("id")),
    ("positions", "relationships", put("human_readable_id", 7)),
    ("positions", "communities", put("human_readable_id", 7)),
    ("canonical_order", "documents", put("path", "z.txt")),
    ("canonical_order", "text_units", put("position", 5)),
    ("canonical_order", "entities", put("title", "ZOE")),
    ("canonical_order", "relationships", put("source", "ZOE")),
    ("canonical_order", "covariates", put("subject_id", "ZOE")),
    ("canonical_order", "community_reports", lambda rows: rows.reverse()),
    ("documents_and_text_units", "documents", cut("text_unit_ids")),
    ("documents_and_text_units", "documents", swap("text_unit_ids")),
    ("documents_and_text_units", "text_units", same("document_id", 2)),
    ("documents_and_text_units", "text_units", put("position", 3, 1)),
    ("spans", "text_units", put("start", 1)),
    ("spans", "text_units", put("end", 26, 1)),
    ("spans", "text_units", put("start", -1)),
    ("spans", "text_units", put("end", 0)),
    ("spans", "documents", put("text", "Ünna met Bert. Carl left.")),
    ("text_unit_status", "text_units", put("status", "")),
    ("text_unit_status", "text_units", put("status", "failed")),
    ("failed_text_units", "text_units", lambda rows: rows[0].update(status="refused", reason="r")),
    ("empty_text_units", "text_units", lambda rows: [row.update(status="empty") for row in rows]),
    ("references", "documents", item("text_unit_ids", "gone")),
    ("references", "text_units", item("entity_ids", "gone")),
    ("references", "text_units", item("covariate_ids", "gone")),
    ("references", "text_units", put("document_id", "gone")),
    ("references", "entities", item("text_unit_ids", "gone")),
    ("references", "relationships", item("text_unit_ids", "gone")),
    ("references", "communities", item("entity_ids", "gone")),
    ("references", "communities", item("relationship_ids", "gone")),
    ("references", "communities", item("text_unit_ids", "gone")),
    ("references", "covariates", put("text_unit_id", "gone")),
    ("text_unit_links", "text_units", cut("entity_ids")),
    ("text_unit_links", "text_units", swap("relationship_ids", 1)),
    ("text_unit_links", "text_units", swap("covariate_ids", 2)),
    ("link_tables", "text_unit_entities", drop(0)),
    ("link_tables", "row_numbers", put("number", 7)),
    ("full_text", "postings", put("count", 9)),
    ("full_text", "postings", drop(-1)),
    ("full_text", "terms", drop(-1)),
    ("link_tables", "entity_neighbours", put("weight", 9.0)),
    ("link_tables", "entity_communities", put("level", 9)),
    ("link_tables", "relationship_text_units", put("text_unit", 2)),
    ("unique_titles", "entities", same("title")),
    ("unique_titles", "entities", put("title", "")),
    ("unique_titles", "entity_aliases", put("alias", "ANNA")),
    ("unique_pairs", "relationships", lambda rows: rows[1].update(source="BERT", target="ANNA")),
    ("unique_pairs", "relationships", put("target", "ANNA")),
    ("unique_pairs", "relationships", put("target", "NOBODY")),
    ("degrees", "entities", put("degree", 9)),
    ("degrees", "relationships", put("combined_degree", 9)),
    ("frequency", "entities", put("frequency", 9)),
    ("frequency", "entities", swap("text_unit_ids")),
    ("frequency", "entities", lambda rows: rows[0].update(text_unit_ids=[], frequency=0)),
    ("frequency", "relationships", lambda rows: item("text_unit_ids", rows[0]["text_unit_ids"][0])(rows)),
    ("types", "entities", put("type", "GEO")),
    ("weights", "relationships", put("weight", float("nan"))),
    ("weights", "relationships", put("weight", float("inf"))),
    ("weights", "relationships", put("weight", -1.0)),
    ("community_cover", "communities", cut("entity_ids")),
    (
        "community_cover",
        "communities",
        lambda rows: rows[1].update(entity_ids=[*rows[1]["entity_ids"], rows[0]["entity_ids"][0]]),
    ),
    ("community_cover", "entities", lambda rows: put("degree", 0)(rows)),
    ("community_nesting", "communities", put("parent", 1, 3)),
    ("community_nesting", "communities", put("parent", 2, 3)),
    ("community_nesting", "communities", put("parent", 0, 1)),
    ("community_nesting", "communities", put("children", [2])),
    ("community_nesting", "communities", lambda rows: rows[3].update(entity_ids=rows[1]["entity_ids"])),
    ("community_nesting", "communities", cut("entity_ids", 2)),
    ("community_nesting", "communities", put("community", 9, 3)),
    ("community_content", "communities", put("size", 9)),
    ("community_content", "communities", swap("entity_ids")),
    ("community_content", "communities", cut("relationship_ids")),
    (
        "community_content",
        "communities",
        lambda rows: item("relationship_ids", rows[0]["relationship_ids"][0], 1)(rows),
    ),
    ("report_coverage", "community_reports", drop(0)),
    ("report_coverage", "community_reports", same("community")),
    ("report_coverage", "community_reports", put("level", 0)),
    ("report_coverage", "community_reports", put("status", "failed")),
    ("report_coverage", "community_reports", put("rank", 11.0)),
    ("report_coverage", "community_reports", put("full_content", " ")),
    ("failed_reports", "community_reports", lambda rows: rows[0].update(status="failed", reason="r")),
]


@pytest.mark.parametrize(("check", "table", "change"), BROKEN)
def test_each_check_finds_what_is_broken_in_its_way(
    snapshot: tuple[Tables, Vectors], check: str, table: str, change: Change
) -> None:
    tables, vectors = snapshot
    contract = next(t for t in contracts.PUBLISHED if t.name == table)
    rows = tables[table].to_pylist()
    change(rows)
    found = run({**tables, table: contract.from_rows(rows)}, vectors, check)
    assert found[check]
    assert all(v.count >= 1 and len(v.examples) <= 5 and v.message in str(v) for v in found[check])


def test_every_check_has_a_test() -> None:
    assert {c.name for c in CHECKS} == {check for check, _, _ in BROKEN} | {"vectors", "batch_rows"}


def test_rows_of_batches_are_the_rows_of_the_table(snapshot: tuple[Tables, Vectors]) -> None:
    tables, vectors = snapshot
    (check,) = (c for c in CHECKS if c.name == "batch_rows")
    rows = tables["documents"].num_rows
    whole = {"documents": {"batch-000001": rows - 1, "batch-000002": 1}}
    assert check.run(tables, vectors, CheckSettings(), whole) == []
    (violation,) = check.run(tables, vectors, CheckSettings(), {"documents": {"batch-000001": rows - 1}})
    assert violation.count == 1


@pytest.mark.parametrize("name", ["text_unit_text", "entity_description", "community_full_content"])
@pytest.mark.parametrize("change", [lambda v: v[1:], lambda v: [*v, "gone"], lambda v: [*v, v[0]], lambda v: []])
def test_vectors_are_the_rows(
    snapshot: tuple[Tables, Vectors], name: str, change: Callable[[list[str]], list[str]]
) -> None:
    tables, vectors = snapshot
    (violation,) = run(tables, {**vectors, name: change(vectors[name])}, "vectors")["vectors"]
    assert name in violation.message


def test_limits_are_those_of_the_settings(snapshot: tuple[Tables, Vectors]) -> None:
    tables, vectors = snapshot
    rows = tables["text_units"].to_pylist()
    rows[0].update(status="failed", reason="no answer")
    tables = {**tables, "text_units": contracts.TEXT_UNITS.from_rows(rows)}
    assert run(tables, vectors, "failed_text_units", max_failed_share=0.34)["failed_text_units"] == []
    (violation,) = run(tables, vectors, "failed_text_units", max_failed_share=0.33)["failed_text_units"]
    assert "33.3%" in violation.message
    assert "no answer" in violation.examples[0]


def test_smaller_components_may_be_left_out_whole(snapshot: tuple[Tables, Vectors]) -> None:
    tables, vectors = snapshot
    rows = tables["communities"].to_pylist()
    without_small = contracts.COMMUNITIES.from_rows([r for r in rows if r["community"] != 1])
    assert run({**tables, "communities": without_small}, vectors, "community_cover")["community_cover"] == []
    without_large = contracts.COMMUNITIES.from_rows([r for r in rows if r["community"] == 1])
    (violation,) = run({**tables, "communities": without_large}, vectors, "community_cover")["community_cover"]
    assert violation.examples == ("ANNA", "BERT", "CARL")
