"""Look-ups in the graph of a snapshot, through the link tables with integer keys.

Every function reads the rows it returns and little more, and orders them by rules that end in a row number, so that the
same question always sees the same rows in the same order.
"""

# ruff: noqa: S608 (SQL is put together from names, integers and question marks only)

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_assets.query.index import Index, Record, integers, marks
from graphrag_assets.query.records import Claim, Entity, Relationship, Report, TextUnit
from graphrag_assets.query.row_numbers import numbers_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of the records, with the names that they have in the tables.
_ENTITY = {"number": "human_readable_id", **{c: c for c in ("id", "title", "type", "description", "degree")}}
_TEXT_UNIT = {"number": "human_readable_id", **{c: c for c in ("id", "text", "document_id", "start", "end")}}
_REPORT = {
    "number": "community",
    "content": "full_content",
    **{c: c for c in ("id", "title", "level", "rank", "status")},
}
_RELATIONSHIP = {
    "number": "human_readable_id",
    "rank": "combined_degree",
    **{c: c for c in ("id", "source", "target", "description", "weight")},
}
_CLAIM = {
    "number": "human_readable_id",
    "subject": "subject_id",
    "object": "object_id",
    **{c: c for c in ("id", "status", "start_date", "end_date", "description")},
}

#: Relationships that are fetched at a time while a section is filled.
PAGE = 16

#: Reports that were written, with a usable rank; stand-ins for failed ones say nothing about the documents.
USABLE_REPORT = "status = 'ok' and rank is not null and rank >= 0"


def _records(
    index: Index, table: str, key: str, values: Sequence[int] | Sequence[str], columns: dict[str, str]
) -> list[dict[str, Any]]:
    """Rows by key, under the names of a record."""
    rows: pa.Table = index.take(table, key, values, list(columns.values()))
    found: list[dict[str, Any]] = rows.rename_columns(list(columns)).to_pylist()
    return found


def entities_by_id(index: Index, ids: Sequence[str]) -> dict[str, Entity]:
    """Entities by their ids; unknown ids are left out."""
    numbers = numbers_of(index, "entities", ids)
    return {
        r["id"]: Entity(**r) for r in _records(index, "entities", "human_readable_id", [*numbers.values()], _ENTITY)
    }


def entities(index: Index, numbers: Sequence[int]) -> list[Entity]:
    """Entities by number, in the order asked for."""
    found = {r["number"]: Entity(**r) for r in _records(index, "entities", "human_readable_id", numbers, _ENTITY)}
    return [found[number] for number in numbers if number in found]


def entities_by_title(index: Index, titles: Sequence[str]) -> dict[str, Entity]:
    """Entities by title or by the title of an alias that was merged into them; unknown titles are left out."""
    if not titles:
        return {}
    canonical: dict[str, str] = {}
    for row in index.take("entity_aliases", "alias", titles, ["alias", "title", "decision"]).to_pylist():
        if row["decision"] == "merged":
            canonical[row["alias"]] = min(row["title"], canonical.get(row["alias"], row["title"]))
    wanted = sorted({*titles, *canonical.values()})
    found = _records(index, "entities", "title", wanted, _ENTITY)
    by_title = {r["title"]: Entity(**r) for r in sorted(found, key=lambda r: -r["number"])}
    named = {title: by_title.get(title) or by_title.get(canonical.get(title, "")) for title in titles}
    return {title: entity for title, entity in named.items() if entity}


def top_entities(index: Index, k: int) -> list[Entity]:
    """The k entities with the most relationships."""
    listed = ", ".join(f"{column} as {name}" for name, column in _ENTITY.items())
    rows = index.rows(f"select {listed} from entities order by degree desc, number limit {int(k)}")
    return [Entity(**r) for r in rows]


@dataclass(frozen=True)
class Related:
    """A relationship of selected entities, as far as its place among the others needs.

    Args:
        number: The relationship.
        links: Selected entities that its outside end is related to; None: both ends are selected.
        rank: Its combined degree.
    """

    number: int
    links: int | None
    rank: int


def related(index: Index, entities: Sequence[int], per_entity: int) -> list[Related]:
    """Relationships of the selected entities, as Microsoft GraphRAG orders them.

    Those between two selected entities come first, by rank (combined degree). Then those that lead out, by the number
    of selected entities that the outside end is related to, then by rank; at most ``per_entity`` of them per entity.

    Args:
        index: The snapshot.
        entities: Numbers of the selected entities.
        per_entity: Outgoing relationships per selected entity.
    """
    selected = np.unique(np.asarray(entities, np.int64))
    columns = ["entity", "neighbour", "relationship", "combined_degree"]
    ends = index.take("entity_neighbours", "entity", selected.tolist(), columns)
    entity, neighbour, relationship, rank = (ends[column].to_numpy().astype(np.int64) for column in columns)
    inside = np.isin(neighbour, selected)
    outer, at = np.unique(neighbour[~inside], return_inverse=True)
    pairs = np.unique(np.stack([at, entity[~inside]], axis=1), axis=0)
    linked = np.bincount(pairs[:, 0], minlength=len(outer))[at]
    order = np.lexsort((relationship[~inside], -rank[~inside], -linked))[: per_entity * len(entities)]
    within = np.lexsort((relationship[inside], -rank[inside]))
    found: dict[int, Related] = {}
    for number, degree in zip(relationship[inside][within].tolist(), rank[inside][within].tolist(), strict=True):
        found.setdefault(number, Related(number, None, degree))
    outgoing = (relationship[~inside][order], linked[order], rank[~inside][order])
    for number, links, degree in zip(*(values.tolist() for values in outgoing), strict=True):
        found[number] = Related(number, links, degree)
    return list(found.values())


def relationships(index: Index, wanted: Sequence[Related], titles: Collection[str]) -> Iterator[list[Relationship]]:
    """Relationships in the order of :func:`related`, a page at a time; of equal ones those that lead out of a title first.

    Args:
        index: The snapshot.
        wanted: From :func:`related`.
        titles: Titles of the selected entities.
    """
    first = 0
    while first < len(wanted):
        end = min(first + PAGE, len(wanted))
        while end < len(wanted) and _place(wanted[end]) == _place(wanted[end - 1]):
            end += 1  # equal ones are ordered by what only their rows tell
        links = {r.number: r.links for r in wanted[first:end]}
        place = {r.number: _place(r) for r in wanted[first:end]}
        rows = _records(index, "relationships", "human_readable_id", list(links), _RELATIONSHIP)
        found = [Relationship(**r, links=links[r["number"]]) for r in rows]
        yield sorted(found, key=lambda r: (place[r.number], r.source not in titles, r.number))
        first = end


def _place(relationship: Related) -> tuple[bool, int, int]:
    return relationship.links is not None, -(relationship.links or 0), -relationship.rank


def claims_of(index: Index, entities: Sequence[Entity]) -> list[Claim]:
    """Claims about some entities: in the order of the entities, then of the table."""
    if not entities or not index.count("covariates"):
        return []
    if index.manifest.tables.get("entity_claims") is None:  # a snapshot of an earlier release
        rows = _records(index, "covariates", "subject_id", [entity.title for entity in entities], _CLAIM)
    else:
        numbers = [entity.number for entity in entities]
        claims = index.take("entity_claims", "entity", numbers, ["claim"])["claim"].to_pylist()
        rows = _records(index, "covariates", "human_readable_id", claims, _CLAIM)
    place = {entity.title: i for i, entity in reversed(list(enumerate(entities)))}
    return sorted((Claim(**r) for r in rows), key=lambda claim: (place[claim.subject], claim.number))


def communities_of(index: Index, entities: Sequence[int], max_level: int) -> list[int]:
    """Communities of the selected entities that have a report: most selected members first, then by rank."""
    columns = ["entity", "community", "level"]
    members: Counter[int] = Counter()
    rows = index.take("entity_communities", "entity", sorted(set(entities)), columns)
    for _, community, level in set(zip(*(rows[c].to_pylist() for c in columns), strict=True)):
        if level <= max_level:
            members[community] += 1
    rank = usable_reports(index, list(members))
    return sorted(rank, key=lambda community: (-members[community], -rank[community], community))


def usable_reports(index: Index, communities: Sequence[int]) -> dict[int, float]:
    """Rank of the usable reports among those of some communities."""
    rows = index.take("community_reports", "community", communities, ["community", "status", "rank"]).to_pylist()
    return {r["community"]: r["rank"] for r in rows if r["status"] == "ok" and r["rank"] is not None and r["rank"] >= 0}


def communities(index: Index) -> list[Record]:
    """All communities (community, level, parent, size): deepest level first, then by number."""
    stored = index.table("communities")
    if stored is None:
        return []
    found: list[Record] = stored.whole(["community", "level", "parent", "size"]).to_pylist()
    return sorted(found, key=lambda c: (-c["level"], c["community"]))


def all_usable_reports(index: Index) -> set[int]:
    """Communities of all usable reports."""
    stored = index.table("community_reports")
    if stored is None:
        return set()
    return set(_usable(stored.whole(["community", "status", "rank", "level"])))


def levels_of_usable_reports(index: Index, communities: Sequence[int]) -> dict[int, int]:
    """Level of the usable reports among those of some communities."""
    columns = ["community", "status", "rank", "level"]
    return _usable(index.take("community_reports", "community", communities, columns))


def _usable(rows: pa.Table) -> dict[int, int]:
    return {
        r["community"]: r["level"]
        for r in rows.to_pylist()
        if r["status"] == "ok" and r["rank"] is not None and r["rank"] >= 0
    }


def ids_of_reports(index: Index, communities: Collection[int]) -> dict[str, int]:
    """The communities of some reports by the ids of the reports."""
    rows = index.take("community_reports", "community", sorted(communities), ["id", "community"])
    return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def occurrences_of(index: Index, communities: Sequence[int]) -> dict[int, int]:
    """In how many text units the members of some communities are named."""
    if index.manifest.tables.get("community_occurrences") is None:  # a snapshot of an earlier release
        rows = index.rows(
            f"""select c.community, count(distinct t.text_unit) as text_units
                from entity_communities c join text_unit_entities t on t.entity = c.entity
                where c.community in ({integers(communities)}) group by c.community"""
        )
        return {r["community"]: r["text_units"] for r in rows}
    found = index.take("community_occurrences", "community", communities, ["community", "text_units"])
    return dict(zip(*(column.to_pylist() for column in found.columns), strict=True))


def text_units_of(index: Index, entities: Sequence[int]) -> list[int]:
    """Text units that name the selected entities, each once, as Microsoft GraphRAG orders them.

    By the first selected entity that they name, then by how many of that entity's relationships they hold, then in the
    order of the documents.

    Returns:
        Their numbers.
    """
    place = {entity: i for i, entity in reversed(list(enumerate(entities)))}
    first: dict[int, tuple[int, int]] = {}
    for entity, unit, held in _named_in(index, sorted(place)):
        first[unit] = min((place[entity], -held), first.get(unit, (len(place), 0)))
    return sorted(first, key=lambda unit: (*first[unit], unit))


def _named_in(index: Index, entities: Sequence[int]) -> list[tuple[int, int, int]]:
    """(entity, text unit that names it, relationships of the entity that were read from it)."""
    stored = index.stored("text_unit_entities")
    if stored is None or not entities:
        return []
    if "relationships" in stored.columns:
        rows = index.take("text_unit_entities", "entity", entities, ["entity", "text_unit", "relationships"])
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    selected = integers(entities)  # a snapshot of an earlier release
    counted = index.rows(
        f"""select e.entity, e.text_unit, count(r.text_unit) as held
            from text_unit_entities e
            left join (select n.entity, t.text_unit from entity_neighbours n
                       join relationship_text_units t on t.relationship = n.relationship
                       where n.entity in ({selected})) r on r.entity = e.entity and r.text_unit = e.text_unit
            where e.entity in ({selected}) group by e.entity, e.text_unit"""
    )
    return [(r["entity"], r["text_unit"], r["held"]) for r in counted]


def titles_in(index: Index, text_units: Sequence[int]) -> list[tuple[int, str, int]]:
    """Number, title and degree of the entities that some text units name, in the order of the entities."""
    table = (
        "entities_in_text_units" if index.table("entities_in_text_units") else "text_unit_entities"
    )  # earlier release
    found = index.take(table, "text_unit", text_units, ["entity"])["entity"].to_pylist()
    columns = ["human_readable_id", "title", "degree"]
    rows = index.take("entities", "human_readable_id", sorted(set(found)), columns)
    return sorted(zip(*(rows[column].to_pylist() for column in columns), strict=True))


def text_units(index: Index, numbers: Sequence[int]) -> list[TextUnit]:
    """Text units by number, in the order asked for."""
    rows = _records(index, "text_units", "human_readable_id", numbers, _TEXT_UNIT)
    found = {r["number"]: TextUnit(**r) for r in rows}
    return [found[number] for number in numbers if number in found]


def with_tokens(index: Index, text_units: Sequence[int]) -> list[tuple[int, int]]:
    """Text units by number with their tokens, in the order asked for; unknown numbers are left out."""
    tokens = index.take("text_units", "human_readable_id", text_units, ["human_readable_id", "n_tokens"])
    size = dict(zip(*(column.to_pylist() for column in tokens.columns), strict=True))
    return [(unit, size[unit]) for unit in text_units if unit in size]


def reports(index: Index, communities: Sequence[int]) -> list[Report]:
    """Usable reports by community, in the order asked for."""
    found = {}
    for row in _records(index, "community_reports", "community", communities, _REPORT):
        if row.pop("status") == "ok" and row["rank"] is not None and row["rank"] >= 0:
            found[row["number"]] = Report(**row)
    return [found[number] for number in communities if number in found]


def documents(index: Index, ids: Sequence[str]) -> dict[str, Record]:
    """Title, path and version (content_hash) of documents by id."""
    rows = index.rows(f"select id, title, path, content_hash from documents where id in ({marks(ids)})", ids)
    return {r["id"]: r for r in rows}


def origins(index: Index, text_units: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Title and language of the documents that text units come from; a title that is only a file name is left out."""
    rows = index.rows(
        f"""select t.human_readable_id as number, d.title, d.path, coalesce(d.language, '') as language
            from text_units t join documents d on d.id = t.document_id
            where t.human_readable_id in ({integers(text_units)})"""
    )
    return {
        r["number"]: ("" if r["title"] == r["path"].rsplit("/", 1)[-1] or r["title"] == r["path"] else r["title"],
                      r["language"])
        for r in rows
    }  # fmt: skip
