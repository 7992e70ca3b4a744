"""Titles of one spelling as one node; what the overrides name stands by itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from graphrag_assets.indexing.resolution.keys import Name, analyse, kind_of, spelling_key
from graphrag_assets.indexing.resolution.overrides import Overrides


@dataclass(frozen=True, slots=True)
class Node:
    """Titles that are decided on together.

    Args:
        titles: The titles, the canonical one first.
        anchors: Analysis of the titles that others are compared with: the canonical one, and those that the overrides
            force.
        rows: Positions of the titles in the profiles; a canonical title that only the overrides name has none.
        forced: Whether the overrides merged the titles, and so fixed the canonical one.
    """

    titles: tuple[str, ...]
    anchors: tuple[Name, ...]
    rows: tuple[int, ...]
    forced: bool = False

    @property
    def title(self) -> str:
        """The canonical title."""
        return self.titles[0]


def build_nodes(profiles: pa.Table, overrides: Overrides, *, by_spelling: bool) -> list[Node]:
    """Group titles into nodes, in rank order.

    Args:
        profiles: As :func:`graphrag_assets.indexing.resolution.profiles.title_profiles` gives them.
        overrides: Forced groups become one node; titles that are to be kept apart become a node each.
        by_spelling: Whether titles with one spelling key are one node; else every title is one.

    Returns:
        Forced nodes in the order of their canonical titles, then all others: the most frequent title first, then the
        longest (a leading THE does not count), then the first in the alphabet.
    """
    titles: list[str] = profiles["title"].to_pylist()
    types: list[str] = profiles["type"].to_pylist()
    votes: list[int] = profiles["votes"].to_pylist()
    frequency: list[int] = profiles["frequency"].to_pylist()
    key_of = [spelling_key(title) for title in titles]
    row_of = {title: row for row, title in enumerate(titles)}
    kinds = {name: kind_of(name) for name in set(types)}

    named = {title for group in overrides.merge for title in group} | {t for pair in overrides.separate for t in pair}
    spellings: dict[str, list[int]] = defaultdict(list)
    alone: list[list[int]] = []
    for row, title in enumerate(titles):
        if title in named or not by_spelling:
            alone.append([row])
        else:
            spellings[key_of[row]].append(row)

    def rank(row: int) -> tuple[int, int, str]:
        return -frequency[row], -len(key_of[row]), titles[row]

    def kind(rows: Sequence[int]) -> str:
        counted: Counter[str] = Counter()
        for row in rows:
            counted[kinds[types[row]]] += votes[row]
        return min(counted, key=lambda k: (k == "", -counted[k], k), default="")

    forced_titles = {title for group in overrides.merge for title in group if row_of.keys() & set(group)}
    forced = []
    for group in overrides.merge:
        rows = [row_of[title] for title in group if title in row_of]
        if rows:
            canonical = [row_of[group[0]]] if group[0] in row_of else []
            anchors = tuple(analyse(title, kind(canonical or rows)) for title in group)
            present = tuple(title for title in group[1:] if title in row_of)
            forced.append(Node((group[0], *present), anchors, tuple(rows), forced=True))
    nodes = []
    for rows in [*spellings.values(), *(r for r in alone if titles[r[0]] not in forced_titles)]:
        rows.sort(key=rank)
        nodes.append(
            (
                rank(rows[0]),
                Node(
                    tuple(titles[r] for r in rows),
                    (analyse(titles[rows[0]], kind(rows), key_of[rows[0]]),),
                    tuple(rows),
                ),
            )
        )
    nodes.sort(key=lambda item: item[0])
    return [*sorted(forced, key=lambda node: node.title), *(node for _, node in nodes)]
