"""Global search: map-reduce over the reports of the whole corpus.

Microsoft GraphRAG's method with one report a branch: where a report is replaced by those of its children, it is not
sent as well. Every batch of reports is read by one map call; the points found are ranked and merged by one reduce call.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphrag_assets.query import lookups
from graphrag_assets.query.context import (
    REPORTS,
    Context,
    Row,
    Section,
    SectionBuilder,
    TokenCounter,
    join,
    section_line,
)
from graphrag_assets.query.history import Turn, history_section
from graphrag_assets.query.index import Index
from graphrag_assets.query.records import Report
from graphrag_assets.query.row_numbers import numbers_of
from graphrag_assets.query.rows import REPORT_COLUMNS, WEIGHTED_REPORT_COLUMNS, report_row, weighted_report_row
from graphrag_assets.storage.tables import REPORT_VECTORS
from graphrag_assets.text.map_answers import Point

#: Further reports that a search by vector brings: some may lie too deep, or be stand-ins for failed ones.
OVERSAMPLE = 20

#: Reports whose texts are fetched at a time.
_PAGE = 64


@dataclass(frozen=True)
class Selected:
    """A report that stands for its branch.

    Args:
        community: Its community.
        weight: Share of the text units that its entities occur in, against the largest one (occurrence weight).
    """

    community: int
    weight: float


def select_reports(index: Index, level: int) -> list[Selected]:
    """The reports that cover the corpus, each entity once: the deepest ones up to a level, branch by branch.

    A community gives way to its children where they are at most at this level, hold all of its members, and each of
    them is covered by usable reports; else its own report stands for the branch.

    Args:
        index: The snapshot.
        level: Deepest level.

    Returns:
        In the order of the reports table: deepest level first, then by community.
    """
    communities = [c for c in lookups.communities(index) if c["level"] <= level]
    usable = lookups.all_usable_reports(index)
    children: dict[int, list[int]] = {}
    size = {c["community"]: c["size"] for c in communities}
    cover: dict[int, list[int]] = {}
    whole: dict[int, bool] = {}
    for c in communities:
        number = c["community"]
        below = children.get(number, [])
        children.setdefault(c["parent"], []).append(number)
        complete = bool(below) and all(whole[b] for b in below) and sum(size[b] for b in below) >= c["size"]
        if complete or number not in usable:
            cover[number] = [n for b in below for n in cover[b]]
        else:
            cover[number] = [number]
        whole[number] = complete or number in usable
    known = set(size)
    roots = [c["community"] for c in communities if c["parent"] not in known]
    chosen = {n for root in roots for n in cover[root]}
    return weighted(index, chosen)


def weighted(index: Index, communities: set[int]) -> list[Selected]:
    """Reports with their occurrence weights, in the order of the reports table: deepest level first, then by community."""
    rows = [c for c in lookups.communities(index) if c["community"] in communities]
    weights = _occurrence_weights(index, communities)
    return [Selected(r["community"], weights.get(r["community"], 0.0)) for r in rows]


def _occurrence_weights(index: Index, communities: set[int]) -> dict[int, float]:
    held = lookups.occurrences_of(index, sorted(communities))
    most = max(held.values(), default=0) or 1
    return {community: count / most for community, count in held.items()}


def build_batches(
    index: Index,
    selected: Sequence[Selected],
    max_tokens: int,
    seed: int,
    tokenizer: TokenCounter,
    history: Sequence[Turn] = (),
    max_turns: int = 5,
) -> list[Context]:
    """Spread reports over map calls.

    Reports are shuffled with the seed, so that no call sees one part of the corpus only, and packed in that order;
    inside a batch the ones that occur most, then the highest ranked, stand first. A report that is longer than a whole
    batch is cut to fit: here no report may be skipped.

    Args:
        index: The snapshot.
        selected: Reports, in the order of the table.
        max_tokens: Tokens of a batch, conversation history included.
        seed: Of the shuffle.
        tokenizer: Counts.
        history: Turns of the conversation.
        max_turns: User turns that are used.
    """
    spoken = history_section(history, max_turns, tokenizer, max_tokens // 2)
    budget = max_tokens - (join([spoken], tokenizer).tokens + 1 if spoken else 0)
    shuffled = list(selected)
    random.Random(seed).shuffle(shuffled)
    weight = {s.community: s.weight for s in shuffled}

    def new_builder() -> SectionBuilder:
        return SectionBuilder(REPORTS, WEIGHTED_REPORT_COLUMNS, tokenizer, budget)

    batches: list[tuple[SectionBuilder, list[Report]]] = [(new_builder(), [])]
    cut = 0
    for first in range(0, len(shuffled), _PAGE):
        for report in lookups.reports(index, [s.community for s in shuffled[first : first + _PAGE]]):
            if not batches[-1][0].add(weighted_report_row(report, weight[report.number])):
                if batches[-1][1]:
                    batches.append((new_builder(), []))
                builder = batches[-1][0]
                if not builder.add(weighted_report_row(report, weight[report.number])):
                    report = _cut(report, weight[report.number], builder.room, tokenizer)
                    cut += 1
                    if not builder.add(weighted_report_row(report, weight[report.number])):
                        continue  # a batch too small for a row without text
            batches[-1][1].append(report)
    contexts = []
    for builder, batch in batches:
        if batch:
            places = range(len(batch))
            order = sorted(places, key=lambda i: (-weight[batch[i].number], -batch[i].rank, batch[i].number))
            # What did not fit stands in the next batch: nothing is left out.
            section = replace(builder.section(order), left_out=0, too_long=())
            contexts.append(join([spoken, section], tokenizer, {"reports": len(batch), "reports_cut": cut}))
    return contexts


def _cut(report: Report, weight: float, room: int, tokenizer: TokenCounter) -> Report:
    """Shorten a report until its row fits; quoting may need some tokens more than the text, so try a few lengths."""
    size = room
    while size > 0:
        content = tokenizer.truncate(report.content, size)
        shorter = Report(report.number, report.id, report.title, content, report.level, report.rank)
        over = tokenizer.count(section_line(weighted_report_row(shorter, weight).cells)) - room
        if over <= 0:
            return shorter
        size -= over
    return Report(report.number, report.id, "", "", report.level, report.rank)


def nearest_reports(
    index: Index,
    vector: Sequence[float],
    k: int,
    communities: Sequence[int] | None,
    level: int,
    bonus: Mapping[int, float] | None = None,
) -> list[tuple[Report, float]]:
    """The k reports nearest to a question.

    Args:
        index: The snapshot.
        vector: Embedding of the question.
        k: Reports wanted.
        communities: Reports that may be returned; None: all up to the level.
        level: Deepest level.
        bonus: What is added to the similarity of a report before the best are taken, by community.

    Returns:
        (report, cosine similarity), best first.
    """
    if bonus:
        near = nearest_communities(index, vector, index.count("community_reports"), communities, level)
        near = sorted(near, key=lambda hit: -(hit[1] + bonus.get(hit[0], 0.0)))[:k]
    else:
        near = nearest_communities(index, vector, k, communities, level)
    found = {r.number: r for r in lookups.reports(index, [number for number, _ in near])}
    return [(found[number], score) for number, score in near if number in found]


def nearest_communities(
    index: Index, vector: Sequence[float], k: int, communities: Sequence[int] | None, level: int
) -> list[tuple[int, float]]:
    """The communities of the k reports nearest to a question, without reading a report; see :func:`nearest_reports`."""
    if not index.count("community_reports"):
        return []
    wanted = None if communities is None else set(communities)

    def usable(found: Sequence[int]) -> set[int]:
        levels = lookups.levels_of_usable_reports(index, found)
        return {c for c, own in levels.items() if (own <= level if wanted is None else c in wanted)}

    vectors = index.vectors(REPORT_VECTORS)
    hits = vectors.nearest(vector, min(k + OVERSAMPLE, vectors.described.rows))
    number = numbers_of(index, "community_reports", [hit.id for hit in hits])
    kept = usable(list(number.values()))
    near = [(number[hit.id], hit.score) for hit in hits if number.get(hit.id) in kept]
    if len(near) >= k or len(hits) < k + OVERSAMPLE:
        return near[:k]
    allowed = lookups.ids_of_reports(index, usable(sorted(wanted or lookups.all_usable_reports(index))))
    return [(allowed[hit.id], hit.score) for hit in vectors.nearest(vector, k, allowed=allowed.keys())]


def reports_context(
    found: Sequence[tuple[Report, float]], max_tokens: int, tokenizer: TokenCounter, spoken: Section | None = None
) -> Context:
    """A context of reports, in the order given, in at most ``max_tokens`` tokens.

    Args:
        found: Reports with their scores.
        max_tokens: Tokens of the context.
        tokenizer: Counts.
        spoken: The conversation so far, which is put first.
    """
    budget = max_tokens - (join([spoken], tokenizer).tokens + 1 if spoken else 0)
    builder = SectionBuilder(REPORTS, REPORT_COLUMNS, tokenizer, budget)
    builder.fill(report_row(report) for report, _ in found)
    notes: dict[str, object] = {"reports": [{"id": r.number, "score": round(s, 4)} for r, s in found]}
    return join([spoken, builder.section()], tokenizer, notes)


def rank_points(answers: Sequence[Sequence[Point]]) -> list[tuple[int, Point]]:
    """Points that help, most important first; equal ones in the order of the batches.

    Returns:
        (number of the batch from 1, point).
    """
    points = [(i, point) for i, answer in enumerate(answers, start=1) for point in answer if point.score > 0]
    return sorted(points, key=lambda pair: -pair[1].score)


def reduce_text(points: Sequence[tuple[int, Point]], max_tokens: int, tokenizer: TokenCounter) -> tuple[str, int]:
    """What the reduce call reads: whole points within the budget; one that does not fit is skipped.

    Returns:
        Text, and the number of points left out.
    """
    blocks: list[str] = []
    used = 0
    for analyst, point in points:
        block = f"----Analyst {analyst}----\nImportance Score: {point.score:g}\n{point.description}\n"
        size = tokenizer.count(block + "\n")
        if used + size <= max_tokens:
            blocks.append(block)
            used += size
    return "\n".join(blocks), len(points) - len(blocks)


def citable_reports(contexts: Sequence[Context]) -> dict[int, str]:
    """Number -> key of all reports in some contexts."""
    rows: list[Row] = [row for context in contexts for row in context.rows(REPORTS)]
    return {row.number: row.key for row in rows}
