"""Which failures are worth a retry, told from the errors that real clients raise; and which steps have a policy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.llm.errors import GatewayError, PassingError, PermanentError
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.failures import NETWORK_RETRIES, fails_at_once, may_pass
from graphrag_assets.storage.snapshots import SnapshotError
from tests.pipeline.workspaces import fresh_process, make_workspace


class ObjectStore:
    """An S3 endpoint that gives one status for every request."""

    def __init__(self) -> None:
        self.status = 200
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(store.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_PUT = do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def object_store() -> Iterator[ObjectStore]:
    store = ObjectStore()
    yield store
    store.server.shutdown()
    store.server.server_close()


def read_object(endpoint: str) -> None:
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        "bucket",
        region="us-east-1",
        endpoint=endpoint,
        access_key_id="a",
        secret_access_key="b",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=5)},
    )
    obstore.get(store, "file")


def open_vectors(endpoint: str) -> None:
    import lancedb

    options = {"region": "us-east-1", "endpoint": endpoint, "allow_http": "true", "client_max_retries": "0"}
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "client_retry_timeout": "5"}
    lancedb.connect("s3://bucket/vectors", storage_options=options | keys).open_table("rows")


@pytest.mark.parametrize("client", [read_object, open_vectors])
@pytest.mark.parametrize(
    ("status", "passes"),
    [(500, True), (503, True), (429, True), (400, False), (401, False), (403, False), (404, False), (301, False)],
)
def test_answers_of_an_object_store(object_store: ObjectStore, client: Any, status: int, passes: bool) -> None:
    object_store.status = status
    with pytest.raises(Exception) as caught:  # noqa: PT011
        client(object_store.endpoint)
    assert may_pass(caught.value) is passes, caught.value


@pytest.mark.parametrize("client", [read_object, open_vectors])
def test_an_object_store_that_is_gone_may_come_back(object_store: ObjectStore, client: Any) -> None:
    object_store.server.shutdown()
    object_store.server.server_close()
    with pytest.raises(Exception) as caught:  # noqa: PT011
        client(object_store.endpoint)
    assert may_pass(caught.value), caught.value


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionResetError("reset"), True),
        (TimeoutError("slow"), True),
        (PassingError("server", "HTTP 503"), True),
        (GatewayError("no answer any more", passing=True), True),
        (GatewayError("wrong key"), False),
        (PermanentError("authentication", "HTTP 401"), False),
        (SnapshotError("no such snapshot"), False),
        (FileNotFoundError("entities.parquet"), False),
        (PermissionError("entities.parquet"), False),
        (OSError(28, "No space left on device"), False),
        (KeyError("title"), False),
        (ExceptionGroup("several", [TimeoutError("slow"), ConnectionResetError("reset")]), True),
        (ExceptionGroup("several", [TimeoutError("slow"), KeyError("title")]), False),
    ],
)
def test_errors(error: BaseException, passes: bool) -> None:
    assert may_pass(error) is passes


def attempts(error: BaseException, *, generator: bool) -> int:
    """How often Dagster runs a step that raises an error, under a policy like ours but without waiting."""
    ran = []
    policy = NETWORK_RETRIES._replace(delay=0)

    def fails() -> None:
        ran.append(1)
        raise error

    def fails_while_yielding() -> Any:
        fails()
        yield dg.Output(1)

    step = fails_at_once(fails_while_yielding if generator else fails)
    asset = dg.asset(step, name="step", retry_policy=policy)
    with dg.instance_for_test() as instance:
        assert not dg.materialize([asset], instance=instance, raise_on_error=False).success
    return len(ran)


@pytest.mark.parametrize("generator", [False, True])
def test_a_step_runs_again_only_for_what_may_pass(generator: bool) -> None:
    assert attempts(TimeoutError("slow"), generator=generator) == 1 + NETWORK_RETRIES.max_retries
    assert attempts(KeyError("title"), generator=generator) == 1
    assert attempts(dg.Failure("wrong key", allow_retries=False), generator=generator) == 1
    assert attempts(KeyboardInterrupt(), generator=generator) == 1
    assert attempts(BaseExceptionGroup("tasks", [KeyboardInterrupt()]), generator=generator) == 1
    assert attempts(dg.Failure("busy"), generator=generator) == 1 + NETWORK_RETRIES.max_retries


def test_a_step_that_begins_again_says_so(caplog: pytest.LogCaptureFixture) -> None:
    attempts(TimeoutError("the store is slow"), generator=False)
    told = [record.getMessage() for record in caplog.records if record.name.startswith("graphrag_assets")]
    assert len(told) == NETWORK_RETRIES.max_retries, "one line for each, and none when no attempt is left"
    assert told[0] == "step: TimeoutError: the store is slow; the step begins again in about 0 s (1 of 3)"
    caplog.clear()
    attempts(dg.Failure("busy"), generator=False)
    assert sum("step: busy; the step begins again" in record.getMessage() for record in caplog.records) == 3
    caplog.clear()
    attempts(KeyError("title"), generator=False)
    assert not [record for record in caplog.records if "begins again" in record.getMessage()]


def retried(root: Path, **settings: Any) -> set[str]:
    """Assets with a retry policy in a workspace with these settings."""
    with fresh_process():
        definitions = build_definitions(load_workspace(make_workspace(root, {}, **settings)))
    found = set()
    for asset in definitions.resolve_asset_graph().assets_defs:
        assert asset.op.retry_policy in (None, NETWORK_RETRIES)
        if asset.op.retry_policy:
            found |= {key.path[-1] for key in asset.keys}
    return found


def test_steps_that_meet_the_network_are_retried_and_no_others(tmp_path: Path) -> None:
    model = {"model_provider": "openai", "model": "gpt-4o-mini", "api_key": "none"}
    chat = {"completion_models": {"default_completion_model": model}}
    vectors = {"embedding_models": {"default_embedding_model": model | {"model": "text-embedding-3-small"}}}
    extraction = {"extracted_entities", "extracted_relationships", "extracted_claims", "extraction_status"}
    asking = extraction | {"entity_aliases", "entities", "relationships", "community_reports"}
    embedding = {"text_unit_embeddings", "entity_embeddings", "community_report_embeddings"}
    assert retried(tmp_path / "local") == set()
    assert retried(tmp_path / "chat", **chat) == asking
    assert retried(tmp_path / "both", **chat, **vectors) == asking | embedding
    everything = retried(tmp_path / "s3", storage={"base": "s3://bucket/index"})
    assert len(everything) == 19
    assert everything == retried(tmp_path / "s3-input", input_storage={"base_dir": "s3://bucket/texts"})
