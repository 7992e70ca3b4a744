"""The plan: the stages of a run, on the real texts and prompts, with a model that is not asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets.assets.documents import cut_documents, read_documents
from graphrag_assets.assets.embeddings import TOGETHER, VECTOR_TABLES, entity_texts, report_texts
from graphrag_assets.assets.extracted_rows import (
    OUTPUTS,
    UnitExtraction,
    earlier_extractions,
    input_hashes,
    of_unit,
    to_tables,
)
from graphrag_assets.assets.extraction import extract_unit, stage_prompts
from graphrag_assets.assets.fingerprints import Fingerprints
from graphrag_assets.assets.refreshing import made_again, refreshing
from graphrag_assets.assets.resources import Index
from graphrag_assets.automation.plan import Work, last_inventory, missing_work
from graphrag_assets.ids import digest
from graphrag_assets.input.folder import require_input
from graphrag_assets.input.inventory import Inventory, compare, count_unusable, take_inventory, versions
from graphrag_assets.llm.batching.records import Records, records_path
from graphrag_assets.llm.caching.local import AnswerCache
from graphrag_assets.llm.embedding.models import DEFAULT_EMBEDDED
from graphrag_assets.llm.embedding.vectors import PROBE, Vectors
from graphrag_assets.llm.gateway import packing
from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.llm.tokens import tokenizer
from graphrag_assets.plan.asking import GLEANINGS, Supposing
from graphrag_assets.plan.corpus import Texts, communities_of, graph_tables, reports_of
from graphrag_assets.plan.duration import seconds_of
from graphrag_assets.plan.fast import Names, extrapolate, fast_texts
from graphrag_assets.plan.figures import Plan, StagePlan
from graphrag_assets.plan.history import history_of
from graphrag_assets.progress import supposed
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.parquet import read_table
from graphrag_assets.storage.snapshots import Manifest, is_kept
from graphrag_assets.storage.tables import BATCH_DOCUMENTS, BATCH_TEXT_UNITS
from graphrag_assets.storage.vectors import VectorStore, read_marker

Count = Callable[[str], int]


def plan(
    workspace: Workspace,
    *,
    recluster: bool = False,
    refresh: Sequence[str] = (),
    retry_failed: bool = False,
    count: Count | None = None,
) -> Plan:
    """What a reconcile would do and cost; nothing is sent, nothing is written.

    Args:
        workspace: Root and settings.
        recluster: As for ``index --recluster``.
        refresh: As for ``index --refresh``.
        retry_failed: As for ``index --retry-failed``.
        count: Counts tokens; None: as the tokenizer of the settings does.

    Raises:
        InputError: The input does not exist.
    """
    index = Index(root=str(workspace.root))
    require_input(index.input)
    before = last_inventory(workspace, index.build)
    found = take_inventory(index.input, workspace.settings, before)
    return plan_for(index, found, recluster=recluster, refresh=refresh, retry_failed=retry_failed, count=count)


def plan_for(
    index: Index,
    inventory: Inventory,
    *,
    recluster: bool = False,
    refresh: Sequence[str] = (),
    retry_failed: bool = False,
    count: Count | None = None,
) -> Plan:
    """The plan for an input as it was found; see :func:`plan`."""
    published = index.snapshots.current()
    prints = Fingerprints(index.workspace, inventory.documents)
    fingerprint = str(published.info.get("fingerprint")) if published else None
    anew = dict.fromkeys(refresh, time.time()) | refreshing(index.storage)
    again = frozenset({"communities"} if recluster else ()) | made_again(anew)
    work = missing_work(index.workspace, index.storage, prints, fingerprint, again, retry_failed=retry_failed)
    with supposed():
        return _Planner(index, inventory, prints, published, work, recluster, anew, count).plan()


class _Planner:
    """One plan in the making."""

    def __init__(
        self,
        index: Index,
        inventory: Inventory,
        prints: Fingerprints,
        published: Manifest | None,
        work: Work,
        recluster: bool,
        anew: Mapping[str, float],
        count: Count | None,
    ) -> None:
        self.index = index
        self.workspace = index.workspace
        self.inventory = inventory
        self.prints = prints
        self.published = published
        self.work = work
        self.recluster = recluster
        self.anew = anew
        self.count = count or tokenizer(self.workspace.settings.chunking.encoding_model).count
        self.notes: list[str] = []

    def plan(self) -> Plan:
        """The whole plan."""
        settings = self.workspace.settings
        method = settings.effective_method
        stages: dict[str, StagePlan] = {}
        found = {"all": 0, "extracted": 0}
        if not self.work.nothing:
            path = self.workspace.path(settings.cache.path)
            with closing(AnswerCache(path if settings.cache.enabled and path.is_file() else None)) as cache:
                built = [
                    key for key in self.prints.batches if key in set(self.index.build.partitions("extraction_status"))
                ]
                gleanings = settings.extract_graph.max_gleanings > 0
                history = history_of(self.index.storage, self.published, self.index.build, built, gleanings)
                asking = Supposing(self.workspace, cache, history, self.count, self.anew)
                found = asyncio.run(self._run(asking, method))
                stages = asking.stages
        if self.anew:
            self.notes.append(
                "stages after one that is asked anew are planned as if its answers stayed the same: what changes is asked for "
                "as well"
            )
        if method == "fast":
            self.notes.append("the fast method asks no language model")
        if self.workspace.settings.embedding_model(self.workspace.settings.embed_text.embedding_model_id) is None:
            self.notes.append(
                f"vectors are made on this machine by {self._model('entity_embeddings')}: no calls, no price"
            )
        if any(not stage.facts.input_usd and stage.usd is None for stage in stages.values()):
            self.notes.append("the price of a model is not known: set its prices in the entry to have it counted")
        listed = self._in_order(stages)
        self._tell_of_batches(listed)
        return Plan(
            method,
            self._documents(),
            found,
            len(self.work.batches),
            listed,
            [*self.work.stages, *self.work.corpus_stages],
            seconds_of(listed, self.workspace),
            self.notes,
            self.work.nothing,
        )

    def _tell_of_batches(self, stages: Sequence[StagePlan]) -> None:
        windows = {stage.batch_api.completion_window for stage in stages if stage.by_batch and stage.batch_api}
        if windows:
            self.notes.append(
                "questions travel in batches of the provider, one after the other for each turn of a conversation, each "
                f"stage and each level of reports; each is answered within {' or '.join(sorted(windows))}, when is not known"
            )
        place = self.workspace.uri(self.workspace.settings.storage.base)
        flights = [f for f in Records(records_path(self.workspace)).flights(place) if f.state != "collected"]
        if flights:
            self.notes.append(
                f"{sum(flight.requests for flight in flights)} of the questions are under way already, in "
                f"{len(flights)} batches of the provider; they are counted here, and not paid for again"
            )

    def _documents(self) -> dict[str, int]:
        """Documents by what happened to them since the published snapshot, as the index command tells it."""
        before: dict[str, str] = {}
        if self.published and not is_kept(self.published, replace=False):
            file = self.published.tables["documents"].path
            before = versions(read_table(self.index.storage, file, ["id", "content_hash"]), "id")
        rejected = count_unusable(self.inventory.rejected["reason"].to_pylist())
        return asdict(compare(before, versions(self.inventory.documents), rejected))

    def _in_order(self, stages: Mapping[str, StagePlan]) -> list[StagePlan]:
        """Every stage that the settings have, in the order of the run; those without a question with zeros."""
        s = self.workspace.settings
        names: list[str] = []
        if s.effective_method == "standard":
            names = ["extract_graph", *(["extract_graph" + GLEANINGS] if s.extract_graph.max_gleanings else [])]
            if s.extract_claims.enabled:
                names += ["extract_claims", *(["extract_claims" + GLEANINGS] if s.extract_claims.max_gleanings else [])]
            names += ["resolve_entities"] if s.entity_resolution.llm else []
            names += ["summarize_descriptions", "community_reports"]
        names += list(VECTOR_TABLES)
        return [stages.get(name) or StagePlan(name, self._model(name), _NO_FACTS) for name in names]

    def _model(self, stage: str) -> str:
        s = self.workspace.settings
        if stage in VECTOR_TABLES:
            model = s.embedding_model(s.embed_text.embedding_model_id)
            return (
                f"{model.model_provider}/{model.model}"
                if model
                else f"embedded/{s.embedded_models.embedding or DEFAULT_EMBEDDED}"
            )
        models = {
            "extract_claims": s.extract_claims.completion_model_id,
            "resolve_entities": s.entity_resolution.completion_model_id,
            "summarize_descriptions": s.summarize_descriptions.completion_model_id,
            "community_reports": s.community_reports.completion_model_id,
        }
        used = s.completion_model(models.get(stage.removesuffix(GLEANINGS), s.extract_graph.completion_model_id))
        return f"{used.model_provider}/{used.model}"

    async def _run(self, asking: Supposing, method: str) -> dict[str, int]:
        """Walk through the stages; returns how many text units there are, and would be extracted."""
        units, changed = self._text_units()
        total = sum(table.num_rows for table in units.values())
        embeds = (
            self.workspace.settings.embedding_model(self.workspace.settings.embed_text.embedding_model_id) is not None
        )
        if embeds:
            texts = {key: (t["id"].to_pylist(), t["text"].to_pylist()) for key, t in units.items()}
            self._embed(asking, "text_unit_embeddings", texts, exact=True)
        if method == "fast":
            if embeds and self.work.corpus_stages:
                await self._embed_fast(asking, units, changed)
            return {"all": total, "extracted": sum(units[key].num_rows for key in self._lacking(units))}
        extracted, asked = await self._extracted(asking, units)
        if not self.work.corpus_stages:
            return {"all": total, "extracted": asked}
        corpus = self._corpus(units, extracted, changed)
        sure = not asking.supposed
        tables = await graph_tables(corpus, self.index, asking)
        _mark(asking, ("resolve_entities", "summarize_descriptions"), sure)
        sure = not asking.supposed
        if embeds:
            self._embed(asking, "entity_embeddings", {"": entity_texts(tables["entities"])}, exact=sure)
        tables["communities"] = communities_of(tables, corpus, self.index, recluster=self.recluster)
        reports = await reports_of(tables, corpus, self.index, asking)
        written = "community_reports" in asking.stages and asking.stages["community_reports"].calls > 0
        _mark(asking, ("community_reports",), sure)
        if embeds:
            sure = sure and not written
            self._embed(asking, "community_report_embeddings", {"": report_texts(reports)}, exact=sure)
        return {"all": total, "extracted": asked}

    async def _embed_fast(self, asking: Supposing, units: Mapping[str, pa.Table], read: Mapping[str, pa.Table]) -> None:
        """Count the vectors of entities and reports of the fast method, whose stages need no model."""
        languages = dict[str, str]()
        for key in units:
            source = read[key] if key in read else self.index.build.read("documents", key, ["id", "language"])
            languages |= dict(zip(source["id"].to_pylist(), source["language"].to_pylist(), strict=True))
        names = Names(self.index, units, languages)
        whole = len(names.part) == len(names.new)
        halves: dict[str, StagePlan] = {}
        for part in (names.part,) if whole else (names.part[::2], names.part):
            some, extracted = names.extracted(part)
            texts = await fast_texts(self._corpus(some, extracted, read), self.index, asking, recluster=self.recluster)
            for asset, of in texts.items():
                self._embed(asking, asset, {"": of}, exact=True)
                if part is names.part and not whole:
                    extrapolate(asking.stages[asset], halves[asset], len(names.new) / len(part))
                halves[asset] = replace(asking.stages[asset])
        if not whole:
            self.notes.append(
                f"vectors of entities and reports are estimated from {len(names.part)} of {len(names.new)} new text units"
            )

    def _lacking(self, batches: Mapping[str, object]) -> list[str]:
        """Batches whose extraction is missing or no longer true."""
        area = self.index.build
        return [k for k in batches if area.fingerprint("extraction_status", k) != self.prints.batch("extraction", k)]

    def _text_units(self) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        """Text units by batch, and the documents that had to be read: those of changed files only."""
        area, units, read = self.index.build, {}, {}
        for key in self.prints.batches:
            if area.fingerprint("text_units", key) == self.prints.batch("text_units", key):
                units[key] = area.read("text_units", key)
                continue
            read[key] = self._read(key)
            units[key] = cut_documents(read[key], self.workspace)
        return units, read

    def _read(self, key: str) -> pa.Table:
        """The documents of a batch: unchanged ones out of the build area, the others out of the input."""
        wanted = self.inventory.documents.filter(pc.equal(self.inventory.documents["batch"], key))
        kept = BATCH_DOCUMENTS.empty()
        if key in set(self.index.build.partitions("documents")):
            known = self.index.build.read("documents", key)
            there = set(zip(wanted["document_id"].to_pylist(), wanted["content_hash"].to_pylist(), strict=True))
            pairs = zip(known["id"].to_pylist(), known["content_hash"].to_pylist(), strict=True)
            kept = known.filter(pa.array([pair in there for pair in pairs], pa.bool_()))
        have = set(kept["id"].to_pylist())
        lacking = wanted.filter(pa.array([i not in have for i in wanted["document_id"].to_pylist()], pa.bool_()))
        if lacking.num_rows:
            fresh, _ = read_documents(self.index.input, self.workspace, lacking, key)
            kept = pa.concat_tables([kept.cast(BATCH_DOCUMENTS.schema), fresh])
        return kept.sort_by("path")

    async def _extracted(self, asking: Supposing, units: Mapping[str, pa.Table]) -> tuple[dict[str, pa.Table], int]:
        """The extracted tables of all batches, and how many text units lack an extraction."""
        anew = {"extract_graph", "extract_claims"} & self.anew.keys()
        lacking = set(units if anew else self._lacking(units))
        prompts = stage_prompts(self.workspace)
        parts: dict[str, list[pa.Table]] = {name: [] for name in OUTPUTS}
        before = asking.stages.get("extract_graph")
        none = {} if units else to_tables([])
        hashes = {key: input_hashes(units[key], self.workspace) for key in units if key in lacking}
        known = earlier_extractions(
            self.index.build, {made_from for of in hashes.values() for made_from in of.values()}
        )
        for key, table in units.items():
            if key not in lacking:
                for name in OUTPUTS:
                    parts[name].append(self.index.build.read(name, key))
                continue
            rows = table.select(["id", "text"]).to_pylist()
            asking.texts.units = {row["id"]: row["text"] for row in rows}
            made: list[UnitExtraction] = []
            for row in rows:
                made_from = hashes[key][row["id"]]
                kept = known.get(made_from)
                earlier = None if anew else kept
                extraction = earlier or await extract_unit(row, key, asking, self.workspace, prompts, kept, anew)
                made.append(of_unit(extraction, row["id"], made_from))
            for name, found in to_tables(made).items():
                parts[name].append(found)
        booked = asking.stages.get("extract_graph")
        asked = booked.calls if booked is not None and booked is not before else 0
        # without a text unit there is no part: an empty table has the columns all the same
        return {name: pa.concat_tables(tables or [none[name]]) for name, tables in parts.items()}, asked

    def _corpus(
        self, units: Mapping[str, pa.Table], extracted: dict[str, pa.Table], read: Mapping[str, pa.Table]
    ) -> Texts:
        documents = self.inventory.documents
        path = dict(zip(documents["document_id"].to_pylist(), documents["path"].to_pylist(), strict=True))
        rows = pa.concat_tables([t.select(["id", "document_id", "position"]) for t in units.values()] or [_NO_UNITS])
        ordered = sorted(rows.to_pylist(), key=lambda row: (path[row["document_id"]], row["position"]))
        order = pa.table(
            {
                "text_unit_id": pa.array([row["id"] for row in ordered], pa.string()),
                "document_id": pa.array([row["document_id"] for row in ordered], pa.string()),
                "order": pa.array(range(len(ordered)), pa.int64()),
            }
        )
        dates: dict[str, str] = {}
        for key in units:
            source = read[key] if key in read else self.index.build.read("documents", key, ["id", "creation_date"])
            dates |= dict(zip(source["id"].to_pylist(), source["creation_date"].to_pylist(), strict=True))
        of_units = {row["id"]: dates[row["document_id"]] for row in ordered if dates.get(row["document_id"])}
        return Texts(units, extracted, order, of_units)

    def _embed(
        self, asking: Supposing, asset: str, texts: Mapping[str, tuple[Sequence[str], Sequence[str]]], *, exact: bool
    ) -> None:
        """Count the calls for vectors that neither the vector table nor the cache holds."""
        settings = self.workspace.settings
        model_id = settings.embed_text.embedding_model_id
        model = settings.embedding_model(model_id)
        assert model is not None
        calls = asking.connect(f"embedding_models.{model_id}", model, completes=False)
        identity = calls.vector_identity
        known: set[str] = set()
        for key in texts:
            marker = read_marker(self.index.storage, asset, key or None)
            if marker is not None and marker.model == identity:
                store = VectorStore(self.index.storage, marker.model, marker.dimension)
                known.update(store.rows(VECTOR_TABLES[asset], key, vectors=False)["text_hash"].to_pylist())
        booked = asking.stage(asset, calls)
        packed = packing(calls, self.workspace)
        vectors = Vectors(calls, asking.cache, packed)
        alone = Vectors(calls, asking.cache, replace(packed, batch_size=1))  # each text is a question of a batch
        # In the order and the portions of the run, which decide which texts share a call.
        rows = [text for ids, some in texts.values() for _, text in sorted(zip(ids, some, strict=True))]
        cached = 0
        sizes: list[int] = []
        lines: list[int] = []
        for start in range(0, len(rows), TOGETHER):
            some = dict.fromkeys(rows[start : start + TOGETHER])
            missing = [text for text in some if digest(identity, text) not in known]
            stored, asked = vectors.pending(missing, self.count)
            lines += alone.pending(missing, self.count)[1] if booked.batch_api is not None else []
            known.update(digest(identity, text) for text in missing)
            cached, sizes = cached + stored, [*sizes, *asked]
        if booked.batch_api is not None and len(lines) >= booked.batch_api.min_requests:
            sizes = lines
        if sizes and not cached and vectors.dimension is None:  # the size of a vector shows when two answers agree
            sizes[0] += self.count(PROBE)
        booked.calls, booked.cached = len(sizes), cached
        booked.prompt_tokens, booked.exact = sum(sizes), exact
        booked.learnt = bool(asking.history.answers)
        booked.seconds = sum(asking.history.latency((asset, booked.model, False), 0) for _ in sizes)


_NO_FACTS = ModelFacts()
_NO_UNITS = BATCH_TEXT_UNITS.empty().select(["id", "document_id", "position"])


def _mark(asking: Supposing, stages: Sequence[str], sure: bool) -> None:
    """A stage is exact only where all that it works on is known."""
    for name in stages:
        if name in asking.stages:
            asking.stages[name].exact &= sure
