"""PDF: one document; a page without text, as a scan has, is reported. Running headers and footers stay in the text."""

from __future__ import annotations

import io
import logging
from typing import Any

from graphrag_assets.input.documents import RejectedError
from graphrag_assets.input.encodings import clean_text
from graphrag_assets.input.metadata import iso_date, meant_title
from graphrag_assets.input.readers.source import Source

#: What programs write where nobody gave a value.
_NO_VALUES = frozenset(
    {"untitled", "(untitled)", "unknown", "anonymous", "(anonymous)", "unspecified", "(unspecified)"}
)


def read(source: Source) -> None:
    """Read a PDF file."""
    try:
        import pypdf
    except ImportError as error:
        raise RejectedError(
            "missing_library", "PDF files need the extra documents: pip install 'graphrag-assets[documents]'"
        ) from error
    # pypdf logs every oddity of a file; what matters is reported here.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(io.BytesIO(source.data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise RejectedError("encrypted", "the file needs a password; save it without one")
        pages = len(reader.pages)
    except RejectedError:
        raise
    except Exception as error:
        raise RejectedError("broken", f"not a PDF file that can be read: {type(error).__name__}: {error}") from error
    texts = [text for number in range(pages) if (text := _page_text(reader, number, source))]
    if not texts:
        source.reject(
            "empty",
            f"none of the {pages} pages has text; run the file through OCR" if pages else "the file has no pages",
        )
        return
    metadata = _properties(reader)
    source.add_whole("\n\n".join(texts), metadata, str(metadata.get("created", "")))


def _page_text(reader: Any, number: int, source: Source) -> str:
    location = f"page {number + 1}"
    try:
        text = clean_text(reader.pages[number].extract_text() or "").strip()
    except Exception as error:
        source.reject("page_no_text", f"the page cannot be read: {type(error).__name__}: {error}", location)
        return ""
    if not text:
        source.reject("page_no_text", "the page has no text, as a scan or a picture; run it through OCR", location)
    return text


def _properties(reader: Any) -> dict[str, str]:
    """Core properties that are set."""
    try:
        information = reader.metadata or {}
        found = {
            "title": meant_title(str(information.get("/Title") or "")),
            "author": information.get("/Author"),
            "subject": information.get("/Subject"),
            "keywords": information.get("/Keywords"),
            "created": iso_date(information.get("/CreationDate") or ""),
        }
    except Exception:
        return {}  # damaged properties say nothing; the text counts
    shown = {name: clean_text(str(value)).strip() for name, value in found.items() if value}
    return {name: value for name, value in shown.items() if value and value.lower() not in _NO_VALUES}
