"""Entities, relationships and claims of an imported index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from graphrag_assets import ids
from graphrag_assets.exchange.findings import Findings
from graphrag_assets.exchange.identity import Known, identified, next_number, numbered, require_columns
from graphrag_assets.exchange.values import Row, Rows, cells, has_column, integer, number, strings, text
from graphrag_assets.text.names import canonical_title

#: Method by which an alias is told that is only the usual form of a title.
IMPORTED = "import"


class Titles:
    """Titles of entities, found also where they are written in another form.

    Args:
        titles: All titles.
    """

    def __init__(self, titles: list[str]) -> None:
        self._exact = set(titles)
        forms: dict[str, str] = {}
        for title in titles:
            forms.setdefault(canonical_title(title), title)
        self._forms = forms

    def find(self, name: str) -> str | None:
        """The title of the entity that a name means; None where there is none."""
        return name if name in self._exact else self._forms.get(canonical_title(name) or name)

    def aliases(self) -> Rows:
        """The usual forms of titles that are written otherwise, so that questions find them."""
        return [
            {
                "alias": form,
                "title": title,
                "decision": "merged",
                "method": IMPORTED,
                "score": 1.0,
                "evidence": "the same name in the form in which names are looked up",
            }
            for form, title in self._forms.items()
            if form and form not in self._exact
        ]


def convert_entities(
    entities: Rows, units: Rows, known_units: Known, findings: Findings
) -> tuple[Rows, dict[str, str]]:
    """Rows of entities in the order of their numbers; degrees are still those of the source.

    Args:
        entities: Rows of the source.
        units: Rows of text units of the source, which may name entities where the entities name no text units.
        known_units: Text units that exist.
        findings: Takes what is wrong.

    Returns:
        The rows, and the id of the entity into which each id of a repeated title was merged.
    """
    require_columns(entities, "entities", ("id", "title", "type", "description", "text_unit_ids"), findings)
    if not has_column(entities, "text_unit_ids"):
        _fill_from_units(entities, units, "entity_ids")
    kept = []
    for entity in entities:
        entity["title"] = text(entity.get("title"))
        if entity["title"].strip():
            kept.append(entity)
        else:
            findings.add("empty_title", "entities", entity.get("id"))
    merged: dict[str, str] = {}
    by_title: dict[str, Row] = {}
    for entity in numbered(identified(kept, "entities", findings), "entities", findings):
        first = by_title.setdefault(entity["title"], entity)
        if first is not entity:
            findings.add("duplicate_title", "entities", entity["id"], entity["title"])
            merged[entity["id"]] = first["id"]
            first["text_unit_ids"] = [*cells(first.get("text_unit_ids")), *cells(entity.get("text_unit_ids"))]
            first["more"] = [*first.get("more", []), entity]
    return [_entity_row(entity, known_units, findings) for entity in by_title.values()], merged


def _fill_from_units(rows: Rows, units: Rows, column: str) -> None:
    named: dict[str, list[str]] = {}
    for unit in units:
        for own in strings(unit.get(column)):
            named.setdefault(own, []).append(text(unit.get("id")))
    for row in rows:
        row["text_unit_ids"] = named.get(text(row.get("id")), [])


def _entity_row(entity: Row, known_units: Known, findings: Findings) -> Row:
    missing: list[str] = []
    units = known_units.ordered(strings(entity.get("text_unit_ids")), missing)
    for unit in missing:
        findings.add("unknown_text_unit", "entities", entity["title"], unit)
    stated = integer(entity.get("frequency"))
    if stated is not None and stated != len(units):
        findings.add("frequency", "entities", entity["title"], f"{stated} is now {len(units)}")
    others = entity.get("more", [])
    described = [text(e.get("description")) for e in (entity, *others)]
    description = next(filter(None, described), "")
    kinds = [text(e.get("type")) for e in (entity, *others)]
    kind = next(filter(None, kinds), "")
    seen = strings(entity.get("descriptions")) if "descriptions" in entity else sorted({*filter(None, described[:1])})
    own_votes = [v for v in cells(entity.get("types")) if isinstance(v, dict) and v.get("type") is not None]
    votes = own_votes if own_votes and own_votes[0]["type"] == kind else _votes(kind, kinds, len(units))
    return {
        "id": entity["id"],
        "human_readable_id": entity["human_readable_id"],
        "title": entity["title"],
        "type": kind,
        "description": description,
        "text_unit_ids": units,
        "frequency": len(units),
        "degree": integer(entity.get("degree")),
        "types": votes,
        "descriptions": sorted({*seen, *filter(None, described)}) if others else seen,
        "aliases": strings(entity.get("aliases")),
    }


def _votes(kind: str, kinds: list[str], units: int) -> list[dict[str, object]]:
    others = [k for k in dict.fromkeys(kinds) if k and k != kind]
    return [{"type": kind, "count": max(units, 1)}, *({"type": k, "count": 1} for k in others)] if kind else []


def convert_relationships(
    relationships: Rows, units: Rows, entities: Rows, known_units: Known, findings: Findings
) -> tuple[Rows, Rows]:
    """Rows of relationships, and entities with those added that only relationships name; with the degrees of both.

    Args:
        relationships: Rows of the source.
        units: Rows of text units of the source.
        entities: Rows of :func:`convert_entities`.
        known_units: Text units that exist.
        findings: Takes what is wrong.
    """
    names = ("id", "source", "target", "description", "weight", "text_unit_ids")
    require_columns(relationships, "relationships", names, findings)
    if not has_column(relationships, "text_unit_ids"):
        _fill_from_units(relationships, units, "relationship_ids")
    titles = Titles([entity["title"] for entity in entities])
    rows: dict[tuple[str, str], Row] = {}
    added: dict[str, list[str]] = {}
    for relationship in numbered(identified(relationships, "relationships", findings), "relationships", findings):
        ends = _ends(relationship, titles, findings)
        if ends is None:
            continue
        row = _relationship_row(relationship, ends, known_units, findings)
        for end in ends:
            if titles.find(end) is None:
                added.setdefault(end, []).extend(row["text_unit_ids"])
        first = rows.setdefault(ends, row)
        if first is not row:
            findings.add("duplicate_relationship", "relationships", row["id"], " / ".join(ends))
            _merge_into(first, row, known_units)
    entities = [*entities, *_added_entities(added, next_number(entities), known_units, findings)]
    found = list(rows.values())
    _count_degrees(entities, found, findings)
    return found, entities


def _ends(relationship: Row, titles: Titles, findings: Findings) -> tuple[str, str] | None:
    ends = []
    for column in ("source", "target"):
        name = text(relationship.get(column))
        if not name.strip():
            findings.add("empty_end", "relationships", relationship["id"])
            return None
        found = titles.find(name)
        if found is not None and found != name:
            findings.add("end_renamed", "relationships", relationship["id"], f"{name} is now {found}")
        ends.append(found or name)
    if ends[0] == ends[1]:
        findings.add("self_relationship", "relationships", relationship["id"], ends[0])
        return None
    return ends[0], ends[1]


def _relationship_row(relationship: Row, ends: tuple[str, str], known_units: Known, findings: Findings) -> Row:
    missing: list[str] = []
    units = known_units.ordered(strings(relationship.get("text_unit_ids")), missing)
    for unit in missing:
        findings.add("unknown_text_unit", "relationships", relationship["id"], unit)
    weight = number(relationship.get("weight"))
    if weight is None or weight < 0:
        if "weight" in relationship:
            findings.add("weight", "relationships", relationship["id"], str(relationship["weight"]))
        weight = 1.0 if weight is None else 0.0
    description = text(relationship.get("description"))
    return {
        "id": relationship["id"],
        "human_readable_id": relationship["human_readable_id"],
        "source": ends[0],
        "target": ends[1],
        "description": description,
        "weight": weight,
        "combined_degree": integer(relationship.get("combined_degree")),
        "text_unit_ids": units,
        "descriptions": strings(relationship.get("descriptions", description)),
    }


def _merge_into(first: Row, row: Row, known_units: Known) -> None:
    first["weight"] += row["weight"]
    first["text_unit_ids"] = known_units.ordered([*first["text_unit_ids"], *row["text_unit_ids"]])
    first["descriptions"] = sorted({*first["descriptions"], *row["descriptions"]})
    first["description"] = first["description"] or row["description"]


def _added_entities(named: Mapping[str, list[str]], first: int, known_units: Known, findings: Findings) -> Rows:
    rows = []
    for offset, (title, units) in enumerate(sorted(named.items())):
        findings.add("entity_added", "entities", title)
        found = known_units.ordered(units)
        rows.append(
            {
                "id": ids.entity_id(title),
                "human_readable_id": first + offset,
                "title": title,
                "type": "",
                "description": "",
                "text_unit_ids": found,
                "frequency": len(found),
                "degree": None,
                "types": [],
                "descriptions": [],
                "aliases": [],
            }
        )
    return rows


def _count_degrees(entities: Rows, relationships: Rows, findings: Findings) -> None:
    """Distinct neighbours of each entity, and their sum for each relationship."""
    pairs = {tuple(sorted((row["source"], row["target"]))) for row in relationships}
    degree = Counter(end for pair in pairs for end in pair)
    for row, name, counted in (
        *((e, "degree", degree[e["title"]]) for e in entities),
        *((r, "combined_degree", degree[r["source"]] + degree[r["target"]]) for r in relationships),
    ):
        stated, row[name] = row[name], counted
        if stated is not None and stated != counted:
            table = "entities" if name == "degree" else "relationships"
            findings.add("degree", table, row["id"], f"{name} {stated} is now {counted}")


def convert_claims(claims: Rows, entities: Rows, known_units: Known, findings: Findings) -> Rows:
    """Rows of claims in the order of their numbers.

    Args:
        claims: Rows of the source.
        entities: Rows of the converted entities.
        known_units: Text units that exist.
        findings: Takes what is wrong.
    """
    require_columns(claims, "covariates", ("id", "subject_id", "text_unit_id"), findings)
    titles = Titles([entity["title"] for entity in entities])
    rows = []
    for claim in numbered(identified(claims, "covariates", findings), "covariates", findings):
        unit = known_units.find(text(claim.get("text_unit_id")))
        if unit is None:
            findings.add("claim_text_unit", "covariates", claim["id"], text(claim.get("text_unit_id")))
            continue
        subject = text(claim.get("subject_id"))
        found = titles.find(subject) if subject else None
        if found is None:
            findings.add("claim_subject", "covariates", claim["id"], subject)
        elif found != subject:
            findings.add("claim_renamed", "covariates", claim["id"], f"{subject} is now {found}")
        if not text(claim.get("description")):
            findings.add("claim_incomplete", "covariates", claim["id"], subject)
        fields = ("type", "description", "object_id", "status", "start_date", "end_date", "source_text")
        rows.append(
            {
                "id": claim["id"],
                "human_readable_id": claim["human_readable_id"],
                "covariate_type": text(claim.get("covariate_type")) or "claim",
                "subject_id": found or subject,
                "text_unit_id": unit,
                **{name: text(claim.get(name)) for name in fields},
            }
        )
    return rows


def no_text_unit(rows: Rows, table: str, name: Callable[[Row], str], findings: Findings) -> None:
    """Tell the rows that no text unit names."""
    for row in rows:
        if not row["text_unit_ids"]:
            findings.add("no_text_unit", table, name(row))
