"""The desk where questions are set down until they are worth a file, and where their answers are handed out.

A stage asks as it always does. Where its model has a batch API, the question waits here. Once all questions of the step
that can be asked at this time wait (everybody who asks waits for an answer, nobody is under way), they are sent as a
file. Then the step either waits for the provider and goes on with the answers (the next turn of a conversation or the
next level of reports becomes the next file), or it ends with :class:`BatchPending`; the run after it comes to the same
questions, finds them on record, and goes on from there. So nothing of a stage knows of batches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import Any

from graphrag_assets.llm.batching.channel import Channel
from graphrag_assets.llm.batching.lines import Question
from graphrag_assets.llm.batching.records import Flight, Found, Records
from graphrag_assets.llm.batching.waiting import BatchPending
from graphrag_assets.llm.caching.local import AnswerCache
from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.limiting.budget import Budget, Estimate, Ticket
from graphrag_assets.llm.limiting.day_budget import DayReached, Held

logger = logging.getLogger(__name__)

#: Seconds for which all who ask must have waited before their questions are sent.
LINGER = 0.2

#: Seconds until the first look at a batch that a command waits for; each next one is half as long again.
FIRST_LOOK = 2.0

#: Seconds between two tries to get the right to send.
_LOCK_SECONDS = 0.2


@dataclass
class Waiter:
    """A question that was set down.

    Args:
        question: Key and line.
        channel: The model.
        stage: Who asked.
        estimate: What it may cost.
        budgets: What it is charged to.
        stale: Whether the cache has an answer that could not be used.
        answer: The body of the answer; None where it is to be asked by an ordinary call.
    """

    question: Question
    channel: Channel
    stage: str
    estimate: Estimate
    budgets: Sequence[Budget]
    stale: bool = False
    answer: asyncio.Future[dict[str, Any] | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Desk:
    """The desk of one gateway.

    Args:
        records: What is under way.
        cache: Where answers end.
        place: Storage base of the index.
        wait: Whether to wait for the provider.
    """

    def __init__(self, records: Records, cache: AnswerCache, place: str, *, wait: bool) -> None:
        self._records = records
        self._cache = cache
        self._place = place
        self._wait = wait
        self._waiters: dict[bytes, Waiter] = {}
        self._asking = self._idle = self._changes = 0
        self._task: asyncio.Task[None] | None = None
        self._used: list[bytes] = []
        self._tickets: dict[bytes, list[tuple[Budget, Ticket]]] = {}
        self._told: set[str] = set()

    # -- for those who ask ---------------------------------------------------------------------------------------------

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, somebody asks: no file is sent until all who do wait for an answer."""
        self._asking += 1
        self._changes += 1
        try:
            yield
        finally:
            self._asking -= 1
            self._changes += 1

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Inside, somebody who asks waits for others."""
        self._idle += 1
        self._changes += 1
        try:
            yield
        finally:
            self._idle -= 1
            self._changes += 1

    async def ask(
        self, channel: Channel, stage: str, asked: Sequence[tuple[Question, Estimate]], budgets: Sequence[Budget]
    ) -> list[dict[str, Any] | None]:
        """Answers to questions, in their order.

        Args:
            channel: The model.
            stage: Who asks.
            asked: Questions, and what each may cost.
            budgets: What they are charged to.

        Returns:
            The body of each answer, not yet judged; None where the question is to be asked by an ordinary call, unless
            the cache has its answer by now.

        Raises:
            BatchPending: The provider has them, and the run does not wait.
            GatewayError: The provider takes no batches, or the budget does not allow them.
        """
        mine = []
        stale = self._in_cache([question.key for question, _ in asked])
        for question, estimate in asked:
            waiter = self._waiters.get(question.key)
            if waiter is None or waiter.answer.done():
                waiter = self._waiters[question.key] = Waiter(
                    question, channel, stage, estimate, budgets, question.key in stale
                )
            mine.append(waiter)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve())
        with self.idle():
            return list(await asyncio.gather(*(asyncio.shield(waiter.answer) for waiter in mine)))

    def used(self, key: bytes, tokens: int | None = None, usd: float | None = None) -> None:
        """An answer from here was judged; if it is of use, it has been given to the cache.

        Args:
            key: Its question.
            tokens: Tokens that it took.
            usd: Its price; None: not known.
        """
        self._used.append(key)
        for budget, ticket in self._tickets.pop(key, ()):
            budget.correct(ticket, tokens, usd)

    async def close(self) -> None:
        """Forget what has been used; the answers must be in the cache for good by then."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._forget)

    def _forget(self) -> None:
        self._cache.flush()
        left = set(self._records.answered()) - set(self._used)
        self._records.done_with([*self._used, *self._in_cache(list(left))])

    # -- serving -------------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Send and hand out until nobody waits; whatever goes wrong is raised by those who wait."""
        looks = FIRST_LOOK
        try:
            while self._waiters:
                await self._quiet()
                if not self._waiters:
                    return
                if await self._turn():
                    looks = FIRST_LOOK
                elif self._wait:
                    longest = min(waiter.channel.settings.poll_seconds for waiter in self._waiters.values())
                    await asyncio.sleep(min(looks, longest))
                    looks = min(looks * 1.5, longest)
                else:
                    self._fail(BatchPending(await asyncio.to_thread(self._pending)))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._fail(error)

    async def _quiet(self) -> None:
        """Wait until everybody who asks waits for an answer, and has for a while."""
        while True:
            before = self._changes
            await asyncio.sleep(LINGER)
            for _ in range(3):  # a busy loop is late with its timers: those who are ready come first
                await asyncio.sleep(0)
            if self._changes == before and self._idle >= self._asking:
                return

    async def _turn(self) -> bool:
        """Collect what has come, send what is new; returns whether anybody has an answer now."""
        self._waiters = {key: waiter for key, waiter in self._waiters.items() if not waiter.answer.done()}
        for channel in self._channels():
            await self._recover(channel)
        known = await asyncio.to_thread(self._records.look_up, list(self._waiters))
        flights = {flight.token: flight for flight in await asyncio.to_thread(self._records.flights)}
        under_way = {found.token: self._waiters[key].channel for key, found in known.items() if found.result is None}
        for token, channel in sorted(under_way.items(), key=lambda item: item[0]):
            if token in flights and flights[token].state == "sent":
                await self._collect(channel, flights[token])
        if under_way:
            known = await asyncio.to_thread(self._records.look_up, list(self._waiters))
        handed = self._hand_out({key: found for key, found in known.items() if found.result is not None})
        new = [waiter for key, waiter in self._waiters.items() if key not in known and not waiter.answer.done()]
        left = self._without_cached(new)
        return await self._send(left) or handed or len(left) < len(new)

    def _in_cache(self, keys: Sequence[bytes]) -> set[bytes]:
        return {key for key in keys if self._cache.answer(key) is not None} | set(self._cache.vectors(keys))

    def _without_cached(self, waiters: Sequence[Waiter]) -> list[Waiter]:
        """Questions to send; those whose answers another process put into the cache meanwhile are looked up there."""
        there = self._in_cache([waiter.question.key for waiter in waiters if not waiter.stale])
        for key in there:
            waiter = self._waiters.pop(key)
            if not waiter.answer.done():
                waiter.answer.set_result(None)
        return [waiter for waiter in waiters if waiter.question.key not in there]

    async def _collect(self, channel: Channel, flight: Flight) -> None:
        try:
            await channel.collect(flight, self._records)
        except GatewayError as error:
            if not (self._wait and error.passing):
                raise
            logger.warning("%s", error)

    def _channels(self) -> list[Channel]:
        return list({id(waiter.channel): waiter.channel for waiter in self._waiters.values()}.values())

    def _hand_out(self, found: Mapping[bytes, Found]) -> bool:
        """Give answers to those who wait for them; an empty one is to be asked anew."""
        for key, result in found.items():
            waiter = self._waiters.pop(key)
            if not result.result:
                self.used(key, 0, 0.0)
            if not waiter.answer.done():
                waiter.answer.set_result(result.result or None)
        return bool(found)

    def _fail(self, error: Exception, waiters: Sequence[Waiter] | None = None) -> None:
        """Raise an error with those who wait."""
        for waiter in list(self._waiters.values()) if waiters is None else waiters:
            self._waiters.pop(waiter.question.key, None)
            if not waiter.answer.done():
                waiter.answer.set_exception(error)
                waiter.answer.exception()  # those who waited may be gone

    def _pending(self) -> str:
        """What is waited for, in words."""
        known = self._records.look_up(list(self._waiters))
        tokens = {found.token for found in known.values()}
        flights = [flight for flight in self._records.flights() if flight.token in tokens]
        later = len(self._waiters) - len(known)
        told = "; ".join(told_flight(flight) for flight in flights)
        more = f"; {later} questions will be sent when these are answered" if later else ""
        return f"waiting for a provider's batch: {told}{more}"

    # -- sending -------------------------------------------------------------------------------------------------------

    async def _send(self, waiters: Sequence[Waiter]) -> bool:
        """Send questions that are in no batch; returns whether some are to be asked by ordinary calls instead."""
        direct = False
        for channel in self._channels():
            mine = [waiter for waiter in waiters if waiter.channel is channel]
            if not mine:
                continue
            given_up = await asyncio.to_thread(self._records.given_up, [waiter.question.key for waiter in mine])
            few = len(mine) - len(given_up) < channel.settings.min_requests
            alone = mine if few else [waiter for waiter in mine if waiter.question.key in given_up]
            for waiter in alone:
                del self._waiters[waiter.question.key]
                waiter.answer.set_result(None)
            direct = direct or bool(alone)
            if not few:
                await self._submit(channel, [waiter for waiter in mine if waiter.question.key not in given_up])
        return direct

    async def _submit(self, channel: Channel, waiters: Sequence[Waiter]) -> None:
        """Send questions as files, as far as the budget allows; no other process sends at the same time."""
        with await self._right_to_send():
            taken = await asyncio.to_thread(self._records.look_up, [waiter.question.key for waiter in waiters])
            fresh = self._without_cached([waiter for waiter in waiters if waiter.question.key not in taken])
            by_key = {waiter.question.key: waiter for waiter in fresh}
            for part in channel.files([waiter.question for waiter in fresh], self._records):
                allowed = self._reserve([by_key[question.key] for question in part])
                allowed, held = await self._reserve_day(channel, allowed)
                if allowed:
                    await self._send_file(channel, allowed, held)
                if len(allowed) < len(part):
                    return

    async def _reserve_day(self, channel: Channel, waiters: list[Waiter]) -> tuple[list[Waiter], Held | None]:
        """As many of the questions as the budget of the day allows, halving them until they fit."""
        while waiters:
            try:
                return waiters, await channel.set_aside([waiter.estimate for waiter in waiters])
            except GatewayError as error:
                few = waiters[: len(waiters) // 2] if isinstance(error, DayReached) else []
                for waiter in waiters[len(few) :]:
                    self._correct(waiter.question.key)
                if not few:
                    self._fail(error, waiters)
                waiters = few
        return [], None

    async def _send_file(self, channel: Channel, waiters: Sequence[Waiter], held: Held | None) -> None:
        stages = ", ".join(sorted({waiter.stage for waiter in waiters}))
        asked = [waiter.question for waiter in waiters]
        try:
            flight = await channel.send(asked, self._place, stages, self._records, held)
        except BaseException:
            for waiter in waiters:  # whether it was sent will be known when its record is looked into
                self._correct(waiter.question.key)
            raise
        if self._wait and flight.token not in self._told:
            self._told.add(flight.token)
            every = f"looking every {channel.settings.poll_seconds:g} s"
            logger.warning("waiting for a provider's batch: %s; %s", told_flight(flight), every)

    def _correct(self, key: bytes) -> None:
        for budget, ticket in self._tickets.pop(key, ()):
            budget.correct(ticket, 0, 0.0)

    def _reserve(self, waiters: Sequence[Waiter]) -> list[Waiter]:
        """The questions that the budget allows to send at once, the price of each set aside.

        Where it allows none, and nothing that was set aside may come back, those who ask are told that it is reached.
        """
        allowed: list[Waiter] = []
        for waiter in waiters:
            held: list[tuple[Budget, Ticket]] = []
            for budget in waiter.budgets:
                try:
                    ticket = budget.reserve_now(waiter.estimate)
                except GatewayError as error:
                    self._fail(error, waiters)
                    return []
                if ticket is None:
                    for other, ticket in held:
                        other.correct(ticket, 0, 0.0)
                    if not allowed and not self._tickets:
                        self._fail(budget.reached_by(waiter.estimate), waiters)
                    return allowed
                held.append((budget, ticket))
            if held:
                self._tickets[waiter.question.key] = held
            allowed.append(waiter)
        return allowed

    async def _right_to_send(self) -> TextIOWrapper:
        """The right to send, waited for."""
        while (right := self._records.right_to_send()) is None:  # noqa: ASYNC110 (another process sets no event)
            await asyncio.sleep(_LOCK_SECONDS)
        return right

    async def _recover(self, channel: Channel) -> None:
        """Find out what became of batches whose sender was killed."""
        flights = await asyncio.to_thread(self._records.flights)
        if not any(flight.state == "writing" and flight.provider == channel.provider for flight in flights):
            return
        with await self._right_to_send():
            for flight in await asyncio.to_thread(self._records.flights):
                if flight.state == "writing" and flight.provider == channel.provider:
                    await channel.recover(flight, self._records)


def told_flight(flight: Flight) -> str:
    """A batch in words."""
    progress = f", {flight.done} of them done" if flight.done else ""
    state = flight.status or flight.state
    return f"{flight.requests} questions of {flight.stages} to {flight.entry} ({flight.provider_id}, {state}{progress})"
