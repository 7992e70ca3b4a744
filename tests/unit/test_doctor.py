"""What doctor finds in good and bad workspaces; it never raises, changes nothing and shows no key."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.cli import doctor, doctor_installation, doctor_workspace
from graphrag_assets.cli.doctor import Finding, diagnose, diagnose_root, worst
from graphrag_assets.cli.init import init_workspace
from graphrag_assets.settings import Workspace
from graphrag_assets.settings_file import load_workspace
from tests.s3_server import S3Server

pytestmark = pytest.mark.storage

ENGLISH = "The council met on Monday and decided that the old bridge should be repaired before the winter. " * 5
GERMAN = "Der Rat traf sich am Montag und beschloss, dass die alte Brücke noch vor dem Winter repariert wird. " * 5


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("GRAPHRAG", "OPENAI_")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


def workspace(folder: Path, settings: str = "", text: str = ENGLISH) -> Workspace:
    (folder / "settings.yaml").write_text(settings)
    (folder / "input").mkdir(exist_ok=True)
    (folder / "input" / "one.txt").write_text(text, encoding="utf-8")
    return load_workspace(folder)


def found(findings: list[Finding], name: str) -> list[tuple[str, str]]:
    return [(finding.status, finding.detail) for finding in findings if finding.name == name]


def only(folder: Path, name: str, settings: str = "", text: str = ENGLISH) -> list[Finding]:
    """Findings of one probe."""
    probe = dict(doctor.PROBES)[name]
    return doctor._guarded(name, probe, workspace(folder, settings, text))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


def test_a_new_workspace_is_sound_and_stays_as_it_is(tmp_path: Path) -> None:
    init_workspace(tmp_path)
    (tmp_path / "input" / "one.txt").write_text(ENGLISH)
    before = snapshot(tmp_path)
    findings = diagnose(load_workspace(tmp_path))
    assert [f for f in findings if f.status == "fail"] == []
    assert snapshot(tmp_path) == before
    assert {"python", "packages", "input", "storage", "cache", "prompts", "method", "token encoding"} <= {
        f.name for f in findings
    }
    assert all(f.mend for f in findings if f.status != "ok")


def test_a_failing_probe_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(workspace: Workspace) -> Iterator[Finding]:
        yield Finding("first", "ok", "fine")
        raise RuntimeError("the disk is on fire\nsee page 2")

    monkeypatch.setattr(doctor, "PROBES", (("fire", broken), *doctor.PROBES[:1]))
    findings = diagnose(workspace(tmp_path))
    assert [f.name for f in findings] == ["first", "fire", "python"]
    assert findings[1].detail == "could not be looked at: RuntimeError: the disk is on fire see page 2"
    assert worst(findings) == "fail"


def test_settings_that_do_not_load_are_a_finding(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("chunkng: {}\n")
    (finding,) = diagnose_root(tmp_path)
    assert (finding.name, finding.status) == ("settings", "fail")
    assert "did you mean chunking?" in finding.detail
    assert worst(diagnose_root(tmp_path / "nowhere")) == "fail"


def test_notices_are_findings(tmp_path: Path) -> None:
    findings = only(tmp_path, "settings", "umap: {enabled: true}\nchunks: {size: 500}")
    assert found(findings, "settings umap.enabled") == [("warn", "not used")]
    assert "chunks.size (read as chunking.size)" in found(findings, "settings")[0][1]


# --- installation ----------------------------------------------------------------------------------------------------


def test_packages_of_other_versions_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "graphrag_assets" / "__init__.py"
    monkeypatch.setattr(doctor_installation.graphrag_assets, "__file__", str(package))
    assert found(only(tmp_path, "packages"), "packages")[0][0] == "ok"  # no lock file
    (tmp_path / "requirements.lock").write_text("PyYAML==0.0.1 \\\n    --hash=sha256:00\nnot_installed==3\n# x==1\n")
    (finding,) = only(tmp_path, "packages")
    assert finding.status == "warn"
    assert "pyyaml" in finding.detail
    assert "tested: 0.0.1" in finding.detail
    assert "not" not in finding.detail.split("pyyaml")[1]


def test_python_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_installation.sys, "version_info", (3, 9, 0))
    assert found(only(tmp_path, "python"), "python")[0][0] == "fail"


# --- input -----------------------------------------------------------------------------------------------------------


def test_input_by_type_and_what_no_reader_takes(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    for name in ("a.md", "b.md", "c.xlsx", "d.zip"):
        (tmp_path / "input" / name).write_text(ENGLISH)
    findings = only(tmp_path, "input")
    details = [detail for _, detail in found(findings, "input")]
    assert "2 markdown, 1 text" in details[0]
    assert "2 files of unsupported types: c.xlsx, d.zip" in details[1]


def test_no_input_is_told(tmp_path: Path) -> None:
    for base in ("empty", "missing"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        findings = only(tmp_path, "input", f"input_storage: {{base_dir: {base}}}")
        assert [f.status for f in findings] == ["warn"]


def test_bad_files_of_a_sample_are_named(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "bad.json").write_text("{not json")
    findings = only(tmp_path, "input")
    assert any("bad.json" in detail for status, detail in found(findings, "input sample") if status == "warn")


def test_language_against_the_embedded_model(tmp_path: Path) -> None:
    assert [f.status for f in only(tmp_path, "language")] == ["ok"]
    findings = only(tmp_path, "language", text=GERMAN)
    assert "de 1" in findings[0].detail
    assert [f.status for f in findings[1:]] == ["warn", "warn"]  # embedded model, English pipeline
    settings = "embedding_models: {m: {model: x, api_base: 'http://h'}}\n"
    settings += "extract_graph_nlp: {text_analyzer: {model_name: de_x}}"
    assert [f.status for f in only(tmp_path, "language", settings, GERMAN)] == ["ok"]


# --- storage and cache -----------------------------------------------------------------------------------------------


def test_places_on_s3(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    place = f"endpoint_url: {s3_server.endpoint_url}"
    index = f"storage: {{base: 's3://{bucket}/index', {place}}}"
    (found,) = only(tmp_path, "storage", index)
    assert (found.status, "conditional creation works" in found.detail) == ("ok", True)
    assert only(tmp_path, "shared cache", index) == []
    (found,) = only(tmp_path, "shared cache", f"{index}\ncache: {{shared: 's3://{bucket}/answers'}}")
    assert (found.status, "can be listed, read and written" in found.detail) == ("ok", True)
    (found,) = only(tmp_path, "shared cache", f"{index}\ncache: {{shared: 's3://{bucket}-none/answers'}}")
    assert found.status == "warn"
    assert "cache.shared: " in found.detail
    assert "no such bucket" in found.detail


@pytest.mark.local_disk
def test_storage_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert [f.status for f in only(tmp_path, "storage", "storage: {base: file/below}")] == ["fail"]


@pytest.mark.local_disk
def test_storage_without_conditional_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(doctor_workspace.LocalFileSystem):
        def create(self, path: str, data: bytes) -> None:
            self.write(path, data)

    monkeypatch.setattr(doctor_workspace, "open_filesystem", lambda base, endpoint, region: Careless(base))
    (finding,) = only(tmp_path, "storage")
    assert finding.status == "fail"
    assert "second writer" in finding.detail
    assert not (tmp_path / "output").exists()


def test_cache(tmp_path: Path) -> None:
    assert [f.status for f in only(tmp_path, "cache")] == ["ok"]
    assert [f.status for f in only(tmp_path, "cache", "cache: {enabled: false}")] == ["warn"]
    (tmp_path / "bad.sqlite").write_text("this is no database " * 100)
    (finding,) = only(tmp_path, "cache", "cache: {path: bad.sqlite}")
    assert finding.status == "fail"
    connection = sqlite3.connect(tmp_path / "good.sqlite")
    connection.execute("create table t (x)")
    connection.close()
    assert [f.status for f in only(tmp_path, "cache", "cache: {path: good.sqlite}")] == ["ok"]


# --- prompts ---------------------------------------------------------------------------------------------------------


def test_prompts_with_missing_old_and_unknown_variables(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "local_search_system_prompt.txt").write_text("Answer in {response_type}.")
    (prompts / "global_search_map_system_prompt.txt").write_text("{context_data}")
    (prompts / "basic_search_system_prompt.txt").write_text("{context_data} {response_type} {record_delimiter}")
    (prompts / "local_serch.txt").write_text("{context_data}")
    findings = only(tmp_path, "prompts", "drift_search: {reduce_prompt: prompts/gone.txt}")
    assert [f.status for f in findings if f.name == "prompt local_search_system_prompt"] == ["fail"]
    assert [f.status for f in findings if f.name == "prompt global_search_map_system_prompt"] == ["warn"]
    (old,) = [f for f in findings if f.name == "prompt basic_search_system_prompt"]
    assert old.status == "fail"
    assert "line 1: the variable {record_delimiter} is unknown" in old.detail
    (gone,) = [f for f in findings if f.name == "prompt drift_reduce_prompt"]
    assert gone.status == "fail"
    assert "gone.txt" in gone.detail
    assert any("local_serch" in f.detail for f in findings if f.name == "prompts")


def test_a_tuned_prompt_names_its_types_itself(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "extract_graph.txt").write_text("Find ships and ports in:\n{input_text}")
    findings = only(tmp_path, "prompts")
    assert {f.status for f in findings} == {"ok"}
    assert any("extract_graph.entity_types has no effect" in f.detail for f in findings)


def test_packaged_prompts_are_sound(tmp_path: Path) -> None:
    assert [f.status for f in only(tmp_path, "prompts")] == ["ok"]


# --- models ----------------------------------------------------------------------------------------------------------


def test_the_method_and_why(tmp_path: Path) -> None:
    assert "fast (no completion model)" in only(tmp_path, "method")[0].detail
    model = "completion_models: {m: {model: gpt-4.1, api_key: k}}\n"
    assert "standard (a completion model is configured)" in only(tmp_path, "method", model)[0].detail
    findings = only(tmp_path, "method", model + "method: fast\nextract_claims: {enabled: true}")
    assert [f.status for f in findings] == ["ok", "warn"]


def test_keys_prices_and_windows(tmp_path: Path) -> None:
    findings = only(tmp_path, "models", "completion_models: {m: {model: gpt-4.1, api_key: abcdefgh}}")
    details = " ".join(detail for _, detail in found(findings, "model m"))
    assert "a key of 8 characters is set" in details
    assert "abcdefgh" not in repr(findings)
    assert "USD per million tokens: 2 in, 8 out" in details
    assert "context window of" in details
    assert worst(findings) == "ok"


def test_what_is_missing_of_a_model(tmp_path: Path) -> None:
    findings = only(tmp_path, "models", "completion_models: {m: {model: nobody-knows-it}}")
    assert [(f.status, f.detail[:9]) for f in findings if f.status != "ok"] == [
        ("fail", "no key"),
        ("warn", "its price"),
        ("warn", "its conte"),
    ]
    findings = only(tmp_path, "models", "completion_models: {m: {model: gpt-4.1, api_key: <API_KEY>}}")
    assert ("fail", "the key is a placeholder") in found(findings, "model m")
    settings = (
        "completion_models: {m: {model: x, model_provider: azure, api_base: 'https://YOUR-RESOURCE.openai.azure.com'}}"
    )
    assert ("fail", "api_base is a placeholder") in found(only(tmp_path, "models", settings), "model m")


def test_a_provider_that_does_not_exist(tmp_path: Path) -> None:
    typo = "completion_models: {m: {model: x, model_provider: antropic, api_key: k}}"
    details = [f.detail for f in only(tmp_path, "models", typo) if f.status == "fail"]
    assert details == ["LiteLLM knows no model_provider 'antropic', perhaps anthropic is meant"]
    right = "completion_models: {m: {model: x, model_provider: anthropic, api_key: k}}"
    assert worst(only(tmp_path, "models", right)) == "warn", "only its price and window are unknown"
    own = "completion_models: {m: {model: x, model_provider: our_server, client: direct, api_base: 'http://127.0.0.1:1/v1'}}"
    assert not [f for f in only(tmp_path, "models", own) if "model_provider" in f.detail], "LiteLLM is not asked"


def test_the_model_that_is_asked_when_another_one_fails(tmp_path: Path) -> None:
    settings = """
completion_models:
  default_completion_model: {model: gpt-4.1, api_key: k, fallback_model_id: second}
  second: {model: gpt-4.1, api_key: <API_KEY>}
"""
    findings = only(tmp_path, "models", settings)
    assert ("fail", "the key is a placeholder") in found(findings, "model second")


def test_where_calls_are_counted(tmp_path: Path, redis_server: str) -> None:
    assert [f.status for f in only(tmp_path, "limits")] == ["ok"]
    assert [f.status for f in only(tmp_path, "limits", f"limits: {{redis_url: '{redis_server}'}}")] == ["ok"]
    (gone,) = only(tmp_path, "limits", "limits: {redis_url: 'redis://u:secret-word@127.0.0.1:1/0'}")
    assert gone.status == "fail"
    assert "limits.redis_url: Redis cannot be used" in gone.detail
    assert "secret-word" not in repr(gone)
    (tmp_path / "file").write_text("no folder")
    assert [f.status for f in only(tmp_path, "limits", "limits: {path: file/limits.sqlite}")] == ["warn"]
    day = "limits: {path: file/limits.sqlite}\nbudget: {tokens_per_day: 9}"
    assert [f.status for f in only(tmp_path, "limits", day)] == ["fail"]


def test_callbacks_of_litellm(tmp_path: Path) -> None:
    names = "telemetry: {litellm_callbacks: [langfuse, langfusee, json.nothing, json.dumps]}"
    findings = [f for f in only(tmp_path, "telemetry", names) if f.name == "telemetry callbacks"]
    assert [f.status for f in findings] == ["ok", "fail", "fail", "ok"]
    assert "LiteLLM has no 'langfusee'" in findings[1].detail
    assert "json.nothing cannot be loaded" in findings[2].detail


def test_questions_embedded_by_another_model(tmp_path: Path) -> None:
    settings = """
embedding_models:
  default_embedding_model: {model: one, api_base: "http://h"}
  other: {model: two, api_base: "http://h"}
basic_search: {embedding_model_id: other}
"""
    assert ("fail", "basic_search embeds with two, the index with one") in found(
        only(tmp_path, "models", settings), "model other"
    )


def test_token_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [f.status for f in only(tmp_path, "token encoding")] == ["ok"]
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # an encoding that is not shipped has to be fetched
    assert [f.status for f in only(tmp_path, "token encoding", "chunking: {encoding_model: gpt2}")] == ["fail"]


def test_embedded_models_by_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphrag_assets.llm.embedding import embedded_files

    monkeypatch.setattr(
        embedded_files, "BGE_MODEL", embedded_files.ModelFile("yaml", "embedded", "__init__.py", "0" * 64)
    )
    monkeypatch.setattr(
        embedded_files, "RERANKER_MODEL", embedded_files.ModelFile("no_such_package", "embedded", "x", "0" * 64)
    )
    findings = only(tmp_path, "embedded models", "extract_graph_nlp: {text_analyzer: {model_name: no_such_pipeline}}")
    assert [(f.name, f.status) for f in findings] == [
        ("embedded model bge-small-en-v1.5", "fail"),
        ("embedded model reranker", "fail"),
        ("spaCy pipeline", "fail"),
    ]
    models = "completion_models: {m: {model: x, api_base: 'http://h'}}\nembedding_models: {m: {model: x, api_base: 'http://h'}}"
    assert [f.status for f in only(tmp_path, "embedded models", models)] == ["ok"]


class _Server(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint."""

    requests: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(body)
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        status, answer = 200, {}
        if body["model"] == "refuses":
            status, answer = 401, {"error": {"message": "bad key sk-verysecret"}}
        elif self.path.endswith("/embeddings"):
            data = [
                {"index": i, "object": "embedding", "embedding": [0.6, 0.8, 0.0]} for i, _ in enumerate(body["input"])
            ]
            answer = {"object": "list", "data": data, "model": body["model"], "usage": usage}
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": "ready"}, "finish_reason": "stop"}
            answer = {
                "id": "1",
                "object": "chat.completion",
                "choices": [choice],
                "model": body["model"],
                "usage": usage,
            }
        data_bytes = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data_bytes)))
        self.end_headers()
        self.wfile.write(data_bytes)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    _Server.requests = []
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}/v1"
    http.shutdown()
    http.server_close()


def test_online_makes_one_call_per_model_in_use(tmp_path: Path, server: str) -> None:
    settings = f"""
completion_models:
  default_completion_model: {{model: good, api_base: "{server}", api_key: sk-verysecret}}
  reports: {{model: refuses, api_base: "{server}", api_key: sk-verysecret}}
  spare: {{model: unused, api_base: "{server}"}}
embedding_models:
  default_embedding_model: {{model: vectors, api_base: "{server}"}}
community_reports: {{completion_model_id: reports}}
"""
    findings = diagnose(workspace(tmp_path, settings), online=True)
    online = {f.name: f for f in findings if f.name.endswith(" online")}
    assert {name: f.status for name, f in online.items()} == {
        "model default_completion_model online": "ok",
        "model reports online": "fail",
        "model default_embedding_model online": "ok",
    }
    assert "answered 'ready' in" in online["model default_completion_model online"].detail
    assert "vector of 3 numbers" in online["model default_embedding_model online"].detail
    assert "sk-verysecret" not in repr(findings)
    assert {request["model"] for request in _Server.requests} == {"good", "refuses", "vectors"}
    assert not (tmp_path / ".cache").exists()


def test_online_without_models_and_inside_a_running_loop(tmp_path: Path, server: str) -> None:
    assert ("ok", "no model is configured, so none was called") in found(
        doctor._guarded("models online", doctor.online_models, workspace(tmp_path)), "models online"
    )

    async def inside() -> list[Finding]:
        settings = f'completion_models: {{m: {{model: good, api_base: "{server}"}}}}'
        return doctor._guarded("models online", doctor.online_models, workspace(tmp_path, settings))

    assert [f.status for f in asyncio.run(inside())] == ["ok"]
