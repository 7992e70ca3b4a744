"""What index, status and query say about the state of an index, and Dagster's commands in a new workspace."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from graphrag_assets.cli.snapshots import SnapshotStore
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.snapshots import NAMED, SnapshotError
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    command,
    demo_texts,
    environment,
    invoke,
    make_workspace,
    manifest,
    simulated,
    table,
    write_document,
)

pytestmark = pytest.mark.storage

TEXTS = ("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")


@pytest.mark.local_disk  # of a workspace as init makes it
@pytest.mark.timeout(600)
def test_fast(tmp_path: Path) -> None:
    root = tmp_path / "new"
    assert invoke("init", root).code == 0
    fresh = invoke("status", "--root", root).out
    assert "Nothing is indexed yet. Put documents into" in fresh
    assert "up to date" not in fresh
    for path, text in demo_texts(*TEXTS).items():
        write_document(root, path, text)
    assert "Nothing is indexed yet. 2 files wait in" in invoke("status", "--root", root).out

    # In a process of its own, since that is where loggers of other packages are set up.
    first = command("index", "--root", root, "--verbose")
    assert first.code == 0, first.err
    assert "alembic" not in first.err
    assert "extraction: done in" in first.err
    assert "0 of 0" not in first.err
    assert "Published snapshot 000001-" in first.out
    pruned = manifest(root).info["pruned"]
    assert pruned["entities"] > 0
    assert pruned["relationships"] > 0
    line = f"Pruned as noise: {pruned['entities']} entities, {pruned['relationships']} relationships"
    assert line in first.out

    again = invoke("index", "--root", root)
    assert f"Nothing to do: the index is up to date with the input and the settings (snapshot {manifest(root).id})" in (
        again.out
    )
    assert "Published" not in again.out
    report = invoke("index", "--root", root, "--json").json
    assert report["up_to_date"] is True
    assert report["pruned"] == pruned
    assert line in again.out
    status = invoke("status", "--root", root)
    assert line in status.out
    assert "The index is up to date" in status.out
    assert invoke("status", "--root", root, "--json").json["settings_changed"] == {}
    assert invoke("query", "Who is on the railway board?", "--root", root).err == ""

    settings = yaml.safe_load((root / "settings.yaml").read_text()) or {}
    settings["chunking"] = {"size": 200, "overlap": 0}
    (root / "settings.yaml").write_text(yaml.safe_dump(settings))
    changed = {"text units": {"index": "tokens, 1200 tokens, overlap 100", "now": "tokens, 200 tokens, overlap 0"}}
    status = invoke("status", "--root", root)
    assert "built with other settings (text units: tokens, 1200 tokens, overlap 100, now tokens, 200" in status.out
    assert "stages text_units" in status.out
    assert "up to date" not in status.out
    query = invoke("query", "Who is on the railway board?", "--root", root, "--json")
    assert query.json["settings_changed"] == changed
    assert query.err.startswith("note: the index was built with other settings")
    assert invoke("index", "--root", root, "--json").json["up_to_date"] is False
    assert invoke("status", "--root", root, "--json").json["settings_changed"] == {}
    assert table(root, "text_units").num_rows > 3


@pytest.mark.timeout(600)
def test_another_method_and_another_embedding_model(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = make_workspace(tmp_path, demo_texts(TEXTS[1]))
    assert invoke("index", "--root", root).code == 0
    make_workspace(root, {}, **simulated(llmsim))
    found = invoke("status", "--root", root, "--json").json["settings_changed"]
    assert found["method"] == {"index": "fast", "now": "standard"}
    assert found["embeddings"] == {
        "index": "embedded bge-small-en-v1.5",
        "now": f"openai/text-embedding-3-small at {llmsim.base.removeprefix('http://')} (64 dimensions)",
    }
    query = invoke("query", "Who is Edda Lindrow?", "--root", root, "--method", "basic", "--json")
    assert query.code == 1
    assert "method: fast, now standard" in query.err
    assert "set that model again, or run graphrag-assets index" in query.err
    assert "Pruned" not in invoke("index", "--root", root).out


def test_unknown_snapshot_among_many(tmp_path: Path) -> None:
    store = SnapshotStore(open_filesystem(str(tmp_path)))
    ids = [store.publish({"documents": str(n).encode()}, {"documents": 0}, {}, {"n": n})[0].id for n in range(8)]
    with pytest.raises(SnapshotError) as error:
        store.get("nix")
    newest = ", ".join(ids[::-1][:NAMED])
    assert f"there are {newest}, and {8 - NAMED} older ones" in str(error.value)


@pytest.mark.timeout(300)
@pytest.mark.skipif(find_spec("dagster_dg_cli") is None, reason="needs the extra ui")
def test_dagsters_commands_in_a_new_workspace(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\n')
    assert invoke("init", tmp_path).code == 0
    assert (tmp_path / "pyproject.toml").read_text().startswith("[project]\nname = ")
    folder = Path(sys.executable).parent
    for line in (
        ["dg", "check", "defs"],
        ["dg", "list", "defs"],
        ["dagster", "definitions", "validate", "-w", "workspace.yaml"],
        ["dg", "launch", "--assets", "input_inventory,input_files,rejected_inputs"],
    ):
        done = subprocess.run(
            [str(folder / line[0]), *line[1:]],
            cwd=tmp_path,
            env=environment(PATH=f"{folder}:/usr/bin:/bin"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
    assert (
        "community_reports"
        in subprocess.run(
            [str(folder / "dg"), "list", "defs", "--json"],
            cwd=tmp_path,
            env=environment(PATH=f"{folder}:/usr/bin:/bin"),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


@pytest.mark.timeout(300)
def test_an_equal_file_is_no_new_snapshot(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, demo_texts(TEXTS[1]))
    assert invoke("index", "--root", root, "--json").json["new_snapshot"] is True
    write_document(root, TEXTS[1], demo_texts(TEXTS[1])[TEXTS[1]])  # touched, not changed
    run = invoke("index", "--root", root)
    assert f"The content of the index did not change: snapshot {manifest(root).id} stays published" in run.out


@pytest.mark.timeout(300)
def test_after_a_rollback_and_after_pruning(tmp_path: Path) -> None:
    root = make_workspace(tmp_path, demo_texts(TEXTS[1]))
    first = invoke("index", "--root", root, "--json").json["snapshot"]
    none_before = invoke("snapshots", "diff", "--root", root)
    assert none_before.code == 1
    assert "there is none before it" in none_before.err
    write_document(root, TEXTS[0], demo_texts(TEXTS[0])[TEXTS[0]])
    second = invoke("index", "--root", root, "--json").json["snapshot"]

    assert invoke("snapshots", "rollback", first, "--root", root).code == 0
    rolled_back = invoke("status", "--root", root)
    assert "up to date" not in rolled_back.out
    assert "graphrag-assets index publishes" in rolled_back.out
    assert invoke("status", "--root", root, "--json").json["waiting"]["publish"] is True
    third = invoke("index", "--root", root, "--json").json["snapshot"]
    assert third.split("-")[1] == second.split("-")[1]
    assert "The index is up to date" in invoke("status", "--root", root).out
    assert invoke("status", "--root", root, "--json").json["waiting"]["publish"] is False

    assert invoke("snapshots", "prune", "--keep", "1", "--root", root).code == 0
    pruned = invoke("snapshots", "diff", "--root", root, "--json")
    assert pruned.code == 1
    message = json.loads(pruned.out)["error"]["message"]
    assert message == f"the snapshot before {third} was removed (snapshots prune); it is the only one"
