"""Extraction without a language model, on all cores: the fast method's counterpart of LLM extraction.

Each text unit is analysed for itself, by the spaCy pipeline of the settings where its language is the pipeline's, else
by rules. The rows therefore depend on the text unit and the settings alone, not on how many processes share the work.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType
from typing import Any, Protocol

from graphrag_assets.indexing.cooccurrence import Span, TextUnitRows, text_unit_rows
from graphrag_assets.indexing.noun_phrases import PhraseSettings, find_mentions, pipeline, pipeline_language
from graphrag_assets.indexing.phrases_by_rules import find_mentions_by_rules
from graphrag_assets.machine import cores
from graphrag_assets.text.sentences import sentences

#: Characters from which a second process pays: starting one and loading the pipeline costs about 2 s of CPU, in which
#: one process analyses some 60,000 characters.
_WORTH_A_PROCESS = 200_000
#: Characters in one piece of work: small enough to balance, large enough that sending it costs nothing.
_CHUNK = 40_000


class NlpSettings(Protocol):
    """The section extract_graph_nlp of the settings."""

    @property
    def cooccurrence(self) -> Span: ...  # noqa: D102
    @property
    def processes(self) -> int | None: ...  # noqa: D102
    @property
    def text_analyzer(self) -> PhraseSettings: ...  # noqa: D102


def is_read(model_name: str, language: str) -> bool:
    """Whether a pipeline reads texts in a language (empty: not known); rules read the others."""
    reads = pipeline_language(model_name)
    return language in ("", reads) or reads == "xx"


def analyse_text_unit(text_unit_id: str, text: str, settings: NlpSettings, language: str = "") -> TextUnitRows:
    """Rows of one text unit.

    Args:
        text_unit_id: Its id.
        text: Its text.
        settings: How to analyse.
        language: ISO 639-1 code; empty counts as the pipeline's language.

    Raises:
        PipelineMissingError: The spaCy pipeline is not installed.
    """
    analyzer = settings.text_analyzer
    by_pipeline = is_read(analyzer.model_name, language)
    mentions = find_mentions(text, analyzer) if by_pipeline else find_mentions_by_rules(text, analyzer, language)
    return text_unit_rows(text_unit_id, text, mentions, sentences(text), settings.cooccurrence)


class Analyst:
    """Analyses text units in several processes, which live as long as this context manager.

    Args:
        settings: How to analyse.
        processes: Processes; None: as the settings say, else one a core.

    Example:
        with Analyst(settings) as analyst:
            for batch in batches:
                rows = analyst.analyse(batch)
    """

    def __init__(self, settings: NlpSettings, processes: int | None = None) -> None:
        self._settings = settings
        self._processes = processes or settings.processes or cores()
        if multiprocessing.current_process().daemon:  # such a process may not have children
            self._processes = 1
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Analyst:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def analyse(self, text_units: Iterable[Mapping[str, Any]], language: str = "") -> list[TextUnitRows]:
        """Rows of text units.

        Args:
            text_units: Rows with id and text, and language where it is known by text unit.
            language: Language of those that name none.

        Returns:
            One result for each text unit, in their order.

        Raises:
            PipelineMissingError: The spaCy pipeline is not installed.
        """
        units = [(unit["id"], unit["text"], unit.get("language") or language) for unit in text_units]
        characters = sum(len(text) for _, text, _ in units)
        if self._processes == 1 or (self._pool is None and characters < _WORTH_A_PROCESS):
            return _analyse_chunk(self._settings, units)
        if self._pool is None:
            # spawn: a copy of a process with threads (Dagster, models) may hang in a lock that no thread will open
            self._pool = ProcessPoolExecutor(
                self._processes,
                multiprocessing.get_context("spawn"),
                _prepare,
                (self._settings.text_analyzer.model_name,),
            )
        futures = [self._pool.submit(_analyse_chunk, self._settings, chunk) for chunk in _chunks(units)]
        return [rows for future in futures for rows in future.result()]


def analyse_batch(
    text_units: Iterable[Mapping[str, Any]], settings: NlpSettings, processes: int | None = None, language: str = ""
) -> list[TextUnitRows]:
    """Rows of the text units of one batch; see :meth:`Analyst.analyse`, which keeps its processes for the next
    batch."""
    with Analyst(settings, processes) as analyst:
        return analyst.analyse(text_units, language)


_Unit = tuple[str, str, str]


def _chunks(units: Sequence[_Unit]) -> Iterable[list[_Unit]]:
    """Text units in pieces of about equal length, in order."""
    chunk: list[_Unit] = []
    size = 0
    for unit in units:
        chunk.append(unit)
        size += len(unit[1])
        if size >= _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _analyse_chunk(settings: NlpSettings, units: Sequence[_Unit]) -> list[TextUnitRows]:
    return [analyse_text_unit(id_, text, settings, language) for id_, text, language in units]


def _prepare(model_name: str) -> None:
    """Set up a process: one thread for linear algebra, as the processes fill the cores; the pipeline loads on first
    use."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    pipeline.cache_clear()
