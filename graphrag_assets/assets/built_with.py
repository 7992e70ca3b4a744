"""With which settings an index was built, in words that people can compare with the settings of now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from graphrag_assets.llm.embedding.models import DEFAULT_EMBEDDED
from graphrag_assets.settings import ModelSettings, Workspace


def built_with(workspace: Workspace) -> dict[str, str]:
    """The settings that decide most about an index; part of every snapshot's manifest."""
    s = workspace.settings
    method = s.effective_method
    standard = method == "standard"
    chunking, claims = s.chunking, s.extract_claims
    embedding = s.embedding_model(s.embed_text.embedding_model_id)
    built = {
        "method": method,
        "extraction": _model(s.completion_model(s.extract_graph.completion_model_id))
        if standard
        else s.extract_graph_nlp.text_analyzer.model_name,
        "claims": "yes" if standard and claims.enabled else "no",
        "embeddings": _model(embedding) if embedding else f"embedded {s.embedded_models.embedding or DEFAULT_EMBEDDED}",
        "text units": f"{chunking.type}, {chunking.size} tokens, overlap {chunking.overlap}",
    }
    if standard:
        built["reports"] = _model(s.completion_model(s.community_reports.completion_model_id))
    return built


def _model(model: ModelSettings) -> str:
    """Provider and model, with what makes its answers or vectors others; never a user name or a query of the address."""
    dimensions = model.call_args.get("dimensions")
    address = urlsplit(model.api_base or "")
    where = f" at {address.netloc.rpartition('@')[2]}{address.path.rstrip('/')}" if address.netloc else ""
    return f"{model.model_provider}/{model.model}{where}" + (f" ({dimensions} dimensions)" if dimensions else "")


def differences(info: Mapping[str, Any], workspace: Workspace) -> dict[str, dict[str, str]]:
    """What of these settings differs between a snapshot and the workspace as it is now.

    Args:
        info: Facts of the manifest.
        workspace: Settings of now.

    Returns:
        By setting: its value in the ``index`` and ``now``, empty where nothing differs. A snapshot of an older release
        tells its method only; nothing differs from an imported one, which these settings did not make.
    """
    if "imported" in info:
        return {}
    then = info.get("settings") or {"method": info.get("method")}
    return {
        name: {"index": then[name], "now": value}
        for name, value in built_with(workspace).items()
        if then.get(name) not in (None, value)
    }


def told(found: Mapping[str, Mapping[str, str]]) -> str:
    """Differences in one line."""
    return "; ".join(f"{name}: {pair['index']}, now {pair['now']}" for name, pair in found.items())
