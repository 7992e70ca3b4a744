"""Workspaces whose models are the simulator, for the tests of the gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphrag_assets.indexing.asking import Message
from graphrag_assets.settings import Settings, Workspace
from tests.llmsim_server import LlmSim

KEY = "sk-test-0123456789abcdef"
QUICK = {"base_delay": 0.02, "max_delay": 0.05}


def workspace(
    root: Path,
    llmsim: LlmSim,
    *,
    chat: dict[str, Any] | None = None,
    embedding: dict[str, Any] | None = None,
    **settings: Any,
) -> Workspace:
    """Chat model "chat" and embedding model "vectors", both the simulator; further arguments are settings."""
    entry = {"model_provider": "openai", "api_base": llmsim.base, "api_key": KEY, "retry": QUICK}
    return Workspace(
        root=root,
        settings=Settings(
            completion_models={"chat": {**entry, "model": "gpt-4o-mini", **(chat or {})}},
            embedding_models={"vectors": {**entry, "model": "text-embedding-3-small", **(embedding or {})}},
            **settings,
        ),
    )


def question(number: int, kind: str = "map") -> list[Message]:
    """A question whose answer by the simulator depends on its number; kind map is answered in JSON."""
    text = f"Ebenezer Scrooge met Jacob Marley in London on day {number}. Bob Cratchit saw Tiny Tim at home. "
    text += "The Royal Exchange was closed when Ebenezer Scrooge walked home to the house of Jacob Marley."
    task = f'[[kind:{kind}]] Rate the points of this text, "points" with "score".'
    return [{"role": "user", "content": f"{task}\nText: {text}"}]


def points(text: str) -> list[Any]:
    """Strict parser of a map answer."""
    value = json.loads(text)
    if not isinstance(value, dict) or not isinstance(value.get("points"), list):
        raise ValueError("expected an object with a list of points")
    return value["points"]
