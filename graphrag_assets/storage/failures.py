"""Which failures of a step may be gone when it runs again: the one place that decides about retries.

A step that meets the network has :data:`NETWORK_RETRIES`. Only what may pass is left to them: a connection that broke, a
server that was busy. Everything else (a wrong key or setting, a table that breaks its contract, a fault in the code)
would fail again after each wait, so it fails the step at once.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, ParamSpec, TypeVar, cast

import dagster as dg

from graphrag_assets import object_store
from graphrag_assets.settings import Workspace
from graphrag_assets.telemetry import OFF, telemetry_of

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: How a step that meets the network is tried again: after about 10, 20 and 40 seconds. Model calls and S3 requests have
#: been repeated many times before a step fails; what they gave so far is kept, so that a retry goes on from there.
NETWORK_RETRIES = dg.RetryPolicy(max_retries=3, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)


def retries(workspace: Workspace, *, asks: bool = False) -> dg.RetryPolicy | None:
    """The retry policy of a step; None where it meets no network and would only fail again.

    Args:
        workspace: Settings: where input and index lie.
        asks: Whether the step asks a model over the network.
    """
    places = (workspace.settings.input_storage.base_dir, workspace.settings.storage.base)
    return NETWORK_RETRIES if asks or any(place.startswith("s3://") for place in places) else None


def may_pass(error: BaseException) -> bool:
    """Whether a failure may be gone when the step runs again.

    Errors of this package say so themselves, by an attribute ``passing``.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(may_pass(part) for part in error.exceptions)
    passing = getattr(error, "passing", None)
    if passing is not None:
        return bool(passing)
    return isinstance(error, ConnectionError | TimeoutError) or object_store.passes(error)


def _interrupts(error: BaseException) -> bool:
    """Whether somebody stopped the process or the run, perhaps amid several tasks."""
    if isinstance(error, BaseExceptionGroup):
        return any(_interrupts(part) for part in error.exceptions)
    return isinstance(error, KeyboardInterrupt | dg.DagsterExecutionInterruptedError)


@contextmanager
def lasting_failures_at_once() -> Iterator[None]:
    """Fail the step at once, whatever its retry policy, where a retry cannot mend what is raised inside.

    Raises:
        dagster.Failure: Not to be retried; its description is the error, its cause the error with its stack.
    """
    try:
        yield
    except dg.Failure as failure:
        if failure.allow_retries:
            _tell_retry(failure.description or type(failure).__name__)
        raise
    except (dg.RetryRequested, dg.DagsterError):
        raise
    except BaseException as error:
        if _interrupts(error):  # Dagster would take it for a reason to try again
            raise dg.Failure("interrupted", allow_retries=False) from error
        if not isinstance(error, Exception):
            raise
        told = "".join(traceback.format_exception_only(error)).strip()
        if may_pass(error):
            _tell_retry(told)
            raise
        raise dg.Failure(told, allow_retries=False) from error


def _tell_retry(told: str) -> None:
    """Say that the step that runs now will begin again: it is silent until then.

    Args:
        told: Why it failed.
    """
    try:
        context = dg.OpExecutionContext.get()
        policy, tried, name = context.op_def.retry_policy, context.retry_number, context.op.name
    except (dg.DagsterError, AttributeError):  # outside a step
        return
    if policy is None or tried >= policy.max_retries:
        return
    seconds = (policy.delay or 0) * 2**tried
    words = "%s: %s; the step begins again in about %g s (%d of %d)"
    logger.warning(words, name, told, seconds, tried + 1, policy.max_retries)


def fails_at_once(step: Callable[P, T]) -> Callable[P, T]:
    """Decorate the function of an asset with :func:`lasting_failures_at_once`, and a span where telemetry is on."""

    @wraps(step)
    def guarded(*args: P.args, **inputs: P.kwargs) -> Any:
        with lasting_failures_at_once(), _span(inputs.get("index")):
            return step(*args, **inputs)

    @wraps(step)
    def guarded_outputs(*args: P.args, **inputs: P.kwargs) -> Any:
        with lasting_failures_at_once(), _span(inputs.get("index")):
            yield from cast(Iterator[Any], step(*args, **inputs))

    return guarded_outputs if isgeneratorfunction(step) else guarded


@contextmanager
def _span(index: Any) -> Iterator[None]:
    """A span of the step that runs now, where the settings of its workspace ask for spans."""
    telemetry = telemetry_of(index.workspace.settings.telemetry) if index is not None else OFF
    if telemetry is OFF:
        yield
        return
    context = dg.OpExecutionContext.get()
    name = context.op.name
    about = {"dagster.run_id": context.run.run_id, "dagster.step": name, "dagster.job": context.run.job_name}
    if context.has_partition_key_range:
        span = context.partition_key_range
        about |= {"dagster.partitions": span.start if span.start == span.end else f"{span.start}...{span.end}"}
    with telemetry.span(f"step {name}", about):
        yield
