"""Rules for names of organisations, places, events and things."""

from __future__ import annotations

from graphrag_assets.indexing.resolution import keys, words
from graphrag_assets.indexing.resolution.corpus import Corpus
from graphrag_assets.indexing.resolution.judgement import NOTHING, Judgement, Shorter, kinds_differ
from graphrag_assets.indexing.resolution.keys import Name
from graphrag_assets.indexing.resolution.slips import is_word, one_is_rare, slip, slip_score


def judge_names(a: Name, b: Name, corpus: Corpus) -> Judgement:
    """Judge two names of one kind, which agree in numbers and distinguishing words.

    Persons get here where their titles are no personal names, such as THE LAMPLIGHTER.
    """
    if a.core == b.core:
        return _same_core(a, b)
    if a.joined == b.joined:
        personal = "person" in (a.kind, b.kind)
        score = 0.94 if len(a.joined) >= 6 and not personal else 0.8
        return Judgement(score, "spacing", "same letters, other spaces")
    if a.written == b.joined or b.written == a.joined:
        return Judgement(0.95, "accent", "an umlaut written out")
    if (a.possessive != a.core and a.possessive == b.core) or (b.possessive != b.core and b.possessive == a.core):
        known = a.kind == b.kind != ""
        return Judgement(0.92 if known else 0.8, "possessive", "one is the possessive of the other")
    if a.core[:-1] == b.core[:-1] and a.legal == b.legal and keys.singular(a.core[-1]) == keys.singular(b.core[-1]):
        return _plural(a, b)
    if len(a.core) > 1 and sorted(a.core) == sorted(b.core):
        return Judgement(0.78, "word_order", "same words in another order")
    bare = _without_article(a.core)
    if bare == _without_article(b.core):
        unsure = "person" in (a.kind, b.kind) or len("".join(bare)) < keys.SHORTEST_WITHOUT_ARTICLE
        return Judgement(0.7 if unsure else 0.93, "article", "an article left out")
    if not a.inner and not b.inner and a.legal == b.legal:
        judgement = _misspelling(a, b, corpus)
        return judgement if judgement.score else _contained(a, b)
    return NOTHING


def _same_core(a: Name, b: Name) -> Judgement:
    """Equal but for accents, abbreviations, number words, legal forms or brackets."""
    if a.inner != b.inner:
        brackets = judge_brackets(a, b)
        if brackets.conflict or a.legal == b.legal:
            return brackets
    if a.legal != b.legal:
        return _legal_forms(a, b)
    return judge_accents(a, b) or Judgement(0.95, "abbreviation", "same but for abbreviations or number words")


def judge_accents(a: Name, b: Name) -> Judgement | None:
    """Names that are equal but for accents; None where they have the same."""
    if not keys.accents_agree(a.title, b.title):
        return Judgement(0.5, "accent", "accents differ")
    first, second = keys.accent_count(a.title), keys.accent_count(b.title)
    if first == second:
        return None
    return Judgement(0.96, "accent", "same but for accents", "first" if first < second else "second")


def _legal_forms(a: Name, b: Name) -> Judgement:
    """One name with two legal forms: other ones, or CO for one, or one more on one side."""
    pairs = list(zip(a.legal, b.legal, strict=False))
    if any(x != y and not ("CO" in (x, y) and words.CO_FORMS.issuperset((x, y))) for x, y in pairs):
        return Judgement(0.7, "legal_suffix", f"legal forms differ: {' '.join(a.legal)} and {' '.join(b.legal)}")
    if any(x != y for x, y in pairs):
        shorter: Shorter = "first" if any(x == "CO" and y != "CO" for x, y in pairs) else "second"
        return Judgement(0.92, "legal_suffix", "same, with CO for the legal form", shorter)
    bare, longer = (a, b) if len(a.legal) < len(b.legal) else (b, a)
    more = longer.legal[len(bare.legal) :]
    weak = words.WEAK_LEGAL_FORMS.issuperset(more) and bare.kind != "organization"
    plain = words.PLAIN_LEGAL_FORMS.issuperset(more) or bare.kind in ("", "phrase") or len(bare.joined) < 4
    unsure = weak or bare.kind == "place" or (len(bare.core) == 1 and not bare.legal and plain)
    evidence = f"same but for the legal form {' '.join(more)}"
    return Judgement(0.75 if unsure else 0.93, "legal_suffix", evidence, "first" if bare is a else "second")


def judge_brackets(a: Name, b: Name) -> Judgement:
    """Judge two names that are equal but for what stands in brackets at their ends."""
    if a.inner and b.inner:
        return Judgement(0.3, "brackets", f"({a.inner}) and ({b.inner}) tell them apart", conflict=True)
    longer, shorter_name = (a, b) if a.inner else (b, a)
    shorter: Shorter = "second" if longer is a else "first"
    if longer.inner.replace(" ", "") in keys.initialisms(shorter_name):
        return Judgement(0.97, "brackets", f"the brackets hold its acronym {longer.inner}")
    sure = len(shorter_name.core) > 1 and a.kind == b.kind != ""
    return Judgement(0.9 if sure else 0.75, "brackets", f"same but for the brackets ({longer.inner})", shorter)


def _plural(a: Name, b: Name) -> Judgement:
    if "person" in (a.kind, b.kind):
        return Judgement(0.62, "plural", "one is the plural of the other, of persons", last_resort=True)
    known = bool(a.kind and b.kind) or (bool(a.kind or b.kind) and len(a.core) > 1) or len(a.core) > 1
    return Judgement(0.92 if known else 0.75, "plural", "one is the plural of the other")


def _without_article(core: tuple[str, ...]) -> tuple[str, ...]:
    return core[1:] if len(core) > 1 and core[0] in ("A", "AN", "THE") else core


def _contained(a: Name, b: Name) -> Judgement:
    """One title is the other and one more word at an end: worth a question, never a merge by rule."""
    short, long = (a, b) if len(a.core) < len(b.core) else (b, a)
    if len(long.core) != len(short.core) + 1 or len(short.joined) < 6 or a.kind != b.kind or not a.kind:
        return NOTHING
    if long.core[1:] == short.core or long.core[:-1] == short.core:
        return Judgement(0.62, "contained", "one title is part of the other", last_resort=True)
    return NOTHING


def judge_acronym(a: Name, b: Name, corpus: Corpus) -> Judgement:
    """BTC for BRANNOCK TIDAL CO-OPERATIVE; whether it can stand for others too is checked where these are known."""
    short, long = (a, b) if a.letters and a.letters in keys.initialisms(b) else (b, a)
    if not short.letters or short.letters not in keys.initialisms(long) or "person" in (a.kind, b.kind):
        return NOTHING
    shorter: Shorter = "first" if short is a else "second"
    evidence = f"{short.letters} are the initials of {long.title}"
    if long.inner.replace(" ", "") == short.letters or _states(short, long, corpus):
        return Judgement(0.97, "acronym", f"{evidence}, and a text says so", shorter)
    if kinds_differ(a.kind, b.kind):
        return Judgement(0.75, "acronym", f"{evidence}, but types differ: {a.kind} and {b.kind}", shorter)
    if len(short.letters) >= 3:
        sure = 0.93 if a.kind == b.kind != "" else 0.9 if "." in short.title else 0.8
        return Judgement(sure, "acronym", evidence, shorter)
    known = words.KNOWN_ACRONYMS.get(short.letters) == " ".join(long.core)
    return Judgement(0.95 if known else 0.75, "acronym", evidence, shorter)


def _states(short: Name, long: Name, corpus: Corpus) -> bool:
    """Whether a description of one names the other."""
    return corpus.says(long.title, short.letters) or corpus.says(short.title, long.title)


def _misspelling(a: Name, b: Name, corpus: Corpus) -> Judgement:
    if len(a.core) != len(b.core):
        return NOTHING
    different = [(x, y) for x, y in zip(a.core, b.core, strict=True) if x != y]
    if len(different) != 1:
        return NOTHING
    x, y = different[0]
    if not (x.isalpha() and y.isalpha()) or min(len(x), len(y)) < 5:
        return NOTHING
    kind_of_slip = slip(x, y)
    if not kind_of_slip:
        return NOTHING
    rest = sum(len(t) for t in a.core) - len(x)
    score = slip_score(kind_of_slip, min(len(x), len(y)), alone=rest < 4, rare=one_is_rare(a, b, corpus))
    if is_word(x, corpus) and is_word(y, corpus):
        score = min(score, 0.7)
    if a.kind != b.kind or not a.kind:
        score = min(score, 0.85)
    return Judgement(score, "misspelling", f"{x} and {y} differ by a slip ({kind_of_slip})") if score else NOTHING
