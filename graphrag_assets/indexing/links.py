"""What belongs to what: claims to entities, records to text units, and the narrow link tables that serve reads."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from graphrag_assets import ids
from graphrag_assets.indexing.graph import mapping_table
from graphrag_assets.indexing.relational import STRINGS, cast, tables

_CLAIM_FIELDS = ("type", "description", "subject_id", "object_id", "status", "start_date", "end_date", "source_text")

#: Columns of the covariates table.
COVARIATE_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "human_readable_id": pa.int64(),
    "covariate_type": pa.string(),
    **dict.fromkeys(_CLAIM_FIELDS, pa.string()),
    "text_unit_id": pa.string(),
}

_LINKS: dict[str, dict[str, pa.DataType]] = {
    "text_unit_entities": {"text_unit": pa.int32(), "entity": pa.int32(), "relationships": pa.int32()},
    "entities_in_text_units": {"text_unit": pa.int32(), "entity": pa.int32()},
    "entity_neighbours": {
        "entity": pa.int32(),
        "neighbour": pa.int32(),
        "relationship": pa.int32(),
        "combined_degree": pa.int64(),
        "weight": pa.float64(),
    },
    "entity_communities": {"entity": pa.int32(), "community": pa.int32(), "level": pa.int32()},
    "entity_claims": {"entity": pa.int32(), "claim": pa.int32()},
    "community_occurrences": {"community": pa.int32(), "text_units": pa.int32()},
    "relationship_text_units": {"relationship": pa.int32(), "text_unit": pa.int32()},
}


def link_covariates(
    extracted_claims: pa.Table, text_unit_order: pa.Table, mapping: pa.Table | Mapping[str, str] | None = None
) -> pa.Table:
    """Claims of all batches, with the canonical titles of what they speak of.

    Args:
        extracted_claims: Columns text_unit_id, subject, object, type, status, start_date, end_date, description and
            source_text.
        text_unit_order: Columns text_unit_id and order.
        mapping: Canonical title by title.

    Returns:
        Columns as COVARIATE_COLUMNS, each claim once, in the order of text units, then of all other fields.
    """
    with tables(claims=extracted_claims, units=text_unit_order, mapping=mapping_table(mapping)) as db:
        rows = db.sql(
            """
            select distinct u."order" as position, c.text_unit_id, coalesce(s.canonical, c.subject) as subject_id,
                   coalesce(o.canonical, c.object) as object_id, c.type, c.status, c.start_date, c.end_date,
                   c.description, c.source_text, 'claim' as covariate_type
            from claims c join units u using (text_unit_id)
            left join mapping s on s.title = c.subject
            left join mapping o on o.title = c.object
            order by position, subject_id, object_id, c.type, c.status, c.start_date, c.end_date, c.description,
                     c.source_text
            """
        ).to_arrow_table()
    fields = [rows[name].to_pylist() for name in ("text_unit_id", *_CLAIM_FIELDS)]
    identities = [ids.covariate_id(*values) for values in zip(*fields, strict=True)]
    rows = rows.append_column("id", pa.array(identities, pa.string()))
    rows = rows.append_column("human_readable_id", pa.array(range(rows.num_rows), pa.int64()))
    return cast(rows, COVARIATE_COLUMNS)


def text_unit_links(
    text_unit_order: pa.Table, entities: pa.Table, relationships: pa.Table, covariates: pa.Table | None = None
) -> pa.Table:
    """What was found in each text unit.

    Args:
        text_unit_order: Columns text_unit_id and order.
        entities: Columns id, human_readable_id, text_unit_ids.
        relationships: Columns id, human_readable_id, text_unit_ids.
        covariates: Columns id, human_readable_id, text_unit_id; None where claims are off.

    Returns:
        One row per text unit, in their order: text_unit_id, entity_ids, relationship_ids, covariate_ids; each list in
        the order of its table, empty where nothing was found.
    """
    columns = ["id", "human_readable_id", "text_unit_ids"]
    claims = (
        covariates if covariates is not None else pa.table({n: pa.array([], t) for n, t in COVARIATE_COLUMNS.items()})
    )
    with tables(
        units=text_unit_order.select(["text_unit_id", "order"]),
        entities=entities.select(columns),
        relationships=relationships.select(columns),
        claims=claims.select(["id", "human_readable_id", "text_unit_id"]),
    ) as db:
        rows = db.sql(
            """
            with e as (
                select text_unit_id, list(id order by human_readable_id) as entity_ids
                from (select id, human_readable_id, unnest(text_unit_ids) as text_unit_id from entities)
                group by text_unit_id),
            r as (
                select text_unit_id, list(id order by human_readable_id) as relationship_ids
                from (select id, human_readable_id, unnest(text_unit_ids) as text_unit_id from relationships)
                group by text_unit_id),
            c as (
                select text_unit_id, list(id order by human_readable_id) as covariate_ids from claims
                group by text_unit_id)
            select text_unit_id, coalesce(entity_ids, []) as entity_ids,
                   coalesce(relationship_ids, []) as relationship_ids, coalesce(covariate_ids, []) as covariate_ids
            from units left join e using (text_unit_id) left join r using (text_unit_id)
                       left join c using (text_unit_id)
            order by units."order"
            """
        ).to_arrow_table()
    return cast(
        rows,
        {"text_unit_id": pa.string(), "entity_ids": STRINGS, "relationship_ids": STRINGS, "covariate_ids": STRINGS},
    )


def link_tables(
    text_units: pa.Table,
    entities: pa.Table,
    relationships: pa.Table,
    communities: pa.Table,
    covariates: pa.Table,
) -> dict[str, pa.Table]:
    """The narrow tables with integer keys that serve look-ups, which through lists cost seconds at a million rows.

    Args:
        text_units: Columns id, human_readable_id.
        entities: Columns id, human_readable_id, title, text_unit_ids.
        relationships: Columns human_readable_id, source, target, weight, combined_degree, text_unit_ids.
        communities: Columns community, level, entity_ids.
        covariates: Columns human_readable_id, subject_id.

    Returns:
        text_unit_entities, entities_in_text_units, entity_neighbours, entity_communities, entity_claims, community_occurrences and
        relationship_text_units, each in canonical order.
    """
    queries = {
        "text_unit_entities": """
            with held as (
                select end_title as title, id, count(*) as relationships
                from (select unnest([source, target]) as end_title, text_unit_ids from relationships),
                     unnest(text_unit_ids) as units(id) group by all)
            select u.human_readable_id as text_unit, e.entity, coalesce(h.relationships, 0) as relationships
            from (select human_readable_id as entity, title, unnest(text_unit_ids) as id from entities) e
            join text_units u using (id) left join held h using (title, id) order by entity, text_unit""",
        "entities_in_text_units": """
            select u.human_readable_id as text_unit, e.entity
            from (select human_readable_id as entity, unnest(text_unit_ids) as id from entities) e
            join text_units u using (id) order by text_unit, entity""",
        "entity_neighbours": """
            with ends as (
                select s.human_readable_id as source, t.human_readable_id as target,
                       r.human_readable_id as relationship, r.combined_degree, r.weight
                from relationships r join entities s on s.title = r.source join entities t on t.title = r.target)
            select source as entity, target as neighbour, relationship, combined_degree, weight from ends
            union all select target, source, relationship, combined_degree, weight from ends
            order by entity, combined_degree desc, relationship""",
        "entity_communities": """
            select e.human_readable_id as entity, c.community, c.level
            from (select community, level, unnest(entity_ids) as id from communities) c
            join entities e using (id) order by entity, level, community""",
        "entity_claims": """
            select e.human_readable_id as entity, c.human_readable_id as claim
            from covariates c join entities e on e.title = c.subject_id order by entity, claim""",
        "community_occurrences": """
            select c.community, count(distinct u.id) as text_units
            from (select community, unnest(entity_ids) as id from communities) c join entities e on e.id = c.id,
                 unnest(e.text_unit_ids) as named(unit) join text_units u on u.id = named.unit
            group by c.community order by c.community""",
        "relationship_text_units": """
            select r.relationship, u.human_readable_id as text_unit
            from (select human_readable_id as relationship, unnest(text_unit_ids) as id from relationships) r
            join text_units u using (id) order by relationship, text_unit""",
    }
    with tables(
        text_units=text_units.select(["id", "human_readable_id"]),
        entities=entities.select(["id", "human_readable_id", "title", "text_unit_ids"]),
        relationships=relationships.select(
            ["human_readable_id", "source", "target", "weight", "combined_degree", "text_unit_ids"]
        ),
        communities=communities.select(["community", "level", "entity_ids"]),
        covariates=covariates.select(["human_readable_id", "subject_id"]),
    ) as db:
        return {name: cast(db.sql(query).to_arrow_table(), _LINKS[name]) for name, query in queries.items()}


def row_numbers(text_units: pa.Table, entities: pa.Table, community_reports: pa.Table) -> pa.Table:
    """The numbers of rows that have vectors, by id: a search by vector finds ids.

    Args:
        text_units: Columns id, human_readable_id.
        entities: The same.
        community_reports: The same.

    Returns:
        Table row_numbers in canonical order.
    """
    named = {"text_units": text_units, "entities": entities, "community_reports": community_reports}
    parts = [
        pa.table(
            {
                "id": rows["id"],
                "table": pa.repeat(pa.scalar(name), rows.num_rows),
                "number": rows["human_readable_id"].cast(pa.int32()),
            }
        )
        for name, rows in named.items()
    ]
    return pa.concat_tables(parts).sort_by([("id", "ascending"), ("table", "ascending")])
