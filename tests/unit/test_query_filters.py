"""Filters on documents: nothing from outside is in a context, whatever the search."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.query import Filter, QueryError, ask_sync, vectors
from graphrag_assets.query.entities import mentions
from graphrag_assets.query.filters import Condition
from graphrag_assets.query.index import Index
from graphrag_assets.storage import tables
from tests.published import Rows
from tests.unit.query_doubles import FakeChat, good_answers, models, small_index, small_rows

pytestmark = pytest.mark.storage

YEARS, KINDS = (1990, 1991, 1992.5), ("memo", "letter")
DOCUMENTS, UNITS_EACH, ENTITIES = 12, 3, 24


def secret(document: int, place: int) -> str:
    """A word that only one text unit holds; every text that is made from it holds it too."""
    return f"secret{document}x{place}x"


def many_rows(seed: int = 5) -> dict[str, Rows]:
    """Documents whose every derived text names the words of all text units that it was made from."""
    chance = random.Random(seed)
    documents, units = [], []
    for d in range(DOCUMENTS):
        metadata: dict[str, Any] = {
            "year": YEARS[d % 3],
            "kind": KINDS[d % 2],
            "open": d % 4 == 0,
            "tags": [f"t{d % 5}", "all"],
        }
        path = f"{'north' if d < 6 else 'south'}/{d}.txt"
        documents.append(
            {"id": f"d{d}", "human_readable_id": d, "title": f"Title {d}", "path": path, "text": "x",
             "raw_data": json.dumps(metadata), "language": "en"}
        )  # fmt: skip
    named: dict[int, set[int]] = {e: set() for e in range(ENTITIES)}
    words: list[str] = []
    pairs: dict[tuple[int, int], set[int]] = {}
    for d in range(DOCUMENTS):
        for place in range(UNITS_EACH):
            number = len(units)
            # most entities keep to neighbouring documents, some are everywhere
            held = {min(ENTITIES - 1, 2 * d + chance.randrange(4)), 2 * d, 2 * d + 1, chance.randrange(3)}
            for e in held:
                named[e].add(number)
            for a in held:
                for b in held:
                    if a < b:
                        pairs.setdefault((a, b), set()).add(number)
            words.append(secret(d, place))
            text = f"The mill and {' and '.join(f'Thing Q{e:02}' for e in sorted(held))} met at {words[-1]} in spring."
            units.append(
                {"id": f"t{number}", "human_readable_id": number, "text": text, "n_tokens": 30, "document_id": f"d{d}",
                 "start": 0, "end": len(text)}
            )  # fmt: skip
    told = {e: " ".join(words[u] for u in sorted(own)) for e, own in named.items()}
    entities = [
        {"id": f"e{e}", "human_readable_id": e, "title": f"THING Q{e:02}", "type": "THING",
         "description": f"A thing of {told[e]}", "descriptions": [told[e]], "text_unit_ids": [f"t{u}" for u in sorted(own)],
         "degree": sum(e in pair for pair in pairs), "frequency": len(own)}
        for e, own in named.items()
    ]  # fmt: skip
    relationships = [
        {"id": f"r{i}", "human_readable_id": i, "source": f"THING Q{a:02}", "target": f"THING Q{b:02}", "weight": 1.0,
         "description": f"They met at {' '.join(words[u] for u in sorted(own))}", "combined_degree": 3,
         "text_unit_ids": [f"t{u}" for u in sorted(own)]}
        for i, ((a, b), own) in enumerate(sorted(pairs.items()))
    ]  # fmt: skip
    claims = [
        {"id": f"k{i}", "human_readable_id": i, "covariate_type": "claim", "subject_id": f"THING Q{min(e, ENTITIES):02}",
         "object_id": "NONE", "description": f"It was claimed at {words[u]}", "source_text": words[u], "text_unit_id": f"t{u}"}
        for i, (e, u) in enumerate((e, min(own)) for e, own in named.items() if own)
    ]  # fmt: skip
    groups = [(0, -1, list(range(ENTITIES)))] + [
        (1, 0, list(range(s, min(s + 3, ENTITIES)))) for s in range(0, ENTITIES, 3)
    ]
    communities, reports = [], []
    for number, (level, parent, members) in enumerate(groups):
        children = list(range(1, len(groups))) if level == 0 else []
        row = {"id": f"c{number}", "human_readable_id": number, "community": number, "level": level, "parent": parent,
               "children": children, "entity_ids": [f"e{e}" for e in members], "size": len(members)}  # fmt: skip
        communities.append(row)
        text = " ".join(told[e] for e in members)
        reports.append(
            {"id": f"p{number}", **{k: row[k] for k in ("human_readable_id", "community", "level", "parent", "children", "size")},
             "title": f"Report {number}", "summary": f"Of the mill: {text}.", "rank": 5.0,
             "full_content": f"# Report {number}\n\nOf the mill and things: {text}."}
        )  # fmt: skip
    reports.sort(key=lambda r: (-r["level"], r["community"]))
    return {"documents": documents, "text_units": units, "entities": entities, "relationships": relationships,
            "covariates": claims, "communities": communities, "community_reports": reports}  # fmt: skip


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with small_index(tmp_path_factory.mktemp("many"), many_rows()) as index:
        yield index


FILTERS: list[tuple[list[str], list[str]]] = [
    (["year=1990"], []),
    (["year>=1991", "kind=memo"], []),
    (["kind!=memo"], []),
    (["path=south/*"], []),
    (["open=true"], []),
    (["tags in t1,t2"], []),
    ([], ["north/3.txt"]),
    ([], ["d0", "d1", "d2", "d3", "d4", "d5"]),
    (["title=Title 1?"], []),
    (["year<1992"], ["d7", "north/1.txt", "d8"]),
]


@pytest.mark.parametrize(("conditions", "documents"), FILTERS)
@pytest.mark.parametrize("method", ["basic", "local", "global", "drift"])
@pytest.mark.parametrize("with_model", [False, True])
def test_nothing_from_outside_is_in_a_context(
    many: Index, conditions: list[str], documents: list[str], method: Any, with_model: bool
) -> None:
    wanted = Filter.of(conditions, documents)
    assert wanted is not None
    inside = set(many.within(wanted).scope.documents)  # type: ignore[union-attr]
    assert 0 < len(inside) < DOCUMENTS
    barred = [secret(d, p) for d in range(DOCUMENTS) if f"d{d}" not in inside for p in range(UNITS_EACH)]
    meant = [secret(d, p) for d in range(DOCUMENTS) if f"d{d}" in inside for p in range(UNITS_EACH)]
    asked = f"What of Thing Q00 and Thing Q05, the mill and {barred[0]}?"
    chat = FakeChat(good_answers) if with_model else None
    try:
        answer = ask_sync(many, asked, method, documents=wanted, models=models(chat))
    except QueryError as error:
        assert "no usable report" in str(error)  # noqa: PT017 (there may be one)
        assert method in ("global", "drift")
        return
    shown = [context.text for context in answer.contexts]
    shown += [json.dumps([str(m) for m in messages][:1]) for _, messages in chat.asked] if chat else []
    assert not [word for word in barred if any(word in text.replace(asked, "") for text in shown)]
    assert not any(word in citation.quote for citation in answer.citations for word in barred)
    assert {c.document for c in answer.citations if c.document} <= {
        r["path"] for r in many_rows()["documents"] if r["id"] in inside
    }
    if method in ("basic", "local"):
        assert any(word in text for word in meant for text in shown)


@pytest.mark.parametrize("seed", range(6))
def test_no_view_and_no_look_up_shows_what_is_outside(many: Index, seed: int) -> None:
    chance = random.Random(seed)
    inside = chance.sample(range(DOCUMENTS), chance.randrange(1, DOCUMENTS))
    barred = [secret(d, p) for d in range(DOCUMENTS) if d not in inside for p in range(UNITS_EACH)]
    index = many.within(Filter(documents=tuple(f"d{d}" for d in inside)))
    for table in ("text_units", "entities", "relationships", "covariates", "communities", "community_reports"):
        seen = index.rows(f'select * from "{table}"')
        stored = index.table(table)
        assert stored is not None
        columns = sorted(stored.columns)
        looked_up = stored.whole(columns).to_pylist()
        key = "community" if table.startswith("communit") else "human_readable_id"
        taken = index.take(table, key, range(100), columns).to_pylist()
        assert sorted(map(str, looked_up)) == sorted(map(str, taken))
        assert {row[key] for row in seen} == {row[key] for row in taken}
        for rows in (seen, taken):
            assert not [word for word in barred if word in str(rows)]
        numbers = {row[key] for row in taken}
        for row in many.rows(f'select * from "{table}"'):
            said = str({k: v for k, v in row.items() if k != "text_unit_ids"})
            if any(secret(d, p) in said for d in inside for p in range(UNITS_EACH)) and not any(
                w in said for w in barred
            ):
                assert row[key] in numbers, (table, row)


def test_an_entity_that_is_partly_inside_is_found_without_its_description(many: Index) -> None:
    index = many.within(Filter(documents=("d0",)))
    found = mentions(index, "What of Thing Q00?")
    assert [(m.entity.title, m.entity.type, m.entity.description) for m in found] == [("THING Q00", "THING", "")]
    assert mentions(index, "What of Thing Q20?") == []


@pytest.mark.parametrize("most", [0, vectors.MOST_SIFTED], ids=["named rows", "sifted"])
def test_vectors_are_searched_among_what_is_inside(many: Index, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "MOST_SIFTED", most)
    index = many.within(Filter(documents=("d11",)))
    vector = models().embedder.encode(["Thing Q00 met at spring"])[0].tolist()  # type: ignore[attr-defined]
    hits = index.vectors(tables.TEXT_UNIT_VECTORS).nearest(vector, 10)
    assert {hit.id for hit in hits} == {"t33", "t34", "t35"}
    assert hits == sorted(hits, key=lambda hit: -hit.score)
    assert index.vectors(tables.TEXT_UNIT_VECTORS).nearest(vector, 2, allowed=["t34", "t0"]) == [
        hit for hit in hits if hit.id == "t34"
    ]


def test_messages_name_what_there_is(many: Index) -> None:
    with pytest.raises(QueryError, match=r"no document has a 'yeer'.*kind.*year; near are year"):
        many.within(Filter.of(["yeer=1990"]))
    with pytest.raises(QueryError, match="no document has kind = mémo; kind is letter, memo; near are memo"):
        many.within(Filter.of(["kind=mémo"]))
    with pytest.raises(QueryError, match=r"no document 'north/3.text'; near are north/3.txt"):
        many.within(Filter.of([], ["north/3.text"]))
    with pytest.raises(QueryError, match=r"no document 'nix'; there are north/0.txt, north/1.txt, .*, …$"):
        many.within(Filter.of([], ["nix"]))
    with pytest.raises(QueryError, match=r"--filter path=north/\* takes patterns"):
        many.within(Filter.of([], ["north/*"]))
    with pytest.raises(QueryError, match=r"no usable report .* nothing outside the filter"):
        ask_sync(many, "What?", "global", documents=Filter.of(["path=north/3.txt"]), models=models())
    with pytest.raises(QueryError, match="is no condition"):
        Filter.of(["year"])
    with pytest.raises(QueryError, match="among those that the other conditions leave"):
        many.within(Filter.of(["year=1990", "year=1991"]))


@pytest.mark.parametrize("condition", ["creation_date<1990-01-01", "creation_date<=1990", "language<zz"])
def test_what_a_document_does_not_tell_is_not_less_than_anything(condition: str) -> None:
    documents = [
        {"id": "a", "path": "a", "title": "a", "language": "", "creation_date": "", "raw_data": None},
        {"id": "b", "path": "b", "title": "b", "language": "en", "creation_date": "1989-05-01", "raw_data": None},
    ]
    assert Filter((Condition.parse(condition),)).select(documents) == ["b"]


def test_without_a_filter_all_is_as_before(tmp_path: Path) -> None:
    index = small_index(tmp_path, small_rows())
    assert index.within(None) is index
    assert Filter.of() is None
    everything = index.within(Filter(documents=("d0", "d1", "d2")))
    for method in ("basic", "local", "global", "drift"):
        a, b = (ask_sync(i, "Who bought the mill?", method, models=models()) for i in (index, everything))  # type: ignore[arg-type]
        assert [c.text for c in a.contexts] == [c.text for c in b.contexts]
