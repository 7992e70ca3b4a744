"""Contexts of all searches: budgets to the token, rows that exist, the same question the same bytes."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.query.basic import build_basic_context
from graphrag_assets.query.context import Context, Row, SectionBuilder, join
from graphrag_assets.query.entities import mentions, seed_entities
from graphrag_assets.query.global_search import build_batches, nearest_reports, reports_context, select_reports
from graphrag_assets.query.history import history_section, question_with_history
from graphrag_assets.query.index import Index, open_index
from graphrag_assets.query.lexical import search_text_units
from graphrag_assets.query.local import LocalParameters, build_local_context
from graphrag_assets.query.lookups import claims_of, entities_by_title, related, relationships, text_units_of
from graphrag_assets.query.records import Relationship
from tests.published import HashEmbedder, publish_microsoft_index
from tests.unit.query_doubles import TOKENS, small_index, small_rows

pytestmark = pytest.mark.storage

TABLES = {
    "Reports": ("community_reports", "community"),
    "Entities": ("entities", "human_readable_id"),
    "Relationships": ("relationships", "human_readable_id"),
    "Claims": ("covariates", "human_readable_id"),
    "Sources": ("text_units", "human_readable_id"),
}


def vector(text: str) -> list[float]:
    return HashEmbedder().encode([text])[0].tolist()


def parameters(**changes: Any) -> LocalParameters:
    defaults = {
        "text_unit_prop": 0.5,
        "community_prop": 0.15,
        "top_k_entities": 10,
        "top_k_relationships": 10,
        "max_context_tokens": 12_000,
        "max_turns": 5,
        "level": 2,
        "embedding_model_id": "",
    }
    return LocalParameters(**{**defaults, **changes})


def assert_sound(index: Index, context: Context, budget: int) -> None:
    """Every id exists, rows can be read back, and the tokens are those that are said and within the budget."""
    assert context.tokens == TOKENS.count(context.text) <= budget
    for section in context.sections:
        assert TOKENS.count(section.text) <= section.budget
        lines = list(csv.reader(io.StringIO(section.text.split("\n", 1)[1]), delimiter="|"))
        assert lines[0] == list(section.columns)
        assert [tuple(line) for line in lines[1:]] == [row.cells for row in section.rows]
        if section.name in TABLES:
            table, column = TABLES[section.name]
            known = {r["number"]: r["id"] for r in index.rows(f"select {column} as number, id from {table}")}
            assert all(known[row.number] == row.key for row in section.rows)
            assert len({row.number for row in section.rows}) == len(section.rows)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return small_index(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module", params=["index-carol-msft", "index-dulce-msft/current"])
def real(request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Index:
    base = tmp_path_factory.mktemp("real")
    publish_microsoft_index(base, shared / "data" / request.param)
    return open_index(str(base))


# --- sections -------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.text(min_size=0, max_size=60), min_size=2, max_size=2), max_size=12),
    st.integers(min_value=0, max_value=200),
)
def test_a_section_never_exceeds_its_budget_and_no_text_breaks_a_row(texts: list[list[str]], budget: int) -> None:
    builder = SectionBuilder("Sources", ("id", "a", "b"), TOKENS, budget)
    clean = [[t.replace("\r", " ").replace("\x00", " ") for t in pair] for pair in texts]
    builder.fill(Row(i, f"k{i}", (str(i), *pair)) for i, pair in enumerate(clean))
    section = builder.section()
    assert len(section.rows) + section.left_out == len(texts)
    if section.rows:
        assert TOKENS.count(section.text) <= budget
        lines = list(csv.reader(io.StringIO(section.text.split("\n", 1)[1], newline=""), delimiter="|"))
        assert [tuple(line) for line in lines[1:]] == [row.cells for row in section.rows]


def test_what_does_not_fit_is_skipped_and_filling_goes_on() -> None:
    rows = [Row(0, "a", ("0", "word " * 500)), Row(1, "b", ("1", "short")), Row(2, "c", ("2", "short too"))]
    section = SectionBuilder("Sources", ("id", "text"), TOKENS, 100).fill(rows).section()
    assert [row.number for row in section.rows] == [1, 2]
    assert section.left_out == 1


def test_an_empty_section_is_left_out() -> None:
    context = join([SectionBuilder("Claims", ("id",), TOKENS, 100).section(), None], TOKENS)
    assert (context.text, context.tokens, context.is_empty) == ("", 0, True)


# --- history --------------------------------------------------------------------------------------------------------


def test_the_newest_turns_are_kept_in_the_order_they_were_spoken() -> None:
    history = [{"role": role, "content": f"{role} {i}"} for i in range(8) for role in ("user", "assistant")]
    section = history_section(history, 2, TOKENS, 1000)
    assert section is not None
    assert [row.cells[1] for row in section.rows] == ["user 6", "assistant 6", "user 7", "assistant 7"]
    assert question_with_history("now", history, 2) == "now\nuser 7\nuser 6"


def test_history_is_part_of_the_budget(small: Index) -> None:
    history = [{"role": "user", "content": "word " * 30}]
    plain = build_local_context(small, "Ada Finch", vector("Ada"), parameters(max_context_tokens=400), TOKENS)
    told = build_local_context(small, "Ada Finch", vector("Ada"), parameters(max_context_tokens=400), TOKENS, history)
    assert told.sections[0].name == "Conversation History"
    assert plain.sections[0].name != "Conversation History"
    assert_sound(small, told, 400)


# --- seeds ----------------------------------------------------------------------------------------------------------


def test_names_and_aliases_in_the_question_are_found(small: Index) -> None:
    found = mentions(small, "Did Miss Finch's brother Tom Finch like the mill?")
    assert [(m.entity.title, m.proper) for m in found] == [("ADA FINCH", True), ("TOM FINCH", True), ("MILL", False)]


def test_seeds_are_cut_to_what_is_wanted_and_names_lead(small: Index) -> None:
    seeds = seed_entities(small, "What did the council say to Tom Finch?", vector("the mill of the story"), 2)
    assert len(seeds) == 2
    assert (seeds[0].entity.title, seeds[0].how) == ("TOM FINCH", "name")
    assert [s.how for s in seed_entities(small, "", None, 3)] == ["degree"] * 3


def test_names_in_a_script_without_spaces_are_found(tmp_path: Path) -> None:
    rows = small_rows()
    rows["entities"][0]["title"] = "夏目漱石"
    index = small_index(tmp_path, rows)
    assert [m.entity.title for m in mentions(index, "小説家の夏目漱石は誰ですか")] == ["夏目漱石"]


# --- the graph ------------------------------------------------------------------------------------------------------


def relationships_of(index: Index, entities: list[int], per_entity: int) -> list[Relationship]:
    titles = set(index.take("entities", "human_readable_id", entities, ["title"])["title"].to_pylist())
    return [r for page in relationships(index, related(index, entities, per_entity), titles) for r in page]


def test_relationships_between_selected_entities_come_first(small: Index) -> None:
    found = relationships_of(small, [0, 3], 10)  # Ada Finch, mill
    assert [(r.number, r.links) for r in found] == [(0, None), (1, 1), (2, 1)]
    assert [r.number for r in relationships_of(small, [0, 3], 0)] == [0]
    assert relationships_of(small, [], 10) == []


def test_outgoing_relationships_are_ranked_by_links_then_rank(small: Index) -> None:
    found = relationships_of(small, [0, 2], 10)  # Ada Finch, council: Tom Finch is linked to both
    assert [(r.number, r.links) for r in found] == [(1, 2), (3, 2), (0, 1)]


def test_text_units_follow_entities_then_relationships(small: Index) -> None:
    assert text_units_of(small, [3, 0]) == [0, 4, 1, 3]


def test_claims_follow_their_entities(small: Index) -> None:
    named = entities_by_title(small, ["ADA FINCH", "COUNCIL"])
    assert [c.number for c in claims_of(small, list(named.values()))] == [0]
    assert claims_of(small, [named["ADA FINCH"]]) == []


def test_a_local_context_of_the_small_index(small: Index) -> None:
    context = build_local_context(
        small, "What did the council tell Tom Finch?", vector("council"), parameters(), TOKENS
    )
    assert_sound(small, context, 12_000)
    assert [s.name for s in context.sections] == ["Reports", "Entities", "Relationships", "Claims", "Sources"]
    assert context.rows("Entities")[0].cells[1] == "TOM FINCH"
    assert context.text.startswith("-----Reports-----\nid|title|content\n")


# --- global ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "expected"), [(0, [0]), (1, [1, 2]), (5, [1, 2])])
def test_one_report_covers_each_branch(small: Index, level: int, expected: list[int]) -> None:
    assert [s.community for s in select_reports(small, level)] == expected


def test_a_parent_stands_for_a_child_without_a_report(tmp_path: Path) -> None:
    rows = small_rows()
    rows["community_reports"][0]["status"] = "failed"  # community 1
    assert [s.community for s in select_reports(small_index(tmp_path, rows), 2)] == [0]


def test_occurrence_weights_are_shares_of_the_largest(small: Index) -> None:
    assert {s.community: s.weight for s in select_reports(small, 1)} == {1: 1.0, 2: 0.5}


def test_a_report_longer_than_a_batch_is_cut_not_lost(tmp_path: Path) -> None:
    rows = small_rows()
    rows["community_reports"][0]["full_content"] = 'He said "no" | again.\n' * 400
    index = small_index(tmp_path, rows)
    batches = build_batches(index, select_reports(index, 1), 200, 86, TOKENS)
    assert sorted(row.number for batch in batches for row in batch.rows("Reports")) == [1, 2]
    for batch in batches:
        assert_sound(index, batch, 200)
        assert not batch.is_empty


# --- basic ----------------------------------------------------------------------------------------------------------


def test_words_count_whole_and_rare_ones_most(small: Index) -> None:
    assert search_text_units(small, "What loan did the council refuse?", 3)[0].id == "t2"
    assert search_text_units(small, "oo", 3) == []  # part of "looms" and "school", but no word
    assert search_text_units(small, "?!", 3) == []


def test_a_basic_context_has_the_best_text_units_first(small: Index) -> None:
    context = build_basic_context(small, "Who asked for a loan?", vector("Who asked for a loan?"), 3, 500, TOKENS)
    assert_sound(small, context, 500)
    assert context.rows("Sources")[0].number == 2
    assert len(context.rows("Sources")) == 3


# --- real indexes -------------------------------------------------------------------------------------------------

QUESTION = "Who is Scrooge to Bob Cratchit, and what does Alex Mercer think of Taylor Cruz?"


@pytest.mark.parametrize("budget", [300, 1_500, 12_000])
def test_contexts_of_real_indexes_are_sound_and_repeatable(real: Index, budget: int) -> None:
    at = vector(QUESTION)
    history = [{"role": "user", "content": "Tell me about the spirits."}]

    def build() -> list[Context]:
        selected = select_reports(real, 2)
        return [
            build_local_context(real, QUESTION, at, parameters(max_context_tokens=budget), TOKENS, history),
            build_basic_context(real, QUESTION, at, 10, budget, TOKENS, history),
            reports_context(nearest_reports(real, at, 20, None, 2), budget, TOKENS),
            *build_batches(real, selected, budget, 86, TOKENS, history),
        ]

    contexts = build()
    for context in contexts:
        assert_sound(real, context, budget)
    assert [context.text for context in contexts] == [context.text for context in build()]


def test_every_branch_of_a_real_index_is_covered_once(real: Index) -> None:
    for level in range(4):
        chosen = {s.community for s in select_reports(real, level)}
        parents = {r["community"]: r["parent"] for r in real.rows("select community, parent from communities")}
        for community in chosen:
            above = parents[community]
            while above in parents:
                assert above not in chosen
                above = parents[above]
        held = real.rows("select entity, list(community) as communities from entity_communities group by entity")
        assert all(sum(c in chosen for c in r["communities"]) == 1 for r in held)


def test_all_reports_reach_exactly_one_batch(real: Index) -> None:
    selected = select_reports(real, 2)
    batches = build_batches(real, selected, 4_000, 86, TOKENS)
    numbers = [row.number for batch in batches for row in batch.rows("Reports")]
    assert sorted(numbers) == sorted(s.community for s in selected)


@given(st.lists(st.lists(st.text('ab .,!?"|\n\r\t東é1-/）…\u3000', max_size=8), min_size=1, max_size=3), max_size=3))
def test_tokens_of_a_context_are_exact(sections: list[list[str]]) -> None:
    built = []
    for i, texts in enumerate(sections):
        builder = SectionBuilder(f"Section {i}", ("id", "text"), TOKENS, 10_000)
        built.append(builder.fill(Row(n, "", (str(n), text)) for n, text in enumerate(texts)).section())
    context = join(built, TOKENS)
    assert context.tokens == TOKENS.count(context.text)
