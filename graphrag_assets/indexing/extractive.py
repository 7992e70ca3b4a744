"""Descriptions and reports without a language model: the sentences of the sources that say most, with their citations.

Used by the fast method, and where a written report failed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from graphrag_assets import ids
from graphrag_assets.indexing.conflicts import Conflict
from graphrag_assets.indexing.ranking import Ranked
from graphrag_assets.indexing.report_answers import Finding, Report
from graphrag_assets.indexing.report_parts import conflict_finding, in_table_order, join_names, rating, report_row
from graphrag_assets.indexing.statements import Statement, Statements, content_words
from graphrag_assets.text.citations import format_citation

Row = Mapping[str, Any]

#: Findings of a report beside those on contradictions.
_MOST_FINDINGS = 10
#: Contradictions that a report tells one by one; it sums up further ones.
_MOST_CONFLICTS = 5
_SENTENCES_OF_FINDING = 3
_SENTENCES_OF_SUMMARY = 3
#: Findings that one entity may lead, so that a hub does not fill the report.
_MOST_OF_ONE = 3
#: What introduces somebody: "Femi Adelaro, a research student", "Nessa Tull, the branch secretary", "X is the …".
_INTRODUCTION = (
    r"(?:,| \([^)]{1,60}\),?)? (?:is|was|are|were) (?:an?|the|one of)\b|, (?:an?|the|who|which|then|now)?\b ?(?=[a-z])"
)


# --- descriptions ----------------------------------------------------------------------------------------------------


def describe(descriptions: Sequence[str], max_sentences: int = 3, *, name: str = "") -> str:
    """Merge the sentences that mention an entity or a relationship into one description.

    Args:
        descriptions: Sentences.
        max_sentences: Most sentences of the result.
        name: Name of what is described; sentences that introduce it come first.

    Returns:
        The sentences that say most, best first; empty where there are none.
    """
    texts = list(dict.fromkeys(text for d in descriptions if (text := " ".join(d.split()))))
    statements = [Statement(text, "", "", 0, (), True) for text in texts]
    return _description(statements, {}, max_sentences, name)


def entity_descriptions(statements: Statements, titles: Iterable[str], max_sentences: int = 3) -> dict[str, str]:
    """Describe entities by the sentences that name them.

    Args:
        statements: Sentences of the corpus.
        titles: Entities to describe.
        max_sentences: Most sentences of a description.

    Returns:
        Description by title; empty where no sentence names the entity.
    """
    by_title = statements.by_title
    return {
        title: _description(by_title.get(title, ()), statements.weights, max_sentences, statements.name(title))
        for title in titles
    }


def relationship_descriptions(
    statements: Statements, pairs: Iterable[tuple[str, str]], max_sentences: int = 2
) -> dict[tuple[str, str], str]:
    """Describe relationships by the sentences that name both ends.

    Args:
        statements: Sentences of the corpus.
        pairs: Titles of source and target.
        max_sentences: Most sentences of a description.

    Returns:
        Description by pair; empty where no sentence names both.
    """
    by_title = statements.by_title
    result = {}
    for source, target in pairs:
        few, other = sorted((source, target), key=lambda title: (len(by_title.get(title, ())), title))
        both = [s for s in by_title.get(few, ()) if other in s.titles]
        result[source, target] = _description(both, statements.weights, max_sentences, "")
    return result


def _description(statements: Sequence[Statement], weights: Mapping[str, float], max_sentences: int, name: str) -> str:
    pool = [s for s in statements if s.complete] or list(statements)
    if len(pool) <= 1:
        return pool[0].text if pool and max_sentences > 0 else ""
    ranked = Ranked(pool, weights)
    introduces = re.compile(re.escape(name) + f"(?:{_INTRODUCTION})") if name else None
    chosen: list[int] = []
    if introduces:
        introducing = [i for i, s in enumerate(ranked.statements) if introduces.search(s.text)]
        chosen = ranked.select(1, among=introducing)
    chosen += ranked.select(max_sentences - len(chosen), seen=chosen)
    return " ".join(ranked.statements[i].text for i in chosen)


# --- reports ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """What all extractive reports of an index draw from.

    Args:
        statements: Sentences of the corpus.
        degrees: Degree of each entity, by title.
        text_units: Number of text units of the corpus.
    """

    statements: Statements
    degrees: Mapping[str, int]
    text_units: int


def extractive_reports(
    communities: Sequence[Row],
    entities: Sequence[Row],
    relationships: Sequence[Row],
    statements: Statements,
    conflicts: Sequence[Conflict] = (),
    *,
    text_units: int,
) -> list[dict[str, Any]]:
    """Report on all communities without a model.

    Args:
        communities: Rows of the communities table.
        entities: Rows with id, title, degree and text_unit_ids.
        relationships: Rows with id, source, target and weight.
        statements: Sentences of the corpus.
        conflicts: Contradictions, most certain first.
        text_units: Number of text units of the corpus.

    Returns:
        Rows of the community_reports table in their order. Each report draws on the members of its community, so that
        no report waits for another.
    """
    corpus = Corpus(statements, {row["title"]: row["degree"] for row in entities}, text_units)
    entity_of = {row["id"]: row for row in entities}
    relationship_of = {row["id"]: row for row in relationships}
    conflicts_of: dict[str, list[Conflict]] = defaultdict(list)
    for conflict in conflicts:
        conflicts_of[conflict.title].append(conflict)
    rows = []
    for community in communities:
        members = [entity_of[i] for i in community["entity_ids"]]
        inside = [relationship_of[i] for i in community["relationship_ids"]]
        found = [c for row in members for c in conflicts_of.get(row["title"], ())]
        found.sort(key=lambda c: (-c.score, c.kind, c.title, c.first.text, c.second.text))
        report = extractive_report(members, inside, found, corpus)
        input_hash = ids.digest_json(
            [report.title, report.summary, [[f.summary, f.explanation] for f in report.findings]]
        )
        rows.append(report_row(community, report, input_hash=input_hash, extractive=True))
    return in_table_order(rows)


def extractive_report(
    members: Sequence[Row], relationships: Sequence[Row], conflicts: Sequence[Conflict], corpus: Corpus
) -> Report:
    """Report on one community in sentences of its sources.

    Args:
        members: Its entities (id, title, degree, text_unit_ids).
        relationships: Relationships inside it (id, source, target, weight).
        conflicts: Contradictions about its entities, most certain first.
        corpus: Sentences and totals.

    Returns:
        A report: title from the leading members, a summary of the sentences that say most, findings by theme (an entity
        or a pair) with verbatim sentences that cite their sources, and the contradictions.
    """
    community = _Community.of(members, relationships, corpus)
    units = {unit for row in members for unit in row["text_unit_ids"]}
    degrees = sum(corpus.degrees.get(row["title"], 0) for row in members)
    value, reason = rating(degrees, sum(corpus.degrees.values()), len(units), corpus.text_units)
    told = _conflict_findings(conflicts, corpus.statements)
    return Report(
        title=join_names([corpus.statements.name(title) for title in community.leading(3)]),
        summary=community.summary(),
        findings=(*community.findings(), *told),
        rating=value,
        rating_explanation=reason,
    )


def _conflict_findings(conflicts: Sequence[Conflict], statements: Statements) -> list[Finding]:
    """A finding for each of the most certain contradictions, and one that says what the others are about."""
    told = [conflict_finding(c, statements.name(c.title)) for c in conflicts[:_MOST_CONFLICTS]]
    if rest := conflicts[_MOST_CONFLICTS:]:
        names = sorted({statements.name(c.title) for c in rest})
        units = list(dict.fromkeys(side.text_unit_id for c in rest for side in (c.first, c.second)))
        marker = format_citation([("Sources", units[:5], len(units) > 5)])
        told.append(
            Finding(f"{len(rest)} more disagreements of sources", f"They concern {join_names(names)}. {marker}")
        )
    return told


@dataclass(frozen=True)
class _Theme:
    """What a finding is about: one entity, or a pair with its relationship and the sentences that name both."""

    titles: tuple[str, ...]
    relationship_id: str = ""
    together: int = 0


@dataclass(frozen=True)
class _Community:
    """A community with its ranked sentences."""

    entity_ids: Mapping[str, str]
    order: tuple[str, ...]
    pairs: tuple[_Theme, ...]
    ranked: Ranked
    corpus: Corpus

    @classmethod
    def of(cls, members: Sequence[Row], relationships: Sequence[Row], corpus: Corpus) -> _Community:
        """Rank members by relationships inside and mentions, pairs by sentences that name both, and sentences."""
        statements = corpus.statements
        titles = {row["title"] for row in members}
        inside = Counter(title for row in relationships for title in (row["source"], row["target"]))
        pool = {s.order: s for title in titles for s in statements.by_title.get(title, ())}
        named = Counter(title for s in pool.values() for title in s.titles)
        together: Counter[tuple[str, str]] = Counter()
        wanted = {(row["source"], row["target"]) for row in relationships}
        for statement in pool.values():
            present = [title for title in statement.titles if title in titles]
            together.update(p for a in present for b in present if (p := (a, b)) in wanted)
        strongest = sorted(
            relationships, key=lambda r: (-together[r["source"], r["target"]], -r["weight"], r["source"], r["target"])
        )
        candidates = [pool[order] for order in sorted(pool)]
        complete = [s for s in candidates if s.complete]
        return cls(
            {row["title"]: row["id"] for row in members},
            tuple(sorted(titles, key=lambda title: (-inside[title] * (1 + named[title]), -named[title], title))),
            tuple(_Theme(p, r["id"], n) for r in strongest if (n := together[p := (r["source"], r["target"])])),
            Ranked(complete or candidates, statements.weights, titles, statements.first_of_document),
            corpus,
        )

    def leading(self, count: int) -> list[str]:
        """The leading members, without two whose names say the same (Aldous, Margit Aldous)."""
        chosen: list[str] = []
        for title in self.order:
            words = set(content_words(title))
            if not any(words <= (other := set(content_words(c))) or other <= words for c in chosen):
                chosen.append(title)
            if len(chosen) == count:
                break
        return chosen or list(self.order[:1])

    def summary(self) -> str:
        """The sentences that say most about the community, in the order of the corpus."""
        chosen = self.ranked.select(_SENTENCES_OF_SUMMARY)
        if not chosen:
            names = [self.corpus.statements.name(title) for title in self.order[:10]]
            return f"A group of {len(self.order)} entities: {join_names(names)}."
        return " ".join(self.ranked.statements[i].text for i in sorted(chosen))

    def findings(self) -> Iterator[Finding]:
        """Findings by theme: pairs that several sentences name, members that no such pair brought up, other pairs."""
        positions: dict[str, list[int]] = defaultdict(list)
        for i, statement in enumerate(self.ranked.statements):
            for title in statement.titles:
                positions[title].append(i)
        seen: list[int] = []
        led: Counter[str] = Counter()
        count = 0
        close = [theme for theme in self.pairs if theme.together > 1]
        single = [theme for theme in self.pairs if theme.together == 1]
        for theme in (*close, *(_Theme((title,)) for title in self.order), *single):
            if count == _MOST_FINDINGS:
                return
            if any(led[title] >= _MOST_OF_ONE for title in theme.titles) or (
                len(theme.titles) == 1 and led[theme.titles[0]]
            ):
                continue
            among = set(positions[theme.titles[0]]).intersection(*(positions[title] for title in theme.titles[1:]))
            chosen = self.ranked.select(_SENTENCES_OF_FINDING, among=among, seen=seen)
            if chosen:
                seen += chosen
                led.update(theme.titles)
                count += 1
                yield self._finding(theme, sorted(chosen))

    def _finding(self, theme: _Theme, positions: Sequence[int]) -> Finding:
        """Sentences of a theme; sentences of one text unit that follow each other share a citation."""
        chosen = [self.ranked.statements[i] for i in positions]
        last = [(a.text_unit_id != b.text_unit_id) for a, b in pairwise(chosen)] + [True]
        parts = []
        for statement, closes in zip(chosen, last, strict=True):
            parts.append(statement.text)
            if closes:
                groups = [("Sources", [statement.text_unit_id], False)]
                if statement is chosen[-1]:
                    groups.append(("Entities", [self.entity_ids[title] for title in theme.titles], False))
                    groups.append(("Relationships", [theme.relationship_id] if theme.relationship_id else [], False))
                parts.append(format_citation(groups))
        names = [self.corpus.statements.name(title) for title in theme.titles]
        return Finding(summary=join_names(names), explanation=" ".join(parts))
