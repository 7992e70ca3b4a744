"""Candidates for contradictions between the sources of a corpus.

Two kinds of evidence: claims with the same subject, object and type but another status or other dates; and sentences
from different documents that tell the same event of the same entity with another date, another quantity, a denial or
another cause. Precision before number: what is reported becomes a finding of a report. So

* the words of the event must agree, not only its subject; what a sentence says is taken clause by clause;
* values must exclude each other at the precision at which they are stated (May 2031 and 4 May 2031 agree, 8 and 8.4
  million too);
* an event told with more than three different values is a series (a diary, a log, minutes of a regular meeting) and is
  left out.

Pairs are found through words that few sentences share (blocking); no step compares all sentences with each other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby
from typing import Any

from graphrag_assets.indexing import assertions
from graphrag_assets.indexing.assertions import Cause, Clause, Number
from graphrag_assets.indexing.conflicts import Account, Conflicts, Kind, Pair, merge
from graphrag_assets.indexing.statements import Statement, Statements, content_words

Row = Mapping[str, Any]
#: A word that more clauses share says too little to bring two of them together.
_MAX_BLOCK = 30
#: Words in a larger share of the sentences than this do not tell one event from another.
_COMMON_SHARE = 0.01
#: …unless they are this few.
_COMMON_LEAST = 30
#: Share of the words (by weight) of the shorter account that the other one must have. Clauses are compared, and for
#: numbers whole sentences: what is counted ("118 mm of rain") often fills a clause, what happened stands in the next.
_OVERLAP = {"date": 0.6, "number": 0.4, "negation": 0.75, "cause": 0.6}
#: Shared words of the event that are asked for, beside the names of entities and what is counted.
_SHARED = {"date": 2, "number": 2, "negation": 3, "cause": 1}
#: A short sentence ("The grant is 6.4 million crowns.") has one word for its event; it must be in the other nearly
#: whole.
_SHORT_OVERLAP = 0.65
#: Within one document narrators repeat rather than contradict themselves.
_SAME_DOCUMENT_OVERLAP = 0.9
#: Words that an assertion may have beside those of its denial, and the denial beside those of the assertion.
_MORE_SAID = 2
#: Two causes that share more of their words than this are one cause in other words.
_SAME_CAUSE = 0.5


def find_conflicts(statements: Statements, claims: Sequence[Row] = (), *, max_conflicts: int = 1000) -> Conflicts:
    """Find accounts that exclude each other.

    Args:
        statements: Sentences of the corpus with the entities they name.
        claims: Rows of the covariates table, in its order.
        max_conflicts: Most conflicts that are kept, by score; how many are left out is told.

    Returns:
        The same conflicts whatever the order of the claims.
    """
    pairs = [*_claim_pairs(claims), *_Sentences(statements).pairs()]
    conflicts, series = merge(pairs)
    conflicts.sort(key=lambda c: (-c.score, c.kind, c.title, c.first.text, c.second.text, c.first.text_unit_id))
    return Conflicts(tuple(conflicts[:max_conflicts]), max(0, len(conflicts) - max_conflicts), series)


# --- claims ----------------------------------------------------------------------------------------------------------


def _claim_pairs(claims: Sequence[Row]) -> Iterator[Pair]:
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for claim in claims:
        groups[claim["subject_id"], claim["object_id"], claim["type"]].append(claim)
    for key in sorted(groups):
        subject_words = set(content_words(f"{key[0]} {key[1]}"))
        rows = sorted(groups[key], key=lambda row: row["id"])
        told = [(row, frozenset(content_words(row["description"])) - subject_words) for row in rows]
        for (left, left_words), (right, right_words) in _blocked_claims(told):
            shared = len(left_words & right_words) / max(1, min(len(left_words), len(right_words)))
            if shared >= 0.5:
                yield from _compare_claims(left, right, shared)


def _blocked_claims(told: list[tuple[Row, frozenset[str]]]) -> Iterator[tuple[Any, Any]]:
    """Pairs of claims that share a word which few claims of their group have."""
    blocks: dict[str, list[int]] = defaultdict(list)
    for i, (_, words) in enumerate(told):
        for word in words:
            blocks[word].append(i)
    pairs = {pair for block in blocks.values() if len(block) <= _MAX_BLOCK for pair in combinations(block, 2)}
    for i, j in sorted(pairs):
        yield told[i], told[j]


def _compare_claims(left: Row, right: Row, shared: float) -> Iterator[Pair]:
    def account(row: Row, value: str) -> Account:
        return Account((row["text_unit_id"], row["id"]), row["description"], row["text_unit_id"], value, row["id"])

    status = {left["status"], right["status"]}
    if len(status) == 2 and "TRUE" in status:
        certainty = 0.9 if "FALSE" in status else 0.5
        yield Pair(
            "status",
            left["subject_id"],
            account(left, left["status"]),
            account(right, right["status"]),
            certainty * shared,
        )
    spans = [(row["start_date"] or "NONE", row["end_date"] or "NONE") for row in (left, right)]
    read = [[d for part in span for d in assertions.dates(part[:10])] for span in spans]
    if all(read) and not any(assertions.agree(a, b) for a in read[0] for b in read[1]) and not _overlap_in_time(*spans):
        values = [start[:10] if start == end or end == "NONE" else f"{start[:10]}/{end[:10]}" for start, end in spans]
        yield Pair("date", left["subject_id"], account(left, values[0]), account(right, values[1]), 0.7 * shared)


def _overlap_in_time(left: tuple[str, str], right: tuple[str, str]) -> bool:
    """Whether two spans of ISO dates share a day; a span within another is more exact, not another."""
    if "NONE" in (*left, *right):
        return False
    return left[0][:10] <= right[1][:10] and right[0][:10] <= left[1][:10]


# --- sentences -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Told:
    """A clause in its sentence.

    Args:
        statement: The sentence.
        clause: The clause.
        numbers: All quantities of the sentence.
        context: Words that are compared instead of those of the clause.
        reason: Effect and cause, for accounts of a cause.
    """

    statement: Statement
    clause: Clause
    numbers: tuple[Number, ...] = ()
    context: frozenset[str] | None = None
    reason: Cause | None = None

    @property
    def words(self) -> frozenset[str]:
        """Words that are compared."""
        return self.clause.words if self.context is None else self.context


@dataclass
class _Sentences:
    """Finds pairs of sentences; the weight of a word is its rarity among all sentences (inverse document frequency)."""

    statements: Statements
    common: frozenset[str] = frozenset()
    unit_titles: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        for statement in self.statements.all:
            self.unit_titles[statement.text_unit_id].update(statement.titles)
        total = len(self.statements.all)
        rarest_common = math.log(1 + total / max(_COMMON_LEAST, _COMMON_SHARE * total)) if total else 0.0
        self.common = frozenset(word for word, weight in self.statements.weights.items() if weight < rarest_common)

    def pairs(self) -> Iterator[Pair]:
        """All pairs of accounts that exclude each other."""
        complete = [statement for statement in self.statements.all if statement.complete]
        told = [item for statement in complete for item in _asserting(statement)]
        dated = [item for item in told if item.clause.dates or item.clause.times]
        counted = list(_with_all_words(item for item in told if item.clause.numbers))
        caused = [item for statement in complete for item in _causes(statement)]
        denied = [item for item in told if item.clause.negated]
        yield from self._compare("date", dated, dated, _dates_differ)
        yield from self._compare("number", counted, counted, _numbers_differ)
        yield from self._compare("cause", caused, caused, _causes_differ)
        yield from self._compare("negation", denied, list(_affirmed(denied, complete)), _denies)

    def _compare(self, kind: Kind, left: list[_Told], right: list[_Told], differ: Any) -> Iterator[Pair]:
        for a, b in self._candidates(left, right, _SHARED[kind]):
            values = differ(a, b) if a.statement.text_unit_id != b.statement.text_unit_id else None
            if values is None:
                continue
            shared = a.words & b.words
            title, near = self._shared_title(a.statement, b.statement, shared if kind == "cause" else None)
            overlap = self._overlap(a.words, b.words)
            if title and self._is_one_event(kind, a, b, overlap, near):
                accounts = [
                    Account((item.statement.order,), item.statement.text, item.statement.text_unit_id, value)
                    for item, value in zip((a, b), values, strict=True)
                ]
                yield Pair(kind, title, accounts[0], accounts[1], min(overlap, 1.0) * (0.9 if near else 0.7))

    def _is_one_event(self, kind: Kind, a: _Told, b: _Told, overlap: float, near: bool) -> bool:
        """Whether two accounts tell the same event, by the words that they share."""
        names = {word for named in {*a.statement.titles, *b.statement.titles} for word in content_words(named)}
        event = (a.words & b.words) - names - _units(a.clause, b.clause) - self.common
        needed = _OVERLAP[kind] if near or kind == "number" else max(_OVERLAP[kind], 0.75)
        if a.statement.document_id == b.statement.document_id:
            needed = max(needed, _SAME_DOCUMENT_OVERLAP)
            near_only = True
        else:
            near_only = kind == "negation"
        if near_only and not near:
            return False
        shared = _SHARED[kind]
        if kind == "number":
            shared += -1 if overlap >= _SHORT_OVERLAP else not near
        return overlap >= needed and len(event) >= shared

    def _candidates(self, left: list[_Told], right: list[_Told], shared: int) -> Iterator[tuple[_Told, _Told]]:
        """Pairs that share enough words, found through words that few clauses have."""
        words = [item.words for item in right]
        same = left is right
        blocks: dict[str, list[int]] = {word: [] for item in left for word in item.words}
        for j, those in enumerate(words):
            for word in those & blocks.keys():
                blocks[word].append(j)
        for i, item in enumerate(left):
            these = words[i] if same else item.words
            near = {j for word in these if len(blocks[word]) <= _MAX_BLOCK for j in blocks[word] if not same or j > i}
            for j in sorted(near):
                if len(these & words[j]) >= shared:
                    yield item, right[j]

    def _overlap(self, left: frozenset[str], right: frozenset[str]) -> float:
        """Weight of the shared words, as a share of the lighter clause."""
        lighter = min(self._weight(left), self._weight(right))
        return self._weight(left & right) / lighter if lighter else 0.0

    def _weight(self, words: frozenset[str]) -> float:
        return sum(self.statements.weights.get(word, 1.0) for word in sorted(words))

    def _shared_title(self, left: Statement, right: Statement, among: frozenset[str] | None) -> tuple[str, bool]:
        """The entity that both accounts are about, and whether both sentences name it.

        Preferred is one that both sentences name, then one that one sentence and the text unit of the other name, then
        one that both text units name; among equals, the one that fewest sentences name.

        Args:
            left: One sentence.
            right: The other.
            among: Words of which one must be in the name of the entity; None: any entity.
        """
        left_unit, right_unit = self.unit_titles[left.text_unit_id], self.unit_titles[right.text_unit_id]
        near = set(left.titles) & set(right.titles)
        half = set(left.titles) & right_unit | set(right.titles) & left_unit
        by_title = self.statements.by_title
        for titles in (near, half, left_unit & right_unit):
            known = [t for t in titles if among is None or among & set(content_words(t))]
            if known:
                return min(known, key=lambda title: (len(by_title.get(title, ())), title)), titles is near
        return "", False


def _asserting(statement: Statement) -> Iterator[_Told]:
    """Clauses of a sentence that hold a value or a denial."""
    if assertions.may_assert(statement.text, statement.words):
        clauses = assertions.clauses(statement.text, asserting=True)
        numbers = tuple(number for clause in clauses for number in clause.numbers)
        for clause in clauses:
            yield _Told(statement, clause, numbers)


def _affirmed(denied: list[_Told], complete: list[Statement]) -> Iterator[_Told]:
    """Clauses, not denied, of the sentences in which one may say what another one denies.

    Such a sentence shares a rare word with what is denied, and has nearly all of its words; only these are read.
    """
    sentences: dict[str, list[Statement]] = {word: [] for item in denied for word in item.clause.words}
    for statement in complete:
        for word in sentences.keys() & statement.words:
            sentences[word].append(statement)
    found: dict[int, Statement] = {}
    for words in {item.clause.words for item in denied}:
        least = max(_SHARED["negation"], len(words) - _MORE_SAID)
        for statement in {s.order: s for w in words if len(sentences[w]) <= _MAX_BLOCK for s in sentences[w]}.values():
            if len(words.intersection(statement.words)) >= least:
                found[statement.order] = statement
    for order in sorted(found):
        clauses = assertions.clauses(found[order].text)
        yield from (_Told(found[order], clause) for clause in clauses if not clause.negated)


def _with_all_words(told: Iterable[_Told]) -> Iterator[_Told]:
    """The clauses with all words of their sentence; those of one sentence, which follow each other, share the set."""
    for _, clauses in groupby(told, key=lambda item: item.statement.order):
        first, *more = clauses
        words = frozenset(first.statement.words)
        for item in (first, *more):
            yield _Told(item.statement, item.clause, item.numbers, words)


def _causes(statement: Statement) -> Iterator[_Told]:
    reason = assertions.cause(statement.text)
    if reason:
        yield _Told(statement, Clause(reason.text, ""), context=reason.effect, reason=reason)


def _units(left: Clause, right: Clause) -> set[str]:
    """Words for what the two clauses count."""
    return {word for clause in (left, right) for number in clause.numbers for word in number.units}


def _dates_differ(left: _Told, right: _Told) -> tuple[str, str] | None:
    """Values of two clauses whose dates or times exclude each other; where figures differ too, these are two events."""
    a, b = left.clause, right.clause
    if any(x.counts_same_as(y) and not x.agrees_with(y) for x in left.numbers for y in right.numbers):
        return None
    days_agree = any(assertions.agree(x, y) for x in a.dates for y in b.dates)
    times_agree = any(x == y for x in a.times for y in b.times)
    other_day = bool(a.dates and b.dates) and not days_agree
    other_time = bool(a.times and b.times) and not times_agree and not (other_day and not (a.dates and b.dates))
    return (_when(a), _when(b)) if other_day or other_time else None


def _when(clause: Clause) -> str:
    """Dates and times as they are written in English."""
    days = sorted(set(clause.dates), key=lambda day: tuple(part or 0 for part in day))
    times = [f"{time // 60:02d}:{time % 60:02d}" for time in sorted(set(clause.times))]
    return " ".join([*(assertions.written(day) for day in days), *times])


def _numbers_differ(left: _Told, right: _Told) -> tuple[str, str] | None:
    """Values of two clauses that count the same thing differently."""
    a, b = left.clause, right.clause
    if a.dates and b.dates and not any(assertions.agree(x, y) for x in a.dates for y in b.dates):
        return None  # figures of different days
    comparable = [(x, y) for x in a.numbers for y in b.numbers if x.counts_same_as(y)]
    if not comparable:
        return None
    both_told = any(x.agrees_with(y) for x in left.numbers for y in b.numbers) or any(
        x.agrees_with(y) for x in a.numbers for y in right.numbers
    )
    if both_told:
        return None
    x, y = max(comparable, key=lambda pair: (len(pair[0].units & pair[1].units), pair[0].written, pair[1].written))
    return x.written, y.written


def _causes_differ(left: _Told, right: _Told) -> tuple[str, str] | None:
    if left.reason is None or right.reason is None:
        return None
    a, b = left.reason.cause, right.reason.cause
    return None if len(a & b) > _SAME_CAUSE * min(len(a), len(b)) else (left.reason.text, right.reason.text)


def _denies(left: _Told, right: _Told) -> tuple[str, str] | None:
    """A denial and its assertion: the assertion says little else, and both speak of the same time."""
    a, b = left.clause, right.clause
    if a.dates and b.dates and not any(assertions.agree(x, y) for x in a.dates for y in b.dates):
        return None
    return (a.text, b.text) if len(a.words ^ b.words) <= _MORE_SAID else None
