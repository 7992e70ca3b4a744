"""Documents and text units of an imported index, with the place of each text unit in its document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphrag_assets import ids
from graphrag_assets.exchange.findings import Findings
from graphrag_assets.exchange.identity import identified, next_number, numbered, require_columns
from graphrag_assets.exchange.values import Row, Rows, as_json, integer, strings, text

#: Characters from the beginning of a text unit in which metadata is looked for.
_LONGEST_METADATA = 4_000

#: Characters at the end of a text unit that are looked for first.
_PROBE = 48

#: What is left where an encoder cut a character in two.
_CUT = "\ufffd"


def convert_corpus(
    documents: Rows, units: Rows, count_tokens: Callable[[str], int], findings: Findings
) -> tuple[Rows, Rows]:
    """Rows of documents and of text units, in their order.

    Args:
        documents: Rows of the source; empty where it has no such table.
        units: Rows of the source.
        count_tokens: Counts tokens where the source does not tell.
        findings: Takes what is wrong.
    """
    require_columns(units, "text_units", ("id", "text", "n_tokens"), findings)
    units = [unit for unit in units if _has_text(unit, findings)]
    units = numbered(identified(units, "text_units", findings), "text_units", findings)
    for unit in units:
        unit["document_id"] = _document_of(unit, findings)
        unit["text"] = text(unit["text"])
    owned: dict[str, Rows] = {}
    for unit in units:
        owned.setdefault(unit["document_id"], []).append(unit)
    found = _documents(documents, owned, findings)
    return (
        [_document_row(document, owned.get(document["id"], [])) for document in found],
        _unit_rows(units, found, owned, count_tokens, findings),
    )


def _has_text(unit: Row, findings: Findings) -> bool:
    if text(unit.get("text")).strip():
        return True
    findings.add("empty_text_unit", "text_units", unit.get("id"))
    return False


def _document_of(unit: Row, findings: Findings) -> str:
    """The one document of a text unit; version 2 lists several where it grouped them."""
    named = strings(unit.get("document_id")) or strings(unit.get("document_ids"))
    if len(named) > 1:
        findings.add("several_documents", "text_units", unit["id"], ", ".join(named))
    return named[0] if named else ids.document_id("imported text units")


def _documents(documents: Rows, owned: dict[str, Rows], findings: Findings) -> Rows:
    """The documents of the source, and those that only text units name."""
    require_columns(documents, "documents", ("title", "text"), findings)
    found = numbered(identified(documents, "documents", findings), "documents", findings)
    known = {document["id"] for document in found}
    number = next_number(found)
    for own in [own for own in owned if own not in known]:
        found.append({"id": own, "human_readable_id": number, "title": f"Document {own[:12]}", "text": None})
        number += 1
    paths: dict[str, int] = {}
    for document in found:
        document["text"] = text(document.get("text"))
        document["title"] = text(document.get("title")) or f"Document {document['id'][:12]}"
        if not document["text"]:
            if document["id"] not in owned:
                findings.add("document_without_text_units", "documents", document["id"], "it has no text either")
            else:
                findings.add("document_rebuilt", "documents", document["id"])
                document["text"] = "\n\n".join(unit["text"] for unit in owned[document["id"]])
        elif document["id"] not in owned:
            findings.add("document_without_text_units", "documents", document["id"])
        path = text(document.get("path")) or document["title"]
        paths[path] = paths.get(path, 0) + 1
        document["path"] = path if paths[path] == 1 else f"{path} ({paths[path]})"
    return found


def _document_row(document: Row, units: Rows) -> Row:
    metadata = document.get("raw_data", document.get("metadata"))
    return {
        "id": document["id"],
        "human_readable_id": document["human_readable_id"],
        "title": document["title"],
        "text": document["text"],
        "text_unit_ids": [unit["id"] for unit in units],
        "creation_date": text(document.get("creation_date")),
        "raw_data": as_json(metadata),
        "path": document["path"],
        "content_hash": text(document.get("content_hash"))
        or ids.digest("version", document["title"], document["text"], as_json(metadata) or ""),
        "language": text(document.get("language")),
    }


def _unit_rows(
    units: Rows, documents: Rows, owned: dict[str, Rows], count_tokens: Callable[[str], int], findings: Findings
) -> Rows:
    places: dict[str, tuple[int, int, int, str]] = {}
    for document in documents:
        after = 0
        for position, unit in enumerate(owned.get(document["id"], [])):
            own = _own_span(unit, document["text"])
            start, end, content = (*own, unit["text"]) if own else place(document["text"], unit["text"], after)
            if end:
                after = start + 1
            else:
                findings.add("place_unknown", "text_units", unit["id"])
            if content != unit["text"]:
                findings.add("cut_character", "text_units", unit["id"])
            places[unit["id"]] = (position, start, end, content)
    rows = []
    for unit in units:
        position, start, end, content = places[unit["id"]]
        tokens = integer(unit.get("n_tokens"))
        if tokens is None or tokens < 1:
            tokens = count_tokens(content)
            findings.add("no_tokens", "text_units", unit["id"])
        rows.append(
            {
                "id": unit["id"],
                "human_readable_id": unit["human_readable_id"],
                "text": content,
                "n_tokens": tokens,
                "document_id": unit["document_id"],
                "position": position,
                "start": start,
                "end": end,
                "status": text(unit.get("status")),
                "reason": text(unit.get("reason")),
            }
        )
    return rows


def _own_span(unit: Row, document: str) -> tuple[int, int] | None:
    """The span that an index of ours states, where it holds the text."""
    start, end = integer(unit.get("start")), integer(unit.get("end"))
    if start is None or end is None or not 0 <= start < end <= len(document):
        return None
    content = unit["text"]
    head = content[: len(content) - (end - start)]
    sound = content.endswith(document[start:end]) and (not head or head.endswith("\n"))
    return (start, end) if sound else None


def place(document: str, content: str, after: int) -> tuple[int, int, str]:
    """Where a text unit stands in its document.

    Its text is looked for as it is, then without the lines of metadata that may stand before it, each also without the
    remains of characters that were cut in two at its ends.

    Args:
        document: Text of the document.
        content: Text of the unit.
        after: Where the search begins: behind the start of the unit before; if need be it is searched from 0.

    Returns:
        First character, the character after the last one (0, 0 where it is not found), and the text of the unit.
    """
    last_line = content.rstrip(f"{_CUT} \t\r\n").rsplit("\n", 1)[-1].strip(_CUT)
    if last_line[-_PROBE:] not in document:  # what is not there is told without looking for its parts
        return 0, 0, content
    for whole in dict.fromkeys((content, content.rstrip(_CUT), content.lstrip(_CUT), content.strip(_CUT))):
        heads = [i + 1 for i, character in enumerate(whole[:_LONGEST_METADATA]) if character == "\n"]
        for head in (0, *heads):
            for piece in dict.fromkeys((whole[head:], whole[head:].lstrip(_CUT))):
                if not piece.strip():
                    continue
                start = document.find(piece, after)
                start = start if start >= 0 else document.find(piece)
                if start >= 0:
                    return start, start + len(piece), whole[:head] + piece
    return 0, 0, content


def finish_units(units: Rows, links: Any) -> Rows:
    """Add what was found in each text unit, and its status where the source tells none.

    Args:
        units: Rows of :func:`convert_corpus`.
        links: Arrow table of :func:`graphrag_assets.indexing.links.text_unit_links`.
    """
    listed = {row["text_unit_id"]: row for row in links.to_pylist()}
    for unit in units:
        unit |= {name: listed[unit["id"]][name] for name in ("entity_ids", "relationship_ids", "covariate_ids")}
        unit["status"] = unit["status"] or ("ok" if unit["entity_ids"] else "empty")
    return units
