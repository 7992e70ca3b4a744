"""Whether a plan tells that a budget would stop its run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.cli.plan_budgets import budget_lines, budgets_of
from graphrag_assets.llm.limiting.budget import Estimate
from graphrag_assets.llm.limiting.day_budget import open_day_budget
from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.plan.figures import Plan, StagePlan
from graphrag_assets.settings import Workspace
from graphrag_assets.settings_file import load_workspace

PRICED = ModelFacts(input_usd=1e-6, output_usd=4e-6)
UNPRICED = ModelFacts()


def workspace(root: Path, budget: str) -> Workspace:
    (root / "settings.yaml").write_text(f"budget: {budget}\n")
    return load_workspace(root)


def planned(facts: ModelFacts = PRICED, calls: int = 100) -> Plan:
    """A run of 100,000 + 50,000 tokens (of answers 25,000 to 77,500) for 0.3 USD (0.2 to 0.41)."""
    tokens = (100_000, 50_000) if calls else (0, 0)
    stage = StagePlan("extract_graph", "openai/m", facts, calls, 0, *tokens)
    return Plan("standard", {}, {}, 1, [stage], [], 0.0)


def one(root: Path, budget: str, plan: Plan | None = None) -> dict[str, Any]:
    (found,) = budgets_of(workspace(root, budget), plan or planned())
    return found


@pytest.mark.parametrize(
    ("budget", "stops", "words"),
    [
        (
            "{usd_per_run: 0.1}",
            "yes",
            "0.1000 USD; the run would stop there, since it takes 0.3000 USD (0.2000 to 0.4100)",
        ),
        ("{usd_per_run: 0.25}", "likely", "would probably stop"),
        ("{usd_per_run: 0.35}", "perhaps", "might stop"),
        ("{usd_per_run: 0.415}", "perhaps", "might stop"),  # what is set aside for the last answer does not fit
        ("{usd_per_run: 0.5}", "no", "enough for the run, which takes about 0.3000 USD"),
        ("{tokens_per_run: 120_000}", "yes", "120,000 tokens; the run would stop"),
        ("{tokens_per_run: 149_999}", "likely", "would probably stop"),
        ("{tokens_per_run: 180_000}", "perhaps", "might stop"),
        ("{tokens_per_run: 200_000}", "no", "enough for the run"),
        ("{usd_per_day: 0.1}", "yes", "0.1000 USD of 0.1000 USD left on"),
        ("{tokens_per_day: 200_000}", "no", "enough for the run"),
    ],
)
def test_a_budget_against_a_plan(tmp_path: Path, budget: str, stops: str, words: str) -> None:
    found = one(tmp_path, budget)
    assert found["stops"] == stops
    (line,) = budget_lines([found], [])
    assert words in line
    assert found["setting"] in line
    assert ("goes on from there" in line) is (stops != "no")
    assert not (tmp_path / ".cache").exists(), "a plan writes nothing"


def test_what_is_spent_of_the_day_counts(tmp_path: Path) -> None:
    place = workspace(tmp_path, "{tokens_per_day: 200_000}")
    assert [b["stops"] for b in budgets_of(place, planned())] == ["no"]
    day = open_day_budget(place)
    assert day is not None

    async def spend() -> None:
        assert day is not None
        await day.settle(await day.reserve(Estimate("m", 90_000), 1.0), 90_000, 0.0)

    asyncio.run(spend())
    (found,) = budgets_of(place, planned())
    assert (found["left"], found["stops"]) == (110_000, "yes")
    assert "110,000 tokens of 200,000 tokens left on" in budget_lines([found], [])[0]


def test_without_a_price_no_budget_in_usd_can_be_kept(tmp_path: Path) -> None:
    found = one(tmp_path, "{usd_per_run: 5}", planned(UNPRICED))
    assert found["stops"] == "unpriced"
    assert "the price of openai/m is not known" in budget_lines([found], ["openai/m"])[0]
    assert one(tmp_path, "{tokens_per_run: 500_000}", planned(UNPRICED))["stops"] == "no"
    assert one(tmp_path, "{usd_per_run: 0}", planned(UNPRICED, calls=0))["stops"] == "no", "nothing is asked"


def test_no_budget_nothing_to_tell(tmp_path: Path) -> None:
    assert budgets_of(workspace(tmp_path, "{}"), planned()) == []


def test_a_day_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(
        "budget: {tokens_per_day: 9}\nlimits: {redis_url: 'redis://127.0.0.1:1/0'}\n"
    )
    (found,) = budgets_of(load_workspace(tmp_path), planned())
    assert "Redis cannot be used" in budget_lines([found], [])[0]
