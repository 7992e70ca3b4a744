"""Citations that can be trusted: checked against the context that was sent, and resolved to the passage behind them."""

# ruff: noqa: S608 (SQL is put together from names, integers and question marks only)

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphrag_assets.query import lookups
from graphrag_assets.query.context import CLAIMS, ENTITIES, RELATIONSHIPS, REPORTS, SOURCES
from graphrag_assets.query.index import Index, Record, integers
from graphrag_assets.query.matching import overlap, terms
from graphrag_assets.query.records import TextUnit
from graphrag_assets.text.citations import Citation, find_citations, map_citations, strip_citations
from graphrag_assets.text.sentences import sentences

#: Data set -> number -> key of the rows that may be cited.
Citable = Mapping[str, Mapping[int, str]]

KINDS = {REPORTS: "report", ENTITIES: "entity", RELATIONSHIPS: "relationship", CLAIMS: "claim", SOURCES: "text_unit"}

#: Text units behind an entity, relationship or report among which the best quote is looked for: those in the context
#: first, then the first ones in document order. More would cost a read each and seldom hold a better sentence.
CANDIDATES = 24

#: Markers of a report that are followed to text units, the nearest ones first.
MARKERS = 24

#: Share of a statement's words from which a sentence counts as its source.
SUPPORT = 0.7


@dataclass(frozen=True)
class Cited:
    """One resolved citation.

    Args:
        marker: The marker in the answer.
        kind: report, entity, relationship, claim or text_unit.
        id: Number that the marker names (human_readable_id; for a report its community).
        title: Title of the report, entity or document; both ends of a relationship; subject of a claim.
        document: Path of the document that holds the quote; None where none could be found.
        start: First character of the quote in the text of the document.
        end: Character after the last one.
        quote: The sentence behind the statement, as it stands in the document (or, without one, in the report).
        key: Id of the row in its table.
        version: Content hash of the document.
    """

    marker: str
    kind: str
    id: int
    title: str
    document: str | None
    start: int | None
    end: int | None
    quote: str
    key: str
    version: str | None


def check_citations(text: str, citable: Citable) -> tuple[str, list[str]]:
    """Remove ids that the model made up.

    Args:
        text: An answer.
        citable: What the context that was sent holds.

    Returns:
        The text with markers in the standard form that name nothing but rows of the context, and the citations that
        were removed, each once, such as ``Sources (99)``.
    """
    dropped: dict[str, None] = {}

    def keep(dataset: str, cited: str) -> str | None:
        number = int(cited) if cited.isascii() and cited.isdigit() else None
        if number is not None and number in citable.get(dataset, {}):
            return str(number)
        dropped[f"{dataset} ({cited})"] = None
        return None

    return map_citations(text, keep), list(dropped)


def marker(dataset: str, *numbers: int) -> str:
    """A marker in the standard form."""
    return f"[Data: {dataset} ({', '.join(map(str, numbers))})]"


def resolve_citations(index: Index, text: str, citable: Citable) -> list[Cited]:
    """Resolve every citation of a checked answer to the passage that best supports the statement before it.

    Args:
        index: The snapshot.
        text: An answer that :func:`check_citations` returned.
        citable: What the context holds.

    Returns:
        Citations in the order of the answer; the same row is listed again only with another quote.
    """
    resolver = _Resolver(index, citable)
    found: dict[tuple[str, int, int | None, str], Cited] = {}
    for citation in find_citations(text):
        statement = _statement_before(text, citation.start)
        for number in citation.ids:
            cited = resolver.resolve(text[citation.start : citation.end], citation.dataset, int(number), statement)
            if cited:
                found.setdefault((cited.kind, cited.id, cited.start, cited.quote), cited)
    return list(found.values())


def _statement_before(text: str, end: int) -> str:
    """What a marker stands behind: the last sentence before it, without markers."""
    paragraph = text[:end].rsplit("\n", 1)[-1]
    plain = strip_citations(re.sub(r"\s+(?=\[)", " ", paragraph)).strip()
    spans = sentences(plain)
    return plain[spans[-1][0] : spans[-1][1]] if spans else plain


class _Resolver:
    """Resolves the citations of one answer, reading each row once."""

    def __init__(self, index: Index, citable: Citable) -> None:
        self._index = index
        self._citable = citable
        self._sent_sources = set(citable.get(SOURCES, {}))

    def resolve(self, mark: str, dataset: str, number: int, statement: str) -> Cited | None:
        key = self._citable.get(dataset, {}).get(number)
        if key is None:
            return None
        if dataset == SOURCES:
            return self._in_text_units(mark, dataset, number, key, "", [number], statement)
        if dataset == REPORTS:
            return self._report(mark, number, key, statement)
        title, description, units = self._row(dataset, number)
        return self._in_text_units(mark, dataset, number, key, title, units, f"{statement} {description}")

    def _row(self, dataset: str, number: int) -> tuple[str, str, list[int]]:
        """Title, description and text units of an entity, relationship or claim."""
        if dataset == ENTITIES:
            row = self._one(f"select title, description from entities where human_readable_id = {number}")
            return (
                row.get("title", ""),
                row.get("description", ""),
                self._units("text_unit_entities", "entity", [number]),
            )
        if dataset == RELATIONSHIPS:
            row = self._one(
                f"""select source || ' – ' || target as title, description from relationships
                    where human_readable_id = {number}"""
            )
            units = self._units("relationship_text_units", "relationship", [number])
            return row.get("title", ""), row.get("description", ""), units
        row = self._one(
            f"""select c.subject_id as title, coalesce(c.source_text, c.description) as description,
                t.human_readable_id as unit
                from covariates c left join text_units t on t.id = c.text_unit_id
                where c.human_readable_id = {number}"""
        )
        return row.get("title", ""), row.get("description") or "", [row["unit"]] if row.get("unit") is not None else []

    def _one(self, sql: str) -> Record:
        rows = self._index.rows(sql)
        return rows[0] if rows else {}

    def _units(self, table: str, column: str, numbers: Sequence[int]) -> list[int]:
        """Text units of some rows: those that were sent first, then in the order of the documents."""
        rows = self._index.rows(f"select distinct text_unit from {table} where {column} in ({integers(numbers)})")
        return sorted((r["text_unit"] for r in rows), key=lambda unit: (unit not in self._sent_sources, unit))

    def _report(self, mark: str, number: int, key: str, statement: str) -> Cited | None:
        found = lookups.reports(self._index, [number])
        if not found:
            return None
        content = found[0].content
        start, end = best_sentence(content, statement)
        leading = [c for c in find_citations(content) if c.start == start]  # the marker of the sentence before
        start = leading[-1].end if leading else start
        sentence = strip_citations(content[start:end]).strip()
        own, others = self._units_cited_by(content, start)
        if not own:
            return Cited(mark, KINDS[REPORTS], number, found[0].title, None, None, None, sentence, key, None)
        said = sentence if statement in sentence else f"{statement} {sentence}"
        return self._in_text_units(mark, REPORTS, number, key, found[0].title, own, said, others)

    def _units_cited_by(self, content: str, start: int) -> tuple[list[int], list[int]]:
        """Text units behind the first marker of a report at or after a place, and those behind its other markers."""
        markers: dict[int, list[Citation]] = {}
        for citation in find_citations(content):
            markers.setdefault(citation.start, []).append(citation)
        places = sorted(markers, key=lambda place: (place < start, abs(place - start)))
        units = [self._units_behind(markers[place]) for place in places[:MARKERS]]
        return (units[0], [unit for group in units[1:] for unit in group]) if units else ([], [])

    def _units_behind(self, citations: Sequence[Citation]) -> list[int]:
        """Text units behind the rows that one marker of a report names."""
        units: dict[int, None] = {}
        for citation in citations:
            numbers = [int(i) for i in citation.ids if i.isascii() and i.isdigit()]
            if citation.dataset == SOURCES:
                units |= dict.fromkeys(numbers)
            elif citation.dataset == ENTITIES:
                units |= dict.fromkeys(self._units("text_unit_entities", "entity", numbers))
            elif citation.dataset == RELATIONSHIPS:
                units |= dict.fromkeys(self._units("relationship_text_units", "relationship", numbers))
            elif citation.dataset == CLAIMS:
                units |= dict.fromkeys(unit for number in numbers for unit in self._row(CLAIMS, number)[2])
        return list(units)

    def _in_text_units(
        self,
        mark: str,
        dataset: str,
        number: int,
        key: str,
        title: str,
        units: Sequence[int],
        statement: str,
        others: Sequence[int] = (),
    ) -> Cited:
        """The best sentence of some text units (of others, where these hold no good one), located in its document."""
        best = self._best(units, statement)
        if best is None or (others and best[0] < SUPPORT):
            best = max((b for b in (best, self._best(others, statement)) if b), key=lambda b: b[0], default=None)
        if best is None:
            return Cited(mark, KINDS[dataset], number, title, None, None, None, "", key, None)
        _, unit, start, end = best
        document = lookups.documents(self._index, [unit.document_id]).get(unit.document_id, {})
        span = document_span(unit, start, end)
        return Cited(
            mark,
            KINDS[dataset],
            number,
            title or str(document.get("title", "")),
            document.get("path"),
            span[0] if span else None,
            span[1] if span else None,
            unit.text[start:end],
            key,
            document.get("content_hash"),
        )

    def _best(self, units: Sequence[int], statement: str) -> tuple[float, TextUnit, int, int] | None:
        """The sentence that shares most with a statement: its share, text unit and place in it."""
        wanted = terms(statement)
        best: tuple[float, TextUnit, int, int] | None = None
        for unit in lookups.text_units(self._index, units[:CANDIDATES]):
            start, end = best_sentence(unit.text, statement)
            value = overlap(wanted, terms(unit.text[start:end]))
            if best is None or value > best[0]:
                best = (value, unit, start, end)
        return best


def document_span(unit: TextUnit, start: int, end: int) -> tuple[int, int] | None:
    """Where a piece of a text unit stands in the text of its document.

    Args:
        unit: The text unit; metadata may be written before its part of the document.
        start: First character in the text of the unit.
        end: Character after the last one.

    Returns:
        Characters in the document; None for a piece of the metadata, or where the unit has no known place.
    """
    length = unit.end - unit.start
    metadata = len(unit.text) - length
    if length <= 0 or metadata < 0 or start < metadata:
        return None
    return unit.start + start - metadata, unit.start + end - metadata


def best_sentence(text: str, statement: str) -> tuple[int, int]:
    """The sentence of a text that shares most with a statement; the first of equals."""
    exact = text.find(statement) if statement else -1
    if exact >= 0:
        return exact, exact + len(statement)
    wanted = terms(statement)
    spans = sentences(text) or [(0, len(text))]
    return max(spans, key=lambda span: overlap(wanted, terms(text[span[0] : span[1]])))


class CitationStream:
    """Checks the citations of a text while it is streamed: a marker is held back until it is complete.

    Args:
        citable: What the context holds.
    """

    #: A bracket that is open for longer is no citation.
    MAX_MARKER = 400

    def __init__(self, citable: Citable) -> None:
        self._citable = citable
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take a piece of the answer; returns what may be shown now."""
        self._held += piece
        opened = self._held.rfind("[")
        if opened >= 0 and "]" not in self._held[opened:] and len(self._held) - opened <= self.MAX_MARKER:
            ready, self._held = self._held[:opened], self._held[opened:]
            # The blank before a marker goes with it: it is dropped when the marker is.
            kept = ready.rstrip(" \t")
            self._held = ready[len(kept) :] + self._held
            ready = kept
        else:
            kept = self._held.rstrip(" \t")
            ready, self._held = kept, self._held[len(kept) :]
        return check_citations(ready, self._citable)[0]

    def finish(self) -> str:
        """What is left at the end."""
        rest, self._held = self._held, ""
        return check_citations(rest, self._citable)[0]
