"""Checks of a snapshot before it is published: pure functions over the tables, each returning what is wrong.

:data:`CHECKS` lists them all; assets turn them into asset checks. A blocking check keeps a bad index from readers.
"""

from graphrag_assets.indexing.validation.base import Check, Limits, Published, Violation
from graphrag_assets.indexing.validation.communities import COMMUNITY_CHECKS
from graphrag_assets.indexing.validation.corpus import CORPUS_CHECKS
from graphrag_assets.indexing.validation.graph import GRAPH_CHECKS
from graphrag_assets.indexing.validation.references import REFERENCE_CHECKS

#: All checks, in the order in which people read them.
CHECKS: tuple[Check, ...] = (*CORPUS_CHECKS, *REFERENCE_CHECKS, *GRAPH_CHECKS, *COMMUNITY_CHECKS)

__all__ = ["CHECKS", "Check", "Limits", "Published", "Violation"]
