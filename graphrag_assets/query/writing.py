"""The last step of a search with a language model: writing the answer, streamed or not, within the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from graphrag_assets.indexing.asking import Message
from graphrag_assets.llm.limiting.budget import Budget, BudgetReached
from graphrag_assets.prompt_files import PromptError, load_prompt
from graphrag_assets.query.calls import TIMED_OUT, Deadline, Outcome, call, call_all, parse_text, told
from graphrag_assets.query.citations import Citable, CitationStream
from graphrag_assets.query.errors import QueryError
from graphrag_assets.query.history import Turn
from graphrag_assets.query.index import Index
from graphrag_assets.query.models import Chat, Models
from graphrag_assets.query.plain import PlainStream
from graphrag_assets.query.result import Stopwatch
from graphrag_assets.settings import Settings
from graphrag_assets.text.templates import render

#: Takes pieces of the answer as they come: text only, with checked citations.
OnText = Callable[[str], None]


@dataclass
class Question:
    """One question on its way through a search.

    Args:
        index: The snapshot that is asked.
        models: What answers.
        text: The question.
        history: Turns of the conversation, oldest first.
        response_type: Form of the answer, in words for the model.
        level: Deepest community level; None: as set.
        deadline: When the answer must be there.
        on_text: Takes the answer while it is written; None: it is not streamed.
        watch: Times the steps.
        budget: Ceiling of tokens and price.
        dynamic: Whether global search lets the model choose reports; None: as set.
        auto: Whether the search was chosen for it, so that another one may take over.
        whole: True where it was found to ask about the documents as a whole, whatever its words.
    """

    index: Index
    models: Models
    text: str
    history: Sequence[Turn] = ()
    response_type: str = "Multiple Paragraphs"
    level: int | None = None
    deadline: Deadline = field(default_factory=Deadline)
    on_text: OnText | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)
    budget: Budget = field(default_factory=Budget)
    dynamic: bool | None = None
    auto: bool = False
    whole: bool = False

    @property
    def settings(self) -> Settings:
        """Settings of the workspace."""
        return self.index.settings

    @property
    def chat(self) -> Chat:
        """The language model; searches that need one are only called where there is one."""
        if self.models.chat is None:
            raise QueryError("no language model is configured: add one under completion_models in settings.yaml")
        return self.models.chat

    @property
    def max_turns(self) -> int:
        """Turns of the conversation that are used."""
        return self.settings.local_search.conversation_history_max_turns

    @property
    def community_level(self) -> int:
        """Deepest community level whose reports are read."""
        return self.settings.global_search.community_level if self.level is None else self.level

    def prompt(self, name: str, override: str | None) -> str:
        """A prompt template.

        Raises:
            QueryError: There is no such file.
        """
        try:
            return load_prompt(self.index.workspace, name, override)
        except PromptError as error:
            raise QueryError(str(error)) from error


async def write_answer(
    question: Question, stage: str, model_id: str, template: str, variables: Mapping[str, str], citable: Citable
) -> Outcome[str]:
    """Ask the model for the final answer.

    Args:
        question: The question; its text is the user's message.
        stage: Stage for the accounts.
        model_id: Entry of completion_models.
        template: System prompt.
        variables: Its variables.
        citable: Rows that may be cited; other ids never reach a stream.

    Returns:
        The text; when a stream broke or the deadline passed while it was written, what had come, with the reason.
    """
    messages = [
        {"role": "system", "content": render(template, variables)},
        {"role": "user", "content": question.text},
    ]
    with question.watch.step("answer"):
        if question.on_text is not None:
            return await _stream(question, question.on_text, stage, model_id, messages, citable)
        asked = call(question.chat.ask(stage, model_id), messages, parse_text, row=question.text)
        return (await call_all([asked], question.deadline))[0]


async def _stream(
    question: Question, on_text: OnText, stage: str, model_id: str, messages: Sequence[Message], citable: Citable
) -> Outcome[str]:
    plain, checked = PlainStream(), CitationStream(citable)
    pieces: list[str] = []
    reason, stopped = "", False

    def take(text: str) -> None:
        pieces.append(text)
        if ready := checked.feed(text):
            on_text(ready)

    try:
        async with asyncio.timeout(question.deadline.remaining()):
            async for piece in question.chat.chat_stream(stage, model_id, messages):
                take(plain.feed(piece))
    except TimeoutError:
        stopped = question.deadline.passed
        reason = TIMED_OUT if stopped else "the model did not answer in time"
    except BudgetReached as error:
        reason, stopped = str(error), True
    except Exception as error:  # the client's own errors: connection, authorisation
        reason = told(error)
    take(plain.finish())
    if rest := checked.finish():
        on_text(rest)
    text = "".join(pieces).strip()
    if not text:
        return Outcome(None, reason or "the answer is empty, or an object of JSON without a text", stopped)
    return Outcome(text, reason, stopped)
