"""A collector for tests: takes what OpenTelemetry's exporters send over HTTP, and decodes it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from graphrag_assets import telemetry


@dataclass(frozen=True)
class Span:
    """One span as it came."""

    name: str
    span_id: str
    parent_id: str
    trace_id: str
    kind: int
    failed: bool
    attributes: dict[str, Any]
    events: int


@dataclass
class Collector:
    """What was sent so far.

    Args:
        status: Status that exports are answered with.
    """

    url: str = ""
    status: int = 200
    spans: list[Span] = field(default_factory=list)
    metrics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    services: set[str] = field(default_factory=set)
    headers: list[dict[str, str]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def named(self, beginning: str) -> list[Span]:
        """Spans whose name begins so."""
        return [span for span in self.spans if span.name.startswith(beginning)]

    def parents(self, span: Span) -> list[str]:
        """Names of the spans around one, the nearest first."""
        by_id = {each.span_id: each for each in self.spans}
        names = []
        while span.parent_id:
            span = by_id[span.parent_id]
            names.append(span.name)
        return names

    def take(self, path: str, body: bytes) -> None:
        """Decode one export."""
        self.raw.append(body)
        if path == "/v1/traces":
            from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                self.services.add(_attributes(resource.resource.attributes)["service.name"])
                self.spans += [_span(span) for scope in resource.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

            for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in metrics.scope_metrics:
                    for metric in scope.metrics:
                        points = [
                            {**_attributes(p.attributes), "count": p.count, "sum": p.sum}
                            for p in metric.histogram.data_points
                        ]
                        self.metrics[metric.name] = points


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


def _span(span: Any) -> Span:
    return Span(
        span.name,
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_id.hex(),
        span.kind,
        span.status.code == 2,
        _attributes(span.attributes),
        len(span.events),
    )


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A running collector."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found.headers.append(dict(self.headers))
            if found.status == 200:
                found.take(self.path, body)
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    yield found
    telemetry.shut_down()  # before what it sends to is gone
    server.shutdown()
    server.server_close()
