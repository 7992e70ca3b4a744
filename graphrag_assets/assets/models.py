"""Models as the assets use them: one gateway a step, its usage on the books and in the metadata."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import dagster as dg

from graphrag_assets import interrupts
from graphrag_assets.settings import Workspace

if TYPE_CHECKING:
    from graphrag_assets.llm.gateway import Gateway
    from graphrag_assets.llm.usage import StageUsage

T = TypeVar("T")

#: Usage of all gateways of this process, by stage; the command line reads it after a run in its own process.
RUN_USAGE: dict[str, StageUsage] = {}


@asynccontextmanager
async def open_gateway(workspace: Workspace) -> AsyncIterator[Gateway]:
    """A gateway for one step; what it used is added to the books of the process when it closes."""
    from graphrag_assets.llm.gateway import Gateway

    gateway = Gateway(workspace)
    try:
        async with gateway:
            yield gateway
    finally:
        for stage, used in gateway.usage().items():
            if stage in RUN_USAGE:
                RUN_USAGE[stage].add(used)
            else:
                RUN_USAGE[stage] = used


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the asynchronous part of a step to its end.

    Raises:
        dg.Failure: A model cannot be used at all (wrong key, unknown model, endpoint gone). The message names the entry
            of the settings and the mend; the step is not retried, since that would not help.
    """
    from graphrag_assets.llm.errors import GatewayError

    try:
        with interrupts.cancelling():
            return asyncio.run(work)
    except* GatewayError as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise dg.Failure(str(first), allow_retries=False) from first


def usage_metadata(usage: dict[str, StageUsage]) -> dict[str, Any]:
    """LLM usage of a step as asset metadata: numbers that the UI can plot over runs.

    Args:
        usage: Accounts by stage.
    """
    metadata: dict[str, Any] = {}
    for stage, used in sorted(usage.items()):
        metadata |= {
            f"{stage}/llm_calls": used.calls,
            f"{stage}/cached_answers": used.cached,
            f"{stage}/failed_answers": used.failed,
            f"{stage}/prompt_tokens": used.prompt_tokens,
            f"{stage}/completion_tokens": used.completion_tokens,
        }
        if used.usd is not None:
            metadata[f"{stage}/cost_usd"] = round(used.usd, 6)
    return metadata
