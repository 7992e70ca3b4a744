"""Writing reports: bottom-up, the same at any concurrency, never lost, citations that exist."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from graphrag_assets import ids
from graphrag_assets.indexing.asking import AnswerError, Message, Reply
from graphrag_assets.indexing.conflicts import Conflict, Side
from graphrag_assets.indexing.report_parts import mentions, publish_citations
from graphrag_assets.indexing.reports import Reports, write_reports
from graphrag_assets.storage.tables import COMMUNITY_REPORTS
from graphrag_assets.text.citations import find_citations

Row = dict[str, Any]
PROMPT = "Report in {max_report_length} words on:\n{input_text}\nEnd."


def entity(title: str) -> Row:
    text = f"{title.lower()} in words, and what else is said of it in the sources of this corpus"
    return {
        "id": ids.entity_id(title),
        "title": title,
        "description": text,
        "degree": 2,
        "text_unit_ids": [f"unit-{title}"],
    }


def relationship(a: str, b: str) -> Row:
    return {"id": ids.relationship_id(a, b), "source": a, "target": b, "description": f"{a} knows {b}"}


def tree() -> tuple[list[Row], list[Row], list[Row]]:
    """Two levels: 0 holds all, 1 and 2 are its halves; 3 stands apart."""
    halves = {1: ["A1", "A2", "A3"], 2: ["B1", "B2"]}
    parts = {0: [*halves[1], *halves[2]], **halves, 3: ["C1", "C2"]}
    level, parent, children = {0: 0, 1: 1, 2: 1, 3: 0}, {0: -1, 1: 0, 2: 0, 3: -1}, {0: [1, 2], 1: [], 2: [], 3: []}
    pairs = [("A1", "A2"), ("A2", "A3"), ("A3", "B1"), ("B1", "B2"), ("C1", "C2")]
    communities = []
    for number, members in parts.items():
        inside = [ids.relationship_id(a, b) for a, b in pairs if a in members and b in members]
        entity_ids = [ids.entity_id(t) for t in members]
        communities.append(
            {
                "id": ids.community_id(level[number], entity_ids),
                "community": number,
                "level": level[number],
                "parent": parent[number],
                "children": children[number],
                "entity_ids": entity_ids,
                "relationship_ids": sorted(inside),
                "period": "",
                "size": len(members),
            }
        )
    entities = [entity(t) for number in (0, 3) for t in parts[number]]
    return communities, sorted(entities, key=lambda e: e["title"]), [relationship(a, b) for a, b in pairs]


class FakeModel:
    """Answers with a report that cites entity 1 and an entity that does not exist."""

    def __init__(self, fails: Callable[[str], bool] = lambda prompt: False, *, jitter: bool = False) -> None:
        self.prompts: list[str] = []
        self.open = self.most_open = 0
        self.fails = fails
        self.jitter = jitter
        self.finished: list[str] = []

    async def __call__(
        self,
        messages: Sequence[Message],
        parse: Callable[[str], Any],
        *,
        schema: Mapping[str, Any] | None = None,
        row: str = "",
        partial: bool = False,
        smaller: bool = False,
    ) -> Reply[Any]:
        prompt = messages[0]["content"]
        self.prompts.append(prompt)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await asyncio.sleep(random.uniform(0, 0.02) if self.jitter else 0)
        self.open -= 1
        self.finished.append(row)
        assert schema is not None
        if self.fails(prompt):
            raise AnswerError("truncated", "cut at 4096 tokens", attempts=3)
        answer = {
            "title": f"On {len(prompt)} characters",
            "summary": "Summary [Data: Entities (1, 999)].",
            "rating": 42,
            "rating_explanation": "High.",
            "findings": [{"summary": "First", "explanation": "Fact [Data: Entities (2, 77); Relationships (1)]."}],
        }
        return Reply(parse(json.dumps(answer)), "")


def write(ask: Any, conflicts: Sequence[Conflict] = (), *, limit: int = 5000, **options: Any) -> Reports:
    communities, entities, relationships = tree()
    return asyncio.run(
        write_reports(
            communities,
            entities,
            relationships,
            [],
            conflicts,
            ask=ask,
            prompt=PROMPT,
            max_length=100,
            max_input_length=limit,
            count_tokens=lambda text: len(text.split()),
            text_units=7,
            **options,
        )
    )


def test_one_report_per_community_deepest_level_first() -> None:
    result = write(FakeModel())
    assert [row["community"] for row in result.rows] == [1, 2, 0, 3]
    assert (result.written, result.failed, result.reused) == (4, 0, 0)
    COMMUNITY_REPORTS.from_rows(result.rows)
    row = result.rows[0]
    assert row["rank"] == 10, "ratings are clamped"
    assert row["status"] == "ok"
    assert not row["extractive"]
    assert row["full_content"].startswith(f"# {row['title']}\n\nSummary")
    assert json.loads(row["full_content_json"])["summary"] == row["summary"]
    assert row["id"] == ids.report_id(tree()[0][1]["id"], row["input_hash"])


def test_citations_are_full_ids_and_invented_ones_are_dropped_and_counted() -> None:
    result = write(FakeModel())
    row = result.rows[0]
    known = {e["id"] for e in tree()[1]} | {r["id"] for r in tree()[2]}
    cited = [id_ for citation in find_citations(row["full_content"]) for id_ in citation.ids]
    assert cited == [ids.entity_id("A1"), ids.entity_id("A2"), ids.relationship_id("A1", "A2")]
    assert set(cited) <= known
    assert result.dropped_citations == 8
    published = publish_citations(row["summary"], {"Entities": {ids.entity_id("A1"): 17}})
    assert published == "Summary [Data: Entities (17)]."
    assert publish_citations(row["summary"], {}) == "Summary."


def test_a_parent_is_written_from_the_reports_of_its_children_when_it_is_too_long() -> None:
    model = FakeModel()
    result = write(model, limit=70)
    assert result.substituted > 0
    (parent_prompt,) = [p for p in model.prompts if "-----Reports-----" in p]
    assert "Summary." in parent_prompt
    assert "[Data:" not in parent_prompt


def test_a_report_waits_for_its_own_children_only() -> None:
    communities, *_ = tree()
    by_number = {row["community"]: row["id"] for row in communities}
    started = asyncio.Event()

    class Slow(FakeModel):
        async def __call__(self, messages: Sequence[Message], parse: Any, **options: Any) -> Reply[Any]:
            if options["row"] == by_number[2]:
                await asyncio.wait_for(started.wait(), 5)
            if options["row"] == by_number[3]:
                started.set()
            return await super().__call__(messages, parse, **options)

    model = Slow()
    write(model)
    order = [next(n for n, i in by_number.items() if i == row) for row in model.finished]
    assert order.index(0) > max(order.index(1), order.index(2)), "a parent comes after its children"
    assert order.index(3) < order.index(2), "another branch does not wait for this level"


@pytest.mark.parametrize("limit", [70, 5000])
def test_concurrency_and_timing_change_nothing(limit: int) -> None:
    expected = write(FakeModel(), limit=limit).rows
    for concurrency in (1, 2, 8):
        model = FakeModel(jitter=True)
        assert write(model, limit=limit, concurrency=concurrency).rows == expected
        assert model.most_open <= concurrency


def test_a_failed_child_gets_a_stand_in_and_its_parent_goes_on() -> None:
    model = FakeModel(
        lambda prompt: "b1 in words" in prompt and "a1 in words" not in prompt and "Reports" not in prompt
    )
    result = write(model, limit=70)
    rows = {row["community"]: row for row in result.rows}
    assert (result.failed, result.written) == (1, 3)
    failed = rows[2]
    assert (failed["status"], failed["extractive"]) == ("failed", True)
    assert failed["reason"] == "truncated: cut at 4096 tokens"
    assert failed["title"] == "B1 and B2"
    for word in ("b1 in words", "b2 in words", ids.entity_id("B2")):
        assert word in failed["full_content"]
    assert 0 < failed["rank"] <= 10
    assert rows[0]["status"] == "ok"
    COMMUNITY_REPORTS.from_rows(result.rows)


def test_a_large_failed_community_still_lists_every_member() -> None:
    communities, entities, relationships = tree()
    everyone = [e["id"] for e in entities]
    communities = [communities[0] | {"entity_ids": everyone * 1, "children": [], "size": len(everyone)}]
    entities += [entity(f"X{i:02d}") for i in range(30)]
    communities[0]["entity_ids"] = [e["id"] for e in entities]
    model = FakeModel(lambda prompt: True)
    options: dict[str, Any] = {
        "prompt": PROMPT,
        "max_length": 9,
        "max_input_length": 9999,
        "count_tokens": len,
        "text_units": 1,
    }
    result = asyncio.run(write_reports(communities, entities, relationships, [], [], ask=model, **options))
    assert all(e["description"] in result.rows[0]["full_content"] for e in entities)


def test_a_context_without_a_row_is_a_named_failure() -> None:
    model = FakeModel()
    result = write(model, limit=3)
    assert result.failed == 4
    assert not model.prompts
    assert "community_reports.max_input_length" in result.rows[0]["reason"]


def test_an_error_of_another_kind_stops_everything() -> None:
    class Budget(Exception):  # noqa: N818
        pass

    class Broke(FakeModel):
        async def __call__(self, *args: Any, **options: Any) -> Reply[Any]:
            raise Budget("spent")

    with pytest.raises(Budget):
        write(Broke())


def test_unchanged_reports_are_carried_over() -> None:
    first = write(FakeModel())
    model = FakeModel()
    previous = {row["id"]: row | {"community": 99, "parent": 98} for row in first.rows}
    again = write(model, previous=previous)
    assert again.rows == first.rows
    assert (again.reused, again.written) == (4, 0)
    assert not model.prompts
    assert write(FakeModel(), previous=previous, model="another").reused == 0


def test_failed_reports_are_not_carried_over() -> None:
    failed = write(FakeModel(lambda prompt: True))
    assert write(FakeModel(), previous={row["id"]: row for row in failed.rows}).written == 4


CONFLICT = Conflict(
    "date",
    "A1",
    Side("It fell on 4 May.", "u1", "4 May"),
    Side("It fell on 6 June.", "u2", "6 June 2031", "", ("u3",)),
    0.8,
)


def test_a_contradiction_that_the_model_passes_over_is_added_with_both_sides() -> None:
    model = FakeModel()
    result = write(model, [CONFLICT])
    assert result.added_conflicts == 2, "in the community of A1 and in its parent"
    row = next(row for row in result.rows if row["community"] == 1)
    added = row["findings"][-1]
    assert added["summary"] == "Sources disagree on the date: A1"
    cited = [id_ for c in find_citations(added["explanation"]) if c.dataset == "Sources" for id_ in c.ids]
    assert cited == ["u1", "u2", "u3"]
    assert any("-----Conflicts-----" in p and "It fell on 6 June." in p for p in model.prompts)


@pytest.mark.parametrize(
    ("explanation", "told"),
    [
        ("It fell on 4 May or on 6 June.", True),
        ("It fell on 14 May or on 6 June.", False),
        ("One says May [Data: Sources (u1)], one June [Data: Sources (u3)].", True),
        ("It fell in May [Data: Sources (u1)].", False),
        ("It fell.", False),
    ],
)
def test_a_finding_tells_a_contradiction_by_its_sources_or_values(explanation: str, told: bool) -> None:
    from graphrag_assets.indexing.report_answers import Finding

    assert mentions(CONFLICT, [Finding("When it fell", explanation)]) is told


def test_a_context_that_is_too_long_is_halved() -> None:
    """The model reads little: the report is written from the leading rows, and from the same context is carried over."""

    class Small(FakeModel):
        async def __call__(self, messages: Sequence[Message], parse: Any, **options: Any) -> Reply[Any]:
            if len(messages[0]["content"].split()) > 60:
                self.prompts.append(messages[0]["content"])
                raise AnswerError("failed", "the prompt is too long", too_long=True)
            return await super().__call__(messages, parse, **options)

    model = Small()
    reports = write(model)
    assert reports.failed == 0
    assert reports.smaller > 0
    whole = write(FakeModel())
    assert [row["id"] for row in reports.rows] == [row["id"] for row in whole.rows]
    again = write(FakeModel(), previous={row["id"]: row for row in reports.rows})
    assert again.reused == len(reports.rows)
