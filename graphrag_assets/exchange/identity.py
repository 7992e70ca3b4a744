"""Ids and numbers of foreign rows: theirs are kept wherever they tell one row from another."""

from __future__ import annotations

import re

from graphrag_assets import ids
from graphrag_assets.exchange.findings import Findings
from graphrag_assets.exchange.values import LARGEST, Row, Rows, has_column, integer, text


def require_columns(rows: Rows, table: str, names: tuple[str, ...], findings: Findings) -> None:
    """Tell the columns that a table lacks."""
    for name in names:
        if not has_column(rows, name):
            findings.add("missing_column", table, "", name)


def identified(rows: Rows, table: str, findings: Findings) -> Rows:
    """Rows with an id each, no two the same: a row that repeats another is left out, others get ids of their own."""
    seen: dict[str, Row] = {}
    for position, row in enumerate(rows):
        own = text(row.get("id"))
        if not own:
            own = ids.digest("imported", table, str(position), _content(row))
            findings.add("missing_id", table, row.get("title") or row.get("human_readable_id") or position)
        elif own in seen:
            if _content(seen[own]) == _content(row):
                findings.add("duplicate_row", table, own)
                continue
            findings.add("duplicate_id", table, own)
            own = ids.digest("imported", table, own, str(position))
        row["id"] = own
        seen[own] = row
    return list(seen.values())


def _content(row: Row) -> str:
    """What a row says, whatever its number."""
    return repr(sorted((key, str(value)) for key, value in row.items() if key not in ("human_readable_id", "id")))


def numbered(rows: Rows, table: str, findings: Findings) -> Rows:
    """Rows in the order of their numbers, which are kept where each row has its own; else numbered in their order."""
    numbers = [integer(row.get("human_readable_id")) for row in rows]
    usable = [n for n in numbers if n is not None and 0 <= n <= LARGEST]
    if len(set(usable)) == len(rows):
        for row, number in zip(rows, numbers, strict=True):
            row["human_readable_id"] = number
        return sorted(rows, key=lambda row: int(row["human_readable_id"]))
    stated = has_column(rows, "human_readable_id")
    for position, row in enumerate(rows):
        before = row.get("human_readable_id")
        if stated and integer(before) != position:
            findings.add("renumbered", table, row["id"], f"{before} is now {position}")
        row["human_readable_id"] = position
    return rows


def next_number(rows: Rows) -> int:
    """The first number after those of the rows."""
    return max((int(row["human_readable_id"]) for row in rows), default=-1) + 1


_DASHES = re.compile("-")


class Known:
    """Ids that exist, found also where one table writes a UUID with dashes and another without.

    Args:
        known: The ids, in the order of their rows.
    """

    def __init__(self, known: list[str]) -> None:
        self.order = {own: i for i, own in enumerate(known)}
        self._plain = {_DASHES.sub("", own): own for own in known if len(own) in (32, 36)}

    def find(self, own: str) -> str | None:
        """The id as its row has it; None where no row has it."""
        return own if own in self.order else self._plain.get(_DASHES.sub("", own))

    def ordered(self, named: list[str], missing: list[str] | None = None) -> list[str]:
        """Those that exist, each once, in the order of the rows.

        Args:
            named: Ids.
            missing: Takes those that do not exist.
        """
        found: dict[str, None] = {}
        for own in named:
            if (as_known := self.find(own)) is not None:
                found[as_known] = None
            elif missing is not None:
                missing.append(own)
        return sorted(found, key=self.order.__getitem__)
