"""Dynamic community selection: a model rates reports from the widest communities down, and only relevant ones are read.

Microsoft GraphRAG's method, with ratings that can be trusted: an answer that holds no rating is none, instead of
counting as relevant, and is reported; the order is that of the table.
"""

# ruff: noqa: S608 (SQL is put together from names, integers and question marks only)

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphrag_assets.indexing.asking import Ask
from graphrag_assets.query import lookups
from graphrag_assets.query.calls import Deadline, Outcome, call, call_all, failures
from graphrag_assets.query.context import TokenCounter
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.index import Index, integers
from graphrag_assets.settings import GlobalSearchSettings
from graphrag_assets.text.answer_objects import find_object
from graphrag_assets.text.numbers import read_number
from graphrag_assets.text.templates import render

HIGHEST = 5

RATING_SCHEMA: dict[str, Any] = {
    "title": "rating",
    "type": "object",
    "properties": {"reason": {"type": "string"}, "rating": {"type": "integer"}},
    "required": ["reason", "rating"],
    "additionalProperties": False,
}

#: Reports whose texts are held at a time.
_PAGE = 64


@dataclass
class Selection:
    """What came of the descent.

    Args:
        chosen: Communities whose reports are read.
        rated: Ratings by level, each (community, rating); None for a report that could not be rated.
        unrated: Reports that could not be rated.
        reason: Why the first of them could not.
        stopped: Whether the deadline or the budget ended the descent.
    """

    chosen: set[int] = field(default_factory=set)
    rated: list[list[tuple[int, int | None]]] = field(default_factory=list)
    unrated: int = 0
    reason: str = ""
    stopped: bool = False

    def notes(self) -> dict[str, object]:
        """For explanations."""
        return {
            "chosen": sorted(self.chosen),
            "levels": [{str(number): rating for number, rating in level} for level in self.rated],
            "not_rated": self.unrated,
        }

    def warnings(self) -> list[str]:
        """What the answer must say."""
        if not self.unrated:
            return []
        total = sum(len(level) for level in self.rated)
        return [f"{self.unrated} of {total} reports could not be rated and were left out ({self.reason})"]


@dataclass(frozen=True)
class _Tree:
    """Communities up to a level, those without a usable report replaced by their children."""

    level: Mapping[int, int]
    roots: tuple[int, ...]
    children: Mapping[int, tuple[int, ...]]

    def at_level(self, level: int) -> list[int]:
        return sorted(number for number, own in self.level.items() if own == level)


def parse_rating(text: str) -> int:
    """Read the rating of an answer.

    Raises:
        ValueError: It holds none from 0 to 5.
    """
    rating = read_number(
        find_object(text, {"rating": ("score", "relevance", "relevance_rating", "评分", "оценка")}).get("rating")
    )
    if rating is None or not 0 <= rating <= HIGHEST:
        raise ValueError(f'expected a JSON object with a number from 0 to {HIGHEST} as "rating"')
    return round(rating)


def majority(votes: Sequence[int | None]) -> int | None:
    """The most frequent rating, of equally frequent ones the lowest; None where there is no rating at all."""
    counted = Counter(vote for vote in votes if vote is not None)
    return min(counted, key=lambda rating: (-counted[rating], rating)) if counted else None


async def choose(
    index: Index,
    question: str,
    level: int,
    ask: Ask,
    prompt: str,
    settings: GlobalSearchSettings,
    tokenizer: TokenCounter,
    deadline: Deadline,
) -> Selection:
    """Choose the reports that are relevant to a question.

    Args:
        index: The snapshot.
        question: The question.
        level: Deepest level.
        ask: The model.
        prompt: Template with {question} and {description}.
        settings: Threshold, repeats, what is read.
        tokenizer: Cuts a report that is longer than a context.
        deadline: After which nothing more is rated.

    Raises:
        QueryError: No report could be rated, by a fault of the model.
    """
    tree = await asyncio.to_thread(_tree, index, level)
    selection = Selection()
    queue = list(tree.roots)
    seen: set[int] = set()
    while queue and not selection.stopped:
        seen.update(queue)
        ratings = await _rate(index, queue, question, ask, prompt, settings, tokenizer, deadline, selection)
        selection.rated.append(list(zip(queue, ratings, strict=True)))
        below: list[int] = []
        for number, rating in zip(queue, ratings, strict=True):
            if rating is not None and rating >= settings.dynamic_search_threshold:
                selection.chosen.add(number)
                if not settings.dynamic_search_keep_parent:
                    selection.chosen -= _parents(tree, number)
                below += tree.children.get(number, ())
        deepest = max(tree.level[number] for number in queue)
        queue = sorted(set(below) - seen)
        if not queue and not selection.chosen and any(rating is not None for rating in ratings):
            queue = _next_level(tree, deepest, settings.dynamic_search_max_level, seen)
    rated = sum(len(part) for part in selection.rated)
    if rated and selection.unrated == rated and not selection.stopped:
        raise QueryError(
            f"global search: none of {rated} reports could be rated ({selection.reason}); "
            "global_search.dynamic_search: false reads reports without ratings"
        )
    return selection


def _next_level(tree: _Tree, deepest: int, most: int, seen: set[int]) -> list[int]:
    """The next level that holds reports not yet rated, up to a level; nothing above it was relevant."""
    for level in range(deepest + 1, most + 1):
        found = [number for number in tree.at_level(level) if number not in seen]
        if found:
            return found
    return []


def _parents(tree: _Tree, number: int) -> set[int]:
    return {parent for parent, below in tree.children.items() if number in below}


async def _rate(
    index: Index,
    queue: Sequence[int],
    question: str,
    ask: Ask,
    prompt: str,
    settings: GlobalSearchSettings,
    tokenizer: TokenCounter,
    deadline: Deadline,
    selection: Selection,
) -> list[int | None]:
    """Ratings of some communities; those that failed are counted in the selection."""
    ratings: list[int | None] = []
    for first in range(0, len(queue), _PAGE):
        page = queue[first : first + _PAGE]
        texts = await asyncio.to_thread(_texts, index, page, settings.dynamic_search_use_summary)
        repeats = settings.dynamic_search_num_repeats
        calls = [
            call(
                ask,
                _messages(prompt, question, tokenizer.truncate(texts[number], settings.max_context_tokens), vote),
                parse_rating,
                RATING_SCHEMA,
                f"community {number}",
            )
            for number in page
            for vote in range(repeats)
        ]
        outcomes: list[Outcome[int]] = await call_all(calls, deadline)
        for i in range(len(page)):
            own = outcomes[i * repeats : (i + 1) * repeats]
            rating = majority([outcome.value for outcome in own])
            ratings.append(rating)
            if rating is None:
                _, reason, stopped = failures(own)
                selection.unrated += 1
                selection.reason = selection.reason or reason
                selection.stopped = selection.stopped or stopped
    return ratings


def _messages(prompt: str, question: str, description: str, vote: int) -> list[dict[str, str]]:
    """The conversation; further votes differ by a blank, so that they are asked anew instead of taken from the cache."""
    system = render(prompt, {"question": question, "description": description})
    return [{"role": "system", "content": system + " " * vote}, {"role": "user", "content": question}]


def _tree(index: Index, level: int) -> _Tree:
    communities = index.rows(
        f"select community, level, parent from communities where level <= {int(level)} order by level, community"
    )
    usable = {
        r["community"] for r in index.rows(f"select community from community_reports where {lookups.USABLE_REPORT}")
    }
    known = {c["community"] for c in communities}
    below: dict[int, list[int]] = {}
    for c in communities:
        below.setdefault(c["parent"] if c["parent"] in known else -1, []).append(c["community"])

    def readable(parent: int) -> tuple[int, ...]:
        """The nearest descendants with a usable report."""
        found: list[int] = []
        waiting = list(below.get(parent, ()))
        while waiting:
            number = waiting.pop(0)
            if number in usable:
                found.append(number)
            else:
                waiting += below.get(number, ())
        return tuple(sorted(found))

    own = {c["community"]: c["level"] for c in communities if c["community"] in usable}
    return _Tree(own, readable(-1), {number: readable(number) for number in own})


def _texts(index: Index, communities: Sequence[int], summaries: bool) -> dict[int, str]:
    column = "summary" if summaries else "full_content"
    rows = index.rows(
        f"""select community, title, {column} as content from community_reports
            where {lookups.USABLE_REPORT} and community in ({integers(communities)})"""
    )
    return {r["community"]: f"# {r['title']}\n\n{r['content']}" if summaries else r["content"] for r in rows}
