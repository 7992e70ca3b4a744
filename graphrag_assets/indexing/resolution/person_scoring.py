"""Rules for personal names: all that two names say of given names, rank, gender and generation must agree."""

from __future__ import annotations

from rapidfuzz.distance import OSA

from graphrag_assets.indexing.resolution import keys
from graphrag_assets.indexing.resolution.corpus import Corpus
from graphrag_assets.indexing.resolution.judgement import NOTHING, Judgement, Shorter
from graphrag_assets.indexing.resolution.keys import Name
from graphrag_assets.indexing.resolution.name_scoring import judge_accents, judge_brackets
from graphrag_assets.indexing.resolution.persons import Person, compare_given
from graphrag_assets.indexing.resolution.slips import one_is_rare, slip, slip_score


def judge_persons(a: Name, b: Name, p: Person, q: Person, corpus: Corpus) -> Judgement:
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
    if single.surname in (full.given[0], full.root):
        evidence = f"{single.surname} is a given name of {full_name.title}"
        if not single.honorifics:
            return Judgement(0.7, "given_name", evidence, shorter)
        if set(single.honorifics) & {"SIR", "DAME"}:  # these stand before given names
            return Judgement(0.9 if full_name.kind == "person" else 0.75, "given_name", evidence, shorter)
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
    short, long = sorted((first, second), key=len)
    if len(short) >= 4 and (long.startswith(short) or long.endswith(short)):  # MINA and WILHELMINA, or PAUL and PAULA
        return True
    similarity = OSA.normalized_similarity(first, second)
    return similarity >= 0.75 or (similarity >= 0.5 and keys.phonetic(first) == keys.phonetic(second))


def _equal_names(a: Name, b: Name, p: Person, q: Person) -> Judgement:
    if a.inner != b.inner:
        return judge_brackets(a, b)
    if p.reordered != q.reordered:
        return Judgement(0.95, "word_order", "same name with the surname first")
    return judge_accents(a, b) or Judgement(0.96, "spelling", "same name, other spelling")


def _other_surname(a: Name, b: Name, p: Person, q: Person, corpus: Corpus) -> Judgement:
    """A slip in the surname, or half of a double one."""
    given = compare_given(p.given, q.given)
    if given.equal:
        kind_of_slip = slip(p.surname, q.surname)
        full = all(len(name) > 1 for name in p.given)
        if kind_of_slip in ("double", "swap", "inner") and full:
            length = min(len(p.surname), len(q.surname))
            score = slip_score(kind_of_slip, length, alone=False, rare=one_is_rare(a, b, corpus))
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
