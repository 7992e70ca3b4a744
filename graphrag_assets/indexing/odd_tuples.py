"""Records in a grammar near the one that was asked for, rewritten into it.

A model that loses the delimiter loses it in all of its answer: it writes ``entity -> A -> PERSON -> ...``, Python tuples,
lists of CSV, or the name of the kind in the language of the text. What it writes between the kind and the name is then
its delimiter, if the records hold more of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphrag_assets.text.record_words import KINDS, kind

QUOTES = "\"'`“”„‘’«»「」『』《》＂*_"
_OPENING = "(（[【{<〔❨［「『"
_CLOSING = ")）]】}>〕❩］」』"

_WORDS = "|".join(sorted((re.escape(word) for word in KINDS), key=len, reverse=True))
_KIND = re.compile(
    rf"(?<![^\W\d_])(?:(?P<kind>{_WORDS}|enti[a-z]{{1,5}}|relat[a-z]{{3,10}}))(?![^\W\d_])", re.IGNORECASE
)
_FULL_WIDTH_WORD = re.compile(r"[Ａ-Ｚａ-ｚ]{4,}")
_FROM_FULL_WIDTH = {code + 0xFEE0: chr(code) for code in (*range(65, 91), *range(97, 123))}
#: What stands before the kind of a record: the beginning of a line, a bracket, a quote.
_BEFORE = re.compile(
    rf"(?:(?P<open>[{re.escape(_OPENING)}]\s*)?[{QUOTES}{{\[<]{{1,3}}\s?|(?P<bare>[{re.escape(_OPENING)}]\s*)|"
    r"(?P<line>(?:^|\n|##)[ \t\-*•+>\d.、)#]*))$"
)
_NAMED_MARK = r"[<＜\[{{《〈]{{1,2}}\s?[|｜]?\s?(?:tuple|field|tab|sep|delim|I|l|T)\w*\s?[|｜]?\s?[>＞\]}}》〉]{{1,2}}"
_AFTER = re.compile(
    rf"(?:[ _]?\d{{1,3}}| record)?(?P<closed>\s?[{re.escape(QUOTES + '>)]}')}]{{0,4}})[ \r\n]*(?:[:：][ \r\n]*)?"
    rf"(?P<mark>{_NAMED_MARK.format()}|<[^\w\s<>]{{1,6}}>|[^\w\s{re.escape(QUOTES)}]{{1,8}}|[\t\x00\x1f\u2028丨ǀ])?",
    re.IGNORECASE,
)
#: Marks that prose holds too: they count between quotes, or as often as a record needs them.
_WEAK = frozenset(",;，；、")
_BETWEEN_QUOTES = re.compile(
    r"(?<=[\"'”’」])\s*[,;，；、]\s*(?=[\"'“‘「\[(]|[-+]?\d[\d.,/]*\s*(?:[)\]）】}]|$))|"
    r"(?<=\d)\s*[,;]\s*(?=[\"'“‘「])"
)
_ARROWS = ("->", "<->", "<-|->", "--", "##")
_KEY = re.compile(r"[\"'][^\"'\n]{1,40}[\"']\s*:\s*[\"'\[{\d]")
_FIELDS = {"entity": 3, "relationship": 4}
_NUMBER = re.compile(r"[\"'“]?\d{1,3}(?:[.,]\d+)?(?:\s?/\s?\d+)?[\"'”]?")
_LINE_OF_FIELDS = re.compile(r"(?m)^[ \t\-*•>\d.)]*[(（\[]?(?P<body>.*<\|>.*?)[)）\]]?[ \t,;]*$")
#: Longest record that is rewritten field by field.
_LONGEST = 20_000


@dataclass(frozen=True)
class _Start:
    """Where a record of an odd form begins.

    Args:
        kind: entity, relationship, or claim.
        start: Position of its first sign.
        end: Position after the delimiter that follows its kind.
        bracketed: Whether it stands in brackets.
        mark: Delimiter behind the kind.
    """

    kind: str
    start: int
    end: int
    bracketed: bool
    mark: str


def rewritten(text: str) -> str | None:
    """The records of an answer in the grammar that was asked for; None where it holds none of an odd form.

    Args:
        text: Answer in which the regular grammar finds no records, or only some.
    """
    text = _FULL_WIDTH_WORD.sub(lambda m: w if kind(w := m.group().translate(_FROM_FULL_WIDTH)) else m.group(), text)
    starts = list(_starts(text))
    marks = Counter(start.mark for start in starts)
    if not marks:
        return _without_kinds(text)
    mark = max(marks, key=lambda m: (marks[m], len(m)))
    used = [start for start in starts if start.mark == mark]
    if mark == "<|>" or mark not in _WEAK:
        ends = [*(start.start for start in used[1:]), len(text)]
        used = [start for start, end in zip(used, ends, strict=True) if mark in text[start.end : end]]
    if not used:
        return _without_kinds(text)
    if mark in _WEAK:
        return _positional(text, used) or _without_kinds(text)
    if mark != "<|>" and text.count(mark) < 2 * len(used):
        return _without_kinds(text)
    parts = [text[: used[0].start]]
    for start, following in zip(used, [*used[1:], None], strict=True):
        body = text[start.end : following.start if following else len(text)]
        body = body if mark == "<|>" else re.sub(rf"[ \t]?{re.escape(mark)}", "<|>", body)
        parts.append(f'\n##\n{"(" if start.bracketed else ""}"{start.kind}"<|>{body}')
    return "".join(parts)


def _starts(text: str) -> Iterator[_Start]:
    for found in _KIND.finditer(text):
        before = _BEFORE.search(text, max(0, found.start() - 16), found.start())
        after = _AFTER.match(text, found.end())
        if before is None or after is None:
            continue
        word = found["kind"].lower()
        name = kind(word) or ("entity" if word.startswith("enti") else "relationship")
        mark, end = after["mark"] or "", after.end()
        if "\n" in text[found.end() : end] and "<" not in mark:  # a heading, and what stands below it
            continue
        bracketed = bool(before["open"] or before["bare"])
        for opening in "(（[":  # the kind stands before the bracket
            outside = ":" not in text[found.end() : after.start("mark")] and mark.startswith(opening)
            if outside and not mark.endswith((")", "）", "]")):
                end, mark, bracketed = after.start("mark") + 1, _mark_in(text, after.end()), True
        # A bracket that closes right behind the kind belongs to it: [entity]<|>
        if after["closed"].strip().endswith((")", "]", "}", ">")) and before["open"] is None:
            bracketed = False
        if (
            mark.strip("<>()[]{}（）【】#*-+")
            or mark in _ARROWS
            or (len(mark) > 2 and mark[0] == "<" and mark[-1] == ">")
        ):
            yield _Start(name, before.start(), end, bracketed, mark)


def _mark_in(text: str, position: int) -> str:
    """The delimiter of a record whose kind stands before its bracket."""
    body = text[position : position + 400].split("\n")[0]
    return "<|>" if "<|>" in body else ","


def _positional(text: str, starts: Sequence[_Start]) -> str | None:
    """Records whose fields stand between commas: in quotes, or as many as there must be."""
    lines = []
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        body = text[start.end : following.start if following else len(text)]
        if start.kind in _FIELDS and len(body) <= _LONGEST:
            fields = _fields(body, start)
            if fields:
                lines.append(f'("{start.kind}"<|>{"<|>".join(fields)})')
    return "\n##\n".join(lines) or None


def _fields(body: str, start: _Start) -> list[str]:
    wanted = _FIELDS[start.kind]
    body = body.strip()
    if body[:1] in {'"', "'", "“", "‘", "「"}:
        end = re.search(r"[\"'”’」\d]\s*[)\]）】}][\s,;，；.\])）}]*(?:\n|$|##)", body)
        body = body[: end.start() + 1] if end else body.split("\n\n")[0].rstrip(" \n,;，；#")
        if _KEY.match(body):
            return []
        fields = [field.strip() for field in _BETWEEN_QUOTES.split(body)]
        return [_unquoted(field) for field in fields] if len(fields) >= wanted - 1 else []
    line = re.split(r"\s*(?:##|\n)", body, maxsplit=1)[0].rstrip(" ,;，；")
    line = re.sub(r"[)\]）】}]$", "", line)
    mark = re.escape(start.mark)
    first = [part.strip() for part in re.split(mark, line, maxsplit=2)]
    if len(first) < 3 or not all(first):
        return []
    if start.kind == "relationship":
        description, comma, weight = first[2].rpartition(start.mark)
        if not comma or not _NUMBER.fullmatch(weight.strip()):
            return []
        first[2:] = [description.strip(), weight.strip()]
    return first


def _unquoted(field: str) -> str:
    field = field.strip()
    if len(field) > 1 and field[0] in QUOTES:
        field = field[1:-1] if field[-1] in QUOTES else field[1:]
    return field.replace('\\"', '"').replace("\\'", "'").replace('""', '"').replace("<|>", " ")


def _without_kinds(text: str) -> str | None:
    """Lines of fields whose kind only a heading, or the number of fields, tells."""
    if "<|>" not in text:
        return None
    records, heading = [], None
    for line in text.split("\n"):
        if "<|>" not in line:
            heading = kind(line) or heading if len(line) < 60 else heading
            continue
        found = _LINE_OF_FIELDS.match(line)
        fields = found["body"].split("<|>") if found else []
        if len(fields) == 4 and _NUMBER.fullmatch(fields[3].strip()) and heading != "entity":
            records.append(f'("relationship"<|>{"<|>".join(fields)})')
        elif len(fields) == 3:
            records.append(f'("{heading or "entity"}"<|>{"<|>".join(fields)})')
    return "\n##\n".join(records) or None
