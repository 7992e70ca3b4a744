"""Readers: the bytes of one file to documents, whatever its format. Bad data is reported, never raised."""

from __future__ import annotations

import gzip
import importlib
import io
import re
import zlib
from typing import Final

from graphrag_assets.input.documents import FileContents, RejectedError
from graphrag_assets.input.readers.source import Source
from graphrag_assets.settings import InputSettings

#: Format by extension, in lower case.
FORMATS: Final[dict[str, str]] = {
    **dict.fromkeys((".txt", ".text", ".log", ".rst", ".adoc", ".asc"), "text"),
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd"), "markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    ".json": "json",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".pdf": "pdf",
    ".docx": "docx",
}

#: Module and function that read a format.
_READERS: Final[dict[str, tuple[str, str]]] = {
    "text": ("text", "read"),
    "markdown": ("markdown", "read"),
    "html": ("html", "read"),
    "csv": ("tabular", "read"),
    "json": ("json_objects", "read_json"),
    "jsonl": ("json_objects", "read_jsonl"),
    "parquet": ("parquet", "read"),
    "pdf": ("pdf", "read"),
    "docx": ("docx", "read"),
}

_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f]")

_ADVICE: Final[dict[str, str]] = {
    ".doc": "save it as .docx or .pdf",
    ".odt": "save it as .docx or .pdf",
    ".rtf": "save it as .docx or .txt",
    ".xls": "save the sheet as .csv",
    ".xlsx": "save the sheet as .csv",
    ".ods": "save the sheet as .csv",
    ".pptx": "save it as .pdf",
    ".ppt": "save it as .pdf",
    ".epub": "convert it to .html or .txt",
    ".zip": "unpack it",
    ".tar": "unpack it",
    ".7z": "unpack it",
    ".xml": "convert it to .html, .json or .txt",
}


def extension(file: str) -> str:
    """Extension of a file name in lower case, that before ``.gz`` where it is compressed; empty when it has none."""
    name = file.rsplit("/", 1)[-1].lower().removesuffix(".gz")
    dot = name.rfind(".")
    return name[dot:] if dot > 0 else ""


def format_of(file: str, settings: InputSettings) -> str | None:
    """Format in which a file is read: by the settings, else by its name; None for one that is not supported."""
    if settings.type != "auto":
        return settings.type
    return FORMATS.get(extension(file)) if extension(file) else "text"


def read_bytes(file: str, data: bytes, settings: InputSettings) -> FileContents:
    """Read the content of one file.

    Args:
        file: Path relative to the input, with forward slashes.
        data: Content of the file.
        settings: How to read.

    Returns:
        Documents and rejections; never an error for bad data.
    """
    source = Source(printable_path(file), data, settings)
    try:
        _read(source, file)
    except RejectedError as error:
        source.documents.clear()
        source.reject(error.reason, error.detail)
    except Exception as error:  # one bad file must not end a run, whatever a library trips over
        source.documents.clear()
        source.reject("broken", f"reading failed: {type(error).__name__}: {error}")
    return source.contents()


def printable_path(file: str) -> str:
    """A path that every table and terminal can hold: control characters and bytes that are no UTF-8 become escapes."""
    decodable = file.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return _CONTROLS.sub(lambda match: f"\\x{ord(match.group()):02x}", decodable)


def _read(source: Source, file: str) -> None:
    format_ = format_of(file, source.settings)
    if format_ is None:
        ending = extension(file)
        advice = _ADVICE.get(ending, "convert it to text, or leave it out with input.file_pattern")
        raise RejectedError("unsupported", f"files of type {ending} are not read; {advice}")
    if len(source.data) > source.settings.max_file_bytes:
        raise RejectedError("too_large", too_large(len(source.data), source.settings))
    if file.lower().endswith(".gz"):
        source.data = _expanded(source.data, source.settings)
    module, function = _READERS[format_]
    getattr(importlib.import_module(f"{__name__}.{module}"), function)(source)


def too_large(size: int, settings: InputSettings) -> str:
    """Why a file is not read for its size."""
    return f"{size} bytes, above input.max_file_bytes ({settings.max_file_bytes}); split the file or raise the limit"


def _expanded(data: bytes, settings: InputSettings) -> bytes:
    """Content of a gzip file.

    Raises:
        RejectedError: Damaged, or larger than the settings allow.
    """
    limit = settings.max_expanded_bytes
    try:
        expanded = gzip.GzipFile(fileobj=io.BytesIO(data)).read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise RejectedError("broken", f"not a gzip file that can be read: {error}") from error
    if len(expanded) > limit:
        raise RejectedError("too_large", f"expands beyond input.max_expanded_bytes ({limit})")
    return expanded
