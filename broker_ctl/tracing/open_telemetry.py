"""Spans as OpenTelemetry's SDK keeps and exports them; nothing else knows it.

Imported only where tracing is on: the SDK is the extra ``otel``.
"""

import threading
from collections.abc import Mapping
from functools import cached_property
from random import Random
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.trace import Span as SdkSpan
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace import Tracer as SdkTracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from broker_ctl.tracing.spans import TRACEPARENT, Attribute, is_valid
from broker_ctl.tracing.spans import SpanKind as Kind

_SCOPE: Final = "broker_ctl"
_EXPORT_TIMEOUT_S: Final = 5
# What waits for a collector; beyond that, spans are dropped.
_MAX_WAITING: Final = 2048
_MAX_LENGTH: Final = 256
_KINDS: Final = {
    Kind.SERVER: SpanKind.SERVER,
    Kind.CLIENT: SpanKind.CLIENT,
    Kind.INTERNAL: SpanKind.INTERNAL,
}
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class OpenTelemetrySpan:
    """See `Span`."""

    def __init__(self, tracer: SdkTracer, span: SdkSpan) -> None:
        self._tracer = tracer
        self._span = span
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(span))
        self.traceparent = carrier.get(TRACEPARENT, "")

    def child(
        self, name: str, kind: Kind, attributes: Mapping[str, Attribute]
    ) -> "OpenTelemetrySpan":
        """See `Span.child`."""
        span = self._tracer.start_span(
            name, set_span_in_context(self._span), _KINDS[kind], _named(attributes)
        )
        return OpenTelemetrySpan(self._tracer, span)

    def set(self, name: str, value: Attribute) -> None:
        """See `Span.set`."""
        self._span.set_attribute(_attribute(name), value)

    def end(self, error: str = "") -> None:
        """See `Span.end`."""
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(StatusCode.ERROR)
        self._span.end()
        self.traceparent = ""


class OpenTelemetryTracer:
    """See `Tracer`. Begins nothing, and no thread, before the first span.

    Args:
        endpoint: where spans go, as OTLP over HTTP.
        request_ratio: share of the requests without a context of their own that are traced.
        resource: what all spans have in common.
    """

    def __init__(
        self, endpoint: str, request_ratio: float, resource: Mapping[str, Attribute]
    ) -> None:
        self._endpoint = endpoint
        self._request_ratio = request_ratio
        self._resource = resource
        self._random = Random()  # noqa: S311  # nobody gains by guessing it
        self._provider: TracerProvider | None = None

    def admits(self, parent: str) -> bool:
        """See `Tracer.admits`."""
        return (parent != "" and is_valid(parent)) or self._random.random() < self._request_ratio

    def begin(
        self, name: str, kind: Kind, attributes: Mapping[str, Attribute], parent: str = ""
    ) -> OpenTelemetrySpan:
        """See `Tracer.begin`."""
        above = _PROPAGATOR.extract({TRACEPARENT: parent} if is_valid(parent) else {}, Context())
        span = self._tracer.start_span(name, above, _KINDS[kind], _named(attributes))
        return OpenTelemetrySpan(self._tracer, span)

    @cached_property
    def _tracer(self) -> SdkTracer:
        self._provider = TracerProvider(
            # A context that is not to be followed is the client's decision; all else `admits` has.
            DEFAULT_ON,
            Resource.create(self._resource),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_attribute_length=_MAX_LENGTH),
        )
        exporter = OTLPSpanExporter(self._endpoint, timeout=_EXPORT_TIMEOUT_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=_MAX_WAITING))
        return self._provider.get_tracer(_SCOPE)

    def close(self, timeout_s: float) -> None:
        """See `Tracer.close`."""
        if self._provider is None:
            return
        # The SDK waits half a minute for a collector that does not answer.
        ending = threading.Thread(target=self._provider.shutdown, name="tracing", daemon=True)
        ending.start()
        ending.join(timeout_s)


def _named(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    return {_attribute(name): value for name, value in attributes.items()}


def _attribute(name: str) -> str:
    """OpenTelemetry's own have a dot; ours are below one prefix."""
    return name if "." in name else f"broker_ctl.{name}"
