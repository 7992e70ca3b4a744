"""From texts to vectors: cache per text, windows for long texts, packing into calls, checks of what comes back."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphrag_assets.llm.asking.answers import Booking
from graphrag_assets.llm.asking.calls import ModelCalls
from graphrag_assets.llm.batching.model_desk import ModelDesk
from graphrag_assets.llm.caching.local import AnswerCache, vector_keys
from graphrag_assets.llm.embedding.long_texts import at_unit_length, pool, windows
from graphrag_assets.llm.errors import CallError, GatewayError, PassingError, PermanentError
from graphrag_assets.llm.ledger import SEVERAL, About, making
from graphrag_assets.llm.providers.clients import INPUT_TYPES, Vector, VectorAnswer
from graphrag_assets.llm.usage import StageUsage

#: Text that is embedded to learn how many numbers a vector of an unknown model has.
PROBE = "dimension"

#: Tokens of a text that fits every model.
_SHORT = 128


@dataclass(frozen=True)
class Packing:
    """How texts travel.

    Args:
        batch_size: Most texts in a call.
        batch_tokens: Most tokens in a call.
        window: Most tokens of one text; longer texts are cut into windows.
        count: Counts tokens.
    """

    batch_size: int
    batch_tokens: int
    window: int
    count: Callable[[str], int]


@dataclass(frozen=True)
class _Request:
    """What was asked for, and where it is booked.

    Args:
        booking: Stage, account and ledger.
        kind: document or query.
        rows: Ids of the rows that a text belongs to, by the key of its vector.
    """

    booking: Booking
    kind: str
    rows: Mapping[bytes, str]

    @property
    def account(self) -> StageUsage:
        """Usage of the stage."""
        return self.booking.account


@dataclass
class _Text:
    """A text that has no vector yet, in one piece or in windows."""

    key: bytes
    pieces: list[tuple[str, int]]
    vectors: dict[int, Vector] = field(default_factory=dict)


_Batch = list[tuple[_Text, int]]  # pieces: the text and the number of its window


class Vectors:
    """Texts to embed with one model.

    Args:
        calls: The model.
        cache: Vectors of earlier runs.
        packing: How texts travel.
        desk: Where texts wait for a batch of the provider; None: they are sent at once.
    """

    def __init__(self, calls: ModelCalls, cache: AnswerCache, packing: Packing, desk: ModelDesk | None = None) -> None:
        self.calls = calls
        self._desk = desk
        self._cache = cache
        self._packing = packing
        declared = calls.settings.call_args.get("dimensions")
        self._dimension: int | None = int(declared) if declared else None
        self._likely = calls.facts.vector_size
        self._dimension_lock = asyncio.Lock()
        self._flights: dict[bytes, asyncio.Future[dict[bytes, Vector]]] = {}

    @property
    def dimension(self) -> int | None:
        """Numbers in a vector; None while it is not known."""
        return self._dimension or self._likely

    async def embed(self, booking: Booking, texts: Sequence[str], kind: str, rows: Sequence[str] = ()) -> Vector:
        """See :meth:`graphrag_assets.llm.gateway.Gateway.embed`.

        Args:
            booking: Where the calls are booked.
            texts: Texts; equal ones are sent once, blank ones not at all.
            kind: document or query.
            rows: Ids of the rows that the texts belong to.
        """
        settings = self.calls.settings
        prefix = settings.query_prefix if kind == "query" else settings.document_prefix
        unique = {text: prefix + text for text in dict.fromkeys(texts) if text.strip()}
        keys = dict(zip(unique, self._keys(list(unique.values()), kind), strict=True))
        found = await self._stored(list(keys.values()))
        booking.account.cached += len(found)
        request = _Request(booking, kind, _rows_of(keys, texts, rows) if booking.ledger else {})
        self._note_taken(request, list(found))
        missing = {keys[text]: sent for text, sent in unique.items() if keys[text] not in found}
        while missing:
            found |= await self._embed_missing(request, missing)
            missing = {key: text for key, text in missing.items() if key not in found}
        return self._table(texts, [found[keys[text]] if text in keys else None for text in texts])

    def pending(self, texts: Sequence[str], count: Callable[[str], int]) -> tuple[int, list[int]]:
        """How many vectors of documents are stored, and the tokens of each call that the others would take.

        Args:
            texts: Texts of one call of :meth:`embed`.
            count: Counts tokens.
        """
        prefix = self.calls.settings.document_prefix
        sent = [prefix + text for text in dict.fromkeys(texts) if text.strip()]
        keys = self._keys(sent, "document")
        found = self._cache.vectors(keys)
        missing = {key: text for key, text in zip(keys, sent, strict=True) if key not in found}
        calls = [sum(count(text.pieces[number][0]) for text, number in batch) for batch in self._batches(missing)]
        return len(sent) - len(missing), calls

    def _table(self, texts: Sequence[str], vectors: Sequence[Vector | None]) -> Vector:
        """Vectors as rows; zeros for blank texts."""
        sizes = {len(vector) for vector in vectors if vector is not None}
        if len(sizes) > 1:
            both = " and ".join(map(str, sorted(sizes)))
            raise GatewayError(
                f"{self.calls.entry}: vectors of {both} numbers: the model behind this name has changed; "
                "delete the cache, or give the model another name"
            )
        result = np.zeros((len(texts), sizes.pop() if sizes else self.dimension or 0), dtype=np.float32)
        for i, vector in enumerate(vectors):
            if vector is not None:
                result[i] = vector
        return result

    def _keys(self, texts: Sequence[str], kind: str) -> list[bytes]:
        """Keys; the window is part of the key of texts that may be longer than it."""
        tells_kinds = self.calls.settings.model_provider in INPUT_TYPES
        identity: dict[str, Any] = {**self.calls.identity, "kind": kind if tells_kinds else None}
        window = self._packing.window
        keys = vector_keys(identity, texts)
        long = [i for i, text in enumerate(texts) if _most_tokens(text) > window]
        for i, key in zip(long, vector_keys({**identity, "window": window}, [texts[i] for i in long]), strict=True):
            keys[i] = key
        return keys

    async def _stored(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        held = await self._cache.find_vectors(keys)
        stored = {key: np.frombuffer(data, dtype=np.float32) for key, data in held.items()}
        if self._dimension is not None:
            stored = {key: vector for key, vector in stored.items() if len(vector) == self._dimension}
        elif stored:
            self._likely = len(next(iter(stored.values())))
        return stored

    # -- texts without a vector ------------------------------------------------------------------------------------

    async def _embed_missing(self, request: _Request, missing: dict[bytes, str]) -> dict[bytes, Vector]:
        """Vectors of texts that are not stored; those that another caller is embedding already are waited for.

        Returns:
            Vectors by key; some may be missing, where the other caller failed.
        """
        result: dict[bytes, Vector] = {}
        others = {key: flight for key in missing if (flight := self._flights.get(key)) is not None}
        mine = {key: text for key, text in missing.items() if key not in others}
        if mine:
            flight = asyncio.get_running_loop().create_future()
            self._flights.update(dict.fromkeys(mine, flight))
            try:
                await self._embed_mine(request, mine, result)
            finally:
                for key in mine:
                    del self._flights[key]
                flight.set_result(result)
        for key, flight in others.items():
            with self._desk.idle() if self._desk is not None else nullcontext():
                done = await asyncio.shield(flight)
            if key in done:
                request.account.cached += 1
                result[key] = done[key]
        return result

    async def _embed_mine(self, request: _Request, missing: dict[bytes, str], result: dict[bytes, Vector]) -> None:
        """Send texts in batches; every batch that succeeds is kept, even where another one fails."""
        if self._desk is not None and request.kind == "document":
            await self._from_batch(self._desk, request, missing, result)
            result |= await self._stored([key for key in missing if key not in result])
            missing = {key: text for key, text in missing.items() if key not in result}
        tasks: list[asyncio.Task[None]] = []
        try:
            for batch in self._batches(missing):
                tasks.append(asyncio.create_task(self._embed_batch(request, batch, result)))
                await asyncio.sleep(0)  # counting tokens takes time; calls start meanwhile
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if not errors:
            return
        first = next((error for error in errors if isinstance(error, GatewayError)), errors[0])
        if not isinstance(first, CallError):
            raise first
        request.account.failed += len(missing) - len(result)
        raise GatewayError(
            f"{self.calls.entry}: {len(missing) - len(result)} of {len(missing)} texts could not be embedded, first: "
            f"{first}; run again (vectors so far are kept)",
            passing=first.passing,
        ) from None

    async def _from_batch(
        self, desk: ModelDesk, request: _Request, missing: dict[bytes, str], result: dict[bytes, Vector]
    ) -> None:
        """Set texts down for a batch of the provider, window by window, and take the vectors that come of it."""
        texts = [_Text(key, self._pieces(sent)) for key, sent in missing.items()]
        keys = {text.key: [_piece_key(text, number) for number in range(len(text.pieces))] for text in texts}
        pieces = {key: text.pieces[n][0] for text in texts for n, key in enumerate(keys[text.key])}
        answers = await desk.vectors(request.booking.stage, request.kind, pieces)
        if answers:
            size = len(next(iter(answers.values())).vectors[0])
            await self._settle_dimension(request.account, size, request.kind)
        for text in texts:
            used = StageUsage()
            for number, key in enumerate(keys[text.key]):
                if (answer := answers.get(key)) is None:
                    continue
                with suppress(PassingError):
                    _check(answer, 1, self._dimension)
                    text.vectors[number] = answer.vectors[0]
                desk.book(used, key, answer.usage)
            whole = len(text.vectors) == len(text.pieces)
            request.account.add(used)
            if request.booking.ledger is not None and used.calls:
                about = self._about(request, [text.key])
                request.booking.ledger.asked(about, digest_of([text.key]), making(used), "ok" if whole else "failed")
            if whole:
                vector = pool([text.vectors[i] for i in range(len(text.pieces))], [tokens for _, tokens in text.pieces])
                result[text.key] = vector
                self._cache.put_vectors({text.key: vector.tobytes()}, request.booking.stage)

    def _batches(self, missing: dict[bytes, str]) -> Iterator[_Batch]:
        """Pieces of texts in calls of at most so many texts and tokens."""
        packing = self._packing
        batch: _Batch = []
        used = 0
        for key, sent in missing.items():
            text = _Text(key, self._pieces(sent))
            for number, (_, tokens) in enumerate(text.pieces):
                if batch and (len(batch) == packing.batch_size or used + tokens > packing.batch_tokens):
                    yield batch
                    batch, used = [], 0
                batch.append((text, number))
                used += tokens
        if batch:
            yield batch

    def _pieces(self, text: str) -> list[tuple[str, int]]:
        """A text, or its windows where it is too long, with their tokens; counted only where it matters."""
        packing = self._packing
        most = _most_tokens(text)
        if most <= min(packing.window, packing.batch_tokens // packing.batch_size):
            return [(text, most)]
        tokens = packing.count(text)
        if tokens <= packing.window:
            return [(text, tokens)]
        return windows(text, packing.window, packing.count)

    async def _embed_batch(self, request: _Request, batch: _Batch, result: dict[bytes, Vector]) -> None:
        """Send one batch; a text is done, and kept, as soon as all of its windows are."""
        pieces = [text.pieces[number][0] for text, number in batch]
        used = StageUsage()
        keys, status = list(dict.fromkeys(text.key for text, _ in batch)), "failed"
        try:
            vectors = await self._send_splitting(used, pieces, request.kind)
            status = "ok"
        finally:
            request.account.add(used)
            if request.booking.ledger is not None and used.calls:
                about = self._about(request, keys)
                request.booking.ledger.asked(about, digest_of(keys), making(used), status)
        done: dict[bytes, Vector] = {}
        whole = [text.key for text, _ in batch if len(text.pieces) == 1]
        if len(whole) == len(batch):
            done = dict(zip(whole, at_unit_length(vectors), strict=True))
            batch = []
        for (text, number), vector in zip(batch, vectors if batch else [], strict=True):
            text.vectors[number] = vector
            if len(text.vectors) == len(text.pieces):
                weights = [tokens for _, tokens in text.pieces]
                done[text.key] = pool([text.vectors[i] for i in range(len(weights))], weights)
        result |= done
        self._cache.put_vectors({key: vector.tobytes() for key, vector in done.items()}, request.booking.stage)

    def _about(self, request: _Request, keys: Sequence[bytes]) -> About:
        rows = SEVERAL.join(row for key in keys if (row := request.rows.get(key)))
        model = f"{self.calls.settings.model_provider}/{self.calls.settings.model}"
        return About(request.booking.stage, rows, model)

    def _note_taken(self, request: _Request, keys: Sequence[bytes]) -> None:
        """Vectors from the cache are one row of the ledger, however many: nobody knows the calls that made each."""
        if request.booking.ledger is not None and keys:
            request.booking.ledger.taken(self._about(request, keys), digest_of(keys), None)

    async def _send_splitting(self, account: StageUsage, texts: list[str], kind: str) -> list[Vector]:
        """Vectors of texts; where the provider finds them too long, of fewer at once, then of parts of one, pooled."""
        try:
            return await self._send(account, texts, kind)
        except PermanentError as error:
            if error.kind != "context_length":
                raise
            if len(texts) > 1:
                middle = len(texts) // 2
                first = await self._send_splitting(account, texts[:middle], kind)
                return first + await self._send_splitting(account, texts[middle:], kind)
            parts = windows(texts[0], max(1, self._packing.count(texts[0]) // 2), self._packing.count)
            if len(parts) < 2:
                raise
        vectors = [(await self._send_splitting(account, [part], kind))[0] for part, _ in parts]
        return [pool(vectors, [tokens for _, tokens in parts])]

    async def _send(self, account: StageUsage, texts: list[str], kind: str) -> list[Vector]:
        """One call, repeated while its vectors are not what was asked for, or it is refused without a lasting reason."""

        async def call(_: Mapping[str, Any]) -> VectorAnswer:
            answer = await self.calls.client.embed(texts, kind)
            _check(answer, len(texts), self._dimension)
            return answer

        refused = 0
        while True:
            try:
                answer = await self.calls.send(account, texts, call)
            except PermanentError as error:
                refused += 1
                # Some servers refuse a request for a reason that passes, and a call of many texts is much to lose.
                passing = error.kind == "bad_request" or (error.kind == "context_length" and self._is_short(texts))
                if not passing or refused >= self.calls.settings.answer_attempts:
                    raise
                continue
            size = len(answer.vectors[0])
            await self._settle_dimension(account, size, kind)
            if size == self._dimension:
                return answer.vectors

    def _is_short(self, texts: Sequence[str]) -> bool:
        """Whether this is one text that no window is too small for."""
        return len(texts) == 1 and self._packing.count(texts[0]) <= min(self._packing.window // 2, _SHORT)

    async def _settle_dimension(self, account: StageUsage, size: int, kind: str) -> None:
        """Decide how many numbers a vector has: as set, as known, else as two answers agree."""
        if self._dimension is not None:
            return
        async with self._dimension_lock:
            if self._dimension is not None:
                return
            seen = [size]
            while self._dimension is None and len(seen) < 8:
                if seen[-1] == self._likely or seen[-1] in seen[:-1]:
                    self._dimension = seen[-1]
                    return

                async def call(_: Mapping[str, Any]) -> VectorAnswer:
                    answer = await self.calls.client.embed([PROBE], kind)
                    _check(answer, 1, None)
                    return answer

                seen.append(len((await self.calls.send(account, [PROBE], call)).vectors[0]))
            raise GatewayError(f"{self.calls.entry}: vectors of ever other sizes ({seen}); set call_args.dimensions")


def _rows_of(keys: Mapping[str, bytes], texts: Sequence[str], rows: Sequence[str]) -> dict[bytes, str]:
    """Ids of the rows of each vector, by its key."""
    found: dict[bytes, str] = {}
    for text, row in zip(texts, rows, strict=False):
        if (key := keys.get(text)) is not None:
            found[key] = f"{found[key]}{SEVERAL}{row}" if key in found else row
    return found


def _piece_key(text: _Text, number: int) -> bytes:
    """Key of one window of a text, or of the text where it is one."""
    if len(text.pieces) == 1:
        return text.key
    return hashlib.sha256(text.key + f"window {number} of {len(text.pieces)}".encode()).digest()


def digest_of(keys: Sequence[bytes]) -> bytes:
    """One key for several vectors."""
    return hashlib.sha256(b"".join(keys)).digest()


def _most_tokens(text: str) -> int:
    """Tokens that a text has at most: a token of a byte-level encoding is at least one byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _check(answer: VectorAnswer, count: int, dimension: int | None) -> None:
    """Refuse vectors that are too few, of odd size, or not numbers."""
    if len(answer.vectors) != count:
        raise PassingError("bad_body", f"{len(answer.vectors)} vectors came for {count} texts")
    sizes = {vector.shape for vector in answer.vectors}
    if len(sizes) != 1 or len(next(iter(sizes))) != 1:
        raise PassingError("bad_body", f"the vectors have different sizes: {sorted(sizes)}")
    size = len(answer.vectors[0])
    if size == 0 or (dimension is not None and size != dimension):
        raise PassingError("bad_body", f"the vectors have {size} numbers instead of {dimension or 'some'}")
    # The sum of squares is a number where all are; where it is too large to be one, each is looked at.
    if not all(np.isfinite(np.vdot(vector, vector)) or np.isfinite(vector).all() for vector in answer.vectors):
        raise PassingError("bad_body", "a vector holds something that is not a number")
