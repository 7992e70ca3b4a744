"""How much a model can read, and whether a prompt is longer: told before it is sent, not by the provider's refusal."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from graphrag_assets.llm.prices import ModelFacts
from graphrag_assets.settings import ModelSettings

#: A window as providers name it when they refuse a prompt: "maximum context length is 8192 tokens", "n_ctx = 4096".
_NAMED = re.compile(
    r"(?:context (?:length|window|size)|n_ctx|max_model_len|maximum)[^\d\n]{0,24}(\d{3,8})|\(\d+ > (\d{3,8})\)",
    re.IGNORECASE,
)

#: Tokens that a message takes beside its text.
_MESSAGE_TOKENS = 4

#: A provider that says that a prompt is too long, although it takes less than this share of the known window, is not believed.
_PLAUSIBLE = 0.5

#: A server that read less than this share of what we count cut the rest: at a number of tokens that a window has, and at
#: any other one. Tokenizers differ, for some scripts by nearly as much.
_READ, _READ_ODDLY = 0.75, 0.5

#: Providers whose servers cut what they cannot read, without a word.
CUTTING = frozenset({"ollama", "ollama_chat"})

#: Servers have windows of so many tokens times any number.
_STEP = 256


_SMALLER = (
    "make the input smaller (chunking.size, community_reports.max_input_length, summarize_descriptions.max_input_tokens, "
    "max_context_tokens of the searches)"
)


class Window:
    """The window of one model.

    Args:
        entry: Name of the entry, for messages.
        model: Settings of the entry.
        known: What is known about the model.
        count: Counts the tokens of a text.
    """

    def __init__(self, entry: str, model: ModelSettings, known: ModelFacts, count: Callable[[str], int]) -> None:
        self.tokens = known.context_window
        self._name = f"{entry} ({model.model_provider}/{model.model})"
        self._cuts = model.model_provider in CUTTING
        self._count = count
        self._suspicious: set[int] = set()

    def over(self, texts: Sequence[str]) -> str:
        """Why a prompt cannot be read; empty where it can, or nobody knows.

        A token holds one byte at least, so that most prompts need no counting.
        """
        if self.tokens is None or sum(4 * len(text) for text in texts) <= self.tokens:
            return ""
        if sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) <= self.tokens:
            return ""
        size = self._size(texts)
        if size <= self.tokens:
            return ""
        more = "or set context_window of the entry where it reads more"
        return f"the prompt has {size} tokens, {self._name} reads {self.tokens}; {_SMALLER}, {more}"

    def may_be_over(self, texts: Sequence[str], message: str) -> bool:
        """Whether a prompt can be too long, as the provider says it is.

        Args:
            texts: The prompt.
            message: What the provider says; a window that it names is remembered.
        """
        size = self._size(texts)
        if (named := _NAMED.search(message)) and (window := int(named[1] or named[2])) < size * 1.25:
            self.tokens = window if self.tokens is None else min(window, self.tokens)
            return True
        return self.tokens is None or size >= self.tokens * _PLAUSIBLE

    def silently_cut(self, texts: Sequence[str], read: int) -> str:
        """Why an answer is to a part of the prompt only; empty where it is to all of it.

        Args:
            texts: The prompt.
            read: Tokens that the server says it read; 0 where it does not say.
        """
        at_window = read % _STEP == 0
        if read < _STEP or not (self._cuts or at_window):
            return ""
        share = _READ if at_window else _READ_ODDLY
        if sum(map(len, texts)) <= read or read >= (size := self._size(texts)) * share:
            return ""
        if not self._cuts and read not in self._suspicious:
            # By chance one prompt in 256 has such a length. Only a window is met again, by another prompt.
            self._suspicious.add(read)
            return ""
        self.tokens = read
        return (
            f"{self._name} read only {read} tokens of a prompt of about {size}, and did not say so; raise the context of "
            f"the server (Ollama: num_ctx in call_args, or OLLAMA_CONTEXT_LENGTH), or {_SMALLER}"
        )

    def _size(self, texts: Sequence[str]) -> int:
        return sum(map(self._count, texts)) + _MESSAGE_TOKENS * len(texts)
