"""A user's decisions on titles: merges to force and to forbid. They win over every rule and every model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from graphrag_assets.text.names import canonical_title


class OverridesError(ValueError):
    """The overrides cannot be used; the message names the entry and how to mend it."""


@dataclass(frozen=True)
class Overrides:
    """Merges to force and to forbid, by canonical title.

    Args:
        merge: Groups of titles; the first of each is the canonical one. No title is in two groups.
        separate: Pairs of titles, each sorted, that are never one entity, not even by way of others.
    """

    merge: tuple[tuple[str, ...], ...] = ()
    separate: frozenset[tuple[str, str]] = frozenset()


def load_overrides(text: str) -> Overrides:
    """Read overrides.

    The form is YAML with two lists, each of which may be left out::

        merge:
          - [Brannock Tidal Co-operative, BTC, the Co-op]   # the first name is the one that stays
        separate:
          - [Mr. Fezziwig, Mrs. Fezziwig]                   # all of these are kept apart from each other

    Names may be written in any case.

    Args:
        text: Content of the file; empty for none.

    Returns:
        The overrides, names as canonical titles. Merges that share a name are one group, whose canonical title is that
        of the first of them.

    Raises:
        OverridesError: No valid YAML, a key or an entry of another form, or a pair that is both merged and kept apart.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OverridesError(f"entity overrides: not valid YAML: {error}") from error
    if data is None:
        return Overrides()
    if not isinstance(data, dict):
        raise OverridesError("entity overrides: expected a mapping with the keys merge and separate")
    unknown = sorted(str(key) for key in data if key not in ("merge", "separate"))
    if unknown:
        raise OverridesError(f"entity overrides: unknown key {unknown[0]!r}; the keys are merge and separate")
    merge = _joined([_entry("merge", i, entry) for i, entry in enumerate(_entries(data, "merge"))])
    separate: dict[tuple[str, str], int] = {}
    for i, entry in enumerate(_entries(data, "separate")):
        titles = _entry("separate", i, entry)
        for k, first in enumerate(titles):
            for second in titles[k + 1 :]:
                separate.setdefault((min(first, second), max(first, second)), i)
    group_of = {title: group for group in merge for title in group}
    for (first, second), i in sorted(separate.items(), key=lambda item: (item[1], item[0])):
        if first in group_of and group_of[first] is group_of.get(second):
            raise OverridesError(
                f"entity overrides: separate[{i}] keeps {first} and {second} apart, but merge makes them one: "
                f"{list(group_of[first])}; remove one of the two entries"
            )
    return Overrides(tuple(merge), frozenset(separate))


def _entries(data: dict[Any, Any], key: str) -> list[Any]:
    entries = data.get(key)
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise OverridesError(f"entity overrides: {key} must be a list of lists of names, not {type(entries).__name__}")
    return entries


def _entry(key: str, position: int, entry: Any) -> tuple[str, ...]:
    where = f"entity overrides: {key}[{position}]"
    if not isinstance(entry, list) or not all(isinstance(name, str) for name in entry):
        raise OverridesError(
            f"{where} must be a list of names, not {entry!r}; put names with signs or numbers in quotes"
        )
    titles = tuple(dict.fromkeys(canonical_title(name) for name in entry))
    if "" in titles:
        raise OverridesError(f"{where} holds an empty name: {entry!r}")
    if len(titles) < 2:
        raise OverridesError(f"{where} needs two different names or more, it has {entry!r}")
    return titles


def _joined(groups: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Groups that share a name as one, in the order of the entries."""
    joined: list[list[str]] = []
    for group in groups:
        touching = [other for other in joined if set(other) & set(group)]
        first = touching[0] if touching else []
        for other in touching[1:]:
            first.extend(other)
            joined = [kept for kept in joined if kept is not other]
        if not touching:
            joined.append(first)
        first.extend(title for title in group if title not in first)
    return [tuple(dict.fromkeys(group)) for group in joined]
