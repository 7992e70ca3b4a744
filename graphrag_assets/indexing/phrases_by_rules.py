"""Names and frequent phrases of texts for whose language no pipeline is installed: by the look of the words alone.

What can be told without a model depends on the script:

* scripts with capitals: runs of capitalised words, also across a small word as in *Leonardo da Vinci*; a single word at
  the start of a sentence counts only if the text capitalises it elsewhere too;
* Chinese and Japanese: runs of katakana and of Latin letters, and sequences of 2-4 ideographs that occur at least
  twice;
* Korean, Arabic, Hebrew, Hindi and others that put spaces between words but have no capitals: words that occur at least
  twice, Korean ones without their particles;
* Thai, Lao, Khmer, Burmese, which put no spaces: sequences of 4-10 characters that occur at least twice.

So names in scripts with capitals are found well, others roughly; pruning by frequency removes much of the noise.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from graphrag_assets.indexing.noun_phrases import NOUN_PHRASE, Mention, PhraseSettings
from graphrag_assets.text.names import canonical_title, clean_name
from graphrag_assets.text.sentences import sentences


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[^\W\d_](?:[\w'’.&-]*\w)?")
_CONNECTORS = _words(
    "de da do dos das du des del della di la le los las el van von der den het ter zu zur bin ibn al y e i и of the & "
    "en av og och"
)
_ARTICLES = _words(
    "der die das den dem des ein eine einen einem einer le la les un une des du el los las una unos il lo gli i uno o "
    "os as um uma de het een en ett in im am bei mit für von à au aux dans en con por para per nel nella no na em и в "
    "на с по у о к"
)
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc][\u30a1-\u30fa\u30fb\u30fc]+")
_HAN_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々]{2,}")
_HANGUL_WORD = re.compile("[\uac00-\ud7a3]{2,}")
_UNSPACED_RUN = re.compile("[\u0e01-\u0e4e\u0e81-\u0edf\u1000-\u109f\u1780-\u17d3]{4,}")
_UNCASED_WORD = re.compile(r"[^\W\d_][\w\u0300-\u036f\u0591-\u05c7\u064b-\u0652\u0900-\u0dff]{2,}")
#: Ideographs that mostly do grammar: a name or a term seldom begins or ends with one.
_HAN_GRAMMAR = frozenset(
    "的了是在我他她它们这那和与就不也都有而且但或着过被把让给从对于为以之其所者吗呢吧啊很更最只又还再要会能可将已没什么怎哪谁个一二三四五六七八九十"
)
_PARTICLES = re.compile(
    "(?:에서는|으로는|에게서|이라고|에서|으로|에게|까지|부터|처럼|보다|라고|이다|했다|한다|"
    "은|는|이|가|을|를|의|에|로|와|과|도|만)$"
)
_DIRECT_SPEECH = "\"'“”‘’«»([{—–-"


def find_mentions_by_rules(text: str, settings: PhraseSettings, language: str = "") -> list[Mention]:
    """Find names and frequent phrases without a language model.

    Args:
        text: Any text.
        settings: What to look for; labels and word classes play no role here.
        language: ISO 639-1 code; German capitalises all nouns, so that its single words are noun phrases, not names.

    Returns:
        Mentions in the order of the text, which do not overlap.
    """
    excluded = frozenset(word.lower() for word in settings.exclude_nouns)
    spans: dict[int, tuple[int, str]] = {}
    taken = bytearray(len(text))
    for find in (_capitalised, _katakana, _han, _hangul, _unspaced, _uncased):
        for start, end, type_ in find(text, language):
            wanted = settings.include_noun_phrases if type_ == NOUN_PHRASE else settings.include_named_entities
            if wanted and not any(taken[start:end]) and text[start:end].lower() not in excluded:
                spans[start] = (end, type_)
                taken[start:end] = b"\1" * (end - start)
    found = []
    for start, (end, type_) in sorted(spans.items()):
        name = clean_name(text[start:end])
        title = canonical_title(name)
        if title:
            found.append(Mention(start, end, name, title, type_, False))
    return found


_Found = Iterator[tuple[int, int, str]]


def _capitalised(text: str, language: str) -> _Found:
    """Runs of capitalised words inside one sentence."""
    lower_words = {w.group() for w in _WORD.finditer(text) if w.group()[0].islower()}
    runs = [(run, opens) for start, end in sentences(text) for run, opens in _runs(text, start, end)]
    inner = {word.group() for run, opens in runs for word in (run[1:] if opens else run)}
    for run, opens in runs:
        first = run[0].group()
        if len(run) == 1:
            doubtful = opens and first not in inner and first[1:].islower()
            if len(first) < 2 or first.lower() in lower_words or doubtful:
                continue
        elif opens and (first.lower() in lower_words or first.lower() in _ARTICLES):
            run = run[1:]
        noun = language == "de" and len(run) == 1
        yield run[0].start(), run[-1].end(), NOUN_PHRASE if noun else ""


def _runs(text: str, start: int, end: int) -> Iterator[tuple[list[re.Match[str]], bool]]:
    """Runs of capitalised words of one sentence, and whether they open it."""
    run: list[re.Match[str]] = []
    opens = True
    pending: list[re.Match[str]] = []
    for word in _WORD.finditer(text, start, end):
        gap = text[(pending or run)[-1].end() : word.start()] if run else ""
        if run and (gap.strip(" ") or len(gap) > 1):
            yield run, opens
            run, pending, opens = [], [], False
        if word.group()[0].isupper():
            opens = not text[start : word.start()].strip(_DIRECT_SPEECH + " ") if not run else opens
            run += [*pending, word] if run else [word]
            pending = []
        elif run and not pending and word.group() in _CONNECTORS:
            pending = [word]
        else:
            if run:
                yield run, opens
            run, pending = [], []
    if run:
        yield run, opens


def _katakana(text: str, language: str) -> _Found:
    for match in _KATAKANA.finditer(text):
        yield match.start(), match.end(), ""


def _han(text: str, language: str) -> _Found:
    """Ideograph sequences that occur twice; in Japanese, where kana bound words, whole runs of up to eight."""
    runs = [(m.start(), m.group()) for m in _HAN_RUN.finditer(text)]
    japanese = language == "ja" or bool(re.search("[\u3041-\u3096]", text))
    if japanese:
        for start, run in runs:
            if len(run) <= 8:
                yield start, start + len(run), NOUN_PHRASE
        return
    yield from _repeated(runs, range(4, 1, -1), lambda gram: not (gram[0] in _HAN_GRAMMAR or gram[-1] in _HAN_GRAMMAR))


def _unspaced(text: str, language: str) -> _Found:
    """Repeated sequences in scripts without spaces that begin and end with a base letter or a closed syllable."""
    runs = [(m.start(), m.group()) for m in _UNSPACED_RUN.finditer(text)]
    yield from _repeated(runs, range(10, 3, -1), lambda gram: not unicodedata.category(gram[0]).startswith("M"))


def _repeated(runs: Sequence[tuple[int, str]], lengths: range, allowed: Callable[[str], bool]) -> _Found:
    """Sequences that occur at least twice, the longest first; a shorter one only where no longer one lies.

    Args:
        runs: Position and characters of each run.
        lengths: Lengths in descending order.
        allowed: Whether a sequence may be a term.
    """
    for length in lengths:
        grams = [(start + i, run[i : i + length]) for start, run in runs for i in range(len(run) - length + 1)]
        counts = Counter(gram for _, gram in grams)
        for position, gram in grams:
            if counts[gram] > 1 and allowed(gram):
                yield position, position + length, NOUN_PHRASE


def _hangul(text: str, language: str) -> _Found:
    """Korean words without particles that occur at least twice."""
    stems = [(m.start(), _PARTICLES.sub("", m.group())) for m in _HANGUL_WORD.finditer(text)]
    counts = Counter(stem for _, stem in stems)
    for start, stem in stems:
        if len(stem) > 1 and counts[stem] > 1:
            yield start, start + len(stem), NOUN_PHRASE


def _uncased(text: str, language: str) -> _Found:
    """Words of at least four letters, in scripts with spaces and without capitals, that occur at least twice."""
    words = [
        m
        for m in _UNCASED_WORD.finditer(text)
        if m.group()[0].upper() == m.group()[0].lower() and not _HANGUL_WORD.match(m.group())
    ]
    counts = Counter(m.group() for m in words)
    for match in words:
        word = match.group()
        if len(word) > 3 and counts[word] > 1 and not _HAN_RUN.match(word) and not _UNSPACED_RUN.match(word):
            yield match.start(), match.end(), NOUN_PHRASE
