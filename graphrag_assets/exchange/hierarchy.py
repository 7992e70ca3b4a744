"""Communities and their reports of an imported index."""

from __future__ import annotations

import json
from collections import Counter

from graphrag_assets import ids
from graphrag_assets.exchange.findings import Findings
from graphrag_assets.exchange.identity import Known, identified, require_columns
from graphrag_assets.exchange.values import LARGEST, Row, Rows, cells, integer, integers, number, strings, text
from graphrag_assets.text.citations import find_citations


def convert_communities(
    communities: Rows,
    entities: Rows,
    relationships: Rows,
    merged: dict[str, str],
    known_units: Known,
    findings: Findings,
) -> Rows:
    """Rows of communities, by level and number; parents and children agree.

    Args:
        communities: Rows of the source.
        entities: Converted rows.
        relationships: Converted rows.
        merged: Ids of entities that were merged into others.
        known_units: Text units that exist.
        findings: Takes what is wrong.
    """
    require_columns(communities, "communities", ("community", "level", "parent", "entity_ids"), findings)
    known = Known([entity["id"] for entity in entities])
    kept = _numbered(communities, findings)
    rows = []
    for row in identified(kept, "communities", findings):
        missing: list[str] = []
        named = [merged.get(own, own) for own in strings(row.get("entity_ids"))]
        members = known.ordered(named, missing)
        for own in missing:
            findings.add("unknown_member", "communities", row["community"], own)
        if not members:
            findings.add("no_members", "communities", row["community"])
        rows.append(row | {"entity_ids": members, "parent": integer(row.get("parent"))})
    rows.sort(key=lambda row: (row["level"], row["community"]))
    _find_parents(rows, findings)
    children: dict[int, list[int]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row["community"])
    inside = _relationships_inside(rows, entities, relationships)
    units_of = {e["id"]: e["text_unit_ids"] for e in entities} | {r["id"]: r["text_unit_ids"] for r in relationships}
    return [
        _community_row(row, sorted(children.get(row["community"], [])), inside[i], units_of, known_units, findings)
        for i, row in enumerate(rows)
    ]


def _numbered(communities: Rows, findings: Findings) -> Rows:
    kept, seen = [], set()
    for row in communities:
        number_, level = integer(row.get("community")), integer(row.get("level"))
        usable = number_ is not None and level is not None and 0 <= number_ <= LARGEST and 0 <= level <= LARGEST
        if not usable or number_ in seen:
            findings.add("community_number", "communities", text(row.get("community")), text(row.get("title")))
            continue
        seen.add(number_)
        kept.append(row | {"community": number_, "level": level})
    return kept


def _find_parents(rows: Rows, findings: Findings) -> None:
    """A parent that is none gives way to the community one level above that holds most of the members."""
    level = {row["community"]: row["level"] for row in rows}
    at_level: dict[tuple[str, int], int] = {}
    for row in rows:
        at_level |= {(own, row["level"]): row["community"] for own in row["entity_ids"]}
    for row in rows:
        parent, stated = row["parent"], row["parent"]
        if row["level"] == 0:
            parent = -1
        elif parent is None or level.get(parent) != row["level"] - 1:
            holders = Counter(
                at_level[key] for own in row["entity_ids"] if (key := (own, row["level"] - 1)) in at_level
            )
            parent = min(holders, key=lambda c: (-holders[c], c)) if holders else -1
        row["parent"] = parent
        if row["level"] and parent == -1:
            findings.add("no_parent", "communities", row["community"])
        elif stated != parent and not (stated is None and parent == -1):
            findings.add("parent", "communities", row["community"], f"{stated} is now {parent}")


def _relationships_inside(rows: Rows, entities: Rows, relationships: Rows) -> list[tuple[list[str], set[str]]]:
    """For each community the relationships with both ends in it, and those that its list may hold beside them.

    An end of these is in no community at all: the clustering knew it, and no table of entities did.
    """
    id_of = {entity["title"]: entity["id"] for entity in entities}
    of_entity: dict[str, set[int]] = {}
    for i, row in enumerate(rows):
        for own in row["entity_ids"]:
            of_entity.setdefault(own, set()).add(i)
    found: list[list[str]] = [[] for _ in rows]
    outside: dict[str, set[int] | None] = {}
    for relationship in relationships:
        a, b = (of_entity.get(id_of[relationship[end]]) for end in ("source", "target"))
        if a is None or b is None:
            outside[relationship["id"]] = a or b
        else:
            for i in a & b:
                found[i].append(relationship["id"])
    more = []
    for i, row in enumerate(rows):
        listed = [own for own in strings(row.get("relationship_ids")) if own in outside]
        more.append({own for own in listed if (held_by := outside[own]) is None or i in held_by})
    return list(zip(found, more, strict=True))


def _community_row(
    row: Row,
    children: list[int],
    inside: tuple[list[str], set[str]],
    units_of: dict[str, list[str]],
    known_units: Known,
    findings: Findings,
) -> Row:
    number_ = row["community"]
    if "children" in row and integers(row["children"]) != children:
        findings.add("children", "communities", number_, f"{integers(row['children'])} are now {children}")
    within = sorted({*inside[0], *inside[1]})
    if "relationship_ids" in row and sorted(strings(row["relationship_ids"])) != within:
        stated = len(strings(row["relationship_ids"]))
        findings.add("inner_relationships", "communities", number_, f"{stated} named, {len(within)} there")
    if "text_unit_ids" in row:
        missing: list[str] = []
        units = known_units.ordered(strings(row["text_unit_ids"]), missing)
        for own in missing:
            findings.add("unknown_text_unit", "communities", number_, own)
    else:
        units = [unit for own in (*row["entity_ids"], *within) for unit in units_of[own]]
    return {
        "id": row["id"],
        "human_readable_id": number_,
        "community": number_,
        "level": row["level"],
        "parent": row["parent"],
        "children": children,
        "title": text(row.get("title")) or f"Community {number_}",
        "entity_ids": row["entity_ids"],
        "relationship_ids": within,
        "text_unit_ids": sorted(set(units)),
        "period": text(row.get("period")),
        "size": len(row["entity_ids"]),
    }


def convert_reports(reports: Rows, communities: Rows, titles: dict[str, str], findings: Findings) -> Rows:
    """Rows of reports, deepest level first: one for each community.

    Args:
        reports: Rows of the source.
        communities: Converted rows.
        titles: Title of each entity by id, for stand-ins.
        findings: Takes what is wrong.
    """
    require_columns(reports, "community_reports", ("community", "full_content", "rank"), findings)
    by_number = {row["community"]: row for row in communities}
    found: dict[int, Row] = {}
    for report in reports:
        number_ = integer(report.get("community"))
        if number_ is None or number_ not in by_number:
            findings.add(
                "report_without_community", "community_reports", text(report.get("id")), text(report.get("title"))
            )
        elif number_ in found:
            findings.add("duplicate_report", "community_reports", text(report.get("id")), text(report.get("title")))
        else:
            found[number_] = report
    rows = []
    for community in sorted(communities, key=lambda c: (-c["level"], c["community"])):
        report = found.get(community["community"], {})
        row = _report_row(report, community, findings)
        if not row["full_content"].strip():
            findings.add("report_missing", "community_reports", community["community"])
            row |= _stand_in(community, titles)
        rows.append(row)
    return identified(rows, "community_reports", findings)


def _report_row(report: Row, community: Row, findings: Findings) -> Row:
    parts = [
        {"explanation": text(f.get("explanation")), "summary": text(f.get("summary"))}
        if isinstance(f, dict)
        else {"explanation": "", "summary": text(f)}
        for f in cells(report.get("findings"))
    ]
    title, summary = text(report.get("title")), text(report.get("summary"))
    content = text(report.get("full_content"))
    if not content.strip() and summary:
        blocks = [f"# {title}", summary, *(f"## {p['summary']}\n\n{p['explanation']}" for p in parts)]
        content = "\n\n".join(blocks)
    stated = report.get("rank", report.get("rating"))
    rank = number(stated)
    sound = min(max(rank if rank is not None else 0.0, 0.0), 10.0)
    if report and rank != sound:
        findings.add("rank", "community_reports", community["community"], f"{stated} is now {sound:g}")
    explanation = text(report.get("rating_explanation"))
    told = {"title": title, "summary": summary, "findings": parts, "rating": sound, "rating_explanation": explanation}
    return {
        "id": text(report.get("id")) or ids.report_id(community["id"], content),
        "human_readable_id": community["community"],
        **{name: community[name] for name in ("community", "level", "parent", "children", "period", "size")},
        "title": title or f"Community {community['community']}",
        "summary": summary,
        "full_content": content,
        "rank": sound,
        "rating_explanation": explanation,
        "findings": parts,
        "full_content_json": text(report.get("full_content_json")) or json.dumps(told, ensure_ascii=False, indent=4),
        "status": text(report.get("status")) or "ok",
        "reason": text(report.get("reason")),
        "extractive": report.get("extractive") is True,
        "input_hash": text(report.get("input_hash")),
    }


def _stand_in(community: Row, titles: dict[str, str]) -> Row:
    """A report that says that there is none, and lists the members."""
    reason = "the imported index holds no report on this community"
    listed = ", ".join(titles[own] for own in community["entity_ids"])
    title = community["title"]
    return {
        "title": title,
        "summary": f"No report: {reason}.",
        "full_content": f"# {title}\n\nNo report: {reason}. Its members: {listed or 'none'}.",
        "status": "failed",
        "reason": reason,
    }


def unknown_citations(reports: Rows, numbers: dict[str, set[int]], findings: Findings) -> None:
    """Tell the numbers that reports cite and no row has.

    Args:
        reports: Converted rows.
        numbers: Numbers of the rows by data set.
        findings: Takes them.
    """
    for report in reports:
        unknown = {
            f"{citation.dataset} {own}"
            for citation in find_citations(report["full_content"])
            for own in citation.ids
            if citation.dataset in numbers and integer(own) not in numbers[citation.dataset]
        }
        if unknown:
            findings.add("report_citation", "community_reports", report["community"], ", ".join(sorted(unknown)))
