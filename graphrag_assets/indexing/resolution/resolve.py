"""Entity resolution as a whole: profiles of titles in, canonical titles and their evidence out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from graphrag_assets.indexing.asking import Ask
from graphrag_assets.indexing.resolution.candidates import Candidates, find_candidates, known_words
from graphrag_assets.indexing.resolution.corpus import Corpus
from graphrag_assets.indexing.resolution.decisions import Ambiguity, Locality, Pair, resolve_ambiguity, star_groups
from graphrag_assets.indexing.resolution.judgement import Judgement, turned
from graphrag_assets.indexing.resolution.nodes import Node, build_nodes
from graphrag_assets.indexing.resolution.overrides import Overrides
from graphrag_assets.indexing.resolution.scoring import judge
from graphrag_assets.indexing.resolution.verdicts import Described, Verdict, ask_verdicts

#: Long forms that the evidence of an ambiguous short form names; it tells how many there are besides.
_NAMED_LONG_FORMS = 5
_SAME_BY_MODEL = 0.95


@dataclass(frozen=True)
class ResolutionStatistics:
    """What entity resolution did.

    Args:
        titles: Distinct titles.
        merged: Titles that were merged into another.
        pairs: Pairs that were judged.
        doubtful: Pairs between the two thresholds.
        asked: Pairs on which a model was asked.
        unusable: Asked pairs without a usable verdict.
        ambiguous: Short forms that can stand for several entities.
        blocks: Blocks of titles that share a key.
        narrowed_blocks: Blocks above the bound, which were narrowed by further keys.
        narrowed_titles: Titles in these.
    """

    titles: int
    merged: int
    pairs: int
    doubtful: int
    asked: int
    unusable: int
    ambiguous: int
    blocks: int
    narrowed_blocks: int
    narrowed_titles: int


@dataclass(frozen=True)
class Resolution:
    """Which titles are one entity.

    Args:
        mapping: Columns title and canonical, of the titles that were merged into another one, sorted by title.
        aliases: Rows of the entity_aliases table, in its order.
        statistics: What was done.
    """

    mapping: pa.Table
    aliases: list[dict[str, Any]]
    statistics: ResolutionStatistics


async def resolve_entities(
    profiles: pa.Table,
    *,
    overrides: Overrides | None = None,
    lexical: bool = True,
    merge_threshold: float = 0.9,
    doubt_threshold: float = 0.6,
    max_block: int = 200,
    ask: Ask | None = None,
    prompt: str = "",
) -> Resolution:
    """Decide which titles are one entity.

    The result is a function of the set of profiles, whatever their order.

    Args:
        profiles: One row per title, as :func:`graphrag_assets.indexing.resolution.profiles.title_profiles` gives them.
        overrides: Merges to force and to forbid.
        lexical: Merge by rules. Without them, only the overrides and the model merge.
        merge_threshold: Certainty from which a pair is merged by rule.
        doubt_threshold: Certainty from which a pair is doubtful: told, and asked about where a model can be asked.
        max_block: Most titles in a block that are compared with each other.
        ask: Asks a model about doubtful pairs; None: they stay separate.
        prompt: Template of that question, with the variable {pairs}.
    """
    resolver = _Resolver(profiles, overrides or Overrides(), lexical, merge_threshold, doubt_threshold, max_block)
    if lexical or ask is not None:
        resolver.judge_candidates(find_candidates(resolver.names, max_block, contained=ask is not None))
        resolver.find_ambiguities()
        if ask is not None:
            await resolver.ask_model(ask, prompt)
            resolver.find_ambiguities()
    resolver.group()
    return resolver.resolution()


class _Resolver:
    """The state of one resolution: nodes, judgements by pair of nodes, groups."""

    def __init__(
        self,
        profiles: pa.Table,
        overrides: Overrides,
        lexical: bool,
        merge_threshold: float,
        doubt_threshold: float,
        max_block: int,
    ) -> None:
        self.nodes: list[Node] = build_nodes(profiles, overrides, by_spelling=lexical)
        self.names = [name for node in self.nodes for name in node.anchors]
        self._owner = [i for i, node in enumerate(self.nodes) for _ in node.anchors]
        self._lexical, self._max_block = lexical, max_block
        self._merge, self._doubt = merge_threshold, doubt_threshold
        self._profiles = profiles
        rows = {title: row for row, title in enumerate(profiles["title"].to_pylist())}
        self._rows: Mapping[str, int] = rows
        self._corpus = Corpus(
            dict(zip(rows, profiles["frequency"].to_pylist(), strict=True)), known_words(self.names), self._descriptions
        )
        node_of = {title: i for i, node in enumerate(self.nodes) for title in node.titles}
        self._forbidden = {
            _pair(node_of[a], node_of[b]) for a, b in overrides.separate if a in node_of and b in node_of
        }
        self._separated = sorted((a, b) for a, b in overrides.separate if a in rows and b in rows)
        self._node_of = node_of
        self._judged: dict[Pair, Judgement] = {}
        self._documents: dict[int, frozenset[int]] = {}
        self._crowded: dict[int, list[int]] = {}
        self._candidates = Candidates()
        self._pairs: list[Pair] = []
        self._dropped: set[Pair] = set()
        self._ambiguities: list[Ambiguity] = []
        self._asked: dict[Pair, Verdict] = {}
        self._centre: dict[int, int] = {}

    # --- evidence ----------------------------------------------------------------------------------------------------

    def judge(self, a: int, b: int) -> Judgement:
        """Judge two nodes, by the best evidence of any of their anchors; remembered."""
        if a > b:
            return turned(self.judge(b, a))
        judgement = self._judged.get((a, b))
        if judgement is None:
            judgement = self._judged[a, b] = self._judge_anchors(a, b)
        return judgement

    def _judge_anchors(self, a: int, b: int) -> Judgement:
        first, second = self.nodes[a].anchors, self.nodes[b].anchors
        if len(first) == len(second) == 1:
            return judge(first[0], second[0], self._corpus)
        return min((judge(x, y, self._corpus) for x in first for y in second), key=lambda j: (-j.score, j.conflict))

    def judge_candidates(self, candidates: Candidates) -> None:
        """Judge the candidates; keep those with evidence."""
        self._candidates = candidates
        for a, b in sorted({_pair(self._owner[a], self._owner[b]) for a, b in candidates.pairs}):
            if a == b or (a, b) in self._forbidden:
                continue
            judgement = self._judge_anchors(a, b)
            if judgement.score >= self._doubt:  # most have no evidence, and are not worth remembering
                self._judged[a, b] = judgement
                self._pairs.append((a, b))
        for short, longs in candidates.crowded.items():
            node = self._owner[short]
            others = {self._owner[i] for i in longs} - {node}
            self._crowded[node] = sorted(others.union(self._crowded.get(node, ())))

    def find_ambiguities(self) -> None:
        """Drop the evidence of short forms that can stand for several entities."""
        self._dropped, self._ambiguities = resolve_ambiguity(
            {pair: self.judge(*pair) for pair in self._pairs},
            self._crowded,
            self.judge,
            Locality(self._documents_of),
            merge_threshold=self._merge,
            doubt_threshold=self._doubt,
            max_block=self._max_block,
        )

    async def ask_model(self, ask: Ask, prompt: str) -> None:
        """Ask about the doubtful pairs; a verdict replaces what the rules say."""
        doubtful = [
            pair
            for pair in self._pairs
            if pair not in self._dropped and (self.judge(*pair).score < self._merge or not self._lexical)
        ]
        described = [(self._described(a), self._described(b)) for a, b in doubtful]
        verdicts = await ask_verdicts([(x, y) if x.title <= y.title else (y, x) for x, y in described], ask, prompt)
        for pair, verdict in zip(doubtful, verdicts, strict=True):
            self._asked[pair] = verdict
            before = self.judge(*pair)
            if verdict.same is None:
                self._judged[pair] = Judgement(
                    before.score, "llm", f"{before.evidence}; {verdict.reason}", before.shorter
                )
            else:
                score = max(_SAME_BY_MODEL, self._merge) if verdict.same else 0.0
                evidence = f"{before.evidence}; the model says {'the same' if verdict.same else 'different'}"
                evidence += f": {verdict.reason}" if verdict.reason else ""
                self._judged[pair] = Judgement(score, "llm", evidence, before.shorter, conflict=not verdict.same)

    # --- groups ------------------------------------------------------------------------------------------------------

    def group(self) -> None:
        """Form the groups."""
        self._centre = star_groups(
            {pair: self.judge(*pair).score for pair in self._pairs if self._merges(pair)}, self._conflict
        )

    def _merges(self, pair: Pair) -> bool:
        judgement = self.judge(*pair)
        by_model = pair in self._asked and self._asked[pair].same is True
        by_rule = self._lexical and judgement.score >= self._merge and (pair not in self._asked or by_model)
        return (by_rule or by_model) and pair not in self._dropped

    def _conflict(self, a: int, b: int) -> bool:
        both_forced = self.nodes[a].forced and self.nodes[b].forced
        return both_forced or _pair(a, b) in self._forbidden or self.judge(a, b).conflict

    def _canonical(self, node: int) -> str:
        return self.nodes[self._centre.get(node, node)].title

    # --- results -----------------------------------------------------------------------------------------------------

    def resolution(self) -> Resolution:
        """The mapping, the rows of evidence, the statistics."""
        mapping = sorted(
            (title, self._canonical(i))
            for i, node in enumerate(self.nodes)
            for title in node.titles
            if title in self._rows
        )
        mapping = [(title, canonical) for title, canonical in mapping if title != canonical]
        rows = {(row["alias"], row["title"]): row for row in [*self._separate_rows(), *self._merged_rows()]}
        statistics = ResolutionStatistics(
            titles=self._profiles.num_rows,
            merged=len(mapping),
            pairs=len(self._candidates.pairs),
            doubtful=sum(self._doubt <= self.judge(*pair).score < self._merge for pair in self._pairs),
            asked=len(self._asked),
            unusable=sum(verdict.same is None for verdict in self._asked.values()),
            ambiguous=len(self._ambiguities),
            blocks=self._candidates.blocks,
            narrowed_blocks=self._candidates.narrowed_blocks,
            narrowed_titles=self._candidates.narrowed_titles,
        )
        table = pa.table(
            {
                "title": pa.array([title for title, _ in mapping], pa.string()),
                "canonical": pa.array([canonical for _, canonical in mapping], pa.string()),
            }
        )
        return Resolution(table, [rows[key] for key in sorted(rows)], statistics)

    def _merged_rows(self) -> list[dict[str, Any]]:
        rows = []
        for i, node in enumerate(self.nodes):
            canonical = self._canonical(i)
            for title in node.titles:
                if title == canonical or title not in self._rows:
                    continue
                if i in self._centre:
                    found = self.judge(self._centre[i], i)
                    evidence = found.evidence if title == node.title else f"spelt like {node.title}: {found.evidence}"
                    rows.append(_row(title, canonical, "merged", found.method, found.score, evidence))
                elif node.forced:
                    rows.append(_row(title, canonical, "merged", "override", 1.0, "the overrides merge them"))
                else:
                    evidence = "same but for punctuation, spaces or a leading THE"
                    rows.append(_row(title, canonical, "merged", "spelling", 0.99, evidence))
        return rows

    def _separate_rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for pair in [*self._pairs, *sorted(self._asked)]:
            (a, b), found = pair, self.judge(*pair)
            if self._canonical(a) == self._canonical(b) or (pair in self._dropped and pair not in self._asked):
                continue
            if found.last_resort and pair not in self._asked:
                continue
            evidence = found.evidence
            if self._merges(pair):
                evidence += "; kept apart, since it is not like the canonical title or contradicts another member"
            if self._canonical(a) != self.nodes[a].title:
                evidence += f" (judged against {self.nodes[a].title})"
            rows.append(_row(self.nodes[b].title, self._canonical(a), "separate", found.method, found.score, evidence))
        rows.sort(key=lambda row: (row["score"], row["evidence"]))  # the strongest evidence of a pair of entities stays
        rows += [row for ambiguity in self._ambiguities if (row := self._ambiguous_row(ambiguity)) is not None]
        for first, second in self._separated:
            evidence = f"the overrides keep {first} and {second} apart"
            rows.append(_row(second, self._canonical(self._node_of[first]), "separate", "override", 0.0, evidence))
        return rows

    def _ambiguous_row(self, ambiguity: Ambiguity) -> dict[str, Any] | None:
        canonical = self._canonical(ambiguity.short)
        others = [title for i in ambiguity.longs if (title := self._canonical(i)) != canonical]
        if not others:
            return None
        titles = list(dict.fromkeys(others))
        named, left = titles[:_NAMED_LONG_FORMS], len(titles) - _NAMED_LONG_FORMS
        evidence = f"ambiguous: can stand for {', '.join(named)}" + (f" and {left} more" if left > 0 else "")
        score = min(self._doubt, 0.5)
        return _row(self.nodes[ambiguity.short].title, others[0], "separate", ambiguity.method, score, evidence)

    # --- what is known of a node -------------------------------------------------------------------------------------

    def _descriptions(self, title: str) -> list[str]:
        row = self._rows.get(title)
        texts: list[str] = self._profiles["descriptions"][row].as_py() if row is not None else []
        return texts

    def _documents_of(self, node: int) -> frozenset[int]:
        found = self._documents.get(node)
        if found is None:
            column = self._profiles["documents"]
            found = frozenset(document for row in self.nodes[node].rows for document in column[row].as_py() or ())
            self._documents[node] = found
        return found

    def _described(self, node: int) -> Described:
        title = self.nodes[node].title
        row = self._rows.get(title)
        return Described(
            title, self._profiles["type"][row].as_py() if row is not None else "", self._descriptions(title)
        )


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def _row(alias: str, title: str, decision: str, method: str, score: float, evidence: str) -> dict[str, Any]:
    return {
        "alias": alias,
        "title": title,
        "decision": decision,
        "method": method,
        "score": score,
        "evidence": evidence,
    }
