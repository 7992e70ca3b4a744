"""Answers are text, streamed or not; and which of their sentences nothing stands behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.indexing.asking import Message
from graphrag_assets.query import Answer, QueryError, ask
from graphrag_assets.query.context import REPORTS, SOURCES, Context, Row, Section
from graphrag_assets.query.index import Index, open_index
from graphrag_assets.query.plain import PlainStream, plain_text
from graphrag_assets.query.quotable import quotable
from graphrag_assets.query.support import NO_CITATION, NOT_BY_WORDS
from tests.published import publish
from tests.unit.query_doubles import FakeChat, good_answers, models, small_index

pytestmark = pytest.mark.storage


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return small_index(tmp_path_factory.mktemp("small"))


OBJECTS = [
    ('{"answer": "Ada did."}', "Ada did."),
    ('```json\n{"response": "Ada did.", "score": 5}\n```', "Ada did."),
    ('{"points": [{"description": "Ada did.", "score": 9}, {"description": "Tom too."}]}', "- Ada did.\n- Tom too."),
    ('[{"description": "Ada did.", "score": 9}]', "- Ada did."),
    ('{"result": {"text": "Ada did."}}', "Ada did."),
]


@pytest.mark.parametrize(("said", "text"), OBJECTS)
def test_an_object_gives_its_text(said: str, text: str) -> None:
    assert plain_text(said) == text
    for size in (1, 3, 1000):
        stream = PlainStream()
        shown = "".join(stream.feed(said[i : i + size]) for i in range(0, len(said), size))
        assert shown.strip() == ""
        assert stream.finish() == text


@pytest.mark.parametrize("said", ['{"score": 3}', "{}", "```json\n{}\n```", '{"a'])
def test_an_object_without_a_text_is_no_answer(said: str) -> None:
    with pytest.raises(ValueError, match="without a text"):
        plain_text(said)
    stream = PlainStream()
    assert stream.feed(said).strip() == ""
    assert stream.finish() == ""


def test_an_object_behind_a_text_is_left_out() -> None:
    said = 'Here it is:\n\n{"response": "Ada did.", "score": 5}'
    assert plain_text(said) == "Ada did."
    stream = PlainStream()
    shown = "".join(stream.feed(c) for c in said)
    assert shown == "Here it is:\n\n"
    assert stream.finish() == "Ada did."


@pytest.mark.parametrize(
    "text",
    [
        "Plain.",
        "A {brace} here.",
        "[Data: Reports (1)] first.",
        'The file has {"name": 1} in it.',
        "{curly words}",
        "`x`",
    ],
)
def test_text_passes_as_it_is(text: str) -> None:
    assert plain_text(text) == text
    stream = PlainStream()
    assert "".join(stream.feed(c) for c in text) + stream.finish() == text


@given(st.text(alphabet='ab {}"`:json[\n', max_size=60), st.integers(1, 7))
def test_streams_lose_no_text_and_show_no_protocol(text: str, size: int) -> None:
    stream = PlainStream()
    shown = "".join(stream.feed(text[i : i + size]) for i in range(0, len(text), size)) + stream.finish()
    assert '{"answer":' not in shown
    if "{" not in text and "[" not in text:
        assert shown == text


STAGES = {"basic": "query_basic", "local": "query_local", "global": "query_reduce", "drift": "query_drift_reduce"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("method", list(STAGES))
@pytest.mark.parametrize(("said", "text"), OBJECTS[:3])
def test_no_search_shows_an_object(index: Index, method: str, said: str, text: str, stream: bool) -> None:
    chat = FakeChat(lambda stage, m: said if stage == STAGES[method] else good_answers(stage, m))
    pieces: list[str] = []
    answer = run(index, method, chat, on_text=pieces.append if stream else None)
    assert answer.answer == text
    if stream:
        assert "".join(pieces) == text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("method", ["basic", "local"])
def test_an_object_without_a_text_is_a_clear_error(index: Index, method: str, stream: bool) -> None:
    chat = FakeChat(lambda stage, m: '{"score": 3}')
    with pytest.raises(QueryError, match=r"gave no usable answer \(.*JSON"):
        run(index, method, chat, on_text=(lambda piece: None) if stream else None)


@pytest.mark.parametrize("method", ["global", "drift", "local", "basic"])
@pytest.mark.parametrize("failing", ["none", "last", "nothing found"])
def test_a_stream_holds_the_whole_answer(index: Index, method: str, failing: str) -> None:
    """Whatever the answer comes from: the model, the best parts after a failure, or the note that there is nothing."""

    def handler(stage: str, messages: Sequence[Message]) -> str:
        if failing == "last" and stage in ("query_reduce", "query_drift_reduce"):
            raise RuntimeError("connection lost")
        if failing == "nothing found" and stage == "query_map":
            return '{"points": []}'
        return good_answers(stage, messages)

    pieces: list[str] = []
    answer = run(index, method, FakeChat(handler), on_text=pieces.append)
    assert "".join(pieces) == answer.answer


def test_an_extractive_answer_is_streamed_too(index: Index) -> None:
    pieces: list[str] = []
    assert run(index, "basic", None, on_text=pieces.append).answer == "".join(pieces)


def run(index: Index, method: str, chat: FakeChat | None, **options: Any) -> Answer:
    question = "Who bought the mill in 1931?"
    return asyncio.run(ask(index, question, method, models=models(chat), **options))  # type: ignore[arg-type]


def support(index: Index, said: str) -> list[tuple[str, str]]:
    answer = run(index, "local", FakeChat(lambda stage, messages: said))
    return [(u.sentence, u.why) for u in answer.unsupported]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Ada Finch bought the mill in 1931 [Data: Sources (0)].", []),
        ("Ada Finch bought the mill in 1931. [Data: Sources (0)]", []),
        ("## Heading\n\n**The mill**\n\n- Ada Finch bought the mill [Data: Sources (0); Reports (1)].", []),
        (
            "She was a rich widow. Ada Finch bought the mill [Data: Sources (0)].",
            [("She was a rich widow.", NO_CITATION)],
        ),
        (
            "Aliens landed near Paris yesterday [Data: Sources (0)].",
            [("Aliens landed near Paris yesterday.", NOT_BY_WORDS)],
        ),
        ("Ada Finch bought the mill [Data: Sources (999)].", [("Ada Finch bought the mill.", NO_CITATION)]),
        ("They say this:\n\n- The council refused a loan [Data: Claims (0)].", []),
        ("The council refused a loan [Data: Relationships (3)] and Ada Finch bought the mill [Data: Sources (0)].", []),
    ],
)
def test_sentences_without_support(index: Index, said: str, expected: list[tuple[str, str]]) -> None:
    assert support(index, said) == expected


def test_extractive_answers_are_supported(index: Index) -> None:
    answer = run(index, "basic", None)
    assert answer.citations
    assert answer.unsupported == ()
    assert run_declined(index).unsupported == ()
    found = json.loads(json.dumps(answer.to_dict(support=True)))
    assert found["unsupported"] == []


def run_declined(index: Index) -> Answer:
    return asyncio.run(ask(index, "zzz qqq xxx?", "basic", models=models(None)))


def test_a_sentence_is_quoted_once_whatever_its_number(tmp_path: Path) -> None:
    """A report quotes a paragraph of a document without the number that it has there."""
    publish(tmp_path, {})

    def section(name: str, text: str) -> Section:
        return Section(name, ("id", "text"), (Row(0, "key", ("0", text), text),), 0, 0)

    told = "The manager told us that pier 3 was last inspected in September."
    marked = [f"22. {told}", f"- (a) {told}", f"**{told}**"]
    contexts = [Context((section(SOURCES, text), section(REPORTS, told)), 0) for text in marked]
    with open_index(str(tmp_path)) as index:
        for context, text in zip(contexts, marked, strict=True):
            assert [(s.dataset, s.text) for s in quotable(index, [context])] == [(SOURCES, text)]
