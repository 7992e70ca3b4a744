"""Models as the assets use them: one gateway a step, its usage on the books and in the metadata."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import dagster as dg

from graphrag_assets import interrupts
from graphrag_assets.assets.refreshing import refreshing
from graphrag_assets.assets.resources import open_storage
from graphrag_assets.llm.limiting.budget import Budget, current_budgets
from graphrag_assets.settings import Workspace
from graphrag_assets.storage.ladder import keep_ladder
from graphrag_assets.storage.vectors import load_lancedb

if TYPE_CHECKING:
    from graphrag_assets.llm.gateway import Gateway
    from graphrag_assets.llm.usage import StageUsage

T = TypeVar("T")

#: Usage of all gateways of this process, by stage; the command line reads it after a run in its own process.
RUN_USAGE: dict[str, StageUsage] = {}

#: Metadata of a step that ended since it waits for a provider's batch.
WAITING = "waits_for_batches"

#: Ceilings of the runs of this process that no command set one for, by run.
_BUDGETS: dict[str, Budget] = {}

#: Why a model cannot be used, by run: further steps of that run do not begin what needs models.
_UNUSABLE: dict[str, str] = {}

#: Runs that the budget of the day ended.
DAY_REACHED: set[str] = set()


def import_ahead() -> None:
    """Import in a thread what the next steps need: while a model is asked, this process has nothing else to do."""

    def load() -> None:
        import duckdb  # noqa: F401
        import networkx as nx  # noqa: F401

        load_lancedb()

    threading.Thread(target=load, name="import-ahead", daemon=True).start()


@asynccontextmanager
async def open_gateway(workspace: Workspace) -> AsyncIterator[Gateway]:
    """A gateway for one step; what it used is added to the books of the process when it closes.

    Raises:
        GatewayError: A model could not be used in an earlier step of the same run. Dagster would go on with the steps that
            do not depend on the failed one; the user had to wait to learn what is wrong.
    """
    from graphrag_assets.llm.batching.waiting import BatchPending
    from graphrag_assets.llm.errors import GatewayError
    from graphrag_assets.llm.gateway import Gateway
    from graphrag_assets.llm.limiting.day_budget import DayReached

    interrupts.check()
    run_id = _run_id()
    if run_id in _UNUSABLE:
        raise GatewayError(f"not begun, since a model could not be used in an earlier step: {_UNUSABLE[run_id]}")
    anew = refreshing(open_storage(workspace))
    gateway = Gateway(workspace, _budget(workspace, run_id), run_id, must_keep=True, anew=anew, batches=True)
    try:
        async with gateway:
            yield gateway
    except (GatewayError, BaseExceptionGroup) as error:
        first = _first(error)
        if run_id and isinstance(first, GatewayError) and not first.passing and not isinstance(first, BatchPending):
            _UNUSABLE[run_id] = str(first)
            if isinstance(first, DayReached):
                DAY_REACHED.add(run_id)
        raise
    finally:
        storage = open_storage(workspace)
        for stage, used in gateway.usage().items():
            if run_id and used.calls:
                keep_ladder(storage, stage, {"calls": used.calls, "failed": used.failed, "ladder": used.ladder})
            if stage in RUN_USAGE:
                RUN_USAGE[stage].add(used)
            else:
                RUN_USAGE[stage] = used


def settings_budget(workspace: Workspace, usd: float | None = None, tokens: int | None = None) -> Budget:
    """The ceiling of a run: as given, else as set."""
    limits = workspace.settings.budget
    return Budget(
        limits.usd_per_run if usd is None else usd, limits.tokens_per_run if tokens is None else tokens, whole=True
    )


def _budget(workspace: Workspace, run_id: str) -> Budget | None:
    """The ceiling of the settings for a run that was started in Dagster; a command sets one for all of its runs."""
    if current_budgets():
        return None
    return _BUDGETS.setdefault(run_id, settings_budget(workspace))


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the asynchronous part of a step to its end.

    Raises:
        dg.Failure: A model cannot be used at all (wrong key, unknown model, endpoint gone). The message names the entry
            of the settings and the mend; the step is retried only where the endpoint may come back.
    """
    from graphrag_assets.llm.batching.waiting import BatchPending
    from graphrag_assets.llm.errors import GatewayError
    from graphrag_assets.storage.failures import may_pass

    try:
        with interrupts.cancelling():
            return asyncio.run(work)
    except* GatewayError as errors:
        first = _first(errors)
        pending = {WAITING: True} if isinstance(first, BatchPending) else {}
        raise dg.Failure(str(first), metadata=pending, allow_retries=may_pass(errors)) from first


def _first(error: BaseException) -> BaseException:
    """The first of a group of errors; one for which a person has to do something before one that has to be waited for."""
    from graphrag_assets.llm.batching.waiting import BatchPending

    while isinstance(error, BaseExceptionGroup):
        error = next((e for e in error.exceptions if not isinstance(_first(e), BatchPending)), error.exceptions[0])
    return error


def _run_id() -> str:
    """The run that this step belongs to; empty outside of steps."""
    try:
        return dg.AssetExecutionContext.get().run.run_id
    except dg.DagsterInvariantViolationError:
        return ""


def asking_stages(workspace: Workspace, asset: str) -> tuple[str, ...]:
    """Stages in which an asset asks a model over the network, with the settings as they are.

    Args:
        workspace: Settings.
        asset: extraction_status, entities, community_reports or one of the embeddings.
    """
    s = workspace.settings
    if asset.endswith("embeddings"):
        return (asset,) if s.embedding_models else ()
    if s.effective_method != "standard":
        return ()
    claims = ("extract_claims",) if s.extract_claims.enabled else ()
    verdicts = ("resolve_entities",) if s.entity_resolution.llm else ()
    stages = {
        "extraction_status": ("extract_graph", *claims),
        "entities": (*verdicts, "summarize_descriptions"),
        "community_reports": ("community_reports",),
    }
    return stages.get(asset, ())


def usage_metadata(usage: Mapping[str, StageUsage], stages: Sequence[str] = ()) -> dict[str, Any]:
    """LLM usage of a step as asset metadata: numbers that the UI can plot over runs.

    Args:
        usage: Accounts by stage.
        stages: Stages that are told even where nothing was asked in them, so that a plot has no gaps.
    """
    from graphrag_assets.llm.usage import StageUsage

    metadata: dict[str, Any] = {}
    for stage, used in sorted({**{stage: StageUsage() for stage in stages}, **usage}.items()):
        metadata |= {
            f"{stage}/llm_calls": used.calls,
            f"{stage}/cached_answers": used.cached,
            f"{stage}/failed_answers": used.failed,
            f"{stage}/repeated_calls": used.retries,
            f"{stage}/prompt_tokens": used.prompt_tokens,
            f"{stage}/completion_tokens": used.completion_tokens,
            f"{stage}/seconds_waited": round(used.seconds, 3),
        }
        metadata |= {f"{stage}/recovered_{step}": counts["recovered"] for step, counts in used.ladder.items()}
        if used.batched:
            metadata[f"{stage}/batched_calls"] = used.batched
        if used.usd is not None:
            metadata[f"{stage}/cost_usd"] = round(used.usd, 6)
    return metadata
