"""What reading the input gives: documents, and what could not be used."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from graphrag_assets.ids import digest, digest_json, document_id

#: Reasons of rejections after which nothing is missing from the index: they are to be looked at.
WARNINGS = frozenset(
    {
        "duplicate_column",
        "duplicate_id",
        "encoding_doubtful",
        "front_matter",
        "invalid_bytes",
        "link_to_folder",
        "lone_surrogate",
        "missing_cells",
        "no_id",
        "page_no_text",
        "surplus_cells",
        "unclosed_quote",
    }
)


@dataclass(frozen=True)
class SourceDocument:
    """One document as the input holds it.

    Args:
        path: Logical path: the file, and ``#row`` or ``#id`` for a row of a structured file.
        file: Path of the file relative to the input.
        row: 0-based row inside a structured file; None where the file is one document.
        title: Title, never empty.
        text: Full text with LF line ends, without BOM, NUL and other control characters.
        metadata: JSON-able values by name; empty when there are none.
        creation_date: ISO 8601 date that the document itself states; empty when it states none.
    """

    path: str
    file: str
    row: int | None
    title: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    creation_date: str = ""

    @property
    def document_id(self) -> str:
        """Id, derived from the logical path."""
        return document_id(self.path)

    @cached_property
    def content_hash(self) -> str:
        """Hash of text, title, date and metadata: the version of the document."""
        return digest("content", self.text, self.title, self.creation_date, digest_json(self.metadata))

    @property
    def raw_data(self) -> str | None:
        """Metadata as a JSON object with sorted keys; None when there is none."""
        return json.dumps(self.metadata, ensure_ascii=False, sort_keys=True) if self.metadata else None


class RejectedError(ValueError):
    """A file that cannot be used at all.

    Args:
        reason: Short code, as in :class:`Rejection`.
        detail: What was found, what was expected and how to mend it.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Rejection:
    """A file, row or page that could not be used, or only in part.

    Args:
        file: Path relative to the input.
        location: Place in the file, such as ``line 6``, ``row 2`` or ``page 3``; empty for the whole file.
        reason: Short code, such as empty, binary, encoding, no_text_column, broken, too_large, link_outside.
        detail: What was found, what was expected and how to mend it.
    """

    file: str
    location: str
    reason: str
    detail: str

    @property
    def is_warning(self) -> bool:
        """Whether nothing is missing from the index for it."""
        return self.reason in WARNINGS


@dataclass(frozen=True)
class FileContents:
    """All that one file gave.

    Args:
        documents: Documents in the order of the file.
        rejections: What could not be used.
        encoding: Text encoding that was declared or detected; empty for binary formats.
    """

    documents: list[SourceDocument]
    rejections: list[Rejection]
    encoding: str = ""
