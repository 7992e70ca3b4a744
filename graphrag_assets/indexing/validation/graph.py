"""Checks of entities and relationships."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from graphrag_assets.indexing.validation.base import Check, Published, Violation, positions, violation


def _unique_titles(p: Published) -> list[Violation]:
    query = "select title as place from entities group by title having count(*) > 1"
    found = p.faults("entities: several entities have one title", query, "entities")
    empty = pc.equal(p.column("entities", "title"), "").to_numpy(zero_copy_only=False)
    found += violation("entities: empty title", empty, p.column("entities", "id"))
    query = """select alias as place from entity_aliases a semi join entities e on a.alias = e.title
        where decision = 'merged'"""
    return found + p.faults("entity_aliases: merged title is still an entity", query, "entity_aliases", "entities")


def _unique_pairs(p: Published) -> list[Violation]:
    query = """select concat_ws(' / ', least(source, target), greatest(source, target)) as place from relationships
        group by least(source, target), greatest(source, target) having count(*) > 1"""
    found = p.faults("relationships: several rows for one pair of entities", query, "relationships")
    return found + ends_of_relationships(p)


def ends_of_relationships(p: Published) -> list[Violation]:
    """Both ends of a relationship are entities, and two different ones."""
    same = pc.equal(p.column("relationships", "source"), p.column("relationships", "target")).to_numpy(
        zero_copy_only=False
    )
    found = violation("relationships: an entity with itself", same, p.column("relationships", "source"))
    for end in ("source", "target"):
        missing = positions(p.column("relationships", end), p.column("entities", "title")) < 0
        found += violation(f"relationships: {end} is no entity", missing, p.column("relationships", end))
    return found


def _degrees(p: Published) -> list[Violation]:
    titles = p.column("entities", "title")
    source = positions(p.column("relationships", "source"), titles)
    target = positions(p.column("relationships", "target"), titles)
    known = (source >= 0) & (target >= 0)
    pairs = np.unique(np.sort(np.stack([source[known], target[known]], axis=1), axis=1), axis=0)
    expected = np.bincount(pairs.ravel(), minlength=len(titles))
    degree = p.column("entities", "degree").to_numpy(zero_copy_only=False)
    found = violation("entities: degree is not the number of neighbours", degree != expected, titles)
    combined = p.column("relationships", "combined_degree").to_numpy(zero_copy_only=False)
    wrong = np.zeros(len(combined), dtype=np.bool_)
    wrong[known] = combined[known] != expected[source[known]] + expected[target[known]]
    message = "relationships: combined_degree is not the sum of the degrees of both ends"
    return found + violation(message, wrong, p.column("relationships", "id"))


def _frequency(p: Published) -> list[Violation]:
    """Frequency is the number of text units, each once and in order; nothing comes from nowhere."""
    return frequency_is_counted(p) + named_by_text_units(p)


def named_by_text_units(p: Published) -> list[Violation]:
    """Each entity and relationship has a text unit that it was read from."""
    found = []
    for table in ("entities", "relationships"):
        lengths = pc.list_value_length(p.column(table, "text_unit_ids")).to_numpy(zero_copy_only=False)
        found += violation(f"{table}: no text unit names it", lengths == 0, p.column(table, "id"))
    return found


def frequency_is_counted(p: Published) -> list[Violation]:
    """Frequency is the number of text units, each once and in order."""
    titles = p.column("entities", "title")
    lengths = pc.list_value_length(p.column("entities", "text_unit_ids")).to_numpy(zero_copy_only=False)
    frequency = p.column("entities", "frequency").to_numpy(zero_copy_only=False)
    found = violation("entities: frequency is not the number of text units", frequency != lengths, titles)
    for table in ("entities", "relationships"):
        places = p.column(table, "id")
        rows, units = p.list_positions(table, "text_unit_ids", "text_units")
        falling = np.zeros(len(places), dtype=np.bool_)
        falling[rows[1:][(np.diff(rows) == 0) & (np.diff(units) <= 0)]] = True
        found += violation(f"{table}: text units repeated or out of order", falling, places)
    return found


def _types(p: Published) -> list[Violation]:
    """The type is the first of the types seen."""
    query = """select title as place from entities where type <> coalesce(types[1].type, '')
        or exists (select 1 from unnest(types) as t(vote) where vote.count < 1)"""
    return p.faults("entities: type is not the one with the most votes", query, "entities")


def _weights(p: Published) -> list[Violation]:
    weight = p.column("relationships", "weight").to_numpy(zero_copy_only=False)
    wrong = ~np.isfinite(weight) | (weight < 0)
    return violation("relationships: weight is negative or no number", wrong, p.column("relationships", "id"))


GRAPH_CHECKS = (
    Check("unique_titles", "One entity per title.", True, ("entities", "entity_aliases"), _unique_titles, "entities"),
    Check(
        "unique_pairs",
        "One relationship per pair of entities.",
        True,
        ("entities", "relationships"),
        _unique_pairs,
        "relationships",
    ),
    Check(
        "degrees",
        "Degrees agree with the relationships.",
        True,
        ("entities", "relationships"),
        _degrees,
        "relationships",
    ),
    Check(
        "frequency",
        "Frequency is the number of text units, each named once and in order.",
        True,
        ("entities", "relationships", "text_units"),
        _frequency,
        "entities",
    ),
    Check("types", "The type of an entity is the one with the most votes.", True, ("entities",), _types, "entities"),
    Check("weights", "Weights are finite and not negative.", True, ("relationships",), _weights, "relationships"),
)
