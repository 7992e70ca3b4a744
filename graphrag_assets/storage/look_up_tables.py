"""Contracts of the published tables that serve look-ups: narrow link tables and the full-text index.

They follow from the other tables of a snapshot (:mod:`graphrag_assets.indexing.look_ups`).
"""

from __future__ import annotations

import pyarrow as pa

from graphrag_assets.storage.contract import Column, Table

# --- narrow link tables of a snapshot: integer keys, sorted by the looked-up side ------------------------------------

_INT = pa.int32()
TEXT_UNIT_ENTITIES = Table(
    "text_unit_entities",
    "One pair of an entity and a text unit that names it.",
    (
        Column("text_unit", _INT, "human_readable_id of the text unit."),
        Column("entity", _INT, "human_readable_id of the entity."),
        Column("relationships", _INT, "Relationships of the entity that were read from the text unit."),
    ),
    order=("entity", "text_unit"),
    row_group_size=1_024,
    keys=("entity",),
    fetched=("text_unit", "relationships"),
)
ENTITIES_IN_TEXT_UNITS = Table(
    "entities_in_text_units",
    "One pair of a text unit and an entity that it names: text_unit_entities from the other side.",
    (
        Column("text_unit", _INT, "human_readable_id of the text unit."),
        Column("entity", _INT, "human_readable_id of the entity."),
    ),
    order=("text_unit", "entity"),
    row_group_size=1_024,
    keys=("text_unit",),
    fetched=("entity",),
)
ENTITY_NEIGHBOURS = Table(
    "entity_neighbours",
    "One end of a relationship: every relationship appears twice, once for each end.",
    (
        Column("entity", _INT, "human_readable_id of the entity looked up."),
        Column("neighbour", _INT, "human_readable_id of the entity at the other end."),
        Column("relationship", _INT, "human_readable_id of the relationship."),
        Column("combined_degree", pa.int64(), "Rank of the relationship."),
        Column("weight", pa.float64(), "Weight of the relationship."),
    ),
    order=("entity", "-combined_degree", "relationship"),
    row_group_size=1_024,
    keys=("entity",),
    fetched=("neighbour", "relationship", "combined_degree", "weight"),
)
ENTITY_COMMUNITIES = Table(
    "entity_communities",
    "One membership of an entity in a community.",
    (
        Column("entity", _INT, "human_readable_id of the entity."),
        Column("community", _INT, "Number of the community."),
        Column("level", _INT, "Its level."),
    ),
    order=("entity", "level"),
    row_group_size=1_024,
    keys=("entity",),
    fetched=("community", "level"),
)
ENTITY_CLAIMS = Table(
    "entity_claims",
    "One claim about an entity.",
    (
        Column("entity", _INT, "human_readable_id of the entity that is the subject."),
        Column("claim", _INT, "human_readable_id of the claim."),
    ),
    order=("entity", "claim"),
    row_group_size=1_024,
    keys=("entity",),
    fetched=("claim",),
)
RELATIONSHIP_TEXT_UNITS = Table(
    "relationship_text_units",
    "One pair of a relationship and a text unit it was read from.",
    (
        Column("relationship", _INT, "human_readable_id of the relationship."),
        Column("text_unit", _INT, "human_readable_id of the text unit."),
    ),
    order=("relationship", "text_unit"),
    row_group_size=1_024,
    keys=("relationship",),
    fetched=("text_unit",),
)
COMMUNITY_OCCURRENCES = Table(
    "community_occurrences",
    "One community and how much of the text its members occur in.",
    (
        Column("community", _INT, "Number of the community."),
        Column("text_units", _INT, "Number of text units that name any of its members."),
    ),
    order=("community",),
    keys=("community",),
    fetched=("text_units",),
)
ROW_NUMBERS = Table(
    "row_numbers",
    "The number of one row that has a vector, by its id.",
    (
        Column("id", pa.string(), "Id of the row."),
        Column("table", pa.string(), "Its table: text_units, entities or community_reports."),
        Column("number", _INT, "Its human_readable_id."),
    ),
    order=("id", "table"),
    row_group_size=512,
    keys=("id",),
    fetched=("table", "number"),
)

# --- the full-text index of a snapshot -------------------------------------------------------------------------------

TERMS = Table(
    "terms",
    "One term (a word in lower case, or two neighbouring characters of a script without blanks) of the text units.",
    (
        Column("plain", pa.string(), "The term without accents, by which it is looked up."),
        Column("term", pa.string(), "The term; the empty one stands before every character."),
        Column("text_units", _INT, "Number of text units that hold it."),
        Column("first", pa.int64(), "Place of its first row in postings, from 0; the others follow."),
    ),
    order=("plain", "term"),
    row_group_size=256,
    keys=("plain",),
    fetched=("term", "text_units", "first"),
)
POSTINGS = Table(
    "postings",
    "One text unit that holds a term: the rows of a term lie together, where the table of terms says.",
    (
        Column("text_unit", _INT, "human_readable_id of the text unit."),
        Column("count", _INT, "How often it holds the term; for the empty term its length in characters."),
    ),
    order=("term", "text_unit"),
    row_group_size=8_192,
    rising=("text_unit", "count"),
)
