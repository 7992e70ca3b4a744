"""What stands in for the gateway while a plan is made: it looks into the cache, counts, and supposes what is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import SecretStr

from graphrag_assets.indexing.asking import Ask, Message, Reply
from graphrag_assets.llm.asking.answers import Answers
from graphrag_assets.llm.asking.calls import ModelCalls
from graphrag_assets.llm.caching.local import AnswerCache
from graphrag_assets.plan import supposing
from graphrag_assets.plan.figures import StagePlan
from graphrag_assets.plan.history import History
from graphrag_assets.settings import ModelSettings, Workspace
from graphrag_assets.settings_models import has_key

T = TypeVar("T")

#: Tokens that the form of a chat takes: of each message, and once.
MESSAGE_TOKENS, CHAT_TOKENS = 4, 3

#: What is added to the name of a stage for the turns after the first.
GLEANINGS = "_gleanings"


@dataclass
class Texts:
    """What questions are about, by the id of their row.

    Args:
        units: Texts of text units.
        descriptions: What was extracted about an entity or a relationship, joined.
    """

    units: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)


class Supposing:
    """Asks nobody: answers come from the cache, else they are supposed, and what they would cost is counted.

    Args:
        workspace: Models and settings.
        cache: Answers that are there; it is only read.
        history: What past calls teach.
        count: Counts the tokens of a text.
        anew: Stages that are asked anew, with the moment before which stored answers count as none.
    """

    def __init__(
        self,
        workspace: Workspace,
        cache: AnswerCache,
        history: History,
        count: Callable[[str], int],
        anew: Mapping[str, float] | None = None,
    ) -> None:
        self.workspace = workspace
        self.cache = cache
        self.history = history
        self.count = count
        self.anew = anew or {}
        self.texts = Texts()
        self.stages: dict[str, StagePlan] = {}
        self.supposed: dict[str, int] = {}
        self.answered: dict[bytes, str] = {}
        self._answers: dict[str, Answers] = {}

    def ask(self, stage: str, model_id: str, part: str = "", prompts: Sequence[str] = ()) -> Ask:
        """See :class:`graphrag_assets.llm.gateway.Asking`."""
        return _Supposer(
            self, stage, self.answers(model_id), len(prompts[0].partition("{input_text}")[0]) if prompts else 0
        )

    def answers(self, model_id: str) -> Answers:
        """Questions to a chat model."""
        if model_id not in self._answers:
            calls = self.connect(f"completion_models.{model_id}", self.workspace.settings.completion_model(model_id))
            self._answers[model_id] = Answers(calls, self.cache)
        return self._answers[model_id]

    def connect(self, entry: str, settings: ModelSettings, *, completes: bool = True) -> ModelCalls:
        """The model of an entry; a plan needs no key, since nothing is sent."""
        known = settings if has_key(settings) else settings.model_copy(update={"api_key": SecretStr("none")})
        return ModelCalls(entry, known, asyncio.Semaphore(1), completes=completes, count=self.count)

    def stage(self, name: str, calls: ModelCalls) -> StagePlan:
        """Where a stage is booked."""
        if name not in self.stages:
            model = f"{calls.settings.model_provider}/{calls.settings.model}"
            at_once = not self.workspace.settings.cache.enabled or name.removesuffix(GLEANINGS) in self.anew
            in_batches = None if at_once else calls.settings.batch_api
            self.stages[name] = StagePlan(name, model, calls.facts, batch_api=in_batches)
        return self.stages[name]

    def size(self, messages: Sequence[Message]) -> tuple[int, bool]:
        """Tokens of a conversation, and whether all of it is what would be sent."""
        sizes = [self.supposed.get(message["content"]) for message in messages]
        known = [self.count(m["content"]) if size is None else size for m, size in zip(messages, sizes, strict=True)]
        return sum(known) + MESSAGE_TOKENS * len(messages) + CHAT_TOKENS, not any(size is not None for size in sizes)


@dataclass(frozen=True)
class _Supposer:
    """An :class:`Ask` for one stage.

    Args:
        head: Letters of the prompt before what it is about.
    """

    plan: Supposing
    stage: str
    answers: Answers
    head: int

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
        """See :class:`Ask`."""
        gleaning = len(messages) > 1
        booked = self.plan.stage(self.stage + (GLEANINGS if gleaning else ""), self.answers.calls)
        key, known = await self.answers.known(messages, parse, schema, self.plan.anew.get(self.stage, 0.0))
        earlier = (await self.answers.known(messages, parse, schema))[1] if self.stage in self.plan.anew else None
        if known is not None:
            booked.cached += 1
            return known
        if key in self.plan.answered:  # an equal question is sent once
            booked.cached += 1
            text = self.plan.answered[key]
            return Reply(parse(text), text, attempts=0)
        tokens, exact = self.plan.size(messages)
        text = earlier.text if earlier else self._suppose(messages, row, gleaning)
        past = (self.stage, booked.model, gleaning)
        learnt = self.plan.count(text) if earlier else self.plan.history.answers.get(past)
        completion = round(learnt) if learnt is not None else self.plan.count(text)
        booked.calls += 1
        booked.prompt_tokens += tokens
        booked.completion_tokens += completion
        booked.seconds += self.plan.history.latency(past, completion)
        booked.exact &= exact
        booked.learnt = learnt is not None
        self.plan.answered[key] = text
        self.plan.supposed[text] = completion
        return Reply(parse(text), text)

    def _suppose(self, messages: Sequence[Message], row: str, gleaning: bool) -> str:
        texts, density = self.plan.texts, self.plan.history.density
        if self.stage == "extract_graph":
            # With one text unit of a conversation after the other, "is there more?" is asked between two gleanings.
            return "N" if len(messages) > 3 else supposing.extraction(texts.units[row], density, gleaning)
        if self.stage == "extract_claims":
            return "N" if len(messages) > 3 else supposing.claims(texts.units[row], density, gleaning)
        if self.stage == "summarize_descriptions":
            return supposing.summary(texts.descriptions.get(row, ""))
        if self.stage == "resolve_entities":
            return supposing.verdicts(row.count("\n") + 1)
        return supposing.report(messages[-1]["content"][self.head :])
