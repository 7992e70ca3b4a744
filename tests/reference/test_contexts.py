"""Our contexts beside those of Microsoft GraphRAG's own context builders, over the indexes that it wrote.

Both sides have the same tables, vectors, parameters and tokenizer. Where the reference is sound they agree row by row;
docs/contexts.md lists where they differ, and why.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from graphrag_assets.cli.main import main
from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.query import Index, open_index
from graphrag_assets.query.context import CLAIMS, ENTITIES, RELATIONSHIPS, REPORTS, SOURCES, Context
from graphrag_assets.query.entities import mentions
from graphrag_assets.query.global_search import build_batches, select_reports
from graphrag_assets.query.local import LocalParameters, build_local_context
from tests.pipeline import workspaces
from tests.published import HashEmbedder

BUILDER = Path(__file__).parent / "reference_contexts.py"
TOKENS = tokenizer("o200k_base")

#: Budget in which everything fits.
UNLIMITED = 10**8

#: Deeper than any level.
ALL_LEVELS = 99

#: Questions that name no entity, so that only vectors choose.
QUESTIONS = (
    "what did they see at the end",
    "who gives something away and why",
    "how did it come to this and what follows",
    "what does it mean when nobody answers",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Embedder(HashEmbedder):
    """Equal texts, equal vectors, no two texts the same one; an entity without a description is farthest from all."""

    model = "hashed-words-and-noise"
    dimension = 66

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        words = HashEmbedder.encode(self, texts)
        for i, text in enumerate(texts):
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
            words[i, :64] += np.random.default_rng(seed).normal(size=64) * 0.01
            words[i, 64] = 1.0
            if text.endswith(":"):
                words[i] = 0
                words[i, 64:] = -1.0, np.random.default_rng(seed).normal() * 0.1
        return (words / np.linalg.norm(words, axis=1, keepdims=True)).astype(np.float32)

    def ask(self, question: str) -> list[float]:
        vector: list[float] = self.encode([question])[0].tolist()
        return vector


@dataclass(frozen=True)
class Both:
    """One index of the reference, and the snapshot that was made from it."""

    index: Index
    reader: Path
    python: str

    @cached_property
    def told(self) -> dict[str, Any]:
        """All contexts of the reference, in one run of it."""
        local = [
            {"vector": Embedder().ask(question), "level": level, "parameters": theirs(parameters)}
            for parameters, level in LOCAL
            for question in QUESTIONS
        ]
        basic = [{"vector": Embedder().ask(question), "k": NEAREST} for question in QUESTIONS]
        packed = [{"level": level, "max_tokens": size} for level, size in GLOBAL]
        texts = [ours.text for ours in self.budgeted] + [s.text for ours in self.budgeted for s in ours.sections]
        request = {"count": texts, "local": local, "basic": basic, "global": packed}
        done = subprocess.run(
            [self.python, str(BUILDER), str(self.reader)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            env=workspaces.environment(LITELLM_LOCAL_MODEL_COST_MAP="True"),
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    @cached_property
    def budgeted(self) -> list[Context]:
        """Our contexts in the usual budgets, by question."""
        return [self.ours(question, PARAMETERS) for question in QUESTIONS]

    def local(self, run: int) -> list[tuple[Context, dict[str, Any]]]:
        """For each question our context and the reference's, of one run of LOCAL."""
        parameters, _ = LOCAL[run]
        first = run * len(QUESTIONS)
        found = self.told["local"][first : first + len(QUESTIONS)]
        return list(zip((self.ours(q, parameters) for q in QUESTIONS), found, strict=True))

    def batches(self, run: int) -> list[list[dict[str, str]]]:
        """Batches of the reference, of one run of GLOBAL."""
        found: list[list[dict[str, str]]] = self.told["global"][run]
        return found

    def ours(self, question: str, parameters: LocalParameters) -> Context:
        assert mentions(self.index, question) == []
        return build_local_context(self.index, question, Embedder().ask(question), parameters, TOKENS)


@pytest.fixture(scope="module", params=["index-carol-msft", "index-dulce-msft/current"])
def both(
    request: pytest.FixtureRequest, reference_python: str, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Both:
    folder = tmp_path_factory.mktemp("both")
    source = shared / "data" / request.param
    (folder / "settings.yaml").write_text("{}", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graphrag_assets.llm.embedding.models.embedder", lambda *_: Embedder())
        for arguments in (["import", str(source)], ["export", "--format", "graphrag", str(folder / "out")]):
            done = CliRunner().invoke(main, [*arguments, "--root", str(folder)])
            assert done.exit_code == 0, done.output
    reader = folder / "reader"
    reader.mkdir()
    offline = {"model": "gpt-4.1", "model_provider": "openai", "api_key": "none"}
    settings = {
        "completion_models": {"default_completion_model": offline},
        "embedding_models": {"default_embedding_model": offline},
        "output_storage": {"type": "file", "base_dir": str(source)},
        "vector_store": {
            "type": "lancedb",
            "db_uri": str(folder / "out" / "output" / "lancedb"),
            "vector_size": Embedder.dimension,
        },
    }
    (reader / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return Both(open_index(str(folder / "output")), reader, reference_python)


#: The reference takes twice as many entities as asked for; ours takes as many as asked for.
PARAMETERS = LocalParameters(
    text_unit_prop=0.5,
    community_prop=0.15,
    top_k_entities=20,
    top_k_relationships=10,
    max_context_tokens=12_000,
    max_turns=5,
    level=ALL_LEVELS,
    embedding_model_id="",
    text_unit_ranking="reference",
)


def theirs(parameters: LocalParameters) -> dict[str, Any]:
    """The same parameters for the reference."""
    return {
        "text_unit_prop": parameters.text_unit_prop,
        "community_prop": parameters.community_prop,
        "top_k_mapped_entities": parameters.top_k_entities // 2,
        "top_k_relationships": parameters.top_k_relationships,
        "max_context_tokens": parameters.max_context_tokens,
    }


def numbers(context: Context, name: str) -> list[int]:
    return [row.number for row in context.rows(name)]


#: Runs of local search: ours and the level of the reference (None: all levels, entities without a community kept).
EVERYTHING = replace(PARAMETERS, max_context_tokens=UNLIMITED)
LOCAL: list[tuple[LocalParameters, int | None]] = [
    (EVERYTHING, None),
    (PARAMETERS, None),
    (replace(EVERYTHING, level=0), 0),
    (replace(EVERYTHING, level=2), 2),
]
ALL, BUDGET, LEVEL_0, LEVEL_2 = range(4)

#: Runs of global search: level, tokens of a batch.
GLOBAL = [(0, UNLIMITED), (0, 600), (1, UNLIMITED), (2, UNLIMITED)]

#: Text units of basic search.
NEAREST = 4


def test_everything_is_chosen_in_the_same_order(both: Both) -> None:
    """With room for all candidates: entities, relationships, claims and text units are equal, row by row."""
    for ours, reference in both.local(ALL):
        ids = reference["ids"]
        assert numbers(ours, ENTITIES) == ids["entities"]
        assert numbers(ours, RELATIONSHIPS) == ids["relationships"]
        assert numbers(ours, CLAIMS) == ids.get("claims", [])
        assert numbers(ours, SOURCES) == ids["sources"]
        assert sorted(numbers(ours, REPORTS)) == sorted(ids["reports"])
        # reports with equally many entities and equal rank stand in the order of their numbers here
        assert report_keys(both.index, numbers(ours, REPORTS), numbers(ours, ENTITIES)) == report_keys(
            both.index, ids["reports"], numbers(ours, ENTITIES)
        )


def report_keys(index: Index, communities: list[int], entities: list[int]) -> list[tuple[int, float]]:
    """What reports are ordered by: selected entities in the community, rank."""
    listed = ", ".join(map(str, entities))
    matches = index.rows(
        f"select community, count(*) as n from entity_communities where entity in ({listed}) group by community"
    )
    count = {row["community"]: row["n"] for row in matches}
    rank = {r["community"]: r["rank"] for r in index.rows("select community, rank from community_reports")}
    return [(count[c], rank[c]) for c in communities]


@pytest.mark.parametrize("run", [LEVEL_0, LEVEL_2])
def test_at_a_level_we_keep_what_the_reference_loses(both: Both, run: int) -> None:
    """The reference drops entities that are in no community; the others come in the same order, reports are equal."""
    level = LOCAL[run][1]
    for ours, reference in both.local(run):
        kept = set(reference["ids"]["entities"])
        assert [n for n in numbers(ours, ENTITIES) if n in kept] == reference["ids"]["entities"]
        lost = ", ".join(str(n) for n in numbers(ours, ENTITIES) if n not in kept) or "null"
        members = f"select count(*) as n from entity_communities where entity in ({lost}) and level <= {level}"
        assert both.index.rows(members) == [{"n": 0}]
        assert sorted(numbers(ours, REPORTS)) == sorted(reference["ids"]["reports"])


def test_budgets_hold_to_the_token(both: Both) -> None:
    """Within the same budgets we show what the reference shows, and fill what it leaves empty."""
    pairs = both.local(BUDGET)
    counts = both.told["counts"]
    assert counts[: len(pairs)] == [ours.tokens for ours, _ in pairs]
    sizes = iter(counts[len(pairs) :])
    budget = {REPORTS: 1800, ENTITIES: 4200, RELATIONSHIPS: 4200, CLAIMS: 4200, SOURCES: 6000}
    for ours, reference in pairs:
        graph = 0
        for section in ours.sections:
            size = next(sizes)
            assert size <= budget[section.name]
            graph += size if section.name in (ENTITIES, RELATIONSHIPS, CLAIMS) else 0
        assert graph <= 4200
        assert ours.tokens <= PARAMETERS.max_context_tokens
        assert numbers(ours, ENTITIES) == reference["ids"]["entities"]
        assert len(numbers(ours, SOURCES)) >= len(reference["ids"].get("sources", []))
        assert len(numbers(ours, REPORTS)) >= len(reference["ids"].get("reports", []))


def test_the_nearest_text_units_are_the_same(both: Both) -> None:
    number = {r["id"]: r["n"] for r in both.index.rows("select id, human_readable_id as n from text_units")}
    for question, found in zip(QUESTIONS, both.told["basic"], strict=True):
        nearest = both.index.vectors("text_unit_text").nearest(Embedder().ask(question), NEAREST)
        assert sorted(number[hit.id] for hit in nearest) == found  # the reference has them in the order of the table


def test_global_batches_hold_the_same_reports(both: Both) -> None:
    """At level 0 nothing is sent twice, so that both send the same reports with the same weights in the same order."""
    (ours,) = build_batches(both.index, select_reports(both.index, 0), UNLIMITED, 86, TOKENS)
    (reference,) = both.batches(0)
    rows = [dict(zip(ours.sections[0].columns, row.cells, strict=True)) for row in ours.rows(REPORTS)]
    assert [row["content"] for row in rows] != []
    assert {row["id"] for row in rows} == {row["id"] for row in reference}

    def key(row: dict[str, str]) -> tuple[float, float]:
        return round(float(row["occurrence weight"]), 4), float(row["rank"])

    assert [key(row) for row in rows] == [key(row) for row in reference]


def test_global_batches_are_packed_from_the_same_shuffle(both: Both) -> None:
    """The same seed gives the same order of packing, seen where each batch has room for one report only."""
    _, size = GLOBAL[1]
    reference = [[int(row["id"]) for row in batch] for batch in both.batches(1)]
    ours = build_batches(both.index, select_reports(both.index, 0), size, 86, TOKENS)
    assert {len(ids) for ids in reference} == {1}
    assert [numbers(batch, REPORTS) for batch in ours] == reference
    assert all(batch.tokens <= size for batch in ours)  # the reference sends whole reports, however long


@pytest.mark.parametrize("level", [1, 2])
def test_no_report_is_sent_beside_those_of_its_children(both: Both, level: int) -> None:
    sent = {int(row["id"]) for batch in both.batches(level + 1) for row in batch}
    ours = {s.community for s in select_reports(both.index, level)}
    assert ours < sent
    children: dict[int, list[int]] = {}
    for row in both.index.rows("select community, parent from communities"):
        children.setdefault(row["parent"], []).append(row["community"])

    def below(community: int) -> set[int]:
        return {c for child in children.get(community, []) for c in (child, *below(child))}

    # a report may stand beside those below it only where these do not cover all of its members
    size = {r["community"]: r["size"] for r in both.index.rows("select community, size from communities")}
    for own in ours:
        beside = [child for child in children.get(own, []) if child in ours or below(child) & ours]
        assert sum(size[child] for child in beside) < size[own]
