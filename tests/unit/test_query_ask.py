"""Asking in all modes: with a model that behaves, one that does not, and none."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.indexing.asking import Message
from graphrag_assets.query import Answer, QueryError, ask
from graphrag_assets.query.drift import folds, normalise
from graphrag_assets.query.index import Index, open_index
from graphrag_assets.query.judging import Scorer, Weights
from graphrag_assets.query.questions import follow_up_questions
from graphrag_assets.query.routing import choose
from graphrag_assets.query.writing import Question
from graphrag_assets.settings import Settings, Workspace
from tests.llmsim_server import LlmSim
from tests.published import HashEmbedder, publish_microsoft_index
from tests.unit.llm_workspaces import workspace
from tests.unit.query_doubles import FakeChat, good_answers, models, small_index, small_rows

pytestmark = pytest.mark.storage

MODES = ["local", "global", "drift", "basic"]
QUESTION = "Who bought the mill in 1931?"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return small_index(tmp_path_factory.mktemp("small"))


def run(index: Index, method: str, chat: FakeChat | None, question: str = QUESTION, **options: Any) -> Answer:
    return asyncio.run(ask(index, question, method, models=models(chat), **options))  # type: ignore[arg-type]


def answering(stage: str, text: str) -> FakeChat:
    """Good answers, but for one stage (or all that begin so)."""

    def handler(asked: str, messages: Sequence[Message]) -> str:
        if not asked.startswith(stage):
            return good_answers(asked, messages)
        if text == "raise":
            raise RuntimeError("connection lost")
        return text

    return FakeChat(handler)


# --- a model that behaves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", MODES)
def test_each_mode_answers_with_citations_that_exist(index: Index, method: str) -> None:
    chat = FakeChat(good_answers)
    answer = run(index, method, chat)
    assert "[Data: " in answer.answer
    assert answer.citations
    assert answer.method == method
    assert not answer.extractive
    assert answer.snapshot == index.snapshot
    for cited in answer.citations:
        text = index.rows("select text from documents where path = ?", [cited.document])[0]["text"]
        assert text[cited.start : cited.end] == cited.quote
    assert answer.llm["calls"] == len(chat.asked)
    assert answer.seconds["total"] > 0


def test_json_has_exactly_the_keys_of_the_contract(index: Index) -> None:
    found = json.loads(run(index, "local", FakeChat(good_answers)).to_json())
    assert list(found) == [
        "answer",
        "method",
        "snapshot",
        "citations",
        "dropped_citations",
        "context",
        "llm",
        "seconds",
    ]
    assert list(found["citations"][0]) == ["marker", "kind", "id", "title", "document", "start", "end", "quote"]
    assert list(found["context"]) == ["tokens", "sections"]
    assert list(found["llm"]) == ["calls", "cached", "prompt_tokens", "completion_tokens", "usd", "by_stage"]


@pytest.mark.parametrize("method", MODES)
def test_made_up_citations_are_dropped(index: Index, method: str) -> None:
    stage = {"global": "query_reduce", "drift": "query_drift_reduce"}.get(method, f"query_{method}")
    answer = run(index, method, answering(stage, "So it is [Data: Sources (12345); Entities (777)]."))
    assert answer.answer.startswith("So it is.")
    assert answer.dropped_citations[-2:] == ("Sources (12345)", "Entities (777)")
    assert answer.citations == ()


def test_made_up_citations_of_earlier_steps_never_reach_the_last_one(index: Index) -> None:
    points = json.dumps({"points": [{"description": "X [Data: Reports (1, 99)]", "score": "85/100"}]})
    chat = answering("query_map", points)
    answer = run(index, "global", chat)
    reduced = next(messages[0]["content"] for stage, messages in chat.asked if stage == "query_reduce")
    assert "X [Data: Reports (1)]" in reduced
    assert "99" not in reduced.split("---Analyst Reports---")[1]
    assert "Reports (99)" in answer.dropped_citations


@pytest.mark.parametrize("method", MODES)
def test_streams_hold_text_only_and_no_made_up_citation(index: Index, method: str) -> None:
    pieces: list[str] = []
    stage = {"global": "query_reduce", "drift": "query_drift_reduce"}.get(method, f"query_{method}")
    answer = run(index, method, answering(stage, "Ada did [Data: Reports (1, 99)]. Yes."), on_text=pieces.append)
    assert "".join(pieces) == answer.answer == "Ada did [Data: Reports (1)]. Yes." or method == "basic"
    assert "99" not in "".join(pieces)
    assert "{" not in "".join(pieces)


def test_drift_asks_nothing_twice_and_takes_the_best_first(index: Index) -> None:
    chat = FakeChat(good_answers)
    run(index, "drift", chat)
    asked = [messages[-1]["content"] for stage, messages in chat.asked if stage == "query_drift_local"]
    assert asked == ["Who kept the books?", "Who refused the loan?"]
    last = chat.asked[-1]
    assert last[0] == "query_drift_reduce"
    assert last[1][0]["content"].index("Usefulness: 70") < last[1][0]["content"].index("Usefulness: 40")


def test_drift_rounds_are_bounded(tmp_path: Path) -> None:
    count = iter(range(1000))

    def handler(stage: str, messages: Sequence[Message]) -> str:
        if stage.startswith("query_drift_") and not stage.endswith("reduce"):
            key = "intermediate_answer" if stage.endswith("primer") else "response"
            follow_ups = [f"Question number {next(count)}?" for _ in range(5)]
            return json.dumps({key: "text", "score": 50, "follow_up_queries": follow_ups})
        return "done"

    index = small_index(tmp_path, drift_search={"n_depth": 2, "drift_k_followups": 3, "primer_folds": 1})
    chat = FakeChat(handler)
    run(index, "drift", chat)
    assert chat.stages().count("query_drift_local") == 2 * 3


def test_the_same_question_sends_the_same_bytes(index: Index) -> None:
    for method in MODES:
        first, second = FakeChat(good_answers), FakeChat(good_answers)
        run(index, method, first)
        run(index, method, second)
        assert first.asked == second.asked


# --- a model that does not behave -----------------------------------------------------------------------------------

BROKEN = ["", "%$ not json", "raise"]


@pytest.mark.parametrize("text", ["", "raise"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("method", ["local", "basic"])
def test_no_answer_is_a_clear_error(index: Index, method: str, stream: bool, text: str) -> None:
    options = {"on_text": (lambda piece: None)} if stream else {}
    with pytest.raises(QueryError, match=f"{method} search: the model default_completion_model gave no usable answer"):
        run(index, method, answering("query_", text), **options)


@pytest.mark.parametrize("text", [*BROKEN, '{"points": [{"description": "x"}]}', '{"points": 3}', "[1, 2]"])
def test_map_failures_are_told_from_no_evidence(index: Index, text: str) -> None:
    with pytest.raises(QueryError, match=r"global search: all 1 map calls failed"):
        run(index, "global", answering("query_map", text))
    declined = run(index, "global", answering("query_map", '{"points": []}'))
    assert declined.declined
    assert "hold nothing" in declined.answer


def test_a_batch_that_fails_is_named_in_the_answer(tmp_path: Path) -> None:
    index = small_index(tmp_path, global_search={"max_context_tokens": 130})
    calls = iter(range(10))

    def handler(stage: str, messages: Sequence[Message]) -> str:
        return "garbage" if stage == "query_map" and next(calls) == 0 else good_answers(stage, messages)

    answer = run(index, "global", FakeChat(handler))
    assert "Note: 1 of 2 parts of the reports could not be read" in answer.answer
    assert answer.warnings


@pytest.mark.parametrize("text", ["", "raise"])
def test_a_failed_reduce_leaves_the_best_points(index: Index, text: str) -> None:
    answer = run(index, "global", answering("query_reduce", text))
    assert "- Ada Finch bought the mill [Data: Reports (1)]" in answer.answer
    assert "could not be merged" in answer.answer


@pytest.mark.parametrize("score", [-5, 1e9, "12", "50%", "7/100", None, "many", True, float("nan"), [3]])
def test_scores_of_any_kind_never_break_a_search(index: Index, score: Any) -> None:
    points = {"points": [{"description": "good", "score": 30}, {"description": "odd", "score": score}]}
    chat = answering("query_map", json.dumps(points))
    assert run(index, "global", chat).answer
    reduced = chat.asked[-1][1][0]["content"]
    assert "Importance Score: 30" in reduced
    if score == 1e9:
        assert "Importance Score: 100" in reduced


@pytest.mark.parametrize("text", [*BROKEN, '{"intermediate_answer": 3, "score": 1}', '{"intermediate_answer": "a"}'])
def test_a_drift_primer_without_an_answer_is_a_clear_error(index: Index, text: str) -> None:
    with pytest.raises(QueryError, match="drift search: the primer got no usable answer"):
        run(index, "drift", answering("query_drift_primer", text))


@pytest.mark.parametrize("text", BROKEN)
def test_failed_follow_ups_are_said_and_not_asked_again(index: Index, text: str) -> None:
    chat = answering("query_drift_local", text)
    answer = run(index, "drift", chat)
    assert "2 of 2 follow-up questions of round 1 failed" in answer.answer
    assert chat.stages().count("query_drift_local") == 2


@pytest.mark.parametrize("text", ["", "raise"])
def test_a_failed_drift_reduce_leaves_the_most_useful_answer(index: Index, text: str) -> None:
    answer = run(index, "drift", answering("query_drift_reduce", text))
    assert answer.answer.startswith("Tom Finch did [Data: Sources (0)].")
    assert "could not be merged" in answer.answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("method", ["local", "basic"])
def test_a_deadline_gives_an_extractive_answer_that_says_so(index: Index, method: str, stream: bool) -> None:
    options = {"on_text": (lambda piece: None)} if stream else {}
    answer = run(index, method, FakeChat(good_answers, delay=30), deadline=0.5, **options)
    assert answer.extractive
    assert "the deadline passed" in answer.answer


def test_a_deadline_ends_drift_with_what_there_is(index: Index) -> None:
    chat = FakeChat(good_answers)

    async def slow(stage: str, messages: Sequence[Message]) -> str:
        chat.asked.append((stage, messages))
        await asyncio.sleep(0 if stage == "query_drift_primer" else 30)
        return good_answers(stage, messages)

    chat._answer = slow  # type: ignore[method-assign]
    answer = run(index, "drift", chat, deadline=2.0)
    assert "A mill changed hands [Data: Reports (1)]." in answer.answer
    assert "deadline" in answer.answer
    assert answer.seconds["total"] < 25, "nobody waited for what takes 30 s"


def test_a_deadline_holds_without_a_language_model_too(index: Index) -> None:
    async def slow(question: str, passages: Sequence[str]) -> list[float]:
        await asyncio.sleep(30)
        return []

    opened = models(None)
    object.__setattr__(opened, "reranker", Scorer(slow, Weights(0, 1, 1, 0), "slow"))
    answer = asyncio.run(ask(index, QUESTION, "basic", models=opened, deadline=0.3))
    assert "Ada Finch bought the mill" in answer.answer
    assert "the deadline passed: the sentences were chosen by their words alone" in answer.answer
    assert answer.seconds["total"] < 25, "nobody waited for what takes 30 s"


def test_an_embedding_failure_is_a_clear_error(index: Index) -> None:
    class Broken(HashEmbedder):
        async def embed(self, texts: Sequence[str], kind: str, stage: str) -> Any:
            raise RuntimeError("no connection")

    broken = models(FakeChat(good_answers))
    object.__setattr__(broken, "embedder", Broken())
    with pytest.raises(QueryError, match="could not be embedded by hashed-words: no connection"):
        asyncio.run(ask(index, QUESTION, "local", models=broken))


@pytest.mark.parametrize("question", ["", "   "])
def test_an_empty_question_is_refused(index: Index, question: str) -> None:
    with pytest.raises(QueryError, match="empty"):
        run(index, "local", None, question)


@pytest.mark.parametrize("chat", [None, FakeChat(good_answers)])
@pytest.mark.parametrize("method", MODES)
def test_halves_of_characters_in_a_question_are_no_obstacle(index: Index, method: str, chat: FakeChat | None) -> None:
    answer = run(index, method, chat, "\udcffWho bought the mill\ud83d at Brook End\x00 in 1931?")
    assert answer.answer.encode()
    assert answer.declined == (method == "global" and chat is None)  # the words left are too few for its reports


@pytest.mark.parametrize("limit", [{"deadline": -1}, {"deadline": math.nan}, {"max_usd": -1}, {"max_tokens": -1}])
def test_limits_that_are_none_are_refused(index: Index, limit: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match=f"{next(iter(limit))} must be a number of 0 or more"):
        asyncio.run(ask(index, QUESTION, "basic", models=models(), **limit))


# --- no model -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", MODES)
def test_extractive_answers_quote_and_cite(index: Index, method: str) -> None:
    answer = run(index, method, None)
    assert answer.extractive
    assert "Extractive answer" in answer.answer
    assert "Ada Finch" in answer.answer
    assert answer.citations
    assert answer.llm["calls"] == 0
    for cited in answer.citations:
        text = index.rows("select text from documents where path = ?", [cited.document])[0]["text"]
        assert text[cited.start : cited.end] == cited.quote
    if method != "global":
        assert any("Ada Finch bought the mill at Brook End in 1931." in cited.quote for cited in answer.citations)


@pytest.mark.parametrize("method", MODES)
def test_what_the_documents_do_not_hold_is_declined(index: Index, method: str) -> None:
    answer = run(index, method, None, "zzz qqq xxx?")
    assert answer.declined
    assert "do not seem to hold an answer" in answer.answer
    assert answer.citations == ()


def test_an_index_without_reports_says_so(tmp_path: Path) -> None:
    rows = small_rows()
    rows["community_reports"] = []
    index = small_index(tmp_path, rows)
    for method in ("global", "drift"):
        with pytest.raises(QueryError, match="no usable report"):
            run(index, method, None)
    assert run(index, "local", None).citations


@pytest.mark.parametrize("method", ["auto", "local", "global", "drift", "basic"])
@pytest.mark.parametrize("chat", [None, FakeChat(good_answers)], ids=["extractive", "model"])
def test_an_index_without_documents_says_so(tmp_path: Path, method: str, chat: FakeChat | None) -> None:
    with pytest.raises(QueryError, match="the index holds no documents"):
        run(small_index(tmp_path, {}), method, chat)


# --- routing, small parts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "has_model", "method"),
    [
        ("What are the main themes of these documents?", False, "global"),
        ("How are Ada Finch and the Council connected?", False, "local"),
        ("Who is Tom Finch?", True, "local"),
        ("When did the school open?", True, "basic"),
        ("Why was the mill sold? And who paid for the school?", True, "drift"),
        ("Why was the mill sold? And who paid for the school?", False, "basic"),
    ],
)
def test_auto_takes_the_cheapest_search(index: Index, question: str, has_model: bool, method: str) -> None:
    chosen = asyncio.run(choose(Question(index, models(FakeChat(good_answers) if has_model else None), question)))
    assert chosen.method == method
    assert chosen.why
    assert run(index, "auto", FakeChat(good_answers) if has_model else None, question).method == method


def test_reports_are_spread_evenly_and_no_call_is_empty() -> None:
    reports: Any = [(i, 0.0) for i in range(7)]
    assert [len(fold) for fold in folds(reports, 5)] == [2, 2, 1, 1, 1]
    assert [len(fold) for fold in folds(reports[:2], 5)] == [1, 1]
    assert normalise(" Who  kept the BOOKS ?") == normalise("who kept the books")


# --- the simulator through the real gateway -------------------------------------------------------------------------


@pytest.fixture
def simulated(shared: Path, tmp_path: Path, llmsim: LlmSim) -> Index:
    space = workspace(tmp_path, llmsim)
    changed = {name: {"completion_model_id": "chat"} for name in ("local_search", "global_search", "drift_search")}
    settings = space.settings.model_dump() | {"embedding_models": {}}
    settings |= {**changed, "basic_search": {"completion_model_id": "chat"}}
    settings["completion_models"]["chat"]["api_key"] = "sk-test-0123456789abcdef"
    settings["drift_search"] |= {"n_depth": 1, "drift_k_followups": 4}
    publish_microsoft_index(tmp_path / "output", shared / "data" / "index-dulce-msft" / "current")
    return open_index(
        str(tmp_path / "output"), workspace=Workspace(root=tmp_path, settings=Settings.model_validate(settings))
    )


@pytest.mark.parametrize("method", MODES)
def test_the_simulator_answers_every_mode(simulated: Index, llmsim: LlmSim, method: str) -> None:
    from graphrag_assets.llm.gateway import Gateway

    async def answer() -> Answer:
        async with Gateway(simulated.workspace) as gateway:
            opened = models()
            object.__setattr__(opened, "chat", gateway)
            object.__setattr__(opened, "usage", gateway.usage)
            return await ask(simulated, "What does Alex Mercer think of Taylor Cruz?", method, models=opened)  # type: ignore[arg-type]

    answered = asyncio.run(answer())
    assert answered.answer
    assert answered.llm["calls"] == llmsim.requests > 0
    kinds = set(llmsim.stats()["by_kind"])
    expected = {
        "local": {"local"},
        "basic": {"basic"},
        "global": {"map", "reduce"},
        "drift": {"drift_primer", "drift_local", "reduce"},
    }
    assert kinds == expected[method]


def test_the_simulator_chooses_reports(simulated: Index, llmsim: LlmSim) -> None:
    """On a real index, by real prompts: what is rated relevant is read, and nothing else."""
    from graphrag_assets.llm.gateway import Gateway

    async def answer() -> Answer:
        async with Gateway(simulated.workspace) as gateway:
            opened = models()
            object.__setattr__(opened, "chat", gateway)
            asked = "What does Alex Mercer of the Paranormal Military Squad think of Taylor Cruz at Dulce Base?"
            return await ask(simulated, asked, "global", models=opened, dynamic=True)

    answered = asyncio.run(answer())
    assert set(llmsim.stats()["by_kind"]) == {"rate", "map", "reduce"}
    chosen = answered.explanation["search"]["dynamic"]
    assert chosen["not_rated"] == 0
    ratings = {int(number): rating for level in chosen["levels"] for number, rating in level.items()}
    assert answered.sections["Reports"] == chosen["chosen"]
    assert all(ratings[number] >= 1 for number in chosen["chosen"])
    parent = {r["community"]: r["parent"] for r in simulated.rows("select community, parent from communities")}
    assert not {parent[number] for number in chosen["chosen"]} & set(chosen["chosen"]), "a parent beside its child"


# --- suggestions ----------------------------------------------------------------------------------------------------


def suggest(index: Index, asked: Any, count: int, chat: FakeChat | None = None) -> list[str]:
    return asyncio.run(follow_up_questions(index, asked, count, models(chat)))


def saying(text: str) -> FakeChat:
    return FakeChat(lambda stage, messages: text)


def test_suggestions_are_questions_that_were_not_asked(index: Index) -> None:
    chat = saying(
        "Here:\n- Who flooded the mill?\n- Who bought it?\n* Who flooded the mill?\n2. Did the council refuse?\n"
    )
    asked = ["Who built it?", "Who bought it?"]
    assert suggest(index, asked, 5, chat) == ["Who flooded the mill?", "Did the council refuse?"]
    assert suggest(index, asked, 1, chat) == ["Who flooded the mill?"]
    turns = [{"role": "user", "content": "Who bought it?"}, {"role": "assistant", "content": "Did the council refuse?"}]
    assert suggest(index, turns, 5, chat) == ["Who flooded the mill?", "Did the council refuse?"]


def test_suggestions_that_the_documents_do_not_hold_are_left_out(index: Index) -> None:
    chat = saying("- Which rocket carried the telescope to Jupiter?\n- Why did the council refuse the loan?")
    assert suggest(index, "Who bought the mill?", 5, chat) == ["Why did the council refuse the loan?"]


@pytest.mark.parametrize("text", ["", "no list at all", "- "])
def test_suggestions_without_a_list_are_a_clear_error(index: Index, text: str) -> None:
    with pytest.raises(QueryError, match="no usable list"):
        suggest(index, ["Who?"], 3, saying(text))


def test_suggestions_without_a_model_ask_about_what_is_linked(index: Index) -> None:
    found = suggest(index, "Who bought the mill?", 6)
    assert len(found) == 6
    assert "How are Ada Finch and mill related?" in found
    assert any("Report" in question for question in found)
    assert suggest(index, [], 2)[0] == "What do the documents say about Ada Finch?"


def test_suggestions_are_in_the_language_of_the_documents(tmp_path: Path) -> None:
    rows = small_rows()
    for document in rows["documents"]:
        document["language"] = "de"
    found = suggest(small_index(tmp_path, rows), "Wer kaufte die Mill?", 9)
    assert any(question.startswith("In welcher Beziehung stehen") for question in found)
