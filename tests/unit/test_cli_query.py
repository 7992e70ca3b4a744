"""graphrag-assets query without a language model: what it prints, and its options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from graphrag_assets.cli.main import main
from graphrag_assets.llm.embedding.embedded import EmbeddedEmbedder
from tests.published import publish
from tests.unit.query_doubles import small_rows

pytestmark = pytest.mark.storage

QUESTION = "Who bought the mill at Brook End in 1931?"


class Embedded:
    """The embedded model, as snapshots are published with it."""

    def __init__(self) -> None:
        self._encoder = EmbeddedEmbedder("bge-small-en-v1.5", None)
        self.model = f"embedded/{self._encoder.model}"
        self.dimension = self._encoder.dimension

    def encode(self, texts: list[str]) -> Any:
        return self._encoder.encode(texts, "document")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the small snapshot."""
    root = tmp_path_factory.mktemp("workspace")
    publish(root / "output", small_rows(), Embedded())
    return root


def query(root: Path, *options: str, question: str = QUESTION) -> Result:
    return CliRunner().invoke(main, ["query", question, "--root", str(root), *options])


def test_explanation_for_people(root: Path) -> None:
    run = query(root, "--explain", "--unsupported", "--follow-ups", "3")
    assert run.exit_code == 0, run.output
    assert "Ada Finch bought the mill at Brook End in 1931." in run.output
    for told in (
        "Why: ",
        "How this answer came about",
        "chosen by rules",
        "No language model is configured",
        "Context 1: ",
        "left out",
        "Every sentence has a citation that supports it by its words.",
        "You may ask next:",
    ):
        assert told in run.output, told
    assert "How this answer" not in query(root).output


def test_explanation_as_json(root: Path) -> None:
    run = query(root, "--json", "--explain", "--unsupported", "--follow-ups", "2", "--method", "local")
    found = json.loads(run.stdout)
    assert found["unsupported"] == []
    assert len(found["follow_ups"]) == 2
    explained = found["explain"]
    assert explained["route"]["method"] == "local"
    assert {a["method"] for a in explained["route"]["alternatives"]} == {"basic", "local", "global", "drift"}
    assert explained["contexts"][0]["seeds"]
    assert all(citation["version"].startswith("h") for citation in explained["citations"])
    plain = json.loads(query(root, "--json").stdout)
    assert not {"explain", "unsupported", "follow_ups"} & set(plain)


def test_streaming_prints_the_same_answer(root: Path) -> None:
    plain, streamed = query(root, "--method", "basic"), query(root, "--method", "basic", "--stream")
    assert plain.output.split("(extractive")[0].split() == streamed.output.split("(extractive")[0].split()


def test_a_conversation_from_a_file(root: Path, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Who is Ada Finch?"}, {"role": "assistant", "content": "She bought the mill."}]
    file = tmp_path / "turns.json"
    file.write_text(json.dumps(turns), "utf-8")
    run = query(root, "--history", str(file), "--json", "--explain", "--method", "basic", question="When was that?")
    (context,) = json.loads(run.stdout)["explain"]["contexts"]
    assert context["sections"][0]["name"] == "Conversation History"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no JSON"),
        ('{"role": "user"}', "holds no list"),
        ('[{"role": "user"}]', "entry 1"),
        ('[{"role": "user", "content": "a"}, {"role": "cat", "content": "b"}]', "entry 2"),
        (None, "cannot be read"),
    ],
)
def test_a_conversation_that_cannot_be_read(root: Path, tmp_path: Path, text: str | None, told: str) -> None:
    file = tmp_path / "turns.json"
    if text is not None:
        file.write_text(text, "utf-8")
    run = query(root, "--history", str(file))
    assert run.exit_code == 1
    assert told in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--deadline", "0"),
        ("--deadline", "soon"),
        ("--max-usd", "-1"),
        ("--max-tokens", "x"),
        ("--follow-ups", "-1"),
        ("--deadline", "nan"),
        ("--max-usd", "nan"),
        ("--max-usd", "inf"),
    ],
)
def test_values_out_of_range(root: Path, options: tuple[str, str]) -> None:
    run = query(root, *options)
    assert run.exit_code == 2
    assert options[0] in run.stderr


def test_ceilings_and_deadlines_are_no_hindrance_without_a_model(root: Path) -> None:
    run = query(root, "--max-usd", "0", "--max-tokens", "0", "--deadline", "60", "--json")
    assert "Ada Finch" in json.loads(run.stdout)["answer"]


@pytest.mark.parametrize("options", [("--filter", "path=\udcff"), ("--document", "\udcff"), ("--snapshot", "\udcff")])
def test_bytes_that_are_no_text_are_told_in_json_that_can_be_read(root: Path, options: tuple[str, str]) -> None:
    run = query(root, *options, "--json")
    assert run.exit_code == 1
    assert "udcff" in json.dumps(json.loads(run.stdout)["error"]["message"])
