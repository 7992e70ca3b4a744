"""Batches of one model: sending a file, looking at it, collecting what has come."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from graphrag_assets.llm.asking.calls import ModelCalls
from graphrag_assets.llm.asking.patience import backoff
from graphrag_assets.llm.batching import lines
from graphrag_assets.llm.batching.lines import Question
from graphrag_assets.llm.batching.records import Flight, Records
from graphrag_assets.llm.batching.transports import (
    ENDED,
    ProviderBatch,
    Transport,
    delete_quietly,
    is_gone,
    transport,
)
from graphrag_assets.llm.errors import CallError, GatewayError, PassingError, PermanentError
from graphrag_assets.llm.limiting.budget import Estimate, all_of
from graphrag_assets.llm.limiting.day_budget import Held
from graphrag_assets.llm.providers.direct import usage_of
from graphrag_assets.settings import BatchApiSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Words by which a provider says that too much is queued already.
_QUEUE_FULL = ("token_limit_exceeded", "enqueued", "queue")

#: Longest pause between two tries, in seconds.
_LONGEST_PAUSE = 60.0


class Channel:
    """The batch API of one entry of the settings.

    Args:
        calls: The entry's calls, for its address, its key and its retries.
        settings: Its batch_api.
        path: Endpoint of its questions, such as /v1/chat/completions.
    """

    def __init__(self, calls: ModelCalls, settings: BatchApiSettings, path: str) -> None:
        self.entry = calls.entry
        self.provider = calls.endpoint.identity
        self.settings = settings
        self.path = path
        self._retry = calls.settings.retry
        self._day = calls.day
        self._usd = calls.facts.usd
        self._way: Transport = transport(calls.endpoint, calls.settings, calls.client)

    def files(self, questions: Sequence[Question], records: Records) -> Iterator[list[Question]]:
        """Questions in files that the provider takes: only one at a time where it once had too much in its queue."""
        most = records.most_at_once(self.entry)
        if most is None:
            yield from lines.files(questions, self.settings.max_requests, self.settings.max_bytes)
        elif not any(flight.provider == self.provider and flight.state == "sent" for flight in records.flights()):
            yield from islice(lines.files(questions, min(most, self.settings.max_requests), self.settings.max_bytes), 1)

    async def set_aside(self, estimates: Sequence[Estimate]) -> Held | None:
        """Set aside what questions may cost in the budget of the day; None where there is none.

        Raises:
            DayReached: They do not fit.
            GatewayError: The budget cannot be kept.
        """
        if self._day is None:
            return None
        together = all_of(estimates)
        held = await self._day.reserve_now(together)
        if held is None:
            raise await self._day.reached_by(together)
        return held

    async def send(
        self, questions: Sequence[Question], place: str, stages: str, records: Records, held: Held | None = None
    ) -> Flight:
        """Send a file; it is on record before anything leaves, and after the provider has it.

        Args:
            questions: Its lines.
            place: Storage base of the index.
            stages: Who asks, for people.
            records: The records; the caller has the right to send.
            held: What the budget of the day set aside.

        Raises:
            GatewayError: The provider did not take it. Where it may have, the record stays to be looked into.
        """
        token = f"{lines.content_hash(questions)[:24]}-{uuid.uuid4().hex[:8]}"
        flight = Flight(
            token,
            place,
            self.entry,
            stages,
            len(questions),
            created=time.time(),
            provider=self.provider,
            held=held.to_json() if held is not None else "",
        )
        await asyncio.to_thread(records.claim, flight, [question.key for question in questions])
        sent, file = False, ""
        try:
            name, data = f"graphrag-assets-{token}.jsonl", b"".join(question.line for question in questions)
            file = await self._repeated(lambda: self._way.upload(name, data), "upload a file of questions")
            sent = True
            await asyncio.to_thread(records.uploaded, token, file)
            made = await self._create(file, token)
        except CallError as error:
            if not sent or error.kind not in ("timeout", "connection", "bad_body"):
                await asyncio.to_thread(records.drop, token)
                await self._settle(flight, 0, 0.0)
                await delete_quietly(self._way, file)
            raise self._failed("send a batch", error) from None
        await asyncio.to_thread(records.sent, token, made.id, file, made.status)
        logger.info("%s: sent batch %s of %d questions (%s)", self.entry, made.id, len(questions), stages)
        return replace(flight, state="sent", provider_id=made.id, file=file, status=made.status)

    async def recover(self, flight: Flight, records: Records) -> None:
        """Find out whether a batch came to be whose sender did not live to note it.

        Raises:
            GatewayError: The provider does not answer.
        """
        try:
            found = await self._find(flight.token)
        except CallError as error:
            raise self._failed("look for a batch", error) from None
        if found is None:
            await asyncio.to_thread(records.drop, flight.token)
            await self._settle(flight, 0, 0.0)
            await delete_quietly(self._way, flight.file)
            return
        logger.info("%s: found batch %s of an earlier run", self.entry, found.id)
        await asyncio.to_thread(records.sent, flight.token, found.id, found.input_file or "", found.status)

    async def look(self, flight: Flight, records: Records) -> ProviderBatch | None:
        """What the provider says of a batch; None where it does not know it (any more)."""
        try:
            found = await self._repeated(lambda: self._way.retrieve(flight.provider_id), "look at a batch")
        except CallError as error:
            if is_gone(error):
                return None
            raise self._failed(f"look at batch {flight.provider_id}", error) from None
        await asyncio.to_thread(records.seen, flight.token, found.status, found.done)
        return found

    async def collect(self, flight: Flight, records: Records) -> bool:
        """Take the answers of a batch, where it has ended.

        Returns:
            Whether it has.

        Raises:
            GatewayError: The provider does not answer, or refused the whole batch.
        """
        found = await self.look(flight, records)
        if found is None:
            await asyncio.to_thread(self._gone, flight, records)
            return True
        if found.status not in ENDED:
            await self._end_in_time(flight, records)
            return False
        if found.status == "failed":
            await self._refused(flight, found, records)
            return True
        try:
            names = [name for name in (found.output_file, found.error_file) if name]
            data = [await self._repeated(lambda n=name: self._way.read(n), "read answers") for name in names]  # type: ignore[misc]
        except CallError as error:
            if not is_gone(error):
                raise self._failed(f"read the answers of batch {flight.provider_id}", error) from None
            await asyncio.to_thread(self._gone, flight, records)
            return True
        told = await asyncio.to_thread(lines.read, data)
        results = [*told.answers.items(), *((key, {}) for key in told.failed)]
        whole = found.status == "completed"
        await asyncio.to_thread(records.collect, flight.token, found.status, results, whole=whole)
        if whole:
            await asyncio.to_thread(self._allow_more, flight.requests, records)
        await self._settle(flight, *self._cost(told))
        self._tell(flight, found, told)
        await delete_quietly(self._way, *names, found.input_file or flight.file)
        return True

    async def close(self) -> None:
        """Close connections."""
        await self._way.close()

    def _allow_more(self, requests: int, records: Records) -> None:
        """A batch of as many questions as were let through at once has ended well: the next one may be twice as large.

        What filled the queue may have been another's; few questions at a time, each batch a day, would take for ever.
        """
        most = records.most_at_once(self.entry)
        if most is not None and requests >= most:
            records.limit(self.entry, 2 * most)

    def _cost(self, told: lines.Told) -> tuple[int | None, float | None]:
        """Tokens and price of the answers of a batch; None where the provider does not say them of each."""
        used = [usage_of(body) for body in told.answers.values()]
        known = [usage for usage in used if usage is not None]
        if len(known) < len(used):
            return None, None
        usd = [self._usd(usage) for usage in known]
        prices = [price for price in usd if price is not None]
        tokens = sum(usage.prompt + usage.completion for usage in known)
        return tokens, sum(prices) * self.settings.price if len(prices) == len(usd) else None

    async def _settle(self, flight: Flight, tokens: int | None, usd: float | None) -> None:
        """Replace what the budget of the day set aside for a batch by what it cost."""
        if flight.held and self._day is not None:
            await self._day.settle(Held.from_json(flight.held), tokens, usd)

    def _gone(self, flight: Flight, records: Records) -> None:
        """The provider has nothing of a batch any more: another process has taken its answers, else it is asked anew."""
        if any(each.token == flight.token and each.state == "sent" for each in records.flights()):
            logger.warning("%s: batch %s is gone at the provider", self.entry, flight.provider_id)
            records.drop(flight.token)

    def _tell(self, flight: Flight, found: ProviderBatch, told: lines.Told) -> None:
        missing = flight.requests - len(told.answers)
        if not missing:
            logger.info("%s: batch %s has all %d answers", self.entry, found.id, flight.requests)
            return
        why = f"; first failure: {next(iter(told.failed.values()))[:200]}" if told.failed else ""
        damaged = f"; {told.damaged} lines cannot be read" if told.damaged else ""
        how = "by ordinary calls" if found.status == "completed" else "again"
        logger.warning(
            "%s: batch %s %s with %d of %d answers%s%s; the rest is asked %s",
            self.entry,
            found.id,
            found.status,
            len(told.answers),
            flight.requests,
            why,
            damaged,
            how,
        )

    async def _end_in_time(self, flight: Flight, records: Records) -> None:
        """Ask for the end of a batch that takes too long."""
        if flight.cancelled or time.time() - flight.created < self.settings.max_hours * 3600:
            return
        logger.warning(
            "%s: batch %s takes longer than %g hours and is cancelled",
            self.entry,
            flight.provider_id,
            self.settings.max_hours,
        )
        try:
            await self._repeated(lambda: self._way.cancel(flight.provider_id), "cancel a batch")
        except CallError as error:
            raise self._failed(f"cancel batch {flight.provider_id}", error) from None
        await asyncio.to_thread(records.seen, flight.token, "cancelling", flight.done, cancelled=True)

    async def _refused(self, flight: Flight, found: ProviderBatch, records: Records) -> None:
        """A provider refused a whole batch: for good, or since it has too much in its queue."""
        await asyncio.to_thread(records.drop, flight.token)
        await self._settle(flight, 0, 0.0)
        await delete_quietly(self._way, found.input_file or flight.file)
        full = any(word in found.problem.lower() for word in _QUEUE_FULL)
        if full and flight.requests > 1:
            most = max(1, flight.requests // 2)
            await asyncio.to_thread(records.limit, self.entry, most)
            logger.warning(
                "%s: the provider queues no batch of %d questions (%s); from now on %d are sent at once",
                self.entry,
                flight.requests,
                found.problem,
                most,
            )
            return
        raise GatewayError(
            f"{self.entry}: the provider refused batch {found.id}: {found.problem or 'no reason given'}; check model and "
            "call_args of this entry, or remove batch_api to ask by ordinary calls"
        )

    async def _create(self, file: str, token: str) -> ProviderBatch:
        """Submit a file; a request of which nobody knows what became is looked for before it is made again."""
        failures = 0
        while True:
            try:
                return await self._way.create(file, self.path, self.settings.completion_window, token)
            except PassingError as error:
                failures += 1
                if error.kind not in ("rate_limit", "unreachable"):
                    found = await self._find(token)
                    if found is not None:
                        return found
                await self._pause(error, failures)

    async def _find(self, token: str) -> ProviderBatch | None:
        """The batch that we called so; None where there is none, or where the provider lists none."""
        try:
            return await self._repeated(lambda: self._way.find(token), "look for a batch")
        except PermanentError as error:
            logger.warning("%s: whether a batch was sent cannot be found out: %s", self.entry, error)
            return None

    async def _repeated(self, request: Callable[[], Awaitable[T]], what: str) -> T:
        """Make a request, again while it fails for a passing reason."""
        failures = 0
        while True:
            try:
                return await request()
            except PassingError as error:
                failures += 1
                logger.info("%s: cannot %s: %s", self.entry, what, error)
                await self._pause(error, failures)

    async def _pause(self, error: PassingError, failures: int) -> None:
        if failures > self._retry.max_retries:
            raise error
        await asyncio.sleep(min(backoff(self._retry, failures, error.retry_after), _LONGEST_PAUSE))

    def _failed(self, what: str, error: CallError) -> GatewayError:
        mend = "run again later" if error.passing else "check this entry, or remove batch_api to ask by ordinary calls"
        return GatewayError(f"{self.entry}: could not {what}: {error}; {mend}", passing=error.passing)
