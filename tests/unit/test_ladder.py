"""The steps after a useless answer: asked again, with the error, with less to read, another model, a recorded failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.indexing.asking import AnswerError, Reply
from graphrag_assets.indexing.extraction import Extraction, extract_graph, read_answer
from graphrag_assets.indexing.gleaning import LEAST_CHARACTERS, halve
from graphrag_assets.indexing.summaries import summarize
from graphrag_assets.llm.asking.failed_answers import MOST_CHARACTERS, FailedAnswers, file_name, folder_of
from graphrag_assets.llm.gateway import Gateway
from graphrag_assets.llm.ledger import read_calls
from graphrag_assets.llm.providers.clients import ChatAnswer, TokenUsage
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.settings import Settings, Workspace
from graphrag_assets.settings_file import SettingsError, load_workspace
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.undone import (
    FIRST_WAIT,
    LONGEST_WAIT,
    MOST_TRIES,
    Undone,
    due,
    keep_undone,
    read_undone,
)
from tests.unit.llm_workspaces import KEY

Answer = str | ChatAnswer | Exception
Model = Callable[[str], Answer]


def entity(name: str) -> str:
    return f'("entity"<|>{name}<|>PERSON<|>{name} is named in the text)'


def space(root: Path, **entries: dict[str, Any]) -> Workspace:
    entry = {"model_provider": "openai", "api_base": "http://localhost:1/v1", "api_key": KEY}
    models = {name: {**entry, "model": name, **more} for name, more in (entries or {"chat": {}}).items()}
    return Workspace(root=root, settings=Settings(completion_models=models))


def asked_of(workspace: Workspace, models: dict[str, Model], work: Callable[[Gateway], Any]) -> tuple[Any, StageUsage]:
    """Do some work with models that are functions of the last message."""

    async def main() -> tuple[Any, StageUsage]:
        async with Gateway(workspace, run="run") as gateway:
            for name, model in models.items():

                async def chat(
                    messages: Any, parameters: Any, schema: Any, model: Model = model, name: str = name
                ) -> ChatAnswer:
                    answer = model(messages[-1]["content"])
                    if isinstance(answer, Exception):
                        raise answer
                    return answer if isinstance(answer, ChatAnswer) else ChatAnswer(answer, usage=TokenUsage(5, 5))

                gateway._chat(name).calls.client.chat = chat  # type: ignore[method-assign]
            try:
                return await work(gateway), gateway.usage()["stage"]
            except AnswerError as error:
                return error, gateway.usage()["stage"]

    return asyncio.run(main())


def once(gateway: Gateway, text: str = "the question", parse: Any = read_answer, **options: Any) -> Any:
    return gateway.ask("stage", "chat")([{"role": "user", "content": text}], parse, row="row-1", **options)


def test_the_error_is_told_last(tmp_path: Path) -> None:
    seen: list[str] = []

    def model(text: str) -> str:
        seen.append(text)
        return f"{entity('Scrooge')}\n<|COMPLETE|>" if "could not be used" in text else "I like turtles."

    reply, usage = asked_of(space(tmp_path), {"chat": model}, once)
    assert isinstance(reply, Reply)
    assert ["could not be used" in text for text in seen] == [False, False, False, True]
    assert "holds no record" in seen[-1]
    assert usage.ladder == {
        "mended": {"tried": 1, "recovered": 0},
        "asked_again": {"tried": 1, "recovered": 0},
        "asked_with_error": {"tried": 1, "recovered": 1},
    }
    assert usage.failed == 0


@pytest.mark.parametrize("useless", ["", "I like turtles."])
def test_at_temperature_0_the_error_is_told_after_two_equal_answers(useless: str, tmp_path: Path) -> None:
    seen: list[str] = []

    def model(text: str) -> str:
        seen.append(text)
        return useless

    entry = {"call_args": {"temperature": 0}}
    asked_of(space(tmp_path, chat=entry), {"chat": model}, once)
    assert ["could not be used" in text for text in seen[:3]] == [False, False, True]


def test_an_answer_without_its_end_is_asked_for_again(tmp_path: Path) -> None:
    whole = f"{entity('Scrooge')}\n##\n{entity('Marley')}\n<|COMPLETE|>"
    answers = iter([entity("Scrooge"), whole])
    reply, usage = asked_of(space(tmp_path), {"chat": lambda _: next(answers)}, once)
    assert [e.name for e in reply.value.entities] == ["Scrooge", "Marley"]
    assert usage.recovered["asked_again"] == 1


def test_a_model_that_writes_no_end_marks_is_soon_believed(tmp_path: Path) -> None:
    async def work(gateway: Gateway) -> list[int]:
        return [(await once(gateway, f"question {n}")).attempts for n in range(6)]

    attempts, usage = asked_of(space(tmp_path), {"chat": lambda _: entity("Scrooge")}, work)
    assert usage.calls == 9, "three questions twice, three once"
    assert attempts[-1] == 1


def test_the_fallback_answers_under_its_own_name(tmp_path: Path) -> None:
    workspace = space(tmp_path, chat={"fallback_model_id": "other"}, other={})
    models: dict[str, Model] = {"chat": lambda _: "nonsense", "other": lambda _: f"{entity('Scrooge')}\n<|COMPLETE|>"}
    reply, usage = asked_of(workspace, models, once)
    assert reply.value.entities[0].name == "Scrooge"
    assert usage.ladder["fallback"] == {"tried": 1, "recovered": 1}
    assert usage.failed == 0
    calls = read_calls(workspace.path(workspace.settings.cache.path), workspace.uri("output"))
    assert [(call.model, call.status) for call in calls] == [("openai/chat", "failed"), ("openai/other", "ok")]
    assert not folder_of(workspace).exists(), "nothing failed in the end"
    # Its answer is in the cache under its own key: the first model is asked again, the fallback is not.
    _, again = asked_of(workspace, models | {"other": lambda _: AssertionError()}, once)
    assert again.recovered["fallback"] == 1
    assert again.cached == 1


def test_a_fallback_that_cannot_be_used_costs_only_the_row(tmp_path: Path) -> None:
    workspace = space(tmp_path, chat={"fallback_model_id": "other"}, other={})
    from graphrag_assets.llm.errors import GatewayError

    models: dict[str, Model] = {"chat": lambda _: "nonsense", "other": lambda _: GatewayError("wrong key")}
    error, usage = asked_of(workspace, models, once)
    assert isinstance(error, AnswerError)
    assert "fallback other" in error.reason
    assert "wrong key" in error.reason
    assert usage.failed == 1


def test_what_no_step_helps_is_kept_to_look_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    workspace = space(tmp_path, chat={"fallback_model_id": "other"}, other={})
    models: dict[str, Model] = {"chat": lambda _: "first nonsense", "other": lambda _: "other nonsense"}
    with caplog.at_level("DEBUG"):
        error, usage = asked_of(workspace, models, once)
    assert (error.status, usage.failed, usage.ladder["fallback"]["recovered"]) == ("failed", 1, 0)
    text = (folder_of(workspace) / file_name("stage", "row-1")).read_text(encoding="utf-8")
    assert text.endswith("\n\nother nonsense")
    assert 'model: "openai/other"' in text
    assert "nonsense" not in caplog.text, "answers stand in no log"


def test_kept_answers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphrag_assets.llm.asking import failed_answers

    monkeypatch.setattr(failed_answers, "MOST_FILES", 5)
    kept = FailedAnswers(tmp_path / "kept")
    for number in range(9):
        kept.keep("stage", f"../a|b\n{number}", "m", AnswerError("failed", "why", 1, "x" * (MOST_CHARACTERS + 7)))
    files = list((tmp_path / "kept").iterdir())
    assert len(files) == 5
    assert all(path.stat().st_size < MOST_CHARACTERS + 1_000 for path in files)
    assert "characters_left_out: 7" in files[0].read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    FailedAnswers(tmp_path / "file").keep("s", "r", "m", AnswerError("failed", "why"))
    (tmp_path / "full").write_text("a file")
    FailedAnswers(tmp_path / "full").keep("s", "r", "m", AnswerError("failed", "why"))


def test_settings_name_fallbacks_that_exist(tmp_path: Path) -> None:
    for other, wrong in (("chat", "names its own entry"), ("nobody", "has no entry 'nobody'")):
        models = {"default_completion_model": {"model": "m", "fallback_model_id": other}}
        if other == "chat":
            models = {"chat": {"model": "m", "fallback_model_id": "chat"}}
        (tmp_path / "settings.yaml").write_text(json.dumps({"completion_models": models}), encoding="utf-8")
        with pytest.raises(SettingsError, match=wrong):
            load_workspace(tmp_path)


def test_entries_that_name_each_other_are_asked_once(tmp_path: Path) -> None:
    workspace = space(tmp_path, chat={"fallback_model_id": "other"}, other={"fallback_model_id": "chat"})
    error, usage = asked_of(workspace, {"chat": lambda _: "nonsense", "other": lambda _: "nonsense"}, once)
    assert isinstance(error, AnswerError)
    assert usage.ladder["fallback"]["tried"] == 1


# --- smaller input ----------------------------------------------------------------------------------------------------

NAMES = [f"Person{n:02d}" for n in range(24)]
TEXT = " ".join(f"{name} walked through the old town and met nobody at all on the bridge." for name in NAMES)


def extract(model: Model, root: Path, **options: Any) -> tuple[Extraction, StageUsage]:
    async def work(gateway: Gateway) -> Extraction:
        return await extract_graph(
            TEXT,
            gateway.ask("stage", "chat"),
            prompt="Entity types: {entity_types}\n<text>\n{input_text}\n</text>",
            continue_prompt="more?",
            loop_prompt="Y or N?",
            entity_types=["person"],
            max_gleanings=0,
            row="unit",
        )

    return asked_of(space(root, chat=options), {"chat": model}, work)


def reads_at_most(characters: int) -> Model:
    """A model whose answers are cut where there is too much to say."""

    def model(text: str) -> ChatAnswer:
        records = "\n##\n".join(entity(name) for name in NAMES if name in text)
        if len(text) > characters:
            return ChatAnswer(records[: len(records) // 2], "length", usage=TokenUsage(5, 5))
        return ChatAnswer(f"{records}\n<|COMPLETE|>", usage=TokenUsage(5, 5))

    return model


def test_a_text_whose_answer_is_cut_is_read_in_parts(tmp_path: Path) -> None:
    whole, _ = extract(reads_at_most(100_000), tmp_path / "a")
    assert (whole.status, whole.reason, whole.parts) == ("ok", "", 1)
    found, usage = extract(reads_at_most(700), tmp_path / "b")
    assert found.status == "ok"
    assert found.parts == 4
    assert found.reason == "read in 4 parts, since the answer was cut at the token limit"
    assert found.entities == whole.entities
    assert usage.tried["smaller_input"] == 3
    assert usage.failed == 0


def test_a_text_longer_than_the_window_is_read_in_parts(tmp_path: Path) -> None:
    found, usage = extract(reads_at_most(100_000), tmp_path, context_window=250)
    assert (found.status, found.parts) == ("ok", 2)
    assert [row["name"] for row in found.entities] == NAMES
    assert "the prompt has" in found.reason
    assert usage.calls == 2, "a prompt that is too long is never sent"


def test_parts_that_stay_too_long_leave_what_they_hold(tmp_path: Path) -> None:
    found, _ = extract(reads_at_most(0), tmp_path)
    assert found.status == "truncated"
    assert found.entities
    assert "part 1" in found.reason
    nothing, _ = extract(lambda _: ChatAnswer("", "length", usage=TokenUsage(5, 0)), tmp_path / "b")
    assert nothing.status == "truncated"
    assert nothing.entities == []


@given(st.text(alphabet="abc .!?\n。é漢", max_size=1500))
def test_halves_hold_all_of_a_text(text: str) -> None:
    halves = halve(text)
    if halves:
        assert "".join("".join(halves).split()) == "".join(text.split())
        assert all(half.strip() for half in halves)
    if len(text) < LEAST_CHARACTERS:
        assert halves == ()


def test_a_text_is_halved_at_the_end_of_a_sentence() -> None:
    first, second = halve(TEXT)
    assert first.endswith("bridge.")
    assert second.startswith("Person")
    assert abs(len(first) - len(second)) < 200


def test_summaries_take_smaller_rounds(tmp_path: Path) -> None:
    descriptions = [f"Fact {n} about the bridge: " + "it is old " * 12 for n in range(12)]

    def model(text: str) -> ChatAnswer:
        cut = len(text) > 1_000
        return ChatAnswer(
            "It is an old bridge" + ("" if cut else "."), "length" if cut else "stop", usage=TokenUsage(5, 5)
        )

    async def work(gateway: Gateway) -> Any:
        return await summarize(
            "BRIDGE",
            descriptions,
            gateway.ask("stage", "chat"),
            prompt="{entity_name} {max_length} {description_list}",
            max_input_tokens=4_000,
            max_length=50,
            count_tokens=len,
            truncate=lambda text, n: text[:n],
            row="row",
        )

    summary, usage = asked_of(space(tmp_path), {"chat": model}, work)
    assert (summary.text, summary.failed, summary.smaller) == ("It is an old bridge.", "", True)
    assert usage.failed == 0


# --- what stays undone ------------------------------------------------------------------------------------------------


def test_waits_double_and_end() -> None:
    def wait(tries: int, passing: bool = False) -> float | None:
        return Undone("r", "h", "failed", "why", passing, tries, 0.0).next

    assert [wait(tries) for tries in range(1, 5)] == [0.0, FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
    assert wait(MOST_TRIES) is None, "the model answers the same for ever, at a price"
    assert wait(10_000, passing=True) == LONGEST_WAIT
    assert due([]) is None
    assert (
        due([Undone("r", "h", "failed", "why", False, 3, 100.0), Undone("s", "h", "failed", "why", False, 2, 0.0)])
        == 600.0
    )


def test_tries_are_counted_over_runs(tmp_path: Path) -> None:
    storage = open_filesystem(str(tmp_path))
    row = Undone("row", "hash", "failed", "why", passing=False)
    for tries in (1, 2, 3):
        (kept,) = keep_undone(storage, "extraction", "batch-000001", [row], now=float(tries))
        assert (kept.tries, kept.last) == (tries, float(tries))
    assert read_undone(storage, "extraction", "batch-000001") == [kept]
    other = Undone("row", "another hash", "failed", "why", passing=False)
    assert keep_undone(storage, "extraction", "batch-000001", [other], 4.0)[0].tries == 1
    keep_undone(storage, "extraction", "batch-000001", [], 5.0)
    assert read_undone(storage, "extraction", "batch-000001") == []
    assert list(storage.list("build")) == []
    storage.write("build/undone/graph/all.json", b"{damaged")
    assert read_undone(storage, "graph") == []
