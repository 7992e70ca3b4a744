"""How certain it is that two titles name one thing, by which rule, and why.

Scores (from 0 to 1) are certainties set by hand, in the order in which people would trust the rules; the two thresholds
of the settings cut through them. A rule either finds evidence, or finds none (score 0), or finds a contradiction
(``conflict``), which keeps the two apart even where both are like a third.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rapidfuzz.distance import OSA

from graphrag_assets.indexing.resolution import keys, words
from graphrag_assets.indexing.resolution.corpus import Corpus
from graphrag_assets.indexing.resolution.keys import Name
from graphrag_assets.indexing.resolution.persons import Person, compare_given

Shorter = Literal["", "first", "second"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say about a pair.

    Args:
        score: Certainty that both name one thing.
        method: Rule that gave the score.
        evidence: Why, in words.
        shorter: Which of the two leaves something out, so that it can stand for several longer ones; such a form is
            merged only where all of its longer forms are one.
        conflict: Whether the two can never be one.
        last_resort: Worth a question to a model, but not worth a row where no model is asked.
    """

    score: float
    method: str = ""
    evidence: str = ""
    shorter: Shorter = ""
    conflict: bool = False
    last_resort: bool = False


NOTHING = Judgement(0.0)


#: A misspelling is rare, and what it misspells is not.
_MOST_OF_A_SLIP = 2
_LEAST_RATIO = 3
_TITLES_OF_A_WORD = 3


def judge(a: Name, b: Name, corpus: Corpus) -> Judgement:
    """Judge a pair of titles.

    Args:
        a: One title.
        b: The other; the result is the same the other way round, with ``shorter`` turned.
        corpus: What is known of the corpus.
    """
    if a.title > b.title:
        return turned(judge(b, a, corpus))
    if a.key == b.key:
        return Judgement(0.99, "spelling", "same but for punctuation, spaces or a leading THE")
    if not (a.core and b.core) or "value" in (a.kind, b.kind):  # other scripts have no core
        return NOTHING
    if kinds_differ(a.kind, b.kind):
        return Judgement(0.0, "type", f"types differ: {a.kind} and {b.kind}", conflict=True)
    if a.letters or b.letters:
        judgement = _acronym(a, b, corpus)
        if judgement.score:
            return judgement
    if a.marks != b.marks:
        told = sorted(set(a.marks) ^ set(b.marks)) or sorted(set(a.marks))
        return Judgement(0.0, "numeral_or_direction", f"{', '.join(told)} tells them apart", conflict=True)
    if a.person and b.person and "person" in (a.kind, b.kind):
        judgement = _persons(a, b, a.person, b.person, corpus)
        if judgement.score or judgement.conflict:
            return judgement
    return _names(a, b, corpus)


def turned(judgement: Judgement) -> Judgement:
    """The judgement of the pair the other way round."""
    if not judgement.shorter:
        return judgement
    other: Shorter = "second" if judgement.shorter == "first" else "first"
    return Judgement(judgement.score, judgement.method, judgement.evidence, other, judgement.conflict)


def kinds_differ(a: str, b: str) -> bool:
    """Whether two kinds rule each other out: unknown agrees with all, places and organisations are often confused."""
    if a == b or not a or not b or "phrase" in (a, b):
        return False
    return {a, b} != {"place", "organization"}


# --- names of things -------------------------------------------------------------------------------------------------


def _names(a: Name, b: Name, corpus: Corpus) -> Judgement:
    """Names of organisations, places, events and things, and those of persons where they are no personal names."""
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
    if a.inner != b.inner and a.inner and b.inner:
        return Judgement(0.3, "brackets", f"({a.inner}) and ({b.inner}) tell them apart", conflict=True)
    shared = min(len(a.legal), len(b.legal))
    if a.legal[:shared] != b.legal[:shared]:
        return Judgement(0.7, "legal_suffix", f"legal forms differ: {' '.join(a.legal)} and {' '.join(b.legal)}")
    if a.inner != b.inner:
        return _brackets(a, b)
    if a.legal != b.legal:
        bare, form = (a, b.legal[shared:]) if len(b.legal) > shared else (b, a.legal[shared:])
        shorter: Shorter = "first" if bare is a else "second"
        unsure = len(bare.core) == 1 and not bare.legal and (bare.kind in ("", "phrase") or len(bare.joined) < 4)
        weak = all(f in words.WEAK_LEGAL_FORMS for f in form)
        same = bare.kind == "organization" or not weak
        score = 0.75 if unsure or not same or bare.kind == "place" else 0.93
        return Judgement(score, "legal_suffix", f"same but for the legal form {' '.join(form)}", shorter)
    if not keys.accents_agree(a.title, b.title):
        return Judgement(0.5, "accent", "accents differ")
    accents = keys.accent_count(a.title), keys.accent_count(b.title)
    if accents[0] != accents[1]:
        return Judgement(0.96, "accent", "same but for accents", "first" if accents[0] < accents[1] else "second")
    return Judgement(0.95, "abbreviation", "same but for abbreviations or number words")


def _brackets(a: Name, b: Name) -> Judgement:
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


def _acronym(a: Name, b: Name, corpus: Corpus) -> Judgement:
    """BTC for BRANNOCK TIDAL CO-OPERATIVE; uniqueness is checked where all long forms are known."""
    short, long = (a, b) if a.letters and a.letters in keys.initialisms(b) else (b, a)
    if not short.letters or short.letters not in keys.initialisms(long) or "person" in (a.kind, b.kind):
        return NOTHING
    shorter: Shorter = "first" if short is a else "second"
    evidence = f"{short.letters} are the initials of {long.title}"
    if long.inner.replace(" ", "") == short.letters or _states(short, long, corpus):
        return Judgement(0.97, "acronym", f"{evidence}, and a text says so", shorter)
    known = a.kind == b.kind != ""
    dotted = "." in short.title
    if len(short.letters) >= 3:
        return Judgement(0.93 if known else 0.9 if dotted else 0.8, "acronym", evidence, shorter)
    return Judgement(0.9 if known and dotted else 0.75, "acronym", evidence, shorter)


def _states(short: Name, long: Name, corpus: Corpus) -> bool:
    """Whether a description of one names the other."""
    return corpus.says(long.title, short.letters) or corpus.says(short.title, long.title)


# --- misspellings ----------------------------------------------------------------------------------------------------


def slip(a: str, b: str) -> str:
    """What kind of slip turns one word into the other.

    Returns:
        double (a letter doubled or not), swap (neighbours exchanged), inner (one letter between the first and the
        last), edge (one letter at an end, where endings carry meaning: MARTIN and MARTINE), two (two letters of a long
        word), or empty.
    """
    distance = OSA.distance(a, b, score_cutoff=2)
    if distance <= 2 and keys.single_letters(a) == keys.single_letters(b):
        return "double"
    if distance == 1:
        if sorted(a) == sorted(b):
            return "swap" if a[0] == b[0] and a[-1] == b[-1] else "edge"
        return "inner" if a[0] == b[0] and a[-1] == b[-1] else "edge"
    if distance == 2 and min(len(a), len(b)) >= 9 and a[0] == b[0] and a[-1] == b[-1]:
        return "two"
    return ""


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
    score = slip_score(kind_of_slip, min(len(x), len(y)), alone=rest < 4, asymmetric=_asymmetric(a, b, corpus))
    both_words = all(corpus.token_titles.get(t, 0) >= _TITLES_OF_A_WORD for t in (x, y))
    if both_words:
        score = min(score, 0.7)
    if a.kind != b.kind or not a.kind:
        score = min(score, 0.85)
    return Judgement(score, "misspelling", f"{x} and {y} differ by a slip ({kind_of_slip})") if score else NOTHING


def slip_score(kind_of_slip: str, length: int, *, alone: bool, asymmetric: bool) -> float:
    """Certainty of a misspelling.

    Args:
        kind_of_slip: As :func:`slip` gives it.
        length: Letters of the shorter word.
        alone: Whether there is no other word that agrees.
        asymmetric: Whether one of the titles is rare and the other is not, as it is with misspellings.
    """
    if kind_of_slip == "double":
        return 0.92 if length >= (7 if alone else 6) else 0.75
    if kind_of_slip == "swap":
        return 0.92 if length >= (8 if alone else 6) else 0.7
    if kind_of_slip == "inner":
        if not alone and asymmetric and length >= 7:
            return 0.9
        return 0.8 if length >= 6 else 0.0
    return 0.65 if length >= 7 else 0.0


def _asymmetric(a: Name, b: Name, corpus: Corpus) -> bool:
    low, high = sorted((corpus.frequency.get(a.title, 1), corpus.frequency.get(b.title, 1)))
    return low <= _MOST_OF_A_SLIP and high >= _LEAST_RATIO * low


# --- persons ---------------------------------------------------------------------------------------------------------


def _persons(a: Name, b: Name, p: Person, q: Person, corpus: Corpus) -> Judgement:
    """Two personal names, of which at least one is known to be of a person."""
    if p.generation != q.generation:
        told = " and ".join(sorted({p.generation or "none", q.generation or "none"}))
        return Judgement(0.0, "generation", f"generations differ: {told}", conflict=True)
    if p.gender and q.gender and p.gender != q.gender:
        return Judgement(0.0, "honorific", "honorifics of a man and of a woman", conflict=True)
    if p.single and q.single:
        return _two_single_names(p, q)
    if p.single or q.single:
        return _single_and_full(a, b, p, q, corpus)
    if p.surname != q.surname:
        return _other_surname(a, b, p, q, corpus)
    return _same_surname(a, b, p, q)


def _two_single_names(p: Person, q: Person) -> Judgement:
    if p.surname != q.surname:
        likely = slip(p.surname, q.surname) if min(len(p.surname), len(q.surname)) >= 6 else ""
        return Judgement(0.7, "misspelling", f"a slip ({likely})") if likely in ("double", "swap") else NOTHING
    if p.honorifics == q.honorifics:
        return Judgement(0.95, "spelling", "same name, other spelling")
    if not p.honorifics or not q.honorifics:
        bare: Shorter = "first" if not p.honorifics else "second"
        return Judgement(0.93, "honorific", f"same but for {' '.join(p.honorifics or q.honorifics)}", bare)
    return Judgement(0.65, "honorific", f"honorifics differ: {' '.join(p.honorifics)} and {' '.join(q.honorifics)}")


def _single_and_full(a: Name, b: Name, p: Person, q: Person, corpus: Corpus) -> Judgement:
    """A bare surname (or given name) and a full name."""
    single, full = (p, q) if p.single else (q, p)
    single_name, full_name = (a, b) if p.single else (b, a)
    shorter: Shorter = "first" if p.single else "second"
    if single.surname == full.surname:
        gender = full.given_gender or corpus.gender(full_name.title)
        if single.gender and gender and single.gender != gender:
            return Judgement(
                0.0, "surname", f"{single_name.title} is not of the gender of {full_name.title}", conflict=True
            )
        score = 0.92 if single_name.kind == "person" or single.honorifics else 0.75
        if single.gender == "f" and gender != "f":
            score = 0.75  # may be the wife of a man of this name
        if full_name.kind != "person":
            score = min(score, 0.75)
        return Judgement(score, "surname", f"{single.surname} is the surname of {full_name.title}", shorter)
    if single.surname in (full.given[0], full.root) and not single.honorifics:
        return Judgement(0.7, "given_name", f"{single.surname} is a given name of {full_name.title}", shorter)
    return NOTHING


def _same_surname(a: Name, b: Name, p: Person, q: Person) -> Judgement:
    given = compare_given(p.given, q.given)
    sure = 0.0 if a.kind == b.kind else 0.02
    if given.agree:
        ranks = p.honorifics and q.honorifics and p.honorifics != q.honorifics and not {p.gender, q.gender} & {"m", "f"}
        if given.equal:
            if p.honorifics == q.honorifics:
                return _equal_names(a, b, p, q)
            if ranks:
                return Judgement(
                    0.85, "honorific", f"ranks differ: {' '.join(p.honorifics)} and {' '.join(q.honorifics)}"
                )
            return Judgement(0.96, "honorific", "same name with another honorific")
        if given.first_shorter and given.second_shorter:
            return Judgement(0.85, "initials", "each abbreviates what the other writes out")
        shorter: Shorter = "first" if given.first_shorter else "second"
        if any(len(x) == 1 for x in (p.given if given.first_shorter else q.given)):
            return Judgement(0.93 - sure, "initials", "same surname, and the initials agree", shorter)
        return Judgement(0.92 - sure, "given_names", "same surname, one leaves out a given name", shorter)
    first, second = p.given[0], q.given[0]
    if first != second and compare_given((p.root, *p.given[1:]), (q.root, *q.given[1:])).agree:
        return Judgement(0.8, "nickname", f"{first} and {second} are forms of {p.root}")
    if first != second and _alike(first, second) and compare_given(p.given[1:], q.given[1:]).agree:
        return Judgement(0.68, "misspelling", f"given names {first} and {second} are alike, but may be two persons")
    told = f"{first} and {second}" if first != second else f"{' '.join(p.given)} and {' '.join(q.given)}"
    return Judgement(0.0, "given_name", f"given names differ: {told}", conflict=True)


def _alike(first: str, second: str) -> bool:
    """Whether two given names are nearly spelt alike, or sound alike and are not spelt too differently."""
    if min(len(first), len(second)) < 3:
        return False
    similarity = OSA.normalized_similarity(first, second)
    return similarity >= 0.75 or (similarity >= 0.5 and keys.phonetic(first) == keys.phonetic(second))


def _equal_names(a: Name, b: Name, p: Person, q: Person) -> Judgement:
    if a.inner != b.inner:
        return _same_core(a, b) if a.inner and b.inner else _brackets(a, b)
    if p.reordered != q.reordered:
        return Judgement(0.95, "word_order", "same name with the surname first")
    if not keys.accents_agree(a.title, b.title):
        return Judgement(0.5, "accent", "accents differ")
    accents = keys.accent_count(a.title), keys.accent_count(b.title)
    if accents[0] != accents[1]:
        return Judgement(0.96, "accent", "same but for accents", "first" if accents[0] < accents[1] else "second")
    return Judgement(0.96, "spelling", "same name, other spelling")


def _other_surname(a: Name, b: Name, p: Person, q: Person, corpus: Corpus) -> Judgement:
    """A slip in the surname, or half of a double one."""
    given = compare_given(p.given, q.given)
    if given.equal:
        kind_of_slip = slip(p.surname, q.surname)
        full = all(len(name) > 1 for name in p.given)
        if kind_of_slip in ("double", "swap", "inner") and full:
            length = min(len(p.surname), len(q.surname))
            score = slip_score(kind_of_slip, length, alone=False, asymmetric=_asymmetric(a, b, corpus))
            score = score if a.kind == b.kind else min(score, 0.85)
            if score:
                return Judgement(score, "misspelling", f"{p.surname} and {q.surname} differ by a slip ({kind_of_slip})")
        if kind_of_slip and full:
            return Judgement(0.65, "misspelling", f"{p.surname} and {q.surname} are alike")
        if p.surname in q.surname.split("-") or q.surname in p.surname.split("-"):
            return Judgement(0.65, "surname", "one has half of the double surname of the other")
        if sorted((*p.given, p.surname)) == sorted((*q.given, q.surname)):
            return NOTHING
    elif sorted((*p.given, p.surname)) == sorted((*q.given, q.surname)):
        return Judgement(0.78, "word_order", "same words in another order")
    if a.written == b.joined or b.written == a.joined:
        return Judgement(0.95, "accent", "an umlaut written out")
    return Judgement(0.0, "surname", f"surnames differ: {p.surname} and {q.surname}", conflict=True)
