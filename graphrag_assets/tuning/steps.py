"""Tuning from a sample to new prompts: what will be asked, what it may cost, and the asking.

One question describes the collection, and one for each example lists the graph of a passage. Nothing is written here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from graphrag_assets.indexing.asking import AnswerError
from graphrag_assets.llm.gateway import Asking
from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.prompt_files import load_prompt, prompt_problems
from graphrag_assets.settings import Workspace
from graphrag_assets.text.templates import render
from graphrag_assets.tuning.profile import (
    PROFILE_SCHEMA,
    Given,
    Profile,
    profile_question,
    read_profile,
)
from graphrag_assets.tuning.sampling import Passage
from graphrag_assets.tuning.writing import (
    Example,
    extraction_prompt,
    fitting_examples,
    read_example,
    tuned,
)

#: Stages whose prompts are tuned.
STAGES = ("extract_graph", "summarize_descriptions", "community_reports")

#: Stage that the calls are booked to.
STAGE = "tune_prompts"

#: Tokens of an answer: of a profile, and of an example for each token of its passage, usual and most.
_PROFILE_ANSWER = (300, 800)
_EXAMPLE_ANSWER = (1.5, 4.0)

#: Tokens of persona and entity types, which are not known before the first answer.
_PERSONA = 120

#: Tokens of a prompt's window that are left to the answer.
_LEFT = 1_000


class TuneError(ValueError):
    """Prompts could not be tuned; the message names the step. Nothing was written."""


@dataclass(frozen=True)
class Wish:
    """What is asked for.

    Args:
        stages: Stages whose prompts are tuned.
        given: What the user says of the collection.
        examples: Worked examples in the extraction prompt.
        most: Most tokens of the extraction prompt, without the text that it is asked about.
        model_id: Entry of completion_models.
    """

    stages: tuple[str, ...]
    given: Given
    examples: int
    most: int
    model_id: str


@dataclass(frozen=True)
class Price:
    """What tuning takes; low to high where it is estimated.

    Args:
        calls: Fewest and most questions.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens received.
        usd: Price; None where it is not known.
        embedding_tokens: Tokens of the passages that are embedded for the sample; 0 where none is paid for.
    """

    calls: tuple[int, int]
    prompt_tokens: tuple[int, int]
    completion_tokens: tuple[int, int]
    usd: tuple[float, float] | None
    embedding_tokens: int = 0


@dataclass
class Tuned:
    """New prompts.

    Args:
        prompts: Text by name of the prompt.
        profile: What the model says of the collection.
        examples: The examples in the extraction prompt.
        notes: What a person should know.
    """

    prompts: dict[str, str]
    profile: Profile
    examples: list[Example]
    notes: list[str] = field(default_factory=list)


def extraction_name(workspace: Workspace) -> str:
    """Name of the extraction prompt in use."""
    return "extract_graph" if workspace.settings.extract_graph.format == "tuple" else "extract_graph_json"


def price(
    workspace: Workspace,
    wish: Wish,
    texts: Sequence[Passage],
    candidates: Sequence[Passage],
    facts: ModelFacts,
    embedding: ModelFacts | None,
    count: Callable[[str], int],
) -> Price:
    """What tuning will take, before anything is sent; answers in the cache cost less.

    Args:
        workspace: Settings and prompts.
        wish: What is asked for.
        texts: The sample; where it is chosen by vectors, as many of the longest candidates.
        candidates: Passages that are embedded; none where the sample needs no vectors.
        facts: Price of the model that answers.
        embedding: Price of the model that embeds; None: the embedded model, which costs nothing.
        count: Counts tokens.
    """
    asked = len(texts)
    fewest = min(wish.examples, asked) if "extract_graph" in wish.stages else 0
    most = asked if fewest else 0
    question = count(profile_question(load_prompt(workspace, "tune_profile"), [p.text for p in texts], wish.given))
    head = count(load_prompt(workspace, "tune_examples")) + _PERSONA if fewest else 0
    sizes = sorted((p.tokens for p in texts), reverse=True)
    prompts = question + fewest * head + sum(sizes[:fewest]), question + most * head + sum(sizes)
    answers = (
        _PROFILE_ANSWER[0] + round(_EXAMPLE_ANSWER[0] * sum(sizes[:fewest])),
        _PROFILE_ANSWER[1] + (round(_EXAMPLE_ANSWER[1] * sum(sizes)) if most else 0),
    )
    embedded = sum(p.tokens for p in candidates) if embedding is not None else 0
    usd = None
    if facts.input_usd is not None and facts.output_usd is not None:
        extra = embedded * embedding.input_usd if embedding is not None and embedding.input_usd is not None else 0.0
        low, high = (p * facts.input_usd + a * facts.output_usd + extra for p, a in zip(prompts, answers, strict=True))
        usd = (low, high)
    if embedded and embedding is not None and embedding.input_usd is None:
        usd = None
    return Price((1 + fewest, 1 + most), prompts, answers, usd, embedded)


async def tune(
    workspace: Workspace,
    asking: Asking,
    wish: Wish,
    texts: Sequence[Passage],
    count: Callable[[str], int],
    window: int | None,
) -> Tuned:
    """Ask, and make the new prompts.

    Args:
        workspace: Settings and prompts.
        asking: The gateway.
        wish: What is asked for.
        texts: The sample, the most telling passages first.
        count: Counts tokens.
        window: Most tokens of a prompt; None: not known.

    Raises:
        TuneError: A step got no usable answer, or what came of it is no prompt.
        GatewayError: The model cannot be used, or the budget is reached.
    """
    notes: list[str] = []
    profile = await _profile(workspace, asking, wish, texts, count, window, notes)
    prompts: dict[str, str] = {}
    examples: list[Example] = []
    if "extract_graph" in wish.stages:
        name = extraction_name(workspace)
        template, form = load_prompt(workspace, f"tuned_{name}"), workspace.settings.extract_graph.format
        found = await _examples(workspace, asking, wish, profile, texts, notes)
        examples = fitting_examples(template, profile, found, form, wish.most, count)
        if len(examples) < len(found):
            notes.append(
                f"{len(found) - len(examples)} of {len(found)} examples were left out, since with them the prompt has more "
                f"than {wish.most} tokens (--max-prompt-tokens)"
            )
        prompts[name] = extraction_prompt(template, profile, examples, form)
    for stage, name in (
        ("summarize_descriptions", "summarize_descriptions"),
        ("community_reports", "community_report_graph"),
    ):
        if stage in wish.stages:
            prompts[name] = tuned(load_prompt(workspace, f"tuned_{name}"), profile)
    for name, text in prompts.items():
        if problems := prompt_problems(name, text):
            raise TuneError(f"the tuned prompt {name} cannot be used: {'; '.join(problems)}")
    return Tuned(prompts, profile, examples, notes)


async def _profile(
    workspace: Workspace,
    asking: Asking,
    wish: Wish,
    texts: Sequence[Passage],
    count: Callable[[str], int],
    window: int | None,
    notes: list[str],
) -> Profile:
    template = load_prompt(workspace, "tune_profile")
    shown = [passage.text for passage in texts]
    while window is not None and count(profile_question(template, shown, wish.given)) > max(
        window - _LEFT, window // 2
    ):
        if len(shown) == 1:
            raise TuneError(
                f"one passage and the question do not fit the window of {window} tokens of {wish.model_id}; "
                "ask with a smaller --chunk-tokens, or set context_window of the entry"
            )
        shown.pop()
    if len(shown) < len(texts):
        notes.append(
            f"the collection is described by {len(shown)} of {len(texts)} passages: more do not fit the window of {window} "
            f"tokens of {wish.model_id}"
        )
    ask = asking.ask(STAGE, wish.model_id, prompts=[template])
    question = profile_question(template, shown, wish.given)
    try:
        reply = await ask([{"role": "user", "content": question}], read_profile, schema=PROFILE_SCHEMA, row="profile")
    except AnswerError as error:
        raise TuneError(_failed("the description of the collection", wish, error)) from None
    return wish.given.applied(reply.value)


async def _examples(
    workspace: Workspace, asking: Asking, wish: Wish, profile: Profile, texts: Sequence[Passage], notes: list[str]
) -> list[Example]:
    """Worked examples in the order of the sample; a passage that names nothing leaves its place to the next."""
    template = load_prompt(workspace, "tune_examples")
    ask = asking.ask(STAGE, wish.model_id, prompts=[template])

    async def example(passage: Passage) -> Example:
        values = {
            "persona": profile.persona,
            "language_rule": profile.language_rule,
            "entity_types": ", ".join(profile.entity_types),
            "input_text": passage.text,
        }
        try:
            reply = await ask(
                [{"role": "user", "content": render(template, values)}],
                lambda answer: read_example(answer, passage, profile.entity_types),
                row=f"{passage.path} {passage.position}",
            )
        except AnswerError as error:
            raise TuneError(_failed(f"the example out of {passage.path}", wish, error)) from None
        return Example(passage, reply.value)

    found: list[Example] = []
    waiting = list(texts)
    while waiting and len(found) < wish.examples:
        some = [waiting.pop(0) for _ in range(min(len(waiting), wish.examples - len(found)))]
        made = await asyncio.gather(*map(example, some), return_exceptions=True)  # those in flight end, and are kept
        for one in made:
            if isinstance(one, BaseException):
                raise one
            found += [one] if one.graph.entities else []
    if len(found) < wish.examples:
        notes.append(
            f"{len(found)} examples instead of {wish.examples}: no other passage names entities of these types"
        )
    return found


def _failed(step: str, wish: Wish, error: AnswerError) -> str:
    return f"{step} got no usable answer from {wish.model_id} ({error.status}: {error.reason}); no prompt was changed"
