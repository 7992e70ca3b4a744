"""Report contexts: everything of a community, within the budget, with true substitution and a told trimming order."""

from __future__ import annotations

import csv
import io
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.indexing.conflicts import Conflict, Side
from graphrag_assets.indexing.report_context import SECTIONS, ReportContext, build_context
from graphrag_assets.llm.tokens import tokenizer

Row = dict[str, Any]


def words(text: str) -> int:
    return len(text.split())


def entity(title: str, description: str = "d") -> Row:
    return {"id": f"id-{title}", "title": title, "description": description}


def relationship(source: str, target: str, description: str = "d") -> Row:
    return {"id": f"id-{source}-{target}", "source": source, "target": target, "description": description}


def claim(subject: str, number: int = 1) -> Row:
    fields = {"subject_id": subject, "object_id": "NONE", "type": "FINE", "status": "TRUE"}
    return {
        "id": f"claim-{subject}-{number}",
        **fields,
        "start_date": "2031-01-01",
        "end_date": "NONE",
        "description": "was fined",
    }


def report(community: int, text: str = "short report") -> Row:
    return {"id": f"report-{community}", "community": community, "title": f"Report {community}", "full_content": text}


def conflict(title: str) -> Conflict:
    return Conflict(
        "date", title, Side("It fell in May.", "unit-2", "05"), Side("It fell in June.", "unit-1", "06"), 0.9
    )


def context(
    members: list[Row],
    relationships: list[Row] | None = None,
    claims: list[Row] | None = None,
    reports: list[Row] | None = None,
    conflicts: list[Conflict] | None = None,
    *,
    sub_members: dict[int, list[str]] | None = None,
    count: Any = words,
    limit: int = 10_000,
) -> ReportContext:
    return build_context(
        members,
        relationships or [],
        claims or [],
        reports or [],
        conflicts or [],
        sub_members=sub_members or {},
        count_tokens=count,
        max_tokens=limit,
    )


def sections(text: str) -> dict[str, list[list[str]]]:
    """Rows of each section, read as CSV, without headers."""
    parts = re.split(r"^-----(\w+)-----\n", text, flags=re.MULTILINE)
    result = {}
    for name, block in zip(parts[1::2], parts[2::2], strict=True):
        rows = [row for row in csv.reader(io.StringIO(block)) if row]
        assert tuple(rows[0]) == SECTIONS[name]
        result[name] = rows[1:]
    return result


def test_all_members_all_relationships_and_all_claims_are_there() -> None:
    members = [entity("A", 'says "hi",\nthen goes'), entity("B"), entity("C"), entity("LONELY")]
    found = context(members, [relationship("A", "B"), relationship("B", "C")], [claim("A")], conflicts=[conflict("B")])
    read = sections(found.text)
    assert list(read) == ["Entities", "Claims", "Relationships", "Conflicts"], "empty sections are left out"
    assert read["Entities"] == [
        ["2", "B", "d", "2"],
        ["1", "A", 'says "hi",\nthen goes', "1"],
        ["3", "C", "d", "1"],
        ["4", "LONELY", "d", "0"],
    ], "most connected first, numbered in canonical order"
    assert read["Claims"] == [["1", "A", "NONE", "FINE", "TRUE", "2031-01-01", "NONE", "was fined"]]
    assert read["Relationships"] == [["1", "A", "B", "d", "3"], ["2", "B", "C", "d", "3"]]
    assert read["Conflicts"] == [["date", "B", "It fell in May.", "1", "It fell in June.", "2"]]
    assert found.ids["Entities"]["2"] == "id-B"
    assert found.ids["Relationships"]["2"] == "id-B-C"
    assert found.ids["Claims"]["1"] == "claim-A-1"
    assert found.ids["Sources"] == {"1": "unit-2", "2": "unit-1"}
    assert not found.trimmed
    assert not found.substituted


def test_relationships_that_leave_the_community_are_not_in_it() -> None:
    found = context([entity("A"), entity("B")], [relationship("A", "B"), relationship("A", "OUTSIDE")])
    assert "OUTSIDE" not in found.text
    assert list(found.ids["Relationships"].values()) == ["id-A-B"]


def two_halves(size: int = 6) -> dict[str, Any]:
    """A community of a large and a small sub-community with one relationship between them."""
    large, small = [f"L{i}" for i in range(size)], ["S0", "S1"]
    text = "a long description of what this one is and does"
    return {
        "members": [entity(t, text) for t in [*large, *small]],
        "relationships": [
            *(relationship(large[0], other, text) for other in large[1:]),
            relationship("L0", "S0", "bridge"),
            relationship("S0", "S1", text),
        ],
        "claims": [claim("L1"), claim("S1")],
        "reports": [report(7, "about L [Data: Entities (1)]."), report(8, "about S")],
        "sub_members": {7: large, 8: small},
    }


def test_the_largest_sub_community_is_replaced_by_its_report_when_the_context_is_too_long() -> None:
    whole = context(**two_halves())
    assert whole.substituted == ()
    found = context(**two_halves(), limit=words(whole.text) - 1)
    assert found.substituted == (7,)
    read = sections(found.text)
    assert read["Reports"] == [["1", "Report 7", "about L."]], "the citations of a sub-report mean nothing here"
    assert [row[1] for row in read["Entities"]] == ["S0", "S1"]
    assert [row[1:3] for row in read["Relationships"]] == [["L0", "S0"], ["S0", "S1"]], "what links both halves stays"
    assert [row[1] for row in read["Claims"]] == ["S1"]
    assert found.ids["Reports"] == {"1": "report-7"}, "what is not shown is no source, and makes nothing stale"
    assert whole.ids["Reports"] == {}
    assert not found.trimmed


def test_more_sub_communities_are_replaced_until_it_fits() -> None:
    one = context(**two_halves(), limit=words(context(**two_halves()).text) - 1)
    both = context(**two_halves(), limit=words(one.text) - 1)
    assert both.substituted == (7, 8)
    assert [row[1:3] for row in sections(both.text)["Relationships"]] == [["L0", "S0"]]


def test_a_report_longer_than_its_rows_replaces_nothing() -> None:
    halves = two_halves() | {"reports": [report(7, "word " * 500), report(8, "about S")]}
    found = context(**halves, limit=words(context(**halves).text) - 1)
    assert found.substituted == (8,)


def test_least_connected_relationships_go_first_then_claims_then_entities() -> None:
    hub = [relationship("HUB", f"N{i}") for i in range(5)] + [relationship("N0", "N1")]
    members = [entity(t) for t in ["HUB", *(f"N{i}" for i in range(5))]]
    whole = context(members, hub, [claim("HUB")])
    seen = []
    for limit in range(words(whole.text), 0, -1):
        found = context(members, hub, [claim("HUB")], limit=limit)
        assert words(found.text) <= limit
        seen.append(found)
        trimmed = found.trimmed
        if trimmed.get("Claims"):
            assert trimmed["Relationships"] == 6, "all relationships go before a claim"
        if trimmed.get("Entities"):
            assert trimmed["Claims"] == 1, "all claims go before an entity"
        read = sections(found.text)
        for name in ("Entities", "Relationships"):
            kept = [row[-1] for row in read.get(name, [])]
            assert kept == [row[-1] for row in sections(whole.text)[name]][: len(kept)], "the most connected stay"
    assert any(s.trimmed.get("Relationships") == 1 for s in seen), "one row at a time"
    assert seen[-1].text == ""


def test_one_description_longer_than_the_budget_does_not_empty_the_context() -> None:
    members = [entity("HUB", "word " * 500), entity("A"), entity("B")]
    found = context(members, [relationship("HUB", "A"), relationship("HUB", "B")], limit=60)
    assert [row[1] for row in sections(found.text)["Entities"]] == ["A", "B"]
    assert found.trimmed == {"Entities": 1}


def test_contradictions_do_not_crowd_out_the_community() -> None:
    found = context([entity("A"), entity("B")], [relationship("A", "B")], conflicts=[conflict("A")] * 50, limit=120)
    read = sections(found.text)
    assert len(read["Entities"]) == 2
    assert len(read["Conflicts"]) == len(found.conflicts) > 0
    assert found.trimmed == {"Conflicts": 50 - len(found.conflicts)}


def test_numbers_do_not_depend_on_the_rest_of_the_corpus() -> None:
    """The prompt, and so the key of its answer, stays the same when rows elsewhere shift all human ids."""
    members = [entity("A") | {"human_readable_id": 3, "degree": 9}, entity("B") | {"human_readable_id": 5, "degree": 4}]
    shifted = [row | {"human_readable_id": row["human_readable_id"] + 100, "degree": 50} for row in members]
    assert context(members, [relationship("A", "B")]) == context(shifted, [relationship("A", "B")])


@pytest.fixture(scope="module")
def count_tokens() -> Any:
    return tokenizer("o200k_base").count


texts = st.text(alphabet=st.sampled_from('ab c,."\n/-é漢'), max_size=60)


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, min_size=2, max_size=12), st.integers(0, 400), st.randoms(use_true_random=False))
def test_the_budget_holds_to_the_token_with_a_real_tokenizer(
    count_tokens: Any, descriptions: list[str], limit: int, rng: random.Random
) -> None:
    titles = [f"E{i:02d}" for i in range(len(descriptions))]
    members = [entity(t, d) for t, d in zip(titles, descriptions, strict=True)]
    links = [relationship(*sorted(rng.sample(titles, 2)), rng.choice(descriptions)) for _ in titles]
    half = len(titles) // 2
    halves = {"sub_members": {1: titles[:half], 2: titles[half:]}, "reports": [report(1, descriptions[0]), report(2)]}
    found = context(members, links, [claim(titles[0])], **halves, count=count_tokens, limit=limit)
    assert count_tokens(found.text) <= limit
    rows = sections(found.text)
    whole = sections(context(members, links, [claim(titles[0])], count=count_tokens).text)
    for name, kept in rows.items():
        if name != "Reports":
            assert all(row in whole[name] for row in kept), "rows are whole"


def test_each_row_is_counted_once() -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return words(text)

    titles = [f"E{i:04d}" for i in range(2000)]
    members = [entity(t, "some description") for t in titles]
    links = [relationship(a, b) for a, b in pairwise(titles)]
    found = context(members, links, count=count, limit=3000)
    assert words(found.text) <= 3000
    assert sum(counted) < 3 * sum(len(t) + 60 for t in titles * 2)


def test_every_member_and_relationship_of_a_real_index_is_in_a_context(shared: Path, count_tokens: Any) -> None:
    """Microsoft GraphRAG's index of A Christmas Carol: 1,152 memberships, 1,297 relationships with known ends inside.

    Its own contexts hold 1,078 members and 811 relationships of their community, and no claim.
    """
    folder = shared / "data" / "index-carol-msft"
    names = ("entities", "relationships", "communities", "covariates")
    entities, links, communities, claims = (pq.read_table(folder / f"{name}.parquet").to_pylist() for name in names)
    by_id = {row["id"]: row for row in entities}
    members = slots = inside = told = 0
    for community in communities:
        rows = [by_id[i] for i in community["entity_ids"]]
        titles = {row["title"] for row in rows}
        about = [c for c in claims if c["subject_id"] in titles and c["description"]]
        found = context(rows, links, about, count=count_tokens, limit=10**9)
        read = sections(found.text)
        members += len(read["Entities"])
        slots += community["size"]
        inside += len(read.get("Relationships", []))
        told += len(read.get("Claims", []))
        assert count_tokens(context(rows, links, about, count=count_tokens, limit=2000).text) <= 2000
    assert members == slots == 1152
    assert inside == 1297
    assert told > 500
