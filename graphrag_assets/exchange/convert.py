"""From the rows of a foreign index to tables of our own, every one of them sound."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from graphrag_assets.exchange.corpus import convert_corpus, finish_units
from graphrag_assets.exchange.findings import Findings
from graphrag_assets.exchange.graph import Titles, convert_claims, convert_entities, convert_relationships, no_text_unit
from graphrag_assets.exchange.hierarchy import convert_communities, convert_reports, unknown_citations
from graphrag_assets.exchange.identity import Known
from graphrag_assets.exchange.source import Source
from graphrag_assets.exchange.values import Rows, number, text
from graphrag_assets.indexing.links import text_unit_links
from graphrag_assets.indexing.look_ups import look_up_tables
from graphrag_assets.storage import tables as contracts


def convert(source: Source, count_tokens: Callable[[str], int], findings: Findings) -> dict[str, pa.Table]:
    """All tables of a snapshot but its vectors.

    Args:
        source: Rows with the columns of version 2 or 3; they are changed in place.
        count_tokens: Counts tokens where the source does not tell.
        findings: Takes what is wrong with the rows, and how it was mended.
    """
    given = {
        name: source.tables.get(name, []) for name in ("documents", "communities", "community_reports", "covariates")
    }
    raw_units = source.tables["text_units"]
    documents, units = convert_corpus(given["documents"], raw_units, count_tokens, findings)
    known = Known([unit["id"] for unit in units])
    entities, merged = convert_entities(source.tables["entities"], raw_units, known, findings)
    relationships, entities = convert_relationships(
        source.tables["relationships"], raw_units, entities, known, findings
    )
    claims = convert_claims(given["covariates"], entities, known, findings)
    no_text_unit(entities, "entities", lambda row: str(row["title"]), findings)
    no_text_unit(relationships, "relationships", lambda row: str(row["id"]), findings)
    communities = convert_communities(given["communities"], entities, relationships, merged, known, findings)
    titles = {entity["id"]: entity["title"] for entity in entities}
    reports = convert_reports(given["community_reports"], communities, titles, findings)
    numbers = {
        "Entities": entities,
        "Relationships": relationships,
        "Claims": claims,
        "Sources": units,
        "Reports": reports,
    }
    unknown_citations(reports, {k: {row["human_readable_id"] for row in rows} for k, rows in numbers.items()}, findings)

    made = {
        "documents": contracts.DOCUMENTS.from_rows(documents),
        "entities": contracts.ENTITIES.from_rows(entities),
        "relationships": contracts.RELATIONSHIPS.from_rows(relationships),
        "covariates": contracts.COVARIATES.from_rows(claims),
        "communities": contracts.COMMUNITIES.from_rows(communities),
        "community_reports": contracts.COMMUNITY_REPORTS.from_rows(reports),
        "entity_aliases": contracts.ENTITY_ALIASES.from_rows(_aliases(source, entities)),
    }
    order = pa.table(
        {
            "text_unit_id": pa.array([unit["id"] for unit in units], pa.string()),
            "order": pa.array([unit["human_readable_id"] for unit in units], pa.int64()),
        }
    )
    links = text_unit_links(order, made["entities"], made["relationships"], made["covariates"])
    made["text_units"] = contracts.TEXT_UNITS.from_rows(finish_units(units, links))
    return made | look_up_tables(made)


def rejected_inputs(source: Source, findings: Findings) -> pa.Table:
    """Every finding as a row, beside what an export of ours told already."""
    names = contracts.REJECTED_INPUTS.column_names
    told = [{name: text(row.get(name)) for name in names} for row in source.tables.get("rejected_inputs", [])]
    rows = {tuple(row[name] for name in names) for row in (*told, *findings.rejected_inputs(kept=not source.record))}
    return contracts.REJECTED_INPUTS.from_rows([dict(zip(names, row, strict=True)) for row in sorted(rows)])


def _aliases(source: Source, entities: Rows) -> Rows:
    """Aliases of an export of ours, and the usual forms of titles that are written otherwise."""
    exact = {entity["title"] for entity in entities}
    rows = {}
    for row in source.tables.get("entity_aliases", []):
        alias, title = text(row.get("alias")), text(row.get("title"))
        if not alias or (row.get("decision") == "merged" and alias in exact):
            continue
        fields = {name: text(row.get(name)) for name in ("decision", "method", "evidence")}
        rows[alias, title] = {"alias": alias, "title": title, "score": number(row.get("score")) or 0.0, **fields}
    for row in Titles([entity["title"] for entity in entities]).aliases():
        rows.setdefault((row["alias"], row["title"]), row)
    return [rows[key] for key in sorted(rows)]
