"""HTML: the text that a reader of the page sees, with its title before it; head fields become metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from graphrag_assets.input.documents import RejectedError
from graphrag_assets.input.encodings import clean_text
from graphrag_assets.input.metadata import meant_title
from graphrag_assets.input.readers.source import Source

#: What is no text of the page, or repeats on every page.
_LEFT_OUT = frozenset(
    {"script", "style", "noscript", "template", "head", "nav", "iframe", "object", "svg", "math", "select", "datalist"}
)
_PARAGRAPHS = frozenset(
    {
        "p",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "blockquote",
        "pre",
        "table",
        "ul",
        "ol",
        "dl",
        "hr",
        "address",
        "details",
    }
    | {"section", "article", "header", "footer", "main", "aside", "figure", "form"}
)
_LINES = frozenset(
    {"div", "li", "tr", "dt", "dd", "figcaption", "caption", "summary", "option", "body", "html", "label"}
)
_CELLS = frozenset({"td", "th"})
#: A break that adds to those before it, where the others only ask for one or two line ends.
_LINE_BREAK = 0
#: Names of meta elements that say something of the document.
_META = frozenset(
    {"author", "description", "keywords", "date", "created", "published", "creation_date", "language", "publisher"}
)
_META_DATES = (
    "article:published_time",
    "dc.date",
    "dcterms.created",
    "dcterms.date",
    "date",
    "created",
    "published",
    "creation_date",
)

_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})"""
    rb"""|<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"[ \t\n\r\f]+")


def read(source: Source) -> None:
    """Read an HTML page."""
    from lxml import etree  # type: ignore[import-untyped]

    text = source.decode(_declared_encoding(source.data))
    if not text.strip():
        source.add_whole("")
        return
    parser = etree.HTMLParser(
        encoding="utf-8", recover=True, remove_comments=True, remove_pis=True, no_network=True, huge_tree=True
    )
    root = etree.fromstring(text.encode("utf-8"), parser)
    if any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log):
        raise RejectedError("broken", f"the page goes beyond what the parser can take: {parser.error_log[-1].message}")
    if root is None:
        source.add_whole("")
        return
    metadata = _head(root)
    body = clean_text(_visible_text(root))
    title = str(metadata.get("title", ""))
    # The title is often the only place that says what a page is about.
    if title and body and not body.startswith(title):
        body = f"{title}\n\n{body}"
    date = next((str(metadata[name]) for name in _META_DATES if metadata.get(name)), "")
    shown = {name: value for name, value in metadata.items() if name in _META or name in ("title", "lang")}
    source.add_whole(body, shown, date)


def _declared_encoding(data: bytes) -> str | None:
    match = _DECLARED.search(data[:4096])
    name = (match.group(1) or match.group(2)).decode("ascii", "replace") if match else None
    # A file that names UTF-16 in bytes that can be read as ASCII is not UTF-16 (WHATWG HTML, 13.2.3.2).
    return None if name and name.lower().startswith("utf-16") else name


def _head(root: Any) -> dict[str, str]:
    """Title, language and meta elements."""
    found: dict[str, str] = {}
    title = root.find(".//title")
    if title is not None and (written := meant_title("".join(title.itertext()))):
        found["title"] = written
    if root.get("lang"):
        found["lang"] = root.get("lang")
    for meta in root.iter("meta"):
        name = (meta.get("name") or meta.get("property") or meta.get("itemprop") or "").strip().lower()
        content = " ".join((meta.get("content") or "").split())
        if name and content:
            found.setdefault(name, content)
    return found


def _visible_text(root: Any) -> str:
    """Text of the page: paragraphs apart by blank lines, cells of a table by bars.

    White space collapses as a browser shows it, but for preformatted text.
    """
    parts: list[str] = []
    breaks = 0
    for piece in _pieces(root):
        if isinstance(piece, int):
            breaks = min(2, breaks + 1) if piece == _LINE_BREAK else max(breaks, piece)
            continue
        text, preformatted = piece
        if not preformatted:
            text = _BLANKS.sub(" ", text)
            if breaks or not parts or parts[-1].endswith((" ", "\n")):
                text = text.lstrip(" ")
        if not text:
            continue
        if breaks and parts:
            parts[-1] = parts[-1].rstrip(" ")
            parts.append("\n" * breaks)
        breaks = 0
        parts.append(text)
    return "".join(parts).strip("\n ")


def _pieces(root: Any) -> Iterator[tuple[str, bool] | int]:
    """Pieces of text, each with whether its white space counts, and breaks, in document order.

    No recursion: pages may nest deeply.
    """
    from lxml import etree

    left_out = preformatted = 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag = element.tag if isinstance(element.tag, str) else ""
        starts = event == "start"
        if tag in _LEFT_OUT:
            left_out += 1 if starts else -1
        elif not left_out:
            if tag == "pre":
                preformatted += 1 if starts else -1
            yield from _separators(element, tag, starts)
            if starts and element.text and tag:
                yield element.text, preformatted > 0
        if not starts and not left_out and element.tail:
            yield element.tail, preformatted > 0


def _separators(element: Any, tag: str, starts: bool) -> Iterator[tuple[str, bool] | int]:
    if tag in _PARAGRAPHS:
        yield 2
    elif tag in _LINES:
        yield 1
    elif tag == "br" and starts:
        yield _LINE_BREAK
    elif tag in _CELLS and starts and element.getprevious() is not None:
        yield " | ", False
