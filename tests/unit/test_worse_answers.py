# ruff: noqa: E501 (answers as they come)
"""Answers in other grammars than the one that was asked for: what a lenient reader finds is found, and no more."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from graphrag_assets.indexing.extraction import parse_tuples, read_answer
from graphrag_assets.indexing.report_answers import parse_report
from graphrag_assets.query.calls import parse_step
from graphrag_assets.text.map_answers import Point, parse_points
from tests.unit.test_bad_answers import records, zoo
from tests.unit.worse_answers import OF_TUPLES, records_of


@pytest.fixture(scope="module")
def good(shared: Path) -> list[str]:
    extractions = zoo(shared / "data" / "llm-zoo" / "responses.parquet")[0]
    return [text for text in extractions if len(records_of(text)) == records(parse_tuples(text)).total()][::6]


@pytest.mark.parametrize("name", OF_TUPLES)
def test_a_worse_extraction_is_read(name: str, good: list[str]) -> None:
    assert len(good) > 10
    kept = strange = total = 0
    for number, text in enumerate(good):
        right = records(parse_tuples(text))
        try:
            found = records(read_answer(OF_TUPLES[name](text, Random(number))))
        except ValueError:
            found = Counter()
        kept, total = kept + (right & found).total(), total + right.total()
        strange += len(found.keys() - right.keys())
    assert kept >= 0.95 * total
    assert strange <= 0.05 * total


@pytest.mark.parametrize(
    "prose",
    [
        "The entity, a company, sells things (entity, relationship, and claim are terms of the field).",
        "**Entities:**\n- Person: John Smith, Mary Smith\n- Organisation: ABC Inc., XYZ Corp.\n",
        "Relationships:\n- John Smith works for ABC Inc.\n- Mary is married to John\n",
        "| Year | Profit |\n|---|---|\n| 2020 | 7 |\n",
        "Entity extraction -> a task. Relationship -> a link. Both -> hard.",
        'def extract(text):\n    entities = []\n    return {"entities": entities, "relation": None}\n',
        "Title: A story\nSummary: It is about a man.\n",
        "# Entities\n\nThere are many people in this text: Scrooge (a miser): he counts money.",
    ],
)
def test_prose_and_programs_give_no_records(prose: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_answer(prose)


def test_an_object_of_which_nothing_can_be_read_is_no_honest_nothing() -> None:
    with pytest.raises(ValueError, match="expected"):
        read_answer(json.dumps({"entities": [{"foo": "Scrooge"}], "relationships": []}))
    assert not read_answer('{"entities": [], "relationships": []}')


REPORT = {
    "title": "T",
    "summary": "S.",
    "findings": [{"summary": "F", "explanation": "E [Data: Reports (1)]."}],
    "rating": 7.5,
    "rating_explanation": "R",
}


@pytest.mark.parametrize(
    "answer",
    [
        '{"Title": "T", "Summary": "S.", "Key Findings": {"F": "E [Data: Reports (1)]."}, "Rating": {"score": "7,5", "explanation": "R"}}',
        '{"response": {"report": {"title": "T", "summary": "S.", "findings": [["F", "E [Data: Reports (1)]."]], "ratingExplanation": "R", "impactSeverityRating": 7.5}}}',
        '{"标题": "T", "摘要": "S.", "发现": [{"摘要": "F", "解释": "E [Data: Reports (1)]."}], "评分": "7.5/10", "评分说明": "R"}',
        '{"title": "T", "summary": "S.", "rating": 7.5, "rating_explanation": "R"}\n{"findings": [{"summary": "F", "explanation": "E [Data: Reports (1)]."}]}',
        "# T\n\nS.\n\n## F\n\nE [Data: Reports (1)].\n\n**Rating:** 7.5/10\n\n**Rating Explanation:** R",
        "**Title:** T\n**Summary:** S.\n**Rating:** 7.5\n**Rating explanation:** R\n**Findings:**\n1. **F**: E [Data: Reports (1)].",
        "<report><title>T</title><summary>S.</summary><rating>7.5</rating><rating_explanation>R</rating_explanation>"
        "<findings><finding><summary>F</summary><explanation>E [Data: Reports (1)].</explanation></finding></findings></report>",
        "{«title»: «T», «summary»: «S.», «findings»: [{«summary»: «F», «explanation»: «E [Data: Reports (1)].»}], «rating»: 7.5, «rating_explanation»: «R»}",
    ],
)
def test_a_report_in_another_form_is_read(answer: str) -> None:
    assert parse_report(answer).as_json() == REPORT


@pytest.mark.parametrize(
    "answer",
    [
        '{"keyPoints": [{"point": "A [Data: Reports (1)]", "importance": "80/100"}, {"point": "B", "importance": 5}]}',
        '{"要点": [{"描述": "A [Data: Reports (1)]", "分数": 80}, {"描述": "B", "分数": 5}]}',
        '{"result": {"points": [["A [Data: Reports (1)]", 80], ["B", 5]]}}',
        "1. A [Data: Reports (1)] (Score: 80)\n2. B (Score: 5)",
    ],
)
def test_points_in_another_form_are_read(answer: str) -> None:
    assert parse_points(answer) == [Point("A [Data: Reports (1)]", 80.0), Point("B", 5.0)]


def test_a_step_in_another_form_is_read() -> None:
    step = parse_step('{"Answer": ["A"], "Score": "70/100", "followUpQuestions": [{"question": "Who?"}]}', "response")
    assert (step.text, step.score, step.follow_ups) == ("A", 70.0, ("Who?",))


@pytest.mark.parametrize(
    "piece",
    [
        '["',
        '{"',
        '("entity"',
        "entity -> ",
        "- a (",
        "Name: a\n",
        "<entity>",
        "\u200b",
        '\\"',
        "{'a ",
        "| a ",
        '{"a": b} ',
    ],
)
@pytest.mark.parametrize("before", ["", '{"title": "', '("entity"<|>A<|>B<|>'])
def test_the_time_is_in_proportion_to_the_size(piece: str, before: str) -> None:
    text = before + piece * (40_000 // len(piece))
    start = time.process_time()
    for read in (read_answer, parse_report, parse_points):
        with suppress(ValueError):
            read(text)
    assert time.process_time() - start < 100
