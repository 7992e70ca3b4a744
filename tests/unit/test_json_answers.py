"""JSON as models write it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.text.json_answers import CutError, parse_json_object
from graphrag_assets.text.map_answers import Point, parse_points
from graphrag_assets.text.refusals import RefusalError

REPORT = {
    "title": 'A\'s: "B", {c}',
    "summary": "s\nt",
    "findings": [{"summary": "x", "explanation": "y]}"}],
    "rating": 7.5,
}
KEYS = tuple(REPORT)
TEXT = json.dumps(REPORT, ensure_ascii=False)


@pytest.mark.parametrize(
    "answer",
    [
        TEXT,
        f"```json\n{TEXT}\n```",
        f"Sure, here it is {{as asked}}:\n```\n{TEXT}\n```\nAnything else?",
        f"Sure! I read it. {TEXT}\n\nLet me know.",
        f'<think>maybe {{"title": "no"}}</think>{TEXT}',
        f"the template opened the thought</think>\n{TEXT}",
        TEXT[:-1],
        TEXT[:-1] + ",}",
        TEXT + "}",
        TEXT.replace("}]", "},]"),
        TEXT.replace('"title"', 'title"', 1),
        json.dumps(REPORT, indent=4).replace("7.5", "7.5,"),
        f'{{"title": "{{schema}}", "type": "object"}}\n{TEXT}',
        f"[{TEXT}]",
        TEXT.replace('": ', '" ', 1),
        TEXT.replace('"findings": ', '"findings" '),
    ],
)
def test_one_object_whatever_stands_around_it(answer: str) -> None:
    assert parse_json_object(answer, KEYS) == REPORT


def test_single_quotes_with_apostrophes() -> None:
    assert parse_json_object("{'title': 'Scrooge's niece', 'ok': True, 'none': None}", ("title",)) == {
        "title": "Scrooge's niece",
        "ok": True,
        "none": None,
    }


def test_full_width_punctuation() -> None:
    found = parse_json_object('｛"title"："a：b"，"rating"：NaN，"findings"：［1, 2］｝', KEYS)
    assert found == {"title": "a：b", "rating": None, "findings": [1, 2]}


def test_numbers_are_finite_and_strings_can_be_stored() -> None:
    found = parse_json_object('{"a": 1e999, "b": -Infinity, "c": "\\ud800x", "d": {"e": [NaN]}}')
    assert found == {"a": None, "b": None, "c": "?x", "d": {"e": [None]}}


def test_of_several_objects_the_one_with_the_keys_counts() -> None:
    assert parse_json_object('{"note": 1} {"title": "draft"} {"title": "last"}', ("title",)) == {"title": "last"}


@pytest.mark.parametrize("share", [0.3, 0.5, 0.6, 0.7, 0.9])
def test_a_cut_answer_is_refused_and_its_whole_items_can_be_had(share: float) -> None:
    points = {"points": [{"description": f"point number {i} of some length", "score": i} for i in range(20)]}
    text = json.dumps(points)
    cut = text[: text.index("point number", int(len(text) * share)) + 5]
    with pytest.raises(CutError, match="cut"):
        parse_json_object(cut, ("points",))
    part = parse_json_object(cut, ("points",), partial=True)["points"]
    assert part == points["points"][: len(part)]
    assert len(part) >= int(20 * share) - 1


@pytest.mark.parametrize(
    "answer", ["", "no JSON here", "<think>{}", '{"other": 1}', "[1, 2]", "{{{{ not json ]]", "__import__('os')"]
)
def test_what_is_no_answer_is_refused(answer: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_json_object(answer, KEYS)


@pytest.mark.parametrize(
    "bad", ["{" * 100_000, '{"' * 50_000, "[" * 100_000, '{"a":' * 20_000, '{"a":"' + "x" * 500_000, "{'a':" * 20_000]
)
def test_hostile_text_costs_little(bad: str) -> None:
    started = time.perf_counter()
    with pytest.raises(ValueError, match="expected"):
        parse_json_object(bad, KEYS)
    assert time.perf_counter() - started < 10


def test_tags_inside_a_text_are_text() -> None:
    answer = {"title": "How models think", "summary": "They write <think> and </think>\naround it."}
    assert parse_json_object(json.dumps(answer), KEYS) == answer


def test_points_are_read_one_by_one() -> None:
    answer = {
        "points": [
            {"description": "a", "score": 120},
            {"description": "b"},
            {"score": 3},
            "c",
            {"description": "d", "score": "40/100"},
        ]
    }
    assert parse_points(json.dumps(answer)) == [Point("a", 100.0), Point("d", 40.0)]
    assert parse_points('[{"description": "a", "score": -5}]') == [Point("a", 0.0)]
    assert parse_points('{"points": []}') == []


def test_points_that_are_none() -> None:
    with pytest.raises(ValueError, match="no item"):
        parse_points('{"points": ["a", 3]}')
    with pytest.raises(RefusalError):
        parse_points("I'm sorry, but I can't assist with that request.")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), JSON, min_size=1))
def test_json_comes_back_as_it_is(value: dict[str, Any]) -> None:
    assert parse_json_object(json.dumps(value)) == value


@given(st.text() | st.text(alphabet="{}[]\":,\\'`<> aN1｛“"))
def test_nothing_but_value_error(text: str) -> None:
    for partial in (False, True):
        try:
            found = parse_json_object(text, partial=partial)
        except ValueError:
            continue
        json.dumps(found, allow_nan=False).encode("utf-8")
