"""Microsoft GraphRAG's own code reads our snapshots and searches in them, unchanged.

Needs an environment with Microsoft GraphRAG, which cannot be this one (its pins differ): ``make reference`` makes it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.llmsim_server import LlmSim
from tests.pipeline import workspaces

READER = Path(__file__).parent / "reference_reader.py"
DOCUMENTED = workspaces.REPOSITORY / "docs" / "compatibility.md"
LEVELS = (0, 1, 2)

#: Vector tables, and the tables whose rows they hold.
VECTORS = {
    "text_unit_text": "text_units",
    "entity_description": "entities",
    "community_full_content": "community_reports",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Indexed:
    """A published index, and what the reference saw in it.

    Args:
        root: Our workspace.
        reader: Folder with the reference's settings.yaml.
        python: Python of the reference.
    """

    root: Path
    reader: Path
    python: str

    def rows(self, table: str) -> list[dict[str, Any]]:
        return workspaces.rows(self.root, table)

    @cached_property
    def entity(self) -> dict[str, Any]:
        """The entity asked about: the best connected one, of those with claims where there are claims."""
        subjects = {claim["subject_id"] for claim in self.rows("covariates")}
        entities = [e for e in self.rows("entities") if not subjects or e["title"] in subjects]
        return max(entities, key=lambda entity: int(entity["degree"]))

    @cached_property
    def environment(self) -> dict[str, str]:
        """Variables of the documented settings: folders of the published tables and of the vector tables."""
        manifest = workspaces.manifest(self.root)
        output = self.root / "output"
        tables = {str((output / file.path).parent) for file in manifest.tables.values()}
        vectors = {str(output / table.path) for table in manifest.vectors.values()}
        (snapshot,), (database,) = tables, vectors
        return workspaces.environment(SNAPSHOT=snapshot, VECTORS=database, LITELLM_LOCAL_MODEL_COST_MAP="True")

    def run(self, *arguments: str) -> str:
        """Run the reference's Python; returns its standard output."""
        command = [self.python, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    @cached_property
    def seen(self) -> dict[str, Any]:
        """What the reference saw."""
        self.write_settings({"type": "offline", "model_provider": "offline"})
        asked = ("--entity", self.entity["id"], "--text-unit", self.entity["text_unit_ids"][0])
        told = self.run(str(READER), str(self.reader), *asked, "--levels", ",".join(map(str, LEVELS)))
        seen: dict[str, Any] = json.loads(told)
        return seen

    def write_settings(self, model: dict[str, Any], embedding: dict[str, Any] | None = None) -> None:
        """Settings of the reference as docs/compatibility.md shows them, with models."""
        shown = re.search(r"```yaml\n(.*?)```", DOCUMENTED.read_text(encoding="utf-8"), re.DOTALL)
        assert shown, f"{DOCUMENTED} shows no settings"
        models = {
            "completion_models": {"default_completion_model": {"model": "offline"} | model},
            "embedding_models": {"default_embedding_model": {"model": "offline"} | (embedding or model)},
        }
        (self.reader / "settings.yaml").write_text(shown[1] + yaml.safe_dump(models), encoding="utf-8")


@pytest.fixture(scope="module")
def fast(reference_python: str, tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    """The demo corpus, indexed without a model: its table of claims has no rows."""
    root = tmp_path_factory.mktemp("fast")
    shutil.copytree(workspaces.DEMO / "input", root / "input")
    workspaces.make_workspace(root, {}, method="fast")
    assert workspaces.index(root)["tables"]["covariates"] == 0
    return Indexed(root, tmp_path_factory.mktemp("reader"), reference_python)


@pytest.fixture(scope="module")
def standard(reference_python: str, llmsim_server: LlmSim, tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    """Part of the demo corpus, indexed with the simulated model, with claims and small communities on three levels."""
    llmsim_server.reset()
    root = tmp_path_factory.mktemp("standard")
    shutil.copytree(workspaces.DEMO / "input" / "reports", root / "input")
    sections = {"extract_claims": {"enabled": True}, "cluster_graph": {"max_cluster_size": 3}}
    workspaces.make_workspace(root, {}, **workspaces.simulated(llmsim_server, method="standard", **sections))
    assert workspaces.index(root)["tables"]["covariates"] > 0
    indexed = Indexed(root, tmp_path_factory.mktemp("reader"), reference_python)
    assert max(c["level"] for c in indexed.rows("communities")) >= max(LEVELS)
    return indexed


@pytest.fixture(params=["fast", "standard"])
def index(request: pytest.FixtureRequest) -> Indexed:
    """Each of the two indexes; every step of reading it went without an error."""
    indexed: Indexed = request.getfixturevalue(request.param)
    errors = indexed.seen["errors"]
    assert not errors, "\n".join(f"{step}: {error}" for step, error in errors.items())
    return indexed


def test_every_row_of_every_table_loads(index: Indexed) -> None:
    seen = index.seen
    assert seen["rows"] == {name: len(index.rows(name)) for name in seen["rows"]}
    assert len(seen["rows"]) == 7
    for name in ("text_units", "relationships", "covariates", "communities"):
        assert seen["objects"][name] == seen["rows"][name]


def test_the_hierarchy_is_read_as_it_is(index: Indexed) -> None:
    communities = index.rows("communities")
    assert index.seen["objects"]["parents"] == {str(c["community"]): str(c["parent"]) for c in communities}
    assert index.seen["objects"]["children"] == {str(c["community"]): c["children"] for c in communities}


@pytest.mark.parametrize("level", LEVELS)
def test_no_connected_entity_and_no_report_is_missing_at_any_level(index: Indexed, level: int) -> None:
    connected = [e for e in index.rows("entities") if e["degree"]]
    reports = [r for r in index.rows("community_reports") if r["level"] <= level]
    assert index.seen["objects"][f"level {level}"] == {"entities": len(connected), "reports": len(reports)}


def test_every_row_has_its_vector(index: Indexed) -> None:
    """A long text unit has a row for each window of the embedded model; the reference finds each row of the table."""
    published = workspaces.manifest(index.root).vectors
    for name, table in VECTORS.items():
        rows = len(index.rows(table))
        vectors = index.seen["vectors"][name]
        assert (vectors["ids"], vectors["nearest_is_itself"]) == (rows, rows)
        assert vectors["rows"] == published[name].rows >= rows


@pytest.mark.parametrize("level", LEVELS)
def test_local_context_holds_what_the_tables_hold(index: Indexed, level: int) -> None:
    told = index.seen[f"local {level}"]
    claims = ["claims"] if index.rows("covariates") else []
    assert told["sections"] == ["Reports", "Entities", "Relationships", *claims, "Sources"]
    assert told["prompts"] == 1
    assert told["tokens"][0] > 1_000
    assert_equals_tables(index, told["records"], level)
    assert told["records"]["entities"][0]["entity"] == index.entity["title"]
    if claims:
        assert index.entity["title"] in {claim["entity"] for claim in told["records"]["claims"]}


@pytest.mark.parametrize("level", LEVELS)
def test_global_context_holds_every_report_down_to_the_level(index: Indexed, level: int) -> None:
    told = index.seen[f"global {level}"]
    wanted = {str(r["community"]) for r in index.rows("community_reports") if r["level"] <= level}
    assert {record["id"] for record in told["records"]["reports"]} == wanted
    assert_equals_tables(index, told["records"], level)
    assert told["prompts"] >= 2  # at least one map step, and the reduce step
    assert told["answer"]


def test_dynamic_selection_walks_down_the_communities(index: Indexed) -> None:
    told = index.seen["dynamic"]
    assert_equals_tables(index, told["records"], LEVELS[-1])
    # Every report is rated useful, so the walk ends at the deepest level or where a community has no children.
    ends = [c for c in index.rows("communities") if c["level"] == LEVELS[-1] or not c["children"]]
    wanted = {str(c["community"]) for c in ends if c["level"] <= LEVELS[-1]}
    assert {record["id"] for record in told["records"]["reports"]} == wanted


@pytest.mark.parametrize("level", LEVELS)
def test_drift_search_finds_a_vector_for_every_report(index: Indexed, level: int) -> None:
    told = index.seen[f"drift {level}"]
    assert {"Reports", "Sources"} <= set(told["sections"])
    assert_equals_tables(index, told["records"], level)


def test_basic_context_holds_the_text_unit_asked_for(index: Indexed) -> None:
    told = index.seen["basic"]
    assert_equals_tables(index, told["records"], LEVELS[-1])
    unit = next(u for u in index.rows("text_units") if u["id"] == index.entity["text_unit_ids"][0])
    assert str(unit["human_readable_id"]) in {record["id"] for record in told["records"]["sources"]}


def assert_equals_tables(index: Indexed, records: dict[str, list[dict[str, str]]], level: int) -> None:
    """Assert that every row of a context is the row of our table with that number."""
    levels = {str(r["community"]): r["level"] for r in index.rows("community_reports")}
    ours = {
        "reports": {str(r["community"]): {"title": r["title"]} for r in index.rows("community_reports")},
        "entities": {str(e["human_readable_id"]): {"entity": e["title"]} for e in index.rows("entities")},
        "claims": {str(c["human_readable_id"]): {"entity": c["subject_id"]} for c in index.rows("covariates")},
        "sources": {str(u["human_readable_id"]): {"text": u["text"]} for u in index.rows("text_units")},
        "relationships": {
            str(r["human_readable_id"]): {"source": r["source"], "target": r["target"]}
            for r in index.rows("relationships")
        },
    }
    assert records
    for section, rows in records.items():
        for row in rows:
            assert {"id": row["id"]} | ours[section][row["id"]] == row, section
            assert section != "reports" or levels[row["id"]] <= level


def test_an_export_is_read_with_the_settings_beside_it(fast: Indexed, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert workspaces.invoke("export", "--root", fast.root, "--format", "graphrag", out).code == 0
    load = "import sys; from graphrag.config.load_config import load_config; load_config(sys.argv[1])"
    fast.environment["GRAPHRAG_API_KEY"] = "none"
    fast.run("-c", load, str(out))
    settings = yaml.safe_load((out / "settings.yaml").read_text(encoding="utf-8"))
    offline = {"type": "offline", "model_provider": "offline", "model": "offline"}
    settings["completion_models"] = {"default_completion_model": offline}
    settings["embedding_models"] = {"default_embedding_model": offline}
    (out / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    asked = ("--entity", fast.entity["id"], "--text-unit", fast.entity["text_unit_ids"][0], "--levels", "0")
    seen = json.loads(fast.run(str(READER), str(out), *asked))
    assert not seen["errors"], seen["errors"]
    assert seen["rows"] == {name: len(fast.rows(name)) for name in seen["rows"]}
    for name, table in VECTORS.items():
        assert seen["vectors"][name]["ids"] == seen["vectors"][name]["nearest_is_itself"] == len(fast.rows(table))
    assert fast.entity["title"] in {row["entity"] for row in seen["local 0"]["records"]["entities"]}


@pytest.fixture
def with_models(standard: Indexed, llmsim_server: LlmSim) -> Iterator[Indexed]:
    """The standard index, with the models that made it set in the reference's settings."""
    model = {"model_provider": "openai", "api_base": llmsim_server.base, "api_key": "sk-test", "model": "gpt-4o-mini"}
    embedding = model | {"model": "text-embedding-3-small", "call_args": {"dimensions": 64}}
    standard.write_settings(model, embedding)
    return standard


@pytest.mark.parametrize("method", ["local", "global", "drift", "basic"])
def test_the_command_line_answers(with_models: Indexed, method: str) -> None:
    question = f"What is known about {with_models.entity['title']}?"
    root = str(with_models.reader)
    answer = with_models.run("-m", "graphrag", "query", question, "--root", root, "--method", method)
    assert len(answer.strip()) > 20, answer
    assert "unable to answer" not in answer
