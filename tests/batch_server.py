"""OpenAI's Files and Batches endpoints as a server for tests, in front of the simulator, which answers the lines.

One a test process, in threads of it, so that a test can look into it and make it fail; its address is part of what tells
the answers of one model from another's, so that indexes of several tests can be compared. Everything else that is asked of
it (chat, embeddings) is passed on to the simulator and counted.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.llmsim_server import LlmSim

#: What a test may do with the answers of a batch: change, drop or damage the lines of its two files.
Spoil = Callable[[list[bytes], list[bytes]], tuple[list[bytes], list[bytes]]]


@dataclass
class Batch:
    """One batch, as the server keeps it."""

    id: str
    file: str
    endpoint: str
    metadata: dict[str, str]
    requests: int
    status: str = "validating"
    looks: int = 0
    output: str | None = None
    errors: str | None = None
    completed: int = 0
    failed: int = 0
    problem: tuple[str, str] | None = None
    created: float = field(default_factory=time.time)

    def to_json(self) -> dict[str, Any]:
        problem = None
        if self.problem:
            problem = {"object": "list", "data": [{"code": self.problem[0], "message": self.problem[1], "line": None}]}
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": problem,
            "input_file_id": self.file,
            "completion_window": "24h",
            "status": self.status,
            "output_file_id": self.output,
            "error_file_id": self.errors,
            "created_at": int(self.created),
            "request_counts": {"total": self.requests, "completed": self.completed, "failed": self.failed},
            "metadata": self.metadata,
        }


class BatchServer:
    """The server.

    A batch goes on by one state at each look at it: validating, in_progress, finalizing, then its end.

    Args:
        llmsim: Answers questions.
    """

    def __init__(self, llmsim: LlmSim) -> None:
        self.llmsim = llmsim
        self._lock = threading.Lock()
        self.reset()
        self._serve()

    def reset(self) -> None:
        """Forget everything: a provider that nobody has asked yet, and that is well."""
        self.batches: dict[str, Batch] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.deleted: list[str] = []
        #: How the next batches end, one after the other; afterwards they are completed.
        self.ends: list[str] = []
        #: Share of the lines that a batch which ends early has answered.
        self.share = 0.5
        #: What becomes of the files of answers and errors.
        self.spoil: Spoil = lambda output, errors: (output, errors)
        #: Statuses with which the next requests of a kind ("POST /batches", "GET /files", …) are refused; 0: the request is
        #: carried out, and the connection broken before its answer.
        self.refusals: dict[str, list[int]] = {}
        #: Called before a request is carried out, with its kind.
        self.before: Callable[[str], None] = lambda kind: None
        #: Whether batches go on.
        self.moving = True
        self.direct_calls = 0
        self.requests: list[str] = []
        self._lines_of: dict[str, list[bytes]] = {}
        self._count = 0

    def _serve(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                outer._handle(self, "GET")

            def do_POST(self) -> None:
                outer._handle(self, "POST")

            def do_DELETE(self) -> None:
                outer._handle(self, "DELETE")

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """A client that breaks off is part of some tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def base(self) -> str:
        """Address for api_base."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def sent(self) -> list[str]:
        """Ids of all questions that were ever submitted, in order."""
        return [json.loads(line)["custom_id"] for batch in self.batches.values() for line in self._lines_of[batch.id]]

    def finish(self) -> None:
        """Bring all batches to their end."""
        with self._lock:
            for batch in self.batches.values():
                while batch.status in ("validating", "in_progress", "finalizing"):
                    self._advance(batch)

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()

    # -- requests ------------------------------------------------------------------------------------------------------

    def _handle(self, request: BaseHTTPRequestHandler, method: str) -> None:
        path, _, query = request.path.removeprefix("/v1").partition("?")
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        kind = f"{method} /{path.split('/')[1]}"
        with self._lock:
            self.requests.append(f"{method} {path}")
            refusals = self.refusals.get(kind) or []
            refusal = refusals.pop(0) if refusals else None
        self.before(kind)
        if refusal:
            answer = {"error": {"message": f"refused with {refusal}", "type": "server_error"}}
            self._answer(request, refusal, json.dumps(answer).encode(), {"Retry-After": "0.01"})
            return
        if path in ("/chat/completions", "/embeddings"):
            with self._lock:
                self.direct_calls += 1
            self._answer(request, *self._ask(path, body))
            return
        with self._lock:
            status, told = self._route(method, path, query, request, body)
        if refusal == 0:
            request.close_connection = True
            request.connection.shutdown(2)
            return
        self._answer(request, status, told if isinstance(told, bytes) else json.dumps(told).encode())

    def _answer(
        self, request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _route(
        self, method: str, path: str, query: str, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, Any]:
        parts = path.strip("/").split("/")
        if parts == ["files"] and method == "POST":
            name, data = _form(request.headers["Content-Type"], body)
            told = {"object": "file", "purpose": "batch", "status": "processed", "created_at": int(time.time())}
            return 200, {"id": self._keep(name, data), **told, "filename": name, "bytes": len(data)}
        if parts[0] == "files" and len(parts) > 1 and parts[1] in self.files:
            if method == "DELETE":
                del self.files[parts[1]]
                self.deleted.append(parts[1])
                return 200, {"id": parts[1], "object": "file", "deleted": True}
            return 200, self.files[parts[1]][1]
        if parts == ["batches"] and method == "POST":
            return self._create(json.loads(body))
        if parts == ["batches"]:
            return 200, self._list(dict(pair.split("=") for pair in query.split("&") if pair))
        if parts[0] == "batches" and len(parts) > 1 and parts[1] in self.batches:
            batch = self.batches[parts[1]]
            if parts[2:] == ["cancel"]:
                batch.status = "cancelling"
            elif self.moving:
                self._advance(batch)
            return 200, batch.to_json()
        return 404, {"error": {"message": f"no such thing: {path}", "type": "invalid_request_error"}}

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        newest = list(reversed(self.batches.values()))
        ids = [batch.id for batch in newest]
        start = ids.index(query["after"]) + 1 if "after" in query else 0
        page = newest[start : start + int(query.get("limit", 20))]
        return {
            "object": "list",
            "data": [batch.to_json() for batch in page],
            "has_more": start + len(page) < len(newest),
        }

    def _keep(self, name: str, data: bytes) -> str:
        self._count += 1
        self.files[f"file-{self._count}"] = (name, data)
        return f"file-{self._count}"

    def _create(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["input_file_id"] not in self.files:
            return 400, {"error": {"message": "no such file", "type": "invalid_request_error"}}
        lines = [line for line in self.files[body["input_file_id"]][1].splitlines() if line]
        self._count += 1
        batch = Batch(
            f"batch_{self._count}", body["input_file_id"], body["endpoint"], body.get("metadata") or {}, len(lines)
        )
        self.batches[batch.id] = batch
        self._lines_of[batch.id] = lines
        return 200, batch.to_json()

    # -- batches -------------------------------------------------------------------------------------------------------

    def _advance(self, batch: Batch) -> None:
        following = {"validating": "in_progress", "in_progress": "finalizing"}
        end = None
        if batch.status == "validating" and self.ends and self.ends[0].startswith("failed"):
            code, _, message = self.ends.pop(0).removeprefix("failed:").partition(":")
            batch.status, batch.problem = "failed", (code, message)
            return
        if batch.status in following:
            batch.status = following[batch.status]
            return
        if batch.status == "finalizing":
            end = self.ends.pop(0) if self.ends else "completed"
        elif batch.status == "cancelling":
            end = "cancelled"
        if end is not None:
            self._end(batch, end)

    def _end(self, batch: Batch, end: str) -> None:
        lines = self._lines_of[batch.id]
        answered = lines if end == "completed" else lines[: int(len(lines) * self.share)]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(self._answer_line, answered))
        output = [line for line, status in answers if status == 200]
        errors = [line for line, status in answers if status != 200]
        if end != "completed":
            errors += [
                json.dumps(
                    {
                        "id": "batch_req_x",
                        "custom_id": json.loads(line)["custom_id"],
                        "response": None,
                        "error": {"code": "batch_expired", "message": "This request could not be executed in time."},
                    }
                ).encode()
                for line in lines[len(answered) :]
            ]
        output, errors = self.spoil(output, errors)
        batch.status, batch.completed, batch.failed = end, len(output), len(errors)
        batch.output = self._keep("output.jsonl", b"\n".join(output)) if output else None
        batch.errors = self._keep("errors.jsonl", b"\n".join(errors)) if errors else None

    def _answer_line(self, line: bytes) -> tuple[bytes, int]:
        row = json.loads(line)
        status, body = self._ask(row["url"].removeprefix("/v1"), json.dumps(row["body"]).encode())
        response = {"status_code": status, "request_id": "r", "body": json.loads(body)}
        told = {"id": "batch_req_x", "custom_id": row["custom_id"], "response": response, "error": None}
        return json.dumps(told).encode(), status

    def _ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-test-0123456789abcdef"}
        request = urllib.request.Request(self.llmsim.base + path, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return 200, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


def _form(content_type: str, body: bytes) -> tuple[str, bytes]:
    """Name and content of the file in a form."""
    message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    for part in message.iter_parts():  # type: ignore[attr-defined]
        if part.get_filename():
            return part.get_filename(), part.get_payload(decode=True)
    raise AssertionError("no file in the form")


@pytest.fixture(scope="session")
def one_batch_server(llmsim_server: LlmSim) -> Iterator[BatchServer]:
    """Start the server once a test process."""
    server = BatchServer(llmsim_server)
    yield server
    server.stop()


@pytest.fixture
def batch_server(llmsim: LlmSim, one_batch_server: BatchServer) -> BatchServer:
    """A provider with a batch API."""
    one_batch_server.reset()
    return one_batch_server
