"""Look-ups in the graph of a snapshot, through the link tables with integer keys.

Every function reads the rows it returns and little more, and orders them by rules that end in a row number, so that the
same question always sees the same rows in the same order.
"""

# ruff: noqa: S608 (SQL is put together from names, integers and question marks only)

from __future__ import annotations

from collections.abc import Sequence

from graphrag_assets.query.index import Index, Record, integers, marks
from graphrag_assets.query.records import Claim, Entity, Relationship, Report, TextUnit

_ENTITY = "human_readable_id as number, id, title, type, description, degree"
_TEXT_UNIT = 'human_readable_id as number, id, text, document_id, "start", "end"'
_REPORT = "community as number, id, title, full_content as content, level, rank"

#: Reports that were written, with a usable rank; stand-ins for failed ones say nothing about the documents.
USABLE_REPORT = "status = 'ok' and rank is not null and rank >= 0"


def entities_by_id(index: Index, ids: Sequence[str]) -> dict[str, Entity]:
    """Entities by their ids; unknown ids are left out."""
    return {r["id"]: Entity(**r) for r in index.rows(f"select {_ENTITY} from entities where id in ({marks(ids)})", ids)}


def entities(index: Index, numbers: Sequence[int]) -> list[Entity]:
    """Entities by number, in the order asked for."""
    rows = index.rows(f"select {_ENTITY} from entities where human_readable_id in ({integers(numbers)})")
    found = {r["number"]: Entity(**r) for r in rows}
    return [found[number] for number in numbers if number in found]


def entities_by_title(index: Index, titles: Sequence[str]) -> dict[str, Entity]:
    """Entities by title or by the title of an alias that was merged into them; unknown titles are left out."""
    if not titles:
        return {}
    listed = marks(titles)
    merged = index.rows(
        f"""select alias, min(title) as title from entity_aliases
            where decision = 'merged' and alias in ({listed}) group by alias""",
        titles,
    )
    canonical = {r["alias"]: r["title"] for r in merged}
    wanted = sorted({*titles, *canonical.values()})
    found = index.rows(f"select {_ENTITY} from entities where title in ({marks(wanted)}) order by number", wanted)
    by_title = {r["title"]: Entity(**r) for r in reversed(found)}
    named = {title: by_title.get(title) or by_title.get(canonical.get(title, "")) for title in titles}
    return {title: entity for title, entity in named.items() if entity}


def top_entities(index: Index, k: int) -> list[Entity]:
    """The k entities with the most relationships."""
    rows = index.rows(f"select {_ENTITY} from entities order by degree desc, number limit {int(k)}")
    return [Entity(**r) for r in rows]


def relationships_of(index: Index, entities: Sequence[int], per_entity: int) -> list[Relationship]:
    """Relationships of the selected entities, as Microsoft GraphRAG orders them.

    Those between two selected entities come first, by rank (combined degree). Then those that lead out, by the number
    of selected entities that the outside end is related to, then by rank; at most ``per_entity`` of them per entity.

    Args:
        index: The snapshot.
        entities: Numbers of the selected entities.
        per_entity: Outgoing relationships per selected entity.
    """
    if not entities:
        return []
    selected = integers(entities)
    inside = index.rows(
        f"select distinct relationship, combined_degree from entity_neighbours where entity in ({selected}) "
        f"and neighbour in ({selected})"
    )
    outside = index.rows(
        f"""with leading_out as (
                select neighbour, relationship, max(combined_degree) as rank, any_value(entity) as entity
                from entity_neighbours where entity in ({selected}) and neighbour not in ({selected})
                group by neighbour, relationship),
            linked as (select neighbour, count(distinct entity) as links from leading_out group by neighbour)
            select relationship, links from leading_out join linked using (neighbour)
            order by links desc, rank desc, relationship limit {per_entity * len(entities)}"""
    )
    links: dict[int, int | None] = {r["relationship"]: None for r in inside}
    links |= {r["relationship"]: r["links"] for r in outside}
    rows = index.rows(
        f"""select human_readable_id as number, id, source, target, description, weight, combined_degree as rank
            from relationships where human_readable_id in ({integers(list(links))})"""
    )
    titles = {e["title"] for e in index.rows(f"select title from entities where human_readable_id in ({selected})")}
    found = [Relationship(**r, links=links[r["number"]]) for r in rows]
    return sorted(
        found, key=lambda r: (r.links is not None, -(r.links or 0), -r.rank, r.source not in titles, r.number)
    )


def claims_of(index: Index, titles: Sequence[str]) -> list[Claim]:
    """Claims whose subject is one of the titles: in the order of the titles, then of the table."""
    if not titles or not index.count("covariates"):
        return []
    rows = index.rows(
        f"""select human_readable_id as number, id, subject_id as subject, object_id as object, status, start_date,
            end_date, description from covariates where subject_id in ({marks(titles)})""",
        titles,
    )
    place = {title: i for i, title in reversed(list(enumerate(titles)))}
    return sorted((Claim(**r) for r in rows), key=lambda claim: (place[claim.subject], claim.number))


def communities_of(index: Index, entities: Sequence[int], max_level: int) -> list[int]:
    """Communities of the selected entities that have a report: most selected members first, then by rank."""
    rows = index.rows(
        f"""select c.community from entity_communities c join community_reports r on r.community = c.community
            where c.entity in ({integers(entities)}) and c.level <= {int(max_level)} and {USABLE_REPORT}
            group by c.community order by count(distinct c.entity) desc, max(r.rank) desc, c.community"""
    )
    return [r["community"] for r in rows]


def text_units_of(index: Index, entities: Sequence[int]) -> list[tuple[int, int]]:
    """Text units that name the selected entities, each once, as Microsoft GraphRAG orders them.

    By the first selected entity that they name, then by how many of that entity's relationships they hold, then in the
    order of the documents.

    Returns:
        (number of the text unit, its tokens).
    """
    if not entities:
        return []
    selected = integers(entities)
    named = index.rows(f"select entity, text_unit from text_unit_entities where entity in ({selected})")
    place = {entity: i for i, entity in reversed(list(enumerate(entities)))}
    first: dict[int, int] = {}
    for row in named:
        i = place[row["entity"]]
        first[row["text_unit"]] = min(i, first.get(row["text_unit"], i))
    held = index.rows(
        f"""select n.entity, t.text_unit, count(distinct t.relationship) as relationships
            from entity_neighbours n join relationship_text_units t on t.relationship = n.relationship
            where n.entity in ({selected}) group by n.entity, t.text_unit"""
    )
    count = {(r["entity"], r["text_unit"]): r["relationships"] for r in held}
    order = sorted(first, key=lambda unit: (first[unit], -count.get((entities[first[unit]], unit), 0), unit))
    tokens = text_unit_tokens(index, order)
    return [(unit, tokens[unit]) for unit in order if unit in tokens]


def text_unit_sizes(index: Index, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """(number, tokens) of text units by id; unknown ids are left out."""
    rows = index.rows(
        f"select id, human_readable_id as number, n_tokens from text_units where id in ({marks(ids)})", ids
    )
    return {r["id"]: (r["number"], r["n_tokens"]) for r in rows}


def text_unit_tokens(index: Index, numbers: Sequence[int]) -> dict[int, int]:
    """Tokens of text units by number; unknown numbers are left out."""
    rows = index.rows(
        f"""select human_readable_id as number, n_tokens from text_units
            where human_readable_id in ({integers(numbers)})"""
    )
    return {r["number"]: r["n_tokens"] for r in rows}


def text_units(index: Index, numbers: Sequence[int]) -> list[TextUnit]:
    """Text units by number, in the order asked for."""
    rows = index.rows(f"select {_TEXT_UNIT} from text_units where human_readable_id in ({integers(numbers)})")
    found = {r["number"]: TextUnit(**r) for r in rows}
    return [found[number] for number in numbers if number in found]


def reports(index: Index, communities: Sequence[int]) -> list[Report]:
    """Usable reports by community, in the order asked for."""
    rows = index.rows(
        f"select {_REPORT} from community_reports where {USABLE_REPORT} and community in ({integers(communities)})"
    )
    found = {r["number"]: Report(**r) for r in rows}
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
