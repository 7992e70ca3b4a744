"""What can go wrong with a question, in words for the person who asked."""

from __future__ import annotations


class QueryError(Exception):
    """A question cannot be answered; the message names the thing at fault and how to mend it."""


class NoSnapshotError(QueryError):
    """Nothing is published at the storage address."""
