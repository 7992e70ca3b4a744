"""Prompt files out of a profile and worked examples.

Everything that comes from documents or from the model is material: its braces are doubled, since prompt files are
templates, and what looks like the marks of a prompt or of an answer is set apart, so that it is not taken for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from graphrag_assets.indexing.graph_answers import GraphAnswer, read_answer, without_echoes
from graphrag_assets.text.templates import escape, render
from graphrag_assets.tuning.profile import Profile
from graphrag_assets.tuning.sampling import Passage

Format = Literal["tuple", "json"]

#: Marks of an answer or of the text block of a prompt.
_MARKS = re.compile(r"<\||\|>|##+|</?(?=(?:text|data|context)>)", re.IGNORECASE)


@dataclass(frozen=True)
class Example:
    """A passage and the graph that the model found in it.

    Args:
        passage: The passage.
        graph: Its entities, of the types asked for, and their relationships.
    """

    passage: Passage
    graph: GraphAnswer


def defused(text: str) -> str:
    """A text whose delimiters and tags are told apart from those of a prompt by blanks: ``<|`` becomes ``< |``."""
    return _MARKS.sub(lambda match: " ".join(match.group()) if len(match.group()) > 1 else "< ", text)


def read_example(answer: str, passage: Passage, types: Sequence[str]) -> GraphAnswer:
    """The graph of an example: entities of the types asked for, and relationships between them.

    Raises:
        ValueError: The answer cannot be read.
    """
    found = without_echoes(read_answer(answer), passage.text, frozenset())
    wanted = {name.casefold() for name in types}
    entities = [e for e in found.entities if e.type.casefold() in wanted and e.description]
    titles = {e.title for e in entities}
    links = [r for r in found.relationships if {r.source, r.target} <= titles and r.source != r.target]
    return GraphAnswer(entities, links, found.ended, found.cut)


def extraction_prompt(template: str, profile: Profile, examples: Sequence[Example], form: Format) -> str:
    """A tuned extraction prompt.

    Args:
        template: The packaged template, tuned_extract_graph or tuned_extract_graph_json.
        profile: The collection.
        examples: Worked examples; none gives a prompt without.
        form: Form of the answers.
    """
    written = [_example(number, example, form) for number, example in enumerate(examples, start=1)]
    values = _values(profile) | {"entity_types": _material(", ".join(profile.entity_types))}
    return render(template, values | {"examples": escape("".join(written))})


def tuned(template: str, profile: Profile) -> str:
    """A prompt without examples, tuned."""
    return render(template, _values(profile))


def fitting_examples(
    template: str, profile: Profile, examples: Sequence[Example], form: Format, most: int, count: Callable[[str], int]
) -> list[Example]:
    """The first examples with which the prompt keeps to a number of tokens."""
    taken = list(examples)
    while taken and count(extraction_prompt(template, profile, taken, form)) > most:
        taken.pop()
    return taken


def _values(profile: Profile) -> dict[str, str]:
    texts = {name: getattr(profile, name) for name in ("domain", "persona", "reader", "rating", "language_rule")}
    return {name: _material(text) for name, text in texts.items()}


def _material(text: str) -> str:
    return escape(defused(text))


def _example(number: int, example: Example, form: Format) -> str:
    graph = _tuples(example.graph) if form == "tuple" else _json(example.graph)
    return f"Example {number}\n<text>\n{defused(example.passage.text)}\n</text>\n{graph}\n\n"


def _field(text: str) -> str:
    return " ".join(defused(text).split())


def _tuples(graph: GraphAnswer) -> str:
    records = [
        f'("entity"<|>{_field(e.title)}<|>{_field(e.type).upper()}<|>{_field(e.description)})' for e in graph.entities
    ]
    records += [
        f'("relationship"<|>{_field(r.source)}<|>{_field(r.target)}<|>{_field(r.description)}<|>{r.weight:g})'
        for r in graph.relationships
    ]
    return "\n##\n".join(records) + "\n<|COMPLETE|>"


def _json(graph: GraphAnswer) -> str:
    names = {e.title: _field(e.name) for e in graph.entities}
    entities = [
        {"name": names[e.title], "type": _field(e.type).lower(), "description": _field(e.description)}
        for e in graph.entities
    ]
    links = [
        {
            "source": names[r.source],
            "target": names[r.target],
            "description": _field(r.description),
            "weight": r.weight,
        }
        for r in graph.relationships
    ]
    return json.dumps({"entities": entities, "relationships": links}, ensure_ascii=False)
