"""What a question asks for: its words of content, and the kind of answer that it wants (a number, a date, a person).

The kinds are read from English question words; a question in another language has none, which rules nothing out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Literal

from graphrag_assets.text.dates import MONTH, MONTHS

Kind = Literal["", "number", "money", "date", "name", "person"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ENDINGS = (
    ("ingly", ""), ("edly", ""), ("ies", "y"), ("ied", "y"), ("ing", ""), ("ers", ""), ("er", ""), ("ed", ""),
    ("es", ""), ("ly", ""), ("s", ""), ("e", ""),
)  # fmt: skip


def stem(word: str) -> str:
    """A word without its English endings: equal for most forms of one word. Other words and numbers stay."""
    if len(word) < 4 or not word.isascii() or word[0].isdigit():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: len(word) - len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word.rstrip("e") if len(word) > 4 else word


#: Words of English that say nothing about what a text is about.
FUNCTION_WORDS = _set(
    "a about according after all also am an and another any are as at be became become been before being between both "
    "but by called came can come could did do does doing done down during each either ever for from get given gives "
    "got had has have having he her here hers him his how i if in into is it its just kind made make many may me might "
    "go goes gone went more most much must my name named no nor not of off on once one only onto or other our out over own same shall she "
    "should so some such take than that the their them then there these they this those through to too took under until "
    "up upon us very was we were what when where which while who whom whose why will with within without would you your"
)

#: Number words that are quantities: "one" is mostly a pronoun.
_NUMBER_WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen"
    "|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|half|third|quarter|dozen"
    "|single|none|nobody"
)
_NUMBER = re.compile(rf"\d[\d.,:/]*|\b(?:{_NUMBER_WORDS}|one)s?\b", re.IGNORECASE)
_MONEY = re.compile(
    r"[$€£¥₹]|\b(?:crowns?|dollars?|pounds?|euros?|shillings?|pence|francs?|marks?|rupees?|yen|guineas?|cents?"
    r"|usd|eur|gbp|free|million|billion)\b",
    re.IGNORECASE,
)
_DATE = re.compile(
    rf"\b(?:1\d|20|21)\d\d\b|\b\d{{1,2}}(?:st|nd|rd|th)?\.? (?:of )?(?:{MONTH})\b|\b(?:{MONTH})\.? \d{{1,2}}\b"
    r"|\b\d{4}-\d\d-\d\d\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b\d{1,2}th century\b|\b\d{1,2}/\d{1,2}\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"\b[A-ZÀ-ÖØ-Þ][\w'’-]+(?:\.? (?:(?:of|the|de|von|van|and|&) )?[A-ZÀ-ÖØ-Þ][\w'’-]+)*")
#: Words with a capital that are no names.
_CALENDAR = {stem(word) for word in [*MONTHS, *_set("monday tuesday wednesday thursday friday saturday sunday")]}
_TITLES = _set("mr mrs ms miss dr sir dame prof professor councillor inspector")

_ASKS_MONEY = re.compile(
    r"\bhow much\b.*\b(?:cost|costs|pay|paid|earn|earned|worth|price|spend|spent|money|sell|sold|charge|owe[ds]?)\b"
    r"|\b(?:what|which|at what) (?:price|sum|salary|fee|fine|wage|amount of money)\b"
    r"|^what (?:did|does|do|would|will) .* cost\b",
    re.IGNORECASE,
)
_ASKS_NUMBER = re.compile(
    r"\bhow (?:much|many|long|far|old|big|large|high|tall|wide|deep|fast|warm|hot|cold|heavy|often|thick|late|early)\b"
    r"|\b(?:what|which) (?:[a-z]+ ){0,2}?(?:share|percentage|proportion|number|length|height|width|depth|speed|distance"
    r"|weight|temperature|age|size|population|capacity|rate|level)\b"
    r"|\bwhat (?:is|was|were|are) the (?:[a-z]+ ){0,2}?(?:percentage|proportion|length|height|width|depth|speed"
    r"|distance|weight|temperature|age|population|capacity|telephone number|phone number|price|cost|salary)\b",
    re.IGNORECASE,
)
_ASKS_DATE = re.compile(
    r"^(?:and |but |so )?(?:since |until |by |from )?when\b|\b(?:what|which) (?:year|date|day|month|century|decade)\b",
    re.IGNORECASE,
)
_ASKS_PERSON = re.compile(
    r"^(?:\w+ )?(?:who|whose|whom)\b"
    r"|\b(?:what|which) (?:person|man|woman|actor|actress|author|surveyor|councillor|candidate|king|queen|president)\b"
    r"|\bnames? of [^?]*\b(?:wife|husband|man|woman|son|daughter|brother|sister|mother|father|doctor|engineer|driver|keeper"
    r"|clerk|captain|manager|teacher|author|officer)\b",
    re.IGNORECASE,
)
_ASKS_NAME = re.compile(
    r"\b(?:what|which) (?:company|firm|city|country|state|county|continent|town|airline|university|bank|club|team|band|party"
    r"|river|newspaper)\b"
    r"|\bwhat (?:is|was|were|are) the names? of\b",
    re.IGNORECASE,
)
_ASKS_ACCOUNT = re.compile(r"^\s*(?:how|why|explain|describe|compare|tell me|in what way)\b", re.IGNORECASE)

#: What names the kind of answer and so need not be found beside it.
_KIND_WORDS = re.compile(
    r"\bhow (?:much|many|long|far|old|big|large|often|late|early)\b"
    r"|\b(?:what|which) (?:[a-z]+ ){0,2}?(?:share|percentage|proportion|number|distance|age|size|rate|price|sum|salary"
    r"|fee|year|date|day|month|century|decade)\b",
    re.IGNORECASE,
)

#: Words that only English has, and words that are frequent in questions of other languages and are not English.
_ENGLISH = _set("the what who whom whose which when where why how did does has have and with from of")
_NOT_ENGLISH = _set(
    "der das wer wann wo wie welche welcher welches wem wen warum ist und mit von qui que quand où quel quelle quels "
    "quelles comment pourquoi est les des du une el los las quién quiénes cuándo dónde qué cuál cómo por es una il chi "
    "che quando dove quale perché come gli della wie wat waar wanneer welk hoe waarom het een o os as quem onde qual "
    "como não em vem vad när var vilken hur och är hvem hvad hvornår hvor jest kto kiedy gdzie jak"
)

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|[^\W_{_UNSPACED}]+(?:[.,:]\d+)*")


def kind_of_answer(question: str) -> Kind:
    """The kind of answer that a question wants; empty where its words do not tell."""
    if _ASKS_MONEY.search(question):
        return "money"
    if _ASKS_NUMBER.search(question):
        return "number"
    if _ASKS_DATE.search(question):
        return "date"
    if _ASKS_PERSON.search(question):
        return "person"
    return "name" if _ASKS_NAME.search(question) else ""


def holds_kind(kind: Kind, question: str, text: str, places: Collection[str] = ()) -> bool:
    """Whether a text holds something of a kind that the question does not already say.

    Args:
        kind: What the question wants.
        question: The question; its own numbers, dates and names are no answer to it.
        text: A sentence that may answer it.
        places: Names in upper case that are no person's and no organisation's.
    """
    if not kind:
        return True
    asked = {stem(word) for word in words(question)}
    if kind in ("name", "person"):
        barred = places if kind == "person" else ()
        return any(_is_new(name, asked | _CALENDAR) and name.upper() not in barred for name in names_in(text))
    pattern = _DATE if kind == "date" else _NUMBER
    found = any(_is_new(match.group(), asked) for match in pattern.finditer(text))
    return found and (kind != "money" or _MONEY.search(text) is not None)


def names_in(text: str) -> list[str]:
    """Runs of words with capitals, as they stand in a text."""
    return [match.group() for match in _NAME.finditer(text)]


def _is_new(answer: str, asked: set[str]) -> bool:
    said = {word for word in words(answer) if word not in FUNCTION_WORDS and word not in _TITLES}
    return not {stem(word) for word in said} <= asked


def words(text: str) -> list[str]:
    """Words in lower case, numbers with their decimals; the ending of possessives and accents of Latin letters are dropped.

    Runs of scripts that write no spaces give their pairs of neighbouring characters.
    """
    found: list[str] = []
    for match in _WORD.finditer(re.sub(r"['’]s\b", "", _without_accents(text))):
        word = match.group().casefold()
        if match.lastgroup == "unspaced" and len(word) > 1:
            found.extend(word[i : i + 2] for i in range(len(word) - 1))
        else:
            found.append(word)
    return found


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    bases = ((c, unicodedata.normalize("NFD", c)[0]) for c in unicodedata.normalize("NFC", text))
    return "".join(base if base.isascii() else c for c, base in bases)


def content_words(text: str) -> list[str]:
    """Words that say what a text is about, each once, in order."""
    return list(dict.fromkeys(word for word in words(text) if word not in FUNCTION_WORDS))


def asks_for_an_account(question: str) -> bool:
    """Whether a question asks how or why, which seldom one sentence answers."""
    return not kind_of_answer(question) and _ASKS_ACCOUNT.search(question) is not None


def words_to_find(question: str) -> list[str]:
    """The words of a question that a passage with the answer should hold: those that only name its kind are left out."""
    return content_words(_KIND_WORDS.sub(" ", question))


def named_words(question: str) -> set[str]:
    """Words of the names and numbers in a question, in lower case; its first word, which always has a capital, is none."""
    rest = question.strip().partition(" ")[2]
    names = [name for name in names_in(rest) if not name.isupper() or len(name) > 1]
    return {word for name in names for word in words(name)} | {word for word in words(question) if word[0].isdigit()}


def may_be_english(question: str) -> bool:
    """Whether a question can be read by a model that reads English only.

    English function words decide, then those of other languages, then the letters: a question of names only counts as
    English where most of its letters are ASCII.
    """
    said = {match.group().casefold() for match in _WORD.finditer(question)}
    english, other = len(said & _ENGLISH), len(said & _NOT_ENGLISH)
    if english != other:
        return english > other
    letters = [c for c in question if c.isalpha()]
    return sum(c.isascii() for c in letters) * 10 >= len(letters) * 9
