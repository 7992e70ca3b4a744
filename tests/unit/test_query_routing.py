"""Which search ``auto`` takes, what it tells about the others, and where it goes on to another one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.query import Answer, QueryError, ask
from graphrag_assets.query.index import Index
from graphrag_assets.query.routing import Route, by_rules, choose, parse_choice
from graphrag_assets.query.writing import Question
from tests.unit.query_doubles import FakeChat, good_answers, models, small_index, small_rows

pytestmark = pytest.mark.storage


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return small_index(tmp_path_factory.mktemp("small"))


def rules(index: Index, question: str, chat: FakeChat | None = None) -> Route:
    return by_rules(Question(index, models(chat), question))


def run(index: Index, question: str, chat: FakeChat | None, method: str = "auto", **options: Any) -> Answer:
    return asyncio.run(ask(index, question, method, models=models(chat), **options))  # type: ignore[arg-type]


def saying(answers: dict[str, str]) -> FakeChat:
    """Good answers, but for some stages."""
    return FakeChat(lambda stage, messages: answers.get(stage) or good_answers(stage, messages))


@pytest.mark.parametrize(
    ("question", "method"),
    [
        # German, French, Spanish, Italian, Portuguese, Dutch, Russian, Japanese, Chinese, Korean
        ("Was sind die wichtigsten Themen der Dokumente?", "global"),
        ("Quels sont les thèmes principaux ?", "global"),
        ("Resume los temas principales.", "global"),
        ("Quali sono i temi principali?", "global"),
        ("Quais são as tendências gerais?", "global"),
        ("Geef een samenvatting van alles.", "global"),
        ("Каковы основные темы?", "global"),
        ("全体の要約を教えてください。", "global"),
        ("这些文档的主要内容是什么？", "global"),
        ("전체 개요를 알려줘", "global"),
        ("Wer ist Ada Finch?", "local"),
        ("Qui est Tom Finch ?", "local"),
        ("¿Quién es Tom Finch?", "local"),
        ("Wie ist die Beziehung zwischen Ada Finch und Tom Finch?", "local"),
        ("Tom Finch とは誰ですか？", "local"),
        ("Tom Finch 是谁？", "local"),
        ("Wann wurde die Schule eröffnet?", "basic"),
        ("Quand l'école a-t-elle ouvert ?", "basic"),
        ("学校はいつ開校しましたか？", "basic"),
        ("How did the flood affect life in the village?", "global"),
        ("How much did the loan cost?", "basic"),
        # words of other languages within English
        ("When did work at the looms resume?", "basic"),
        ("Who painted the panorama?", "basic"),
    ],
)
def test_rules_read_many_languages(index: Index, question: str, method: str) -> None:
    route = rules(index, question)
    assert (route.method, route.sure) == (method, True), route.why


def test_words_of_other_languages_are_none_in_english(index: Index) -> None:
    for question in ("What does the panorama show?", "Where did the talks resume?", "What is a tra la la?"):
        assert rules(index, question).method == "basic", question


def test_a_model_is_asked_only_where_the_rules_are_not_sure(index: Index) -> None:
    chat = saying({"query_route": '{"reason": "It compares two people.", "method": "local"}'})
    sure = run(index, "When did the school open?", chat)
    assert "query_route" not in chat.stages()
    assert sure.method == "basic"
    unsure = run(index, "Mention something on looms.", chat)
    assert chat.stages().count("query_route") == 1
    assert "It compares two people." in unsure.why
    assert unsure.explanation["route"]["by"] == "model"


def test_the_model_need_not_be_asked(tmp_path: Path) -> None:
    chat = FakeChat(good_answers)
    answer = run(small_index(tmp_path, auto_search={"ask_model": False}), "Mention something on looms.", chat)
    assert "query_route" not in chat.stages()
    assert answer.method == "basic"


@pytest.mark.parametrize("text", ["", "hm", '{"method": "magic"}', '{"reason": 3}', "[]"])
def test_a_choice_that_cannot_be_read_leaves_the_rules(index: Index, text: str) -> None:
    answer = run(
        index,
        "Mention something on looms.",
        FakeChat(lambda stage, m: text if stage == "query_route" else good_answers(stage, m)),
    )
    assert answer.method == "basic"
    assert "the model made no choice" in answer.why


def test_choices_are_read_tolerantly() -> None:
    assert parse_choice('Sure: {"method": " Global ", "reason": "wide\\nthing"}') == ("global", "wide thing")
    assert parse_choice('{"method": "drift"}') == ("drift", "")


def test_without_a_model_examples_help_and_failing_embeddings_do_not_hurt(index: Index) -> None:
    route = asyncio.run(choose(Question(index, models(), "Mention something on looms.")))
    assert route.method == "basic"
    assert "similarity to examples" in route.why

    class Broken:
        model = "broken"

        async def embed(self, *_: object) -> None:
            raise RuntimeError("no connection")

    broken = replace(models(), embedder=Broken())  # type: ignore[arg-type]
    route = asyncio.run(choose(Question(index, broken, "Mention something on looms.")))
    assert route.method == "basic"
    assert "could not be compared" in route.why


def test_alternatives_say_what_they_would_have_cost(index: Index) -> None:
    chat = FakeChat(good_answers)
    priced = replace(models(chat), facts=lambda model_id: ModelFacts(1e-6, 4e-6))
    answer = asyncio.run(ask(index, "When did the school open?", "auto", models=priced))
    costs = {a["method"]: a for a in answer.explanation["route"]["alternatives"]}
    assert set(costs) == {"basic", "local", "global", "drift"}
    assert [m for m, a in costs.items() if a["chosen"]] == ["basic"]
    assert costs["basic"]["calls"] == 1
    assert costs["global"]["calls"] == 2
    assert costs["drift"]["calls"] > 3
    assert 0 < costs["basic"]["usd"] < costs["drift"]["usd"]
    # The estimate of the search that was taken is near to what was sent.
    sent = sum(models().tokenizer.count(m["content"]) for _, messages in chat.asked for m in messages)
    assert 0.5 < costs["basic"]["prompt_tokens"] / sent < 2
    unknown = run(index, "When did the school open?", chat).explanation["route"]["alternatives"]
    assert {a["usd"] for a in unknown} == {None}


def test_global_search_that_finds_nothing_gives_way(index: Index) -> None:
    chat = saying({"query_map": '{"points": []}'})
    answer = run(index, "What are the main themes?", chat)
    assert answer.method == "basic"
    assert not answer.declined
    assert "global search was given up for basic search, since global search found nothing" in answer.why
    asked = run(index, "What are the main themes?", chat, "global")
    assert asked.declined
    assert asked.why == ""


def test_an_index_without_usable_reports_gives_way(tmp_path: Path) -> None:
    rows = small_rows()
    for report in rows["community_reports"]:
        report["status"] = "failed"
    index = small_index(tmp_path, rows)
    for chat in (None, FakeChat(good_answers)):
        answer = run(index, "What are the main themes?", chat)
        assert answer.method == "basic"
        assert "holds no usable report" in answer.why
        with pytest.raises(QueryError, match="no usable report"):
            run(index, "What are the main themes?", chat, "global")


def test_a_poor_local_context_gives_way_before_it_is_paid_for(index: Index) -> None:
    chat = saying({"query_route": '{"reason": "r", "method": "local"}'})
    answer = run(index, "Zzz qqq xxx.", chat)
    assert answer.method == "basic"
    assert "no entity is named" in answer.why
    assert "query_local" not in chat.stages()


def test_what_no_text_holds_is_declined_once(index: Index) -> None:
    answer = run(index, "When did zzz qqq xxx?", None)
    assert answer.declined
    assert answer.method == "basic"
    assert answer.explanation["route"]["fell_back"] == []


def test_every_prompt_asks_for_the_language_of_the_question_and_for_honesty(index: Index) -> None:
    """What reaches the model in each step that writes text for the reader."""
    for method in ("basic", "local", "global", "drift"):
        chat = FakeChat(good_answers)
        run(index, "Wer kaufte die Mühle?", chat, method, response_type="Single Sentence")
        written = [(stage, messages[0]["content"]) for stage, messages in chat.asked]
        assert all("in the language of the" in prompt for _, prompt in written), method
        final = written[-1][1]
        assert "Single Sentence" in final
        assert "not in these documents" in final or "do not hold" in final
        assert all(messages[-1]["content"] for _, messages in chat.asked)


def test_the_conversation_reaches_every_search(index: Index) -> None:
    turns = [{"role": "user", "content": "Tell me of zyxgarble."}, {"role": "assistant", "content": "It is a loom."}]
    for method in ("basic", "local", "global", "drift"):
        chat = FakeChat(good_answers)
        run(index, "Who bought it?", chat, method, history=turns)
        prompts = [messages[0]["content"] for _, messages in chat.asked]
        assert any("zyxgarble" in prompt for prompt in prompts), method


def test_an_explanation_names_budgets_and_what_was_left_out(tmp_path: Path) -> None:
    index = small_index(tmp_path, local_search={"max_context_tokens": 400})
    answer = run(index, "How are Ada Finch and Tom Finch connected?", FakeChat(good_answers), "local")
    (context,) = answer.explanation["contexts"]
    sections = {section["name"]: section for section in context["sections"]}
    assert context["tokens"] <= 400
    for section in sections.values():
        assert section["used"] <= section["budget"]
    assert any(section["left_out"] for section in sections.values())
    assert any(section["too_long"] for section in sections.values())
    assert {seed["how"] for seed in context["seeds"]} >= {"name"}
    assert json.loads(json.dumps(answer.to_dict(explain=True)))["explain"]["route"]["method"] == "local"
    assert "explain" not in answer.to_dict()


def test_steps_of_drift_are_explained(index: Index) -> None:
    answer = run(index, "Why was the mill sold?", FakeChat(good_answers), "drift")
    steps = answer.explanation["search"]["drift"]["steps"]
    assert [step["question"] for step in steps][-2:] == ["Who kept the books?", "Who refused the loan?"]
