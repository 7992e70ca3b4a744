"""Dynamic community selection: the descent, the votes, and ratings that are none."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.indexing.asking import Message
from graphrag_assets.query import Answer, QueryError, ask
from graphrag_assets.query.dynamic import majority, parse_rating
from graphrag_assets.query.index import Index
from tests.unit.query_doubles import FakeChat, good_answers, models, small_index, small_rows

pytestmark = pytest.mark.storage

QUESTION = "Who bought the mill?"


def rating(ratings: Mapping[int, Any]) -> FakeChat:
    """A model that rates communities so; a text is answered as it is, a list is answered in turn."""
    turns = {number: list(value) if isinstance(value, list) else None for number, value in ratings.items()}

    def handler(stage: str, messages: Sequence[Message]) -> str:
        if stage != "query_rate":
            return good_answers(stage, messages)
        found = re.search(r"# Report (\d+)", messages[0]["content"])
        assert found
        number = int(found[1])
        queue = turns.get(number)
        value = queue.pop(0) if queue else ratings.get(number, 0)
        return value if isinstance(value, str) else json.dumps({"reason": "so", "rating": value})

    return FakeChat(handler)


def tree() -> dict[str, Any]:
    """The small index with a third level: 0 over 1 and 2, 1 over 3."""
    rows = small_rows()
    parent = next(c for c in rows["communities"] if c["community"] == 1)
    child = {**parent, "id": "c3", "human_readable_id": 3, "community": 3, "level": 2, "parent": 1, "children": []}
    rows["communities"] = [*rows["communities"], {**child, "title": "Community 3"}]
    report = next(r for r in rows["community_reports"] if r["community"] == 1)
    new = {**report, "id": "p3", "human_readable_id": 3, "community": 3, "level": 2, "parent": 1, "title": "Report 3"}
    new["full_content"] = report["full_content"].replace("Report 1", "Report 3")
    rows["community_reports"] = [new, *rows["community_reports"]]
    return rows


def run(index: Index, chat: FakeChat, **options: Any) -> Answer:
    return asyncio.run(ask(index, QUESTION, "global", models=models(chat), **({"dynamic": True} | options)))


def chosen(answer: Answer) -> list[int]:
    found: list[int] = answer.explanation["search"]["dynamic"]["chosen"]
    return found


def rated(chat: FakeChat) -> list[int]:
    asked = [messages[0]["content"] for stage, messages in chat.asked if stage == "query_rate"]
    return [int(re.search(r"# Report (\d+)", text)[1]) for text in asked]  # type: ignore[index]


@pytest.mark.parametrize(
    ("ratings", "expected", "asked"),
    [
        ({0: 3, 1: 4, 2: 0, 3: 0}, [1], [0, 1, 2, 3]),  # a relevant child takes the place of its parent
        ({0: 3, 1: 0, 2: 0}, [0], [0, 1, 2]),  # no child is relevant: the parent stays, and 3 is not looked at
        ({0: 2, 1: 5, 2: 1, 3: 5}, [2, 3], [0, 1, 2, 3]),
        ({0: 0, 1: 0, 2: 4}, [2], [0, 1, 2]),  # nothing at the root: the next level is rated
        ({0: 0, 1: 0, 2: 0, 3: 1}, [3], [0, 1, 2, 3]),
        ({0: 0}, [], [0, 1, 2, 3]),
    ],
)
def test_descent(tmp_path: Path, ratings: dict[int, int], expected: list[int], asked: list[int]) -> None:
    chat = rating(ratings)
    answer = run(small_index(tmp_path, tree()), chat)
    assert chosen(answer) == expected
    assert rated(chat) == asked
    assert answer.sections.get("Reports", []) == expected
    assert answer.declined == (not expected)


def test_settings(tmp_path: Path) -> None:
    on = {"dynamic_search": True, "dynamic_search_keep_parent": True, "dynamic_search_threshold": 3}
    index = small_index(tmp_path, tree(), global_search=on)
    chat = rating({0: 3, 1: 4, 2: 2, 3: 3})
    assert chosen(run(index, chat, dynamic=None)) == [0, 1, 3]
    run(index, chat := rating({}), dynamic=False)
    assert "query_rate" not in chat.stages()
    shallow = small_index(tmp_path / "b", tree(), global_search={"dynamic_search_max_level": 0})
    assert chosen(run(shallow, chat := rating({0: 0, 1: 5}))) == []
    assert rated(chat) == [0]
    assert chosen(run(shallow, rating({0: 1, 1: 1, 3: 1}), level=1)) == [1]
    summaries = small_index(tmp_path / "c", tree(), global_search={"dynamic_search_use_summary": True})
    run(summaries, chat := rating({0: 1}))
    prompt = next(messages[0]["content"] for stage, messages in chat.asked if stage == "query_rate")
    assert "A mill and its owners." in prompt
    assert "## Loan" not in prompt


def test_votes(tmp_path: Path) -> None:
    assert majority([1, 2, 2]) == 2
    assert majority([3, 0]) == 0
    assert majority([None, 4, None]) == 4
    assert majority([None, None]) is None
    index = small_index(tmp_path, tree(), global_search={"dynamic_search_num_repeats": 3})
    chat = rating({0: [0, 3, 3], 1: [2, 0, 0], 2: ["garbage", "", 2], 3: 0})
    assert chosen(run(index, chat)) == [2]
    prompts = [messages[0]["content"] for stage, messages in chat.asked if stage == "query_rate"]
    assert len(set(prompts)) == len(prompts), "equal prompts would be answered from the cache"


@pytest.mark.parametrize("garbage", ["", "%$&", '{"rating": "high"}', '{"rating": 7}', '{"rating": null}', "[5]", "{}"])
def test_garbage_is_no_rating(tmp_path: Path, garbage: str) -> None:
    index = small_index(tmp_path, tree())
    answer = run(index, rating({0: 1, 1: garbage, 2: 1}))
    assert chosen(answer) == [2]
    assert "1 of 3 reports could not be rated and were left out" in answer.answer
    with pytest.raises(QueryError, match="none of 1 reports could be rated"):
        run(index, rating({0: garbage}))


def test_ratings_are_read_tolerantly() -> None:
    assert parse_rating('```json\n{"reason": "x", "rating": "4/5"}\n```') == 4
    assert parse_rating('{"rating": 0}') == 0
    with pytest.raises(ValueError, match="from 0 to 5"):
        parse_rating('{"rating": -1}')


def test_a_root_without_a_report_hands_on_to_its_children(tmp_path: Path) -> None:
    rows = tree()
    rows["community_reports"] = [r for r in rows["community_reports"] if r["community"] != 0]
    chat = rating({1: 1, 2: 0})
    assert chosen(run(small_index(tmp_path, rows), chat)) == [1]
    assert rated(chat) == [1, 2, 3]


def test_the_same_question_chooses_the_same(tmp_path: Path) -> None:
    index = small_index(tmp_path, tree())
    first, second = rating({0: 1, 1: 1, 2: 1}), rating({0: 1, 1: 1, 2: 1})
    assert run(index, first).contexts == run(index, second).contexts
    assert first.asked == second.asked
