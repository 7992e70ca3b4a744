"""The ledger of calls: what is kept of every question of an index run, in which case, and what is never kept."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from graphrag_assets.indexing.asking import AnswerError
from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.llm.ledger import Call, read_calls
from graphrag_assets.prompt_files import prompt_version
from graphrag_assets.settings import Workspace
from tests.llmsim_server import LlmSim
from tests.unit.llm_workspaces import KEY, points, question, workspace


def ledger(space: Workspace, since: float = 0.0) -> list[Call]:
    """All rows of a workspace."""
    return read_calls(space.path(space.settings.cache.path), space.uri(space.settings.storage.base), since)


def ask(space: Workspace, run: str | None, numbers: range, *, prompts: tuple[str, ...] = ("the prompt",)) -> None:
    """Ask some questions in one run, each for a row of its own."""

    async def main() -> None:
        async with Gateway(space, run=run) as gateway:
            asked = gateway.ask("stage", "chat", prompts=prompts)
            await asyncio.gather(*(asked(question(n), points, row=f"row-{n}") for n in numbers))

    asyncio.run(main())


def test_a_call_is_one_row_with_its_price_and_prompt(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    ask(space, "run-1", range(3))
    calls = ledger(space)
    assert [call.row for call in sorted(calls, key=lambda call: call.row)] == ["row-0", "row-1", "row-2"]
    for call in calls:
        assert (call.stage, call.model, call.run, call.status) == ("stage", "openai/gpt-4o-mini", "run-1", "ok")
        assert (call.cached, call.attempts, call.turn) == (False, 1, 1)
        assert call.prompt == prompt_version("the prompt")
        assert call.prompt_tokens
        assert call.completion_tokens
        assert call.usd == pytest.approx(call.prompt_tokens * 0.15e-6 + call.completion_tokens * 0.6e-6)
        assert call.seconds
    stats = llmsim.stats()
    assert sum(call.prompt_tokens or 0 for call in calls) == stats["chat_prompt_tokens"]


def test_an_answer_from_the_cache_tells_what_it_cost_when_it_was_made(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    ask(space, "run-1", range(2))
    for run in ("run-2", "run-3"):
        ask(space, run, range(2))
    made, taken = [c for c in ledger(space) if not c.cached], [c for c in ledger(space) if c.cached]
    # One row an answer and row, however often it is taken: runs that change little would fill the file else.
    assert (len(made), len(taken)) == (2, 2)
    assert {call.run for call in taken} == {"run-3"}
    paid = {call.row: call for call in made}
    for call in taken:
        before = paid[call.row]
        assert (call.prompt_tokens, call.usd, call.made) == (before.prompt_tokens, before.usd, before.made)
        assert call.answer == before.answer


def test_equal_questions_at_once_are_paid_once(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)

    async def main() -> None:
        async with Gateway(space, run="run") as gateway:
            asked = gateway.ask("stage", "chat")
            await asyncio.gather(*(asked(question(1), points, row=f"row-{n}") for n in range(4)))

    asyncio.run(main())
    assert llmsim.requests == 1
    assert sorted(call.cached for call in ledger(space)) == [False, True, True, True]
    assert {call.row for call in ledger(space)} == {f"row-{n}" for n in range(4)}


def test_failed_questions_and_unknown_prices_are_told_as_such(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim, chat={"model": "house-model", "answer_attempts": 2})
    llmsim.reset(faults={"garbage": 1.0})
    with pytest.raises(AnswerError):
        asyncio.run(_ask_once(space))
    (call,) = ledger(space)
    assert (call.status, call.attempts, call.cached) == ("failed", 2, False)
    assert call.usd is None


async def _ask_once(space: Workspace) -> None:
    async with Gateway(space, run="run") as gateway:
        await gateway.ask("stage", "chat")(question(1), points, row="row")


def test_later_turns_have_the_version_of_their_own_prompt(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)

    async def main() -> None:
        async with Gateway(space, run="run") as gateway:
            asked = gateway.ask("stage", "chat", prompts=["first {input_text}", "MORE?"])
            turn = [*question(1), {"role": "assistant", "content": "{}"}, {"role": "user", "content": "MORE?"}]
            await asked(question(1), points, row="row")
            await asked(turn, str, row="row")

    asyncio.run(main())
    assert {(call.turn, call.prompt) for call in ledger(space)} == {
        (1, prompt_version("first {input_text}")),
        (2, prompt_version("MORE?")),
    }


def test_embeddings_are_one_row_a_request(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim, embedding={"batch_size": 4})

    async def main(run: str) -> None:
        async with Gateway(space, run=run) as gateway:
            texts = [f"text {n}" for n in range(10)]
            await gateway.embed("vectors", "vectors", texts, rows=[f"row-{n}" for n in range(10)])

    asyncio.run(main("run-1"))
    asyncio.run(main("run-2"))
    made = [call for call in ledger(space) if not call.cached]
    assert len(made) == llmsim.requests == 3
    assert sorted(row for call in made for row in call.row.split("\n")) == sorted(f"row-{n}" for n in range(10))
    (taken,) = [call for call in ledger(space) if call.cached]
    assert len(taken.row.split("\n")) == 10


def test_queries_other_indexes_and_a_switched_off_cache_leave_nothing(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    ask(space, None, range(2))
    assert ledger(space) == []
    other = workspace(tmp_path, llmsim, storage={"base": "elsewhere"})
    ask(other, "run", range(2))
    assert ledger(space) == []
    assert len(ledger(other)) == 2
    off = workspace(tmp_path / "off", llmsim, cache={"enabled": False})
    ask(off, "run", range(2))
    assert ledger(off) == []
    assert not (tmp_path / "off" / ".cache").exists()


def test_no_key_and_no_text_is_kept(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    ask(space, "run", range(2))
    with closing(sqlite3.connect(space.path(space.settings.cache.path))) as connection:
        told = repr(connection.execute("select * from calls").fetchall())
    assert KEY not in told
    assert "Scrooge" not in told


def test_a_file_of_an_earlier_release_gets_the_table(llmsim: LlmSim, tmp_path: Path) -> None:
    space = workspace(tmp_path, llmsim)
    ask(space, None, range(1))
    with closing(sqlite3.connect(space.path(space.settings.cache.path))) as connection:
        connection.execute("drop table calls")
        connection.commit()
    assert ledger(space) == []
    ask(space, "run", range(2))
    assert sorted(call.cached for call in ledger(space)) == [False, True]


def test_no_stored_answer_is_without_its_call_after_a_kill(llmsim: LlmSim, tmp_path: Path) -> None:
    """The row stands in the transaction of the answer or in one before it."""
    program = f"""
import asyncio, sys
from pathlib import Path
from graphrag_assets.llm.gateway import Gateway
from tests.unit.llm_workspaces import points, question, workspace
class Sim: base = {llmsim.base!r}
async def main():
    async with Gateway(workspace(Path({str(tmp_path)!r}), Sim()), run="run") as gateway:
        ask = gateway.ask("stage", "chat")
        async def one(n):
            await ask(question(n), points, row=f"row-{{n}}")
            if n == 40: print("go", flush=True)
        await asyncio.gather(*(one(n) for n in range(4000)))
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    space = workspace(tmp_path, llmsim)
    with closing(sqlite3.connect(space.path(space.settings.cache.path))) as connection:
        answers = {row[0] for row in connection.execute("select key from answers")}
    assert answers
    assert answers <= {call.answer for call in ledger(space)}
