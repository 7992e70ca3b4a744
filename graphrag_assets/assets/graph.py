"""The graph of the whole corpus: resolved entities, relationships, claims."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa

from graphrag_assets.assets.checks import check_rows, check_specs
from graphrag_assets.assets.corpus import canonical_titles, text_unit_order
from graphrag_assets.assets.fingerprints import code_version
from graphrag_assets.assets.memory import give_back_memory
from graphrag_assets.assets.models import asking_stages, open_gateway, run, usage_metadata
from graphrag_assets.assets.partitions import all_there, every_batch
from graphrag_assets.assets.pictures import graph_picture
from graphrag_assets.assets.refreshing import refreshing
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import GRAPH, described
from graphrag_assets.ids import digest_json
from graphrag_assets.indexing.extractive import entity_descriptions, relationship_descriptions
from graphrag_assets.indexing.graph import MergedGraph, merge_graph, with_degrees
from graphrag_assets.indexing.links import link_covariates
from graphrag_assets.indexing.resolution import Overrides, Resolution, load_overrides, resolve_entities, title_profiles
from graphrag_assets.indexing.statements import find_statements
from graphrag_assets.indexing.summaries import summarize
from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.progress import Progress
from graphrag_assets.prompt_files import load_prompt
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import BuildArea, Built, TableRef
from graphrag_assets.storage.failures import fails_at_once, retries
from graphrag_assets.storage.tables import COVARIATES, ENTITIES, ENTITY_ALIASES, RELATIONSHIPS
from graphrag_assets.storage.undone import Undone

if TYPE_CHECKING:
    from graphrag_assets.llm.gateway import Asking

OUTPUTS = ("entity_aliases", "entities", "relationships")

#: From which tables the rows of each output are made, for the lineage; the order of text units is read beside them.
MADE_FROM = {
    "entity_aliases": ("extracted_entities", "extracted_relationships"),
    "entities": ("extracted_entities", "extracted_relationships", "entity_aliases", "text_units"),
    "relationships": ("extracted_relationships", "entities"),
}


@dataclass
class Graph:
    """What the graph asset builds.

    Args:
        tables: entity_aliases, entities and relationships.
        metadata: Figures by output.
        undone: Summaries that failed.
    """

    tables: dict[str, pa.Table]
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    undone: list[Undone] = field(default_factory=list)


def read_overrides(workspace: Workspace) -> Overrides:
    """Merges that the user forces or forbids, from the file that the settings name, if it exists."""
    name = workspace.settings.entity_resolution.overrides
    path = workspace.path(name) if name else None
    return load_overrides(path.read_text(encoding="utf-8") if path and path.is_file() else "")


async def resolve(
    entities: pa.Table, relationships: pa.Table, order: pa.Table, workspace: Workspace, gateway: "Asking"
) -> Resolution:
    """Decide which titles are one entity, by the settings of the workspace."""
    settings = workspace.settings.entity_resolution
    asks = settings.llm and workspace.settings.effective_method == "standard"
    prompt = load_prompt(workspace, "resolve_entities", settings.prompt) if asks else ""
    return await resolve_entities(
        title_profiles(entities, relationships, order),
        overrides=read_overrides(workspace),
        lexical=settings.lexical,
        merge_threshold=settings.merge_threshold,
        doubt_threshold=settings.doubt_threshold,
        max_block=settings.max_block,
        ask=gateway.ask("resolve_entities", settings.completion_model_id, prompts=[prompt]) if asks else None,
        prompt=prompt,
    )


Summaries = dict[tuple[str, ...], str]


def _summarised(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What the summary of an entity or a relationship is made from, beside settings, prompt and model."""
    return (*([row["title"]] if "title" in row else ["", row["source"], row["target"]]), "", *row["descriptions"])


def earlier_summaries(area: BuildArea, version: str) -> Summaries:
    """Summaries in the build area that were made with the same settings, prompt and model, by what they were made from.

    Args:
        area: The build area.
        version: Code version of the graph. Tables in which a summary failed name none.
    """
    found: Summaries = {}
    for name, labels in (("entities", ["title"]), ("relationships", ["source", "target"])):
        try:
            if area.facts(name).made_with != version:
                continue
        except FileNotFoundError:
            continue
        rows = area.read(name, columns=[*labels, "descriptions", "description"]).to_pylist()
        found |= {_summarised(row): row["description"] for row in rows if len(row["descriptions"]) > 1}
    return found


async def summarize_all(
    entities: pa.Table, relationships: pa.Table, workspace: Workspace, gateway: "Asking", known: Summaries
) -> tuple[list[str], list[str], list[Undone], int]:
    """Descriptions of all entities and relationships: the model is asked only where there is more than one.

    Args:
        entities: Merged entities.
        relationships: Merged relationships.
        workspace: Settings and prompt.
        gateway: The models.
        known: Summaries of an earlier run, which are taken over.

    Returns:
        Descriptions of the entities, of the relationships, the summaries that failed (their descriptions stand side by side
        instead), and how many were made in smaller rounds than the settings allow.
    """
    settings = workspace.settings.summarize_descriptions
    prompt = load_prompt(workspace, "summarize_descriptions", settings.prompt)
    ask = gateway.ask("summarize_descriptions", settings.completion_model_id, prompts=[prompt])
    counter = tokenizer(workspace.settings.chunking.encoding_model)
    rows = [(row["title"], row) for row in entities.select(["id", "title", "descriptions"]).to_pylist()]
    columns = ["id", "source", "target", "descriptions"]
    rows += [([row["source"], row["target"]], row) for row in relationships.select(columns).to_pylist()]
    wanted = {i for i, (_, row) in enumerate(rows) if len(row["descriptions"]) > 1 and _summarised(row) not in known}
    progress = Progress("summarising descriptions", len(wanted))
    undone: list[Undone] = []
    smaller = 0

    async def one(name: str | Sequence[str], row: dict[str, Any]) -> str:
        nonlocal smaller
        summary = await summarize(
            name,
            row["descriptions"],
            ask,
            prompt=prompt,
            max_input_tokens=settings.max_input_tokens,
            max_length=settings.max_length,
            count_tokens=counter.count,
            truncate=counter.truncate,
            row=row["id"],
        )
        smaller += summary.smaller and not summary.failed
        if summary.failed:
            status, _, reason = summary.failed.partition(": ")
            undone.append(Undone(row["id"], digest_json(_summarised(row)), status, reason, summary.passing))
        progress.advance()
        return summary.text

    async with asyncio.TaskGroup() as group:
        tasks = {i: group.create_task(one(name, row)) for i, (name, row) in enumerate(rows) if i in wanted}

    def text(i: int, row: dict[str, Any]) -> str:
        if len(row["descriptions"]) < 2:
            return "".join(row["descriptions"])
        return tasks[i].result() if i in tasks else known[_summarised(row)]

    texts = [text(i, row) for i, (_, row) in enumerate(rows)]
    return texts[: entities.num_rows], texts[entities.num_rows :], sorted(undone, key=lambda each: each.row), smaller


def finished(table: pa.Table, contract: Any, descriptions: Sequence[str]) -> pa.Table:
    """A merged table with its descriptions."""
    columns = {name: table[name] for name in contract.column_names if name != "description"}
    return contract.from_columns(columns | {"description": list(descriptions)})


async def build_standard(
    entities: pa.Table, relationships: pa.Table, order: pa.Table, workspace: Workspace, known: Summaries
) -> Graph:
    """Resolve, merge and summarise what the LLM extracted, as far as it is not summarised yet."""
    async with open_gateway(workspace) as gateway:
        resolution = await resolve(entities, relationships, order, workspace, gateway)
        merged = merge_graph(entities, relationships, order, resolution.mapping)
        del entities, relationships
        give_back_memory()
        of_entities, of_relationships, undone, smaller = await summarize_all(
            merged.entities, merged.relationships, workspace, gateway, known
        )
        gateway.smaller_helped("summarize_descriptions", smaller)
        usage = gateway.usage()
    tables = {
        "entity_aliases": ENTITY_ALIASES.from_rows(resolution.aliases),
        "entities": finished(merged.entities, ENTITIES, of_entities),
        "relationships": finished(merged.relationships, RELATIONSHIPS, of_relationships),
    }
    metadata = _metadata(resolution, merged)
    passing = sum(each.passing for each in undone)
    metadata["entities"] |= {"summaries_failed": len(undone), "summaries_to_try_again": passing}
    metadata["entities"] |= usage_metadata(usage, asking_stages(workspace, "entities"))
    return Graph(tables, metadata, undone)


async def build_fast(
    entities: pa.Table, relationships: pa.Table, order: pa.Table, units: pa.Table, workspace: Workspace
) -> Graph:
    """Resolve, merge, weigh and prune what the language analysis found; describe it in sentences of the texts.

    Args:
        entities: Rows of extracted_entities.
        relationships: Rows of extracted_relationships.
        order: Columns text_unit_id, document_id and order.
        units: Columns id, text and document_id, in that order.
        workspace: Settings.
    """
    async with open_gateway(workspace) as gateway:
        resolution = await resolve(entities, relationships, order, workspace, gateway)
    return graph_of_names(resolution, entities, relationships, order, units, workspace)


def graph_of_names(
    resolution: Resolution,
    entities: pa.Table,
    relationships: pa.Table,
    order: pa.Table,
    units: pa.Table,
    workspace: Workspace,
) -> Graph:
    """The graph of the fast method with the titles resolved; arguments as of :func:`build_fast`."""
    from graphrag_assets.indexing.pruning import pmi_weights, prune_graph

    settings = workspace.settings
    merged = merge_graph(entities, relationships, order, resolution.mapping)
    linked = merged.relationships
    if settings.extract_graph_nlp.normalize_edge_weights:
        linked = pmi_weights(linked, merged.entities)
    pruned = prune_graph(merged.entities, linked, settings.prune_graph)
    kept, linked = with_degrees(pruned.entities, pruned.relationships)
    statements = find_statements(units.to_pylist(), kept.select(["title", "aliases", "text_unit_ids"]).to_pylist())
    titles = kept["title"].to_pylist()
    pairs = list(zip(linked["source"].to_pylist(), linked["target"].to_pylist(), strict=True))
    of_entities, of_pairs = entity_descriptions(statements, titles), relationship_descriptions(statements, pairs)
    tables = {
        "entity_aliases": ENTITY_ALIASES.from_rows(resolution.aliases),
        "entities": finished(kept, ENTITIES, [of_entities[title] for title in titles]),
        "relationships": finished(linked, RELATIONSHIPS, [of_pairs[pair] for pair in pairs]),
    }
    metadata = _metadata(resolution, merged)
    metadata["entities"]["entities_pruned"] = merged.entities.num_rows - kept.num_rows
    metadata["relationships"]["relationships_pruned"] = merged.relationships.num_rows - linked.num_rows
    return Graph(tables, metadata)


def _metadata(resolution: Resolution, merged: MergedGraph) -> dict[str, dict[str, Any]]:
    s = resolution.statistics
    return {
        "entity_aliases": {
            "titles_extracted": s.titles,
            "titles_merged": s.merged,
            "doubtful_pairs": s.doubtful,
            "ambiguous_titles": s.ambiguous,
            "narrowed_blocks": s.narrowed_blocks,
        },
        "entities": {},
        "relationships": {
            "self_relationships_dropped": merged.self_relationships,
            "unusable_weights_replaced": merged.weights_replaced,
        },
    }


def graph_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Declare entity_aliases, entities, relationships and covariates."""
    method = workspace.settings.effective_method
    kinds = {"parquet", "duckdb", "llm"} if method == "standard" else {"parquet", "duckdb"}

    @dg.multi_asset(
        name="graph",
        outs={name: dg.AssetOut(**described(name, GRAPH, kinds=kinds, workspace=workspace)) for name in OUTPUTS},
        ins={
            name: dg.AssetIn(name, partition_mapping=every_batch)
            for name in ("text_units", "extracted_entities", "extracted_relationships")
        },
        internal_asset_deps={name: {dg.AssetKey(source) for source in sources} for name, sources in MADE_FROM.items()},
        pool="llm" if method == "standard" else None,
        retry_policy=retries(workspace, asks=method == "standard"),
        check_specs=check_specs(*OUTPUTS),
    )
    @fails_at_once
    def graph(
        context: dg.AssetExecutionContext,
        index: Index,
        text_units: TableRef,
        extracted_entities: TableRef,
        extracted_relationships: TableRef,
    ) -> Iterator[dg.AssetCheckResult | dg.Output[Built]]:
        give_back_memory()
        prints = index.fingerprints()
        text_units = all_there(text_units, prints.batches)
        order = text_unit_order(index.build.ref("documents", prints.batches), text_units)
        named, linked = (all_there(table, prints.batches) for table in (extracted_entities, extracted_relationships))
        if index.workspace.settings.effective_method == "standard":
            anew = "summarize_descriptions" in refreshing(index.storage)
            known = {} if anew else earlier_summaries(index.build, code_version(index.workspace, "graph"))
            built = run(build_standard(named.table(), linked.table(), order, index.workspace, known))
        else:
            units = in_order(text_units.table(["id", "text", "document_id"]), order)
            built = run(build_fast(named.table(), linked.table(), order, units, index.workspace))
        rows = built.tables | {"text_units": pa.table({"id": order["text_unit_id"]})}
        yield from check_rows(OUTPUTS, rows, index.workspace.settings.checks)
        fingerprint = index.stamp(prints, "graph", undone=built.undone)
        made_with = "" if built.undone else code_version(index.workspace, "graph")
        picture = dg.MetadataValue.md(graph_picture(built.tables["entities"], built.tables["relationships"]))
        built.metadata["entities"]["entities_by_type"] = count_types(built.tables["entities"])
        for name in OUTPUTS:
            figures = built.metadata[name] | ({"picture": picture} if name != "entity_aliases" else {})
            pruned = {"pruned": figures[f"{name}_pruned"]} if f"{name}_pruned" in figures else {}
            table = Built(built.tables[name], fingerprint, metadata=figures, figures=pruned, made_with=made_with)
            yield dg.Output(table, name)

    @dg.asset(
        ins={"extracted_claims": dg.AssetIn(partition_mapping=every_batch)},
        retry_policy=retries(workspace),
        **described("covariates", GRAPH, kinds={"parquet", "duckdb"}, workspace=workspace),
    )
    @fails_at_once
    def covariates(
        context: dg.AssetExecutionContext,
        index: Index,
        extracted_claims: TableRef,
        entity_aliases: pa.Table,
    ) -> Built:
        give_back_memory()
        prints = index.fingerprints()
        claims = all_there(extracted_claims, prints.batches).table()
        order = text_unit_order(*(index.build.ref(name, prints.batches) for name in ("documents", "text_units")))
        table = link_covariates(claims, order, canonical_titles(entity_aliases))
        return Built(COVARIATES.conform(table), index.stamp(prints, "covariates"))

    return [graph, covariates]


def count_types(entities: pa.Table) -> str:
    """How many entities there are of each type, the most frequent first."""
    counts = Counter(kind or "no type" for kind in entities["type"].to_pylist())
    return ", ".join(f"{kind}: {count}" for kind, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def in_order(units: pa.Table, order: pa.Table) -> pa.Table:
    """Text units in corpus order."""
    position = {unit: i for i, unit in enumerate(units["id"].to_pylist())}
    return units.take(pa.array([position[unit] for unit in order["text_unit_id"].to_pylist()], pa.int64()))
