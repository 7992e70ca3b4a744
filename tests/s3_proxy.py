"""An HTTP proxy in front of the S3 server of the tests: it counts requests, and makes them fail as real ones do."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import unquote, urlsplit

import pytest

from tests.s3_server import S3Server


@dataclass(frozen=True)
class Request:
    """A request that came.

    Args:
        method: GET, PUT …
        path: /bucket/key.
        query: What stands behind the question mark.
        conditional: Whether it has If-Match or If-None-Match.
        sent: Bytes of its body.
        received: Bytes of the answer.
    """

    method: str
    path: str
    query: str
    conditional: bool = False
    sent: int = 0
    received: int = 0

    @property
    def kind(self) -> str:
        """LIST for a listing, else the method."""
        return "LIST" if self.method == "GET" and "list-type" in self.query else self.method


@dataclass(frozen=True)
class Fault:
    """What becomes of a request.

    Args:
        kind: status: answered so, and not passed on; reset: the connection breaks before the server gets it; lost: the
            server does as asked, and its answer is lost; cut: half of the answer comes; slow: it takes long.
        status: Status of the answer.
        code: S3 error code of the answer.
        seconds: How long.
    """

    kind: Literal["status", "reset", "lost", "cut", "slow"]
    status: int = 500
    code: str = "InternalError"
    seconds: float = 0.0


class S3Proxy:
    """The proxy.

    Args:
        target: Address of the server.
        endpoint_url: Address of the proxy.
        requests: Requests so far.
        fault: Decides what becomes of a request; None: it is passed on.
        delay: Seconds that every request takes more, as over a network.
    """

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target)
        self.requests: list[Request] = []
        self.fault: Callable[[Request], Fault | None] = lambda _: None
        self.delay = 0.0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def do_GET(self) -> None:
                proxy._serve(self)

            do_PUT = do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.endpoint_url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self) -> Counter[str]:
        """Requests so far by kind."""
        return Counter(request.kind for request in self.requests)

    def forget(self) -> None:
        """Count from here on."""
        self.requests = []

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        conditional = bool(handler.headers.get("If-Match") or handler.headers.get("If-None-Match"))
        request = Request(str(handler.command), unquote(parts.path), parts.query, conditional, len(body))
        fault = self.fault(request)
        if self.delay:
            time.sleep(self.delay)
        if fault is not None and fault.kind == "slow":
            time.sleep(fault.seconds)
        if fault is not None and fault.kind == "status":
            self.requests.append(request)
            text = f"<Error><Code>{fault.code}</Code><Message>told by the proxy</Message></Error>".encode()
            return self._answer(handler, fault.status, {"Content-Type": "application/xml"}, text)
        if fault is not None and fault.kind == "reset":
            self.requests.append(request)
            return self._reset(handler)
        connection = http.client.HTTPConnection(self.target.hostname or "", self.target.port, timeout=60)
        try:
            headers = {k: v for k, v in handler.headers.items() if k.lower() not in ("connection", "expect")}
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
            given = {k: v for k, v in answer.getheaders() if k.lower() not in ("connection", "transfer-encoding")}
        finally:
            connection.close()
        self.requests.append(Request(request.method, request.path, request.query, conditional, len(body), len(data)))
        if fault is not None and fault.kind == "lost":
            return self._reset(handler)
        return self._answer(handler, answer.status, given, data, cut=fault is not None and fault.kind == "cut")

    def _answer(
        self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], data: bytes, cut: bool = False
    ) -> None:
        handler.send_response_only(status)
        for name, value in headers.items():
            if name.lower() != "content-length" or handler.command == "HEAD":
                handler.send_header(name, value)
        if handler.command != "HEAD" and status not in (204, 304):
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            handler.wfile.flush()
            self._reset(handler)

    def _reset(self, handler: BaseHTTPRequestHandler) -> None:
        """Break the connection, so that the client sees it reset."""
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True
        handler.connection.close()


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    """A proxy that passes everything on, until it is told otherwise."""
    proxy = S3Proxy(s3_server.endpoint_url)
    yield proxy
    proxy.server.shutdown()
    proxy.server.server_close()
