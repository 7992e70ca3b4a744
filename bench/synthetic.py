"""A synthetic index of any size, published as a snapshot: the same one on every machine.

Entities lie in communities of three levels. A relationship joins mostly entities of one community, sometimes far ones
and a few hubs. There is one text unit for each entity; it tells of its relationships in 100 to 300 words that are as
unevenly frequent as those of a language. Vectors are random ones around the centre of their community.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets import ids
from graphrag_assets.indexing.links import text_unit_links
from graphrag_assets.indexing.look_ups import look_up_tables
from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.storage import parquet, tables
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.snapshots import Manifest, SnapshotStore, VectorTable
from graphrag_assets.storage.vectors import VectorStore

RELATIONSHIPS_PER_ENTITY = 5
UNITS_PER_DOCUMENT = 20
DIMENSION = 384
DEPARTMENTS = ("archive", "board", "clinic", "depot", "estate", "foundry", "guild", "harbour")
KINDS = ("PERSON", "ORGANIZATION", "GEO", "EVENT", "OBJECT")

#: Parts of invented syllables.
_PARTS = tuple(
    tuple(parts.split())
    for parts in (
        "b c d f g h j k l m n p r s t v w z br ch dr fl gr kl pr qu sh sp st tr",
        "a e i o u ai ea ou ie",
        "n r l s t nd rk m ck ss lt th v x b",
    )
)


@dataclass(frozen=True)
class Asked:
    """A question to the index.

    Args:
        text: It names two entities of one text unit and some of its words.
        vector: Its vector, near that of the text unit.
    """

    text: str
    vector: list[float]


class Synthetic:
    """All that a synthetic index consists of.

    Args:
        entities: Number of entities.
        seed: Of all that is random.
    """

    def __init__(self, entities: int, seed: int = 7) -> None:
        self.n = entities
        self.random = np.random.default_rng(seed)
        self.counter = tokenizer("o200k_base")
        self.vocabulary = np.array(_invented(self.random, 40_000, 3), dtype=object)
        self.levels = [max(1, round(entities * share)) for share in (0.0013, 0.0117, 0.117)]
        self.titles = self._titles()
        self.slot_of_entity = np.argsort(self.random.permutation(self.n))
        self.entity_of_slot = np.argsort(self.slot_of_entity)

    def _titles(self) -> list[str]:
        """Names in the order of the table."""
        parts = [word.upper() for word in _invented(self.random, 6_000, 2)]
        found: dict[str, None] = {}
        while len(found) < self.n:
            picked = self.random.integers(0, len(parts), (self.n, 3))
            three = self.random.random(self.n) < 0.2
            for (a, b, c), long in zip(picked.tolist(), three.tolist(), strict=True):
                if len(found) < self.n:
                    found[f"{parts[a]} {parts[b]} {parts[c]}" if long else f"{parts[a]} {parts[b]}"] = None
        return sorted(found)

    def community(self, level: int, slots: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Place among the communities of a level, for entities by their place in the hierarchy."""
        found, size = slots, self.n
        for number in reversed(self.levels[level:]):
            found, size = found * number // size, number
        return found

    def words(self, count: int) -> str:
        """Words in the order of chance, some far more frequent than others."""
        places = (len(self.vocabulary) ** self.random.random(count)).astype(np.int64) - 1
        return " ".join(self.vocabulary[places])

    def sentences(self, count: int, names: list[str]) -> str:
        """About so many words, with the names among them."""
        told: list[str] = []
        per = 14
        for i in range(max(1, count // per)):
            rest = self.words(per)
            told.append(f"{names[i % len(names)].title()} {rest}." if i < len(names) else f"{rest.capitalize()}.")
        return " ".join(told)

    def pairs(self) -> np.ndarray[Any, Any]:
        """Ends of the relationships, by place in the hierarchy, each unordered pair once."""
        wanted, n = RELATIONSHIPS_PER_ENTITY * self.n, self.n
        source = np.tile(np.arange(n), RELATIONSHIPS_PER_ENTITY + 2)
        near = self.random.geometric(0.02, len(source)) * self.random.choice((-1, 1), len(source))
        far = (n ** self.random.random(len(source))).astype(np.int64) - 1
        target = np.where(self.random.random(len(source)) < 0.8, (source + near) % n, self.entity_of_slot[far])
        low, high = np.minimum(source, target), np.maximum(source, target)
        _, first = np.unique(low * n + high, return_index=True)
        first = np.sort(first[(low != high)[first]])[:wanted]
        return np.stack([source[first], target[first]], axis=1)

    def tables(self) -> dict[str, pa.Table]:
        """Every published table."""
        n = self.n
        pairs = self.pairs()
        ends = self.entity_of_slot[pairs]
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        pairs, ends = pairs[order], ends[order]
        degree = np.bincount(ends.ravel(), minlength=n)
        second = self.random.random(len(pairs)) < 0.2
        relation_units = [{int(a), int(b)} if two else {int(a)} for (a, b), two in zip(pairs, second, strict=True)]
        held: list[set[int]] = [{int(self.entity_of_slot[slot])} for slot in range(n)]
        for units, (a, b) in zip(relation_units, ends.tolist(), strict=True):
            for unit in units:
                held[unit].update((a, b))
        units_of_entity: list[list[int]] = [[] for _ in range(n)]
        for unit, entities in enumerate(held):
            for entity in entities:
                units_of_entity[entity].append(unit)
        texts = [
            self.sentences(int(self.random.integers(100, 300)), [self.titles[e] for e in sorted(held[unit])])
            for unit in range(n)
        ]
        published = self._documents(texts)
        unit_ids = published["text_units"]["id"].to_pylist()
        published["entities"] = self._entities(degree, units_of_entity, unit_ids)
        published["relationships"] = self._relationships(ends, degree, relation_units, unit_ids)
        published["covariates"] = self._claims(ends, relation_units, unit_ids)
        published |= self._communities(published["entities"]["id"].to_pylist(), units_of_entity, unit_ids)
        for name in ("entity_aliases", "rejected_inputs"):
            published[name] = next(t for t in tables.PUBLISHED if t.name == name).empty()
        links = text_unit_links(
            pa.table({"text_unit_id": unit_ids, "order": list(range(n))}),
            published["entities"],
            published["relationships"],
            published["covariates"],
        )
        for name in ("entity_ids", "relationship_ids", "covariate_ids"):
            place = published["text_units"].column_names.index(name)
            published["text_units"] = published["text_units"].set_column(place, name, links[name])
        return published | look_up_tables(published)

    def _documents(self, texts: list[str]) -> dict[str, pa.Table]:
        documents: list[dict[str, object]] = []
        units: list[dict[str, object]] = []
        for first in range(0, self.n, UNITS_PER_DOCUMENT):
            own = texts[first : first + UNITS_PER_DOCUMENT]
            place = len(documents)
            path = f"papers/{place:06d}.txt"
            document = ids.document_id(path)
            start = 0
            for position, text in enumerate(own):
                units.append(
                    {
                        "id": ids.text_unit_id(document, text, 0),
                        "human_readable_id": first + position,
                        "text": text,
                        "n_tokens": self.counter.count(text),
                        "document_id": document,
                        **{name: [] for name in ("entity_ids", "relationship_ids", "covariate_ids")},
                        "position": position,
                        "start": start,
                        "end": start + len(text),
                        "status": "ok",
                        "reason": "",
                    }
                )
                start += len(text) + 2
            metadata = {
                "year": 1950 + place % 70,
                "department": DEPARTMENTS[place % len(DEPARTMENTS)],
                "public": place % 3 == 0,
            }
            documents.append(
                {
                    "id": document,
                    "human_readable_id": place,
                    "title": f"Paper {place}",
                    "text": "\n\n".join(own),
                    "text_unit_ids": [unit["id"] for unit in units[first:]],
                    "creation_date": f"{1950 + place % 70}-01-01",
                    "raw_data": json.dumps(metadata),
                    "path": path,
                    "content_hash": ids.digest(*own),
                    "language": "en",
                }
            )
        return {
            "documents": tables.DOCUMENTS.from_rows(documents),
            "text_units": tables.TEXT_UNITS.from_rows(units),
        }

    def _entities(self, degree: np.ndarray[Any, Any], units: list[list[int]], unit_ids: list[str]) -> pa.Table:
        described = [self.sentences(int(self.random.integers(20, 70)), [title]) for title in self.titles]
        kinds = [KINDS[i % len(KINDS)] for i in range(self.n)]
        return tables.ENTITIES.from_columns(
            {
                "id": [ids.entity_id(title) for title in self.titles],
                "human_readable_id": list(range(self.n)),
                "title": self.titles,
                "type": kinds,
                "description": described,
                "text_unit_ids": [[unit_ids[u] for u in own] for own in units],
                "frequency": [len(own) for own in units],
                "degree": degree,
                "types": [[{"type": kind, "count": 1}] for kind in kinds],
                "descriptions": [[text] for text in described],
                "aliases": [[] for _ in range(self.n)],
            }
        )

    def _relationships(
        self, ends: np.ndarray[Any, Any], degree: np.ndarray[Any, Any], units: list[set[int]], unit_ids: list[str]
    ) -> pa.Table:
        named = [(self.titles[a], self.titles[b]) for a, b in ends.tolist()]
        described = [f"{a.title()} and {b.title()}: {self.words(12)}." for a, b in named]
        return tables.RELATIONSHIPS.from_columns(
            {
                "id": [ids.relationship_id(a, b) for a, b in named],
                "human_readable_id": list(range(len(named))),
                "source": [a for a, _ in named],
                "target": [b for _, b in named],
                "description": described,
                "weight": self.random.integers(1, 10, len(named)).astype(float),
                "combined_degree": degree[ends].sum(axis=1),
                "text_unit_ids": [[unit_ids[u] for u in sorted(own)] for own in units],
                "descriptions": [[text] for text in described],
            }
        )

    def _claims(self, ends: np.ndarray[Any, Any], units: list[set[int]], unit_ids: list[str]) -> pa.Table:
        rows = []
        for number, place in enumerate(range(0, len(ends), 50)):
            subject, object_ = (self.titles[end] for end in ends[place])
            unit, said = unit_ids[min(units[place])], self.words(20)
            rows.append(
                {
                    "id": ids.covariate_id(unit, subject, object_, said),
                    "human_readable_id": number,
                    "covariate_type": "claim",
                    "type": "STATEMENT",
                    "description": said,
                    "subject_id": subject,
                    "object_id": object_,
                    "status": "TRUE",
                    "start_date": "NONE",
                    "end_date": "NONE",
                    "source_text": said,
                    "text_unit_id": unit,
                }
            )
        return tables.COVARIATES.from_rows(rows)

    def _communities(self, entity_ids: list[str], units: list[list[int]], unit_ids: list[str]) -> dict[str, pa.Table]:
        communities: list[dict[str, Any]] = []
        reports: list[dict[str, Any]] = []
        first = np.cumsum([0, *self.levels]).tolist()
        slots = np.arange(self.n)
        places = [self.community(level, slots) for level in range(3)]
        for level in range(3):
            for place in range(self.levels[level]):
                number = first[level] + place
                inside = np.flatnonzero(places[level] == place) if level == 0 else _run(places[level], place)
                members = sorted(self.entity_of_slot[inside].tolist())
                parent = first[level - 1] + int(places[level - 1][inside[0]]) if level else -1
                below = np.unique(places[level + 1][inside]).tolist() if level < 2 else []
                row = {
                    "id": ids.community_id(level, [entity_ids[e] for e in members]),
                    "human_readable_id": number,
                    "community": number,
                    "level": level,
                    "parent": parent,
                    "children": [first[level + 1] + b for b in below],
                    "title": f"Community {number}",
                    "entity_ids": [entity_ids[e] for e in members],
                    "relationship_ids": [],
                    "text_unit_ids": sorted({unit_ids[u] for e in members for u in units[e]}),
                    "period": "",
                    "size": len(members),
                }
                communities.append(row)
                reports.append(self._report(row, [self.titles[e] for e in members[:20]]))
        reports.sort(key=lambda r: (-r["level"], r["community"]))
        return {
            "communities": tables.COMMUNITIES.from_rows(communities),
            "community_reports": tables.COMMUNITY_REPORTS.from_rows(reports),
        }

    def _report(self, community: dict[str, Any], names: list[str]) -> dict[str, Any]:
        summary = self.sentences(40, names)
        content = f"# {names[0].title()}\n\n{summary}\n\n## Findings\n\n{self.sentences(250, names)}"
        kept = ("human_readable_id", "community", "level", "parent", "children", "period", "size")
        return {
            "id": ids.report_id(community["id"], "synthetic"),
            **{key: community[key] for key in kept},
            "title": names[0].title(),
            "summary": summary,
            "full_content": content,
            "rank": float(self.random.integers(0, 100)) / 10,
            "rating_explanation": "",
            "findings": [],
            "full_content_json": "{}",
            "status": "ok",
            "reason": "",
            "extractive": False,
            "input_hash": "synthetic",
        }

    def vectors(self, published: dict[str, pa.Table]) -> dict[str, tuple[list[str], np.ndarray[Any, Any]]]:
        """Ids and vectors of each vector table."""
        slots = np.arange(self.n)
        centres = [self.random.standard_normal((size, DIMENSION), np.float32) for size in self.levels]
        at_slot = sum(centres[level][self.community(level, slots)] for level in range(3))

        def around(centre: Any) -> np.ndarray[Any, Any]:
            found = centre + 1.5 * self.random.standard_normal(centre.shape, np.float32)
            unit: np.ndarray[Any, Any] = found / np.linalg.norm(found, axis=1, keepdims=True)
            return unit.astype(np.float32)

        reports = published["community_reports"]
        first = np.cumsum([0, *self.levels])
        places = (
            c - first[lv] for c, lv in zip(reports["community"].to_pylist(), reports["level"].to_pylist(), strict=True)
        )
        of_reports = np.stack([centres[lv][p] for p, lv in zip(places, reports["level"].to_pylist(), strict=True)])
        return {
            tables.TEXT_UNIT_VECTORS: (published["text_units"]["id"].to_pylist(), around(at_slot)),
            tables.ENTITY_VECTORS: (published["entities"]["id"].to_pylist(), around(at_slot[self.slot_of_entity])),
            tables.REPORT_VECTORS: (reports["id"].to_pylist(), around(of_reports)),
        }


def _run(places: np.ndarray[Any, Any], place: int) -> np.ndarray[Any, Any]:
    """Where an ascending array has this value."""
    return np.arange(*np.searchsorted(places, [place, place + 1]))


def _invented(random: np.random.Generator, count: int, syllables: int) -> list[str]:
    """Different words that no language has, the shorter ones first."""
    found: dict[str, None] = {}
    while len(found) < count:
        size = 1 if len(found) < 1_000 else 2 if syllables == 2 or len(found) < count // 2 else syllables
        word = "".join(part[int(random.integers(len(part)))] for _ in range(size) for part in _PARTS)
        found[word] = None
    return list(found)


def publish(base: Path, entities: int, model: str) -> Manifest:
    """Publish a synthetic index.

    Args:
        base: Storage folder.
        entities: Number of entities; relationships, text units and reports follow.
        model: Identity of the embedding model that the vectors are said to come from.
    """
    synthetic = Synthetic(entities)
    published = synthetic.tables()
    vectors = synthetic.vectors(published)
    filesystem = open_filesystem(str(base))
    asked = _questions(synthetic, published["text_units"], vectors[tables.TEXT_UNIT_VECTORS][1], 64)
    (base / "questions.json").write_text(json.dumps([vars(question) for question in asked]), encoding="utf-8")
    described = {name: _write(filesystem, model, name, *rows) for name, rows in vectors.items()}
    rows = {name: table.num_rows for name, table in published.items()}
    data = {t.name: parquet.to_bytes(published[t.name], t) for t in tables.PUBLISHED}
    manifest, _ = SnapshotStore(filesystem).publish(data, rows, described, {"method": "synthetic"})
    return manifest


def _write(
    filesystem: FileSystem, model: str, name: str, row_ids: list[str], vectors: np.ndarray[Any, Any]
) -> VectorTable:
    store = VectorStore(filesystem, model, DIMENSION)
    order = np.argsort(np.array(row_ids))
    flat = pa.array(vectors[order].ravel(), pa.float32())
    store.write(
        name,
        pa.table(
            {
                "id": pc.take(pa.array(row_ids), pa.array(order)),
                "window": pa.array(np.zeros(len(row_ids), np.int32)),
                "vector": pa.FixedSizeListArray.from_arrays(flat, DIMENSION),
                "text_hash": pc.take(pa.array(row_ids), pa.array(order)),
            }
        ),
    )
    return store.describe(name)


def _questions(synthetic: Synthetic, units: pa.Table, vectors: np.ndarray[Any, Any], count: int) -> list[Asked]:
    asked = []
    for unit in synthetic.random.choice(synthetic.n, count, replace=False).tolist():
        text = units["text"][unit].as_py()
        names = [sentence.split(" ")[:2] for sentence in text.split(". ")[:2]]
        rare = sorted({word.strip(".").lower() for word in text.split()}, key=lambda word: (-len(word), word))[:4]
        noise = synthetic.random.standard_normal(DIMENSION).astype(np.float32) / 25
        vector = vectors[unit] + noise
        both = " and ".join(" ".join(name) for name in (names[0], names[-1]))
        question = f"What did {both} decide on {rare[0]} and the {rare[1]} of {rare[2]}?"
        asked.append(Asked(question, (vector / np.linalg.norm(vector)).tolist()))
    return asked


def questions(base: Path) -> list[Asked]:
    """The questions of a published index."""
    return [Asked(**row) for row in json.loads((base / "questions.json").read_text(encoding="utf-8"))]
