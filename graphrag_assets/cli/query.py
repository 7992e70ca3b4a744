"""graphrag-assets query: ask a question."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

import click

from graphrag_assets.cli.output import fail, print_json
from graphrag_assets.settings import Workspace

if TYPE_CHECKING:
    from graphrag_assets.query import Answer


#: Characters of a quote that the terminal shows; --json gives all of it.
LONGEST_QUOTE = 300


def query_command(
    workspace: Workspace,
    question: str,
    *,
    as_json: bool,
    method: str,
    snapshot: str | None,
    response_type: str,
    community_level: int | None,
    stream: bool,
) -> None:
    """Ask the published index and print the answer with its citations."""
    from graphrag_assets.assets.built_with import differences, told
    from graphrag_assets.query import ask_sync, open_index

    if not question.strip():
        fail('the question is empty; ask one, such as: graphrag-assets query "Who signed the contract?"', "query")

    def show(piece: str) -> None:
        sys.stdout.write(piece)
        sys.stdout.flush()

    with open_index(workspace.uri(workspace.settings.storage.base), snapshot, workspace) as index:
        changed = differences(index.manifest.info, workspace)
        if changed:
            note = "the index was built with other settings; this answer is from the index as it is, and"
            click.echo(f"note: {note} graphrag-assets index would rebuild it ({told(changed)})", err=True)
        answer = ask_sync(
            index,
            question,
            method,  # type: ignore[arg-type]
            response_type=response_type,
            level=community_level,
            on_text=show if stream and not as_json else None,
        )
    if as_json:
        print_json(answer.to_dict() | {"settings_changed": changed})
        return
    # An extractive answer is complete at once, and so is never streamed.
    click.echo("\n" if stream and not answer.extractive else answer.answer)
    click.echo(sources(answer))


def sources(answer: Answer) -> str:
    """Method, snapshot and every citation with the passage it leads to."""
    kind = "extractive " if answer.extractive else ""
    lines = [f"\n({kind}{answer.method} search of snapshot {answer.snapshot}, {answer.seconds['total']:.1f} s)"]
    for citation in answer.citations:
        place = f": {citation.document}, characters {citation.start}-{citation.end}" if citation.document else ""
        lines.append(f"{citation.marker} {citation.kind.replace('_', ' ')} {citation.title}{place}")
        if citation.quote:
            quote = textwrap.shorten(citation.quote, LONGEST_QUOTE, placeholder=" …")
            lines.append(textwrap.indent(textwrap.fill(f"“{quote}”", 100), "    "))
    if answer.dropped_citations:
        lines.append(f"Removed, since the model made them up: {', '.join(answer.dropped_citations)}")
    return "\n".join(lines)
