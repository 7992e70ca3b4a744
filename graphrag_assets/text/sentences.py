"""Sentence spans of plain text in any language, by rules and without a model.

The rules look at a few characters around a possible end, so that an edit changes the sentences next to it and no
others, and the cost grows linearly with the text, also where one line has megabytes. Three kinds of border exist:

* lines: blank lines, headings, list items, table rows, and line breaks that no word wrap explains;
* stops: full stops, question and exclamation marks of all scripts, with the quotes and brackets that close after them;
* spaces after a long phrase in Thai and Lao, which write no stops.

A full stop ends a sentence unless it belongs to an abbreviation, an initial, a number or a list marker, or the text
goes on in lower case. Where a stop may be either ("Inc.", "U.S.", "B."), the next word decides: a word that often opens
a sentence makes a border.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

#: Stops that end a sentence without a following space: CJK, Devanagari, Arabic, Ethiopic, Burmese, Khmer, Tibetan, …
_FULL_STOPS = "。！？｡؟۔।॥։።፧፨။។៕།༎܀܁܂᠃᠉꓿꛳꛷꯫᱾᱿"
#: Stops that may also stand inside a sentence.
_SOFT_STOPS = ".!?…‼‽⁇⁈⁉．\u037e"
#: What may close a sentence after its stop: quotes, brackets, Markdown emphasis, and reference marks such as [12].
_CLOSERS = "\"'”’»«›)\\]}」』）】〉》〗〙*_"
_STOP = re.compile(rf"[{_FULL_STOPS}{_SOFT_STOPS}]+(?:[{_CLOSERS}]|\[\d{{1,3}}\])*")
#: French puts a space before the closing quote; German opens with the same sign, attached to the next word.
_SPACED_CLOSER = re.compile(r"[ \u00a0\u202f][»›](?=\s|$)")
_NEXT = re.compile(r"\s*[\"'“‘„‚«»‹›(\[{「『（【〈《*_¿¡#>-]{0,4}")
_OPENING_WORD = re.compile(r"[^\W\d_]+")
_BEFORE_WORD = re.compile(r"[\s\"'“‘„«»‹›(\[{「『（/*_—–]")
_LIST_MARKER = re.compile(r"\s*(?:>\s*)*[(\[]?(?:\d{1,3}|[^\W\d_])$")

_LINE_BREAK = re.compile(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_ATX_HEADING = re.compile(r"[ \t]{0,3}#{1,6}[ \t]")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•‣▪◦·–—][ \t]+|[(\[]?\d{1,3}[.)\]][ \t]+|[(]?[a-z]\)[ \t]+)\S")
_QUOTED = re.compile(r"[ \t]*>")
_FIRST_WORD = re.compile(r"\s*(\S{1,40})")

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_CJK_LETTER = re.compile(f"[{_CJK}]")
_SPACED_PHRASE = re.compile("(?<=[\u0e01-\u0edf])[ \u00a0]+(?=[\u0e01-\u0edf])")

#: Lines narrower than this (characters; CJK characters are twice as wide) were not wrapped: each stands for itself.
_NARROWEST_WRAP = 40
#: Characters without a space after which a space ends a sentence in Thai and Lao.
_PHRASE = 20


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Abbreviations that stand before what they belong to, and so never end a sentence.
_BEFORE_NAME = _words(
    "mr mrs ms mx messrs dr prof gen col lt sgt capt cmdr adm maj cpl pvt rev fr hon pres gov sen rep supt insp det "
    "amb treas sr. mme mlle mm hr frau sra srta dña dr.a sig dott ing avv arch dipl bzw z.b z.b u.a d.h i.d.r v.a ca "
    "evtl ggf vgl sog inkl exkl e.g i.e viz vs cf ibid op cit al eg ie approx incl esp resp т.е т.к т.н ул г-н г-жа "
    "им проф акад डॉ श्री mt ft fr. dhr mevr bijv p.ex par.ex"
)
#: Abbreviations that stand before a number.
_BEFORE_NUMBER = _words(
    "no nos nr nrs num núm fig figs eq eqs sec sect art arts ch chap vol vols p pp pg pag pág par para pt ed eds ver "
    "v bd kap abs abb tab jan feb mar apr jun jul aug sep sept oct nov dec стр рис табл гл str bldg rm ext tel ln c "
    "cca"
)
#: Abbreviations after which a sentence may end or go on.
_EITHER = _words(
    "inc ltd co corp bros llc plc gmbh jr sr st ave blvd rd dept est assn univ usw ecc u.s u.k u.n e.u a.m p.m ph.d "
    "m.d b.a m.a d.c l.a b.c a.d jan feb mar apr jun jul aug sep sept oct nov dec mass calif conn penn ariz mich minn "
    "tenn wash wis ill др пр г гг"
)
#: Words that often open a sentence and seldom follow an abbreviation or an initial.
_OPENERS = _words(
    "the a an it he she they we i you this that these those there here his her its their our my your in on at by for "
    "from with to of as if when while after before since although though because but and or so yet then now thus "
    "however what who where why how which not no der die das ein eine er sie es wir ich und aber in im am le la les "
    "un une il elle ils nous je et mais el los las él ella y pero en"
)
_GERMAN_AFTER_ORDINAL = _words(
    "januar jänner februar märz april mai juni juli august september oktober november dezember jahrhundert jahrhunderts"
)


def sentences(text: str) -> list[tuple[int, int]]:
    """Find the sentences of a text.

    Args:
        text: Any text; line breaks of any kind.

    Returns:
        Character spans ``(start, end)`` in order. They do not overlap, begin and end with visible characters, and
        together cover every character of the text that is not white space. A sentence without a border stays whole,
        however long.
    """
    borders = sorted({*_line_borders(text), *_stop_borders(text), *_phrase_borders(text), len(text)})
    spans = []
    start = 0
    for end in borders:
        piece = text[start:end]
        body = piece.strip()
        if body:
            first = start + len(piece) - len(piece.lstrip())
            spans.append((first, first + len(body)))
        start = end
    return spans


# --- stops -----------------------------------------------------------------------------------------------------------


def _stop_borders(text: str) -> Iterator[int]:
    """Positions behind stops that end a sentence."""
    cased = _CasedParagraphs(text)
    for match in _STOP.finditer(text):
        start, end = match.span()
        spaced = _SPACED_CLOSER.match(text, end)
        end = spaced.end() if spaced else end
        if end < len(text) and _ends_sentence(text, start, end, cased):
            yield end


def _ends_sentence(text: str, start: int, end: int, cased: _CasedParagraphs) -> bool:
    """Whether the stop at ``start`` (with its closers up to ``end``) ends a sentence."""
    following = text[end]
    if text[start] in _FULL_STOPS:
        # Japanese quotes a whole sentence inside another one: 「…。」と
        return not (following in "とっ、，," and end - start > 1)
    if not following.isspace():
        # Without a space only between letters of scripts that write none.
        between_cjk = start > 0 and bool(_CJK_LETTER.match(text[start - 1]) and _CJK_LETTER.match(following))
        return between_cjk and text[start] != "…"
    opening = _next_letter(text, end)
    if opening < len(text) and text[opening].islower():
        return not cased.at(start)
    if text[start] == "." and text[start : start + 2] != "..":
        return _full_stop_ends(text, start, opening)
    return True


def _full_stop_ends(text: str, stop: int, opening: int) -> bool:
    """Whether a single full stop, followed by a word at ``opening`` that is not in lower case, ends a sentence."""
    if _is_list_marker(text, stop):
        return False
    word = _BEFORE_WORD.split(text[max(0, stop - 40) : stop])[-1]
    if word.isdigit():
        return not (len(word) <= 2 and _opening_word(text, opening) in _GERMAN_AFTER_ORDINAL)
    word_lower = word.lower()
    if word_lower in _BEFORE_NAME:
        return False
    if word_lower in _BEFORE_NUMBER and text[opening : opening + 1].isdigit():
        return False
    initial = len(word) == 1 and word.isalpha() and not _CJK_LETTER.match(word)
    dotted = "." in word and all(len(part) <= 3 and part.isalpha() for part in word.split(".") if part)
    if initial or dotted or word_lower in _EITHER:
        next_word = _opening_word(text, opening)
        next_is_initial = len(next_word) == 1 and text[opening + 1 : opening + 2] == "."
        return next_word in _OPENERS and not next_is_initial
    return True


def _opening_word(text: str, position: int) -> str:
    """The word at a position in lower case, as far as its first 40 letters."""
    match = _OPENING_WORD.match(text, position, position + 40)
    return match.group().lower() if match else ""


def _is_list_marker(text: str, stop: int) -> bool:
    """Whether the stop follows a number or letter that opens its line, as in ``3. Results``."""
    if text[max(0, stop - 2) : stop].isalpha() and stop > 1:
        return False  # two letters are a word
    window = text[max(0, stop - 8) : stop]
    lines = _LINE_BREAK.split(window)
    at_line_start = len(lines) > 1 or stop <= 8
    marker = _LIST_MARKER.match(lines[-1]) if at_line_start else None
    return marker is not None and (lines[-1].strip(" \t>([").isdigit() or len(lines) > 1)


def _next_letter(text: str, position: int) -> int:
    """Position of the next character behind white space, opening quotes and brackets."""
    match = _NEXT.match(text, position)
    return match.end() if match else position


class _CasedParagraphs:
    """Tells whether a paragraph uses capitals at all; where none does, lower case says nothing about sentences."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._start = self._end = 0
        self._cased = True

    def at(self, position: int) -> bool:
        """Whether the paragraph around a position holds a capital letter (positions must come in ascending order)."""
        if not self._start <= position < self._end:
            text = self._text
            before = text.rfind("\n\n", self._end, position)
            self._start = before + 2 if before >= 0 else self._end
            found = text.find("\n\n", position)
            self._end = len(text) if found < 0 else found + 2
            self._cased = any(map(str.isupper, text[self._start : self._end]))
        return self._cased


# --- lines -----------------------------------------------------------------------------------------------------------


def _line_borders(text: str) -> Iterator[int]:
    """Positions of line breaks that end a sentence whatever stands before them."""
    paragraph: list[tuple[int, int]] = []
    start = 0
    for end, next_start in _line_ends(text):
        if text[start:end].strip():
            paragraph.append((start, end))
        else:
            yield start
            yield from _paragraph_borders(text, paragraph)
            paragraph = []
        start = next_start
    yield from _paragraph_borders(text, paragraph)


def _line_ends(text: str) -> Iterator[tuple[int, int]]:
    """End of each line and start of the next."""
    for match in _LINE_BREAK.finditer(text):
        yield match.span()
    yield len(text), len(text)


def _paragraph_borders(text: str, lines: list[tuple[int, int]]) -> Iterator[int]:
    """Borders between the lines of one paragraph."""
    if len(lines) < 2:
        return
    width = max(len(text[start:end].rstrip()) for start, end in lines)
    for (start, end), (next_start, next_end) in pairwise(lines):
        if _lines_apart(text[start:end].rstrip(), text[next_start:next_end], width):
            yield next_start


def _lines_apart(line: str, following: str, width: int) -> bool:
    """Whether two neighbouring lines belong to different sentences whatever their punctuation.

    A wrapped line ends because the next word did not fit. So a break before a word that would have fitted easily (into
    four fifths of the widest line of the paragraph) was made on purpose, and so was every break between narrow lines.
    """
    if _ATX_HEADING.match(line) or _ATX_HEADING.match(following) or _is_rule(line):
        return True
    if _is_rule(following):
        return False  # the line that underlines a heading stays with it
    if _LIST_ITEM.match(following) or line.lstrip().startswith("|") or following.lstrip().startswith("|"):
        return True
    if bool(_QUOTED.match(line)) != bool(_QUOTED.match(following)):
        return True
    word_match = _FIRST_WORD.match(following)
    word = word_match.group(1) if word_match else ""
    if word[:1].islower() or line.endswith((",", ";", "-", "、", "，")):
        return False
    unspaced = bool(_CJK_LETTER.match(word) or _CJK_LETTER.match(line[-1:]))
    if width * (2 if unspaced else 1) < _NARROWEST_WRAP:
        return True
    return len(line) + (1 if unspaced else 1 + len(word)) <= width * 0.8


def _is_rule(line: str) -> bool:
    """Whether a line is a row of equal signs, such as ``-----`` or ``* * *``."""
    signs = line[:200].replace(" ", "").strip()
    return len(signs) >= 3 and signs[0] in "=-_*~" and not line.strip(signs[0] + " \t\r")


# --- scripts without stops -------------------------------------------------------------------------------------------


def _phrase_borders(text: str) -> Iterator[int]:
    """Spaces that follow a long phrase in Thai or Lao."""
    if text.isascii():
        return
    for match in _SPACED_PHRASE.finditer(text):
        start = match.start()
        phrase = text[max(0, start - _PHRASE) : start]
        if len(phrase) == _PHRASE and not any(map(str.isspace, phrase)):
            yield match.end()
