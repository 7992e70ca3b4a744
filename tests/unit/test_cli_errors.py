"""How commands fail: one message on standard error, one JSON object where it was asked for, an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.workspaces import Run, command, invoke, make_workspace

pytestmark = pytest.mark.storage


def error_of(run: Run) -> dict[str, Any]:
    value = json.loads(run.out)
    assert set(value) == {"error"}
    error: dict[str, Any] = value["error"]
    assert error["message"]
    assert error["message"].splitlines()[0] in run.err
    assert "Traceback" not in run.err
    return error


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = make_workspace(tmp_path / "work", {})
    (root / "input").mkdir()
    return root


@pytest.mark.parametrize(
    ("parts", "kind", "words"),
    [
        (("query", "Who?"), "no_snapshot", "graphrag-assets index"),
        (("query", " "), "query", "the question is empty"),
        (("query", "Who?", "--snapshot", "nix"), "query", "nothing is published"),
        (("snapshots", "show"), "no_snapshot", "graphrag-assets index"),
        (("snapshots", "show", "nix"), "snapshot", "nothing is published"),
    ],
)
def test_nothing_is_published(parts: tuple[str, ...], kind: str, words: str, workspace: Path) -> None:
    run = invoke(*parts, "--root", workspace, "--json")
    assert run.code == 1
    error = error_of(run)
    assert error["type"] == kind
    assert words in error["message"]
    plain = invoke(*parts, "--root", workspace)
    assert (plain.code, plain.out) == (1, "")
    assert plain.err.startswith("graphrag-assets: ")


@pytest.mark.parametrize("parts", [("index",), ("query", "Who?"), ("status",), ("snapshots", "list"), ("ui",)])
def test_settings_at_fault(parts: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("chunking: {size: -5}\nretry: {}")
    run = invoke(*parts, "--root", tmp_path, "--json")
    assert run.code == 1
    assert error_of(run)["type"] == "settings"
    assert "chunking.size" in run.err
    run = invoke(*parts, "--root", tmp_path / "missing", "--json")
    assert run.code == 1
    assert error_of(run)["type"] == "settings"


def test_doctor_says_it_beside_its_findings(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("chunking: {size: -5}")
    run = invoke("doctor", "--root", tmp_path, "--json")
    assert run.code == 1
    report = json.loads(run.out)
    assert report["status"] == "fail"
    assert report["error"]["type"] == "doctor"


def test_init_refuses(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("")
    assert error_of(invoke("init", tmp_path, "--json"))["type"] == "init"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("nix",), "nix"),
        (("index", "--nix"), "--nix"),
        (("index", "--method", "slow"), "slow"),
        (("query",), "QUESTION"),
        (("query", "Who?", "--community-level", "-1"), "-1"),
        (("query", "Who?", "--community-level", "two"), "two"),
        (("ui", "--port", "0"), "0"),
        (("ui", "--port", "65536"), "65536"),
    ],
)
def test_usage(parts: tuple[str, ...], words: str) -> None:
    run = invoke(*parts, "--json")
    assert run.code == 2
    error = error_of(run)
    assert error["type"] == "usage"
    assert words in error["message"]
    assert invoke(*parts).out == ""


def test_a_question_may_be_the_option(workspace: Path) -> None:
    run = invoke("query", "--root", workspace, "--", "--json")
    assert (run.code, run.out) == (1, "")


@pytest.mark.parametrize("verbose", [False, True])
def test_what_nobody_foresaw(verbose: bool, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("inner")

    monkeypatch.setattr("graphrag_assets.cli.status.status_command", broken)
    run = invoke("status", "--root", workspace, "--json", *["--verbose"] * verbose)
    assert run.code == 1
    error = json.loads(run.out)["error"]
    assert error["type"] == "unexpected"
    assert "KeyError: 'inner'" in error["message"]
    assert ("Traceback" in run.err) is verbose


def test_help_and_version() -> None:
    for parts in (("--help",), ("index", "--help"), ("--version",)):
        run = invoke(*parts)
        assert run.code == 0
        assert run.out


def test_in_a_process_of_its_own(workspace: Path) -> None:
    run = command("query", "Who?", "--root", workspace, "--json")
    assert run.code == 1
    assert error_of(run)["type"] == "no_snapshot"
    assert len(run.err.splitlines()) == 1
