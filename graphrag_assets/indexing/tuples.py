"""The tuple grammar that models answer in, read with tolerance.

Asked for are records ``("entity"<|>NAME<|>TYPE<|>description)`` separated by ``##`` and ended by ``<|COMPLETE|>`` (the
format of Microsoft GraphRAG). What comes is close to that: separators are missing or glued to the end mark, brackets
are of another kind, delimiters are spaced, full-width or left in as ``{tuple_delimiter}``, quotes differ or are gone,
bullets, bold type, code fences and prose stand around.

So a record is found by how it begins, not by what separates it from the one before; where the grammar has no such
beginning (claims), by bracket or line.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from graphrag_assets.indexing.odd_tuples import rewritten
from graphrag_assets.text.names import clean_text, strip_quotes
from graphrag_assets.text.patterns import beginning_with
from graphrag_assets.text.reasoning import strip_reasoning
from graphrag_assets.text.record_words import kind

#: Delimiter between fields, in all the forms in which models write it.
DELIMITER = (
    r"(?:<{1,2}-?/?\s*[|｜¦│丨ǀ]{1,4}\s*/?-?>{1,2}(?:\s*[|｜])?|<\s*\|\s*[#/\w]{1,20}\s*\|?\s*>|[＜《〈]\s*[|｜]\s*[＞》〉]|"
    r"[\[{(][|｜][\]})]|[<{\[]{1,2}\|?(?:tuple|TUPLE)_(?:delimiter|DELIMITER)\|?[>}\]]{1,2})"
)
#: Weaker forms, which count only where a record uses them right after its kind.
_WEAK_DELIMITER = r"[|｜]"
#: Other marks that models write throughout an answer instead of the delimiter; longer ones before those in them.
_OTHER_DELIMITERS = (
    *("<|tuple|>", "<|delimiter|>", "<tuple_delimiter>", "<delimiter>", "<|sep|>", "<SEP>", "<sep>", "<->"),
    *("||", "｜｜", "<|", "|>", "<>", "::", "\t"),
)
_QUOTE_SIGNS = "\"'`“”„‘’«»「」＂*_"
_QUOTE = f"[{_QUOTE_SIGNS}]"
_KINDS = {
    "entity": "entity",
    "relationship": "relationship",
    "relation": "relationship",
    "实体": "entity",
    "关系": "relationship",
}

_END_MARK = re.compile(
    beginning_with(
        "(（\\[\"'*`<{",
        r"(?:[(（\[]\s*)?[\"'*`]{0,3}(?:<\s*[|｜]?\s*>?\s*COMPLETE\s*[|｜]?\s*>|\{completion_delimiter\})"
        r"[\"'*`]{0,3}(?:\s?[)）\]])?",
    ),
    re.IGNORECASE,
)
_RECORD_START = re.compile(
    beginning_with(
        rf"(（\[【{{<{_QUOTE_SIGNS}er实关",
        rf"(?P<open>[(（\[【{{<]\s*)?(?:(?P<quoted>{_QUOTE}{{1,4}})\s?)?(?P<kind>entity|relationship|relation|实体|关系)\s?"
        rf"{_QUOTE}{{0,4}}\s*[:：]?\s?"
        rf"(?P<delimiter>{DELIMITER}|{_WEAK_DELIMITER})",
    ),
    re.IGNORECASE,
)
#: A field with the name of the format that a model wrote before it: entity_name: SCROOGE.
LABELLED = re.compile(r"[\"'*]{0,2}(?P<label>[^\W\d]\w*(?: \w+)?)[\"'*]{0,2}\s*[:=：]\s*[\"'*]{0,2}(?=\S)")
_SPLIT = re.compile(DELIMITER)
_SPLIT_WEAK = re.compile(_WEAK_DELIMITER)
# A delimiter that lost a character is recognised beside a quote only: <|"x" or "x"|>
_BROKEN_DELIMITER = re.compile(r"(?<=[\"”])\s*\|>\s*(?=[\"“\d])|(?<=[\"”])\s*<\|\s*(?=[\"“\d])")
_STRUCTURE = re.compile(
    r"[()（）\[\]【】]|#{2,}|\{record_delimiter\}|；(?=\s*(?:[(（\[\"“]|$))|\n[ \t]*\n|\n(?=[ \t]*```)"
)
_NUMBER_AFTER_SEPARATOR = re.compile(r"#{2,}[ *]*(\d+(?:\.\d+)?)\s*[)）>\]]")
_CLOSED = re.compile(r"(?:[)）\]】]|(?<!\|)>)[\s'`*_]*$")
_AFTER_CLOSING = re.compile(
    r"[ \t\r\"'`*_,;.。；、،؛…|&]*(?:\n|$|##|[{<]record|[(（\[]|</|\\n|<-|//|#|--|<!--)", re.IGNORECASE
)
#: Words that a model puts between records.
_TAIL = re.compile(r"[^\d<>|]{0,24}")

_ESCAPED = re.compile(r"\\([<|>#\"'()\[\]*_`])")
_HTML = re.compile(r"&(?:lt|gt|quot|amp|vert|#\d{1,5}|#x[0-9a-fA-F]{1,4});")
_CODE_POINT = re.compile(r"\\u(00[2-7][0-9a-fA-F])")
_ESCAPED_LINE = re.compile(r"(?:\\r)?\\n(?=\s*(?:[(（\[\"#<]|\\n|$))|(?<=[)）\]#])(?:\\r)?\\n")
# Signs that nobody sees, beside what makes up the grammar; elsewhere they may belong to a script.
_UNSEEN = "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufffd]"
_INVISIBLE = re.compile(rf"(?<!{_UNSEEN}){_UNSEEN}++(?=[(（\"<|>)#\n])|(?<=[(（\"<|>)#\n]){_UNSEEN}++")
_DOUBLED = re.compile(r"<\|>\s?<\|>")
_NEXT_BULLET = re.compile(r"\n[ \t]*(?:\d{1,4}[.)、]|[-*•+>]|#\d{1,4})[ \t]*\Z")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_COMMA = re.compile(r"<\|>,(?= ?[\"“])")
_LONE_SIGN = re.compile(r"(?<=[)）\]])[ \t]*\n?[ \t]*#[ \t]*\n?[ \t]*(?=[(（\[][\"“'*]?[a-z实关])", re.IGNORECASE)

_DECIMAL = re.compile("[,٫．]")
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_IN_WORDS = {word: float(number) for number, word in enumerate(_NUMBERS)}
# Text may stand before the number where a colon, a dash or a bracket sets it apart, and after it.
_WEIGHT = re.compile(
    r"(?:[^\W\d]{1,20}(?:[ _][^\W\d]{1,20}){0,3}\s*(?:[:：=(]|- | of )\s*|[a-z_ ]{0,40}(?:strength|weight|score)\s*)?"
    rf"\+?(\d{{1,7}}(?:[.,٫．]\d+)?(?:e0)?|{'|'.join(_NUMBERS)})"
    r"(?:\s*(?:/|out of|of|von|sur|de|из)\s*\d+)?\s*(?:分|点|⭐|★|points?|pts?)?\s*"
    r"(?:\([^()]{0,60}\)?|[-–—:：][^\d\n]{0,60}|\))?\.?",
    re.IGNORECASE,
)

# An opened bracket and at most the kind of a record after it: )##("relat
_TORN = re.compile(rf"[(（]\s*{_QUOTE}?[a-zA-Z]{{0,13}}{_QUOTE}?\s*(?:<[|｜]?)?\s*\Z")

_CLAIM_SEPARATOR = re.compile(r"#{2,}|\{record_delimiter\}|(?<=[)）])[\s;；,]*(?=(?:\n[ \t]*[\-*•]?[ \t]*)?[(（])")
_CLAIM_LEAD = re.compile(r"(?:^|\n)[ \t\-*•\d.]*[(（]?")
_CLAIM_DELIMITERS = 5
#: Most characters of a field that is remembered.
_SHORT = 60


@dataclass(frozen=True)
class Record:
    """One record of an answer.

    Args:
        kind: entity, relationship, or claim.
        fields: Fields after the kind, cleaned of brackets, wrapping quotes and white space.
        whole: False where the answer ends before the record does.
    """

    kind: str
    fields: tuple[str, ...]
    whole: bool = True


@dataclass(frozen=True)
class Records:
    """What was read from one answer.

    Args:
        records: Records in their order.
        ended: Whether the answer carries an end mark.
        torn: Whether it ends in the first letters of one more record, of which nothing can be read.
    """

    records: tuple[Record, ...]
    ended: bool
    torn: bool = False

    @property
    def cut(self) -> bool:
        """Whether the answer breaks off inside its last record."""
        return bool(self.records) and not self.ended and (self.torn or not self.records[-1].whole)


def read_graph_records(answer: str) -> Records:
    """Entity and relationship records of an answer.

    Args:
        answer: Raw answer of a model; one answer at a time, since glued answers hide where one ends.
    """
    text, ended = prepared(answer)
    starts = _starts(text)
    # An answer holds records of both kinds as a rule: where one is missing, it may be written in another way.
    if len({match["kind"][:1].lower() for match in starts}) < 2 and (odd := rewritten(text)) is not None:
        others = _starts(odd)
        if len(others) > len(starts):
            text, starts = odd, others
    ends = [*(match.start() for match in starts[1:]), len(text)][: len(starts)]
    records = []
    for match, end in zip(starts, ends, strict=True):
        weak = not _SPLIT.fullmatch(match["delimiter"].strip())
        body, whole = record_body(text[match.end() : end], bracketed=bool(match["open"]), last=end == len(text))
        if end < len(text) and not match["open"]:
            body = _NEXT_BULLET.sub("", body)
        fields = (_SPLIT_WEAK if weak else _SPLIT).split(body if weak else _BROKEN_DELIMITER.sub("<|>", body))
        records.append(Record(_KINDS[match["kind"].lower()], tuple(clean_field(field) for field in fields), whole))
    return Records(tuple(records), ended, bool(_TORN.search(text)))


def read_claim_records(answer: str) -> Records:
    """Claim records of an answer: every bracketed or separate run of fields with delimiters in it.

    Args:
        answer: Raw answer of a model.
    """
    text, ended = prepared(answer)
    records = []
    for part, last in _claim_parts(text):
        first = _SPLIT.search(part)
        assert first is not None
        *_, lead = _CLAIM_LEAD.finditer(
            part, 0, first.start()
        )  # prose may stand before the line that the record begins
        body, whole = record_body(part[lead.end() :], bracketed="(" in lead.group() or "（" in lead.group(), last=last)
        fields = tuple(clean_field(field) for field in _SPLIT.split(_BROKEN_DELIMITER.sub("<|>", body)))
        records.append(Record("claim", fields[1:] if kind(fields[0]) == "claim" else fields, whole))
    return Records(tuple(records), ended)


def clean_field(field: str) -> str:
    """A field without wrapping quotes, bold marks and line breaks."""
    return _clean_short(field) if len(field) <= _SHORT else _clean(field)


def _clean(field: str) -> str:
    field = clean_text(field)
    while len(field) > 3 and field.startswith("**") and field.endswith("**"):
        field = field[2:-2].strip()
    while len(field) > 4 and field.startswith('""') and field.endswith('""'):
        field = field[1:-1]
    return strip_quotes(field)


#: Names, types and strengths, which are short, stand in many records; they are remembered cleaned.
_clean_short = lru_cache(maxsize=4096)(_clean)


def read_weight(field: str) -> float | None:
    """The strength that a field states; None when the field is no strength but text.

    Reads ``8``, ``8.5``, ``"8"``, ``8/10``, ``strength: 8``, ``8 (strong)``, ``eight``, digits of other scripts. Negative
    and non-finite numbers and such beyond any scale are not strengths.
    """
    text = clean_field(field).strip("*<>()（）[]【】{} \"'`,，;；。$\\~≈")
    match = _WEIGHT.fullmatch(text)
    if match is None:
        return _IN_WORDS.get(text.lower())
    number = match.group(1)
    return float(_DECIMAL.sub(".", number)) if number[0].isdigit() else _IN_WORDS[number.lower()]


def prepared(answer: str) -> tuple[str, bool]:
    """Drop reasoning; end marks become separators, wherever they stand."""
    text = _unescaped(strip_reasoning(answer))
    text, marks = _END_MARK.subn("\n##\n", text)
    if not _SPLIT.search(text):
        text = _with_delimiters(text)
    return text, bool(marks)


def _unescaped(text: str) -> str:
    """The answer as it was meant, where it was written for HTML, Markdown or a string of a program."""
    for _ in range(2):
        if text.startswith('"') and text.endswith('"') and "\\" in text:
            text = _out_of_string(text)
        if _HTML.search(text):
            text = html.unescape(text)
    if "\\" in text:
        text = _CODE_POINT.sub(lambda m: chr(int(m.group(1), 16)), text)
        text = _ESCAPED_LINE.sub("\n", _ESCAPED.sub(r"\1", text))
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    if _DOUBLED.search(text) and 2 * len(_DOUBLED.findall(text)) >= 0.8 * text.count("<|>"):
        text = _DOUBLED.sub("<|>", text)
    if "<br" in text:
        text = _BREAK.sub("\n", text)
    if "＃＃" in text:
        text = text.replace("＃＃", "##")
    if commas := text.count("<|>,"):
        always = commas > 1 and commas * 5 >= text.count("<|>") * 4
        text = text.replace("<|>,", "<|>") if always else _COMMA.sub("<|>", text)
    return _LONE_SIGN.sub("##", text) if "#" in text else text


def _out_of_string(text: str) -> str:
    """What a string of JSON holds; the text itself where it is none."""
    try:
        held = json.loads(text, strict=False)
    except ValueError:
        return text
    return held.strip() if isinstance(held, str) else text


def _with_delimiters(text: str) -> str:
    """An answer that writes another mark throughout, with the delimiter in its place."""
    for mark in _OTHER_DELIMITERS:
        kinds = re.findall(
            rf"(?:entity|relationship|claim|实体|关系){_QUOTE}{{0,4}} ?{re.escape(mark)}", text, re.IGNORECASE
        )
        in_lines = max((line.count(mark) for line in text.splitlines()), default=0) if len(mark) > 1 else 0
        if kinds or in_lines >= _CLAIM_DELIMITERS:
            return text.replace(mark, "<|>")
    return text


def _starts(text: str) -> list[re.Match[str]]:
    """Where records begin."""
    return [match for match in _RECORD_START.finditer(text) if _is_start(text, match)]


def _is_start(text: str, match: re.Match[str]) -> bool:
    """Whether a record begins here: in a bracket or quotes anywhere, else only at the beginning of a line."""
    before = text[max(0, match.start() - 40) : match.start()]
    weak = not _SPLIT.fullmatch(match["delimiter"].strip())
    if match["open"] or (match["quoted"] or "").strip("*_`"):
        return not (before[-1:].isalnum() and not match["open"])
    return not weak and bool(re.search(r"(?:^|\n|##)[\s\-*•>\d.)]*$", before))


def record_body(text: str, *, bracketed: bool, last: bool) -> tuple[str, bool]:
    """The fields of a record, without what follows it, and whether its end was seen.

    A record ends at the closing bracket that is followed by a line end, a separator or the next record, or at the
    separator itself; a number that slipped behind the separator is taken along. Where none of that is found, it ends at
    an empty line.
    """
    depth = 0
    paragraph: int | None = None
    for match in _STRUCTURE.finditer(text):
        sign = match.group()
        if sign in "(（[【":
            depth += 1
        elif sign in ")）]】":
            if depth == 0 and (_AFTER_CLOSING.match(text, match.end()) or _TAIL.fullmatch(text, match.end())):
                return _with_number(text[: match.start()], text, match.end()), True
            depth = max(0, depth - 1)
        elif sign.startswith(("#", "{", "；")):
            return _with_number(_without_bracket(text[: match.start()].rstrip()), text, match.start()), True
        elif paragraph is None:
            paragraph = match.start()
    rest = text if paragraph is None else text[:paragraph]
    closed = _CLOSED.search(rest) is not None
    return _without_bracket(rest), closed or paragraph is not None or not (last and bracketed)


def _with_number(head: str, text: str, position: int) -> str:
    """The fields, and the strength that slipped behind the separator: ...at the party>##7)##"""
    number = _NUMBER_AFTER_SEPARATOR.match(text, position)
    return f"{head.rstrip('> ')}<|>{number.group(1)}" if number else head


def _without_bracket(text: str) -> str:
    """Drop one closing bracket and what decorates it."""
    match = re.search(r"[)）\]】][\s'`*_,;；]*$", text[-80:])
    return text[: len(text) - len(text[-80:]) + match.start()] if match else text.rstrip()


def _claim_parts(text: str) -> Iterator[tuple[str, bool]]:
    """Pieces of an answer that hold one claim each, and whether the answer ends with it."""
    parts = [part for part in _CLAIM_SEPARATOR.split(text) if part.strip()]
    for number, part in enumerate(parts):
        lines = part.strip().splitlines()
        if len(lines) > 1 and all(len(_SPLIT.findall(line)) >= _CLAIM_DELIMITERS for line in lines if line.strip()):
            for line in filter(str.strip, lines):
                yield line, False
        elif _SPLIT.search(part):
            yield part, number == len(parts) - 1
