"""graphrag-assets import and export: indexes of Microsoft GraphRAG in and out, and graphs for other tools."""

from __future__ import annotations

import asyncio
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphrag_assets.cli.index import open_places, usage_json
from graphrag_assets.cli.output import fail, print_json, table
from graphrag_assets.cli.showing import progress_on_terminal
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.filesystem import require_writable
from graphrag_assets.storage.lease import exclusive
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore

#: Examples of a finding that the text output names, and their characters.
SHOWN, LONGEST_EXAMPLE = 2, 60

if TYPE_CHECKING:
    from graphrag_assets.exchange.importing import VectorPolicy


def import_command(workspace: Workspace, folder: Path, *, vectors: VectorPolicy, replace: bool, as_json: bool) -> None:
    """Import an index and publish it, then print what was done and what was found."""
    from graphrag_assets.exchange.importing import import_graphrag

    started = time.monotonic()
    _, storage = open_places(workspace)
    published = SnapshotStore(storage).current()
    if published is not None and not replace:
        fail(
            f"snapshot {published.id} ({origin(published)}) is published at {storage.base}: import into a workspace of "
            "its own, or let the import take its place with --replace (the snapshot is kept, and --snapshot still reads it)",
            "snapshot",
        )
    require_writable(storage)
    seconds = workspace.settings.automation.lease_seconds
    with exclusive(storage, "graphrag-assets import", seconds), progress_on_terminal():
        done = asyncio.run(import_graphrag(folder, workspace, storage, vectors))
    report = {
        "snapshot": done.manifest.id,
        "new_snapshot": done.new,
        "source": str(folder),
        "version": done.version,
        "tables": {name: file.rows for name, file in sorted(done.manifest.tables.items())},
        "vectors": done.vectors,
        "findings": done.findings,
        "llm": usage_json(dict(done.usage)),
        "seconds": round(time.monotonic() - started, 3),
    }
    if as_json:
        print_json(report)
    else:
        click.echo(_describe(report))


def _describe(report: dict[str, Any]) -> str:
    lines = [
        f"Read an index of Microsoft GraphRAG, schema of version {report['version']}, from {report['source']}",
        "",
        table([{"table": name, "rows": rows} for name, rows in report["tables"].items()], ["table", "rows"]),
        "",
        *(
            f"Vectors {name}: {counts['kept']} kept, {counts['embedded']} embedded"
            for name, counts in report["vectors"].items()
        ),
        *finding_lines(report["findings"]),
        "",
        f"Published snapshot {report['snapshot']} in {report['seconds']:.1f} s."
        if report["new_snapshot"]
        else f"Snapshot {report['snapshot']} has this content and stays published.",
    ]
    return "\n".join(lines)


def finding_lines(findings: list[dict[str, Any]]) -> list[str]:
    """What was found, one line a kind; the rows are in the table rejected_inputs."""
    if not findings:
        return ["Nothing was wrong with the tables."]
    lines = [f"  {f['table']}: {f['count']} {f['action']}: {f['meaning']}{_examples(f)}" for f in findings]
    return ["", 'Findings (all rows: graphrag-assets sql "select * from rejected_inputs"):', *lines]


def _examples(finding: dict[str, Any]) -> str:
    named = [textwrap.shorten(example, LONGEST_EXAMPLE, placeholder=" …") for example in finding["examples"][:SHOWN]]
    return f" ({', '.join(named)}{', …' if finding['count'] > len(named) else ''})" if named else ""


def origin(manifest: Manifest) -> str:
    """Where a snapshot comes from, in words."""
    imported = manifest.info.get("imported")
    return f"imported from {imported['from']}" if imported else "made by graphrag-assets index"


def export_command(workspace: Workspace, target: Path, *, form: str, snapshot: str | None, as_json: bool) -> None:
    """Write a snapshot in the format of another program."""
    from graphrag_assets.exchange import graphs
    from graphrag_assets.exchange.exporting import Snapshot, export, write_graphrag

    _, storage = open_places(workspace)
    store = SnapshotStore(storage)
    manifest = store.get(snapshot) if snapshot else store.current()
    if manifest is None:
        fail(f"nothing is published at {storage.base}: run graphrag-assets index first", "no_snapshot")
    writers = {
        "graphrag": write_graphrag,
        "graphml": graphs.write_graphml,
        "neo4j": graphs.write_neo4j,
        "csv": graphs.write_csv,
    }
    files = export(Snapshot(storage, manifest), target, writers[form])
    if as_json:
        print_json({"snapshot": manifest.id, "format": form, "directory": str(target.absolute()), "files": files})
        return
    click.echo(f"Wrote snapshot {manifest.id} to {target}:")
    for file in files:
        click.echo(f"  {file}")
