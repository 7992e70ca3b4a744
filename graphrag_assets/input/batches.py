"""Grouping documents into batches: bounded partitions that stay as they are when documents come and go."""

from __future__ import annotations

from collections.abc import Mapping


def batch_key(number: int) -> str:
    """Partition key of a batch: a plain ordinal, since paths and odd characters make bad partition keys."""
    return f"batch-{number:06d}"


def assign_batches(
    sizes: Mapping[str, int], known: Mapping[str, str], max_documents: int, max_bytes: int
) -> dict[str, str]:
    """Assign each document to a batch.

    Args:
        sizes: Bytes of text by logical path, for every document that exists now.
        known: Batch by path, as it was assigned before.
        max_documents: Most documents in a batch.
        max_bytes: Most bytes in a batch; a document above that has a batch of its own.

    Returns:
        Batch by path. Known documents keep their batch; new ones, in the order of their paths, fill the newest batch
        that has room before a new one opens, so that a trickle of single files never makes thousands of partitions.
    """
    assigned = {path: known[path] for path in sorted(sizes) if path in known}
    used = sorted(set(known.values()) | set(assigned.values()))
    number = int(used[-1].rpartition("-")[2]) if used else 0
    members = [path for path, batch in assigned.items() if used and batch == used[-1]]
    count, size = len(members), sum(sizes[path] for path in members)
    for path in sorted(sizes):
        if path in assigned:
            continue
        if number == 0 or count >= max_documents or (count and size + sizes[path] > max_bytes):
            number, count, size = number + 1, 0, 0
        assigned[path] = batch_key(number)
        count, size = count + 1, size + sizes[path]
    return assigned
