"""Every table of the index, declared once: columns, types, meaning, canonical order.

The published tables follow the version 3 schema of Microsoft GraphRAG (names, columns, types and meaning), so that its
query code reads ours and ours reads its tables. Columns of our own stand at the end of a table.

IO managers cast and check against these contracts on write (:meth:`Table.conform`); asset metadata, the documentation
and the SQL views are derived from them.
"""

from __future__ import annotations

import pyarrow as pa

from graphrag_assets.storage.contract import Column, Table
from graphrag_assets.storage.look_up_tables import (
    COMMUNITY_OCCURRENCES,
    ENTITIES_IN_TEXT_UNITS,
    ENTITY_CLAIMS,
    ENTITY_COMMUNITIES,
    ENTITY_NEIGHBOURS,
    POSTINGS,
    RELATIONSHIP_TEXT_UNITS,
    ROW_NUMBERS,
    TERMS,
    TEXT_UNIT_ENTITIES,
)

STRINGS = pa.list_(pa.string())
INTEGERS = pa.list_(pa.int64())
FINDINGS = pa.list_(pa.struct([("explanation", pa.string()), ("summary", pa.string())]))
TYPE_VOTES = pa.list_(pa.struct([("type", pa.string()), ("count", pa.int64())]))


def _c(name: str, type_: pa.DataType, description: str, nullable: bool = False) -> Column:
    return Column(name, type_, description, nullable)


_ID = "Derived from content; equal input gives equal ids."
_HUMAN_ID = "Position of the row in the canonical order, from 0."
_TEXT_UNIT_IDS = "Text units it was read from, each once, in the order of documents and positions."

# --- what the input holds --------------------------------------------------------------------------------------------

INPUT_INVENTORY = Table(
    "input_inventory",
    "One document found in the input, with its batch and the hash of its content.",
    (
        _c("document_id", pa.string(), "Id of the document: derived from its logical path."),
        _c("path", pa.string(), "Logical path: file path relative to the input, plus #row for structured files."),
        _c("file", pa.string(), "Path of the file relative to the input."),
        _c("row", pa.int64(), "0-based row inside a structured file; null where the file is one document.", True),
        _c("batch", pa.string(), "Document batch (partition) that holds the document."),
        _c("content_hash", pa.string(), "Hash of text, title and metadata: the version of the document."),
        _c("characters", pa.int64(), "Length of the text in characters."),
        _c("bytes", pa.int64(), "Length of the text in UTF-8 bytes."),
        _c("language", pa.string(), "Language as set, or as the text is evidence for (ISO 639-1); empty when unsure."),
    ),
    order=("path",),
)

INPUT_FILES = Table(
    "input_files",
    "One file of the input as it was last seen: tells cheaply whether it changed since.",
    (
        _c("file", pa.string(), "Path relative to the input."),
        _c("size", pa.int64(), "Size in bytes."),
        _c("modified", pa.float64(), "Time of modification, seconds since 1970-01-01 UTC."),
        _c(
            "etag",
            pa.string(),
            "Entity tag of the object store; for what is no file that can be read, why; else empty.",
        ),
        _c("content_hash", pa.string(), "SHA-256 of the bytes."),
        _c("encoding", pa.string(), "Text encoding that was declared or detected; empty for binary formats."),
        _c("documents", pa.int64(), "Documents read from the file."),
    ),
    order=("file",),
)

REJECTED_INPUTS = Table(
    "rejected_inputs",
    "One file, row or page that could not be used, and why.",
    (
        _c("file", pa.string(), "Path relative to the input."),
        _c(
            "location", pa.string(), "Place in the file, such as 'line 6', 'row 2', 'page 3'; empty for the whole file."
        ),
        _c(
            "reason",
            pa.string(),
            "Short reason code, such as empty, binary, encoding, no_text_column, broken, too_large, link_outside.",
        ),
        _c("detail", pa.string(), "What was found, what was expected, and how to mend it."),
    ),
    order=("file", "location", "reason", "detail"),
)

# --- documents and text units ----------------------------------------------------------------------------------------

_DOCUMENT_COLUMNS = (
    _c("id", pa.string(), f"Document id. {_ID}"),
    _c("human_readable_id", pa.int64(), _HUMAN_ID),
    _c("title", pa.string(), "Title: from the title column, the document's own metadata, or the file name."),
    _c("text", pa.string(), "Full text, line ends normalised to LF."),
    _c("text_unit_ids", STRINGS, "Text units of the document in their order."),
    _c("creation_date", pa.string(), "Date from the document's own metadata; empty when it states none."),
    _c("raw_data", pa.string(), "Metadata columns as a JSON object; null when there are none.", True),
    _c("path", pa.string(), "Logical path: file path relative to the input, plus #row for structured files."),
    _c("content_hash", pa.string(), "Hash of text, title and metadata: the version of the document."),
    _c(
        "language",
        pa.string(),
        "Language (ISO 639-1): as set, else detected, else that of most documents; empty when unsure.",
    ),
)
DOCUMENTS = Table("documents", "One document.", _DOCUMENT_COLUMNS, order=("path",), row_group_size=1_024)

BATCH_DOCUMENTS = Table(
    "batch_documents",
    "One document of a batch, before its text units are known.",
    tuple(c for c in _DOCUMENT_COLUMNS if c.name not in {"human_readable_id", "text_unit_ids"}),
    order=("path",),
    row_group_size=1_024,
)

_TEXT_UNIT_COLUMNS = (
    _c("id", pa.string(), "Text unit id: from document id, text, and which occurrence of that text it is."),
    _c("human_readable_id", pa.int64(), _HUMAN_ID),
    _c("text", pa.string(), "Text of the unit, with prepended metadata where the settings ask for it."),
    _c("n_tokens", pa.int64(), "Tokens of the text."),
    _c("document_id", pa.string(), "Document it belongs to."),
    _c("entity_ids", STRINGS, "Entities found in it, in the order of the entities table."),
    _c("relationship_ids", STRINGS, "Relationships found in it, in the order of the relationships table."),
    _c("covariate_ids", STRINGS, "Claims found in it, in the order of the covariates table."),
    _c("position", pa.int64(), "0-based position among the text units of its document."),
    _c("start", pa.int64(), "First character in the document text."),
    _c("end", pa.int64(), "Character after the last one in the document text."),
    _c("status", pa.string(), "ok, empty (read, and nothing found in it), or failed, truncated, refused."),
    _c("reason", pa.string(), "Why the status is not ok; else empty."),
)
TEXT_UNITS = Table(
    "text_units",
    "One text unit (chunk) of a document.",
    _TEXT_UNIT_COLUMNS,
    order=("document", "position"),
    row_group_size=128,
    keys=("human_readable_id",),
    fetched=("id", "text", "n_tokens", "document_id", "start", "end"),
)

BATCH_TEXT_UNITS = Table(
    "batch_text_units",
    "One text unit of a batch, before anything is extracted from it.",
    tuple(
        c
        for c in _TEXT_UNIT_COLUMNS
        if c.name not in {"human_readable_id", "entity_ids", "relationship_ids", "covariate_ids", "status", "reason"}
    ),
    order=("document", "position"),
    row_group_size=2_048,
)

# --- what one batch's text says --------------------------------------------------------------------------------------

EXTRACTED_ENTITIES = Table(
    "extracted_entities",
    "One distinct mention record of an entity in a text unit.",
    (
        _c("text_unit_id", pa.string(), "Text unit it was read from."),
        _c("title", pa.string(), "Canonical title: normalised, upper-cased name."),
        _c("name", pa.string(), "Name as written."),
        _c("type", pa.string(), "Upper-cased type; empty when the entity is only named as an end of a relationship."),
        _c("description", pa.string(), "Description from this text unit; may be empty."),
        _c("mentions", pa.int64(), "How often the text unit names it (at least 1)."),
    ),
    order=("text_unit", "title", "type", "description"),
)

EXTRACTED_RELATIONSHIPS = Table(
    "extracted_relationships",
    "One distinct relationship record in a text unit.",
    (
        _c("text_unit_id", pa.string(), "Text unit it was read from."),
        _c("source", pa.string(), "Canonical title of the source entity."),
        _c("target", pa.string(), "Canonical title of the target entity."),
        _c("description", pa.string(), "Description from this text unit; may be empty."),
        _c("weight", pa.float64(), "Strength, summed over equal records of the text unit."),
    ),
    order=("text_unit", "source", "target", "description"),
)

EXTRACTED_CLAIMS = Table(
    "extracted_claims",
    "One claim read from a text unit.",
    (
        _c("text_unit_id", pa.string(), "Text unit it was read from."),
        _c("subject", pa.string(), "Canonical title of the subject."),
        _c("object", pa.string(), "Canonical title of the object, or NONE."),
        _c("type", pa.string(), "Upper-cased claim type."),
        _c("status", pa.string(), "TRUE, FALSE or SUSPECTED."),
        _c("start_date", pa.string(), "ISO 8601 date, or NONE."),
        _c("end_date", pa.string(), "ISO 8601 date, or NONE."),
        _c("description", pa.string(), "The claim in words."),
        _c("source_text", pa.string(), "Quotes that carry the claim."),
    ),
    order=("text_unit", "subject", "object", "type", "status", "start_date", "end_date", "description", "source_text"),
)

EXTRACTION_STATUS = Table(
    "extraction_status",
    "One text unit and how its extraction went.",
    (
        _c("text_unit_id", pa.string(), "Text unit."),
        _c("status", pa.string(), "ok, empty (read, and nothing found in it), or failed, truncated, refused."),
        _c("reason", pa.string(), "Why the status is not ok; else empty."),
        _c("entities", pa.int64(), "Distinct entities found."),
        _c("relationships", pa.int64(), "Distinct relationships found."),
        _c("claims", pa.int64(), "Claims found."),
        _c(
            "input_hash",
            pa.string(),
            "Hash of its text and of all that its extraction is made with: equal hash, equal rows.",
        ),
    ),
    order=("text_unit",),
)

# --- the graph of the whole corpus -----------------------------------------------------------------------------------

ENTITY_ALIASES = Table(
    "entity_aliases",
    "One title that was merged into another entity, or kept apart from it, with the evidence.",
    (
        _c("alias", pa.string(), "Title as extracted."),
        _c(
            "title",
            pa.string(),
            "Title of the entity it was judged against (the merged entity, where decision is merged).",
        ),
        _c("decision", pa.string(), "merged or separate."),
        _c(
            "method",
            pa.string(),
            "Rule that decided, such as case, legal_suffix, honorific, initials, surname, spelling, llm, override.",
        ),
        _c("score", pa.float64(), "Certainty from 0 to 1."),
        _c("evidence", pa.string(), "What the decision rests on, in words."),
    ),
    order=("alias", "title"),
    row_group_size=1_024,
    keys=("alias",),
    fetched=("title", "decision"),
)

ENTITIES = Table(
    "entities",
    "One entity: one row per canonical title.",
    (
        _c("id", pa.string(), f"Entity id, from the canonical title. {_ID}"),
        _c("human_readable_id", pa.int64(), _HUMAN_ID),
        _c("title", pa.string(), "Canonical title, upper-cased."),
        _c("type", pa.string(), "Type with the most votes; empty when no text gave one."),
        _c("description", pa.string(), "Description, summarised where there is more than one."),
        _c("text_unit_ids", STRINGS, _TEXT_UNIT_IDS),
        _c("frequency", pa.int64(), "Number of distinct text units that name it."),
        _c("degree", pa.int64(), "Number of distinct entities it has a relationship with."),
        _c("types", TYPE_VOTES, "All types seen, with the number of text units that gave them."),
        _c("descriptions", STRINGS, "All distinct descriptions, sorted."),
        _c("aliases", STRINGS, "Other titles that were merged into it, sorted."),
    ),
    order=("title",),
    row_group_size=128,
    keys=("human_readable_id", "title"),
    fetched=("id", "type", "description", "degree"),
)

RELATIONSHIPS = Table(
    "relationships",
    "One relationship: one row per unordered pair of entities.",
    (
        _c("id", pa.string(), f"Relationship id, from the unordered pair of titles. {_ID}"),
        _c("human_readable_id", pa.int64(), _HUMAN_ID),
        _c("source", pa.string(), "Title of the source entity, in the direction most often seen."),
        _c("target", pa.string(), "Title of the target entity."),
        _c("description", pa.string(), "Description, summarised where there is more than one."),
        _c("weight", pa.float64(), "Sum of the strengths of all mentions (standard), or normalised PMI (fast)."),
        _c("combined_degree", pa.int64(), "Degree of source plus degree of target."),
        _c("text_unit_ids", STRINGS, _TEXT_UNIT_IDS),
        _c("descriptions", STRINGS, "All distinct descriptions, sorted."),
    ),
    order=("source", "target"),
    row_group_size=256,
    keys=("human_readable_id",),
    fetched=("id", "source", "target", "description", "weight", "combined_degree"),
)

COVARIATES = Table(
    "covariates",
    "One claim about an entity.",
    (
        _c("id", pa.string(), f"Claim id, from all of its content and its text unit. {_ID}"),
        _c("human_readable_id", pa.int64(), _HUMAN_ID),
        _c("covariate_type", pa.string(), "Always claim."),
        _c("type", pa.string(), "Upper-cased claim type."),
        _c("description", pa.string(), "The claim in words."),
        _c("subject_id", pa.string(), "Title of the subject; an entity title wherever the entity is known."),
        _c("object_id", pa.string(), "Title of the object, or NONE."),
        _c("status", pa.string(), "TRUE, FALSE or SUSPECTED."),
        _c("start_date", pa.string(), "ISO 8601 date, or NONE."),
        _c("end_date", pa.string(), "ISO 8601 date, or NONE."),
        _c("source_text", pa.string(), "Quotes that carry the claim."),
        _c("text_unit_id", pa.string(), "Text unit it was read from."),
    ),
    order=("text_unit", "subject_id", "object_id", "type"),
    row_group_size=256,
    keys=("human_readable_id",),
    fetched=("id", "description", "subject_id", "object_id", "status", "start_date", "end_date", "text_unit_id"),
)

COMMUNITIES = Table(
    "communities",
    "One community at one level of the hierarchy.",
    (
        _c("id", pa.string(), f"Community id, from level and members. {_ID}"),
        _c("human_readable_id", pa.int64(), "Equal to community."),
        _c(
            "community",
            pa.int64(),
            "Number of the community, consecutive from 0 over all levels, coarsest level first.",
        ),
        _c("level", pa.int64(), "Level; 0 is the coarsest."),
        _c("parent", pa.int64(), "Number of the parent community; -1 at level 0."),
        _c("children", INTEGERS, "Numbers of the child communities, ascending; empty for a leaf."),
        _c("title", pa.string(), "'Community <number>'."),
        _c("entity_ids", STRINGS, "Members, in the order of the entities table."),
        _c("relationship_ids", STRINGS, "Relationships with both ends inside, sorted."),
        _c("text_unit_ids", STRINGS, "Text units of its members and relationships, sorted."),
        _c("period", pa.string(), "Span of the dates its documents state, 'from/to'; empty when they state none."),
        _c("size", pa.int64(), "Number of members."),
    ),
    order=("level", "community"),
)

COMMUNITY_REPORTS = Table(
    "community_reports",
    "The written report of one community.",
    (
        _c("id", pa.string(), "Report id, from the community id and the content it was written from."),
        _c("human_readable_id", pa.int64(), "Equal to community."),
        _c("community", pa.int64(), "Number of the community."),
        _c("level", pa.int64(), "Level of the community."),
        _c("parent", pa.int64(), "Number of the parent community; -1 at level 0."),
        _c("children", INTEGERS, "Numbers of the child communities."),
        _c("title", pa.string(), "Title of the report."),
        _c("summary", pa.string(), "Summary of the report."),
        _c("full_content", pa.string(), "The whole report as Markdown."),
        _c("rank", pa.float64(), "Importance from 0 to 10."),
        _c("rating_explanation", pa.string(), "Why it has this rank."),
        _c("findings", FINDINGS, "Findings: a summary and an explanation with citations each."),
        _c("full_content_json", pa.string(), "The report as JSON."),
        _c("period", pa.string(), "Period of the community."),
        _c("size", pa.int64(), "Number of members."),
        _c("status", pa.string(), "ok, or failed (then the report is a stand-in that says so and lists the members)."),
        _c("reason", pa.string(), "Why the status is not ok; else empty."),
        _c(
            "extractive",
            pa.bool_(),
            "True where the report was put together from sentences of the sources, without an LLM.",
        ),
        _c("input_hash", pa.string(), "Hash of what the report was written from."),
    ),
    order=("-level", "community"),
    row_group_size=64,
    keys=("community",),
    fetched=("id", "level", "title", "full_content", "rank", "status"),
)


def embeddings_table(name: str, dimension: int) -> Table:
    """Contract of a vector table: id, window, vector (float32, unit length) and the hash of the embedded text."""
    return Table(
        name,
        "The vector of one row, or of one window of a long one.",
        (
            _c("id", pa.string(), "Id of the row that was embedded."),
            _c("window", pa.int32(), "0, or the number of the window of a text that is embedded in several."),
            _c("vector", pa.list_(pa.float32(), dimension), "Embedding of unit length."),
            _c("text_hash", pa.string(), "Hash of the embedded text and the embedding model."),
        ),
        order=("id", "window"),
    )


#: Tables of a published snapshot, in the order in which people read them.
PUBLISHED: tuple[Table, ...] = (
    DOCUMENTS,
    TEXT_UNITS,
    ENTITIES,
    RELATIONSHIPS,
    COVARIATES,
    COMMUNITIES,
    COMMUNITY_REPORTS,
    ENTITY_ALIASES,
    REJECTED_INPUTS,
    TEXT_UNIT_ENTITIES,
    ENTITIES_IN_TEXT_UNITS,
    ENTITY_NEIGHBOURS,
    ENTITY_COMMUNITIES,
    ENTITY_CLAIMS,
    COMMUNITY_OCCURRENCES,
    RELATIONSHIP_TEXT_UNITS,
    ROW_NUMBERS,
    TERMS,
    POSTINGS,
)

#: Names of the vector tables, as the reference names them, and what is embedded.
TEXT_UNIT_VECTORS = "text_unit_text"
ENTITY_VECTORS = "entity_description"
REPORT_VECTORS = "community_full_content"
