"""Replay of a whole recorded run: the answers of gpt-4o to A Christmas Carol."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
import pytest

from graphrag_assets.indexing.asking import Message, Reply
from graphrag_assets.indexing.extraction import Extraction, extract_graph

T = TypeVar("T")
Row = dict[str, Any]
PROMPTS = Path(__file__).resolve().parents[2] / "prompts"


class Recorded:
    """Gives the recorded answers; the gleaned one when it is asked for more."""

    def __init__(self, answers: Mapping[tuple[str, bool], str]) -> None:
        self._answers = answers

    async def __call__(
        self,
        messages: Sequence[Message],
        parse: Callable[[str], T],
        *,
        schema: Any = None,
        row: str = "",
        partial: bool = False,
        smaller: bool = False,
    ) -> Reply[T]:
        text = self._answers[row, len(messages) > 1]
        return Reply(parse(text), text)


def replay(shared: Path, change: Callable[[str], str] = lambda text: text) -> dict[str, Extraction]:
    folder = shared / "data" / "carol-recorded-run"
    calls = pq.read_table(folder / "llm_calls.parquet", columns=["kind", "target", "response"]).to_pylist()
    answers = {
        (call["target"], call["kind"] == "extract_graph_gleaning"): change(call["response"])
        for call in calls
        if call["kind"].startswith("extract_graph")
    }
    prompts = {
        name: (PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
        for name in ("extract_graph", "extract_graph_continue", "extract_graph_loop")
    }
    ask = Recorded(answers)

    async def one(unit: Row) -> Extraction:
        return await extract_graph(
            unit["text"],
            ask,
            prompt=prompts["extract_graph"],
            continue_prompt=prompts["extract_graph_continue"],
            loop_prompt=prompts["extract_graph_loop"],
            entity_types=["organization", "person", "geo", "event"],
            max_gleanings=1,
            row=unit["id"],
        )

    units = pq.read_table(folder / "expected" / "text_units.parquet", columns=["id", "text"]).to_pylist()
    return {unit["id"]: asyncio.run(one(unit)) for unit in units}


def pair_weights(rows: Sequence[Row]) -> dict[tuple[str, ...], float]:
    weights: dict[tuple[str, ...], float] = defaultdict(float)
    for row in rows:
        weights[tuple(sorted((row["source"], row["target"])))] += row["weight"]
    return dict(weights)


@pytest.fixture(scope="module")
def expected(shared: Path) -> dict[str, list[Row]]:
    folder = shared / "data" / "carol-recorded-run" / "expected"
    return {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in ("entities", "relationships")}


@pytest.fixture(scope="module")
def replayed(shared: Path) -> dict[str, Extraction]:
    return replay(shared)


def test_every_text_unit_is_read(replayed: dict[str, Extraction]) -> None:
    assert len(replayed) == 42
    assert {found.status for found in replayed.values()} == {"ok"}
    assert [found.dropped for found in replayed.values() if found.dropped] == []


def test_titles(replayed: dict[str, Extraction], expected: dict[str, list[Row]]) -> None:
    titles = {row["title"] for found in replayed.values() for row in found.entities}
    assert len(titles) == 159
    assert titles == {row["title"] for row in expected["entities"]}


def test_pairs_and_degrees(replayed: dict[str, Extraction], expected: dict[str, list[Row]]) -> None:
    pairs = set(pair_weights([row for found in replayed.values() for row in found.relationships]))
    assert len(pairs) == 205
    assert pairs == set(pair_weights(expected["relationships"]))
    degrees: dict[str, int] = defaultdict(int)
    for pair in pairs:
        for end in pair:
            degrees[end] += 1
    assert {row["title"]: row["degree"] for row in expected["entities"]} == {
        row["title"]: degrees[row["title"]] for row in expected["entities"]
    }


def test_weights_are_those_that_the_model_gave(
    shared: Path, replayed: dict[str, Extraction], expected: dict[str, list[Row]]
) -> None:
    """The recorded run read the strength before each end mark as 1.0 (a known fault of its parser).

    Everything else must agree: with those strengths taken out of the answers, all 205 sums are equal. With them, no sum
    is smaller.
    """
    recorded = pair_weights(expected["relationships"])
    before_end = re.compile(r"<\|>\s*\d+(?:\.\d+)?\s*\)(?=\s*<\|COMPLETE\|>)")
    without = replay(shared, lambda text: before_end.sub(")", text))
    misread = pair_weights([row for found in without.values() for row in found.relationships])
    assert misread == recorded
    ours = pair_weights([row for found in replayed.values() for row in found.relationships])
    assert all(ours[pair] >= recorded[pair] for pair in recorded)
    assert sum(ours[pair] == recorded[pair] for pair in recorded) == 136


def test_no_mention_is_lost(shared: Path, replayed: dict[str, Extraction]) -> None:
    """The text units of a title are all whose answers name it in either kind of record; the recorded run lost some."""
    calls = pq.read_table(
        shared / "data" / "carol-recorded-run" / "llm_calls.parquet", columns=["kind", "target", "response"]
    ).to_pylist()
    named: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        if call["kind"].startswith("extract_graph"):
            for record in call["response"].replace("<|COMPLETE|>", "##").split("##"):
                kind, *fields = record.strip().strip("()").split("<|>")
                for name in fields[: 1 if "entity" in kind else 2]:
                    named[name.strip().upper()].add(call["target"])
    found: dict[str, set[str]] = defaultdict(set)
    for unit, extraction in replayed.items():
        for row in extraction.entities:
            found[row["title"]].add(unit)
    assert found == named
    assert (len(found["GHOST"]), len(found["GHOST OF CHRISTMAS PRESENT"])) == (11, 9)


def test_rows_can_be_repeated(shared: Path, replayed: dict[str, Extraction]) -> None:
    assert json.dumps([found.entities for found in replay(shared).values()]) == json.dumps(
        [found.entities for found in replayed.values()]
    )
