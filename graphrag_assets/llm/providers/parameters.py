"""Which parameters a model takes: known ones beforehand, others from the provider's first refusal; for that model only."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping

from graphrag_assets.llm.errors import PermanentError
from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.settings import ModelSettings

#: What OpenAI's reasoning models refuse, unless it has the only value that they take.
_SAMPLING: Mapping[str, object] = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logprobs": None,
    "top_logprobs": None,
    "logit_bias": None,
}

#: The old name of the limit of an answer, and the new one.
OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"

#: Providers that refuse what a model does not know; others leave it unread.
_STRICT = frozenset({"openai", "azure"})

#: Parts of a request without which there is none.
_NEEDED = frozenset({"model", "messages", "input", "stream"})

_REFUSED = re.compile(
    r"unsupported|not supported|does(?: not|n't) support|unrecognized|unrecognised|unknown|unexpected|not permitted|"
    r"not allowed|extra (?:input|field)|invalid (?:parameter|argument|field)|cannot both|only the default",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"['\"`‘“]([a-z][a-z0-9_]{2,40})(?:\.[\w.]+)?['\"`’”]|\b([a-z]+(?:_[a-z0-9]+)+)\b|\b(temperature|seed|stop|user)\b"
)


def is_reasoning(model: ModelSettings, known: ModelFacts) -> bool:
    """Whether the model is one of those of OpenAI that reason, and take no sampling parameters."""
    return model.model_provider in _STRICT and known.reasoning and "-chat" not in model.model


def unfit(model: ModelSettings, known: ModelFacts, parameters: Mapping[str, object]) -> list[str]:
    """Parameters of an entry that its model is known to refuse; left out, unless the entry says drop_params: false.

    Args:
        model: Settings of the entry.
        known: What is known about the model.
        parameters: Parameters of the entry.
    """
    if not is_reasoning(model, known) or not model.call_args.get("drop_params", True):
        return []
    return [name for name, value in parameters.items() if name in _SAMPLING and value != _SAMPLING[name]]


def blamed(error: PermanentError, sent: Container[str]) -> str | None:
    """The parameter that a refusal blames, where the request can do without it.

    Args:
        error: A 400.
        sent: Parameters of the request.
    """
    told = f"{error.code} {error}"
    names: Iterable[str] = [error.parameter, *(a or b or c for a, b, c in _QUOTED.findall(str(error)))]
    if not _REFUSED.search(told):
        return None
    return next((name for name in names if name and name in sent and name not in _NEEDED), None)
