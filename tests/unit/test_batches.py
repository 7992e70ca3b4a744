"""Batches: bounded, stable, plainly named."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.input.batches import assign_batches, batch_key

paths = st.text("abcé/ .#", min_size=1, max_size=6)
sizes = st.dictionaries(paths, st.integers(0, 50), max_size=40)
limits = st.tuples(st.integers(1, 7), st.integers(1, 60))


def members(assigned: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path, batch in assigned.items():
        found[batch].append(path)
    return found


@given(sizes, limits)
def test_bounds(documents: dict[str, int], limit: tuple[int, int]) -> None:
    most, most_bytes = limit
    assigned = assign_batches(documents, {}, most, most_bytes)
    assert assigned.keys() == documents.keys()
    for batch in members(assigned).values():
        assert len(batch) <= most
        assert len(batch) == 1 or sum(documents[path] for path in batch) <= most_bytes


@given(sizes, limits)
def test_keys_are_ordinals_without_gaps(documents: dict[str, int], limit: tuple[int, int]) -> None:
    used = sorted(set(assign_batches(documents, {}, *limit).values()))
    assert used == [batch_key(number) for number in range(1, len(used) + 1)]
    assert all(re.fullmatch(r"batch-\d{6}", key) for key in used)


@given(sizes, sizes, limits)
def test_known_documents_keep_their_batch(old: dict[str, int], new: dict[str, int], limit: tuple[int, int]) -> None:
    """Whatever comes and goes, and however sizes change."""
    before = assign_batches(old, {}, *limit)
    after = assign_batches(new, before, *limit)
    assert after.keys() == new.keys()
    assert all(after[path] == before[path] for path in new if path in before)
    newest = max(before.values(), default="")
    added = {path: batch for path, batch in after.items() if path not in before}
    assert all(batch >= newest for batch in added.values()), "new documents never enter an older batch"
    counts = Counter(after.values())
    assert all(counts[batch] <= limit[0] for batch in added.values())


@given(sizes, limits)
def test_order_of_arrival_does_not_matter(documents: dict[str, int], limit: tuple[int, int]) -> None:
    turned = dict(reversed(documents.items()))
    assert assign_batches(turned, {}, *limit) == assign_batches(documents, {}, *limit)


def test_a_trickle_fills_the_newest_batch() -> None:
    known: dict[str, str] = {}
    for number in range(10):
        documents = {f"{n:02}": 1 for n in range(number + 1)}
        known = assign_batches(documents, known, max_documents=4, max_bytes=1000)
    assert Counter(known.values()) == {"batch-000001": 4, "batch-000002": 4, "batch-000003": 2}


def test_a_large_document_has_a_batch_of_its_own() -> None:
    assigned = assign_batches({"a": 5, "b": 500, "c": 5}, {}, max_documents=10, max_bytes=100)
    assert assigned == {"a": "batch-000001", "b": "batch-000002", "c": "batch-000003"}


def test_number_of_an_emptied_newest_batch_is_not_given_twice() -> None:
    """A key whose documents are all gone still counts, so that no key changes its meaning within one comparison."""
    assigned = assign_batches({"new": 1}, {"gone": "batch-000007"}, max_documents=1, max_bytes=100)
    assert assigned == {"new": "batch-000007"} or assigned == {"new": "batch-000008"}
