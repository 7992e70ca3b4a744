"""graphrag-assets trace: where a row comes from, and what came of it."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

import click

from graphrag_assets.cli.output import fail, print_json, table
from graphrag_assets.settings import Workspace

#: Characters of a quote or a description that the terminal shows; --json gives all of it.
LONGEST = 240


def trace_command(
    workspace: Workspace, what: str, *, kind: str | None, snapshot: str | None, limit: int, as_json: bool
) -> None:
    """Trace a row and print it.

    Args:
        workspace: Names the storage.
        what: The row, as people name it.
        kind: Only rows of this kind.
        snapshot: Id of an older snapshot.
        limit: Most rows of a kind that are listed.
        as_json: Print one JSON object.
    """
    from graphrag_assets.query import open_index
    from graphrag_assets.trace import Ambiguous, NotFound, trace

    with open_index(workspace.uri(workspace.settings.storage.base), snapshot, workspace) as index:
        try:
            found = trace(index, what, kind=kind, limit=limit).to_dict()
        except Ambiguous as error:
            fail(str(error), "ambiguous", choices=[asdict(choice) for choice in error.choices])
        except NotFound as error:
            fail(str(error), "not_found", near=error.near)
    if as_json:
        print_json(found)
    else:
        click.echo(_described(found))


def _described(found: dict[str, Any]) -> str:
    lines = [f"{found['kind'].replace('_', ' ').capitalize()} {found['number']}: {found['title']}"]
    lines.append(f"id {found['id']}, snapshot {found['snapshot']}")
    for name, value in found["row"].items():
        if value not in (None, "", []) and name not in ("title", "content_hash"):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            lines.append(f"  {name}: {textwrap.shorten(shown, LONGEST, placeholder=' …')}")
    lines += [
        "",
        *_documents(found),
        *_passages(found),
        "",
        *_calls(found["calls"]),
        "",
        *_snapshots(found["snapshots"]),
    ]
    if found["downstream"]:
        lines += ["", *_downstream(found)]
    return "\n".join(lines)


def _more(part: dict[str, Any]) -> list[str]:
    left = part["count"] - len(part["listed"])
    return [f"  … {left} more (--limit shows them)"] if left > 0 else []


def _documents(found: dict[str, Any]) -> list[str]:
    part = found["documents"]
    rows = [f"  {d['path']} (version {d['version'][:12]}, {d.get('text_units', 0)} text units)" for d in part["listed"]]
    return [f"Documents: {part['count']}", *rows, *_more(part)]


def _passages(found: dict[str, Any]) -> list[str]:
    part = found["passages"]
    lines = [f"Passages: {part['count']}"]
    for passage in part["listed"]:
        place = f", characters {passage['start']}-{passage['end']}" if passage["start"] is not None else ""
        lines.append(f"  {passage['document']}{place} (text unit {passage['number']})")
        quote = textwrap.shorten(passage["quote"], LONGEST, placeholder=" …")
        lines.append(textwrap.indent(textwrap.fill(f"“{quote}”", 100), "    "))
    return [*lines, *_more(part)]


def _calls(calls: dict[str, Any]) -> list[str]:
    if not calls["known"]:
        return [f"Calls of models: not known, since {calls['why']}"]
    total = calls["total"]
    if not total["calls"]:
        return ["Calls of models: none made this row"]
    price = "price unknown" if total["usd"] is None else f"{total['usd']:.6f} USD"
    columns = ["stage", "turn", "model", "prompt", "calls", "cached", "prompt_tokens", "completion_tokens", "usd"]
    rows = [{**row, "usd": "unknown" if row["usd"] is None else f"{row['usd']:.6f}"} for row in calls["by_stage"]]
    head = (
        f"Calls of models: {total['calls']} ({total['cached']} taken from the cache), {total['prompt_tokens']} + "
        f"{total['completion_tokens']} tokens, {price}"
    )
    return [head, textwrap.indent(table(rows, columns), "  ")]


def _snapshots(found: dict[str, Any]) -> list[str]:
    held = found["in"]
    if not held:
        return ["Snapshots: none that is kept holds it"]
    lines = [f"Snapshots: {len(held)} of {found['of']}, from {found['first']} to {found['last']}"]
    versions = [entry for i, entry in enumerate(held) if i == 0 or entry.get("version") != held[i - 1].get("version")]
    if len(versions) > 1:
        lines += [f"  version {entry['version'][:12]} since {entry['snapshot']}" for entry in versions]
    return lines


def _downstream(found: dict[str, Any]) -> list[str]:
    lines = ["What came of it:"]
    for kind, part in found["downstream"].items():
        only = f", {part['only_here']} of them named nowhere else" if part.get("only_here") else ""
        lines.append(f"  {kind.replace('_', ' ')}: {part['count']}{only}")
        lines += [
            f"    {row['number']}  {textwrap.shorten(row['title'], 100, placeholder=' …')}" for row in part["listed"]
        ]
        lines += [f"  {line}" for line in _more(part)]
    return lines
