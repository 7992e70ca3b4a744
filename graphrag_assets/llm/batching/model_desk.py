"""The desk as one model sees it: questions in, answers out, in the words of the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from graphrag_assets.llm.asking.calls import ModelCalls
from graphrag_assets.llm.batching.channel import Channel
from graphrag_assets.llm.batching.desk import Desk
from graphrag_assets.llm.batching.lines import question
from graphrag_assets.llm.errors import PassingError
from graphrag_assets.llm.providers.clients import ChatAnswer, TokenUsage, VectorAnswer
from graphrag_assets.llm.providers.direct import chat_answer, vector_answer
from graphrag_assets.llm.usage import StageUsage
from graphrag_assets.settings import BatchApiSettings

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


class ModelDesk:
    """Questions to one model through its batch API.

    Args:
        desk: The desk of the gateway.
        calls: The model.
        settings: Its batch_api.
        path: :data:`CHAT` or :data:`EMBEDDINGS`.
    """

    def __init__(self, desk: Desk, calls: ModelCalls, settings: BatchApiSettings, path: str) -> None:
        self._desk = desk
        self._calls = calls
        self._channel = Channel(calls, settings, path)

    def idle(self) -> AbstractContextManager[None]:
        """See :meth:`Desk.idle`."""
        return self._desk.idle()

    async def chat(self, stage: str, key: bytes, body: dict[str, Any], texts: Sequence[str]) -> ChatAnswer | None:
        """The answer to a question that is set down; None where it is to be asked by an ordinary call.

        Args:
            stage: Who asks.
            key: Key of the answer in the cache.
            body: Body of the request.
            texts: The prompt.

        Raises:
            BatchPending, GatewayError: As :meth:`Desk.ask`.
        """
        estimate, budgets = self._calls.set_down(texts, self._channel.settings.price)
        asked = [(question(key, self._channel.path, body), estimate)]
        (found,) = await self._desk.ask(self._channel, stage, asked, budgets)
        if found is None:
            return None
        try:
            return chat_answer(found)
        except PassingError:
            self._desk.used(key)
            return None

    async def vectors(self, stage: str, kind: str, texts: dict[bytes, str]) -> dict[bytes, VectorAnswer]:
        """Vectors of texts by key, one each; those that are to be asked for by ordinary calls are left out.

        Args:
            stage: Who asks.
            kind: document or query.
            texts: Texts by the keys of their vectors.
        """
        price = self._channel.settings.price
        sized = {key: self._calls.set_down([text], price) for key, text in texts.items()}
        asked = [
            (question(key, self._channel.path, self._calls.client.embed_body([text], kind)), sized[key][0])
            for key, text in texts.items()
        ]
        budgets = next(iter(sized.values()))[1] if sized else []
        answers: dict[bytes, VectorAnswer] = {}
        for key, found in zip(texts, await self._desk.ask(self._channel, stage, asked, budgets), strict=True):
            if found is None:
                continue
            try:
                answers[key] = vector_answer(found)
            except PassingError:
                self._desk.used(key)
        return answers

    def book(self, account: StageUsage, key: bytes, usage: TokenUsage | None) -> None:
        """Book an answer at the price of batches; nothing but :meth:`put <AnswerCache.put_answer>` may follow.

        Args:
            account: Where.
            key: Its question.
            usage: Tokens, None where the provider does not say.
        """
        usual = self._calls.facts.usd(usage)
        usd = None if usual is None else usual * self._channel.settings.price
        account.calls += 1
        account.batched += 1
        account.answered(usage, usd)
        self._desk.used(key, None if usage is None else usage.prompt + usage.completion, usd)

    async def close(self) -> None:
        """Close connections."""
        await self._channel.close()
