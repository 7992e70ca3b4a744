"""All four searches over finished indexes of Microsoft GraphRAG, imported, with the simulator as the model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.query import Answer, Index, ask_sync, open_index
from graphrag_assets.settings_file import load_workspace
from tests.llmsim_server import LlmSim
from tests.pipeline import workspaces

pytestmark = [pytest.mark.slow, pytest.mark.storage, pytest.mark.timeout(600)]

QUESTIONS = {
    "index-carol-msft": "Who visits Ebenezer Scrooge, and why?",
    "index-dulce-msft/current": "What does Alex Mercer do at Dulce Base?",
    "index-dulce-msft/legacy-v0.3": "What does Alex Mercer do at Dulce Base?",
}

#: Table of each section, and the column of the numbers that its rows are cited by.
SECTIONS = {
    "Reports": ("community_reports", "community"),
    "Entities": ("entities", "human_readable_id"),
    "Relationships": ("relationships", "human_readable_id"),
    "Claims": ("covariates", "human_readable_id"),
    "Sources": ("text_units", "human_readable_id"),
}


@pytest.fixture(scope="module", params=list(QUESTIONS))
def imported(
    request: pytest.FixtureRequest, shared: Path, llmsim_server: LlmSim, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Index, str]:
    llmsim_server.reset()
    root = tmp_path_factory.mktemp("imported")
    workspaces.make_workspace(root, {}, **workspaces.simulated(llmsim_server, method="standard"))
    assert workspaces.invoke("import", "--root", root, shared / "data" / request.param).code == 0
    return open_index(str(root / "output"), workspace=load_workspace(root)), QUESTIONS[request.param]


def forget(index: Index) -> None:
    """Answers that are kept would hide that a second question sees another context."""
    shutil.rmtree(index.workspace.path(index.settings.cache.path), ignore_errors=True)


@pytest.mark.parametrize("method", ["local", "global", "drift", "basic"])
def test_contexts_are_sound_and_always_the_same(imported: tuple[Index, str], method: str) -> None:
    index, question = imported
    answers: list[Answer] = []
    for _ in range(2):
        forget(index)
        answers.append(ask_sync(index, question, method))  # type: ignore[arg-type]
    first, second = answers
    assert [c.text for c in first.contexts] == [c.text for c in second.contexts]
    assert first.contexts
    settings = index.settings
    most = {
        "local": settings.local_search.max_context_tokens,
        "global": settings.global_search.max_context_tokens,
        "drift": settings.drift_search.local_search_max_data_tokens,
        "basic": settings.basic_search.max_context_tokens,
    }[method]
    counter = tokenizer(settings.chunking.encoding_model)
    for context in first.contexts:
        assert 0 < context.tokens == counter.count(context.text) <= most
        for section in context.sections:
            assert counter.count(section.text) <= section.budget
            table, number = SECTIONS[section.name]
            found = index.rows(f"select id, {number} as number from {table}")
            assert {(row.key, row.number) for row in section.rows} <= {(r["id"], r["number"]) for r in found}
    for citation in first.citations:
        if citation.quote and citation.document:
            document = index.rows("select text from documents where path = ?", [citation.document])
            assert document[0]["text"][citation.start : citation.end] == citation.quote
