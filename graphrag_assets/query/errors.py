"""What can go wrong with a question, in words for the person who asked."""

from __future__ import annotations


class QueryError(Exception):
    """A question cannot be answered; the message names the thing at fault and how to mend it."""


class NoSnapshotError(QueryError):
    """Nothing is published at the storage address."""


class NoReports(QueryError):  # noqa: N818
    """A search that reads reports finds none that can be used."""
