"""Claims whose delimiter is not the one that was asked for, found by their status.

Of the eight fields of a claim the fourth is one of few words. So a claim is found by it: what stands on both sides of
that word is the delimiter of the answer, and the fields are counted from there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from graphrag_assets.indexing.tuples import DELIMITER, Record, clean_field, record_body
from graphrag_assets.text.claim_words import PARTS, claim_status
from graphrag_assets.text.record_words import kind

_STATUS_AT = PARTS.index("status")
#: Fewest fields of a claim: up to its description.
_FEWEST = PARTS.index("description") + 1
_OPENING = re.escape("(（[【{<〔❨［「『")
_CLOSING = re.escape(")）]】}>〕❩］」』")
_QUOTES = re.escape("\"'`“”„‘’«»「」『』＂*_")
_SPLIT = re.compile(DELIMITER)
#: A word between two marks that are the same.
_BETWEEN = re.compile(
    rf"(?P<mark>[ \t]*(?:[<＜\[{{《〈(]{{1,2}}[|｜]?\w{{1,20}}[|｜]?[>＞\]}}》〉)]{{1,2}}|<[^\w\s<>]{{1,6}}>|[^\w\s{_QUOTES}]{{1,8}})|"
    rf"[\t\x00\x1f\u2028丨ǀ])[^\S\t\x1f\u2028]*[{_QUOTES}]{{0,3}}"
    rf"(?P<word>(?:(?![丨ǀ])[^\W\d_]){{1,20}})[{_QUOTES}]{{0,3}}[^\S\t\x1f\u2028]*(?=(?P=mark))"
)
#: Marks that prose is full of: their fields are told apart by quotes, or counted.
_WEAK = frozenset(",;，；、")
_SMALL = frozenset("-/.:")
_BARE = r"(?:None|null|NONE|NULL|[Tt]rue|[Ff]alse|TRUE|FALSE)"
_BETWEEN_QUOTES = re.compile(
    rf"(?:(?<=[\"'”’」»])|(?<=None)|(?<=null)|(?<=True)|(?<=False)|(?<=true)|(?<=false)|(?<=\d))\s*[,;，；、]\s*"
    rf"(?=[\"'“‘「«]|{_BARE}\b|\d{{4}}\s*[,;)\]])"
)
_LEAD = r"(?:[ \t•>\d.、#]|[-*+](?=\s)|</?\w{1,8}>)*"
_IN_BRACKET = rf"[\s*#`\"'“>]*(?:\w{{1,8}}\s?[\d.):、]{{1,4}}\s*)?(?:[\"'*]*(?:claim|covariate)s?[\"'*]*\s?)?[{_OPENING}]{{1,2}}[ \t]*"
_LINE_LEAD = re.compile(rf"(?:^|\n|##){_LEAD}(?:\d\)[ \t]*)?(?:{_IN_BRACKET})?", re.IGNORECASE)
_BRACKET_LEAD = re.compile(
    rf"(?:[:：]\s|[{_CLOSING}][^\w{_OPENING}]{{0,8}}(?:[{{<\[|]*(?:record\w*|and)[^\w(（]{{0,4}})?){_LEAD}{_IN_BRACKET}",
    re.IGNORECASE,
)
_KIND_BEFORE = re.compile(rf"(?:^|\n|##|[{_OPENING}{_CLOSING}])[^\w]*(?P<kind>[^\W\d_]{{3,14}})[\s{_QUOTES}:：]*\Z")


def claims_by_status(text: str) -> list[Record]:
    """Claims of an answer by the words of their status; empty where there are none.

    Args:
        text: Answer without reasoning, and without end marks.
    """
    text = text.replace("$<|>$", "<|>")
    if not any(claim_status(field) for field in _SPLIT.split(text)):
        mark = _mark(text)
        if mark is None:
            return []
        if mark.strip() in _WEAK:
            quoted = _BETWEEN_QUOTES.sub("<|>", text)
            return list(_around_status(quoted)) or list(_by_number(text, mark.strip()))
        small = mark.strip() in _SMALL
        text = re.sub(rf"[ \t]+{re.escape(mark.strip())}(?=\s)" if small else re.escape(mark.strip(" ")), "<|>", text)
    return list(_around_status(text))


def _mark(text: str) -> str | None:
    """What stands on both sides of a status most often, and as often as claims need it."""
    marks = Counter(m["mark"] for m in _BETWEEN.finditer(text) if claim_status(m["word"]))
    for mark in sorted(marks, key=lambda m: (-marks[m], -len(m), m)):
        if text.count(mark.strip(" ")) >= _STATUS_AT * marks[mark] and (mark.strip() not in _SMALL or mark[0] == " "):
            return mark
    return None


def _around_status(text: str) -> Iterator[Record]:
    """Claims whose fields stand between delimiters, counted from each status."""
    found = list(_SPLIT.finditer(text))
    spans = list(zip([0, *(m.end() for m in found)], [*(m.start() for m in found), len(text)], strict=True))
    begins: list[tuple[int, int, bool]] = []
    states = [*(claim_status(text[start:end].strip()) for start, end in spans), None]
    least = _STATUS_AT
    for number in range(len(spans)):
        if number >= least and states[number] and not states[number + 1]:  # a type may be such a word too
            begins.append(_begin(text, spans, number - _STATUS_AT))
            least = number + _FEWEST - 1
    ends = [*(outer for outer, _, _ in begins[1:]), len(text)]
    for (_, start, bracketed), end in zip(begins, ends, strict=bool(begins)):
        body, whole = record_body(text[start:end], bracketed=bracketed, last=end == len(text))
        fields = tuple(clean_field(field) for field in _SPLIT.split(body))
        if len(fields) >= _FEWEST:
            yield Record("claim", fields, whole)


def _begin(text: str, spans: list[tuple[int, int]], number: int) -> tuple[int, int, bool]:
    """Where what belongs to a claim begins, where its subject does, and whether it stands in brackets."""
    start, end = spans[number]
    piece = text[start:end].rstrip()
    *_, lead = (*_LINE_LEAD.finditer(piece), *_BRACKET_LEAD.finditer(piece))
    outer, inner, sign = start + lead.start(), start + lead.end(), lead.group().strip()[-1:]
    if not lead.start() and number:
        before, behind = spans[number - 1]
        named = _KIND_BEFORE.search(text[max(before, behind - 40) : behind])
        if named and kind(named["kind"]) == "claim":
            outer = max(before, behind - 40) + named.start() + (named.group()[0] in ")）]】}>")
            sign = named.group().lstrip()[:1]
    return outer, inner, bool(sign) and sign in "(（[【"


def _by_number(text: str, mark: str) -> Iterator[Record]:
    """Claims whose fields stand between bare commas, which the description may hold too: it is the rest."""
    for line in re.split(r"\n|##", text):
        bare = line.strip().lstrip("-*•(（[{ ").rstrip(")）]}.,; ")
        first, _, rest = bare.partition(mark)
        fields = (rest if kind(first) == "claim" else bare).split(mark, _FEWEST - 1)
        if len(fields) == _FEWEST and claim_status(fields[_STATUS_AT]):
            yield Record("claim", tuple(clean_field(field) for field in fields))
