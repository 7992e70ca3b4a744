"""Word files: paragraphs, headings and tables in their order; core properties become metadata.

Page headers and footers are left out: they repeat, and say little.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from graphrag_assets.input.documents import RejectedError
from graphrag_assets.input.encodings import clean_text
from graphrag_assets.input.metadata import iso_date, meant_title
from graphrag_assets.input.readers.source import Source

_HEADING = re.compile(r"heading (\d)", re.I)
#: Author and date of the template from which the library python-docx makes new files.
_TEMPLATE_AUTHOR, _TEMPLATE_CREATED = "python-docx", "2013-12-23 23:15"
_MOST_PARTS = 10_000
#: Parts are parsed whole, which takes a multiple of their size in memory.
_MOST_BYTES = 200_000_000


def read(source: Source) -> None:
    """Read a DOCX file."""
    try:
        import docx
    except ImportError as error:
        raise RejectedError(
            "missing_library", "Word files need the extra documents: pip install 'graphrag-assets[documents]'"
        ) from error
    _refuse_dangers(source)
    try:
        document = docx.Document(io.BytesIO(source.data))
        blocks = list(_blocks(document))
        metadata = _properties(document)
    except Exception as error:
        raise RejectedError("broken", f"not a Word file that can be read: {type(error).__name__}: {error}") from error
    source.add_whole(clean_text("\n\n".join(blocks)), metadata, str(metadata.get("created", "")))


def _refuse_dangers(source: Source) -> None:
    """Refuse archives that grow beyond bounds and XML with declarations, before the library opens them.

    Raises:
        RejectedError: No zip archive, too large, or XML with a document type or entities.
    """
    import defusedxml
    import defusedxml.ElementTree

    limit = min(source.settings.max_expanded_bytes, _MOST_BYTES)
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            parts = archive.infolist()
            # zipfile reads no more of a part than the directory says it has.
            expanded = sum(part.file_size for part in parts)
            if expanded > limit or len(parts) > _MOST_PARTS:
                found = f"expands to {expanded} bytes in {len(parts)} parts"
                raise RejectedError(
                    "too_large",
                    f"{found}, above {limit} bytes (input.max_expanded_bytes, at most {_MOST_BYTES}) or {_MOST_PARTS} parts",
                )
            for part in parts:
                if part.filename.lower().endswith((".xml", ".rels")):
                    defusedxml.ElementTree.fromstring(archive.read(part), forbid_dtd=True)
    except defusedxml.DefusedXmlException as error:
        raise RejectedError("unsafe", f"XML with a document type or entities, as attacks use it: {error}") from error
    except (zipfile.BadZipFile, zipfile.LargeZipFile, OSError, EOFError, RuntimeError, NotImplementedError) as error:
        raise RejectedError("broken", f"not a Word file (a zip archive of XML) that can be read: {error}") from error
    except SyntaxError as error:
        raise RejectedError("broken", f"XML inside the file cannot be read: {error}") from error


def _blocks(container: Any) -> Iterator[str]:
    """Text of paragraphs and tables in their order; headings as Markdown headings."""
    from docx.table import Table

    for item in container.iter_inner_content():
        text = _table(item) if isinstance(item, Table) else _paragraph(item)
        if text.strip():
            yield text


def _paragraph(paragraph: Any) -> str:
    text = str(paragraph.text).strip()
    style = str(getattr(paragraph.style, "name", "") or "")
    heading = _HEADING.fullmatch(style)
    level = int(heading.group(1)) if heading else 1 if style == "Title" else 0
    return f"{'#' * level} {text}" if text and level else text


def _table(table: Any) -> str:
    """Rows as lines, cells apart by bars; a cell that spans several columns once."""
    lines = []
    for row in table.rows:
        cells: list[str] = []
        seen: set[int] = set()
        for cell in row.cells:
            if id(cell._tc) not in seen:
                seen.add(id(cell._tc))
                cells.append(" ".join(" ".join(_blocks(cell)).split()))
        if any(cells):
            lines.append(" | ".join(cells))
    return "\n".join(lines)


def _properties(document: Any) -> dict[str, str]:
    """Core properties that the file states."""
    from docx.opc.constants import RELATIONSHIP_TYPE

    if not any(part.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for part in document.part.package.rels.values()):
        return {}  # the library would make up a title and a date
    core = document.core_properties
    of_template = core.author == _TEMPLATE_AUTHOR and str(core.created).startswith(_TEMPLATE_CREATED)
    found = {
        "title": meant_title(core.title),
        "author": "" if of_template else core.author,
        "subject": core.subject,
        "keywords": core.keywords,
        "language": core.language,
        "created": iso_date(core.created) if core.created and not of_template else "",
    }
    return {name: clean_text(str(value)).strip() for name, value in found.items() if value and str(value).strip()}
