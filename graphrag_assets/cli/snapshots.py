"""graphrag-assets snapshots: list, show, diff, rollback, prune."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from graphrag_assets.cli.index import open_places
from graphrag_assets.cli.output import fail, print_json, table
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.lease import exclusive
from graphrag_assets.storage.snapshots import Manifest, SnapshotError, SnapshotStore


def list_command(workspace: Workspace, *, as_json: bool) -> None:
    """List all snapshots, oldest first; the published one is marked."""
    _, storage = open_places(workspace)
    store = SnapshotStore(storage)
    _, published = store.head()
    rows = [
        {
            "id": m.id,
            "created": m.created,
            "published": m.id == published,
            "documents": m.tables["documents"].rows,
            "entities": m.tables["entities"].rows,
            "relationships": m.tables["relationships"].rows,
            "reports": m.tables["community_reports"].rows,
        }
        for m in store.all()
    ]
    if as_json:
        print_json({"published": published, "snapshots": rows})
    else:
        click.echo(table(rows, ["id", "created", "published", "documents", "entities", "relationships", "reports"]))


def show_command(workspace: Workspace, snapshot: str | None, *, as_json: bool) -> None:
    """Show one snapshot."""
    _, storage = open_places(workspace)
    store = SnapshotStore(storage)
    manifest = _open(store, snapshot)
    if as_json:
        print_json(asdict(manifest) | {"base": storage.base})
        return
    click.echo(f"Snapshot {manifest.id} of {manifest.created}, method {manifest.info.get('method')}, at {storage.base}")
    files = [{"table": n, "rows": f.rows, "bytes": f.bytes, "file": f.path} for n, f in manifest.tables.items()]
    click.echo(table(files, ["table", "rows", "bytes", "file"]))
    vectors = [
        {"vectors": n, "rows": v.rows, "dimension": v.dimension, "version": v.version, "folder": v.path}
        for n, v in manifest.vectors.items()
    ]
    click.echo("\n" + table(vectors, ["vectors", "rows", "dimension", "version", "folder"]))


def _open(store: SnapshotStore, snapshot: str | None) -> Manifest:
    """A snapshot, by default the published one."""
    manifest = store.get(snapshot) if snapshot else store.current()
    if manifest is None:
        fail(f"nothing is published at {store.filesystem.base}: run graphrag-assets index first", "no_snapshot")
    return manifest


def diff_command(workspace: Workspace, earlier: str | None, later: str | None, *, examples: int, as_json: bool) -> None:
    """Show what differs between two snapshots: by default the published one and the one before it."""
    from graphrag_assets.storage.differences import community_lineage, compare

    _, storage = open_places(workspace)
    store = SnapshotStore(storage)
    after = _open(store, later)
    before = store.get(earlier) if earlier else _before(store, after)
    found = {name: rows.as_dict(examples) for name, rows in compare(storage, before, after).items()}
    lineage = community_lineage(storage, before, after)
    fates = dict(sorted(Counter(row["fate"] for row in lineage).items()))
    if as_json:
        moved = [row for row in lineage if row["fate"] != "kept"]
        print_json({"from": before.id, "to": after.id, "tables": found, "fates": fates, "communities": moved})
        return
    click.echo(f"From {before.id} ({before.created}) to {after.id} ({after.created})")
    kinds = ["added", "removed", "changed", "unchanged"]
    click.echo(table([{"table": name, **rows} for name, rows in found.items()], ["table", *kinds]))
    click.echo("\nCommunities: " + (", ".join(f"{count} {fate}" for fate, count in fates.items()) or "none"))
    for name, rows in found.items():
        if name != "communities":
            for kind, names in rows["examples"].items():
                more = rows[kind] - len(names)
                click.echo(f"{name} {kind}: {'; '.join(names)}" + (f"; and {more} more" if more else ""))


def _before(store: SnapshotStore, manifest: Manifest) -> Manifest:
    if manifest.parent is None:
        fail(f"snapshot {manifest.id} is the first one: there is none before it to compare with", "snapshot")
    try:
        return store.get(manifest.parent)
    except SnapshotError:
        others = ", ".join(m.id for m in store.all() if m.id != manifest.id)
        told = f"name the one to compare with: {others}" if others else "it is the only one"
        fail(f"the snapshot before {manifest.id} was removed (snapshots prune); {told}", "snapshot")


def rollback_command(workspace: Workspace, snapshot: str, *, as_json: bool) -> None:
    """Make an older snapshot the published one again."""
    _, storage = open_places(workspace)
    store = SnapshotStore(storage)
    with exclusive(storage, "graphrag-assets snapshots rollback", workspace.settings.automation.lease_seconds):
        _, published = store.head()
        manifest = store.rollback(snapshot) if snapshot != published else store.get(snapshot)
    if as_json:
        print_json({"published": manifest.id, "before": published})
    elif snapshot == published:
        click.echo(f"Snapshot {manifest.id} is the published one already.")
    else:
        click.echo(f"Snapshot {manifest.id} of {manifest.created} is published again, in place of {published}.")
        click.echo("The next graphrag-assets index publishes the state of the input: mend the input first.")


def prune_command(workspace: Workspace, *, keep: int | None, days: float | None, dry_run: bool, as_json: bool) -> None:
    """Remove old snapshots."""
    from graphrag_assets.storage.pruning import prune

    if keep is None and days is None:
        raise click.UsageError(
            "say how many snapshots to keep (--keep N), from which age on they go (--older-than), or both"
        )
    _, storage = open_places(workspace)
    age = None if days is None else timedelta(days=days)
    if dry_run:
        done = prune(storage, keep=keep, older_than=age, dry_run=True)
    else:
        with exclusive(storage, "graphrag-assets snapshots prune", workspace.settings.automation.lease_seconds):
            done = prune(storage, keep=keep, older_than=age)
    told: dict[str, Any] = {"dry_run": dry_run, **asdict(done)}
    if as_json:
        print_json(told | {"snapshots": list(done.snapshots)})
        return
    word = "Would remove" if dry_run else "Removed"
    names = ", ".join(done.snapshots) or "no snapshot"
    click.echo(f"{word} {names} ({done.files} files, {done.bytes / 1e6:.1f} MB)")
