"""What the fast method would have embedded: it asks no model, so that its own stages tell what entities and reports there will be.

Their figures are exact where all new texts are analysed. Of more text than :data:`ANALYSED` a part is, and how the
figures grow from half of that part to the whole of it tells what they come to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets.assets.communities import write_extractively
from graphrag_assets.assets.corpus import canonical_titles
from graphrag_assets.assets.embeddings import Texts as Embedded
from graphrag_assets.assets.embeddings import entity_texts, report_texts
from graphrag_assets.assets.extracted_rows import (
    OUTPUTS,
    UnitExtraction,
    earlier_extractions,
    input_hashes,
    of_unit,
    to_tables,
)
from graphrag_assets.assets.extraction import extract_with_nlp
from graphrag_assets.assets.graph import graph_of_names, in_order, resolve
from graphrag_assets.assets.resources import Index
from graphrag_assets.indexing.links import link_covariates
from graphrag_assets.plan.asking import Supposing
from graphrag_assets.plan.corpus import Texts, communities_of
from graphrag_assets.plan.figures import StagePlan
from graphrag_assets.storage.tables import COVARIATES

#: Characters of new text that a plan analyses at most: about a minute of one core.
ANALYSED = 1_500_000


@dataclass
class Names:
    """What the texts name, as far as it is known.

    Args:
        index: The workspace.
        units: Rows of batch_text_units by batch.
        languages: Language by document.
    """

    index: Index
    units: Mapping[str, pa.Table]
    languages: Mapping[str, str]

    def __post_init__(self) -> None:
        """Look up what is known from before."""
        workspace = self.index.workspace
        self._hashes = {key: input_hashes(table, workspace, self.languages) for key, table in self.units.items()}
        self._known = earlier_extractions(self.index.build, {h for of in self._hashes.values() for h in of.values()})
        new = [unit for of in self._hashes.values() for unit, made_from in of.items() if made_from not in self._known]
        lengths = {
            unit: length
            for table in self.units.values()
            for unit, length in zip(table["id"].to_pylist(), pc.utf8_length(table["text"]).to_pylist(), strict=True)
        }
        characters = sum(lengths[unit] for unit in new)
        #: Text units that no run has analysed yet.
        self.new = new
        #: Those of them that the plan analyses: all, or some from all over the corpus.
        self.part = new[:: max(1, math.ceil(characters / ANALYSED))]

    def extracted(self, wanted: Sequence[str]) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        """Text units by batch, and the extracted tables of all batches, with some of the new text units and no others."""
        left_out = pa.array(sorted(set(self.new) - set(wanted)), pa.string())
        units = {key: table.filter(pc.invert(pc.is_in(table["id"], left_out))) for key, table in self.units.items()}
        self._analyse(units)
        made: list[UnitExtraction] = []
        for key, table in units.items():
            of = self._hashes[key]
            made += [of_unit(self._known[of[unit]], unit, of[unit]) for unit in table["id"].to_pylist()]
        tables = to_tables(made)
        return units, {name: tables[name] for name in OUTPUTS}

    def _analyse(self, units: Mapping[str, pa.Table]) -> None:
        """Analyse what is not known yet."""
        lacking: dict[str, pa.Table] = {}
        for key, table in units.items():
            of = self._hashes[key]
            lacking[key] = table.filter(
                pa.array([of[u] not in self._known for u in table["id"].to_pylist()], pa.bool_())
            )
        if any(table.num_rows for table in lacking.values()):
            for key, found in extract_with_nlp(lacking, self.languages, self.index.workspace).items():
                for unit, extraction in zip(lacking[key]["id"].to_pylist(), found, strict=True):
                    self._known[self._hashes[key][unit]] = extraction


async def fast_texts(corpus: Texts, index: Index, asking: Supposing, *, recluster: bool) -> dict[str, Embedded]:
    """The texts of entities and reports that would be embedded, by asset."""
    named, linked = corpus.extracted["extracted_entities"], corpus.extracted["extracted_relationships"]
    units = pa.concat_tables([table.select(["id", "text", "document_id"]) for table in corpus.units.values()])
    units = in_order(units, corpus.order)
    resolution = await resolve(named, linked, corpus.order, index.workspace, asking)
    tables = graph_of_names(resolution, named, linked, corpus.order, units, index.workspace).tables
    titles = canonical_titles(tables["entity_aliases"])
    claims = link_covariates(corpus.extracted["extracted_claims"], corpus.order, titles)
    tables |= {"covariates": COVARIATES.conform(claims)}
    tables["communities"] = communities_of(tables, corpus, index, recluster=recluster)
    reports, _ = write_extractively(units, tables, {})
    return {
        "entity_embeddings": entity_texts(tables["entities"]),
        "community_report_embeddings": report_texts(reports),
    }


def extrapolate(stage: StagePlan, half: StagePlan, times: float) -> None:
    """Let the figures of a stage grow from those of a part of the new texts to those of all.

    Args:
        stage: Its figures with the part; changed.
        half: Its figures with half of the part.
        times: How many times the part all new texts are.
    """

    def grown(part: float, of_half: float) -> float:
        # A power of the size, as the number of different words is in a text; no figure grows faster than the text.
        power = math.log2(part / of_half) if part > of_half > 0 else 0.0 if part else 1.0
        return part * float(times ** min(1.0, power))

    stage.calls = round(grown(stage.calls, half.calls))
    stage.prompt_tokens = round(grown(stage.prompt_tokens, half.prompt_tokens))
    stage.seconds = grown(stage.seconds, half.seconds)
    stage.exact = False
