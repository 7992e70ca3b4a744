"""The commands under graphrag-assets cache."""

from __future__ import annotations

from pathlib import Path

import click

from graphrag_assets.cli.options import Age, Size, common, prepare


@click.group()
def cache() -> None:
    """Answers of models that are kept."""


@cache.command("show")
@common
def cache_show(root: Path | None, as_json: bool, verbose: bool) -> None:
    """Show size, entries, and how often answers were taken instead of paid for."""
    from graphrag_assets.cli.cache import show_command

    show_command(prepare(root, verbose), as_json=as_json)


@cache.command("prune")
@click.option(
    "--older-than", type=Age(), metavar="AGE", help="Age since the last use from which entries go, such as 30d."
)
@click.option("--max-size", type=Size(), metavar="SIZE", help="Size that the oldest go for, such as 2GB.")
@click.option("--shared", is_flag=True, help="Prune the shared cache (cache.shared) instead of the file of this host.")
@click.option("--dry-run", is_flag=True, help="Only tell what would go.")
@common
def cache_prune(
    older_than: float | None,
    max_size: int | None,
    shared: bool,
    dry_run: bool,
    root: Path | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Take out what is old; never while the index is worked on."""
    from graphrag_assets.cli.cache import prune_command

    workspace = prepare(root, verbose)
    prune_command(workspace, older_than=older_than, max_size=max_size, shared=shared, dry_run=dry_run, as_json=as_json)


@cache.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@common
def cache_export(file: Path, root: Path | None, as_json: bool, verbose: bool) -> None:
    """Write all answers and vectors into FILE (Parquet), for another host or workspace."""
    from graphrag_assets.cli.cache import export_command

    export_command(prepare(root, verbose), file, as_json=as_json)


@cache.command("import")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@common
def cache_import(file: Path, root: Path | None, as_json: bool, verbose: bool) -> None:
    """Take the answers and vectors in FILE, as far as they are not here already."""
    from graphrag_assets.cli.cache import import_command

    import_command(prepare(root, verbose), file, as_json=as_json)
