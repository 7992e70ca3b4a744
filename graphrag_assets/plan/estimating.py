"""What a run will take, from facts that cost nothing: the lengths of changed documents and what earlier calls took.

A plan walks through the stages of a run and takes a quarter of its time; this looks at a few columns of the published
snapshot and at its calls, and is done in a fraction of a second, so that every run can be compared with what was expected
of it. What it says:

* text units that are new: the lengths of the documents, by the tokens a letter has in this corpus;
* questions on them: their number; tokens of questions and answers: as past ones had on average;
* summaries and reports that change: an entity, relationship or community that s of N text units speak of is touched by k
  changed ones with probability 1 - exp(-k s / N), were they any text units of the corpus; new ones come as fast as text
  units do.

It does not look into the cache: an answer that is there counts as a call, and where an earlier run was interrupted, the
lower bound is 0. What no past call tells is not known, rather than guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow.compute as pc

from graphrag_assets.assets.extracted_rows import input_hashes
from graphrag_assets.assets.fingerprints import code_version
from graphrag_assets.assets.resources import Index
from graphrag_assets.automation.plan import Work
from graphrag_assets.input.inventory import Inventory
from graphrag_assets.llm.ledger import has_calls
from graphrag_assets.llm.prices import ModelFacts, facts
from graphrag_assets.plan.asking import GLEANINGS
from graphrag_assets.settings import ModelSettings, Workspace
from graphrag_assets.storage.call_tables import CALLS
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import Manifest, is_kept

#: Shares by which figures may be off either way: those that follow from lengths, and those that follow from chances.
BY_LENGTH, BY_CHANCE = 0.25, 0.6

#: Letters of a token, where the corpus tells nothing yet.
_LETTERS = 4.0

#: Stage of the calls of tune-prompts.
TUNING = "tune_prompts"

Bounds = tuple[float, float, float]


@dataclass(frozen=True)
class Past:
    """What the calls of one stage took on average.

    Args:
        calls: How many there are.
        rows: Rows that they served.
        prompt: Tokens sent, of one call.
        completion: Tokens of the answer.
        seconds: Time of one call.
    """

    calls: int
    rows: int
    prompt: float
    completion: float
    seconds: float


@dataclass(frozen=True)
class Corpus:
    """The published snapshot in numbers.

    Args:
        units: Text units.
        tokens: Tokens of a text unit on average.
        per_letter: Tokens that a letter adds to a text.
        of_documents: Text units by document.
        versions: Content hash by document.
        entities: How many text units name each entity.
        relationships: The same of relationships.
        communities: The same of communities.
    """

    units: int = 0
    tokens: float = 0.0
    per_letter: float = 1 / _LETTERS
    of_documents: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    entities: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(0))
    relationships: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(0))
    communities: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(0))

    def touched(self, spoken_of: np.ndarray[Any, Any], changed: float) -> float:
        """How many of some rows changed text units are expected to touch."""
        return float((1 - np.exp(-changed * spoken_of / self.units)).sum()) if self.units else 0.0


def estimate(index: Index, inventory: Inventory, work: Work, anew: Mapping[str, float]) -> dict[str, Any]:
    """What the models will be asked in a run.

    Args:
        index: The workspace.
        inventory: The input as it was found.
        work: What is missing.
        anew: Stages that are asked anew.

    Returns:
        ``stages`` and ``seconds_estimated`` as a plan has them; figures that are not known are None.
    """
    published = index.snapshots.current()
    if published is not None and is_kept(published, replace=False):
        published = None
    corpus = _corpus(index, inventory, published)
    past = _past(index, published)
    made = _Estimate(index.workspace, corpus, past, _interrupted(index, published))
    stages = made.stages(index, inventory, work, anew)
    return {"stages": stages, "seconds_estimated": made.seconds(stages)}


@dataclass
class _Estimate:
    workspace: Workspace
    corpus: Corpus
    past: Mapping[str, Past]
    interrupted: bool

    def stages(self, index: Index, inventory: Inventory, work: Work, anew: Mapping[str, float]) -> list[dict[str, Any]]:
        settings = self.workspace.settings
        added, edited, removed = self._changed(inventory)
        every = sum(map(self._units, inventory.documents["characters"].to_pylist()))
        whole = _is_new(index, "extraction_status", "extraction") or not self.corpus.units
        new: Bounds = (added[0] + edited[0], added[1] + edited[1], added[2] + edited[2])
        all_units: Bounds = (every * (1 - BY_LENGTH), every, every * (1 + BY_LENGTH))
        touching = (every if whole else new[1]) + removed
        growth = min(1.0, added[1] / self.corpus.units) if self.corpus.units else 0.0
        found: list[dict[str, Any]] = []
        if settings.effective_method == "standard":
            for stage, gleanings, on in (
                ("extract_graph", settings.extract_graph.max_gleanings, True),
                ("extract_claims", settings.extract_claims.max_gleanings, settings.extract_claims.enabled),
            ):
                if on:
                    asked = all_units if whole or stage in anew else new
                    found.append(self._asked(stage, asked))
                    found += [self._in_proportion(stage, asked)] if gleanings else []
            if "graph" in work.corpus_stages:
                fresh = whole or "summarize_descriptions" in anew or _is_new(index, "entities", "graph")
                several = [n[n > 1] for n in (self.corpus.entities, self.corpus.relationships)]
                if settings.entity_resolution.llm:
                    known = self.past.get("resolve_entities")
                    share = (
                        1.0 if whole or "resolve_entities" in anew else min(1.0, touching / max(1, self.corpus.units))
                    )
                    found.append(self._by_chance("resolve_entities", known.calls * share if known else None))
                total = sum(map(len, several))
                found.append(
                    self._by_chance("summarize_descriptions", self._of(several, total, fresh, touching, growth))
                )
            if "community_reports" in work.corpus_stages:
                fresh = whole or "community_reports" in anew or "graph" not in work.corpus_stages
                total = len(self.corpus.communities)
                written = self._of([self.corpus.communities], total, fresh, touching, growth)
                found.append(self._by_chance("community_reports", written))
        if settings.embedding_model(settings.embed_text.embedding_model_id) is not None:
            found += self._vectors(new if self.corpus.units else all_units, touching, growth, work)
        return [stage for stage in found if stage["calls"] != 0]

    def seconds(self, stages: Iterable[Mapping[str, Any]]) -> float | None:
        """Time that the calls take at the slots of the settings; None where it is not known of all stages."""
        total = 0.0
        for stage in stages:
            known = self.past.get(stage["stage"])
            if known is None or stage["calls"] is None:
                return None
            total += max(known.seconds, stage["calls"] * known.seconds / self.workspace.settings.concurrent_requests)
        return round(total, 1)

    def _changed(self, inventory: Inventory) -> tuple[Bounds, Bounds, float]:
        """New text units of added and of edited documents, and text units of removed ones."""
        rows = inventory.documents.select(["document_id", "content_hash", "characters"]).to_pylist()
        before = self.corpus.versions
        added = [self._units(row["characters"]) for row in rows if row["document_id"] not in before]
        edited = [
            self._units(row["characters"])
            for row in rows
            if before.get(row["document_id"], row["content_hash"]) != row["content_hash"]
        ]
        gone = before.keys() - {row["document_id"] for row in rows}
        # An edit may change one text unit, or all of those after it.
        of_edited = (len(edited), sum((1 + units) / 2 for units in edited), sum(edited) * (1 + BY_LENGTH))
        total = sum(added)
        of_added = (total * (1 - BY_LENGTH), total, total * (1 + BY_LENGTH))
        return of_added, of_edited, sum(self.corpus.of_documents.get(document, 0) for document in gone)

    def _units(self, characters: int) -> int:
        chunking = self.workspace.settings.chunking
        overlap = chunking.overlap if chunking.type != "stable" else 0
        tokens = characters * self.corpus.per_letter
        return max(1, math.ceil((tokens - overlap) / (chunking.size - overlap))) if characters else 0

    def _of(
        self, rows: list[np.ndarray[Any, Any]], total: int, fresh: bool, changed: float, growth: float
    ) -> float | None:
        """How many rows are described anew; None where nothing was ever published."""
        if not self.corpus.units:
            return None
        return total if fresh else min(total, sum(self.corpus.touched(n, changed) for n in rows)) + growth * total

    def _vectors(self, new: Bounds, changed: float, growth: float, work: Work) -> list[dict[str, Any]]:
        several = self.corpus.entities[self.corpus.entities > 1]
        total = len(self.corpus.entities)
        known = bool(self.corpus.units)
        described = self.corpus.touched(several, changed) + growth * total if known else None
        written = self.corpus.touched(self.corpus.communities, changed) if known else None
        if written is not None:
            written += growth * len(self.corpus.communities)
        rows: dict[str, tuple[Bounds | None, bool]] = {
            "text_unit_embeddings": (new, "text_unit_embeddings" in work.stages),
            "entity_embeddings": (_around(described, BY_CHANCE), "entity_embeddings" in work.corpus_stages),
            "community_report_embeddings": (
                _around(written, BY_CHANCE),
                "community_report_embeddings" in work.corpus_stages,
            ),
        }
        found = []
        for stage, (texts, wanted) in rows.items():
            past = self.past.get(stage)
            if not wanted:
                continue
            if past is None or texts is None:
                found.append(self._row(stage, None, None))
                continue
            together = max(1.0, past.rows / past.calls)
            tokens = past.prompt * past.calls / max(1, past.rows)
            low, middle, high = (math.ceil(count / together) for count in texts)
            most = max(1, math.ceil(self.workspace.settings.embed_text.batch_size))
            low, high = min(low, math.ceil(texts[0] / most)), math.ceil(texts[2] / min(together, most))
            per_call = tokens * texts[1] / middle if middle else 0.0
            found.append(self._row(stage, (low, middle, high), Past(past.calls, past.rows, per_call, 0, past.seconds)))
        return found

    def _asked(self, stage: str, units: Bounds) -> dict[str, Any]:
        """Questions on text units; of the first ones there are, only the number and the length of the prompts is known."""
        return self._row(stage, units, self.past.get(stage))

    def _in_proportion(self, stage: str, units: Bounds) -> dict[str, Any]:
        """Later turns, as many for each first one as there were."""
        first, later = self.past.get(stage), self.past.get(stage + GLEANINGS)
        if first is None or later is None:
            return self._row(stage + GLEANINGS, None, None)
        share = later.calls / first.calls
        return self._row(stage + GLEANINGS, (units[0] * share, units[1] * share, units[2] * share), later)

    def _by_chance(self, stage: str, calls: float | None) -> dict[str, Any]:
        return self._row(stage, _around(calls, BY_CHANCE), self.past.get(stage))

    def _row(self, stage: str, calls: Bounds | None, past: Past | None) -> dict[str, Any]:
        """The figures of a stage, as a plan has them."""
        figures: dict[str, Any] = dict.fromkeys(("calls", "prompt_tokens", "completion_tokens", "usd"))
        bounds: dict[str, Any] = dict.fromkeys(figures)
        if calls is not None:
            low = 0.0 if self.interrupted else math.floor(calls[0])
            asked = (low, round(calls[1]), math.ceil(calls[2]))
            figures["calls"], bounds["calls"] = int(asked[1]), [int(asked[0]), int(asked[2])]
            if past is not None:
                of_model = self._facts(stage)
                for name, of_call in (("prompt_tokens", past.prompt), ("completion_tokens", past.completion)):
                    figures[name] = round(asked[1] * of_call)
                    edge = BY_LENGTH if of_call else 0.0
                    bounds[name] = [
                        math.floor(asked[0] * of_call * (1 - edge)),
                        math.ceil(asked[2] * of_call * (1 + edge)),
                    ]
                prompt, answer = (
                    [bounds[name][0], figures[name], bounds[name][1]] for name in ("prompt_tokens", "completion_tokens")
                )
                prices = [_price(of_model, p, a) for p, a in zip(prompt, answer, strict=True)]
                figures["usd"], bounds["usd"] = prices[1], [prices[0], prices[2]]
        exact = dict.fromkeys(("calls", "prompt_tokens", "completion_tokens"), False)
        return {"stage": stage, "cached": 0, **figures, "exact": exact, "range": bounds}

    def _facts(self, stage: str) -> ModelFacts:
        s = self.workspace.settings
        if stage.endswith("embeddings"):
            model: ModelSettings | None = s.embedding_model(s.embed_text.embedding_model_id)
        else:
            model_ids = {
                "extract_claims": s.extract_claims.completion_model_id,
                "resolve_entities": s.entity_resolution.completion_model_id,
                "summarize_descriptions": s.summarize_descriptions.completion_model_id,
                "community_reports": s.community_reports.completion_model_id,
            }
            model = s.completion_model(
                model_ids.get(stage.removesuffix(GLEANINGS), s.extract_graph.completion_model_id)
            )
        return ModelFacts() if model is None else facts(model)


def _around(middle: float | None, off: float) -> Bounds | None:
    return None if middle is None else (middle * (1 - off), middle, middle * (1 + off) + 1)


def _price(of_model: ModelFacts, prompt: float, answer: float) -> float | None:
    if of_model.input_usd is None or of_model.output_usd is None:
        return None
    return round(prompt * of_model.input_usd + answer * of_model.output_usd, 8)


def _corpus(index: Index, inventory: Inventory, published: Manifest | None) -> Corpus:
    if published is None:
        return Corpus()

    def columns(name: str, *wanted: str) -> Any:
        return read_table(index.storage, published.tables[name].path, list(wanted))

    units = columns("text_units", "document_id", "n_tokens")
    if not units.num_rows:
        return Corpus()
    counted = units["document_id"].value_counts()
    of_documents = {row["values"].as_py(): row["counts"].as_py() for row in counted}
    documents = columns("documents", "id", "content_hash")
    versions = dict(zip(documents["id"].to_pylist(), documents["content_hash"].to_pylist(), strict=True))
    tokens = pc.sum(units["n_tokens"]).as_py()
    here = inventory.documents.select(["document_id", "content_hash", "characters"]).to_pylist()
    same = [row for row in here if versions.get(row["document_id"]) == row["content_hash"]]
    letters = sum(row["characters"] for row in same)
    per_letter = 1 / _LETTERS
    if letters:
        chunking = index.workspace.settings.chunking
        overlap = chunking.overlap if chunking.type != "stable" else 0
        of_same = sum(of_documents.get(row["document_id"], 0) for row in same)
        repeated = overlap * max(0, of_same - len(same))
        per_letter = max(tokens * of_same / units.num_rows - repeated, 1.0) / letters
    return Corpus(
        units.num_rows,
        tokens / units.num_rows,
        per_letter,
        of_documents,
        versions,
        columns("entities", "frequency")["frequency"].to_numpy(),
        _lengths(columns("relationships", "text_unit_ids")),
        _lengths(columns("communities", "text_unit_ids")),
    )


def _lengths(table: Any) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = pc.list_value_length(table["text_unit_ids"]).to_numpy()
    return found


def _past(index: Index, published: Manifest | None) -> dict[str, Past]:
    """Averages of the calls that the snapshot was made with, by stage; those of later turns apart."""
    if published is None or CALLS.name not in published.records:
        return {}
    names = ["stage", "turn", "rows", "prompt_tokens", "completion_tokens", "seconds", "attempts", "status"]
    groups: dict[str, list[dict[str, Any]]] = {}
    for call in read_table(index.storage, published.records[CALLS.name].path, names).to_pylist():
        if call["status"] == "ok" and call["attempts"] and call["prompt_tokens"] is not None:
            later = call["turn"] > 1 and call["stage"].startswith("extract_")
            groups.setdefault(call["stage"] + (GLEANINGS if later else ""), []).append(call)
    return {
        stage: Past(
            len(calls),
            sum(call["rows"] for call in calls),
            _mean([call["prompt_tokens"] / call["attempts"] for call in calls]),
            _mean([(call["completion_tokens"] or 0) / call["attempts"] for call in calls]),
            _mean([(call["seconds"] or 0.0) / call["attempts"] for call in calls]),
        )
        for stage, calls in groups.items()
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _interrupted(index: Index, published: Manifest | None) -> bool:
    """Whether there are calls of runs that published nothing: their answers are in the cache. Tuning of prompts is none."""
    settings = index.workspace.settings
    path, place = index.workspace.path(settings.cache.path), index.workspace.uri(settings.storage.base)
    # Times of publication are to the second.
    last = datetime.fromisoformat(published.created).timestamp() + 1 if published else 0.0
    return has_calls(path, place, last, besides=TUNING)


def _is_new(index: Index, asset: str, stage: str) -> bool:
    """Whether a stage would make its rows otherwise than those that there are: settings, prompt, model or code changed."""
    version = code_version(index.workspace, stage)
    try:
        if asset == "entities":
            return index.build.facts(asset).made_with != version
        key = next(iter(index.build.partitions(asset)))
        made = index.build.read(asset, key, ["text_unit_id", "input_hash"]).to_pylist()
        hashes = input_hashes(index.build.read("text_units", key, ["id", "text", "document_id"]), index.workspace)
        known = [row for row in made if row["input_hash"] and row["text_unit_id"] in hashes]
        return not any(hashes[row["text_unit_id"]] == row["input_hash"] for row in known)
    except (FileNotFoundError, KeyError, StopIteration):
        return True
