"""Writing a report on every community with a language model, bottom-up.

A report starts as soon as the reports on all children of its community are done, whatever the rest of their level does.
What it is written from is a function of the tables and of those reports alone, so that any concurrency gives the same
rows. A report that cannot be written is replaced by a stand-in made of the members' own descriptions: a parent can go
on, and nothing is missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from graphrag_assets import ids
from graphrag_assets.indexing.asking import AnswerError, Ask
from graphrag_assets.indexing.conflicts import Conflict
from graphrag_assets.indexing.report_answers import REPORT_SCHEMA, Finding, Report, parse_report
from graphrag_assets.indexing.report_context import CountTokens, ReportContext, build_context
from graphrag_assets.indexing.report_parts import (
    cite_full_ids,
    conflict_finding,
    in_table_order,
    join_names,
    map_report,
    mentions,
    rating,
    report_row,
)
from graphrag_assets.text.citations import format_citation
from graphrag_assets.text.names import readable
from graphrag_assets.text.templates import render

Row = Mapping[str, Any]

#: Findings of a stand-in, one per leading member; all further members share one more.
_STAND_IN_FINDINGS = 9

#: How often a context is halved.
MOST_HALVINGS = 3


@dataclass(frozen=True)
class Reports:
    """Result of :func:`write_reports`.

    Args:
        rows: Rows of the community_reports table in their order.
        written: Reports that the model wrote.
        reused: Reports carried over, since what they were written from did not change.
        failed: Stand-ins.
        passing: Ids of those among them that stand in for a reason that may pass.
        substituted: Sub-communities that stood in a context by their reports.
        trimmed: Rows that were left out of contexts, by section.
        dropped_citations: Cited ids that the model made up.
        added_conflicts: Findings on contradictions that the model did not mention.
        smaller: Reports that were written from a smaller context, since the whole was too long for the model.
    """

    rows: list[dict[str, Any]]
    written: int = 0
    reused: int = 0
    failed: int = 0
    passing: frozenset[str] = frozenset()
    substituted: int = 0
    trimmed: Mapping[str, int] = field(default_factory=dict)
    dropped_citations: int = 0
    added_conflicts: int = 0
    smaller: int = 0


async def write_reports(
    communities: Sequence[Row],
    entities: Sequence[Row],
    relationships: Sequence[Row],
    claims: Sequence[Row],
    conflicts: Sequence[Conflict],
    *,
    ask: Ask,
    prompt: str,
    max_length: int,
    max_input_length: int,
    count_tokens: CountTokens,
    text_units: int,
    model: str = "",
    previous: Mapping[str, Row] | None = None,
    concurrency: int = 64,
    on_report: Callable[[], None] | None = None,
) -> Reports:
    """Report on all communities.

    Args:
        communities: Rows of the communities table.
        entities: Rows with id, title, description, degree and text_unit_ids, in the order of their table.
        relationships: Rows with id, source, target and description.
        claims: Rows of the covariates table, in its order.
        conflicts: Contradictions between sources, most certain first.
        ask: Asks the model.
        prompt: Prompt with {input_text} and {max_report_length}.
        max_length: Length asked for, in words.
        max_input_length: Most tokens of a context.
        count_tokens: Counts the tokens of a text.
        text_units: Number of text units of the corpus.
        model: Identity of the model, where a change of it makes reports stale.
        previous: Rows of an earlier index by report id; those whose input is the same are carried over.
        concurrency: Most contexts held in memory at once; more than the calls that the gateway allows.
        on_report: Called after each report.

    Returns:
        One row per community, and statistics.

    Raises:
        Exception: What ``ask`` raises besides AnswerError; the other calls are cancelled then.
    """
    writer = _Writer(
        _Sources.of(communities, entities, relationships, claims, conflicts, text_units),
        ask=ask,
        prompt=prompt,
        model=model,
        max_length=max_length,
        max_input_length=max_input_length,
        count_tokens=count_tokens,
        previous=previous or {},
    )
    done: dict[int, asyncio.Task[_Written]] = {}
    slots = asyncio.Semaphore(concurrency)

    async def write(community: Row) -> _Written:
        sub_reports = [(await done[child]).row for child in community["children"]]
        async with slots:
            written = await writer.write(community, sub_reports)
        if on_report:
            on_report()
        return written

    deepest_first = sorted(communities, key=lambda row: (-row["level"], row["community"]))
    for community in deepest_first:
        done[community["community"]] = asyncio.create_task(write(community))
    try:
        results = await asyncio.gather(*done.values())
    except BaseException:
        for task in done.values():
            task.cancel()
        await asyncio.gather(*done.values(), return_exceptions=True)
        raise
    return _summary(results)


@dataclass(frozen=True)
class _Written:
    """A report and what became of its context, of which nothing else is kept: there is one for every community."""

    row: dict[str, Any]
    reused: bool
    trimmed: Mapping[str, int]
    substituted: int
    dropped_citations: int = 0
    added_conflicts: int = 0
    passing: bool = False
    smaller: bool = False


def _summary(results: Sequence[_Written]) -> Reports:
    trimmed: Counter[str] = Counter()
    for result in results:
        trimmed.update(result.trimmed)
    failed = sum(result.row["status"] != "ok" for result in results)
    reused = sum(result.reused for result in results)
    return Reports(
        in_table_order([result.row for result in results]),
        written=len(results) - failed - reused,
        reused=reused,
        failed=failed,
        passing=frozenset(result.row["id"] for result in results if result.passing),
        substituted=sum(result.substituted for result in results),
        trimmed=dict(sorted(trimmed.items())),
        dropped_citations=sum(result.dropped_citations for result in results),
        added_conflicts=sum(result.added_conflicts for result in results),
        smaller=sum(result.smaller for result in results),
    )


@dataclass(frozen=True)
class _Sources:
    """The tables, looked up by community."""

    communities: Mapping[int, Row]
    entities: Mapping[str, Row]
    relationships: Mapping[str, Row]
    claims: Mapping[str, Sequence[tuple[int, Row]]]
    conflicts: Mapping[str, Sequence[tuple[int, Conflict]]]
    entity_order: Mapping[str, int]
    relationship_order: Mapping[str, int]
    degrees: int
    text_units: int

    @classmethod
    def of(
        cls,
        communities: Sequence[Row],
        entities: Sequence[Row],
        relationships: Sequence[Row],
        claims: Sequence[Row],
        conflicts: Sequence[Conflict],
        text_units: int,
    ) -> _Sources:
        """Index the tables once; positions keep their order."""
        claims_of: dict[str, list[tuple[int, Row]]] = defaultdict(list)
        for i, claim in enumerate(claims):
            claims_of[claim["subject_id"]].append((i, claim))
        conflicts_of: dict[str, list[tuple[int, Conflict]]] = defaultdict(list)
        for i, conflict in enumerate(conflicts):
            conflicts_of[conflict.title].append((i, conflict))
        return cls(
            {row["community"]: row for row in communities},
            {row["id"]: row for row in entities},
            {row["id"]: row for row in relationships},
            claims_of,
            conflicts_of,
            {row["id"]: i for i, row in enumerate(entities)},
            {row["id"]: i for i, row in enumerate(relationships)},
            sum(row["degree"] for row in entities),
            text_units,
        )

    def members(self, community: Row) -> list[Row]:
        """Entities of a community in the order of their table."""
        return [self.entities[i] for i in sorted(community["entity_ids"], key=lambda i: self.entity_order[i])]

    def inside(self, community: Row) -> list[Row]:
        """Relationships of a community in the order of their table."""
        return [
            self.relationships[i]
            for i in sorted(community["relationship_ids"], key=lambda i: self.relationship_order[i])
        ]

    def about(self, members: Iterable[Row]) -> tuple[list[Row], list[Conflict]]:
        """Claims and contradictions about entities, each in its order."""
        titles = [row["title"] for row in members]
        claims = sorted((item for title in titles for item in self.claims.get(title, ())), key=lambda item: item[0])
        conflicts = sorted(
            (item for title in titles for item in self.conflicts.get(title, ())), key=lambda item: item[0]
        )
        return [claim for _, claim in claims], [conflict for _, conflict in conflicts]

    def titles(self, community: int) -> list[str]:
        """Titles of the members of a community."""
        return [self.entities[i]["title"] for i in self.communities[community]["entity_ids"]]


@dataclass(frozen=True)
class _Writer:
    """Writes one report at a time."""

    sources: _Sources
    ask: Ask
    prompt: str
    model: str
    max_length: int
    max_input_length: int
    count_tokens: CountTokens
    previous: Mapping[str, Row]

    async def write(self, community: Row, sub_reports: Sequence[Row]) -> _Written:
        """Write, carry over or stand in for the report on a community whose children have theirs."""
        members, inside = self.sources.members(community), self.sources.inside(community)
        claims, conflicts = self.sources.about(members)
        build = partial(
            build_context,
            members,
            inside,
            claims,
            sub_reports,
            conflicts,
            sub_members={child: self.sources.titles(child) for child in community["children"]},
            count_tokens=self.count_tokens,
        )
        context = build(max_tokens=self.max_input_length)
        input_hash = ids.digest_json([self.prompt, self.model, self.max_length, context.text, context.ids])
        fitted = (context.trimmed, len(context.substituted))
        earlier = self.previous.get(ids.report_id(community["id"], input_hash))
        if earlier is not None and earlier["status"] == "ok":
            return _Written(_carried_over(earlier, community), True, *fitted)
        try:
            report, context, smaller = await self._ask_smaller(community, context, build)
        except AnswerError as error:
            stand_in = self._stand_in(members, inside, conflicts, error.reason)
            row = report_row(
                community,
                stand_in,
                input_hash=input_hash,
                extractive=True,
                status="failed",
                reason=f"{error.status}: {error.reason}",
            )
            return _Written(row, False, *fitted, passing=error.passing)
        report, dropped = _with_full_ids(report, context)
        missing = [c for c in context.conflicts if not mentions(c, report.findings)]
        told = [conflict_finding(conflict, readable(conflict.title)) for conflict in missing]
        report = replace(report, findings=(*report.findings, *told))
        row = report_row(community, report, input_hash=input_hash, extractive=False)
        return _Written(row, False, *fitted, dropped, len(told), smaller=smaller)

    async def _ask_smaller(
        self, community: Row, context: ReportContext, build: Callable[..., ReportContext]
    ) -> tuple[Report, ReportContext, bool]:
        """A report, its context, and whether that is a smaller one.

        It is halved, with what matters least left out, where the context is longer than the model can read, or its answer
        was cut.
        """
        for halvings in range(MOST_HALVINGS):
            try:
                return await self._ask(community, context, smaller=True), context, halvings > 0
            except AnswerError as error:
                if not error.too_long:
                    raise
            half = build(max_tokens=self.count_tokens(context.text) // 2)
            if not half.text:
                break
            context = half
        return await self._ask(community, context), context, True

    async def _ask(self, community: Row, context: ReportContext, *, smaller: bool = False) -> Report:
        if not context.text:
            raise AnswerError(
                "failed",
                f"no row of community {community['community']} fits into {self.max_input_length} tokens; raise "
                f"community_reports.max_input_length",
                attempts=0,
            )
        content = render(self.prompt, {"input_text": context.text, "max_report_length": str(self.max_length)})
        messages = [{"role": "user", "content": content}]
        reply = await self.ask(messages, parse_report, schema=REPORT_SCHEMA, row=community["id"], smaller=smaller)
        return reply.value

    def _stand_in(
        self, members: Sequence[Row], inside: Sequence[Row], conflicts: Sequence[Conflict], reason: str
    ) -> Report:
        """A report that says that it is none, and lists what a written one would have been written from."""
        degrees = Counter(title for row in inside for title in (row["source"], row["target"]))
        leading = sorted(members, key=lambda row: (-degrees[row["title"]], row["title"]))
        names = [readable(row["title"]) for row in leading]
        units = {unit for row in members for unit in row["text_unit_ids"]}
        value, explanation = rating(
            sum(row["degree"] for row in members), self.sources.degrees, len(units), self.sources.text_units
        )
        findings = [_member_finding(row) for row in leading[:_STAND_IN_FINDINGS]]
        if rest := leading[_STAND_IN_FINDINGS:]:
            listed = " ".join(_member_finding(row).explanation for row in rest)
            findings.append(Finding(summary="Further members", explanation=listed))
        findings += [conflict_finding(conflict, readable(conflict.title)) for conflict in conflicts]
        return Report(
            title=join_names(names[:3]),
            summary=f"No report could be written ({reason}). The {len(names)} members are {join_names(names)}.",
            findings=tuple(findings),
            rating=value,
            rating_explanation=explanation,
        )


def _member_finding(row: Row) -> Finding:
    name = readable(row["title"])
    text = (row["description"] or "").strip() or f"{name} has no description."
    return Finding(summary=name, explanation=f"{text} {format_citation([('Entities', [row['id']], False)])}")


def _with_full_ids(report: Report, context: ReportContext) -> tuple[Report, int]:
    """The report with full ids in its citations, and how many cited ids were made up."""
    dropped = 0

    def rewrite(text: str) -> str:
        nonlocal dropped
        text, count = cite_full_ids(text, context.ids)
        dropped += count
        return text

    return map_report(report, rewrite), dropped


def _carried_over(earlier: Row, community: Row) -> dict[str, Any]:
    """An earlier row with the numbers that the community has now."""
    columns = ("community", "level", "parent", "children", "period", "size")
    return {**earlier, "human_readable_id": community["community"], **{name: community[name] for name in columns}}
