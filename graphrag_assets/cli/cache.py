"""graphrag-assets cache: what is in the cache of answers, taking out what is old, and moving it to another host."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from graphrag_assets.cli.index import open_places
from graphrag_assets.cli.output import fail, print_json, table
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.lease import exclusive


def _file(workspace: Workspace) -> Path:
    settings = workspace.settings.cache
    if not settings.enabled:
        fail("the cache is switched off (cache.enabled in settings.yaml)", "settings")
    return workspace.path(settings.path)


def _shared(workspace: Workspace) -> Any:
    """The objects of the shared cache; None where there is none."""
    from graphrag_assets.llm.caching.shared import shared_objects

    return shared_objects(workspace)


def show_command(workspace: Workspace, *, as_json: bool) -> None:
    """Show size, entries and how often answers were taken."""
    from graphrag_assets.llm.caching.care import contents, shared_contents

    found = contents(_file(workspace))
    objects = _shared(workspace)
    found["shared"] = None if objects is None else shared_contents(objects)
    if as_json:
        print_json(found)
        return
    lines = [
        f"{found['file']}: {found['answers']} answers, {found['vectors']} vectors, {found['bytes'] / 1e6:.1f} MB",
        "",
    ]
    if found["stages"]:
        rows = [
            row | {"MB": f"{row['bytes'] / 1e6:.2f}", "from": _day(row["oldest"]), "to": _day(row["newest"])}
            for row in found["stages"]
        ]
        lines += [table(rows, ["kind", "stage", "entries", "MB", "from", "to"]), ""]
    if found["hits"]:
        rows = [row | {"share": f"{row['rate']:.0%}"} for row in found["hits"]]
        lines += ["Asked, and taken from the cache, by rows of the index (ledger of calls):"]
        lines += [table(rows, ["stage", "model", "asked", "taken", "share"]), ""]
    if shared := found["shared"]:
        lines.append(
            f"{shared['address']}: {shared['answers']} answers, {shared['vectors']} vectors in {shared['packs']} packs, "
            f"{shared['bytes'] / 1e6:.1f} MB; {found.get('not_yet_shared', 0)} entries of this host are still to be sent"
        )
    click.echo("\n".join(lines).rstrip())


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def prune_command(
    workspace: Workspace, *, older_than: float | None, max_size: int | None, shared: bool, dry_run: bool, as_json: bool
) -> None:
    """Take out what is old; refused while the index is worked on."""
    from graphrag_assets.llm.caching.care import Pruned, prune_file, prune_shared

    if older_than is None and max_size is None:
        raise click.UsageError(
            "say from which age on entries go (--older-than 30d), how large the cache may be (--max-size 2GB), or both"
        )
    path = _file(workspace)
    objects = _shared(workspace) if shared else None
    if shared and objects is None:
        fail("no shared cache is set (cache.shared or cache.redis_url in settings.yaml)", "settings")

    def prune() -> Pruned:
        if objects is not None:
            return prune_shared(objects, older_than=older_than, max_bytes=max_size, dry_run=dry_run)
        return prune_file(path, older_than=older_than, max_bytes=max_size, dry_run=dry_run)

    if dry_run:
        done = prune()
    else:
        _, storage = open_places(workspace)
        with exclusive(storage, "graphrag-assets cache prune", workspace.settings.automation.lease_seconds):
            done = prune()
    told = asdict(done) | {"bytes": {"before": done.bytes[0], "after": done.bytes[1]}, "dry_run": dry_run}
    if as_json:
        print_json(told)
        return
    word, after = ("Would take out", "about ") if dry_run else ("Took out", "")
    counts = ", ".join(f"{count} {name}" for name, count in done.entries.items())
    stay = ", ".join(f"{count} {name}" for name, count in done.kept.items())
    click.echo(
        f"{word} {counts}; {stay} stay ({done.bytes[0] / 1e6:.1f} MB before, {after}{done.bytes[1] / 1e6:.1f} MB after)"
    )
    if not done.shrunk:
        click.echo(
            "Another process has the file open: the room is used for new answers, and given back at a later prune."
        )


def export_command(workspace: Workspace, file: Path, *, as_json: bool) -> None:
    """Write the cache into one file."""
    from graphrag_assets.llm.caching.exchange import export_cache

    counts = export_cache(file, _file(workspace), _shared(workspace))
    if as_json:
        print_json({"file": str(file.absolute()), "bytes": file.stat().st_size, **counts})
        return
    click.echo(f"{file}: {counts['answers']} answers, {counts['vectors']} vectors, {file.stat().st_size / 1e6:.1f} MB")
    click.echo("It holds answers of models in plain text: treat it as you treat the documents.")


def import_command(workspace: Workspace, file: Path, *, as_json: bool) -> None:
    """Take what another cache holds."""
    from graphrag_assets.llm.caching.exchange import import_cache
    from graphrag_assets.llm.caching.shared import open_cache

    _file(workspace)
    cache = open_cache(workspace, must_keep=True)
    try:
        done = import_cache(file, cache)
    finally:
        cache.close()
    kinds = ("answers", "vectors")
    told = {
        "added": {kind: done.added[kind] for kind in kinds},
        "known": {kind: done.known[kind] for kind in kinds},
        "rejected": dict(sorted(done.rejected.items())),
        "examples": done.examples,
    }
    if as_json:
        print_json(told)
        return
    click.echo(
        f"Added {done.added['answers']} answers and {done.added['vectors']} vectors; "
        f"{sum(done.known.values())} entries were there already."
    )
    for reason, count in sorted(done.rejected.items()):
        rows = ", ".join(str(example["row"]) for example in done.examples if example["reason"] == reason)
        click.echo(f"Rejected {count} rows: {reason} (rows {rows or 'beyond those that are listed'}).")
