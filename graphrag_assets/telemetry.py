"""Traces and metrics by OpenTelemetry, where the settings ask for them; elsewhere nothing is imported and nothing done.

A span has a name and attributes: figures, names of stages, models and tables, ids of runs. Text of documents, prompts and
answers is in none, unless ``telemetry.capture_content`` is set; keys never are. What spans stand for:

    index                    a reconcile, from the look at the input to the published snapshot
      step entities          a step of a Dagster run
        chat gpt-4.1-mini    a request to a model (:mod:`graphrag_assets.llm.providers.observing`)
    question                 a question
      question embed         a part of the search
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from graphrag_assets import __version__
from graphrag_assets.settings_telemetry import TelemetrySettings

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer

#: Name of the instrumentation, and of the service where neither settings nor environment name one.
NAME = "graphrag-assets"

logger = logging.getLogger(__name__)

#: Most milliseconds that the end of a run waits until the collector has what the run gave.
FLUSH = 10_000

#: Seconds for which one export is tried, where the environment says nothing: a run that ends waits for the last one.
EXPORT_SECONDS = 5.0

Attributes = Mapping[str, Any]


class TelemetryError(Exception):
    """Telemetry is asked for and cannot be given; the message says how to mend it."""


class Span(Protocol):
    """What the code inside of a span may add to it."""

    def set_attributes(self, attributes: Attributes) -> None:
        """Add attributes."""
        ...


class _NoSpan:
    def set_attributes(self, attributes: Attributes) -> None:
        """Nothing is kept."""


_NO_SPAN = _NoSpan()


@dataclass(frozen=True)
class Telemetry:
    """Where spans and figures go.

    Args:
        tracer: Makes spans; None: there are none.
        meter: Makes instruments; None: there are none.
        flush: Sends what was not sent yet; None: nothing is.
        content: Whether text may be in spans.
    """

    tracer: Tracer | None = None
    meter: Meter | None = None
    flush: Callable[[], None] | None = None
    content: bool = False

    @contextmanager
    def span(self, name: str, attributes: Attributes | None = None) -> Iterator[Span]:
        """A span around what is done inside; an error is told by its class, since its message may hold text.

        Args:
            name: Name of the span.
            attributes: Attributes; those that are None or empty are left out.
        """
        if self.tracer is None:
            yield _NO_SPAN
            return
        told = present(attributes or {})
        with self.tracer.start_as_current_span(
            name, attributes=told, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except GeneratorExit:
                raise
            except BaseException as error:
                mark_failed(span, type(error).__name__)
                raise

    def send(self) -> None:
        """Send what was not sent yet; nothing inside of a span, whose end comes later."""
        if self.flush is not None and not _within_span():
            self.flush()


#: Where nothing is asked for.
OFF = Telemetry()


def telemetry_of(settings: TelemetrySettings) -> Telemetry:
    """The telemetry of a workspace; one for all that have equal settings, for as long as the process lives.

    Raises:
        TelemetryError: The packages are not installed.
    """
    if not settings.traces and not settings.metrics:
        return OFF
    headers = tuple((name.lower(), value.get_secret_value()) for name, value in sorted(settings.headers.items()))
    return _opened(
        settings.traces,
        settings.metrics,
        settings.endpoint or "",
        headers,
        settings.service_name or "",
        settings.capture_content,
    )


def _within_span() -> bool:
    from opentelemetry import trace

    return bool(trace.get_current_span().is_recording())


def present(attributes: Attributes) -> dict[str, Any]:
    """Attributes without those that say nothing."""
    return {name: value for name, value in attributes.items() if value is not None and value not in ("", [], ())}


def mark_failed(span: Any, kind: str) -> None:
    """Mark a span as failed.

    Args:
        span: A span of OpenTelemetry.
        kind: Short name of what went wrong; never a message, which may hold text.
    """
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


#: What was opened in this process; it ends with the process.
_PROVIDERS: list[Any] = []


def shut_down() -> None:
    """Send what was not sent yet and end the threads that send, in a program that goes on."""
    for provider in _PROVIDERS:
        provider.shutdown()
    _PROVIDERS.clear()
    _opened.cache_clear()


class _Once(logging.Filter):
    """One line on a collector that cannot be reached, instead of several for each export.

    Args:
        endpoint: The collector.
    """

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._told = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Take failures, let all else pass."""
        if record.levelno < logging.WARNING:
            return True
        if record.levelno >= logging.ERROR and not self._told:
            self._told = True
            words = "telemetry: %s did not take what it was sent (%s); what it does not take is lost, nothing else is"
            logger.warning(words, self._endpoint, record.getMessage().rstrip("."))
        return False


def _tell_once(endpoint: str) -> None:
    for kind in ("trace", "metric"):
        exporter = logging.getLogger(f"opentelemetry.exporter.otlp.proto.http.{kind}_exporter")
        for earlier in [each for each in exporter.filters if isinstance(each, _Once)]:
            exporter.removeFilter(earlier)
        exporter.addFilter(_Once(endpoint))


@cache
def _opened(
    traces: bool, metrics: bool, endpoint: str, headers: tuple[tuple[str, str], ...], service: str, content: bool
) -> Telemetry:
    """Providers and exporters, or the tracer provider of the program that this package is part of."""
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        raise TelemetryError(
            "settings: telemetry needs packages that are not installed: pip install 'graphrag-assets[telemetry]'"
        ) from None
    name = service or os.environ.get("OTEL_SERVICE_NAME") or NAME
    resource = Resource.create({"service.name": name, "service.version": __version__})
    _tell_once(endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318")
    flushes: list[Callable[[int], bool]] = []
    tracer = meter = None
    if traces:
        provider = trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            provider = _tracer_provider(resource, endpoint, dict(headers))
            _PROVIDERS.append(provider)
        flushes.append(provider.force_flush)
        tracer = provider.get_tracer(NAME, __version__)
    if metrics:
        meters = _meter_provider(resource, endpoint, dict(headers))
        _PROVIDERS.append(meters)
        flushes.append(meters.force_flush)
        meter = meters.get_meter(NAME, __version__)

    def flush() -> None:
        for send in flushes:
            send(FLUSH)

    return Telemetry(tracer, meter, flush, content)


def _timeout(kind: str) -> float | None:
    """Seconds for which an export is tried; None: as the environment says."""
    names = ("OTEL_EXPORTER_OTLP_TIMEOUT", f"OTEL_EXPORTER_OTLP_{kind}_TIMEOUT")
    return None if any(os.environ.get(name) for name in names) else EXPORT_SECONDS


def _tracer_provider(resource: Any, endpoint: str, headers: dict[str, str]) -> Any:
    """Spans in batches over HTTP; the environment variables OTEL_* are heeded, and the process ends with a last export."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(
        endpoint=f"{endpoint}/v1/traces" if endpoint else None, headers=headers or None, timeout=_timeout("TRACES")
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _meter_provider(resource: Any, endpoint: str, headers: dict[str, str]) -> Any:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    exporter = OTLPMetricExporter(
        endpoint=f"{endpoint}/v1/metrics" if endpoint else None, headers=headers or None, timeout=_timeout("METRICS")
    )
    return MeterProvider([PeriodicExportingMetricReader(exporter)], resource=resource)
