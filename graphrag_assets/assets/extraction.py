"""Extraction: entities, relationships and claims of each text unit, by an LLM or by language analysis."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa

from graphrag_assets.assets.memory import give_back_memory
from graphrag_assets.assets.models import open_gateway, run, usage_metadata
from graphrag_assets.assets.partitions import by_batch, document_batches, one_run, single_or_all
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import EXTRACTION, described
from graphrag_assets.progress import Progress
from graphrag_assets.prompt_files import load_prompt
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import CONTRACTS, Built

if TYPE_CHECKING:
    from graphrag_assets.llm.gateway import Gateway
    from graphrag_assets.llm.usage import StageUsage

OUTPUTS = ("extracted_entities", "extracted_relationships", "extracted_claims", "extraction_status")
STATUSES = ("ok", "empty", "failed", "truncated", "refused")
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class UnitExtraction:
    """Rows that one text unit gave."""

    entities: Rows
    relationships: Rows
    claims: Rows
    status: dict[str, Any]


def to_tables(units: list[UnitExtraction]) -> dict[str, pa.Table]:
    """The four tables of a batch, in the order of its text units."""
    rows: dict[str, Rows] = {
        "extracted_entities": [row for unit in units for row in unit.entities],
        "extracted_relationships": [row for unit in units for row in unit.relationships],
        "extracted_claims": [row for unit in units for row in unit.claims],
        "extraction_status": [unit.status for unit in units],
    }
    return {name: CONTRACTS[name].from_rows(rows[name]) for name in OUTPUTS}


async def _extract_unit(
    unit: Mapping[str, Any], batch: str, gateway: "Gateway", workspace: Workspace
) -> UnitExtraction:
    """Extract one text unit with the LLM: the graph, and the claims where they are switched on."""
    from graphrag_assets.indexing.claims import extract_claims
    from graphrag_assets.indexing.extraction import extract_graph

    settings = workspace.settings
    graph, claims = settings.extract_graph, settings.extract_claims
    found = await extract_graph(
        unit["text"],
        gateway.ask("extract_graph", graph.completion_model_id, batch),
        prompt=load_prompt(
            workspace, "extract_graph" if graph.format == "tuple" else "extract_graph_json", graph.prompt
        ),
        continue_prompt=load_prompt(workspace, "extract_graph_continue"),
        loop_prompt=load_prompt(workspace, "extract_graph_loop"),
        entity_types=graph.entity_types,
        max_gleanings=graph.max_gleanings,
        format=graph.format,
        row=unit["id"],
    )
    claim_rows: Rows = []
    status, reason, attempts = found.status, found.reason, found.attempts
    if claims.enabled:
        said = await extract_claims(
            unit["text"],
            gateway.ask("extract_claims", claims.completion_model_id, batch),
            prompt=load_prompt(workspace, "extract_claims", claims.prompt),
            continue_prompt=load_prompt(workspace, "extract_claims_continue"),
            loop_prompt=load_prompt(workspace, "extract_claims_loop"),
            entity_specs=graph.entity_types,
            claim_description=claims.description,
            max_gleanings=claims.max_gleanings,
            row=unit["id"],
        )
        claim_rows, attempts = said.claims, attempts + said.attempts
        if said.status not in ("ok", "empty"):
            status, reason = said.status, f"claims: {said.reason}"
    return UnitExtraction(
        found.entities,
        found.relationships,
        claim_rows,
        {
            "text_unit_id": unit["id"],
            "status": status,
            "reason": reason,
            "attempts": attempts,
            "entities": len({row["title"] for row in found.entities}),
            "relationships": len({(row["source"], row["target"]) for row in found.relationships}),
            "claims": len(claim_rows),
        },
    )


async def extract_with_llm(
    batches: Mapping[str, pa.Table], workspace: Workspace
) -> tuple[dict[str, list[UnitExtraction]], dict[str, dict[str, "StageUsage"]]]:
    """Extract the text units of all batches at once, so that the slots of the model stay busy across batches.

    Returns:
        The extractions by batch, in the order of the text units, and the LLM usage by batch and stage.
    """
    units = [(key, unit) for key, table in batches.items() for unit in table.select(["id", "text"]).to_pylist()]
    progress = Progress("extracting the graph", len(units))

    async def one(batch: str, unit: Mapping[str, Any]) -> UnitExtraction:
        extraction = await _extract_unit(unit, batch, gateway, workspace)
        progress.advance()
        return extraction

    async with open_gateway(workspace) as gateway:
        async with asyncio.TaskGroup() as group:
            tasks = [(key, group.create_task(one(key, unit))) for key, unit in units]
        usage = {key: gateway.usage(key) for key in batches}
    found: dict[str, list[UnitExtraction]] = {key: [] for key in batches}
    for key, task in tasks:
        found[key].append(task.result())
    return found, usage


def extract_with_nlp(
    batches: Mapping[str, pa.Table], languages: Mapping[str, str], workspace: Workspace
) -> dict[str, list[UnitExtraction]]:
    """Extract the text units of all batches by language analysis, on all cores.

    Args:
        batches: Rows of batch_text_units by batch.
        languages: Language by document id; empty where it is not known.
        workspace: Settings.

    Returns:
        The extractions by batch, in the order of the text units.
    """
    from graphrag_assets.indexing.fast_extraction import Analyst

    progress = Progress("analysing the texts", sum(table.num_rows for table in batches.values()))
    found: dict[str, list[UnitExtraction]] = {}
    with Analyst(workspace.settings.extract_graph_nlp) as analyst:
        for key, table in batches.items():
            rows = table.select(["id", "text", "document_id"]).to_pylist()
            units = [row | {"language": languages.get(row["document_id"], "")} for row in rows]
            analysed = analyst.analyse(units, workspace.settings.language or "")
            found[key] = [UnitExtraction(unit.entities, unit.relationships, [], unit.status) for unit in analysed]
            progress.advance(table.num_rows)
    return found


def _languages(index: Index, batches: list[str]) -> dict[str, str]:
    """Language by document id. The language of a text decides how it is analysed, it is not what is extracted."""
    documents = index.build.ref("documents", batches).table(["id", "language"])
    return dict(zip(documents["id"].to_pylist(), documents["language"].to_pylist(), strict=True))


def extraction_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Declare extracted_entities, extracted_relationships, extracted_claims and extraction_status."""
    method = workspace.settings.effective_method
    kinds = {"parquet", "llm" if method == "standard" else "spacy"}

    @dg.multi_asset(
        name="extraction",
        outs={name: dg.AssetOut(**described(name, EXTRACTION, kinds=kinds, workspace=workspace)) for name in OUTPUTS},
        partitions_def=document_batches,
        backfill_policy=one_run,
        pool="llm" if method == "standard" else None,
    )
    def extraction(context: dg.AssetExecutionContext, index: Index, text_units: Any) -> Iterator[dg.Output[Any]]:
        give_back_memory()
        prints = index.fingerprints()
        units = by_batch(context, text_units)
        usage: dict[str, dict[str, StageUsage]] = {}
        if index.workspace.settings.effective_method == "standard":
            extracted, usage = run(extract_with_llm(units, index.workspace))
        else:
            extracted = extract_with_nlp(units, _languages(index, list(units)), index.workspace)
        tables: dict[str, dict[str, Built]] = {name: {} for name in OUTPUTS}
        for key, found in extracted.items():
            statuses = Counter(unit.status["status"] for unit in found)
            fingerprint = index.stamp(prints, "extraction", key, failed=not statuses.keys() <= {"ok", "empty"})
            figures = {f"text_units_{status}": statuses.get(status, 0) for status in STATUSES}
            figures |= usage_metadata(usage.get(key, {}))
            for name, table in to_tables(found).items():
                tables[name][key] = Built(table, fingerprint, metadata=figures if name == "extraction_status" else {})
        for name in OUTPUTS:
            yield dg.Output(single_or_all(tables[name]), name)

    return [extraction]
