"""The command line: graphrag-assets COMMAND. Results on standard output, progress and logs on standard error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from graphrag_assets import __version__
from graphrag_assets.cli.cache_commands import cache
from graphrag_assets.cli.commands import Commands
from graphrag_assets.cli.options import FiniteRange
from graphrag_assets.cli.options import common as _common
from graphrag_assets.cli.options import prepare as _prepare
from graphrag_assets.cli.output import fail, print_json
from graphrag_assets.cli.tuning_options import tuning_options
from graphrag_assets.machine import keep_memory_small


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="graphrag-assets")
def main() -> None:
    """Graph RAG as a Dagster project: index a folder of documents, ask questions, get cited answers."""
    keep_memory_small()  # before the module of any command, which imports Arrow


@main.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--model", help="Completion model as provider/name, such as openai/gpt-4.1-mini.")
@click.option("--embedding", help="Embedding model as provider/name.")
@click.option("--force", is_flag=True, help="Replace settings and prompts that exist.")
@_common
def init(
    directory: Path,
    model: str | None,
    embedding: str | None,
    force: bool,
    root: Path | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Make a new workspace: settings.yaml, prompts/, input/ and what Dagster's commands read."""
    from graphrag_assets.cli.init import InitError, init_workspace, workspace_files

    target = root / directory if root else directory
    try:
        written = init_workspace(target, model, embedding, force)
    except InitError as error:
        fail(str(error), "init")
    kept = [path for path in workspace_files(target) if path not in written]
    if as_json:
        print_json(
            {"directory": str(target.absolute()), "files": [str(p) for p in written], "kept": [str(p) for p in kept]}
        )
        return
    if kept:
        click.echo(f"Kept as they are: {', '.join(str(path.relative_to(target)) for path in kept)}")
    click.echo(f"New workspace in {target}: put documents into {target / 'input'}, then run")
    click.echo(f"  graphrag-assets index --root {target}")


@main.command("import")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["graphrag"]), default="graphrag", show_default=True)
@click.option(
    "--vectors",
    type=click.Choice(["auto", "keep", "embed"]),
    default="auto",
    show_default=True,
    help="Keep the vectors of the source where its settings name the model of this workspace (auto), keep them on your "
    "word (keep), or embed all texts anew (embed).",
)
@click.option("--replace", is_flag=True, help="Take the place of a snapshot that is published; it is kept.")
@_common
def import_(
    directory: Path, form: str, vectors: Any, replace: bool, root: Path | None, as_json: bool, verbose: bool
) -> None:
    """Publish the index in DIRECTORY, which Microsoft GraphRAG wrote, as a snapshot of this workspace."""
    from graphrag_assets.cli.exchange import import_command

    import_command(_prepare(root, verbose), directory, vectors=vectors, replace=replace, as_json=as_json)


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["graphrag", "graphml", "neo4j", "csv"]),
    required=True,
    help="graphrag: what Microsoft GraphRAG reads, with vectors; graphml, neo4j, csv: the graph for graph tools.",
)
@click.option("--snapshot", help="Id of an older snapshot (default: the published one).")
@_common
def export(directory: Path, form: str, snapshot: str | None, root: Path | None, as_json: bool, verbose: bool) -> None:
    """Write a snapshot into DIRECTORY, a new folder, for another program."""
    from graphrag_assets.cli.exchange import export_command

    export_command(_prepare(root, verbose), directory, form=form, snapshot=snapshot, as_json=as_json)


@main.command()
@click.option("--method", type=click.Choice(["standard", "fast"]), help="Method of the run (default: settings).")
@click.option("--recluster", is_flag=True, help="Plan for a run that makes all communities afresh.")
@click.option(
    "--refresh", multiple=True, metavar="STAGE", help="Plan for a run that asks this stage anew (may be repeated)."
)
@click.option("--retry-failed", is_flag=True, help="Plan for a run that tries what failed at once.")
@_common
def plan(
    method: str | None,
    recluster: bool,
    refresh: tuple[str, ...],
    retry_failed: bool,
    root: Path | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Show what index would do and cost, stage by stage; spends nothing, changes nothing."""
    from graphrag_assets.cli.plan import plan_command

    if method:
        os.environ["GRAPHRAG__METHOD"] = method
    plan_command(
        _prepare(root, verbose), recluster=recluster, refresh=refresh, retry_failed=retry_failed, as_json=as_json
    )


@main.command()
@click.option("--method", type=click.Choice(["standard", "fast"]), help="Method for this run (default: settings).")
@click.option(
    "--allow-empty",
    is_flag=True,
    help="Delete all documents where the input holds none any more, or those of a folder that cannot be read.",
)
@click.option("--recluster", is_flag=True, help="Make all communities afresh, instead of keeping those that there are.")
@click.option(
    "--refresh",
    multiple=True,
    metavar="STAGE",
    help="Ask the model anew in this stage, such as community_reports, whatever answers are kept (may be repeated).",
)
@click.option("--replace", is_flag=True, help="Take the place of an imported snapshot; it is kept.")
@click.option("--wait", is_flag=True, help="Wait for another process that works on the index, instead of giving up.")
@click.option("--retry-failed", is_flag=True, help="Try what failed at once, instead of when it is time.")
@click.option("--budget", type=FiniteRange(min=0), metavar="USD", help="Most to spend (default: settings).")
@click.option("--budget-tokens", type=click.IntRange(min=0), metavar="N", help="Most tokens (default: settings).")
@click.option("--wait-for-batches", is_flag=True, help="Wait for batches of providers (batch_api), instead of ending.")
@_common
def index(
    method: str | None,
    allow_empty: bool,
    recluster: bool,
    refresh: tuple[str, ...],
    replace: bool,
    wait: bool,
    retry_failed: bool,
    budget: float | None,
    budget_tokens: int | None,
    wait_for_batches: bool,
    root: Path | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Bring the index to the state of the input, then publish a snapshot."""
    from graphrag_assets.automation.wish import Wish
    from graphrag_assets.cli.index import index_command

    if method:
        os.environ["GRAPHRAG__METHOD"] = method
    wish = Wish(allow_empty, recluster, replace, wait, retry_failed, refresh=refresh)
    index_command(
        _prepare(root, verbose),
        wish,
        as_json=as_json,
        usd=budget,
        tokens=budget_tokens,
        wait_for_batches=wait_for_batches,
    )


@main.command("tune-prompts")
@tuning_options
@click.option("--budget", "usd", type=FiniteRange(min=0), metavar="USD", help="Most to spend (default: settings).")
@click.option(
    "--budget-tokens", "tokens", type=click.IntRange(min=0), metavar="N", help="Most tokens (default: settings)."
)
@_common
def tune_prompts(root: Path | None, as_json: bool, verbose: bool, **options: Any) -> None:
    """Tune the prompts to your documents: domain, language, persona, entity types, worked examples."""
    from graphrag_assets.cli.tune import Options, tune_command

    tune_command(_prepare(root, verbose), Options(**options), as_json=as_json)


@main.command()
@click.argument("question")
@click.option(
    "--method", type=click.Choice(["auto", "local", "global", "drift", "basic"]), default="auto", show_default=True
)
@click.option("--snapshot", help="Id of an older snapshot (default: the published one).")
@click.option("--response-type", default="Multiple Paragraphs", show_default=True, help="Form of the answer.")
@click.option("--community-level", type=click.IntRange(min=0), help="Deepest level of reports (default: settings).")
@click.option("--stream", is_flag=True, help="Print the answer while it is written.")
@click.option(
    "--deadline",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Answer by then with the best there is.",
)
@click.option("--max-usd", type=FiniteRange(min=0), help="Ceiling of the price of this question (default: settings).")
@click.option("--max-tokens", type=click.IntRange(min=0), help="Ceiling of its tokens (default: settings).")
@click.option(
    "--dynamic-community-selection/--no-dynamic-community-selection",
    default=None,
    help="Let the model choose the reports of a global search (default: settings).",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Conversation so far: a JSON list of objects with role and content, oldest first.",
)
@click.option(
    "--filter",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Read only documents for which it holds, such as year>=1990, path=letters/* or 'kind in memo,letter' (may be "
    "repeated: all must hold).",
)
@click.option(
    "--document",
    "documents",
    multiple=True,
    metavar="ID_OR_PATH",
    help="Read only this document (may be repeated: these documents).",
)
@click.option(
    "--cache/--no-cache",
    "cache",
    default=None,
    help="Take answers of models from the cache, and keep them (default: settings).",
)
@click.option("--explain", is_flag=True, help="Show how search and context were chosen, and what was left out.")
@click.option("--unsupported", is_flag=True, help="List the sentences of the answer that no citation supports.")
@click.option(
    "--follow-ups", type=click.IntRange(min=0, max=50), default=0, help="Suggest so many questions to ask next."
)
@_common
def query(question: str, cache: bool | None, root: Path | None, as_json: bool, verbose: bool, **options: Any) -> None:
    """Ask a question."""
    from graphrag_assets.cli.query import query_command

    if cache is not None:
        os.environ["GRAPHRAG__QUERY__CACHE"] = str(cache).lower()

    query_command(_prepare(root, verbose), question, as_json=as_json, **options)


@main.command()
@click.argument("query", required=False)
@click.option("--snapshot", help="Id of an older snapshot (default: the published one).")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Form of the rows.",
)
@click.option("--tables", is_flag=True, help="List the tables and their columns (as without a query).")
@_common
def sql(
    query: str | None, snapshot: str | None, form: str, tables: bool, root: Path | None, as_json: bool, verbose: bool
) -> None:
    """Run one SQL query that reads the tables of a snapshot; without a query, list them."""
    from graphrag_assets.cli.sql import sql_command

    workspace = _prepare(root, verbose)
    sql_command(workspace, None if tables else query, snapshot=snapshot, form="json" if as_json else form)


@main.command()
@click.argument("row")
@click.option(
    "--kind",
    type=click.Choice(["document", "text_unit", "entity", "relationship", "claim", "community", "report"]),
    help="Only a row of this kind.",
)
@click.option("--snapshot", help="Id of an older snapshot (default: the published one).")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Rows of each kind that are listed."
)
@_common
def trace(
    row: str, kind: str | None, snapshot: str | None, limit: int, root: Path | None, as_json: bool, verbose: bool
) -> None:
    """Show where ROW comes from (documents, passages, calls of models, snapshots) and what came of it.

    ROW is an id, a path, a title or alias, two titles as 'A -> B', or a citation marker such as 'Reports (12)'.
    """
    from graphrag_assets.cli.trace import trace_command

    trace_command(_prepare(root, verbose), row, kind=kind, snapshot=snapshot, limit=limit, as_json=as_json)


@main.command()
@_common
def status(root: Path | None, as_json: bool, verbose: bool) -> None:
    """Show what is published, what is waiting, and what failed."""
    from graphrag_assets.cli.status import status_command

    status_command(_prepare(root, verbose), as_json=as_json)


@main.command()
@click.option("--online", is_flag=True, help="Also make one tiny call to each configured model.")
@_common
def doctor(online: bool, root: Path | None, as_json: bool, verbose: bool) -> None:
    """Check the installation, the settings, the input, the storage and the models."""
    from graphrag_assets.cli.status import doctor_command

    doctor_command(root, online=online, as_json=as_json)


@main.group()
def snapshots() -> None:
    """Published versions of the index."""


@snapshots.command("list")
@_common
def snapshots_list(root: Path | None, as_json: bool, verbose: bool) -> None:
    """List all snapshots."""
    from graphrag_assets.cli.snapshots import list_command

    list_command(_prepare(root, verbose), as_json=as_json)


@snapshots.command("show")
@click.argument("snapshot", required=False)
@_common
def snapshots_show(snapshot: str | None, root: Path | None, as_json: bool, verbose: bool) -> None:
    """Show one snapshot (default: the published one): tables, files, vectors."""
    from graphrag_assets.cli.snapshots import show_command

    show_command(_prepare(root, verbose), snapshot, as_json=as_json)


@snapshots.command("diff")
@click.argument("earlier", required=False)
@click.argument("later", required=False)
@click.option("--examples", type=click.IntRange(min=0), default=5, show_default=True, help="Names of each kind.")
@_common
def snapshots_diff(
    earlier: str | None, later: str | None, examples: int, root: Path | None, as_json: bool, verbose: bool
) -> None:
    """Show what differs between two snapshots (default: the published one and the one before it)."""
    from graphrag_assets.cli.snapshots import diff_command

    diff_command(_prepare(root, verbose), earlier, later, examples=examples, as_json=as_json)


@snapshots.command("rollback")
@click.argument("snapshot")
@_common
def snapshots_rollback(snapshot: str, root: Path | None, as_json: bool, verbose: bool) -> None:
    """Publish an older snapshot again."""
    from graphrag_assets.cli.snapshots import rollback_command

    rollback_command(_prepare(root, verbose), snapshot, as_json=as_json)


@snapshots.command("prune")
@click.option("--keep", type=click.IntRange(min=1), help="How many of the newest stay.")
@click.option("--older-than", "days", type=FiniteRange(min=0), metavar="DAYS", help="Age from which they go.")
@click.option("--dry-run", is_flag=True, help="Only tell what would go.")
@_common
def snapshots_prune(
    keep: int | None, days: float | None, dry_run: bool, root: Path | None, as_json: bool, verbose: bool
) -> None:
    """Remove old snapshots; never the published one, nor what another one needs."""
    from graphrag_assets.cli.snapshots import prune_command

    prune_command(_prepare(root, verbose), keep=keep, days=days, dry_run=dry_run, as_json=as_json)


main.add_command(cache)


@main.command()
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
@_common
def ui(port: int, host: str, root: Path | None, as_json: bool, verbose: bool) -> None:
    """Open the Dagster UI on this workspace: web server and daemon, until interrupted."""
    from graphrag_assets.cli.ui import ui_command

    ui_command(_prepare(root, verbose), host, port)


if __name__ == "__main__":
    main()
