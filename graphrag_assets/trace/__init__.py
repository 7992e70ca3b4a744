"""Where a row of an index comes from, and what came of a document: see :func:`trace`."""

from graphrag_assets.trace.finding import Ambiguous, Found, NotFound
from graphrag_assets.trace.tracing import Trace, trace

__all__ = ["Ambiguous", "Found", "NotFound", "Trace", "trace"]
