"""Callbacks of LiteLLM, where ``telemetry.litellm_callbacks`` names some; else LiteLLM does no logging work at all."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

from graphrag_assets.llm.errors import GatewayError

#: Most seconds that the last connection waits for callbacks that are still at work.
PATIENCE = 10.0


@cache
def set_callbacks(names: tuple[str, ...]) -> None:
    """Have LiteLLM call these after each call of this process that it is allowed to log.

    Args:
        names: Names that LiteLLM knows, or package.module.object.

    Raises:
        GatewayError: There is no such callback.
    """
    import litellm

    callbacks = [callback_of(name, litellm) for name in names]
    for callback in callbacks:
        for place in (litellm.success_callback, litellm.failure_callback):
            if callback not in place:
                place.append(callback)


def callback_of(name: str, litellm: Any) -> Any:
    """What LiteLLM is to call: a name that it knows, or one's own object.

    Args:
        name: As in the settings.
        litellm: The module.

    Raises:
        GatewayError: There is no such callback.
    """
    module, _, attribute = name.rpartition(".")
    if not module:
        known = sorted({*litellm._known_custom_logger_compatible_callbacks, *_CLASSIC})
        if name not in known:
            raise GatewayError(
                f"settings: telemetry.litellm_callbacks: LiteLLM has no {name!r}; it has {', '.join(known)}"
            )
        return name
    try:
        here = str(Path.cwd())
        if here not in sys.path:  # a module beside the settings
            sys.path.append(here)
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise GatewayError(
            f"settings: telemetry.litellm_callbacks: {name} cannot be loaded ({error}); expected package.module.object, "
            "importable where the command runs"
        ) from None


#: Names that LiteLLM knows beside those that it lists.
_CLASSIC = (
    "langfuse",
    "sentry",
    "posthog",
    "slack",
    "helicone",
    "lunary",
    "athina",
    "supabase",
    "s3",
    "wandb",
    "traceloop",
)


async def finish_callbacks() -> None:
    """Wait for callbacks that are still at work, before the event loop ends."""
    with contextlib.suppress(Exception):  # another release may do without
        worker = importlib.import_module("litellm.litellm_core_utils.logging_worker").GLOBAL_LOGGING_WORKER
        await asyncio.wait_for(worker.flush(), PATIENCE)
