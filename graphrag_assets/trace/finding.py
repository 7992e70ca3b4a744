"""From what people write to a row: an id, a path, a title or alias, a pair of titles, a number, a citation marker."""

# ruff: noqa: S608 (SQL is put together from names and question marks only)

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graphrag_assets.query import lookups
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.index import Index, marks
from graphrag_assets.query.row_numbers import numbers_of
from graphrag_assets.text.citations import find_citations
from graphrag_assets.text.names import canonical_title

#: Kinds of rows, with their table and what a citation calls them.
TABLES = {
    "document": "documents",
    "text_unit": "text_units",
    "entity": "entities",
    "relationship": "relationships",
    "claim": "covariates",
    "community": "communities",
    "report": "community_reports",
}
DATASETS = {
    "Reports": "report",
    "Entities": "entity",
    "Relationships": "relationship",
    "Claims": "claim",
    "Sources": "text_unit",
}

#: How a row is named to people, as SQL.
_TITLES = {
    "document": "path",
    "text_unit": "'text unit ' || human_readable_id",
    "entity": "title",
    "relationship": "source || ' -> ' || target",
    "claim": "subject_id || ': ' || description",
    "community": "title",
    "report": "title",
}

_NUMBER = re.compile(r"-?[0-9]{1,12}")
_ID = re.compile(r"[0-9a-fA-F]{8,128}(?:-[0-9a-fA-F-]+)?")
_PAIR = re.compile(r"\s*(?:<?-+>|\||→|–)\s*")
_NUMBERED = re.compile(
    r"(document|text[ _]unit|entity|relationship|claim|community|report)\s+#?(-?\d{1,12})", re.IGNORECASE
)

#: Names that a message about an unknown one suggests, and rows that one about an ambiguous one lists.
NEAR = 5
LISTED = 20


@dataclass(frozen=True)
class Found:
    """A row.

    Args:
        kind: document, text_unit, entity, relationship, claim, community or report.
        id: Its id.
        number: Its human_readable_id.
        title: How people know it.
    """

    kind: str
    id: str
    number: int
    title: str


class NotFound(QueryError):  # noqa: N818 (what happened, in one word)
    """The snapshot holds no such row; the message names near ones.

    Args:
        message: What was looked for, and what is near.
        near: Names that are like it.
    """

    def __init__(self, message: str, near: Sequence[str]) -> None:
        super().__init__(message)
        self.near = list(near)


class Ambiguous(QueryError):  # noqa: N818
    """Several rows answer to a name.

    Args:
        message: Says how to choose.
        choices: The rows.
    """

    def __init__(self, message: str, choices: Sequence[Found]) -> None:
        super().__init__(message)
        self.choices = list(choices)


def find(index: Index, what: str, kind: str | None = None) -> Found:
    """The one row that is meant.

    Args:
        index: The snapshot.
        what: An id, a path, a title or alias, ``A -> B``, ``claim 3``, or a marker such as ``Reports (12)``.
        kind: Only rows of this kind.

    Raises:
        NotFound: There is none.
        Ambiguous: There are several.
    """
    what = what.strip()
    found = [row for row in _candidates(index, what, kind) if kind in (None, row.kind)] if what else []
    if not found:
        near = near_names(index, what) if what else []
        like = f"; names like it: {', '.join(near)}" if near else ""
        of_kind = f" as a {kind.replace('_', ' ')}" if kind else ""
        ranges = "".join(
            f"; {numbers_told(index, name)}" for name in dict.fromkeys(name for name, _ in _numbered(what))
        )
        raise NotFound(f"snapshot {index.snapshot} holds nothing by the name {what!r}{of_kind}{ranges or like}", near)
    if len(found) > 1:
        listed = "; ".join(f"{row.kind} {row.title} ({row.id})" for row in found[:LISTED])
        more = f"; and {len(found) - LISTED} more" if len(found) > LISTED else ""
        raise Ambiguous(
            f"{what!r} can mean {len(found)} rows, name one by its id or say its --kind: {listed}{more}", found
        )
    return found[0]


def _candidates(index: Index, what: str, kind: str | None) -> list[Found]:
    """Rows that are meant, by the first way of naming that finds any."""
    numbers = [(name, number) for name, number in _numbered(what) if number is not None]
    if found := [row for name, number in dict.fromkeys(numbers) for row in by_number(index, name, [number])]:
        return found
    if _ID.fullmatch(what) and (found := by_id(index, what, kind)):
        return found
    if found := _by_name(index, what):
        return found
    parts = _PAIR.split(what)
    if len(parts) == 2 and (found := _pair(index, parts[0], parts[1])):
        return found
    return [] if " " in what else by_id(index, what, kind)  # imported rows may have ids of any form


def _numbered(what: str) -> list[tuple[str, int | None]]:
    """Kinds and numbers that something names, as a citation or as ``claim 3``; None: what is no number."""
    if cited := find_citations(what if "[" in what else f"[Data: {what}]"):
        return [(DATASETS[c.dataset], int(i) if _NUMBER.fullmatch(i) else None) for c in cited for i in c.ids or ("",)]
    if numbered := _NUMBERED.fullmatch(what):
        return [(numbered[1].lower().replace(" ", "_"), int(numbered[2]))]
    return []


def numbers_told(index: Index, kind: str) -> str:
    """The numbers that there are of a kind of row, in words."""
    column, name = _number_column(kind), kind.replace("_", " ")
    names = {"entity": "entities", "community": "communities"}.get(kind, f"{name}s")
    (row,) = index.rows(f"select min({column}) as least, max({column}) as most, count(*) as rows from {TABLES[kind]}")
    if not row["rows"]:
        return f"it has no {names}"
    if row["rows"] == 1:
        return f"its only {name} has the number {row['least']}"
    return f"its {row['rows']} {names} have numbers from {row['least']} to {row['most']}"


def _number_column(kind: str) -> str:
    return "community" if kind in ("community", "report") else "human_readable_id"


def by_id(index: Index, row: str, kind: str | None = None) -> list[Found]:
    """Rows with an id: a report and another row never share one."""
    return [found for name in TABLES if kind in (None, name) for found in rows_by_id(index, name, [row])]


def rows_by_id(index: Index, kind: str, ids: Sequence[str]) -> list[Found]:
    """Rows of a kind by id, in the order of their table; those with a vector by number, without a scan."""
    if not ids:
        return []
    if kind in ("text_unit", "entity", "report") and index.stored("row_numbers") is not None:
        return by_number(index, kind, sorted(numbers_of(index, TABLES[kind], ids).values()))
    return _select(index, kind, f"id in ({marks(ids)})", ids)


def by_number(index: Index, kind: str, numbers: Sequence[int]) -> list[Found]:
    """Rows of a kind by human_readable_id, in the order of their table."""
    if not numbers:
        return []
    listed = ", ".join(str(int(number)) for number in numbers)
    return _select(index, kind, f"{_number_column(kind)} in ({listed})", [])


def _select(index: Index, kind: str, condition: str, values: Sequence[object]) -> list[Found]:
    number = _number_column(kind)
    rows = index.rows(
        f"select id, {number} as number, {_TITLES[kind]} as title from {TABLES[kind]} where {condition} order by number",
        values,
    )
    return [Found(kind, row["id"], row["number"], row["title"]) for row in rows]


def _by_name(index: Index, what: str) -> list[Found]:
    """Rows by a name: path or title of a document, title or alias of an entity, title of a community or report."""
    found = _select(index, "document", "path = ? or title = ?", [what, what])
    if title := canonical_title(what):
        found += [
            Found("entity", row.id, row.number, row.title) for row in lookups.entities_by_title(index, [title]).values()
        ]
    found += _select(index, "community", "lower(title) = lower(?)", [what])
    return found + _select(index, "report", "lower(title) = lower(?)", [what])


def _pair(index: Index, first: str, second: str) -> list[Found]:
    """The relationship between two entities, whichever way it points."""
    titles = [canonical_title(first), canonical_title(second)]
    known = lookups.entities_by_title(index, [title for title in titles if title])
    if len({*titles} & known.keys()) < 2:
        return []
    ends = [known[title].title for title in titles]
    return _select(
        index, "relationship", "(source = ? and target = ?) or (source = ? and target = ?)", [*ends, *ends[::-1]]
    )


def near_names(index: Index, what: str) -> list[str]:
    """Titles and paths that are most like a name."""
    rows = index.rows(
        """select name from (
               select title as name, jaro_winkler_similarity(title, upper($1)) as likeness from entities
               union all select alias, jaro_winkler_similarity(alias, upper($1)) from entity_aliases where decision = 'merged'
               union all select path, jaro_winkler_similarity(lower(path), lower($1)) from documents
               union all select title, jaro_winkler_similarity(lower(title), lower($1)) from community_reports)
           where likeness > 0.7 group by name order by max(likeness) desc, name limit $2""",
        [what, NEAR],
    )
    return [row["name"] for row in rows]
