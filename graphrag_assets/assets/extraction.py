"""Extraction: entities, relationships and claims of each text unit, by an LLM or by language analysis."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa

from graphrag_assets.assets.checks import check_rows, check_specs
from graphrag_assets.assets.extracted_rows import (
    OUTPUTS,
    UnitExtraction,
    earlier_extractions,
    input_hashes,
    of_unit,
    to_tables,
    undone_units,
)
from graphrag_assets.assets.memory import give_back_memory
from graphrag_assets.assets.models import asking_stages, import_ahead, open_gateway, run, usage_metadata
from graphrag_assets.assets.partitions import by_batch, document_batches, one_run, single_or_all
from graphrag_assets.assets.refreshing import refreshing
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import EXTRACTION, described
from graphrag_assets.progress import Progress
from graphrag_assets.prompt_files import load_prompt
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import Built
from graphrag_assets.storage.failures import fails_at_once, retries

if TYPE_CHECKING:
    from graphrag_assets.indexing.claims import ClaimExtraction
    from graphrag_assets.indexing.extraction import Extraction
    from graphrag_assets.llm.gateway import Asking
    from graphrag_assets.llm.usage import StageUsage

STATUSES = ("ok", "empty", "failed", "truncated", "refused")


def stage_prompts(workspace: Workspace) -> dict[str, str]:
    """The prompts of all text units, by name; those for claims only where claims are asked for."""
    graph, claims = workspace.settings.extract_graph, workspace.settings.extract_claims
    name = "extract_graph" if graph.format == "tuple" else "extract_graph_json"
    prompts = {"extract_graph": load_prompt(workspace, name, graph.prompt)}
    more = ["extract_graph_continue", "extract_graph_loop"]
    if claims.enabled:
        prompts["extract_claims"] = load_prompt(workspace, "extract_claims", claims.prompt)
        more += ["extract_claims_continue", "extract_claims_loop"]
    return prompts | {name: load_prompt(workspace, name) for name in more}


def _of_stage(prompts: Mapping[str, str], stage: str) -> list[str]:
    """The prompts of one of the two conversations about a text unit."""
    return [prompts[name] for name in (stage, f"{stage}_continue", f"{stage}_loop")]


async def extract_unit(
    unit: Mapping[str, Any],
    batch: str,
    gateway: "Asking",
    workspace: Workspace,
    prompts: Mapping[str, str],
    kept: UnitExtraction | None = None,
    anew: Collection[str] = (),
) -> UnitExtraction:
    """Extract one text unit with the LLM: the graph, and the claims where they are switched on.

    Args:
        unit: Its id and text.
        batch: Its batch, for the accounts.
        gateway: How the model is asked.
        workspace: Settings.
        prompts: See :func:`stage_prompts`.
        kept: What an earlier run found in it, where only some stages are asked anew.
        anew: Those stages.
    """
    from graphrag_assets.indexing.claims import ClaimExtraction

    of_graph = _graph_of(unit, batch, gateway, workspace, prompts, None if "extract_graph" in anew else kept)
    said = ClaimExtraction([])
    if workspace.settings.extract_claims.enabled:
        of_claims = _claims_of(unit, batch, gateway, workspace, prompts, None if "extract_claims" in anew else kept)
        async with asyncio.TaskGroup() as both:  # neither conversation waits for the other
            asked_for_graph, asked_for_claims = both.create_task(of_graph), both.create_task(of_claims)
        found, said = asked_for_graph.result(), asked_for_claims.result()
    else:
        found = await of_graph
    status, reason, claim_rows = found.status, found.reason, said.claims
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
            "entities": len({row["title"] for row in found.entities}),
            "relationships": len({(row["source"], row["target"]) for row in found.relationships}),
            "claims": len(claim_rows),
            "passing": found.passing or said.passing,
            "parts": (found.parts, said.parts),
        },
    )


async def _graph_of(
    unit: Mapping[str, Any],
    batch: str,
    gateway: "Asking",
    workspace: Workspace,
    prompts: Mapping[str, str],
    kept: UnitExtraction | None,
) -> "Extraction":
    """The graph of a text unit: asked for, or what an earlier run found."""
    from graphrag_assets.indexing.extraction import Extraction, extract_graph

    if kept is not None:
        return Extraction(kept.entities, kept.relationships, kept.status["status"])
    settings = workspace.settings.extract_graph
    return await extract_graph(
        unit["text"],
        gateway.ask("extract_graph", settings.completion_model_id, batch, _of_stage(prompts, "extract_graph")),
        prompt=prompts["extract_graph"],
        continue_prompt=prompts["extract_graph_continue"],
        loop_prompt=prompts["extract_graph_loop"],
        entity_types=settings.entity_types,
        max_gleanings=settings.max_gleanings,
        format=settings.format,
        row=unit["id"],
    )


async def _claims_of(
    unit: Mapping[str, Any],
    batch: str,
    gateway: "Asking",
    workspace: Workspace,
    prompts: Mapping[str, str],
    kept: UnitExtraction | None,
) -> "ClaimExtraction":
    """The claims of a text unit: asked for, or what an earlier run found."""
    from graphrag_assets.indexing.claims import ClaimExtraction, extract_claims

    if kept is not None:
        return ClaimExtraction(kept.claims)
    settings = workspace.settings.extract_claims
    return await extract_claims(
        unit["text"],
        gateway.ask("extract_claims", settings.completion_model_id, batch, _of_stage(prompts, "extract_claims")),
        prompt=prompts["extract_claims"],
        continue_prompt=prompts["extract_claims_continue"],
        loop_prompt=prompts["extract_claims_loop"],
        entity_specs=workspace.settings.extract_graph.entity_types,
        claim_description=settings.description,
        max_gleanings=settings.max_gleanings,
        row=unit["id"],
    )


async def extract_with_llm(
    batches: Mapping[str, pa.Table],
    workspace: Workspace,
    kept: Mapping[str, UnitExtraction] | None = None,
    anew: Collection[str] = (),
) -> tuple[dict[str, list[UnitExtraction]], dict[str, dict[str, "StageUsage"]]]:
    """Extract the text units of all batches at once, so that the slots of the model stay busy across batches.

    Args:
        batches: Rows of batch_text_units by batch.
        workspace: Settings and prompts.
        kept: What an earlier run found, by text unit, where only some stages are asked anew.
        anew: Those stages.

    Returns:
        The extractions by batch, in the order of the text units, and the LLM usage by batch and stage.
    """
    units = [(key, unit) for key, table in batches.items() for unit in table.select(["id", "text"]).to_pylist()]
    prompts = stage_prompts(workspace)
    progress = Progress("extracting the graph", len(units))

    async def one(batch: str, unit: Mapping[str, Any]) -> UnitExtraction:
        before = (kept or {}).get(unit["id"])
        extraction = await extract_unit(unit, batch, gateway, workspace, prompts, before, anew)
        stages = ("extract_graph", "extract_claims")
        for stage, parts in zip(stages, extraction.status.pop("parts"), strict=True):
            if parts > 1 and extraction.status["status"] in ("ok", "empty"):
                gateway.smaller_helped(stage, parts - 1, batch)
        progress.advance()
        return extraction

    import_ahead()
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
    from graphrag_assets.indexing.noun_phrases import PipelineMissingError, require_pipeline

    try:
        require_pipeline(workspace.settings.extract_graph_nlp.text_analyzer.model_name)
    except PipelineMissingError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
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


def read_by_rules(batch: pa.Table, languages: Mapping[str, str], model_name: str) -> dict[str, Any]:
    """Figures about text units in languages that the pipeline does not read; none where it reads all."""
    from graphrag_assets.indexing.fast_extraction import is_read

    found = Counter(languages.get(document, "") for document in batch["document_id"].to_pylist())
    foreign = {language: count for language, count in sorted(found.items()) if not is_read(model_name, language)}
    if not foreign:
        return {}
    told = ", ".join(f"{language}: {count}" for language, count in foreign.items())
    return {"text_units_read_by_rules": sum(foreign.values()), "languages_read_by_rules": told}


def _without(hashes: Mapping[str, str], known: Mapping[str, UnitExtraction]) -> pa.Array:
    """Which text units are not known from before."""
    return pa.array([made_from not in known for made_from in hashes.values()], pa.bool_())


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
        retry_policy=retries(workspace, asks=method == "standard"),
        check_specs=check_specs("extraction_status"),
    )
    @fails_at_once
    def extraction(
        context: dg.AssetExecutionContext, index: Index, text_units: Any
    ) -> Iterator[dg.AssetCheckResult | dg.Output[Any]]:
        give_back_memory()
        prints = index.fingerprints()
        units = by_batch(context, text_units)
        usage: dict[str, dict[str, StageUsage]] = {}
        by_rules: dict[str, dict[str, Any]] = {}
        standard = index.workspace.settings.effective_method == "standard"
        languages = {} if standard else _languages(index, list(units))
        hashes = {key: input_hashes(table, index.workspace, languages) for key, table in units.items()}
        known = earlier_extractions(
            index.build, {made_from for batch in hashes.values() for made_from in batch.values()}
        )
        anew = {"extract_graph", "extract_claims"} & refreshing(index.storage).keys() if standard else set()
        kept: dict[str, UnitExtraction] = {}
        if anew:
            of_units = {unit: made_from for batch in hashes.values() for unit, made_from in batch.items()}
            kept, known = {unit: known[of] for unit, of in of_units.items() if of in known}, {}
        new = {key: table.filter(_without(hashes[key], known)) for key, table in units.items()}
        extracted: dict[str, list[UnitExtraction]] = {}
        if not any(table.num_rows for table in new.values()):
            extracted = {key: [] for key in units}
        elif standard:
            extracted, usage = run(extract_with_llm(new, index.workspace, kept, anew))
        else:
            extracted = extract_with_nlp(new, languages, index.workspace)
        if not standard:
            model_name = index.workspace.settings.extract_graph_nlp.text_analyzer.model_name
            by_rules = {key: read_by_rules(table, languages, model_name) for key, table in units.items()}
        stages = asking_stages(index.workspace, "extraction_status")
        tables: dict[str, dict[str, Built]] = {name: {} for name in OUTPUTS}
        for key, made in extracted.items():
            fresh = iter(made)
            found = [
                of_unit(known[made_from] if made_from in known else next(fresh), unit, made_from)
                for unit, made_from in hashes[key].items()
            ]
            statuses = Counter(unit.status["status"] for unit in found)
            left = undone_units(found, hashes[key].values())
            fingerprint = index.stamp(prints, "extraction", key, undone=left)
            figures = {f"text_units_{status}": statuses.get(status, 0) for status in STATUSES}
            figures["text_units_as_before"] = len(found) - len(made)
            figures |= usage_metadata(usage.get(key, {}), stages) | by_rules.get(key, {})
            for name, table in to_tables(found).items():
                tables[name][key] = Built(table, fingerprint, metadata=figures if name == "extraction_status" else {})
        status = pa.concat_tables(built.table for built in tables["extraction_status"].values())
        names = ["id" if name == "text_unit_id" else name for name in status.column_names]
        rows = {"text_units": status.rename_columns(names)}
        yield from check_rows(["extraction_status"], rows, index.workspace.settings.checks)
        for name in OUTPUTS:
            yield dg.Output(single_or_all(tables[name]), name)

    return [extraction]
