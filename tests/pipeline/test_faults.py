"""Models that fail: what could be had is in the index, what could not is a row with a reason, nothing is paid twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.storage import undone
from graphrag_assets.storage.build import BuildArea
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    assert_equal_indexes,
    command,
    demo_texts,
    index,
    invoke,
    make_workspace,
    manifest,
    published_files,
    rows,
    simulated,
    storage_of,
    write_document,
)

pytestmark = pytest.mark.storage

DOCUMENTS = (
    "letters/2031-10-23-castellan-to-maske.txt",
    "letters/2032-05-08-verrall-to-courant.txt",
    "minutes/railway-board-2032-08-11.md",
    "notes/interview-edda-lindrow.md",
    "reports/dace-orrell-condition-survey.md",
)
#: One of the faults hits four requests in ten.
FAULTS = {"error500": 0.1, "malformed_json": 0.1, "truncated": 0.1, "empty": 0.1}
#: Stands in exactly one text unit.
POISON = "three boreholes would cost"


def workspace(root: Path, llmsim: LlmSim, **sections: Any) -> Path:
    chunking = {"size": 100, "overlap": 0}
    return make_workspace(root, demo_texts(*DOCUMENTS), **simulated(llmsim, chunking=chunking, **sections))


@pytest.fixture(scope="module")
def faultless(tmp_path_factory: pytest.TempPathFactory, llmsim_server: LlmSim) -> Path:
    """The index that an undisturbed run makes."""
    llmsim_server.reset()
    root = workspace(tmp_path_factory.mktemp("faultless"), llmsim_server)
    report = index(root)
    assert report["text_units"]["failed"] == 0
    return root


def extracted(root: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Rows of the extraction by table and text unit."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in ("extracted_entities", "extracted_relationships"):
        by_unit = found.setdefault(name, {})
        for batch in BuildArea(storage_of(root)).partitions(name):
            for row in BuildArea(storage_of(root)).read(name, batch).to_pylist():
                by_unit.setdefault(row["text_unit_id"], []).append(row)
    return found


def sent_after_success(log: Path) -> list[dict[str, Any]]:
    """Chat requests that repeat one whose answer had come undamaged."""
    answered: set[str] = set()
    wasted = []
    for line in log.read_text().splitlines():
        request = json.loads(line)
        if request["kind"] == "embedding":
            continue
        if request["h"] in answered:
            wasted.append(request)
        if request["status"] == 200 and not request["fault"]:
            answered.add(request["h"])
    assert answered
    return wasted


def test_passing_faults_leave_no_trace(tmp_path: Path, llmsim: LlmSim, faultless: Path) -> None:
    """Faults of the first two attempts cost repeats and nothing else."""
    root = workspace(tmp_path / "work", llmsim)
    log = tmp_path / "requests.jsonl"
    llmsim.config(faults={"error500": 0.2, "empty": 0.2}, fault_attempts=2, log=str(log), seed=3)
    report = index(root)
    stats = llmsim.stats()
    assert stats["faults"].keys() == {"error500", "empty"}
    assert report["text_units"]["failed"] == 0
    assert sent_after_success(log) == []
    assert report["llm"]["calls"] == stats["requests"]
    assert_equal_indexes(faultless, root)


def test_lasting_faults_are_rows(tmp_path: Path, llmsim: LlmSim, faultless: Path) -> None:
    """Every attempt may fail, and one text unit always does."""
    root = workspace(tmp_path / "work", llmsim)
    log = tmp_path / "requests.jsonl"
    asked = f'"messages".*{POISON}'  # the chat model only: without its vector, a text unit could not be published
    llmsim.config(faults=FAULTS, log=str(log), poison=asked, poison_fault="error500", seed=1)
    report = index(root)
    assert llmsim.stats()["faults"].keys() >= FAULTS.keys()
    assert sent_after_success(log) == []

    units = rows(root, "text_units")
    failed = [unit for unit in units if unit["status"] not in ("ok", "empty")]
    poisoned = [unit for unit in units if POISON in unit["text"]]
    assert len(poisoned) == 1
    assert poisoned[0] in failed
    assert "500" in poisoned[0]["reason"]
    assert all(unit["reason"] for unit in failed)
    counted = Counter(unit["status"] if unit["status"] in ("ok", "empty") else "failed" for unit in units)
    assert report["text_units"] == {"ok": counted["ok"], "empty": counted["empty"], "failed": len(failed)}

    right, found = extracted(faultless), extracted(root)
    whole = [unit["id"] for unit in units if unit["status"] == "ok" and not unit["reason"]]
    assert len(whole) > len(units) / 2
    assert [unit["id"] for unit in units] == [unit["id"] for unit in rows(faultless, "text_units")]
    for name in right:
        for unit in whole:
            assert all(row in right[name][unit] for row in found[name].get(unit, [])), "no row is wrong"
        # An answer that is cut exactly between two records lacks its end mark, and is asked for again.
        assert [unit for unit in whole if found[name].get(unit) != right[name].get(unit)] == [], name

    # The model is well again: only what failed is asked for.
    llmsim.reset()
    mended = index(root)
    assert mended["text_units"]["failed"] == 0
    assert 0 < mended["llm"]["calls"] < report["llm"]["calls"] / 4
    found = extracted(root)
    for name in right:
        assert all(found[name].get(unit["id"]) == right[name].get(unit["id"]) for unit in failed), name


def test_nothing_works(tmp_path: Path, llmsim: LlmSim) -> None:
    """A run in which every call fails says so, publishes nothing and leaves what is published."""
    root = make_workspace(tmp_path, demo_texts(DOCUMENTS[0]), **simulated(llmsim))
    index(root)
    before = manifest(root), published_files(root)
    write_document(root, "new.txt", "Ebenezer Scrooge met Jacob Marley in London. Bob Cratchit saw Tiny Tim at home.")
    llmsim.config(faults={"error500": 1.0})
    run = command("index", "--root", root, "--json")
    assert run.code == 1
    assert json.loads(run.out)["error"]["type"] == "run"
    message, log = run.err.splitlines()[-2:]
    assert "500" in message
    assert message.startswith("graphrag-assets: ")
    assert log.startswith("Log of run ")
    assert "Traceback" not in run.err
    assert (manifest(root), published_files(root)) == before
    assert invoke("query", "Who wrote to Maske?", "--root", root, "--method", "basic").code == 1
    llmsim.reset()
    report = index(root)
    assert (report["documents"]["added"], report["documents"]["unchanged"]) == (1, 1)  # since what is published
    assert report["tables"]["documents"] == 2
    assert report["snapshot"] != before[0].id


def test_what_fails_is_listed_and_tried_again_with_growing_waits(
    tmp_path: Path, llmsim: LlmSim, faultless: Path
) -> None:
    """One text unit always gets nonsense: told by status, tried at once, then only when it is time, or when asked for."""
    root = workspace(tmp_path / "work", llmsim)
    llmsim.config(poison=f'"messages".*{POISON}', poison_fault="bad_schema")
    first = index(root)
    assert first["text_units"]["failed"] == 1
    stage = first["llm"]["by_stage"]["extract_graph"]
    assert stage["failed"] == 1
    assert stage["ladder"]["asked_with_error"] == {"tried": 1, "recovered": 0}

    def failed() -> dict[str, Any]:
        (row,) = invoke("status", "--root", root, "--json").json["failed_text_units"]
        return dict(row)

    row = failed()
    assert (row["status"], row["tries"]) == ("failed", 1)
    assert "unexpected" in Path(row["raw_answer"]).read_text(encoding="utf-8")
    text = invoke("status", "--root", root).out
    assert str(Path(row["raw_answer"]).parent) in text
    assert "--retry-failed" in text
    assert "extract_graph: mended 0 of 1, asked again 0 of 1, asked with error 0 of 1, 1 failed" in text

    assert not index(root)["up_to_date"], "the next run tries again at once"
    assert failed()["tries"] == 2
    llmsim.reset()
    assert index(root)["up_to_date"], "then it waits"
    assert llmsim.requests == 0
    assert not invoke("status", "--root", root, "--json").json["waiting"]["batches"]

    mended = invoke("index", "--root", root, "--retry-failed", "--json").json
    assert mended["text_units"]["failed"] == 0
    assert invoke("status", "--root", root, "--json").json["failed_text_units"] == []
    assert extracted(root) == extracted(faultless)


def test_it_is_tried_again_when_it_is_time(tmp_path: Path, llmsim: LlmSim) -> None:
    root = workspace(tmp_path / "work", llmsim)
    llmsim.config(poison=f'"messages".*{POISON}', poison_fault="refusal")
    index(root)
    index(root)
    llmsim.reset()
    (file,) = (root / "output" / undone.FOLDER / "extraction").iterdir()
    (row,) = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps([row | {"last": row["last"] - undone.FIRST_WAIT - 1}]), encoding="utf-8")
    assert index(root)["text_units"]["failed"] == 0
