"""A disk that is full, for real: the command says so, what is published stays, and with room the next run goes on."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphrag_assets.storage.filesystem import open_filesystem
from tests.llmsim_server import LlmSim
from tests.pipeline.living import text_of
from tests.pipeline.whole import published
from tests.pipeline.workspaces import (
    OF_COMMUNITIES,
    assert_equal_indexes,
    command,
    index,
    make_workspace,
    manifest,
    simulated,
    write_document,
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["storage", "cache"])
def test_index(tmp_path: Path, small_disk: Path, llmsim: LlmSim, what: str) -> None:
    places = {
        "storage": {"base": str(small_disk / "output" if what == "storage" else tmp_path / "output")},
        "cache": {"path": str((small_disk if what == "cache" else tmp_path) / "llm.sqlite")},
    }
    chance = random.Random(3)
    texts = {f"{i}.txt": text_of(chance.sample(range(16), 8)) for i in range(3)}
    settings = simulated(llmsim, chunking={"size": 60, "overlap": 0}) | places
    root = make_workspace(tmp_path / "work", texts, **settings)
    index(root)
    storage = open_filesystem(places["storage"]["base"])
    before = published(storage)
    assert before is not None

    texts["new.txt"] = "\n\n".join(f"Note {i}. {text_of(chance.sample(range(16), 6))}" for i in range(40))
    write_document(root, "new.txt", texts["new.txt"])
    ballast = small_disk / "ballast"
    free = shutil.disk_usage(small_disk).free
    ballast.write_bytes(b"x" * (free - 40_000))
    run = command("index", "--root", root, "--json")
    assert run.code == 1, run.out
    told = json.loads(run.out)["error"]["message"]
    assert "space" in told.lower()
    assert "Traceback" not in run.err
    assert published(storage) == before

    paid = llmsim.requests
    ballast.unlink()
    report = index(root)
    assert report["tables"]["documents"] == 4
    if what == "storage":
        assert report["llm"]["calls"] == llmsim.requests - paid
        assert report["llm"]["cached"] > 0
    whole = make_workspace(tmp_path / "whole", texts, **(settings | {"storage": {"base": "output"}}))
    index(whole)
    link = tmp_path / "link"
    link.mkdir()
    (link / "output").symlink_to(places["storage"]["base"])
    assert manifest(link).id == report["snapshot"]
    assert_equal_indexes(whole, link, but=OF_COMMUNITIES)
