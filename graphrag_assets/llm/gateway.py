"""The one gate to language models: everything that costs money passes here, from indexing and from queries.

A question goes through these, each in a module of its own::

    Gateway.ask -> asker   (the model of the stage, then its fallbacks)
                -> answers (cache, equal questions in flight, validation, asking again)
                -> the desk, where the model has a batch API (many questions as one file, for half the price)
                -> calls   (limits, slots, repeats after failures, fail-fast, accounts)
                -> a client (direct: HTTP to OpenAI-compatible endpoints; through_litellm: all others)

Importing this module is cheap; HTTP and LiteLLM are imported at the first call.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from contextvars import ContextVar
from types import TracebackType
from typing import Literal, Protocol, Self, TypeVar

from graphrag_assets.indexing.asking import AnswerError, Ask, Message
from graphrag_assets.llm.asking.answers import Answers, Booking
from graphrag_assets.llm.asking.asker import Asker
from graphrag_assets.llm.asking.calls import ModelCalls
from graphrag_assets.llm.asking.failed_answers import FailedAnswers, folder_of
from graphrag_assets.llm.batching.desk import Desk
from graphrag_assets.llm.batching.model_desk import CHAT, EMBEDDINGS, ModelDesk
from graphrag_assets.llm.batching.records import Records, records_path
from graphrag_assets.llm.batching.waiting import waits
from graphrag_assets.llm.caching.local import AnswerCache
from graphrag_assets.llm.caching.shared import open_cache
from graphrag_assets.llm.embedding.vectors import Packing, Vectors
from graphrag_assets.llm.errors import GatewayError, PassingError, PermanentError
from graphrag_assets.llm.ledger import Ledger, Prompts
from graphrag_assets.llm.limiting.budget import Budget
from graphrag_assets.llm.limiting.day_budget import DayBudget, open_day_budget
from graphrag_assets.llm.limiting.stores import open_limits
from graphrag_assets.llm.prices import ModelFacts, ask_servers
from graphrag_assets.llm.providers.clients import StreamEnd, Vector
from graphrag_assets.llm.providers.observing import STAGE, serving
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.settings import ModelSettings, Workspace
from graphrag_assets.text.reasoning import ReasoningFilter

__all__ = ["Gateway", "GatewayError", "StageUsage"]

logger = logging.getLogger(__name__)

T = TypeVar("T")
Kind = Literal["document", "query"]

#: Providers whose embedding models count tokens as tiktoken does.
_TIKTOKEN = frozenset({"openai", "azure"})

#: Share of the window that is used where a model counts otherwise than we do.
_FOREIGN_WINDOW = 0.8


#: Part that calls are booked to where they name none.
_PART: ContextVar[str] = ContextVar("part", default="")


class Asking(Protocol):
    """How stages ask: the gateway, or what supposes its answers for a plan."""

    def ask(self, stage: str, model_id: str, part: str = "", prompts: Sequence[str] = ()) -> Ask:
        """See :meth:`Gateway.ask`."""
        ...


class Gateway:
    """Models, cache, limits and accounts of one run, in one event loop.

    Use it as an async context manager; leaving it writes the cache and closes connections::

        async with Gateway(workspace) as gateway:
            ask = gateway.ask("extract_graph", "default_completion_model")
            reply = await ask([{"role": "user", "content": "…"}], parse)

    Args:
        workspace: Root folder and settings.
        budget: Ceiling of tokens and price for everything that is asked; None: none.
        run: Run of the index whose calls are kept in the ledger; None: they are not, as for queries.
        must_keep: Whether to stop where the disk of the cache is full.
        cached: Whether answers are taken from the cache and kept there, where the settings have one.
        anew: Stages whose answers are asked for anew, with the moment before which those that are kept count as none.
        batches: Whether questions to a model with ``batch_api`` travel in batches: the caller ends well where the run
            has to wait for them (:class:`graphrag_assets.llm.batching.waiting.BatchPending`).
    """

    def __init__(
        self,
        workspace: Workspace,
        budget: Budget | None = None,
        run: str | None = None,
        *,
        must_keep: bool = False,
        cached: bool = True,
        anew: Mapping[str, float] | None = None,
        batches: bool = False,
    ) -> None:
        self._workspace = workspace
        self._must_keep = must_keep
        self._cached = cached
        self._anew = anew or {}
        self._budget = budget
        self._day: DayBudget | None = None
        self._run = run
        settings = workspace.settings
        self._slots = asyncio.Semaphore(settings.concurrent_requests)
        self._cache = AnswerCache(None)
        self._ledger: Ledger | None = None
        self._batches = batches and workspace.settings.cache.enabled
        self._desk: Desk | None = None
        self._desks: list[ModelDesk] = []
        self._answers: dict[str, Answers] = {}
        self._vectors: dict[str, Vectors] = {}
        self._calls: dict[str, ModelCalls] = {}
        self._usage: dict[tuple[str, str], StageUsage] = {}
        self._bookings = itertools.count(1)

    async def __aenter__(self) -> Self:
        """Open the cache, and the account of the day; ask local servers for their windows."""
        self._day = await asyncio.to_thread(open_day_budget, self._workspace, whole=self._must_keep)
        if self._cached:
            self._cache = await asyncio.to_thread(open_cache, self._workspace, must_keep=self._must_keep)
        settings = self._workspace.settings
        await asyncio.to_thread(
            ask_servers, [*settings.completion_models.values(), *settings.embedding_models.values()]
        )
        if self._workspace.settings.cache.enabled and self._run is not None:
            self._ledger = Ledger(self._cache, self._workspace.uri(self._workspace.settings.storage.base), self._run)
        if self._batches:
            place = self._workspace.uri(self._workspace.settings.storage.base)
            self._desk = Desk(Records(records_path(self._workspace)), self._cache, place, wait=waits())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is left of the cache, close connections."""
        if self._desk is not None:
            await self._desk.close()
        for desk in self._desks:
            await desk.close()
        for calls in self._calls.values():
            await calls.close()
        await asyncio.to_thread(self._cache.close)

    def ask(self, stage: str, model_id: str, part: str = "", prompts: Sequence[str] = ()) -> Ask:
        """How algorithms ask a chat model.

        Args:
            stage: Stage that the calls are booked to, such as extract_graph.
            model_id: Entry of completion_models.
            part: Part of the stage that the calls are booked to as well, such as a batch; see :meth:`usage`.
            prompts: Prompts of the stage, for the ledger: the one that begins, then those of later turns.

        Raises:
            GatewayError: The entry cannot work as it stands; KeyError: there is no such entry.
        """
        booking = Booking(
            stage, self._account(stage, part), self._ledger, Prompts(prompts), since=self._anew.get(stage, 0.0)
        )
        models = list(fallbacks(self._workspace.settings.completion_models, model_id))
        self._chat(model_id)
        kept = FailedAnswers(folder_of(self._workspace)) if self._run is not None else None
        return Asker(self._chat, models, booking, kept, self._desk)

    async def chat_stream(self, stage: str, model_id: str, messages: Sequence[Message]) -> AsyncGenerator[str]:
        """Ask a chat model and yield its answer as it is written, without reasoning text; one that is kept comes at once.

        Args:
            stage: Stage that the call is booked to.
            model_id: Entry of completion_models.
            messages: Conversation.

        Raises:
            AnswerError: refused; truncated after the last piece, where the token limit cut the answer; failed where it
                was empty or the connection broke, possibly amid the answer.
            GatewayError: The model cannot be used.
        """
        STAGE.set(stage)  # for this task: no block, which another task might have to leave
        answers, account = self._chat(model_id), self._account(stage)
        key, known = await answers.known(messages, str)
        if known is not None:
            account.cached += 1
            yield known.text
            return
        calls, used = answers.calls, StageUsage()
        try:
            text = ""
            async with aclosing(self._written(calls, used, account, messages)) as pieces:
                async for piece in pieces:
                    text += piece
                    yield piece
            answers.keep(key, text, stage, used)
        finally:
            account.add(used)

    async def _written(
        self, calls: ModelCalls, used: StageUsage, account: StageUsage, messages: Sequence[Message]
    ) -> AsyncGenerator[str]:
        """The pieces of an answer that is complete when they end; see :meth:`chat_stream`."""
        sent = [{"role": message["role"], "content": message["content"]} for message in messages]
        for attempt in range(1, calls.settings.answer_attempts + 1):
            reasoning, end, shown = ReasoningFilter(), StreamEnd(), False
            try:
                async with aclosing(calls.stream(used, sent, {}, end, repeat=attempt > 1)) as pieces:
                    async for piece in pieces:
                        if text := reasoning.feed(piece):
                            shown = True
                            yield text
            except (PassingError, PermanentError) as error:
                account.failed += 1
                refused = error.kind == "content_filter"
                raise AnswerError("refused" if refused else "failed", str(error), attempt) from None
            if text := reasoning.close():
                shown = True
                yield text
            if end.refused or end.finish == "content_filter":
                account.failed += 1
                raise AnswerError("refused", "the model refused to answer", attempt)
            if shown and end.finish == "length":
                raise AnswerError("truncated", "the answer was cut at the token limit", attempt)
            if shown:
                return
        account.failed += 1
        raise AnswerError("failed", "the answer was empty", calls.settings.answer_attempts)

    async def embed(
        self, stage: str, model_id: str, texts: Sequence[str], kind: Kind = "document", rows: Sequence[str] = ()
    ) -> Vector:
        """Vectors of texts.

        Equal texts are sent once, stored vectors are not asked for. A text longer than the model's window is cut into
        windows whose vectors are averaged by their tokens; nothing is cut off.

        Args:
            stage: Stage that the calls are booked to.
            model_id: Entry of embedding_models.
            texts: Any texts; one without a visible character gets zeros and is not sent.
            kind: What the texts are, for models that embed questions otherwise than documents.
            rows: Ids of the rows that the texts belong to, for the ledger.

        Returns:
            float32 of shape (texts, dimension), each row at unit length.

        Raises:
            GatewayError: Some texts could not be embedded, after all repeats; vectors so far are kept in the cache.
        """
        booking = Booking(stage, self._account(stage), self._ledger)
        with serving(stage), self._desk.at_work() if self._desk is not None else nullcontext():
            return await self._embedding(model_id).embed(booking, texts, kind, rows)

    def dimension(self, model_id: str) -> int | None:
        """Numbers in a vector of an embedding model; None where it is not known before the first call."""
        return self._embedding(model_id).dimension

    def facts(self, model_id: str, section: Literal["completion", "embedding"] = "completion") -> ModelFacts:
        """Prices, window and abilities of an entry."""
        return (self._chat(model_id).calls if section == "completion" else self._embedding(model_id).calls).facts

    def identity(self, model_id: str) -> str:
        """Name that tells the vectors of an embedding model from others: provider, model, endpoint, dimensions."""
        return self._embedding(model_id).calls.vector_identity

    def usage(self, part: str | None = None) -> dict[str, StageUsage]:
        """What the run cost so far, by stage.

        Args:
            part: Only what was asked for this part; None: everything.
        """
        totals: dict[str, StageUsage] = {}
        for (stage, booked), usage in self._usage.items():
            if part is None or booked == part:
                totals.setdefault(stage, StageUsage()).add(usage)
        return totals

    def smaller_helped(self, stage: str, questions: int, part: str = "") -> None:
        """Book questions whose input was too long, and that were answered in parts or with less.

        Args:
            stage: Stage of the questions.
            questions: How many they are.
            part: Part of the stage.
        """
        self._account(stage, part).recovered["smaller_input"] += questions

    @contextmanager
    def booking(self) -> Iterator[Callable[[], dict[str, StageUsage]]]:
        """Book apart what is asked inside, such as for one of several questions at the same time.

        Returns:
            What it cost so far, by stage. Afterwards it is part of the whole.
        """
        part = f"booking {next(self._bookings)}"
        token = _PART.set(part)
        try:
            yield lambda: self.usage(part)
        finally:
            _PART.reset(token)
            for stage, usage in self.usage(part).items():
                del self._usage[stage, part]
                self._account(stage).add(usage)

    def _account(self, stage: str, part: str = "") -> StageUsage:
        return self._usage.setdefault((stage, part or _PART.get()), StageUsage())

    def _chat(self, model_id: str) -> Answers:
        if model_id not in self._answers:
            settings = self._workspace.settings.completion_model(model_id)
            calls = self._connect(f"completion_models.{model_id}", settings, completes=True)
            self._answers[model_id] = Answers(calls, self._cache, self._desk_of(calls, CHAT))
        return self._answers[model_id]

    def _embedding(self, model_id: str) -> Vectors:
        if model_id not in self._vectors:
            settings = self._workspace.settings.embedding_model(model_id)
            if settings is None:
                raise GatewayError("settings: embedding_models has no entry; the embedded model serves in its place")
            calls = self._connect(f"embedding_models.{model_id}", settings, completes=False)
            desk = self._desk_of(calls, EMBEDDINGS)
            self._vectors[model_id] = Vectors(calls, self._cache, packing(calls, self._workspace), desk)
        return self._vectors[model_id]

    def _desk_of(self, calls: ModelCalls, path: str) -> ModelDesk | None:
        """Where questions to a model wait for a batch; None where it has no batch API, or this run uses none."""
        settings = calls.settings.batch_api
        if self._desk is None or settings is None:
            return None
        self._desks.append(ModelDesk(self._desk, calls, settings, path))
        return self._desks[-1]

    def _connect(self, entry: str, settings: ModelSettings, *, completes: bool) -> ModelCalls:
        share = 1.0 if settings.model_provider in _TIKTOKEN else _FOREIGN_WINDOW
        count = _counter(self._workspace.settings.chunking.encoding_model, share)
        calls = ModelCalls(
            entry,
            settings,
            self._slots,
            completes=completes,
            count=count,
            share=share,
            budget=self._budget,
            day=self._day,
            limits=open_limits(self._workspace),
            telemetry=self._workspace.settings.telemetry,
        )
        self._calls[entry] = calls
        return calls


def fallbacks(models: Mapping[str, ModelSettings], model_id: str) -> Iterator[str]:
    """The entry itself, then the one that is asked where it fails, and so on; each once."""
    seen: set[str] = set()
    following: str | None = model_id
    while following is not None and following not in seen:
        yield following
        seen.add(following)
        following = models[following].fallback_model_id if following in models else None


def packing(calls: ModelCalls, workspace: Workspace, count: Callable[[str], int] | None = None) -> Packing:
    """How texts travel to an embedding model.

    Args:
        calls: The model.
        workspace: Settings.
        count: Counts tokens; None: as the tokenizer of the settings does.
    """
    settings, embed_text = calls.settings, workspace.settings.embed_text
    window = calls.facts.context_window or embed_text.batch_max_tokens
    if settings.model_provider not in _TIKTOKEN:
        window = int(window * _FOREIGN_WINDOW)
    return Packing(
        batch_size=settings.batch_size or embed_text.batch_size,
        batch_tokens=embed_text.batch_max_tokens,
        window=max(1, min(window, embed_text.batch_max_tokens)),
        count=count or _counter(workspace.settings.chunking.encoding_model),
    )


def _counter(encoding: str, share: float = 1.0) -> Callable[[str], int]:
    """A token counter that loads its encoding when it is first used, and counts more where a share is given."""

    def count(text: str) -> int:
        from graphrag_assets.llm.tokens import tokenizer

        return math.ceil(tokenizer(encoding).count(text) / share)

    return count
