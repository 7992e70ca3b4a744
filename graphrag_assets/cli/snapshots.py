"""graphrag-assets snapshots: list and show."""

from __future__ import annotations

from dataclasses import asdict

import click

from graphrag_assets.cli.index import open_places
from graphrag_assets.cli.output import fail, print_json, table
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.snapshots import SnapshotStore


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
    manifest = store.get(snapshot) if snapshot else store.current()
    if manifest is None:
        fail(f"nothing is published at {storage.base}: run graphrag-assets index first", "no_snapshot")
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
