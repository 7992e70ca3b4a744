"""Communities and their reports."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from graphrag_assets.assets.checks import check_rows, check_specs
from graphrag_assets.assets.clustering import earlier_clustering, standing_figures
from graphrag_assets.assets.contradictions import cached_conflicts
from graphrag_assets.assets.corpus import text_unit_dates, text_unit_order
from graphrag_assets.assets.fingerprints import model_identity
from graphrag_assets.assets.graph import in_order
from graphrag_assets.assets.memory import give_back_memory
from graphrag_assets.assets.models import asking_stages, open_gateway, run, usage_metadata
from graphrag_assets.assets.partitions import all_there, every_batch
from graphrag_assets.assets.pictures import graph_picture
from graphrag_assets.assets.refreshing import refreshing
from graphrag_assets.assets.resources import Index
from graphrag_assets.assets.specs import COMMUNITIES as GROUP
from graphrag_assets.assets.specs import described
from graphrag_assets.ids import digest_json
from graphrag_assets.indexing.communities import cluster
from graphrag_assets.indexing.conflicts import Conflict
from graphrag_assets.indexing.contradictions import find_conflicts
from graphrag_assets.indexing.extractive import extractive_reports
from graphrag_assets.indexing.reports import Reports, write_reports
from graphrag_assets.indexing.statements import find_statements
from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.progress import Progress
from graphrag_assets.prompt_files import load_prompt
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import Built, TableRef
from graphrag_assets.storage.failures import fails_at_once, retries
from graphrag_assets.storage.tables import COMMUNITIES, COMMUNITY_REPORTS
from graphrag_assets.storage.undone import Undone

if TYPE_CHECKING:
    from graphrag_assets.llm.gateway import Asking

Tables = dict[str, pa.Table]

#: Contexts of reports in memory at once where they travel in batches of a provider: most of a level in one batch. Else
#: more than calls in flight are of no use.
AT_ONCE_IN_BATCHES = 10_000


class CommunitiesConfig(dg.Config):
    """What a person may ask for."""

    recluster: bool = Field(False, description="Make all communities afresh, whatever there was before.")


def earlier_reports(index: Index) -> dict[str, dict[str, Any]]:
    """Reports of the build area by id; the id of a report tells what it was written from. None where all are asked anew."""
    if "community_reports" in refreshing(index.storage):
        return {}
    try:
        return {row["id"]: row for row in index.build.read("community_reports").to_pylist()}
    except FileNotFoundError:
        return {}


async def write_through(
    gateway: "Asking",
    text_units: int,
    tables: Tables,
    conflicts: Sequence[Conflict],
    workspace: Workspace,
    previous: Mapping[str, Mapping[str, Any]],
) -> Reports:
    """Reports by a model.

    Args:
        gateway: How the model is asked.
        text_units: Text units of the corpus.
        tables: entities, relationships, covariates and communities.
        conflicts: Where the texts contradict each other.
        workspace: Settings and prompts.
        previous: Reports of an earlier run by id.
    """
    settings = workspace.settings
    reports = settings.community_reports
    prompt = load_prompt(workspace, "community_report_graph", reports.graph_prompt)
    model = settings.completion_model(reports.completion_model_id)
    progress = Progress("writing reports", tables["communities"].num_rows)
    return await write_reports(
        tables["communities"].to_pylist(),
        tables["entities"].select(["id", "title", "description", "degree", "text_unit_ids"]).to_pylist(),
        tables["relationships"]
        .select(["id", "source", "target", "description", "weight", "combined_degree", "text_unit_ids"])
        .to_pylist(),
        tables["covariates"].to_pylist(),
        conflicts,
        ask=gateway.ask("community_reports", reports.completion_model_id, prompts=[prompt]),
        prompt=prompt,
        max_length=reports.max_length,
        max_input_length=reports.max_input_length,
        count_tokens=tokenizer(settings.chunking.encoding_model).count,
        text_units=text_units,
        previous=previous,
        model=digest_json(model_identity(model)),
        concurrency=AT_ONCE_IN_BATCHES if model.batch_api else max(64, 2 * settings.concurrent_requests),
        on_report=progress.advance,
    )


async def write_with_llm(
    units: pa.Table, tables: Tables, workspace: Workspace, previous: Mapping[str, Mapping[str, Any]]
) -> tuple[pa.Table, dict[str, Any], list[Undone]]:
    """Reports that the model writes, bottom-up.

    Args:
        units: Columns id, text and document_id of all text units, in corpus order.
        tables: entities, relationships, covariates and communities.
        workspace: Settings and prompts.
        previous: Reports of an earlier run by id; those that would be written from the same are carried over.

    Returns:
        The reports, figures about them, and those that could not be written.
    """
    found = cached_conflicts(units, tables, workspace)
    async with open_gateway(workspace) as gateway:
        made = await write_through(gateway, units.num_rows, tables, found.conflicts, workspace, previous)
        gateway.smaller_helped("community_reports", made.smaller)
        usage = gateway.usage()
    metadata = {
        "reports_written": made.written,
        "reports_reused": made.reused,
        "reports_failed": made.failed,
        "reports_to_try_again": len(made.passing),
        "sub_reports_used": made.substituted,
        "invented_citations_dropped": made.dropped_citations,
        "contradictions_found": len(found.conflicts),
        **{f"rows_left_out/{name}": count for name, count in made.trimmed.items()},
    }
    undone = undone_reports(made.rows, tables["communities"], made.passing)
    metadata |= usage_metadata(usage, asking_stages(workspace, "community_reports"))
    return COMMUNITY_REPORTS.from_rows(made.rows), metadata, undone


def undone_reports(rows: Sequence[Mapping[str, Any]], communities: pa.Table, passing: frozenset[str]) -> list[Undone]:
    """The communities whose report is a stand-in.

    Args:
        rows: Rows of community_reports.
        communities: The communities.
        passing: Ids of the reports that stand in for a reason that may pass.
    """
    numbers = (communities[name].to_pylist() for name in ("community", "id"))
    ids = dict(zip(*numbers, strict=True))
    return [
        Undone(ids[row["community"]], row["id"], row["status"], row["reason"], row["id"] in passing)
        for row in rows
        if row["status"] != "ok"
    ]


def write_extractively(
    units: pa.Table, tables: Tables, previous: Mapping[str, Mapping[str, Any]]
) -> tuple[pa.Table, dict[str, Any]]:
    """Reports in sentences of the sources, and figures about them; arguments as of :func:`write_with_llm`."""
    entities = tables["entities"].select(["title", "aliases", "text_unit_ids"]).to_pylist()
    statements = find_statements(units.to_pylist(), entities)
    found = find_conflicts(statements, tables["covariates"].to_pylist())
    rows = extractive_reports(
        tables["communities"].to_pylist(),
        tables["entities"].select(["id", "title", "degree", "text_unit_ids"]).to_pylist(),
        tables["relationships"].select(["id", "source", "target", "weight", "text_unit_ids"]).to_pylist(),
        statements,
        found.conflicts,
        text_units=units.num_rows,
    )
    reused = sum(row["id"] in previous for row in rows)
    return COMMUNITY_REPORTS.from_rows(rows), {
        "reports_written": len(rows) - reused,
        "reports_reused": reused,
        "contradictions_found": len(found.conflicts),
    }


def community_assets(workspace: Workspace) -> list[dg.AssetsDefinition]:
    """Declare communities and community_reports."""
    method = workspace.settings.effective_method

    @dg.asset(
        retry_policy=retries(workspace),
        check_specs=check_specs("communities"),
        **described("communities", GROUP, kinds={"parquet", "leiden"}, workspace=workspace),
    )
    @fails_at_once
    def communities(
        context: dg.AssetExecutionContext,
        config: CommunitiesConfig,
        index: Index,
        entities: pa.Table,
        relationships: pa.Table,
    ) -> Iterator[dg.AssetCheckResult | dg.Output[Built]]:
        give_back_memory()
        prints = index.fingerprints()
        settings = index.workspace.settings.cluster_graph
        earlier = None if config.recluster else earlier_clustering(index)
        found = cluster(
            entities,
            relationships,
            max_cluster_size=settings.max_cluster_size,
            use_lcc=settings.use_lcc,
            seed=settings.seed,
            resolution=settings.resolution,
            dates=text_unit_dates(*(index.build.ref(name, prints.batches) for name in ("documents", "text_units"))),
            earlier=earlier,
            max_drift=settings.max_drift,
        )
        metadata: dict[str, Any] = {
            "levels": len(found.levels),
            "isolated_entities": found.isolated,
            "communities_above_max_cluster_size": len(found.oversized),
            "picture": dg.MetadataValue.md(graph_picture(entities, relationships, coarsest(found.communities))),
            **standing_figures(found.standing, earlier, found.communities),
        }
        for level in found.levels:
            metadata |= {
                f"level_{level.level}/communities": level.communities,
                f"level_{level.level}/modularity": level.modularity,
            }
        table = COMMUNITIES.conform(found.communities)
        rows = {"communities": table, "entities": entities, "relationships": relationships}
        yield from check_rows(["communities"], rows, index.workspace.settings.checks)
        known = {"top": found.standing.top, "leaves": found.standing.leaves}
        yield dg.Output(Built(table, index.stamp(prints, "communities"), figures=known), metadata=metadata)

    @dg.asset(
        ins={"text_units": dg.AssetIn(partition_mapping=every_batch)},
        pool="llm" if method == "standard" else None,
        retry_policy=retries(workspace, asks=method == "standard"),
        check_specs=check_specs("community_reports"),
        **described(
            "community_reports",
            GROUP,
            kinds={"parquet", "llm"} if method == "standard" else {"parquet"},
            workspace=workspace,
        ),
    )
    @fails_at_once
    def community_reports(
        context: dg.AssetExecutionContext,
        index: Index,
        text_units: TableRef,
        entities: pa.Table,
        relationships: pa.Table,
        covariates: pa.Table,
        communities: pa.Table,
    ) -> Iterator[dg.AssetCheckResult | dg.Output[Built]]:
        give_back_memory()
        prints = index.fingerprints()
        text_units = all_there(text_units, prints.batches)
        order = text_unit_order(index.build.ref("documents", prints.batches), text_units)
        units = in_order(text_units.table(["id", "text", "document_id"]), order)
        tables = {
            "entities": entities,
            "relationships": relationships,
            "covariates": covariates,
            "communities": communities,
        }
        undone: list[Undone] = []
        if index.workspace.settings.effective_method == "standard":
            reports, metadata, undone = run(write_with_llm(units, tables, index.workspace, earlier_reports(index)))
        else:
            reports, metadata = write_extractively(units, tables, earlier_reports(index))
        rows = {"communities": communities, "community_reports": reports}
        yield from check_rows(["community_reports"], rows, index.workspace.settings.checks)
        fingerprint = index.stamp(prints, "community_reports", undone=undone)
        best = dg.MetadataValue.md(best_report(reports))
        yield dg.Output(Built(reports, fingerprint), metadata=metadata | {"highest_ranked_report": best})

    return [communities, community_reports]


def coarsest(communities: pa.Table) -> dict[str, int]:
    """Community of the coarsest level by entity id."""
    rows = communities.select(["community", "level", "entity_ids"]).to_pylist()
    return {entity: row["community"] for row in rows if row["level"] == 0 for entity in row["entity_ids"]}


def best_report(reports: pa.Table) -> str:
    """Title and summary of the highest ranked report, as a taste for the asset's page."""
    rows = reports.select(["title", "summary", "rank", "community"]).to_pylist()
    if not rows:
        return "There are no communities."
    best = max(rows, key=lambda row: (row["rank"], -row["community"]))
    return f"**{best['title']}** (rank {best['rank']:.1f})\n\n{best['summary']}"
