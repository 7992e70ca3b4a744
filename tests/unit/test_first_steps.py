"""What somebody meets who tries the commands before there is anything to see."""

from __future__ import annotations

import json
from pathlib import Path

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import command, invoke, make_workspace, simulated


def test_a_plan_of_an_empty_input(llmsim: LlmSim, tmp_path: Path) -> None:
    root = make_workspace(tmp_path / "work", {}, **simulated(llmsim))
    (root / "input").mkdir(parents=True, exist_ok=True)
    done = invoke("plan", "--root", root, "--json")
    assert (done.code, done.json["documents"]["added"], done.json["usd"]) == (0, 0, 0)
    assert llmsim.requests == 0


def test_status_of_a_run_that_did_not_come_to_its_end(llmsim: LlmSim, tmp_path: Path) -> None:
    root = make_workspace(tmp_path / "work", {"a.txt": "Marga Holt left Skarne in May."}, **simulated(llmsim))
    told = invoke("status", "--root", root)
    assert "1 file waits in" in told.out
    assert command("index", "--root", root, "--budget-tokens", 10).code == 1
    told = invoke("status", "--root", root)
    assert "Nothing is indexed yet. A run read the input and did not come to its end: run graphrag-assets" in told.out
    assert "Put documents" not in told.out


def test_a_file_that_is_no_cache(tmp_path: Path) -> None:
    root = make_workspace(tmp_path / "work", {})
    (tmp_path / "notes.txt").write_text("no cache")
    done = invoke("cache", "import", tmp_path / "notes.txt", "--root", root, "--json")
    assert (done.code, json.loads(done.out)["error"]["type"]) == (1, "exchange")
