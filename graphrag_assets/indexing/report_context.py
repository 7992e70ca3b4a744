"""What a report on a community is written from, within a token budget.

A context holds all members of a community, all relationships inside it, its claims, and the contradictions found
between its sources. Where that is too long, the largest sub-communities are replaced by their reports, which were
written before, until it fits; relationships that lead from one sub-community to another stay. Only when that is not
enough, rows are left out: the least connected relationships first, then claims, then the least connected entities.

Rows carry local numbers, from 1 in canonical order per data set, and degrees count relationships inside the community.
So a prompt, and with it the key of a cached answer, changes only when the community itself changes. Citations in the
answer are mapped back with :attr:`ReportContext.ids`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from graphrag_assets.indexing.conflicts import Conflict
from graphrag_assets.text.citations import strip_citations
from graphrag_assets.text.context_tables import csv_line, table_head

Row = Mapping[str, Any]
CountTokens = Callable[[str], int]

#: Sections in the order in which they are printed, with their columns: those of Microsoft GraphRAG, and more to the
#: right.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Reports": ("human_readable_id", "title", "full_content"),
    "Entities": ("human_readable_id", "title", "description", "degree"),
    "Claims": (
        "human_readable_id",
        "subject_id",
        "object_id",
        "type",
        "status",
        "start_date",
        "end_date",
        "description",
    ),
    "Relationships": ("human_readable_id", "source", "target", "description", "combined_degree"),
    "Conflicts": ("kind", "entity", "first_account", "first_source", "second_account", "second_source"),
}
_HEADS = {name: table_head(name, columns) for name, columns in SECTIONS.items()}
#: Sections in the order in which they are filled: what is left out comes from the end.
_PRIORITY = ("Reports", "Conflicts", "Entities", "Claims", "Relationships")
#: Share of the budget that contradictions may take: they must not crowd out what the community is.
_CONFLICT_SHARE = 0.25


@dataclass(frozen=True)
class ReportContext:
    """The data that a report is written from.

    Args:
        text: Sections as CSV; empty where not even one row fits.
        ids: Full id by data set (Reports, Entities, Relationships, Claims, Sources) and local number; of reports only
            those that stand in the context, so that any other one may be written again without making this one stale.
        conflicts: Contradictions that the context shows.
        substituted: Numbers of the sub-communities that stand in it by their reports, ascending.
        trimmed: Rows left out, by section; sections that are complete are not named.
    """

    text: str
    ids: Mapping[str, Mapping[str, str]]
    conflicts: tuple[Conflict, ...] = ()
    substituted: tuple[int, ...] = ()
    trimmed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Line:
    """One row as CSV.

    Args:
        text: The line with its line end.
        tokens: Its tokens, or its bytes where these are few enough.
        titles: Entities that it is about; a sub-community that holds them all covers it.
        conflict: The contradiction that it tells, in the section Conflicts.
    """

    text: str
    tokens: int
    titles: frozenset[str]
    conflict: Conflict | None = None


@dataclass(frozen=True)
class _SubCommunity:
    number: int
    titles: frozenset[str]
    line: _Line


def build_context(
    members: Sequence[Row],
    relationships: Sequence[Row],
    claims: Sequence[Row],
    sub_reports: Sequence[Row],
    conflicts: Sequence[Conflict],
    *,
    sub_members: Mapping[int, Iterable[str]],
    count_tokens: CountTokens,
    max_tokens: int,
) -> ReportContext:
    """Build the context of one community.

    Args:
        members: Its entities (id, title, description), in the order of the entities table.
        relationships: Relationships inside it (id, source, target, description), in the order of their table.
        claims: Claims about its entities (columns of covariates), in the order of their table.
        sub_reports: Reports on its children (id, community, title, full_content), as far as there are any.
        conflicts: Contradictions about its entities, most certain first.
        sub_members: Titles of the members of each child, by its number.
        count_tokens: Counts the tokens of a text. Rows are counted one by one and each only once.
        max_tokens: Most tokens of the context.

    Returns:
        The context. Its text holds whole rows and never more than ``max_tokens`` tokens.
    """
    titles = {row["title"] for row in members}
    inside = [row for row in relationships if row["source"] in titles and row["target"] in titles]
    degrees = Counter(
        title for row in inside if row["source"] != row["target"] for title in (row["source"], row["target"])
    )
    sources = _local_ids(unit for c in conflicts for unit in (c.first.text_unit_id, c.second.text_unit_id))

    def rows(write: _Writer) -> dict[str, list[_Line]]:
        return {
            "Entities": write.entities(members, degrees),
            "Claims": write.claims(claims),
            "Relationships": write.relationships(inside, degrees),
            "Conflicts": write.conflicts(conflicts, sources),
            "Reports": [],
        }

    conflict_tokens = int(_CONFLICT_SHARE * max_tokens)
    # Most communities are small. Where everything fits by its bytes, it fits by its tokens, which take long to count.
    write = _Writer(_count_bytes)
    lines = rows(write)
    fits = sum(line.tokens for line in lines["Conflicts"]) <= conflict_tokens
    if not fits or _total(lines, write.headers) + len(SECTIONS) > max_tokens:
        write = _Writer(count_tokens)
        lines = rows(write)
    told = _first(lines["Conflicts"], conflict_tokens)
    untold = len(lines["Conflicts"]) - len(told)
    lines["Conflicts"] = told
    substituted: list[int] = []
    if _total(lines, write.headers) > max_tokens:
        children = [
            _SubCommunity(row["community"], frozenset(sub_members.get(row["community"], ())), write.report(i, row))
            for i, row in enumerate(sub_reports, start=1)
        ]
        substituted = _substitute(lines, children, write.headers, max_tokens)
    text, kept = _fill(lines, write.headers, count_tokens, max_tokens)
    shown = {str(i) for i, row in enumerate(sub_reports, start=1) if row["community"] in substituted}
    trimmed = {name: len(lines[name]) - len(kept[name]) + (untold if name == "Conflicts" else 0) for name in SECTIONS}
    return ReportContext(
        text,
        {
            "Reports": {number: i for number, i in _numbered(sub_reports).items() if number in shown},
            "Entities": _numbered(members),
            "Relationships": _numbered(inside),
            "Claims": _numbered(claims),
            "Sources": {number: unit for unit, number in sources.items()},
        },
        tuple(line.conflict for line in kept["Conflicts"] if line.conflict),
        tuple(sorted(substituted)),
        {name: count for name, count in trimmed.items() if count},
    )


def _count_bytes(text: str) -> int:
    """Most tokens that a text can have: each holds one byte at least."""
    return len(text.encode("utf-8", "surrogatepass"))


# --- rows ------------------------------------------------------------------------------------------------------------


def _numbered(rows: Sequence[Row]) -> dict[str, str]:
    return {str(i): row["id"] for i, row in enumerate(rows, start=1)}


def _local_ids(values: Iterable[str]) -> dict[str, str]:
    return {value: str(i) for i, value in enumerate(dict.fromkeys(values), start=1)}


class _Writer:
    """Writes rows as CSV and counts their tokens."""

    def __init__(self, count_tokens: CountTokens) -> None:
        self._count = count_tokens
        self.headers = {name: self._line([], head) for name, head in _HEADS.items()}

    def _line(self, titles: Iterable[str], text: str, conflict: Conflict | None = None) -> _Line:
        return _Line(text, self._count(text), frozenset(titles), conflict)

    def entities(self, rows: Sequence[Row], degrees: Mapping[str, int]) -> list[_Line]:
        """Most connected first, then by title."""
        numbered = sorted(enumerate(rows, start=1), key=lambda item: (-degrees[item[1]["title"]], item[1]["title"]))
        return [
            self._line([row["title"]], csv_line((i, row["title"], row["description"], degrees[row["title"]])))
            for i, row in numbered
        ]

    def relationships(self, rows: Sequence[Row], degrees: Mapping[str, int]) -> list[_Line]:
        """Those between the most connected entities first, then by their ends."""

        def combined(row: Row) -> int:
            return degrees[row["source"]] + degrees[row["target"]]

        numbered = sorted(
            enumerate(rows, start=1), key=lambda item: (-combined(item[1]), item[1]["source"], item[1]["target"])
        )
        return [
            self._line(
                (row["source"], row["target"]),
                csv_line((i, row["source"], row["target"], row["description"], combined(row))),
            )
            for i, row in numbered
        ]

    def claims(self, rows: Sequence[Row]) -> list[_Line]:
        """In the order of their table."""
        columns = SECTIONS["Claims"][1:]
        return [
            self._line([row["subject_id"]], csv_line((i, *(row[c] for c in columns))))
            for i, row in enumerate(rows, start=1)
        ]

    def conflicts(self, conflicts: Sequence[Conflict], sources: Mapping[str, str]) -> list[_Line]:
        """Most certain first."""
        return [
            self._line(
                [c.title],
                csv_line(
                    (
                        c.kind,
                        c.title,
                        c.first.text,
                        sources[c.first.text_unit_id],
                        c.second.text,
                        sources[c.second.text_unit_id],
                    )
                ),
                c,
            )
            for c in conflicts
        ]

    def report(self, number: int, row: Row) -> _Line:
        """A report on a sub-community, without its citations: their ids mean nothing here."""
        return self._line([], csv_line((number, row["title"], strip_citations(row["full_content"]))))


# --- fitting ---------------------------------------------------------------------------------------------------------


def _first(lines: Sequence[_Line], max_tokens: int) -> list[_Line]:
    """The first rows that together stay within some tokens."""
    totals = accumulate(line.tokens for line in lines)
    return [line for line, total in zip(lines, totals, strict=True) if total <= max_tokens]


def _total(lines: Mapping[str, Sequence[_Line]], headers: Mapping[str, _Line]) -> int:
    return sum(headers[name].tokens + sum(line.tokens for line in rows) for name, rows in lines.items() if rows)


def _substitute(
    lines: dict[str, list[_Line]], children: Sequence[_SubCommunity], headers: Mapping[str, _Line], max_tokens: int
) -> list[int]:
    """Replace sub-communities by their reports, those with the most tokens first, until the context fits.

    A report that is not shorter than the rows it stands for replaces nothing. Changes ``lines``; returns the numbers of
    the replaced sub-communities.
    """
    excess = _total(lines, headers) - max_tokens
    owner = {title: child.number for child in children for title in child.titles}
    sizes: Counter[int] = Counter()
    for rows in lines.values():
        for line in rows:
            covered = {owner.get(title) for title in line.titles}
            if len(covered) == 1 and (number := covered.pop()) is not None:
                sizes[number] += line.tokens
    replaced: list[_SubCommunity] = []
    for child in sorted(children, key=lambda child: (-sizes[child.number], child.number)):
        if excess <= 0:
            break
        if child.line.tokens < sizes[child.number]:
            excess += child.line.tokens - sizes[child.number] + (0 if replaced else headers["Reports"].tokens)
            replaced.append(child)
    gone = {title for child in replaced for title in child.titles}
    for name, rows in lines.items():
        lines[name] = [line for line in rows if not _is_covered(line, owner, gone)]
    lines["Reports"] = [child.line for child in replaced]
    return [child.number for child in replaced]


def _is_covered(line: _Line, owner: Mapping[str, int], gone: set[str]) -> bool:
    """Whether all that a row is about lies in one replaced sub-community."""
    return bool(line.titles) and line.titles <= gone and len({owner[title] for title in line.titles}) == 1


def _fill(
    lines: Mapping[str, Sequence[_Line]], headers: Mapping[str, _Line], count_tokens: CountTokens, max_tokens: int
) -> tuple[str, dict[str, list[_Line]]]:
    """Take rows by priority until one does not fit; a row that is longer than the whole budget is passed over."""
    kept: dict[str, list[_Line]] = {name: [] for name in SECTIONS}
    queue = [
        (name, line) for name in _PRIORITY for line in lines[name] if headers[name].tokens + line.tokens <= max_tokens
    ]
    used = 0
    for name, line in queue:
        cost = line.tokens + (0 if kept[name] else headers[name].tokens)
        if used + cost > max_tokens:
            break
        used += cost
        kept[name].append(line)
    # Tokens of a text can differ from the sum over its rows where rows or sections meet: look at the text as a whole.
    text = _render(kept, headers)
    while _count_bytes(text) > max_tokens and (tokens := count_tokens(text)) > max_tokens:
        _drop(kept, tokens - max_tokens)
        text = _render(kept, headers)
    return text, kept


def _drop(kept: dict[str, list[_Line]], excess: int) -> None:
    """Drop rows from the end until ``excess`` tokens are gone."""
    for name in reversed(_PRIORITY):
        while kept[name] and excess > 0:
            excess -= max(1, kept[name].pop().tokens)


def _render(kept: Mapping[str, Sequence[_Line]], headers: Mapping[str, _Line]) -> str:
    sections = [headers[name].text + "".join(line.text for line in kept[name]) for name in SECTIONS if kept[name]]
    return "\n".join(sections)
