"""An index and a question against a real llama.cpp server.

The model has 135 million parameters: what it writes is mostly wrong, and often cannot be read at all. What is tested is
that everything around it works: addresses without a key, the window that the server tells, answers by schema, limits,
and above all that statuses say what happened.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.llm.prices import facts
from graphrag_assets.llm.providers.local_servers import served
from graphrag_assets.settings import ModelSettings
from tests.local_model.conftest import WINDOW
from tests.pipeline.workspaces import invoke, make_workspace, rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000 if os.environ.get("GRAPHRAG_LOCAL_MODEL") else 900)]

#: Tokens of an answer: few for the tiny model, which does not know when to end.
MOST = 700 if os.environ.get("GRAPHRAG_LOCAL_MODEL") else 250

#: A prompt that the tiny model makes something of: it is lost in the packaged one.
SHORT = (
    "List the entities ({entity_types}) of this text and their relationships as JSON with short descriptions.\n"
    "<text>\n{input_text}\n</text>\n"
)

TEXTS = {
    "canal.txt": "Marga Holt was lock keeper at Tarnby for nine years. The Kestrel Company closed the canal at Tarnby on "
    "3 May 1931. Marga Holt resigned a day later and moved to Welm.\n",
    "council.txt": "The council of Welm met on 9 May 1931. Tom Finch asked the Kestrel Company to open the canal again. The "
    "Kestrel Company refused.\n",
}


def entry(address: str, **call_args: Any) -> dict[str, Any]:
    return {
        "model_provider": "llamafile",
        "model": os.environ.get("GRAPHRAG_LOCAL_MODEL", "SmolLM2-135M-Instruct"),
        "api_base": f"{address}/v1",
        "call_args": {"temperature": 0, "max_tokens": MOST, **call_args},
        "structured_output": True,
        "answer_attempts": 1,
        "timeout": 600,
        "prices": {"input_per_million": 0},
    }


def workspace(root: Path, address: str) -> Path:
    if "GRAPHRAG_LOCAL_MODEL" not in os.environ:
        (root / "prompts").mkdir(parents=True, exist_ok=True)
        (root / "prompts" / "extract_graph_json.txt").write_text(SHORT, encoding="utf-8")
    return make_workspace(
        root,
        TEXTS,
        completion_models={"default_completion_model": entry(address, repeat_penalty=1.3)},
        concurrent_requests=1,
        chunking={"size": 200, "overlap": 20},
        extract_graph={"max_gleanings": 0, "format": "json"},
        community_reports={"max_input_length": 1200, "max_length": 60},
        summarize_descriptions={"max_input_tokens": 1200, "max_length": 60},
        local_search={"max_context_tokens": 1500},
        checks={"max_failed_share": 1.0, "max_failed_reports_share": 1.0},
    )


def test_the_server_tells_its_window(llama_server: str) -> None:
    model = ModelSettings.model_validate(entry(llama_server))
    found = served(model)
    assert found is not None
    assert (found.kind, found.window, found.problem) == ("llama.cpp", WINDOW, "")
    assert found.largest is not None
    assert found.largest > WINDOW
    assert facts(model).context_window == WINDOW - MOST


def test_an_index_and_a_question(llama_server: str, tmp_path: Path) -> None:
    root = workspace(tmp_path, llama_server)
    doctor = invoke("doctor", "--root", root).out
    assert f"llama.cpp answers at {llama_server}" in doctor
    assert f"window of {WINDOW} tokens" in doctor
    started = time.monotonic()
    made = invoke("index", "--root", root, "--json").json
    units = made["text_units"]
    assert sum(units.values()) == len(TEXTS)
    status = Counter(row["status"] for row in rows(root, "text_units"))
    failed = sum(n for name, n in status.items() if name not in ("ok", "empty"))
    assert (status["ok"], status["empty"], failed) == (units["ok"], units["empty"], units["failed"])
    assert made["llm"]["usd"] == 0
    assert made["llm"]["by_stage"]["extract_graph"]["calls"] >= len(TEXTS)
    for table in ("entities", "relationships"):
        told = {unit for row in rows(root, table) for unit in row["text_unit_ids"]}
        read = {row["id"] for row in rows(root, "text_units") if row["status"] in ("ok", "truncated")}
        assert told <= read, f"{table} out of a text unit whose answer could not be read"
    again = invoke("plan", "--root", root, "--json").json
    assert again["text_units"]["extracted"] in (0, units["failed"])
    assert made["tables"]["entities"] > 0 or not status["ok"]
    asked = invoke("query", "Who resigned?", "--root", root, "--method", "basic", "--json")
    answer = json.loads(asked.out)
    assert asked.code == 0 or "cut at the token limit" in answer["error"]["message"], asked.err
    tables = {name: made["tables"][name] for name in ("entities", "relationships", "communities", "community_reports")}
    llm = {name: made["llm"][name] for name in ("calls", "prompt_tokens", "completion_tokens")}
    figures = {"seconds": round(time.monotonic() - started), "text units": units, "tables": tables, "model": llm}
    print([(row["title"], row["type"]) for row in rows(root, "entities")], dict(status))
    print(json.dumps(figures | {"answer": answer.get("answer", answer.get("error"))}, indent=1))


def test_a_prompt_beyond_the_window_is_told_not_cut(llama_server: str, tmp_path: Path) -> None:
    long = {"long.txt": "The Kestrel Company ran boats from Tarnby to Welm. " * 500}
    root = make_workspace(
        tmp_path,
        long,
        completion_models={"default_completion_model": entry(llama_server)},
        chunking={"size": 6000, "overlap": 0},
        extract_graph={"max_gleanings": 0},
    )
    found = invoke("doctor", "--root", root).out
    assert "do not fit" in found
    assert "larger -c" in found
