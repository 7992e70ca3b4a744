"""Traces, metrics, callbacks and logs of whole runs: what they tell, and what they must never tell."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets import telemetry
from tests.llmsim_server import LlmSim
from tests.otlp_server import Collector
from tests.pipeline.workspaces import (
    command,
    demo_texts,
    environment,
    index,
    invoke,
    make_workspace,
    manifest,
    rows,
    simulated,
)

pytest.importorskip("opentelemetry.sdk", reason="the extra telemetry is not installed")

KEY = "sk-test-0123456789abcdef"
TEXTS = ("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")

#: Conversations, prompts and documents hold it, names of entities and stages do not.
PROSE = re.compile(r"\w+(?:[ ,;:]+\w+){9,}")


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    """The threads of a test that send end with it, before its collector does."""
    yield
    telemetry.shut_down()


def workspace(root: Path, llmsim: LlmSim, **telemetry: Any) -> Path:
    return make_workspace(root, demo_texts(*TEXTS), **simulated(llmsim, telemetry=telemetry))


def test_a_run_and_a_question_as_traces(collector: Collector, tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(
        tmp_path, llmsim, traces=True, metrics=True, endpoint=collector.url, headers={"X-Token": "letmein-12345"}
    )
    done = index(root)
    assert collector.services == {"graphrag-assets"}
    assert all(headers.get("x-token") == "letmein-12345" for headers in collector.headers)
    [run] = collector.named("index")
    assert run.parent_id == ""
    assert run.attributes["graphrag.snapshot"] == manifest(root).id
    assert run.attributes["graphrag.documents.added"] == 2
    steps = collector.named("step ")
    assert {"step documents", "step extraction", "step community_reports", "step index_snapshot"} <= {
        s.name for s in steps
    }
    assert all(collector.parents(step) == ["index"] for step in steps)
    calls = [*collector.named("chat "), *collector.named("embeddings ")]
    assert len(calls) == done["llm"]["calls"] == llmsim.requests, "each request is a span"
    by_stage = Counter(span.attributes["graphrag.stage"] for span in calls)
    assert by_stage == {s: used["calls"] for s, used in done["llm"]["by_stage"].items() if used["calls"]}
    chat = collector.named("chat gpt-4o-mini")[0]
    assert chat.kind == 3, "a client"
    assert collector.parents(chat)[-1] == "index"
    assert collector.parents(chat)[0].startswith("step ")
    told = chat.attributes
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "openai"
    assert told["gen_ai.request.model"] == "gpt-4o-mini"
    assert told["gen_ai.response.model"]
    assert told["gen_ai.response.id"]
    assert told["gen_ai.response.finish_reasons"] == ["stop"]
    assert told["server.address"] == "127.0.0.1"
    assert told["server.port"] == int(llmsim.base.split(":")[2].split("/")[0])
    vectors = collector.named("embeddings text-embedding-3-small")[0].attributes
    assert vectors["gen_ai.embeddings.dimension.count"] == 64
    for name, figure in (("input", "prompt_tokens"), ("output", "completion_tokens")):
        assert sum(s.attributes[f"gen_ai.usage.{name}_tokens"] for s in calls) == done["llm"][figure]
        points = [p for p in collector.metrics["gen_ai.client.token.usage"] if p["gen_ai.token.type"] == name]
        assert sum(point["sum"] for point in points) == done["llm"][figure]
    assert sum(p["count"] for p in collector.metrics["gen_ai.client.operation.duration"]) == len(calls)

    collector.spans.clear()
    assert command("query", "--root", root, "--method", "local", "Who is Edda Lindrow?").code == 0
    [question] = [span for span in collector.spans if span.name == "question"]
    assert question.attributes["graphrag.method"] == "local"
    assert question.attributes["graphrag.snapshot"] == manifest(root).id
    assert {"question embed", "question context", "question answer"} <= {s.name for s in collector.spans}
    assert all(collector.parents(span)[-1] == "question" for span in collector.spans if span is not question)
    assert question.attributes["graphrag.llm.calls"] == len(
        [*collector.named("chat "), *collector.named("embeddings ")]
    )


def test_no_text_and_no_key_in_traces(tmp_path: Path, llmsim: LlmSim, collector: Collector) -> None:
    llmsim.reset(faults={"error500": 0.2, "garbage": 0.1}, seed=1)
    root = workspace(tmp_path, llmsim, traces=True, metrics=True, endpoint=collector.url)
    index(root)
    assert command("query", "--root", root, "Who is Edda Lindrow?").code == 0
    failed = [span for span in collector.spans if span.failed]
    assert {span.attributes["error.type"] for span in failed} == {"500"}
    assert all(span.events == 0 for span in collector.spans), "errors are told by their class alone"
    data = b"".join(collector.raw)
    titles = [row["title"] for row in rows(root, "entities")]
    texts = [row["text"] for row in rows(root, "text_units")]
    assert KEY.encode() not in data
    assert b"Who is" not in data
    assert [title for title in titles if len(title) > 6 and title.encode().lower() in data.lower()] == []
    assert [word for text in texts for word in text.split() if len(word) > 11 and word.encode() in data] == []
    values = [str(v) for span in collector.spans for v in span.attributes.values()]
    assert [value for value in values if PROSE.search(value)] == []


@pytest.mark.slow
def test_text_is_told_where_the_settings_say_so(tmp_path: Path, llmsim: LlmSim, collector: Collector) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim, traces=True, endpoint=collector.url, capture_content=True)
    index(root)
    chats = [s for s in collector.named("chat ") if s.attributes["graphrag.stage"] == "extract_graph"]
    assert any("Edda Lindrow" in span.attributes["gen_ai.input.messages"] for span in chats)
    assert all("content" in span.attributes["gen_ai.output.messages"] for span in chats)
    assert KEY.encode() not in b"".join(collector.raw)


@pytest.mark.slow
def test_a_collector_that_is_not_there_costs_no_run(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim, traces=True, metrics=True, endpoint="http://127.0.0.1:9")
    started = time.monotonic()
    done = command("index", "--root", root, "--json")
    assert done.json["new_snapshot"] is True
    assert time.monotonic() - started < 90
    assert "Traceback" not in done.err
    assert done.err.count("http://127.0.0.1:9 did not take what it was sent") <= 2, "not once for each try"
    assert "retrying" not in done.err


def test_off_means_nothing_is_imported(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim)
    code = (
        "import sys\nfrom graphrag_assets.cli.main import main\n"
        f"sys.argv[1:] = ['index', '--root', {str(root)!r}, '--json']\n"
        "try:\n    main()\nexcept SystemExit as end:\n"
        "    print(end.code, [m for m in sys.modules if m.startswith('opentelemetry')], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert done.stderr.splitlines()[-1] == "0 []"


def test_missing_packages_are_named(tmp_path: Path, llmsim: LlmSim, monkeypatch: pytest.MonkeyPatch) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim, traces=True, endpoint="http://127.0.0.1:1/none")
    telemetry._opened.cache_clear()
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    done = invoke("index", "--root", root)
    assert done.code == 1
    assert "pip install 'graphrag-assets[telemetry]'" in done.err
    assert llmsim.requests == 0


def recorder() -> Any:
    from litellm.integrations.custom_logger import CustomLogger

    class Logger(CustomLogger):
        def __init__(self) -> None:
            super().__init__()
            self.told: list[dict[str, Any]] = []

        async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            await asyncio.sleep(0.02)  # as one that sends it somewhere
            self.told.append(kwargs["standard_logging_object"])

    return Logger()


def __getattr__(name: str) -> Any:
    """The callback, made when it is first asked for: LiteLLM takes seconds to import."""
    if name != "LOGGER":
        raise AttributeError(name)
    globals()["LOGGER"] = recorder()
    return globals()["LOGGER"]


@pytest.mark.slow
@pytest.mark.parametrize("content", [False, True])
def test_callbacks_of_litellm(content: bool, tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    name = f"{__name__}.LOGGER"
    logger = getattr(sys.modules[__name__], "LOGGER")  # noqa: B009 (made by __getattr__ of the module)
    logger.told.clear()
    root = workspace(tmp_path, llmsim, litellm_callbacks=[name], capture_content=content)
    done = index(root)
    assert len(logger.told) == done["llm"]["calls"] == llmsim.requests, "none is lost when the run ends"
    told = str(logger.told)
    assert KEY not in told
    assert ("Edda Lindrow" in told) is content
    assert {tag for each in logger.told for tag in each["request_tags"]} > {"graphrag-assets", "extract_graph"}
    llmsim.reset()
    logger.told.clear()
    plain = make_workspace(tmp_path / "plain", demo_texts(*TEXTS), **simulated(llmsim))
    assert index(plain)["llm"]["calls"] > 0
    assert logger.told == [], "another workspace of the process did not ask for it"
    assert manifest(plain).tables["entities"].sha256 == manifest(root).tables["entities"].sha256


@pytest.mark.parametrize(
    ("name", "words"),
    [("langfusee", "it has"), ("no.such.thing", "cannot be loaded"), ("json.nothing", "cannot be loaded")],
)
def test_callbacks_that_do_not_exist(name: str, words: str, tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    done = invoke("index", "--root", workspace(tmp_path, llmsim, litellm_callbacks=[name]))
    assert done.code == 1
    assert f"telemetry.litellm_callbacks: {name if '.' in name else 'LiteLLM has no'}" in done.err
    assert words in done.err


def test_logs_tell_no_text_and_no_key(tmp_path: Path, llmsim: LlmSim, caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG no key, at INFO no text of documents or answers, whatever goes wrong."""
    llmsim.reset(faults={"error500": 0.1, "garbage": 0.1, "refusal": 0.05, "error400": 0.05}, seed=2)
    root = workspace(tmp_path, llmsim, traces=False)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="graphrag_assets")
    done = invoke("index", "--root", root, "-v")
    assert done.code in (0, 1)
    records = [record for record in caplog.records if record.name.startswith("graphrag_assets")]
    assert records
    assert KEY not in caplog.text + done.out + done.err
    told = "\n".join(record.getMessage() for record in records if record.levelno >= logging.INFO)
    texts = " ".join(demo_texts(*TEXTS).values())
    words = [" ".join(window) for window in _windows(texts.split(), 4)]
    assert [phrase for phrase in words if phrase in told] == []


def _windows(words: list[str], size: int) -> list[list[str]]:
    return [words[i : i + size] for i in range(len(words) - size + 1)]


def test_doctor_tells_where_it_goes(tmp_path: Path, llmsim: LlmSim, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "traces": True,
        "endpoint": "http://127.0.0.1:9",
        "capture_content": True,
        "litellm_callbacks": ["langfuse"],
    }
    root = workspace(tmp_path, llmsim, **told)
    found = {
        finding["name"]: finding for finding in json.loads(invoke("doctor", "--root", root, "--json").out)["findings"]
    }
    assert found["telemetry"]["detail"] == "traces go to http://127.0.0.1:9"
    assert "langfuse" in found["telemetry callbacks"]["detail"]
    assert found["telemetry content"]["status"] == "warn"
    telemetry.shut_down()
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    found = {
        finding["name"]: finding for finding in json.loads(invoke("doctor", "--root", root, "--json").out)["findings"]
    }
    assert found["telemetry"]["status"] == "fail"
