"""graphrag-assets query: ask a question."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from graphrag_assets.cli.output import fail, print_json
from graphrag_assets.settings import Workspace

if TYPE_CHECKING:
    from graphrag_assets.query import Answer, Index
    from graphrag_assets.query.history import Turn


#: Characters of a quote that the terminal shows; --json gives all of it.
LONGEST_QUOTE = 300


@dataclass(frozen=True)
class Asking:
    """How a question is asked; see :func:`graphrag_assets.query.ask`.

    Args:
        follow_ups: Questions to suggest after the answer.
    """

    method: str
    response_type: str
    level: int | None
    deadline: float | None
    max_usd: float | None
    max_tokens: int | None
    dynamic: bool | None
    history: Sequence[Turn]
    follow_ups: int


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
    deadline: float | None = None,
    max_usd: float | None = None,
    max_tokens: int | None = None,
    dynamic_community_selection: bool | None = None,
    history: Path | None = None,
    explain: bool = False,
    unsupported: bool = False,
    follow_ups: int = 0,
    conditions: Sequence[str] = (),
    documents: Sequence[str] = (),
) -> None:
    """Ask the published index and print the answer with its citations."""
    from graphrag_assets.assets.built_with import differences, told
    from graphrag_assets.query import Filter, open_index

    if not question.strip():
        fail('the question is empty; ask one, such as: graphrag-assets query "Who signed the contract?"', "query")
    turns = read_history(history) if history else []

    if dynamic_community_selection and not workspace.settings.completion_models:
        note = "the reports are chosen by their similarity to the question, since no language model is configured"
        click.echo(f"note: {note}", err=True)

    def show(piece: str) -> None:
        sys.stdout.write(piece)
        sys.stdout.flush()

    asking = Asking(
        method,
        response_type,
        community_level,
        deadline,
        max_usd,
        max_tokens,
        dynamic_community_selection,
        turns,
        follow_ups,
    )
    on_text = show if stream and not as_json else None
    wanted = Filter.of(conditions, documents)
    with open_index(workspace.uri(workspace.settings.storage.base), snapshot, workspace) as whole:
        index = whole.within(wanted)
        changed = differences(index.manifest.info, workspace)
        if changed:
            note = "the index was built with other settings; this answer is from the index as it is, and"
            click.echo(f"note: {note} graphrag-assets index would rebuild it ({told(changed)})", err=True)
        answer, suggested = asyncio.run(_ask(index, question, asking, on_text, explain))
    if as_json:
        found = answer.to_dict(explain=explain, support=unsupported) | {"settings_changed": changed}
        print_json(found | ({"follow_ups": suggested} if follow_ups else {}))
        return
    click.echo("" if on_text else answer.answer)
    click.echo(sources(answer))
    if unsupported:
        click.echo("\n".join(_support_lines(answer)))
    if suggested:
        click.echo("\n".join(["\nYou may ask next:", *(f"- {text}" for text in suggested)]))
    if explain:
        from graphrag_assets.cli.explaining import explanation_lines

        click.echo("\n".join(explanation_lines(answer.explanation)))


async def _ask(
    index: Index, question: str, asking: Asking, on_text: Callable[[str], None] | None, explain: bool
) -> tuple[Answer, list[str]]:
    """Answer and suggestions, with the models opened once."""
    from graphrag_assets.llm.limiting.budget import limited_by
    from graphrag_assets.query import QueryError, ask
    from graphrag_assets.query.engine import ceiling
    from graphrag_assets.query.models import open_models
    from graphrag_assets.query.questions import follow_up_questions

    # One ceiling for the answer and the suggestions.
    budget = ceiling(index, asking.max_usd, asking.max_tokens)
    async with open_models(index) as models:
        answer = await ask(
            index,
            question,
            asking.method,  # type: ignore[arg-type]
            history=asking.history,
            response_type=asking.response_type,
            level=asking.level,
            deadline=asking.deadline,
            budget=budget,
            dynamic=asking.dynamic,
            models=models,
            on_text=on_text,
            explain_costs=explain,
        )
        if not asking.follow_ups:
            return answer, []
        try:
            asked = [*asking.history, {"role": "user", "content": question}]
            with limited_by(budget):
                return answer, await follow_up_questions(index, asked, asking.follow_ups, models)
        except QueryError as error:
            click.echo(f"note: no questions can be suggested: {error}", err=True)
            return answer, []


def read_history(file: Path) -> list[Turn]:
    """The turns of a conversation: a JSON list of objects with role (user or assistant) and content, oldest first."""
    expected = (
        'expected a JSON list such as [{"role": "user", "content": "Who …?"}, {"role": "assistant", "content": "…"}]'
    )
    try:
        turns = json.loads(file.read_text("utf-8"))
    except OSError as error:
        fail(f"--history: {file} cannot be read: {error.strerror or error}", "usage")
    except ValueError as error:
        fail(f"--history: {file} is no JSON ({error}); {expected}", "usage")
    if not isinstance(turns, list):
        fail(f"--history: {file} holds no list; {expected}", "usage")
    for number, turn in enumerate(turns, start=1):
        valid = isinstance(turn, dict) and isinstance(turn.get("content"), str)
        if not valid or turn.get("role") not in ("user", "assistant", "system"):
            fail(f"--history: entry {number} of {file} is no turn of a conversation; {expected}", "usage")
    return turns


def sources(answer: Answer) -> str:
    """Method, snapshot and every citation with the passage it leads to."""
    kind = "extractive " if answer.extractive else ""
    lines = [f"\n({kind}{answer.method} search of snapshot {answer.snapshot}, {answer.seconds['total']:.1f} s)"]
    if answer.why:
        lines.append(f"Why: {answer.why}")
    for citation in answer.citations:
        place = f": {citation.document}, characters {citation.start}-{citation.end}" if citation.document else ""
        lines.append(f"{citation.marker} {citation.kind.replace('_', ' ')} {citation.title}{place}")
        if citation.quote:
            quote = textwrap.shorten(citation.quote, LONGEST_QUOTE, placeholder=" …")
            lines.append(textwrap.indent(textwrap.fill(f"“{quote}”", 100), "    "))
    if answer.dropped_citations:
        lines.append(f"Removed, since the model made them up: {', '.join(answer.dropped_citations)}")
    return "\n".join(lines)


def _support_lines(answer: Answer) -> list[str]:
    if not answer.unsupported:
        return ["\nEvery sentence has a citation that supports it by its words."]
    return ["\nSentences without support:", *(f"- {u.sentence} ({u.why})" for u in answer.unsupported)]
