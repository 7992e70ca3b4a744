"""The whole standard method, driven over HTTP by the answers of a recorded run of gpt-4o on A Christmas Carol."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests import recorded_llm
from tests.pipeline.workspaces import dagster_runs, index, rows

pytestmark = pytest.mark.timeout(1200)

Pair = tuple[str, ...]


@dataclass
class Replay:
    """An index made of recorded answers.

    Args:
        root: The workspace.
        model: The model that gave the answers.
        report: What the command reported.
        again: What it reported when it was run again.
        expected: Tables of the recorded run.
    """

    root: Path
    model: recorded_llm.RecordedModel
    report: dict[str, Any]
    again: dict[str, Any]
    expected: dict[str, list[dict[str, Any]]]

    def built(self, name: str) -> list[dict[str, Any]]:
        """Rows of a per-batch table of the build area."""
        files = sorted((self.root / "output" / "build" / name).glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Replay]:
    folder = shared / "data" / "carol-recorded-run"
    names = ("documents", "text_units", "entities", "relationships")
    expected = {name: pq.read_table(folder / "expected" / f"{name}.parquet").to_pylist() for name in names}
    root = tmp_path_factory.mktemp("carol")
    (root / "input").mkdir()
    (root / "input" / "book.txt").write_bytes(expected["documents"][0]["text"].encode())
    model = recorded_llm.RecordedModel(folder)
    with recorded_llm.serve(model) as address:
        settings = recorded_llm.settings(
            address, chunking={"encoding_model": "cl100k_base"}, entity_resolution={"lexical": False}
        )
        (root / "settings.yaml").write_text(settings)
        report = index(root)
        asked, runs = dict(model.asked), dagster_runs(root)
        again = index(root)
        assert dict(model.asked) == asked
        assert dagster_runs(root) == runs
        yield Replay(root, model, report, again, expected)


def pair(row: dict[str, Any]) -> Pair:
    return tuple(sorted((row["source"], row["target"])))


def sums(found: list[dict[str, Any]]) -> dict[Pair, float]:
    total: dict[Pair, float] = defaultdict(float)
    for row in found:
        total[pair(row)] += row["weight"]
    return dict(total)


def test_every_text_unit(replay: Replay) -> None:
    units = rows(replay.root, "text_units")
    assert [unit["status"] for unit in units] == ["ok"] * 42
    assert replay.report["text_units"] == {"ok": 42, "empty": 0, "failed": 0}
    # The recorded run kept the byte order mark, so that its windows begin one token earlier.
    pairs = zip(units, replay.expected["text_units"], strict=True)
    assert all(abs(len(ours["text"]) - len(theirs["text"])) < 20 for ours, theirs in pairs)


def test_titles_before_and_after_resolution(replay: Replay) -> None:
    recorded = {row["title"] for row in replay.expected["entities"]}
    assert len(recorded) == 159
    assert {row["title"] for row in replay.built("extracted_entities")} == recorded
    published = [row["title"] for row in rows(replay.root, "entities")]
    assert len(published) == 159
    assert set(published) == recorded


def test_pairs_degrees_and_weights(replay: Replay) -> None:
    recorded = sums(replay.expected["relationships"])
    ours = rows(replay.root, "relationships")
    assert len(ours) == len(recorded) == 205
    assert {pair(row) for row in ours} == recorded.keys()
    assert {row["title"]: row["degree"] for row in rows(replay.root, "entities")} == {
        row["title"]: row["degree"] for row in replay.expected["entities"]
    }
    stated = sums(replay.built("extracted_relationships"))
    assert {pair(row): row["weight"] for row in ours} == stated
    # The recorded tables hold 1.0 for the strength before each end mark (a fault of that run's parser); the answers
    # state more. What is above the recorded sum is exactly that.
    assert sum(stated[p] == recorded[p] for p in recorded) == 136
    assert sums_with_misread_strengths(replay) == recorded


def sums_with_misread_strengths(replay: Replay) -> dict[Pair, float]:
    """Sums of the published pairs when the strength before each end mark counts 1.0, as the recorded run read it."""
    total = {pair(row): row["weight"] for row in rows(replay.root, "relationships")}
    last = re.compile(r'\("relationship"<\|>([^<]*)<\|>([^<]*)<\|>[^<]*<\|>\s*(\d+(?:\.\d+)?)\s*\)\s*<\|COMPLETE\|>')
    for (kind, _), answer in replay.model.answers.items():
        if kind.startswith("extract_graph"):
            for source, target, strength in last.findall(answer):
                total[tuple(sorted((source.strip().upper(), target.strip().upper())))] += 1.0 - float(strength)
    return total


def test_no_mention_is_lost(replay: Replay) -> None:
    """The text units of an entity are all whose answers name it, in either kind of record."""
    position = {unit["id"]: number for number, unit in enumerate(replay.expected["text_units"])}
    named: dict[str, set[int]] = defaultdict(set)
    for (kind, target), answer in replay.model.answers.items():
        if kind.startswith("extract_graph"):
            for record in answer.replace("<|COMPLETE|>", "##").split("##"):
                what, *fields = record.strip().strip("()").split("<|>")
                for name in fields[: 1 if "entity" in what else 2]:
                    named[name.strip().upper()].add(position[target])
    ours = {unit["id"]: number for number, unit in enumerate(rows(replay.root, "text_units"))}
    entities = rows(replay.root, "entities")
    assert {row["title"]: {ours[unit] for unit in row["text_unit_ids"]} for row in entities} == named
    assert all(row["frequency"] == len(row["text_unit_ids"]) for row in entities)
    assert {row["title"]: row["frequency"] for row in entities}["GHOST"] == 11


def test_calls(replay: Replay) -> None:
    """Each question is asked once; the second run asks nothing."""
    asked, by_stage = replay.model.asked, replay.report["llm"]["by_stage"]
    assert asked["extract_graph"] == asked["extract_graph_gleaning"] == 42
    assert by_stage["extract_graph"]["calls"] == 84
    assert by_stage["summarize_descriptions"]["calls"] == asked["summarize_descriptions"]
    several = sum(row["description"] != "" for row in rows(replay.root, "entities"))
    assert 0 < asked["summarize_descriptions"] <= several
    assert by_stage["community_reports"]["calls"] == asked["community_report"]
    assert (
        asked["community_report"] == replay.report["tables"]["community_reports"] == replay.report["reports"]["written"]
    )
    assert replay.again["llm"]["calls"] == 0
    assert replay.again["snapshot"] == replay.report["snapshot"]


def test_report_citations_resolve(replay: Replay) -> None:
    """The recorded reports cite the rows that were shown then; those that are none of what is shown now are removed."""
    from graphrag_assets.text.citations import find_citations

    numbers = {
        "Entities": {row["human_readable_id"] for row in rows(replay.root, "entities")},
        "Relationships": {row["human_readable_id"] for row in rows(replay.root, "relationships")},
        "Sources": {row["human_readable_id"] for row in rows(replay.root, "text_units")},
        "Reports": {row["community"] for row in rows(replay.root, "communities")},
        "Claims": set(),
    }
    cited = 0
    for report in rows(replay.root, "community_reports"):
        for citation in find_citations(report["full_content"]):
            cited += len(citation.ids)
            assert {int(number) for number in citation.ids} <= numbers[citation.dataset], citation
    assert cited >= 10
