"""Questions to a published index: open a snapshot, ask, get an answer whose citations can be trusted."""

from graphrag_assets.query.engine import Method, ask, ask_sync
from graphrag_assets.query.errors import NoSnapshotError, QueryError
from graphrag_assets.query.index import Index, open_index
from graphrag_assets.query.questions import follow_up_questions
from graphrag_assets.query.result import Answer

__all__ = [
    "Answer",
    "Index",
    "Method",
    "NoSnapshotError",
    "QueryError",
    "ask",
    "ask_sync",
    "follow_up_questions",
    "open_index",
]
