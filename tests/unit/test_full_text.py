"""The full-text index finds what a scan of the texts finds, in any script."""

from __future__ import annotations

import dataclasses
import math
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_assets.indexing.full_text import term_tables
from graphrag_assets.query.index import Index
from graphrag_assets.query.lexical import K1, B, occurrences, search_text_units
from graphrag_assets.storage import tables
from graphrag_assets.text.terms import plain, terms
from tests.unit.query_doubles import small_index, small_rows

pytestmark = pytest.mark.storage

#: Tables that snapshots of earlier releases do not hold.
NEW = ("terms", "postings", "row_numbers", "entity_claims", "community_occurrences")


def without(index: Index, *names: str) -> Index:
    """The same snapshot as a release would have written it that did not know some tables."""
    kept = {name: file for name, file in index.manifest.tables.items() if name not in names}
    return Index(index.filesystem, dataclasses.replace(index.manifest, tables=kept), index.workspace)


def index_of(folder: Path, texts: list[str]) -> Index:
    rows = small_rows()
    rows["text_units"] = [
        {"id": f"t{i}", "human_readable_id": i, "text": text, "n_tokens": 1, "document_id": "d0"}
        for i, text in enumerate(texts)
    ]
    for name in ("covariates", "relationships", "entities", "communities", "community_reports", "entity_aliases"):
        rows[name] = []
    return small_index(folder, rows)


def by_the_book(texts: list[str], question: str, k: int) -> list[tuple[str, float]]:
    """BM25 as the text books have it."""
    held = [Counter(terms(text)) for text in texts]
    words = sorted(set(terms(question)))
    mean = sum(map(len, texts)) / len(texts) or 1.0
    scores: dict[int, float] = {}
    for i, text in enumerate(texts):
        norm = K1 * (1 - B + B * len(text) / mean)
        for word in words:
            found_in = sum(word in h for h in held)
            if n := held[i][word]:
                idf = math.log(1 + (len(texts) - found_in + 0.5) / (found_in + 0.5))
                scores[i] = scores.get(i, 0.0) + idf * n * (K1 + 1) / (n + norm)
    best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
    return [(f"t{i}", score) for i, score in best]


TEXTS = [
    "The old mill at Brook End. The mill had forty looms.",
    "Die Straße zum Café war naß; das Cafe liegt am Élan-Platz.",
    "東京都の橋は2031年に開通した。東京の橋",
    "สะพานเก่า over the brook",
    "No_underscore joins well-known words, 3.14 and A.B.",
    "",
]


@pytest.mark.parametrize(
    "question",
    ["the mill at the brook", "Straße café", "2031年の東京", "สะพาน", "well known 14", "橋", "nothing here", "?!"],
)
def test_scores_are_those_of_the_text_books(tmp_path: Path, question: str) -> None:
    index = index_of(tmp_path, TEXTS)
    hits = [(hit.id, hit.score) for hit in search_text_units(index, question, 4)]
    expected = by_the_book(TEXTS, question, 4)
    assert [i for i, _ in hits] == [i for i, _ in expected]
    assert [s for _, s in hits] == pytest.approx([s for _, s in expected])


def test_an_older_snapshot_is_scanned_with_the_same_result(tmp_path: Path) -> None:
    chance = random.Random(3)
    vocabulary = [f"w{i}" for i in range(40)] + ["brücke", "東京都", "the"]
    texts = [" ".join(chance.choices(vocabulary, k=chance.randrange(1, 60))) for _ in range(80)]
    new = index_of(tmp_path, texts)
    old = without(new, *NEW)
    for _ in range(20):
        question = " ".join(chance.choices(vocabulary, k=5))
        a, b = (search_text_units(index, question, 10) for index in (new, old))
        assert [hit.id for hit in a] == [hit.id for hit in b]
        assert [hit.score for hit in a] == pytest.approx([hit.score for hit in b])
    beginnings = ["w1", "w", "brucke", "東京", "the", "x"]
    assert occurrences(new, beginnings) == occurrences(old, beginnings)


def test_beginnings_count_each_text_unit_once_accents_aside(tmp_path: Path) -> None:
    index = index_of(tmp_path, TEXTS)
    assert occurrences(index, ["caf", "mill", "elan", "京都", "brook", "zebra"]) == {
        "caf": 1, "mill": 1, "elan": 1, "京都": 1, "brook": 2, "zebra": 0,
    }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab ßÉ東京3._\n", max_size=20), max_size=8))
def test_the_tables_hold_every_term_of_every_text(texts: list[str]) -> None:
    units = tables.TEXT_UNITS.empty().select(["human_readable_id", "text"])
    units = type(units).from_pylist([{"human_readable_id": i, "text": t} for i, t in enumerate(texts)], units.schema)
    made = term_tables(units)
    found = tables.TERMS.conform(made["terms"]).to_pylist()
    postings = tables.POSTINGS.conform(made["postings"]).to_pylist()
    assert [(t["plain"], t["term"]) for t in found] == sorted((t["plain"], t["term"]) for t in found)
    held = {
        (t["term"], p["text_unit"]): p["count"]
        for t in found
        for p in postings[t["first"] : t["first"] + t["text_units"]]
    }
    expected = {(term, i): n for i, text in enumerate(texts) for term, n in Counter(terms(text)).items()}
    assert held == expected | {("", i): len(text) for i, text in enumerate(texts)}
    assert all(t["plain"] == plain(t["term"]) for t in found)
