"""Which text units are found: nearness by meaning and words, the walk over the graph, and what searches make of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.query import graph_links
from graphrag_assets.query.basic import build_basic_context, retrieve
from graphrag_assets.query.context import ENTITIES, SOURCES
from graphrag_assets.query.entities import Found, choose_seeds, find_entities, mentions
from graphrag_assets.query.graph_ranking import rank_by_graph, rank_near
from graphrag_assets.query.index import Index, open_index
from graphrag_assets.query.local import LocalParameters, build_local_context
from graphrag_assets.query.lookups import PAGE, entities_by_title, related, relationships
from graphrag_assets.query.pagerank import Links, Node, push
from graphrag_assets.query.relevance import relevance
from graphrag_assets.settings import Settings
from graphrag_assets.text.names import canonical_title
from tests.published import HashEmbedder, Rows, publish
from tests.unit.query_doubles import TOKENS

pytestmark = pytest.mark.storage

#: The text about the journal names the association; one text about the association tells who led it.
TEXTS = [
    "The Journal of Quarries is published by the Lime Association.",
    "Frieda Holm led the Lime Association.",
    "The town of Ost has a bakery and a school.",
    "A bakery in Ost sells bread to the school.",
    "A magazine about clouds and winds.",
]
NAMED = {
    "JOURNAL OF QUARRIES": [0],
    "LIME ASSOCIATION": [0, 1],
    "FRIEDA HOLM": [1],
    "OST": [2, 3],
    "CLOUDS": [4],
    "NOBODY": [],
}
RELATED = [("JOURNAL OF QUARRIES", "LIME ASSOCIATION", [0]), ("FRIEDA HOLM", "LIME ASSOCIATION", [1])]
QUESTION = "Who led the body that publishes the Journal of Quarries?"


def graph_rows(
    named: Mapping[str, Sequence[int]] = NAMED, related: Sequence[tuple[str, str, list[int]]] = ()
) -> dict[str, Rows]:
    units = [
        {"id": f"t{i}", "human_readable_id": i, "text": text, "n_tokens": TOKENS.count(text), "document_id": f"d{i}"}
        for i, text in enumerate(TEXTS)
    ]
    documents = [
        {"id": f"d{i}", "human_readable_id": i, "title": f"{i}.txt", "path": f"{i}.txt", "text": text}
        for i, text in enumerate(TEXTS)
    ]
    entities = [
        {
            "id": f"e{i}",
            "human_readable_id": i,
            "title": title,
            "description": title.title(),
            "text_unit_ids": [f"t{unit}" for unit in held],
            "frequency": len(held),
            "degree": sum(title in pair[:2] for pair in related),
        }
        for i, (title, held) in enumerate(sorted(named.items()))
    ]
    relationships = [
        {
            "id": f"r{i}",
            "human_readable_id": i,
            "source": source,
            "target": target,
            "description": f"{source} and {target}",
            "weight": 1.0,
            "combined_degree": 2,
            "text_unit_ids": [f"t{unit}" for unit in held],
        }
        for i, (source, target, held) in enumerate(related)
    ]
    return {"documents": documents, "text_units": units, "entities": entities, "relationships": relationships}


def published(base: Path, rows: dict[str, Rows]) -> Index:
    publish(base, rows)
    return open_index(str(base))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return published(tmp_path_factory.mktemp("graph"), graph_rows(NAMED, RELATED))


def vector(text: str) -> list[float]:
    found: list[float] = HashEmbedder().encode([text])[0].tolist()
    return found


def ranked(index: Index, question: str = QUESTION) -> list[int]:
    found = find_entities(index, question, vector(question), 10)
    return [number for number, _ in rank_near(index, question, vector(question), found).text_units]


# --- the walk --------------------------------------------------------------------------------------------------------

Graph = dict[Node, Links]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, dict[Node, float]]:
    nodes: list[Node] = [("n", i) for i in range(draw(st.integers(1, 8)))]
    links: Graph = {}
    for node in nodes:
        targets = draw(st.lists(st.sampled_from(nodes), max_size=4, unique=True))
        links[node] = [(target, 1 / len(targets)) for target in targets]
    seeds = draw(st.dictionaries(st.sampled_from(nodes), st.floats(0.01, 10), min_size=1))
    return links, seeds


@given(graphs(), st.sampled_from([1e-6, 1e-2, 0.3]), st.integers(0, 6))
def test_no_mass_is_lost_however_far_a_walk_goes(
    case: tuple[Graph, dict[Node, float]], tolerance: float, rounds: int
) -> None:
    links, seeds = case
    rank = push(
        seeds,
        lambda wanted: {n: links[n] for n, most in wanted.items() if len(links[n]) <= most},
        0.5,
        tolerance,
        rounds,
    )
    assert sum(rank.values()) == pytest.approx(1)
    assert min(rank.values()) >= 0


@given(graphs())
def test_a_long_walk_is_the_fixed_point_of_pagerank(case: tuple[Graph, dict[Node, float]]) -> None:
    links, seeds = case
    rank = push(seeds, lambda wanted: {n: links[n] for n in wanted}, 0.5, 1e-12, 60)
    total = sum(seeds.values())
    expected = {node: seeds.get(node, 0.0) / total for node in links}
    for _ in range(60):
        passed = dict.fromkeys(links, 0.0)
        for node, mass in expected.items():
            for target, share in links[node] or [(node, 1.0)]:
                passed[target] += 0.5 * mass * share
        expected = {node: 0.5 * seeds.get(node, 0.0) / total + passed[node] for node in links}
    for node, mass in expected.items():
        if all(links.values()):  # where nothing ends, both are the same
            assert rank.get(node, 0.0) == pytest.approx(mass, abs=1e-6)


def test_a_node_with_more_links_than_its_mass_is_worth_keeps_its_mass() -> None:
    asked: list[dict[Node, int]] = []

    def fetch(wanted: Mapping[Node, int]) -> dict[Node, Links]:
        asked.append(dict(wanted))
        return {}

    assert push({("hub", 0): 2.0}, fetch, 0.5, 0.01, 3) == {("hub", 0): 1.0}
    assert asked == [{("hub", 0): 100}]


def test_without_mass_nothing_is_ranked() -> None:
    assert push({}, lambda wanted: {}, 0.5, 1e-3, 3) == {}


# --- the ranking -----------------------------------------------------------------------------------------------------


#: As near as a text that has nothing to do with the question is what its second step asks for.
NEAR = {0: 0.8, 1: 0.6, 2: 0.5, 3: 0.5, 4: 0.62}


def by_graph(index: Index) -> list[int]:
    named = Found(tuple(mentions(index, QUESTION)), ())
    return [number for number, _ in rank_by_graph(index, named, NEAR).text_units]


def test_the_text_behind_a_bridge_is_found(index: Index) -> None:
    assert by_graph(index)[:3] == [0, 1, 4]


def test_without_the_bridge_it_is_not(tmp_path: Path) -> None:
    apart = {title: held for title, held in NAMED.items() if title != "LIME ASSOCIATION"}
    with published(tmp_path, graph_rows(apart)) as index:
        assert by_graph(index)[:3] == [0, 4, 1]


def test_a_ranking_is_repeatable_holds_existing_text_units_and_each_once(index: Index) -> None:
    order = ranked(index)
    assert order == ranked(index)
    assert len(order) == len(set(order))
    assert set(order) <= set(range(len(TEXTS)))


def test_the_order_of_rows_that_arrive_does_not_matter(index: Index) -> None:
    found = find_entities(index, QUESTION, vector(QUESTION), 10)
    shuffled = list(NEAR.items())
    random.Random(1).shuffle(shuffled)
    assert rank_by_graph(index, found, NEAR) == rank_by_graph(index, found, dict(shuffled))


def test_links_that_are_too_many_to_keep_are_read_by_key(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_links, "KEPT_ROWS", 0)
    with published(tmp_path, graph_rows(NAMED, RELATED)) as read:
        found = find_entities(read, QUESTION, vector(QUESTION), 10)
        assert rank_by_graph(read, found, NEAR) == rank_by_graph(index, found, NEAR)


def test_without_a_graph_the_nearest_come_first(tmp_path: Path) -> None:
    rows = graph_rows({}, [])
    with published(tmp_path, rows) as index:
        ids = [hit.id for hit in relevance(index, QUESTION, vector(QUESTION))]
        assert [f"t{number}" for number in ranked(index)] == ids


def test_entities_without_any_link_are_no_obstacle(tmp_path: Path) -> None:
    with published(tmp_path, graph_rows({title: [] for title in NAMED}, [])) as index:
        assert ranked(index)[0] == 0


def test_an_empty_index_has_no_ranking(tmp_path: Path) -> None:
    with published(tmp_path, {}) as index:
        assert ranked(index) == []
        assert retrieve(index, QUESTION, None, 3) == []


# --- names in scripts without spaces ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Tom Finchとは誰ですか", ["TOM FINCH"]),
        ("请问Tom Finch是谁？OpenAI呢", ["TOM FINCH", "OPENAI"]),
        ("彼のABC社はTom Finchと関係がありますか", ["ABC社", "TOM FINCH"]),
        ("佐々木さんはどこですか", ["佐々木"]),
        ("東京タワーの佐々木", ["東京タワー", "佐々木"]),
        ("AT&T是什么？", ["AT&T"]),
        ("ﾄｳｷｮｳの天気", ["ﾄｳｷｮｳ"]),
        ("ทอม ฟินช์คือใคร", ["ฟินช์"]),
        ("AIの話とは", []),  # no part of a word of another script
    ],
)
def test_names_are_found_where_no_space_ends_them(tmp_path: Path, question: str, expected: list[str]) -> None:
    titles = ["TOM FINCH", "OPENAI", "ABC社", "佐々木", "東京タワー", "AT&T", canonical_title("ﾄｳｷｮｳ"), "ฟินช์", "I"]
    with published(tmp_path, graph_rows({title: [0] for title in titles}, [])) as index:
        found = mentions(index, question)
        assert [m.entity.title for m in found] == [canonical_title(title) for title in expected]
        assert all(m.proper for m in found)


# --- relationships, a page at a time ---------------------------------------------------------------------------------


def test_pages_of_relationships_are_those_of_one_order(tmp_path: Path) -> None:
    ends = [(f"E{i:02}", f"E{j:02}") for i in range(12) for j in range(i) if (i + j) % 3]
    degree = Counter(title for pair in ends for title in pair)
    rows = graph_rows({title: [0] for title in sorted(degree)}, [(a, b, [0]) for a, b in ends])
    for number, row in enumerate(rows["relationships"]):
        row["combined_degree"] = number % 9
    with published(tmp_path, rows) as index:
        selected = [entity.number for entity in entities_by_title(index, ["E01", "E04", "E07", "E10"]).values()]
        wanted = related(index, selected, 10)
        pages = list(relationships(index, wanted, {"E01", "E04", "E07", "E10"}))
        assert len(pages) > 1
        assert all(len(page) >= PAGE for page in pages[:-1])
        found = [r for page in pages for r in page]
        assert sorted(r.number for r in found) == sorted(r.number for r in wanted)
        keys = [
            (r.links is not None, -(r.links or 0), -r.rank, r.source not in {"E01", "E04", "E07", "E10"}, r.number)
            for r in found
        ]
        assert keys == sorted(keys)


# --- names of which the question holds a part --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did Holm do?", ["FRIEDA HOLM"]),
        ("What does the Journal say of Holm?", ["JOURNAL OF QUARRIES", "FRIEDA HOLM"]),
        ("Holm did what?", []),  # the first word is always written large
        ("What did the association do?", []),
        ("What did Frieda Holm do in Ost?", []),  # whole names
        ("What did Smith do?", []),
    ],
)
def test_a_part_of_a_name_stands_for_it(index: Index, question: str, expected: list[str]) -> None:
    found = find_entities(index, question, vector("bread"), 2)
    assert [seed.entity.title for seed in found.partly] == expected
    assert [seed.entity.title for seed in choose_seeds(found, 2) if seed.how == "text"] == expected


# --- nearness and the reranker ---------------------------------------------------------------------------------------


def test_words_help_and_do_not_rule(index: Index) -> None:
    by_words = relevance(index, "bakery in Ost", None)
    assert [hit.id for hit in by_words[:2]] == ["t3", "t2"]
    assert by_words[0].score > by_words[1].score > 0
    far = vector("a magazine about clouds and winds")
    assert relevance(index, "bakery", far)[0].id == "t4"


def test_a_reranker_orders_what_was_found(index: Index) -> None:
    def shortest(question: str, passages: Sequence[str]) -> list[float]:
        assert question == QUESTION
        return [-float(len(passage)) for passage in passages]

    hits = retrieve(index, QUESTION, vector(QUESTION), 2, shortest)
    assert [hit.id for hit in hits] == ["t4", "t1"]
    context = build_basic_context(index, QUESTION, vector(QUESTION), 2, 500, TOKENS, score=shortest)
    assert [row.number for row in context.rows(SOURCES)] == [4, 1]


# --- local search ----------------------------------------------------------------------------------------------------


def local(index: Index, **changes: object) -> LocalParameters:
    return replace(LocalParameters.of(Settings.model_validate({})), **changes)  # type: ignore[arg-type]


def test_local_search_reads_text_units_in_the_order_of_the_walk(index: Index) -> None:
    context = build_local_context(index, QUESTION, vector(QUESTION), local(index), TOKENS)
    assert [row.number for row in context.rows(SOURCES)] == ranked(index)
    told = context.notes["text_units"]
    assert isinstance(told, list)
    assert [row["id"] for row in told] == ranked(index)


def test_local_search_keeps_the_order_of_the_reference_where_it_is_asked_to(index: Index) -> None:
    parameters = local(index, text_unit_ranking="reference", top_k_entities=1)
    context = build_local_context(index, QUESTION, vector(QUESTION), parameters, TOKENS)
    assert [row.number for row in context.rows(SOURCES)] == [0]


@pytest.mark.parametrize("ranking", ["graph", "reference"])
def test_a_second_hop_shows_what_the_seeds_are_linked_to(index: Index, ranking: str) -> None:
    one = local(index, top_k_entities=1, text_unit_ranking=ranking)
    titles = [
        [row.cells[1] for row in build_local_context(index, QUESTION, vector(QUESTION), p, TOKENS).rows(ENTITIES)]
        for p in (one, replace(one, hops=2))
    ]
    assert titles == [["JOURNAL OF QUARRIES"], ["JOURNAL OF QUARRIES", "LIME ASSOCIATION"]]


def test_a_budget_skips_what_does_not_fit_and_goes_on(index: Index) -> None:
    wide = build_local_context(index, QUESTION, vector(QUESTION), local(index), TOKENS)
    small = build_local_context(index, QUESTION, vector(QUESTION), local(index, max_context_tokens=70), TOKENS)
    order = [row.number for row in wide.rows(SOURCES)]
    kept = [row.number for row in small.rows(SOURCES)]
    assert kept == [number for number in order if number in kept]
    assert small.tokens <= 70
