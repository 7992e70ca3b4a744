"""How records become rows of a context: the columns are those of Microsoft GraphRAG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from graphrag_assets.query import lookups
from graphrag_assets.query.context import SOURCES, Row, SectionBuilder, TokenCounter, number_text
from graphrag_assets.query.index import Index
from graphrag_assets.query.records import Claim, Entity, Relationship, Report, TextUnit

REPORT_COLUMNS = ("id", "title", "content")
WEIGHTED_REPORT_COLUMNS = ("id", "title", "occurrence weight", "content", "rank")
ENTITY_COLUMNS = ("id", "entity", "description", "number of relationships")
RELATIONSHIP_COLUMNS = ("id", "source", "target", "description", "weight", "links")
CLAIM_COLUMNS = ("id", "entity", "object_id", "status", "start_date", "end_date", "description")
SOURCE_COLUMNS = ("id", "text")

#: Text units whose sizes are read at a time while a section is filled.
_PAGE = 64


def report_row(report: Report) -> Row:
    """A report as a row."""
    return Row(report.number, report.id, (str(report.number), report.title, report.content), report.content)


def weighted_report_row(report: Report, weight: float) -> Row:
    """A report with its occurrence weight as a row."""
    cells = (str(report.number), report.title, number_text(weight), report.content, number_text(report.rank))
    return Row(report.number, report.id, cells, report.content)


def entity_row(entity: Entity) -> Row:
    """An entity as a row."""
    cells = (str(entity.number), entity.title, entity.description, str(entity.degree))
    return Row(entity.number, entity.id, cells, entity.description)


def relationship_row(relationship: Relationship) -> Row:
    """A relationship as a row."""
    r = relationship
    links = "" if r.links is None else str(r.links)
    return Row(
        r.number, r.id, (str(r.number), r.source, r.target, r.description, number_text(r.weight), links), r.description
    )


def claim_row(claim: Claim) -> Row:
    """A claim as a row."""
    c = claim
    cells = (str(c.number), c.subject, c.object, c.status, c.start_date, c.end_date, c.description)
    return Row(c.number, c.id, tuple(cell or "" for cell in cells), c.description)


def source_row(unit: TextUnit) -> Row:
    """A text unit as a row."""
    return Row(unit.number, unit.id, (str(unit.number), unit.text), unit.text)


def fill_sources(index: Index, candidates: Sequence[int], tokenizer: TokenCounter, budget: int) -> SectionBuilder:
    """Fill the Sources section from candidates, fetching no more texts than can still fit.

    Once the section has rows, it ends with the first page of candidates of which none fits.

    Args:
        index: The snapshot.
        candidates: Numbers of text units, best first; the tokens of the table tell which texts cannot fit.
        tokenizer: Counts.
        budget: Tokens of the section.
    """
    builder = SectionBuilder(SOURCES, SOURCE_COLUMNS, tokenizer, budget)
    waiting = list(candidates)
    while waiting:
        page, waiting = waiting[:_PAGE], waiting[_PAGE:]
        room = builder.room
        _fill_page(index, lookups.with_tokens(index, page), builder)
        if builder.tokens and builder.room == room:
            builder.left_out += len(waiting)
            break
    return builder


def _fill_page(index: Index, page: Sequence[tuple[int, int]], builder: SectionBuilder) -> None:
    """Fill in the texts that fit: as many at a time as fit by the tokens that the table tells, then those after them."""
    while page:
        fitting = [(number, tokens) for number, tokens in page if tokens <= builder.room]
        builder.left_out += len(page) - len(fitting)
        sums = accumulate(tokens for _, tokens in fitting)
        few = max(1, sum(1 for tokens in sums if tokens <= builder.room))
        builder.fill(source_rows(index, [number for number, _ in fitting[:few]]))
        page = fitting[few:]


def source_rows(index: Index, numbers: Sequence[int]) -> Iterator[Row]:
    """Rows of text units in the order asked for."""
    units: Iterable[TextUnit] = lookups.text_units(index, numbers)
    return (source_row(unit) for unit in units)
