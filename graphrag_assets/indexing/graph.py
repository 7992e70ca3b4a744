"""Extracted rows of all batches to entities and relationships.

Everything here is a function of the *set* of rows: how they are ordered, split into batches or spread over threads
changes no byte of the result. Aggregates therefore state their order, and weights are summed with exact rounding.

Policy (where Microsoft GraphRAG loses or doubles rows, see each function):

* One entity per canonical title. Both ends of a relationship count as mentions, so no relationship is ever dropped for
  want of an entity.
* One relationship per unordered pair of entities. A relationship of an entity with itself, also one that comes about
  when two titles are merged, is dropped and counted; its mention of the entity stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets import ids
from graphrag_assets.indexing.relational import STRINGS, cast, tables

_TYPE_VOTES = pa.list_(pa.struct([("type", pa.string()), ("count", pa.int64())]))

#: Columns of merged entities: those of the entities table, and whether a summary is still to be written.
ENTITY_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "human_readable_id": pa.int64(),
    "title": pa.string(),
    "type": pa.string(),
    "description": pa.string(),
    "text_unit_ids": STRINGS,
    "frequency": pa.int64(),
    "degree": pa.int64(),
    "types": _TYPE_VOTES,
    "descriptions": STRINGS,
    "aliases": STRINGS,
    "needs_summary": pa.bool_(),
}

#: Columns of merged relationships: those of the relationships table, and whether a summary is still to be written.
RELATIONSHIP_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "human_readable_id": pa.int64(),
    "source": pa.string(),
    "target": pa.string(),
    "description": pa.string(),
    "weight": pa.float64(),
    "combined_degree": pa.int64(),
    "text_unit_ids": STRINGS,
    "descriptions": STRINGS,
    "needs_summary": pa.bool_(),
}


@dataclass(frozen=True)
class MergedGraph:
    """Entities and relationships of the whole corpus, in canonical order, before descriptions are summarised.

    Args:
        entities: Columns as ENTITY_COLUMNS, ordered by title. ``description`` is null where ``needs_summary``.
        relationships: Columns as RELATIONSHIP_COLUMNS, ordered by source and target.
        self_relationships: Relationship records dropped because both ends are one entity.
        weights_replaced: Records whose weight was not a finite number of at least 0; they count 1, as without a weight.
    """

    entities: pa.Table
    relationships: pa.Table
    self_relationships: int
    weights_replaced: int


def merge_graph(
    extracted_entities: pa.Table,
    extracted_relationships: pa.Table,
    text_unit_order: pa.Table,
    mapping: pa.Table | Mapping[str, str] | None = None,
) -> MergedGraph:
    """Merge extracted rows into one row per entity and one per relationship.

    Args:
        extracted_entities: Columns text_unit_id, title, type, description (more are ignored).
        extracted_relationships: Columns text_unit_id, source, target, description, weight.
        text_unit_order: Columns text_unit_id and order: the position of each text unit in the whole corpus.
        mapping: Canonical title by title, as a mapping or as a table with the columns title and canonical; titles that
            are not in it stand for themselves.

    Returns:
        The graph; degrees agree between both tables.

    Raises:
        ValueError: A row names a text unit that is not in ``text_unit_order``, or the mapping maps a title twice.
    """
    renamed = mapping_table(mapping)
    entities = merge_entities(extracted_entities, extracted_relationships, text_unit_order, renamed)
    relationships, self_relationships, replaced = merge_relationships(extracted_relationships, text_unit_order, renamed)
    entities, relationships = with_degrees(entities, relationships)
    return MergedGraph(entities, relationships, self_relationships, replaced)


def merge_entities(
    extracted_entities: pa.Table, extracted_relationships: pa.Table, text_unit_order: pa.Table, mapping: pa.Table
) -> pa.Table:
    """One row per canonical title: type by vote, all descriptions and text units of all its titles.

    The type is the one that most text units give (ties: the first in the alphabet; no type loses to any). Microsoft
    GraphRAG groups by title *and* type and then keeps one row per title, which loses the mentions of the others.

    Returns:
        Columns as ENTITY_COLUMNS; degree is 0 until :func:`with_degrees`.
    """
    with tables(
        entities=extracted_entities.select(["text_unit_id", "title", "type", "description"]),
        relationships=extracted_relationships.select(["text_unit_id", "source", "target"]),
        units=_checked_order(text_unit_order, extracted_entities, extracted_relationships),
        mapping=mapping,
    ) as db:
        db.execute(
            """
            create temp table rows as
            select coalesce(m.canonical, r.title) as title, r.title as original, r.text_unit_id, u."order" as position,
                   r.type, r.description
            from (select text_unit_id, title, type, description from entities
                  union all select text_unit_id, source, '', '' from relationships
                  union all select text_unit_id, target, '', '' from relationships) r
            join units u using (text_unit_id)
            left join mapping m on m.title = r.title
            """
        )
        merged = db.sql(
            """
            with mentions as (
                select title, list(text_unit_id order by position) as text_unit_ids, count(*) as frequency
                from (select distinct title, text_unit_id, position from rows) group by title),
            votes as (
                select title, list(struct_pack(type := type, count := count) order by count desc, type) as types
                from (select title, type, count(distinct text_unit_id) as count from rows where type <> ''
                      group by title, type)
                group by title),
            texts as (
                select title, list(description order by description) as descriptions
                from (select distinct title, description from rows where trim(description) <> '') group by title),
            others as (
                select title, list(original order by original) as aliases
                from (select distinct title, original from rows where original <> title) group by title)
            select title, coalesce(types[1].type, '') as type, text_unit_ids, frequency, coalesce(types, []) as types,
                   coalesce(descriptions, []) as descriptions, coalesce(aliases, []) as aliases
            from mentions left join votes using (title) left join texts using (title) left join others using (title)
            order by title
            """
        ).to_arrow_table()
    merged = merged.append_column("id", pa.array([ids.entity_id(t) for t in merged["title"].to_pylist()], pa.string()))
    merged = merged.append_column("degree", pa.array(np.zeros(merged.num_rows, np.int64)))
    return cast(_with_positions(_with_descriptions(merged)), ENTITY_COLUMNS)


def merge_relationships(
    extracted_relationships: pa.Table, text_unit_order: pa.Table, mapping: pa.Table
) -> tuple[pa.Table, int, int]:
    """One row per unordered pair: weights summed, descriptions and text units joined.

    The stored direction is the one in most text units, then with the greater weight, then the first in the alphabet.
    Microsoft GraphRAG keeps one row per direction and clusters with the weight of the last one.

    Returns:
        The relationships (columns as RELATIONSHIP_COLUMNS; combined_degree is 0 until :func:`with_degrees`), the number
        of records dropped because both ends are one entity, and the number of records with an unusable weight.
    """
    with tables(
        relationships=extracted_relationships.select(["text_unit_id", "source", "target", "description", "weight"]),
        units=_checked_order(text_unit_order, extracted_relationships),
        mapping=mapping,
    ) as db:
        db.execute(
            """
            create temp table rows as
            select s.source, s.target, least(s.source, s.target) as first, greatest(s.source, s.target) as second,
                   s.text_unit_id, u."order" as position, s.description, s.usable, if(s.usable, s.weight, 1.0) as weight
            from (select coalesce(a.canonical, r.source) as source, coalesce(b.canonical, r.target) as target,
                         r.text_unit_id, r.description, r.weight,
                         coalesce(isfinite(r.weight) and r.weight >= 0, false) as usable
                  from relationships r
                  left join mapping a on a.title = r.source
                  left join mapping b on b.title = r.target) s
            join units u using (text_unit_id)
            """
        )
        (counts,) = db.sql(
            "select count(*) filter (source = target), count(*) filter (not usable) from rows"
        ).fetchall()
        directed = db.sql(
            """
            select source, target, first, second, count(distinct text_unit_id) as units,
                   list(weight order by weight) as weights
            from rows where source <> target group by all order by source, target
            """
        ).to_arrow_table()
        db.register("directed", _with_sums(directed))
        merged = db.sql(
            """
            with mentions as (
                select first, second, list(text_unit_id order by position) as text_unit_ids
                from (select distinct first, second, text_unit_id, position from rows where source <> target)
                group by first, second),
            weights as (
                select first, second, list(weight order by weight) as weights from rows where source <> target
                group by first, second),
            texts as (
                select first, second, list(description order by description) as descriptions
                from (select distinct first, second, description from rows
                      where source <> target and trim(description) <> '')
                group by first, second),
            directions as (
                select first, second,
                       first(source order by units desc, weight desc, source) as source,
                       first(target order by units desc, weight desc, source) as target
                from directed group by first, second)
            select source, target, text_unit_ids, weights, coalesce(descriptions, []) as descriptions
            from mentions join weights using (first, second) join directions using (first, second)
                 left join texts using (first, second)
            order by source, target
            """
        ).to_arrow_table()
    sources, targets = merged["source"].to_pylist(), merged["target"].to_pylist()
    identities = [ids.relationship_id(s, t) for s, t in zip(sources, targets, strict=True)]
    merged = _with_sums(merged).append_column("id", pa.array(identities, pa.string()))
    merged = merged.append_column("combined_degree", pa.array(np.zeros(merged.num_rows, np.int64)))
    return cast(_with_positions(_with_descriptions(merged)), RELATIONSHIP_COLUMNS), counts[0], counts[1]


def with_degrees(entities: pa.Table, relationships: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Compute degrees, combined degrees and positions anew, as after pruning.

    Args:
        entities: Any columns, with title, in canonical order.
        relationships: Any columns, with source and target, one row per unordered pair, in canonical order.

    Returns:
        Both tables, same rows: ``degree`` (distinct neighbours), ``combined_degree`` (sum of both ends' degrees) and
        ``human_readable_id`` (position) are replaced.

    Raises:
        ValueError: A relationship names an entity that is not in ``entities``.
    """
    titles = _one_array(entities["title"])
    source = pc.index_in(relationships["source"], value_set=titles)
    target = pc.index_in(relationships["target"], value_set=titles)
    missing = pc.filter(relationships["source"], pc.is_null(source)).to_pylist()
    missing += pc.filter(relationships["target"], pc.is_null(target)).to_pylist()
    if missing:
        raise ValueError(f"{len(missing)} ends of relationships are not entities, such as {sorted(set(missing))[:5]}")
    a, b = source.to_numpy().astype(np.int64), target.to_numpy().astype(np.int64)
    degree = np.bincount(a, minlength=len(titles)) + np.bincount(b, minlength=len(titles))
    entities = _with_positions(_replace(entities, "degree", pa.array(degree.astype(np.int64))))
    combined = pa.array((degree[a] + degree[b]).astype(np.int64))
    return entities, _with_positions(_replace(relationships, "combined_degree", combined))


def mapping_table(mapping: pa.Table | Mapping[str, str] | None) -> pa.Table:
    """Canonical title by title as a table with the columns title and canonical.

    Raises:
        ValueError: A title is mapped twice.
    """
    if not isinstance(mapping, pa.Table):
        rows = mapping or {}
        return pa.table(
            {"title": pa.array(list(rows), pa.string()), "canonical": pa.array(list(rows.values()), pa.string())}
        )
    if pc.count_distinct(mapping["title"]).as_py() != mapping.num_rows:
        raise ValueError("the mapping of titles maps a title twice; each title has one canonical title")
    return mapping.select(["title", "canonical"])


def _checked_order(text_unit_order: pa.Table, *extracted: pa.Table) -> pa.Table:
    """The order of text units, after making sure that it knows every text unit of the rows."""
    known = _one_array(text_unit_order["text_unit_id"])
    for rows in extracted:
        named = pc.unique(rows["text_unit_id"])
        unknown = named.filter(pc.invert(pc.is_in(named, value_set=known))).to_pylist()
        if unknown:
            raise ValueError(
                f"extracted rows name {len(unknown)} text units that do not exist, such as {sorted(unknown)[:3]}; "
                "drop the rows of removed text units before merging"
            )
    return text_unit_order.select(["text_unit_id", "order"])


def _with_sums(table: pa.Table) -> pa.Table:
    """Replace the list column ``weights`` by its exactly rounded sum ``weight``, which no order can change."""
    lists = _one_array(table["weights"])
    offsets = lists.offsets.to_numpy()
    values = lists.values.to_numpy(zero_copy_only=False)
    sums = values[offsets[:-1]].astype(np.float64) if len(values) else np.zeros(len(lists))
    for row in np.flatnonzero(np.diff(offsets) > 1):
        sums[row] = math.fsum(values[offsets[row] : offsets[row + 1]])
    return table.drop_columns(["weights"]).append_column("weight", pa.array(sums, pa.float64()))


def _with_descriptions(table: pa.Table) -> pa.Table:
    """Add ``description`` (the only one, empty without any, null where several need a summary), ``needs_summary``."""
    lists = _one_array(table["descriptions"])
    lengths = pc.list_value_length(lists)
    several, single = pc.greater(lengths, 1), pc.equal(lengths, 1)
    description = np.full(len(lists), "", dtype=object)
    description[several.to_numpy(zero_copy_only=False)] = None
    offsets = lists.offsets.to_numpy()[:-1]
    rows = np.flatnonzero(single.to_numpy(zero_copy_only=False))
    description[rows] = lists.values.take(pa.array(offsets[rows])).to_numpy(zero_copy_only=False)
    table = table.append_column("description", pa.array(description, pa.string()))
    return table.append_column("needs_summary", several)


def _with_positions(table: pa.Table) -> pa.Table:
    return _replace(table, "human_readable_id", pa.array(np.arange(table.num_rows, dtype=np.int64)))


def _replace(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.append_column(name, column) if index < 0 else table.set_column(index, name, column)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
