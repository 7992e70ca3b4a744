"""The sentences of a context that may be quoted, each with what stands around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graphrag_assets.query import lookups
from graphrag_assets.query.context import REPORTS, SOURCES, Context, Row
from graphrag_assets.query.index import Index
from graphrag_assets.text.citations import strip_citations
from graphrag_assets.text.sentences import sentences

#: Sentences shorter than this say nothing on their own (headings, signatures).
MIN_CHARACTERS = 20

#: A first line up to this length stands for the title of a text that has none.
MAX_TITLE = 120


#: Marks of lists and of emphasis, which a report that quotes a sentence leaves out.
_MARKS = re.compile(r"^(?:[-*•>]\s+|[(\[]?(?:\d{1,3}|[a-z])[.)\]]\s+)+|\*\*|__")


@dataclass(frozen=True)
class Sentence:
    """A sentence that may be quoted.

    Args:
        dataset: Sources or Reports.
        number: Row that holds it.
        start: First character in the text of the row.
        text: The sentence, without citations of its own.
        before: The sentence before it in the row; empty for the first one.
        after: The one after it; empty for the last one.
        title: Title of its document or report, or the first line of the row; empty where there is none.
        language: Language of its document (ISO 639-1); empty where it is not known.
        row: The whole text of the row.
    """

    dataset: str
    number: int
    start: int
    text: str
    before: str = ""
    after: str = ""
    title: str = ""
    language: str = ""
    row: str = ""

    @property
    def titled(self) -> str:
        """The sentence after its title, which often names what the sentence only calls he or it."""
        return f"{self.title}: {self.text}" if self.title and self.title != self.text else self.text

    @property
    def neighbours(self) -> str:
        """The sentence with the ones beside it."""
        return " ".join((self.before, self.text, self.after))


def quotable(index: Index, contexts: Sequence[Context]) -> list[Sentence]:
    """Sentences of all text units and reports in some contexts, in the order of the contexts.

    Each once, also where a report quotes one without the number of its paragraph; the first is the one that is kept.
    """
    rows = [(dataset, row) for context in contexts for dataset in (SOURCES, REPORTS) for row in context.rows(dataset)]
    origins = lookups.origins(index, [row.number for dataset, row in rows if dataset == SOURCES])
    found: dict[str, Sentence] = {}
    for dataset, row in rows:
        title, language = origins.get(row.number, ("", "")) if dataset == SOURCES else (row.cells[1], "")
        for sentence in _of_row(dataset, row, title, language):
            found.setdefault(_MARKS.sub("", sentence.text), sentence)
    return list(found.values())


def _of_row(dataset: str, row: Row, title: str, language: str) -> list[Sentence]:
    spans = sentences(row.text)
    texts = [" ".join(strip_citations(row.text[start:end]).split()) for start, end in spans]
    if not title and texts and len(texts[0]) <= MAX_TITLE:
        title = texts[0]
    padded = ["", *texts, ""]
    return [
        Sentence(dataset, row.number, start, text, padded[i], padded[i + 2], title, language, row.text)
        for i, ((start, _), text) in enumerate(zip(spans, texts, strict=True))
        if len(text) >= MIN_CHARACTERS and not text.startswith("#")
    ]
