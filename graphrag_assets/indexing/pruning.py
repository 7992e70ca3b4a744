"""Weights and pruning of a co-occurrence graph (fast method).

Works on whole columns (Arrow, numpy): a million entities and relationships take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets.indexing.noun_phrases import NOUN_PHRASE

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class PruneSettings(Protocol):
    """The section prune_graph of the settings."""

    @property
    def min_node_freq(self) -> int: ...  # noqa: D102
    @property
    def max_node_freq_std(self) -> float | None: ...  # noqa: D102
    @property
    def min_node_degree(self) -> int: ...  # noqa: D102
    @property
    def max_node_degree_std(self) -> float | None: ...  # noqa: D102
    @property
    def min_edge_weight_pct(self) -> float: ...  # noqa: D102
    @property
    def remove_ego_nodes(self) -> bool: ...  # noqa: D102
    @property
    def lcc_only(self) -> bool: ...  # noqa: D102


def pmi_weights(relationships: pa.Table, entities: pa.Table) -> pa.Table:
    """Weigh co-occurrence by how far it exceeds chance.

    With N text units, of which n(a) and n(b) name the two entities and n(a, b) hold a relationship between them,

        npmi = ln( n(a,b) N / (n(a) n(b)) ) / -ln( n(a,b) / N )          (Bouma 2009), from -1 to 1

    is 1 where neither is ever named without the other, 0 where they meet as often as chance would have it. The weight
    is

        weight = (1 + npmi) / 2 * log2(1 + count)

    with the count of sentences (or text units) that name both: positive always, so that clustering may use it; chance
    meetings of entities that stand everywhere count little; and a pair seen once, for which npmi is highest of all,
    does not outweigh a pair seen often. All pairs of text units that always go together have npmi 1 (the limit) where N
    = n(a,b).

    On a third of the podcast transcripts, communities found with it agree with the episodes (normalised mutual
    information) by 0.83, with plain counts by 0.66.

    Microsoft GraphRAG multiplies log2(p(a,b) / (p(a) p(b))) with p(a,b), where each p is a share of a *sum* (of all
    weights, of all frequencies), not of the text units. So its probabilities shrink with the size of the graph, its
    weights are tiny, and negative for pairs of frequent entities, which Leiden does not accept.

    Args:
        relationships: Columns source, target, weight (the count) and text_unit_ids; others are kept.
        entities: Columns title, frequency and text_unit_ids.

    Returns:
        The relationships with the column weight replaced.

    Raises:
        ValueError: A relationship names an entity that is not among the entities.
    """
    if not relationships.num_rows:
        return relationships
    source, target = _ends(relationships, entities)
    frequency = _numbers(entities, "frequency")
    total = float(len(pc.unique(pc.list_flatten(entities["text_unit_ids"]))))
    together = np.asarray(
        pc.list_value_length(relationships["text_unit_ids"]).to_numpy(zero_copy_only=False), dtype=np.float64
    )
    npmi = _npmi(together, frequency[source], frequency[target], total)
    weights = (1.0 + npmi) / 2.0 * np.log2(1.0 + _numbers(relationships, "weight"))
    return _with_column(relationships, "weight", pa.array(weights, pa.float64()))


def _npmi(together: Floats, first: Floats, second: Floats, total: float) -> Floats:
    """Normalised pointwise mutual information from counts of text units."""
    together = np.maximum(together, 1.0)
    information = -np.log(together / max(total, 1.0))
    pmi = np.log(together * max(total, 1.0) / (np.maximum(first, 1.0) * np.maximum(second, 1.0)))
    always = information <= 0
    npmi = np.where(always, 1.0, pmi / np.where(always, 1.0, information))
    clipped: Floats = np.clip(npmi, -1.0, 1.0)
    return clipped


@dataclass(frozen=True)
class PrunedGraph:
    """What pruning left.

    Args:
        entities: Rows that stay, in their order; column degree, where there is one, counts the relationships that stay.
        relationships: Rows that stay, in their order; column combined_degree likewise.
        note: Why nothing was pruned although the settings ask for it; else empty.
        dropped: Rows dropped by rule, for the metadata.
    """

    entities: pa.Table
    relationships: pa.Table
    note: str = ""
    dropped: dict[str, int] = field(default_factory=dict)


def prune_graph(entities: pa.Table, relationships: pa.Table, settings: PruneSettings) -> PrunedGraph:
    """Drop what is probably noise from a co-occurrence graph.

    The rules, in the order of Microsoft GraphRAG:

    1. the entity with the highest degree goes, where ``remove_ego_nodes`` (off by default: it may well be the subject
       of the corpus);
    2. entities whose degree is below ``min_node_degree``, or too many deviations above the mean;
    3. entities that fewer than ``min_node_freq`` text units name, except names (all that is no noun phrase) that keep a
       relationship; and those too many deviations above the mean, of what is left;
    4. relationships with an end that went, and those below a percentile of the weights of the rest;
    5. what these rules leave without any relationship: noun phrases, and rare names (the reference keeps both). Names
       that are frequent enough stay, so that local search finds them;
    6. all but the largest connected component, where ``lcc_only``.

    A graph of which nothing would be left (the reference fails there) is returned as it is, with a note.

    Args:
        entities: Columns title, type and frequency; others are kept.
        relationships: Columns source, target and weight; others are kept. One row per unordered pair.
        settings: The limits.

    Returns:
        The pruned graph.

    Raises:
        ValueError: A relationship names an entity that is not among the entities.
    """
    source, target = _ends(relationships, entities)
    frequency = _numbers(entities, "frequency")
    named = _named(entities)
    kept, edges, dropped = _prune(source, target, frequency, named, _numbers(relationships, "weight"), settings)
    if entities.num_rows and not kept.any():
        note = "pruning would leave no entity: the graph is kept whole; see prune_graph in the settings"
        return PrunedGraph(entities, relationships, note)
    degree = _degrees(source[edges], target[edges], entities.num_rows)
    entities = _with_column(entities, "degree", pa.array(degree))
    relationships = _with_column(relationships, "combined_degree", pa.array(degree[source] + degree[target]))
    return PrunedGraph(entities.filter(pa.array(kept)), relationships.filter(pa.array(edges)), dropped=dropped)


def _prune(
    source: Integers, target: Integers, frequency: Floats, named: Bools, weight: Floats, settings: PruneSettings
) -> tuple[Bools, Bools, dict[str, int]]:
    """Masks of the entities and relationships that stay, and what was dropped by which rule."""
    count = len(frequency)
    degree = _degrees(source, target, count)
    kept = np.ones(count, dtype=bool)
    dropped: dict[str, int] = {}

    def drop(rule: str, mask: Bools) -> None:
        dropped[rule] = int((kept & mask).sum())
        kept[mask] = False

    if settings.remove_ego_nodes and count:
        drop("entities_ego", np.arange(count) == int(degree.argmax()))
    drop("entities_low_degree", degree < settings.min_node_degree)
    if settings.max_node_degree_std is not None:
        drop("entities_high_degree", degree > _bound(degree, settings.max_node_degree_std))
    rare = frequency < settings.min_node_freq
    drop("entities_rare", rare & ~named)
    if settings.max_node_freq_std is not None and kept.any():
        drop("entities_frequent", frequency > _bound(frequency[kept], settings.max_node_freq_std))

    edges = kept[source] & kept[target] & (source != target)
    if edges.any():
        heavy = weight >= np.percentile(weight[edges], settings.min_edge_weight_pct)
        dropped["relationships_light"] = int((edges & ~heavy).sum())
        edges &= heavy
    isolated = _degrees(source[edges], target[edges], count) == 0
    drop("entities_isolated", isolated & (rare | ~named) & (settings.min_node_degree > 0))
    if settings.lcc_only:
        drop("entities_outside_largest_component", ~_largest_component(source[edges], target[edges], count, kept))
    edges &= kept[source] & kept[target]
    dropped["relationships"] = int((~edges).sum())
    return kept, edges, dropped


def _bound(values: Any, deviations: float) -> float:
    """Mean plus a number of (population) standard deviations."""
    return float(np.mean(values) + deviations * np.std(values))


def _largest_component(source: Integers, target: Integers, count: int, kept: Bools) -> Bools:
    """Mask of the largest connected component; of several, the one with the first entity.

    Each node takes the smallest label among its neighbours, then the label of its label, until nothing changes: few
    rounds, each over whole columns.
    """
    label = np.arange(count)
    while True:
        before = label.copy()
        np.minimum.at(label, source, label[target])
        np.minimum.at(label, target, label[source])
        label = label[label]
        if np.array_equal(label, before):
            break
    sizes = np.bincount(label[kept], minlength=count)
    return np.asarray(label == sizes.argmax()) & kept


def _ends(relationships: pa.Table, entities: pa.Table) -> tuple[Integers, Integers]:
    """Row numbers of the entities at both ends of each relationship."""
    titles = entities["title"].combine_chunks()
    ends = []
    for column in ("source", "target"):
        index = pc.index_in(relationships[column], value_set=titles)
        if index.null_count:
            unknown = pc.filter(relationships[column], pc.is_null(index))[0].as_py()
            raise ValueError(f"relationships: {column} {unknown!r} is not among the entities")
        ends.append(np.asarray(index.to_numpy(), dtype=np.int64))
    return ends[0], ends[1]


def _degrees(source: Integers, target: Integers, count: int) -> Integers:
    """Number of relationships of each entity; one with itself counts nothing."""
    apart = source != target
    both = np.concatenate([source[apart], target[apart]])
    return np.bincount(both, minlength=count).astype(np.int64)


def _named(entities: pa.Table) -> Bools:
    """Whether an entity is a name rather than a noun phrase."""
    return np.asarray(pc.not_equal(entities["type"], NOUN_PHRASE).to_numpy(zero_copy_only=False), dtype=bool)


def _numbers(table: pa.Table, column: str) -> Floats:
    return np.asarray(table[column].to_numpy(), dtype=np.float64)


def _with_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """Replace a column; a table without it stays as it is."""
    index = table.schema.get_field_index(name)
    if index < 0:
        return table
    column = table.schema.field(index)
    return table.set_column(index, column, values.cast(column.type))
