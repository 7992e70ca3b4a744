"""All tables of a snapshot that serve look-ups; they follow from the others."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from graphrag_assets.indexing.full_text import term_tables
from graphrag_assets.indexing.links import link_tables, row_numbers


def look_up_tables(published: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables that serve look-ups.

    Args:
        published: The other tables of the snapshot, by name.

    Returns:
        The link tables, row_numbers, terms and postings, each in canonical order.
    """
    linked = ("text_units", "entities", "relationships", "communities", "covariates")
    with_vectors = ("text_units", "entities", "community_reports")
    found = link_tables(*(published[name] for name in linked)) | term_tables(published["text_units"])
    return found | {"row_numbers": row_numbers(*(published[name] for name in with_vectors))}
