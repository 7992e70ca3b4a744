"""Who is asked: the model of a stage, then those that stand in for it, then the answer that there was before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from graphrag_assets.indexing.asking import AnswerError, Message, Reply
from graphrag_assets.llm.asking.answers import Answers, Booking
from graphrag_assets.llm.asking.failed_answers import FailedAnswers
from graphrag_assets.llm.batching.desk import Desk
from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.llm.limiting.budget import BudgetReached
from graphrag_assets.llm.providers.observing import serving

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Asker:
    """An :class:`Ask` for one stage and one model, and those that are asked where it has no usable answer.

    Args:
        answers: Finds the answers of an entry.
        models: Ids of the entries, in order.
        booking: Where questions are booked.
        failed: Where answers that could not be used are kept.
        desk: Where questions wait for a batch; None: they are asked at once.
    """

    def __init__(
        self,
        answers: Callable[[str], Answers],
        models: Sequence[str],
        booking: Booking,
        failed: FailedAnswers | None,
        desk: Desk | None,
    ) -> None:
        self._answers = answers
        self._models = models
        self._booking = booking
        self._failed = failed
        self._desk = desk

    async def __call__(
        self,
        messages: Sequence[Message],
        parse: Callable[[str], T],
        *,
        schema: Mapping[str, Any] | None = None,
        row: str = "",
        partial: bool = False,
        smaller: bool = False,
    ) -> Reply[T]:
        """See :class:`graphrag_assets.indexing.asking.Ask`."""
        with serving(self._booking.stage), self._desk.at_work() if self._desk is not None else nullcontext():
            return await self._ask(messages, parse, schema, row, partial, smaller)

    async def _ask(
        self,
        messages: Sequence[Message],
        parse: Callable[[str], T],
        schema: Mapping[str, Any] | None,
        row: str,
        partial: bool,
        smaller: bool,
    ) -> Reply[T]:
        first, *others = self._models
        try:
            return await self._answers(first).ask(
                self._booking, messages, parse, schema=schema, row=row, partial=partial and not others, smaller=smaller
            )
        except AnswerError as error:
            if smaller and error.too_long:  # the caller goes on with less, and tells whether that helped
                self._booking.account.tried["smaller_input"] += 1
                self._booking.account.failed -= 1
                raise
            last = error
        for model_id in others:
            try:
                return await self._other(model_id, messages, parse, schema, row, partial and model_id == others[-1])
            except AnswerError as error:
                reason = f"{last.reason}; fallback {model_id}: {error.reason}"
                attempts, answer = last.attempts + error.attempts, error.answer or last.answer
                last = AnswerError(
                    error.status,
                    reason,
                    attempts,
                    answer,
                    passing=last.passing or error.passing,
                    too_long=error.too_long,
                )
        if (earlier := await self._earlier(messages, parse, schema)) is not None:
            words = "%s: the earlier answer for %s stays, since none that is new can be used: %s"
            # Pairs of entities have no id, and their titles are text of documents.
            logger.warning(words, self._booking.stage, "a question" if not row or " | " in row else row, last)
            return earlier
        if self._failed is not None:
            await asyncio.to_thread(
                self._failed.keep, self._booking.stage, row, self._answers(self._models[-1]).model, last
            )
        raise last

    async def _earlier(
        self, messages: Sequence[Message], parse: Callable[[str], T], schema: Mapping[str, Any] | None
    ) -> Reply[T] | None:
        """The answer that there was, where it was asked anew in vain: it is better than none."""
        if not self._booking.since:
            return None
        _, earlier = await self._answers(self._models[0]).known(messages, parse, schema)
        return earlier

    async def _other(
        self,
        model_id: str,
        messages: Sequence[Message],
        parse: Callable[[str], T],
        schema: Mapping[str, Any] | None,
        row: str,
        partial: bool,
    ) -> Reply[T]:
        """Ask a fallback model; its answers are its own, in the cache and in the ledger."""
        account = self._booking.account
        try:
            answers = self._answers(model_id)
            reply = await answers.ask(self._booking, messages, parse, schema=schema, row=row, partial=partial)
        except BudgetReached:
            raise
        except GatewayError as error:
            account.step("fallback", recovered=False)
            account.failed += 1  # as for one that is asked
            raise AnswerError("failed", f"it cannot be used: {error}", 0) from error
        except AnswerError:
            account.step("fallback", recovered=False)
            raise
        finally:
            account.failed -= 1  # that of the model before
        account.step("fallback", recovered=True)
        return reply
