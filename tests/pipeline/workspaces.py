"""Whole workspaces for the pipeline tests: made, indexed as a user would, and read back.

In process where speed matters (the imports of a command cost more than a small index); as a process of its own where
that is what is tested.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from click.testing import CliRunner

from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore
from graphrag_assets.storage.vectors import open_vectors
from tests.llmsim_server import LlmSim
from tests.storage_elsewhere import storage_settings

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO = REPOSITORY / "examples" / "demo"

#: Variables that would make a test depend on who runs it.
_FOREIGN = ("DAGSTER_HOME", "GRAPHRAG_ROOT", "GRAPHRAG_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL")


@dataclass(frozen=True)
class Run:
    """What a command did.

    Args:
        code: Exit code.
        out: Standard output.
        err: Standard error.
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on standard output of a command that succeeded."""
        assert self.code == 0, self.err[-3000:]
        value: dict[str, Any] = json.loads(self.out)
        return value


def environment(**more: str) -> dict[str, str]:
    """The environment of a command, without what the person who runs the tests has set."""
    kept = {k: v for k, v in os.environ.items() if k not in _FOREIGN and not k.startswith("GRAPHRAG__")}
    return kept | {"DAGSTER_DISABLE_TELEMETRY": "1"} | more


def arguments(*parts: object) -> list[str]:
    """A command line of the product, for a process of its own."""
    return [sys.executable, "-m", "graphrag_assets.cli.main", *map(str, parts)]


def command(*parts: object, **more: str) -> Run:
    """Run a command of the product in a process of its own."""
    done = subprocess.run(arguments(*parts), capture_output=True, text=True, env=environment(**more), check=False)
    return Run(done.returncode, done.stdout, done.stderr)


@contextmanager
def fresh_process() -> Iterator[None]:
    """Forget what a process remembers of the workspaces it worked on before."""
    from graphrag_assets.assets import models, resources

    with mock.patch.dict(os.environ, environment(), clear=True):
        models.RUN_USAGE.clear()
        resources._workspace.cache_clear()
        yield


def invoke(*parts: object) -> Run:
    """Run a command of the product in this process."""
    from graphrag_assets.cli.main import main

    with fresh_process():
        done = CliRunner().invoke(main, [str(part) for part in parts])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Run(done.exit_code, done.stdout, done.stderr)


def index(root: Path) -> dict[str, Any]:
    """Index a workspace in this process; returns what the command reports."""
    return invoke("index", "--root", root, "--json").json


def make_workspace(root: Path, documents: Mapping[str, str], **settings: Any) -> Path:
    """Write a workspace.

    Args:
        root: Its folder; made where there is none.
        documents: Texts by path below input/, in the order in which the files are written.
        settings: Sections of settings.yaml.
    """
    root.mkdir(parents=True, exist_ok=True)
    for path, text in documents.items():
        write_document(root, path, text)
    (root / "settings.yaml").write_text(json.dumps(storage_settings(root) | settings), encoding="utf-8")
    return root


def copy_workspace(root: Path, target: Path) -> Path:
    """Copy a workspace with its index, wherever that lies."""
    shutil.copytree(root, target)
    if elsewhere := storage_settings(target):
        settings = json.loads((target / "settings.yaml").read_text(encoding="utf-8"))
        (target / "settings.yaml").write_text(json.dumps(settings | elsewhere), encoding="utf-8")
        source, copy = storage_of(root), storage_of(target)
        for info in list(source.list()):
            copy.write(info.path, source.read(info.path))
    return target


def write_document(root: Path, path: str, text: str) -> None:
    """Write one document of a workspace."""
    file = root / "input" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")


def simulated(llmsim: LlmSim, **sections: Any) -> dict[str, Any]:
    """Settings of a workspace whose models are the simulator, with repeats that do not wait."""
    entry = {
        "model_provider": "openai",
        "api_base": llmsim.base,
        "api_key": "sk-test-0123456789abcdef",
        "retry": {"base_delay": 1.01, "max_delay": 0.01},
    }
    return {
        "completion_models": {"default_completion_model": entry | {"model": "gpt-4o-mini"}},
        "embedding_models": {
            "default_embedding_model": entry | {"model": "text-embedding-3-small", "call_args": {"dimensions": 64}}
        },
        **sections,
    }


#: Some of the demo corpus, for tests that need no more: three batches of two.
FIVE_DOCUMENTS = (
    "letters/2031-10-23-castellan-to-maske.txt",
    "letters/2032-05-08-verrall-to-courant.txt",
    "news/2032-06-08-quarry-strike.txt",
    "reports/cold-rigg-data-sheet.txt",
    "reports/dace-orrell-condition-survey.md",
)


def demo_texts(*paths: str) -> dict[str, str]:
    """Documents of the demo corpus by path; all of its plain text and Markdown files when none is named."""
    folder = DEMO / "input"
    found = [folder / path for path in paths] or sorted([*folder.rglob("*.txt"), *folder.rglob("*.md")])
    return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in found}


def storage_of(root: Path) -> FileSystem:
    """The storage of a workspace that stores below output/."""
    return open_filesystem(str(root / "output"))


def log_entries(root: Path) -> list[str]:
    """Files by which snapshots were published in a workspace."""
    return [info.path for info in storage_of(root).list("snapshots/log")]


def manifest(root: Path) -> Manifest:
    """The published snapshot of a workspace that stores below output/."""
    published = SnapshotStore(storage_of(root)).current()
    assert published is not None, f"nothing is published in {root}"
    return published


def published_files(root: Path) -> dict[str, bytes]:
    """The published Parquet files by table."""
    storage = storage_of(root)
    files = {name: storage.read(file.path) for name, file in manifest(root).tables.items()}
    assert len(files) > 10
    return files


def vector_hashes(root: Path) -> dict[str, tuple[int, str]]:
    """Rows of each published vector table, and a hash of its ids and vectors to the last bit."""
    storage = storage_of(root)
    found = {}
    for name, vectors in manifest(root).vectors.items():
        rows = open_vectors(storage, vectors).search().limit(None).to_arrow()
        rows = rows.select(["id", "window", "vector"]).sort_by([("id", "ascending"), ("window", "ascending")])
        values = rows["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False).tobytes()
        told = json.dumps([rows["id"].to_pylist(), rows["window"].to_pylist()]).encode()
        found[name] = (rows.num_rows, hashlib.sha256(told + values).hexdigest())
    return found


def table(root: Path, name: str) -> pa.Table:
    """A published table."""
    return read_table(storage_of(root), manifest(root).tables[name].path)


def rows(root: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a published table."""
    return table(root, name).to_pylist()


#: Tables and vectors that depend on the communities, which stay while the graph changes.
OF_COMMUNITIES = frozenset(
    {
        "communities",
        "community_reports",
        "entity_communities",
        "community_occurrences",
        "row_numbers",
        "community_full_content",
    }
)


def assert_equal_indexes(one: Path, other: Path, but: frozenset[str] = frozenset()) -> None:
    """Assert that two workspaces published the same bytes and the same vectors; a difference names its rows.

    Args:
        one: A workspace.
        other: Another one.
        but: Tables and vectors that may differ.
    """
    a, b = published_files(one), published_files(other)
    assert a.keys() == b.keys()
    for name in a.keys() - but:
        if a[name] != b[name]:
            left, right = rows(one, name), rows(other, name)
            only = [row for row in left if row not in right], [row for row in right if row not in left]
            raise AssertionError(f"{name}: {len(left)} and {len(right)} rows; only in one: {str(only)[:1500]}")
    vectors = [{k: v for k, v in vector_hashes(root).items() if k not in but} for root in (one, other)]
    assert vectors[0] == vectors[1]


def dagster_runs(root: Path) -> int:
    """Number of runs that the Dagster instance of a workspace has recorded."""
    from graphrag_assets.automation.instance import open_instance
    from graphrag_assets.settings_file import load_workspace

    with fresh_process(), open_instance(load_workspace(root)) as instance:
        return int(instance.get_runs_count())
