"""Column lineage: from which columns each column is made."""

from __future__ import annotations

from collections.abc import Mapping

Sources = list[tuple[str, str]]

_TEXT: Sources = [("text_units", "text")]
_ENTITY: Sources = [("extracted_entities", "title"), ("entity_aliases", "title")]
_PAIR: Sources = [("extracted_relationships", "source"), ("extracted_relationships", "target"), ("entities", "title")]
_MEMBERS: Sources = [
    ("entities", "title"),
    ("relationships", "source"),
    ("relationships", "target"),
    ("relationships", "weight"),
]
_DESCRIBED: Sources = [("entities", "title"), ("entities", "description")]
_WRITTEN: Sources = [("community_reports", "full_content")]
_REPORT: Sources = [
    ("communities", "entity_ids"),
    ("communities", "relationship_ids"),
    ("entities", "description"),
    ("relationships", "description"),
    ("covariates", "description"),
]

COLUMN_LINEAGE: Mapping[str, Mapping[str, Sources]] = {
    "documents": {
        "id": [("input_inventory", "document_id")],
        "path": [("input_inventory", "path")],
        "content_hash": [("input_inventory", "content_hash")],
        "language": [("input_inventory", "language")],
    },
    "text_units": {
        "id": [("documents", "id"), ("documents", "text")],
        "text": [("documents", "text"), ("documents", "raw_data")],
        "n_tokens": [("documents", "text")],
        "document_id": [("documents", "id")],
        "start": [("documents", "text")],
        "end": [("documents", "text")],
        "position": [("documents", "text")],
    },
    "extracted_entities": {
        "text_unit_id": [("text_units", "id")],
        **dict.fromkeys(("title", "name", "type", "description", "mentions"), _TEXT),
    },
    "extracted_relationships": {
        "text_unit_id": [("text_units", "id")],
        **dict.fromkeys(("source", "target", "description", "weight"), _TEXT),
    },
    "extracted_claims": {
        "text_unit_id": [("text_units", "id")],
        **dict.fromkeys(("subject", "object", "type", "status", "description", "source_text"), _TEXT),
    },
    "extraction_status": {"text_unit_id": [("text_units", "id")], "status": _TEXT},
    "entity_aliases": {"alias": [("extracted_entities", "title")], "title": [("extracted_entities", "title")]},
    "entities": {
        "id": _ENTITY,
        "title": _ENTITY,
        "type": [("extracted_entities", "type")],
        "description": [("extracted_entities", "description")],
        "text_unit_ids": [("extracted_entities", "text_unit_id")],
        "frequency": [("extracted_entities", "text_unit_id")],
        "degree": [
            ("extracted_relationships", "source"),
            ("extracted_relationships", "target"),
            ("entity_aliases", "title"),
        ],
        "aliases": [("entity_aliases", "alias")],
    },
    "relationships": {
        "id": _PAIR,
        "source": _PAIR,
        "target": _PAIR,
        "description": [("extracted_relationships", "description")],
        "weight": [("extracted_relationships", "weight")],
        "combined_degree": [("entities", "degree")],
        "text_unit_ids": [("extracted_relationships", "text_unit_id")],
    },
    "covariates": {
        "subject_id": [("extracted_claims", "subject"), ("entity_aliases", "title")],
        "object_id": [("extracted_claims", "object"), ("entity_aliases", "title")],
        "type": [("extracted_claims", "type")],
        "status": [("extracted_claims", "status")],
        "description": [("extracted_claims", "description")],
        "source_text": [("extracted_claims", "source_text")],
        "text_unit_id": [("extracted_claims", "text_unit_id")],
    },
    "communities": {
        "community": _MEMBERS,
        "entity_ids": [("entities", "id"), *_MEMBERS],
        "relationship_ids": [("relationships", "id"), *_MEMBERS],
        "text_unit_ids": [("entities", "text_unit_ids"), ("relationships", "text_unit_ids")],
        "period": [("documents", "creation_date")],
    },
    "community_reports": {
        "community": [("communities", "community")],
        **dict.fromkeys(("title", "summary", "full_content", "rank", "findings"), _REPORT),
    },
    "text_unit_embeddings": {"id": [("text_units", "id")], "vector": _TEXT, "text_hash": _TEXT},
    "entity_embeddings": {"id": [("entities", "id")], "vector": _DESCRIBED, "text_hash": _DESCRIBED},
    "community_report_embeddings": {"id": [("community_reports", "id")], "vector": _WRITTEN, "text_hash": _WRITTEN},
}
