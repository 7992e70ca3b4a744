"""Contradictions between sources, and how pairs of accounts become one contradiction per event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["date", "number", "status", "negation", "cause"]

#: More different values than this are a series of events.
MAX_VALUES = 3


@dataclass(frozen=True)
class Side:
    """One account.

    Args:
        text: The sentence or claim.
        text_unit_id: Text unit that it stands in.
        value: What it asserts: the date, the number, the status, the cause.
        claim_id: Id of the claim, where it is one.
        also: Further text units that give the same account, sorted.
    """

    text: str
    text_unit_id: str
    value: str
    claim_id: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conflict:
    """Two accounts that exclude each other.

    Args:
        kind: What they disagree on.
        title: Entity that both are about: of those they share, the one that the fewest sentences name.
        first: The account that stands first in the order of documents.
        second: The other one.
        score: Certainty from 0 to 1.
    """

    kind: Kind
    title: str
    first: Side
    second: Side
    score: float


@dataclass(frozen=True)
class Conflicts:
    """Result of :func:`find_conflicts`.

    Args:
        conflicts: Conflicts, most certain first.
        left_out: Conflicts above the limit, which were left out.
        series: Groups of accounts that were taken for a series of events.
    """

    conflicts: tuple[Conflict, ...]
    left_out: int = 0
    series: int = 0


@dataclass(frozen=True)
class Account:
    """A side of a pair before merging.

    Args:
        order: Its place in the corpus; equal for all that one sentence or claim says.
        text: The sentence or claim.
        text_unit_id: Text unit that it stands in.
        value: What it asserts.
        claim_id: Id of the claim, where it is one.
    """

    order: tuple[Any, ...]
    text: str
    text_unit_id: str
    value: str
    claim_id: str = ""


@dataclass(frozen=True)
class Pair:
    """Two accounts that exclude each other, as they were found.

    Args:
        kind: What they disagree on.
        title: Entity that both are about.
        left: One account.
        right: The other.
        score: Certainty from 0 to 1.
    """

    kind: Kind
    title: str
    left: Account
    right: Account
    score: float


def merge(pairs: Iterable[Pair]) -> tuple[list[Conflict], int]:
    """One conflict per event and pair of values, told by its best pair.

    Args:
        pairs: Pairs in any order.

    Returns:
        Conflicts, and the number of events with too many values, which were taken for series and left out.
    """
    parent: dict[Any, Any] = {}

    def find(item: Any) -> Any:
        while parent.setdefault(item, item) != item:
            parent[item] = item = parent[parent[item]]
        return item

    ordered = sorted(pairs, key=lambda p: (p.kind, -p.score, p.left.order, p.right.order))
    for pair in ordered:
        parent[find((pair.kind, pair.left.order))] = find((pair.kind, pair.right.order))
    groups: dict[Any, list[Pair]] = defaultdict(list)
    for pair in ordered:
        groups[find((pair.kind, pair.left.order))].append(pair)
    conflicts: list[Conflict] = []
    series = 0
    for members in groups.values():
        values = _full_values(members[0].kind, (a.value for pair in members for a in (pair.left, pair.right)))
        if len(set(values.values())) > MAX_VALUES and members[0].kind != "cause":
            series += 1
        else:
            conflicts += _by_values(members, values)
    return conflicts, series


def _full_values(kind: Kind, values: Iterable[str]) -> dict[str, str]:
    """The fullest form of each value: a date without its year or hour stands for the one with it, if there is one."""
    distinct = sorted(set(values))
    full = {value: value for value in distinct}
    if kind == "date":
        for value in distinct:
            fuller = [other for other in distinct if set(value.split()) < set(other.split())]
            if len(fuller) == 1:
                full[value] = fuller[0]
    return full


def _by_values(members: list[Pair], full: Mapping[str, str]) -> Iterator[Conflict]:
    by_values: dict[frozenset[str], list[Pair]] = defaultdict(list)
    for pair in members:
        by_values[frozenset((full[pair.left.value], full[pair.right.value]))].append(pair)
    for pairs in by_values.values():
        best = pairs[0]
        units: dict[str, set[str]] = defaultdict(set)
        for pair in pairs:
            for account in (pair.left, pair.right):
                units[full[account.value]].add(account.text_unit_id)
        first, second = sorted((best.left, best.right), key=lambda account: account.order)
        sides = [_side(account, units[full[account.value]]) for account in (first, second)]
        yield Conflict(best.kind, best.title, sides[0], sides[1], round(best.score, 4))


def _side(account: Account, units: set[str]) -> Side:
    also = tuple(sorted(units - {account.text_unit_id}))
    return Side(account.text, account.text_unit_id, account.value, account.claim_id, also)
