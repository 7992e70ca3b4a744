"""graphrag-assets status and doctor: what is published, what waits, what failed, and whether all is in order."""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from graphrag_assets.assets.built_with import differences, told
from graphrag_assets.assets.expected import compared
from graphrag_assets.assets.fingerprints import Fingerprints
from graphrag_assets.automation.plan import last_inventory, missing_work
from graphrag_assets.cli.day import day_lines, day_of
from graphrag_assets.cli.exchange import finding_lines
from graphrag_assets.cli.index import (
    flight_json,
    flights_of,
    open_places,
    pruned,
    pruned_line,
    text_unit_counts,
    text_unit_line,
)
from graphrag_assets.cli.output import print_json, table
from graphrag_assets.cli.undone import Failures, answer_lines, ladder_lines
from graphrag_assets.input.folder import InputError, require_input
from graphrag_assets.input.inventory import file_changes
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.build import BuildArea
from graphrag_assets.storage.filesystem import FileSystem
from graphrag_assets.storage.ladder import read_ladder
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore

#: Failed rows that the text output lists; --json has all of them. Rejected files are all listed.
SHOWN = 10


def status_command(workspace: Workspace, *, as_json: bool) -> None:
    """Show the published snapshot, what a reconcile would do, and what failed."""
    source, storage = open_places(workspace)
    manifest = SnapshotStore(storage).current()
    failures = Failures(workspace, storage)
    report = {
        "root": str(workspace.root),
        "input": source.base,
        "method": workspace.settings.effective_method,
        "published": _published(manifest, storage),
        "settings_changed": differences(manifest.info, workspace) if manifest else {},
        "waiting": _waiting(workspace, source, storage, manifest),
        "day": day_of(workspace),
        "failed_text_units": failures.told(
            "extraction",
            _failed(storage, manifest, "text_units", ["id", "document_id", "position", "status", "reason"]),
        ),
        "failed_summaries": failures.summaries(),
        "failed_reports": failures.told(
            "community_reports",
            _failed(storage, manifest, "community_reports", ["id", "community", "title", "status", "reason"]),
        ),
        "rejected_inputs": _rejected(workspace, storage),
        "provider_batches": [flight_json(flight) for flight in flights_of(workspace)],
        "ladder": read_ladder(storage),
    }
    if as_json:
        print_json(report)
    else:
        click.echo(_describe(report))


def _published(manifest: Manifest | None, storage: FileSystem) -> dict[str, Any] | None:
    if manifest is None:
        return None
    return {
        "snapshot": manifest.id,
        "created": manifest.created,
        "method": manifest.info.get("method"),
        "imported": manifest.info.get("imported"),
        "import_findings": manifest.info.get("import_findings") or [],
        "tables": {name: file.rows for name, file in sorted(manifest.tables.items())},
        "vectors": {name: vectors.model for name, vectors in sorted(manifest.vectors.items())},
        "text_units": text_unit_counts(storage, manifest),
        "pruned": pruned(manifest),
        "run": {name: value for name, value in manifest.run.items() if name.startswith("seconds")},
        "expected_by": manifest.run.get("expected_by"),
        "expected_and_taken": compared(manifest.run),
    }


def _waiting(
    workspace: Workspace, source: FileSystem, storage: FileSystem, manifest: Manifest | None
) -> dict[str, Any]:
    """Files that changed since the last look, and stages that settings or earlier failures leave to be done."""
    try:
        require_input(source)
    except InputError as error:
        return {"files": {}, "batches": [], "stages": [], "publish": False, "documents": 0, "problem": str(error)}
    before = last_inventory(workspace, BuildArea(storage))
    changes = file_changes(source, workspace.settings, before)
    waiting: dict[str, Any] = {"files": changes, "batches": [], "stages": [], "publish": before is None}
    waiting["documents"] = before.documents.num_rows if before else 0
    if before is not None:
        fingerprint = str(manifest.info.get("fingerprint")) if manifest else None
        work = missing_work(workspace, storage, Fingerprints(workspace, before.documents), fingerprint)
        stages = [*work.stages, *work.corpus_stages]
        waiting |= {"batches": work.batches, "stages": stages, "publish": work.publish}
    return waiting


def _failed(storage: FileSystem, manifest: Manifest | None, name: str, columns: list[str]) -> list[dict[str, Any]]:
    if manifest is None:
        return []
    rows: list[dict[str, Any]] = read_table(storage, manifest.tables[name].path, columns).to_pylist()
    return [row for row in rows if row["status"] not in ("ok", "empty")]


def _rejected(workspace: Workspace, storage: FileSystem) -> list[dict[str, Any]]:
    before = last_inventory(workspace, BuildArea(storage))
    rows: list[dict[str, Any]] = before.rejected.to_pylist() if before else []
    return rows


def _made(published: dict[str, Any]) -> str:
    """How a snapshot came about."""
    imported = published["imported"]
    if not imported:
        return f"method {published['method']}"
    return f"imported from {imported['from']} (Microsoft GraphRAG, schema of version {imported['version']})"


def _describe(report: dict[str, Any]) -> str:
    published, waiting = report["published"], report["waiting"]
    lines = [f"Workspace {report['root']}, method {report['method']}"]
    if published is None:
        count = sum(waiting["files"].values())
        wait = f"{count} file{'s wait' if count != 1 else ' waits'} in {report['input']}: " if count else ""
        first = "" if count else f"Put documents into {report['input']}, then "
        if waiting["documents"] and not count:
            wait, first = "A run read the input and did not come to its end: ", ""
        lines.append(f"Nothing is indexed yet. {wait}{first}run graphrag-assets index --root {report['root']}")
    else:
        lines += [
            f"Published: snapshot {published['snapshot']} of {published['created']}, {_made(published)}",
            text_unit_line(published["text_units"]),
            *pruned_line(published["pruned"]),
            "",
            table([{"table": n, "rows": r} for n, r in published["tables"].items()], ["table", "rows"]),
            "",
            *_expectation(published["expected_and_taken"], published["expected_by"]),
        ]
    if published and published["import_findings"]:
        lines += [*finding_lines(published["import_findings"])[1:], ""]
    files = waiting["files"]
    if published and published["imported"]:
        lines.append("It was imported: what is in the input is indexed only by graphrag-assets index --replace.")
    elif problem := waiting.get("problem"):
        lines.append(f"Waiting: {problem}")
    elif any(files.values()) or waiting["batches"] or waiting["stages"]:
        seen = ", ".join(f"{count} {name}" for name, count in files.items() if count) or "none changed"
        lines.append(
            f"Waiting: files {seen}; {len(waiting['batches'])} batches; stages {', '.join(waiting['stages']) or 'none'}"
        )
    elif published and waiting["publish"]:
        lines.append(
            "Waiting: the published snapshot is not that of the input and the settings as they are now, as after "
            "snapshots rollback: graphrag-assets index publishes theirs."
        )
    elif published is not None:
        lines.append("The index is up to date with the input and the settings.")
    lines += day_lines(report["day"])
    if flights := report["provider_batches"]:
        columns = ["entry", "stages", "questions", "done", "status", "sent", "batch"]
        shown_flights = [{**flight, "stages": ", ".join(flight["stages"])} for flight in flights]
        lines += ["", f"Waiting for batches of providers: {len(flights)}", table(shown_flights, columns)]
    if changed := report["settings_changed"]:
        lines.append(f"The index was built with other settings ({told(changed)}).")
        lines.append("Queries read it as it is; graphrag-assets index brings it to the settings of now.")
    for name, columns in (
        ("failed_text_units", ["id", "status", "tries", "next_try", "reason"]),
        ("failed_summaries", ["id", "tries", "next_try", "reason"]),
        ("failed_reports", ["community", "title", "tries", "next_try", "reason"]),
        ("rejected_inputs", ["file", "location", "reason", "detail"]),
    ):
        rows = report[name]
        if rows:
            reasons = Counter(row["reason"] for row in rows).most_common()
            lines += ["", f"{name.replace('_', ' ').capitalize()}: {len(rows)}"]
            shown = len(rows) if name == "rejected_inputs" else SHOWN
            lines.append(table(rows[:shown], columns))
            lines += answer_lines(rows) if name != "rejected_inputs" else []
            if len(rows) > shown:
                lines.append(f"… {len(rows) - shown} more; by reason: {', '.join(f'{n} {r}' for r, n in reasons[:5])}")
    return "\n".join([*lines, *ladder_lines(report["ladder"])])


def _expectation(rows: list[dict[str, Any]], by: str | None) -> list[str]:
    """What the run that published the snapshot was expected to take, and took."""
    if not rows:
        return []
    shown = [
        {
            "stage": row["stage"],
            **{
                name: f"{_expected(row, figure)} / {row[f'{figure}_taken']}"
                for name, figure in (
                    ("calls", "calls"),
                    ("cached", "cached"),
                    ("prompt tokens", "prompt_tokens"),
                    ("completion tokens", "completion_tokens"),
                )
            },
            "usd": " / ".join(
                "unknown" if row[f"usd_{side}"] is None else f"{row[f'usd_{side}']:.4f}"
                for side in ("expected", "taken")
            ),
        }
        for row in rows
    ]
    columns = ["stage", "calls", "cached", "prompt tokens", "completion tokens", "usd"]
    how = "from lengths and past calls" if by == "estimate" else "by a plan"
    return [f"What its run was expected to take / took ({how}):", table(shown, columns), ""]


def _expected(row: dict[str, Any], figure: str) -> str:
    """A figure, with its range where it is estimated."""
    value, bounds = row[f"{figure}_expected"], (row["range"] or {}).get(figure)
    if value is None:
        return "unknown"
    return str(value) if not bounds or bounds[0] == bounds[1] else f"~{value} ({bounds[0]}-{bounds[1]})"


def doctor_command(root: Path | None, *, online: bool, as_json: bool) -> None:
    """Look at everything that an index run needs; exit code 1 where something would fail."""
    from graphrag_assets.cli.doctor import diagnose_root, worst

    findings = diagnose_root(root or os.environ.get("GRAPHRAG_ROOT"), online)
    gravest = worst(findings)
    if as_json:
        failing = [finding.name for finding in findings if finding.status == "fail"]
        error = {"message": f"would fail: {', '.join(dict.fromkeys(failing))}", "type": "doctor"}
        report = {"status": gravest, "findings": [asdict(finding) for finding in findings]}
        print_json(report | ({"error": error} if failing else {}))
    else:
        marks = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}
        for finding in findings:
            click.echo(f"{marks[finding.status]}  {finding.name}: {finding.detail}")
            if finding.mend:
                click.echo(f"      → {finding.mend}")
    sys.exit(1 if gravest == "fail" else 0)
