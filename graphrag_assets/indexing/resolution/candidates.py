"""Which pairs of titles are worth judging, found by blocking: titles are compared only where they share a key.

Every family of keys serves one rule. Blocks above a bound are narrowed by further keys, and counted; nothing is ever
compared with everything. Which pairs come out is a function of the set of titles, not of their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rapidfuzz.distance import OSA
from rapidfuzz.process import cdist

from graphrag_assets.indexing.resolution import keys, words
from graphrag_assets.indexing.resolution.keys import Name

Pair = tuple[int, int]

#: Titles next to each other in alphabetical order that are compared where no key narrows a block any further.
WINDOW = 10
#: Letters by which misspelt titles may differ, doubled letters apart.
MOST_SLIPS = 2
#: The shortest word in which a slip is looked for, and the shortest rest of a title around it.
_SHORTEST_SLIP = 5
_SHORTEST_REST = 4


@dataclass
class Candidates:
    """Pairs to judge.

    Args:
        pairs: Pairs of positions, the smaller first, sorted.
        crowded: Short forms with more possible long forms than the bound, with all of these: too many to be one.
        blocks: Number of blocks.
        narrowed_blocks: Blocks above the bound.
        narrowed_titles: Titles in them.
    """

    pairs: list[Pair] = field(default_factory=list)
    crowded: dict[int, list[int]] = field(default_factory=dict)
    blocks: int = 0
    narrowed_blocks: int = 0
    narrowed_titles: int = 0


def find_candidates(names: Sequence[Name], max_block: int, *, contained: bool = False) -> Candidates:
    """Find the pairs worth judging.

    Args:
        names: Analysed titles, each once.
        max_block: Most titles in a block that are compared with each other.
        contained: Also pair titles of which one is the other and a word more: worth it only where a model is asked.
    """
    found = Candidates()
    pairs: set[Pair] = set()
    for family, finer in _FAMILIES:
        for block in _blocks(names, family):
            found.blocks += 1
            pairs.update(_pairs_of_block(names, block, finer, max_block, found, near=family is _slip_keys))
    for long_keys, short_keys in _SHORT_FORMS:
        _pair_short_forms(names, long_keys, short_keys, max_block, found, pairs, found.crowded)
    if contained:
        _pair_short_forms(names, _part_keys, _whole_keys, max_block, found, pairs, {})
    found.pairs = sorted(pairs)
    return found


# --- key families: from a name to the keys it stands under ------------------------------------------------------------


def _core_keys(name: Name) -> Iterator[str]:
    """Equal but for spaces, accents, honorifics, legal forms, brackets, abbreviations, an article, order of surname."""
    if not name.latin or not name.core:
        return
    yield name.joined
    if name.written:
        yield name.written
    if name.core[0] in ("A", "AN", "THE") and len(name.core) > 1:
        yield "".join(name.core[1:])
    if name.possessive != name.core:
        yield "".join(name.possessive)
    if name.person is not None:
        yield "".join((*name.person.given, name.person.surname)).replace(" ", "")


def _plural_keys(name: Name) -> Iterator[str]:
    if name.latin and name.core and name.kind != "person":
        yield " ".join((*name.core[:-1], keys.singular(name.core[-1])))


def _word_keys(name: Name) -> Iterator[str]:
    """Equal but for the order of words."""
    if name.latin and 1 < len(name.core) <= 6:
        yield " ".join(sorted(name.core))


def _given_name_keys(name: Name) -> Iterator[str]:
    """Persons of one surname whose first given names are alike."""
    p = name.person
    if p is not None and p.given and len(p.given[0]) > 1:
        yield f"{p.surname} {p.root[:2]}"
        if p.root != p.given[0]:
            yield f"{p.surname} {p.given[0][:2]}"


def _sound_keys(name: Name) -> Iterator[str]:
    """Persons who sound alike."""
    p = name.person
    if p is not None and p.given and len(p.given[0]) > 1 and name.kind == "person":
        yield f"{keys.phonetic(p.given[0])} {keys.phonetic(p.surname.replace(' ', '').replace('-', ''))}"


def _slip_keys(name: Name) -> Iterator[str]:
    """Equal but for one word that begins with the same letter; titles of one word by consonants, or by both ends."""
    tokens = _slip_tokens(name)
    if len(tokens) == 1:
        word = tokens[0]
        if len(word) >= 6 and word.isalpha():
            yield f"1 {keys.phonetic(word)}"
            yield f"2 {word[:4]} {word[-3:]}"
            yield f"3 {''.join(sorted(word))}"
        return
    if not 2 <= len(tokens) <= 6:
        return
    total = sum(map(len, tokens))
    for i, token in enumerate(tokens):
        if len(token) >= _SHORTEST_SLIP and total - len(token) >= _SHORTEST_REST and token.isalpha():
            yield f"{i} {' '.join((*tokens[:i], token[0], *tokens[i + 1 :]))}"


def _slip_tokens(name: Name) -> tuple[str, ...]:
    if not name.latin or name.kind == "value":
        return ()
    if name.person is not None and name.kind == "person":
        return (*name.person.given, name.person.surname)
    return name.core


def _whole_keys(name: Name) -> Iterator[str]:
    if _can_be_contained(name) and len(name.joined) >= 6:
        yield " ".join(name.core)


def _part_keys(name: Name) -> Iterator[str]:
    """What is left of a title without its first or its last word."""
    if _can_be_contained(name) and len(name.core) > 1:
        yield " ".join(name.core[1:])
        yield " ".join(name.core[:-1])


def _can_be_contained(name: Name) -> bool:
    return name.latin and 1 <= len(name.core) <= 6 and bool(name.kind) and name.person is None


_Family = Callable[[Name], Iterable[str]]
#: Families of keys, each with finer keys for blocks above the bound.
_FAMILIES: tuple[tuple[_Family, tuple[Callable[[Name], str], ...]], ...] = (
    (_core_keys, (lambda n: n.kind, lambda n: n.key[:4])),
    (_plural_keys, (lambda n: n.kind,)),
    (_word_keys, (lambda n: n.kind,)),
    (_given_name_keys, (lambda n: n.person.root[:3] if n.person else "", lambda n: n.person.root if n.person else "")),
    (_sound_keys, (lambda n: n.title[:2], lambda n: n.title[-2:])),
    (
        _slip_keys,
        (lambda n: n.kind, lambda n: n.joined[-1:], lambda n: keys.phonetic(n.joined), lambda n: n.joined[:4]),
    ),
)


def _long_person_keys(name: Name) -> Iterator[str]:
    """What a full name can be called for short: its surname, its first name, initial and surname."""
    p = name.person
    if p is None:
        return
    if p.given:
        yield p.surname
        yield f"{p.given[0][0]} {p.surname}"
        if name.kind == "person" and len(p.given[0]) > 2:
            yield p.given[0]
            if p.root != p.given[0]:
                yield p.root
    elif p.honorifics:
        yield p.surname  # MR. FEZZIWIG is longer than FEZZIWIG


def _short_person_keys(name: Name) -> Iterator[str]:
    p = name.person
    if p is None:
        return
    if p.single:
        yield p.surname
    elif len(p.given[0]) == 1:
        yield f"{p.given[0]} {p.surname}"


def _long_acronym_keys(name: Name) -> Iterable[str]:
    return sorted(keys.initialisms(name)) if name.kind != "person" else ()


def _short_acronym_keys(name: Name) -> Iterable[str]:
    return (name.letters,) if name.letters else ()


#: Families of short forms: keys of what may be long, and keys of what may be short.
_SHORT_FORMS: tuple[tuple[_Family, _Family], ...] = (
    (_long_person_keys, _short_person_keys),
    (_long_acronym_keys, _short_acronym_keys),
)


# --- blocks ----------------------------------------------------------------------------------------------------------


def _postings(names: Sequence[Name], family: _Family) -> tuple[list[str], list[int]]:
    found: list[str] = []
    owners: list[int] = []
    for i, name in enumerate(names):
        for key in family(name):
            found.append(key)
            owners.append(i)
    return found, owners


def _blocks(names: Sequence[Name], family: _Family) -> Iterator[list[int]]:
    """Positions that share a key, at least two."""
    found, owners = _postings(names, family)
    if not found:
        return
    codes: NDArray[np.int32] = pa.array(found, pa.string()).dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ends = np.append(starts[1:], len(order))
    members = np.asarray(owners, dtype=np.int64)[order]
    for start, end in zip(starts[(ends - starts) > 1].tolist(), ends[(ends - starts) > 1].tolist(), strict=True):
        block = sorted(set(members[start:end].tolist()))
        if len(block) > 1:
            yield block


def _pairs_of_block(
    names: Sequence[Name],
    block: list[int],
    finer: Sequence[Callable[[Name], str]],
    max_block: int,
    found: Candidates,
    *,
    near: bool = False,
) -> Iterator[Pair]:
    if len(block) <= max_block:
        if near and len(block) > 2:
            yield from _near_pairs(names, block)
            return
        for i, first in enumerate(block):
            for second in block[i + 1 :]:
                yield first, second
        return
    found.narrowed_blocks += 1
    found.narrowed_titles += len(block)
    if not finer:
        ordered = sorted(block, key=lambda i: (names[i].key, names[i].title))
        for i, first in enumerate(ordered):
            for second in ordered[i + 1 : i + WINDOW]:
                yield min(first, second), max(first, second)
        return
    parts: dict[str, list[int]] = defaultdict(list)
    for i in block:
        parts[finer[0](names[i])].append(i)
    for key in sorted(parts):
        if len(parts[key]) > 1:
            yield from _pairs_of_block(names, parts[key], finer[1:], max_block, found, near=near)


def _near_pairs(names: Sequence[Name], block: list[int]) -> Iterator[Pair]:
    """Pairs of a block whose letters differ by a slip or two, compared in bulk."""
    letters = [keys.single_letters("".join(_slip_tokens(names[i]))) for i in block]
    distances = cdist(letters, letters, scorer=OSA.distance, score_cutoff=MOST_SLIPS, dtype=np.uint8)
    first, second = np.nonzero(np.triu(distances <= MOST_SLIPS, k=1))
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        yield block[i], block[j]


def _pair_short_forms(
    names: Sequence[Name],
    long_keys: _Family,
    short_keys: _Family,
    max_block: int,
    found: Candidates,
    pairs: set[Pair],
    crowded: dict[int, list[int]],
) -> None:
    """Pair each short form with what it can be short for; where these are too many, only note them."""
    wanted: dict[str, list[int]] = defaultdict(list)
    for i, name in enumerate(names):
        for key in short_keys(name):
            wanted[key].append(i)
    longs: dict[str, list[int]] = defaultdict(list)
    for i, name in enumerate(names):
        for key in long_keys(name):
            if key in wanted:
                longs[key].append(i)
    for key in sorted(longs):
        found.blocks += 1
        possible = sorted(set(longs[key]))
        if len(possible) > max_block:
            found.narrowed_blocks += 1
            found.narrowed_titles += len(possible)
        for short in wanted[key]:
            others = [i for i in possible if i != short]
            if len(others) > max_block:
                crowded[short] = sorted({*crowded.get(short, ()), *others})
            else:
                pairs.update((min(short, i), max(short, i)) for i in others)


def known_words(names: Iterable[Name]) -> dict[str, int]:
    """Number of titles by token of their core, small words left out."""
    counts: dict[str, int] = defaultdict(int)
    for name in names:
        for token in set(name.core):
            if token not in words.SMALL_WORDS:
                counts[token] += 1
    return counts
