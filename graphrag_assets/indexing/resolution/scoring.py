"""How certain it is that two titles name one thing, by which rule, and why.

Scores (from 0 to 1) are certainties set by hand, in the order in which people would trust the rules; the two thresholds
of the settings cut through them. A rule either finds evidence, or finds none (score 0), or finds a contradiction
(``conflict``), which keeps the two apart even where both are like a third.
"""

from __future__ import annotations

from graphrag_assets.indexing.resolution.corpus import Corpus
from graphrag_assets.indexing.resolution.judgement import NOTHING, Judgement, kinds_differ, turned
from graphrag_assets.indexing.resolution.keys import Name
from graphrag_assets.indexing.resolution.name_scoring import judge_acronym, judge_names
from graphrag_assets.indexing.resolution.person_scoring import judge_persons


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
    if a.letters or b.letters:
        judgement = judge_acronym(a, b, corpus)
        if judgement.score:
            return judgement
    if kinds_differ(a.kind, b.kind):
        return _other_kind(a, b)
    if a.marks != b.marks:
        told = sorted(set(a.marks) ^ set(b.marks)) or sorted(set(a.marks))
        return Judgement(0.0, "numeral_or_direction", f"{', '.join(told)} tells them apart", conflict=True)
    if a.person and b.person and "person" in (a.kind, b.kind):
        judgement = judge_persons(a, b, a.person, b.person, corpus)
        if judgement.score or judgement.conflict:
            return judgement
    return judge_names(a, b, corpus)


def _other_kind(a: Name, b: Name) -> Judgement:
    """Types differ: a contradiction, but for a name of several words, which models and parsers often give two types."""
    told = f"types differ: {a.kind} and {b.kind}"
    if a.core == b.core and len(a.core) > 1 and a.marks == b.marks and "person" not in (a.kind, b.kind):
        return Judgement(0.7, "type", f"same name, but {told}")
    return Judgement(0.0, "type", told, conflict=True)
