"""What is known of each extracted title: its type, how often it is named, what is said of it, in which documents."""

from __future__ import annotations

import pyarrow as pa

from graphrag_assets.indexing.relational import STRINGS, cast, tables

#: Descriptions kept per title: enough to show a model, and to tell a he from a she.
MOST_DESCRIPTIONS = 5

PROFILE_COLUMNS: dict[str, pa.DataType] = {
    "title": pa.string(),
    "type": pa.string(),
    "votes": pa.int64(),
    "frequency": pa.int64(),
    "descriptions": STRINGS,
    "documents": pa.list_(pa.int64()),
}


def title_profiles(
    extracted_entities: pa.Table, extracted_relationships: pa.Table, text_unit_documents: pa.Table
) -> pa.Table:
    """Gather what all batches say of each title.

    Args:
        extracted_entities: Columns text_unit_id, title, type, description.
        extracted_relationships: Columns text_unit_id, source, target; both ends are mentions.
        text_unit_documents: Columns text_unit_id and document_id.

    Returns:
        One row per title, sorted by it: ``type`` with the most text units (ties alphabetical, empty where none gave
        one) and these ``votes``; ``frequency`` in text units; the first ``descriptions`` in the alphabet; ``documents``
        as numbers in the order of document ids, ascending.
    """
    with tables(
        entities=extracted_entities.select(["text_unit_id", "title", "type", "description"]),
        relationships=extracted_relationships.select(["text_unit_id", "source", "target"]),
        units=text_unit_documents.select(["text_unit_id", "document_id"]),
    ) as db:
        profiles = db.sql(
            f"""
            with numbered as (select text_unit_id, dense_rank() over (order by document_id) as document from units),
            mentions as (
                select distinct title, text_unit_id, document
                from (select title, text_unit_id from entities
                      union all select source, text_unit_id from relationships
                      union all select target, text_unit_id from relationships) join numbered using (text_unit_id)),
            counted as (
                select title, count(*) as frequency, list_sort(list_distinct(list(document))) as documents
                from mentions group by title),
            votes as (
                select title, type, count(distinct text_unit_id) as votes from entities where type <> ''
                group by title, type),
            types as (
                select title, first(type order by votes desc, type) as type, max(votes) as votes from votes
                group by title),
            texts as (
                select title, list(description order by description)[:{MOST_DESCRIPTIONS}] as descriptions
                from (select distinct title, description from entities where trim(description) <> '') group by title)
            select title, coalesce(type, '') as type, coalesce(votes, 0) as votes, frequency,
                   coalesce(descriptions, []) as descriptions, documents
            from counted left join types using (title) left join texts using (title)
            order by title
            """  # noqa: S608 - the only value put in is a constant of this module
        ).to_arrow_table()
    return cast(profiles, PROFILE_COLUMNS)
