"""What a new workspace says of a model server on one's own machine: docs/local-models.md explains it."""

from __future__ import annotations

#: Addresses under which such servers usually answer.
ADDRESSES = {
    "ollama": "http://localhost:11434",
    "ollama_chat": "http://localhost:11434",
    "lm_studio": "http://localhost:1234/v1",
    "hosted_vllm": "http://localhost:8000/v1",
    "llamafile": "http://localhost:8080/v1",
}

#: The greatest prompts of a run and of the searches, for a window of 8192 tokens that the answer shares.
SMALL_WINDOW = """\
# A server of one's own answers few calls at once, and reads less: see docs/local-models.md.
concurrent_requests: 2
community_reports: {max_input_length: 4000, max_length: 600}
summarize_descriptions: {max_input_tokens: 3000}
local_search: {max_context_tokens: 4000}
global_search: {max_context_tokens: 4000, data_max_tokens: 4000}
drift_search: {primer_llm_max_tokens: 4000, local_search_max_data_tokens: 4000, data_max_tokens: 4000}
basic_search: {max_context_tokens: 4000}
"""

_OLLAMA = "{temperature: 0, num_ctx: 8192, reasoning_effort: none} # num_ctx: the window; none: no thinking"
_TEMPLATE = "{temperature: 0, chat_template_kwargs: {enable_thinking: false}} # no thinking before the answer"

_CALL_ARGS = {
    "ollama": _OLLAMA,
    "ollama_chat": _OLLAMA,
    "hosted_vllm": _TEMPLATE,
    "llamafile": _TEMPLATE,
    "lm_studio": "{temperature: 0}",
}


def completion_lines(provider: str) -> list[str]:
    """Further lines of the entry of a chat model on such a server; none for other providers."""
    if provider not in _CALL_ARGS:
        return []
    return [
        f"    call_args: {_CALL_ARGS[provider]}",
        "    structured_output: true # the server can hold an answer to a JSON schema",
        "    timeout: 600 # seconds: without a GPU an answer takes minutes",
        "    prices: {input_per_million: 0, output_per_million: 0}",
    ]


def embedding_lines(provider: str) -> list[str]:
    """The same for an embedding model."""
    if provider not in _CALL_ARGS:
        return []
    return ["    batch_size: 8", "    timeout: 600", "    prices: {input_per_million: 0}"]
