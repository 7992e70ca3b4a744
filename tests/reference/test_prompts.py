"""Prompt files of Microsoft GraphRAG work as they are: its own texts, read from the installed package at test time."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from graphrag_assets.prompt_files import DELIMITERS, load_prompt, packaged_prompts
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.text.templates import placeholders, render
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import FIVE_DOCUMENTS, demo_texts, index, invoke, make_workspace, rows, simulated

PROGRAM = Path(__file__).with_name("reference_prompts.py")


@pytest.fixture(scope="module")
def theirs(reference_python: str) -> dict[str, dict[str, str]]:
    done = subprocess.run([reference_python, str(PROGRAM)], capture_output=True, text=True, check=True)
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def write(root: Path, prompts: dict[str, str]) -> None:
    (root / "prompts").mkdir(parents=True, exist_ok=True)
    for name, text in prompts.items():
        (root / "prompts" / f"{name}.txt").write_text(text, encoding="utf-8")


def version_2(text: str) -> str:
    """A prompt as version 2 wrote it: with variables for the delimiters."""
    for name in ("completion_delimiter", "tuple_delimiter", "record_delimiter"):
        text = text.replace(DELIMITERS[name], f"{{{name}}}")
    return text


@pytest.mark.parametrize("kind", ["written", "tuned", "version 2"])
def test_they_are_filled_as_their_own_code_fills_them(
    theirs: dict[str, dict[str, str]], tmp_path: Path, kind: str
) -> None:
    prompts = theirs["tuned" if kind == "tuned" else "written"]
    if kind == "version 2":
        prompts = {name: version_2(text) for name, text in prompts.items() if name.startswith("extract_")}
    write(tmp_path, prompts)
    workspace = Workspace(root=tmp_path, settings=Settings())
    for name, text in prompts.items():
        values = dict.fromkeys(placeholders(packaged_prompts()[name]), "a {b} <|> c")
        expected = text.format(**values, **DELIMITERS) if name != "global_search_knowledge_system_prompt" else text
        assert render(load_prompt(workspace, name), values) == expected, name


@pytest.mark.parametrize("kind", ["written", "version 2"])
def test_an_index_and_all_searches_with_their_prompts(
    theirs: dict[str, dict[str, str]], tmp_path: Path, llmsim: LlmSim, kind: str
) -> None:
    sections = simulated(llmsim, extract_claims={"enabled": True})
    root = make_workspace(tmp_path, demo_texts(*FIVE_DOCUMENTS[:3]), **sections)
    prompts = theirs["written"]
    if kind == "version 2":
        prompts = {n: version_2(text) if n.startswith("extract_") else text for n, text in prompts.items()}
    write(root, prompts)
    made = index(root)
    assert made["text_units"] == {"ok": 3, "empty": 0, "failed": 0}
    assert {row["status"] for row in rows(root, "text_units")} == {"ok"}
    assert made["tables"]["entities"] > 5
    assert made["tables"]["covariates"] > 0
    assert made["tables"]["community_reports"] > 0
    for method in ("local", "global", "drift", "basic"):
        assert invoke("query", "Who is Maske?", "--root", root, "--method", method, "--json").json["answer"]
    findings = invoke("doctor", "--root", root, "--json").json["findings"]
    assert {f["status"] for f in findings if f["name"].startswith("prompt")} == {"ok"}
