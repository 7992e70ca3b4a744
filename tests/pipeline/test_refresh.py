"""A stage is asked anew, all others are carried over, and nothing is paid for twice."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import (
    assert_equal_indexes,
    demo_texts,
    index,
    invoke,
    make_workspace,
    manifest,
    rows,
    simulated,
)

pytestmark = pytest.mark.storage

TEXTS = ("minutes/railway-board-2032-08-11.md", "notes/interview-edda-lindrow.md")


def workspace(root: Path, llmsim: LlmSim | Renaming, **sections: object) -> Path:
    settings = simulated(llmsim, chunking={"size": 100, "overlap": 0}, concurrent_requests=4, **sections)
    return make_workspace(root, demo_texts(*TEXTS), **settings)


def refresh(root: Path, *stages: str) -> dict[str, dict[str, int]]:
    """Usage by stage of a run that asks stages anew."""
    options = [part for stage in stages for part in ("--refresh", stage)]
    found: dict[str, dict[str, int]] = invoke("index", "--root", root, "--json", *options).json["llm"]["by_stage"]
    return found


def test_only_the_stage_is_asked(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim, extract_claims={"enabled": True})
    first = index(root)
    asked = first["llm"]["by_stage"]
    for stage in ("extract_graph", "extract_claims", "summarize_descriptions", "community_reports"):
        sent = llmsim.requests
        planned = {s["stage"]: s for s in invoke("plan", "--root", root, "--json", "--refresh", stage).json["stages"]}
        assert llmsim.requests == sent, "a plan asks nobody"
        gleanings = planned.get(f"{stage}_gleanings", {"calls": 0})["calls"]
        again = refresh(root, stage)
        assert {name for name, used in again.items() if used["calls"]} == {stage}
        assert again[stage]["calls"] == llmsim.requests - sent == asked[stage]["calls"]
        assert planned[stage]["calls"] + gleanings == again[stage]["calls"]
        assert manifest(root).id == first["snapshot"], "equal answers give equal tables"
    sent = llmsim.requests
    assert index(root)["up_to_date"]
    assert llmsim.requests == sent


def test_what_is_carried_over_needs_no_cache(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim, extract_claims={"enabled": True})
    first = index(root)
    shutil.rmtree(root / ".cache")
    again = refresh(root, "extract_claims")
    assert {name for name, used in again.items() if used["calls"]} == {"extract_claims"}
    assert manifest(root).id == first["snapshot"]


def test_a_refresh_that_stopped_goes_on_and_pays_for_nothing_twice(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset(latency=0.02)
    root = workspace(tmp_path / "work", llmsim)
    whole = workspace(tmp_path / "whole", llmsim)
    asked = index(root)["llm"]["by_stage"]["extract_graph"]["calls"]
    index(whole)
    sent = llmsim.requests
    stopped = invoke("index", "--root", root, "--json", "--refresh", "extract_graph", "--budget-tokens", 30_000)
    assert json.loads(stopped.out)["error"]["type"] == "budget"
    part = llmsim.requests - sent
    assert 0 < part < asked
    waiting = invoke("status", "--root", root, "--json").json["waiting"]
    assert "extraction" in waiting["stages"]
    index(root)  # whoever runs next goes on with it
    assert llmsim.requests - sent == asked
    assert index(root)["up_to_date"]
    assert_equal_indexes(whole, root)


def test_an_answer_that_cannot_be_had_anew_stays(tmp_path: Path, llmsim: LlmSim) -> None:
    llmsim.reset()
    root = workspace(tmp_path, llmsim)
    first = index(root)
    llmsim.reset(faults={"refusal": 1.0})
    run = invoke("index", "--root", root, "--json", "--refresh", "community_reports")
    assert run.json["snapshot"] == first["snapshot"]
    assert "the earlier answer" in run.err


def test_what_cannot_be_asked_anew_is_told(tmp_path: Path, llmsim: LlmSim) -> None:
    root = workspace(tmp_path, llmsim)
    for stage, words in (
        ("community_report", "did you mean community_reports?"),
        ("embeddings", "there are extract_graph, extract_claims"),
        ("extract_claims", "extract_claims.enabled"),
        ("resolve_entities", "entity_resolution.llm"),
    ):
        for command in ("index", "plan"):
            run = invoke(command, "--root", root, "--json", "--refresh", stage)
            assert run.code == 1
            assert words in run.err
            assert json.loads(run.out)["error"]["type"] == "usage"
    assert "the fast method" in invoke("index", "--root", root, "--method", "fast", "--refresh", "extract_graph").err


class Renaming:
    """Stands before the simulator and, once told to, answers in other words: each description gets another end.

    Args:
        llmsim: The simulator.
    """

    def __init__(self, llmsim: LlmSim) -> None:
        self.words = ""
        answers = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {"Content-Type": "application/json", "Authorization": self.headers["Authorization"] or ""}
                with urlopen(Request(llmsim.url + self.path, body, headers), timeout=20) as response:
                    answer = response.read()
                if self.path.endswith("/chat/completions") and answers.words:
                    answer = answers.change(answer)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                """Nothing is written."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{self.server.server_port}/v1"

    def change(self, answer: bytes) -> bytes:
        """A completion whose text is another one."""
        completion = json.loads(answer)
        message = completion["choices"][0]["message"]
        text = message["content"]
        if text.lstrip().startswith("{"):  # a report
            report = json.loads(text)
            text = json.dumps({**report, "summary": f"{report['summary']} {self.words}"})
        elif "<|>" in text:  # the descriptions of entities
            text = re.sub(r'(\("entity"<\|>[^<]*<\|>[^<]*<\|>[^<]*)\)', rf"\1 {self.words})", text)
        elif len(text) > 10:  # a summary
            text = f"{text} {self.words}"
        message["content"] = text
        return json.dumps(completion).encode()


@pytest.fixture
def renaming(llmsim: LlmSim) -> Iterator[Renaming]:
    llmsim.reset()
    server = Renaming(llmsim)
    yield server
    server.server.shutdown()
    server.server.server_close()


def test_new_answers_are_published_and_what_depends_on_them_follows(
    tmp_path: Path, llmsim: LlmSim, renaming: Renaming
) -> None:
    root = workspace(tmp_path, renaming)
    first = index(root)
    reports = {row["community"]: row["summary"] for row in rows(root, "community_reports")}
    entities = {row["title"]: row["description"] for row in rows(root, "entities")}

    renaming.words = "Told anew."
    used = refresh(root, "community_reports")
    assert {name for name, each in used.items() if each["calls"]} == {
        "community_reports",
        "community_report_embeddings",
    }
    assert manifest(root).id != first["snapshot"]
    told = {row["community"]: row["summary"] for row in rows(root, "community_reports")}
    assert told == {community: f"{summary} Told anew." for community, summary in reports.items()}
    assert {row["title"]: row["description"] for row in rows(root, "entities")} == entities, "nothing above it changes"

    renaming.words = "In other words."
    used = refresh(root, "extract_graph")
    asked = {name: each["calls"] for name, each in used.items() if each["calls"]}
    anew = {row["title"]: row["description"] for row in rows(root, "entities")}
    assert anew.keys() == entities.keys()
    assert all("In other words." in text for title, text in anew.items() if entities[title])
    # Summaries and reports are written from other descriptions now, so they are asked for, and no more of them than before.
    before = first["llm"]["by_stage"]
    assert asked["extract_graph"] == before["extract_graph"]["calls"]
    assert all(asked[name] <= before[name]["calls"] for name in asked)
    assert asked["community_reports"] == before["community_reports"]["calls"]
    later = [row["summary"] for row in rows(root, "community_reports")]
    assert all(summary.endswith("In other words.") for summary in later)

    sent = llmsim.requests
    renaming.words = "Never asked."
    assert index(root)["up_to_date"]
    assert llmsim.requests == sent, "the new answers are the kept ones"
    published = manifest(root).id
    shutil.rmtree(root / "output")
    index(root)
    assert manifest(root).id.partition("-")[2] == published.partition("-")[2], "they are in the cache"
