"""Progress without a terminal, and how failures of calls are told."""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path

import pytest

from graphrag_assets import progress
from graphrag_assets.cli import showing
from graphrag_assets.llm.asking import patience
from graphrag_assets.llm.asking.notices import LONGEST_GAP, RetryNotices
from graphrag_assets.llm.errors import GatewayError
from tests.llmsim_server import LlmSim
from tests.unit.llm_workspaces import workspace
from tests.unit.test_gateway import run


def test_a_line_at_the_end_of_a_stage(capsys: pytest.CaptureFixture[str]) -> None:
    with showing.progress_on_terminal():
        for stage, total in (("reading", 3), ("nothing", 0), ("reading", 2)):
            done = progress.Progress(stage, total)
            for _ in range(total):
                done.advance()
            done.advance(0)
    assert capsys.readouterr().err.splitlines() == ["reading: 3 of 3", "reading: 2 of 2"]


def test_few_lines_while_a_stage_lasts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with showing.progress_on_terminal():
        done = progress.Progress("asking", 36_000)
        for _ in range(36_000):
            now += 0.1
            done.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "asking: 36000 of 36000"
    assert 50 < len(lines) < 70
    assert lines[0] in ("asking: 100 of 36000", "asking: 101 of 36000")


def test_failures_are_told_at_once_and_then_fewer(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    notices = RetryNotices(lambda: now)
    caplog.set_level(logging.INFO, "graphrag_assets")
    for _ in range(3_600):
        notices.failed("model m", "HTTP 503", 4.0, 2, 8)
        now += 1
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert told[0] == "model m: HTTP 503; trying again in 4 s (2 of 7)"
    assert "more calls before" in told[1]
    assert 50 < len(told) < 80
    assert len(caplog.records) == 3_600
    now += 3 * LONGEST_GAP
    notices.failed("model m", "HTTP 503", 4.0, 2, 8)
    assert caplog.records[-1].levelno == logging.WARNING


def test_a_black_hole(llmsim: LlmSim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that drops what is sent to it: here a queue of connections that is full."""
    monkeypatch.setattr("graphrag_assets.llm.providers.direct.CONNECT_TIMEOUT", 1.0)
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(hole.getsockname())
        time.sleep(0.2)
        base = f"http://127.0.0.1:{hole.getsockname()[1]}/v1"
        started = time.monotonic()
        answers, _ = run(workspace(tmp_path, llmsim, chat={"api_base": base}), range(5))
        for filler in fillers:
            filler.close()
    assert time.monotonic() - started < 20
    assert all(isinstance(answer, GatewayError) for answer in answers)
    assert f"at {base}): no connection within 1 s; check api_base" in str(answers[0])


def test_a_server_that_never_answers(
    llmsim: LlmSim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "SILENCE", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        base = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        answers, _ = run(workspace(tmp_path, llmsim, chat={"api_base": base, "timeout": 1.0}), range(3))
    assert all(isinstance(answer, GatewayError) for answer in answers)
    assert "no answer within 1 s" in str(answers[0])
    assert sum("no answer for 0 s" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("client", ["direct", "litellm"])
@pytest.mark.parametrize(
    ("base", "cause"), [("http://127.0.0.1:9/v1", "connection refused"), ("http://nobody.invalid/v1", "host name")]
)
def test_no_connection_whatever_the_client(
    client: str, base: str, cause: str, llmsim: LlmSim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "_ANSWERED", set())
    answers, usage = run(workspace(tmp_path, llmsim, chat={"api_base": base, "client": client}), range(3))
    assert all(isinstance(answer, GatewayError) for answer in answers)
    assert f"at {base}): " in str(answers[0])
    assert cause in str(answers[0])
    assert usage.calls <= 9
