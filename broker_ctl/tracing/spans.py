"""Spans of a trace; nothing of OpenTelemetry is imported without an endpoint."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from enum import StrEnum
from importlib.metadata import version
from typing import Final, Protocol

from broker_ctl.errors import StartError

# Spans of a trace: which one the code is in, and its children.
#
# A tracer begins roots: requests of clients, decisions of the leader, moves that were taken over.
# All else asks for a child of the span that it runs in, and gets none where there is no trace.
# Without a tracer that is one look at an attribute, or at a context variable. The context of a
# span crosses to other daemons as W3C's ``traceparent``: as a header of requests, and as a field
# of move records.
#
# No attribute has the text of an error, a body, a header or a token: only names, ids and numbers.


# The header of W3C's trace context.
TRACEPARENT: Final = "traceparent"
_FORM: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

Attribute = str | int | float | bool


class SpanKind(StrEnum):
    """What a span describes."""

    SERVER = "server"
    CLIENT = "client"
    INTERNAL = "internal"


class Span(Protocol):
    """A part of a trace, from its begin to its end."""

    @property
    def traceparent(self) -> str:
        """Its context, for what it causes elsewhere.

        Empty once it has ended: what it began and left running causes nothing in its name.
        """
        ...

    def child(self, name: str, kind: SpanKind, attributes: Mapping[str, Attribute]) -> "Span":
        """Begin a part of it."""
        ...

    def set(self, name: str, value: Attribute) -> None:
        """Add an attribute."""
        ...

    def end(self, error: str = "") -> None:
        """End it; ``error``: the name of what it failed with."""
        ...


class Tracer(Protocol):
    """Begins traces, or continues those of others."""

    def begin(
        self, name: str, kind: SpanKind, attributes: Mapping[str, Attribute], parent: str = ""
    ) -> Span:
        """Begin a span; ``parent`` is a ``traceparent`` of whatever origin, or empty."""
        ...

    def admits(self, parent: str) -> bool:
        """Whether a request is traced: its client says so by its context, or a share of them is."""
        ...

    def close(self, timeout_s: float) -> None:
        """Send what has ended, and give up after ``timeout_s``. Blocks."""
        ...


_current: Final[ContextVar[Span | None]] = ContextVar("current_span", default=None)
# Where nothing is traced.
NO_SPAN: Final[AbstractContextManager[None]] = nullcontext()


def is_valid(traceparent: str) -> bool:
    """Whether a text from another process is the context of a span."""
    return _FORM.fullmatch(traceparent) is not None


def current_traceparent() -> str:
    """The context of the span that the code runs in; empty: none."""
    span = _current.get()
    return "" if span is None else span.traceparent


def child_span(
    name: str, kind: SpanKind = SpanKind.INTERNAL, **attributes: Attribute
) -> AbstractContextManager[Span | None]:
    """For the length of the block a child of the span that the code runs in, if there is one."""
    span = _current.get()
    if span is None or not span.traceparent:
        return NO_SPAN
    return _inside(span.child(name, kind, attributes))


def root_span(
    tracer: Tracer | None, name: str, kind: SpanKind, *, parent: str = "", **attributes: Attribute
) -> AbstractContextManager[Span | None]:
    """For the length of the block a span of a tracer, if there is one."""
    return NO_SPAN if tracer is None else _inside(tracer.begin(name, kind, attributes, parent))


def request_span(
    tracer: Tracer | None, name: str, *, parent: str = "", **attributes: Attribute
) -> AbstractContextManager[Span | None]:
    """For the length of the block the span of a client's request, if it is traced.

    The others have no span: one that is not sampled costs a third of a lookup, and would keep the
    decisions in it out of traces.
    """
    if tracer is None or not tracer.admits(parent):
        return NO_SPAN
    return root_span(tracer, name, SpanKind.SERVER, parent=parent, **attributes)


def caused_span(
    tracer: Tracer | None, name: str, *, parent: str = "", **attributes: Attribute
) -> AbstractContextManager[Span | None]:
    """A child of the span that the code runs in, or else a root."""
    if tracer is None:
        return NO_SPAN
    if current_traceparent():
        return child_span(name, SpanKind.INTERNAL, **attributes)
    return root_span(tracer, name, SpanKind.INTERNAL, parent=parent, **attributes)


@contextmanager
def _inside(span: Span) -> Iterator[Span]:
    token, error = _current.set(span), ""
    try:
        yield span
    except BaseException as caught:
        error = type(caught).__name__
        raise
    finally:
        _current.reset(token)
        span.end(error)


# The tracer of a daemon; without an endpoint nothing of OpenTelemetry is imported.


# A collector that does not answer must not hold up the end of the process.
_CLOSE_S: Final = 2.0


def build_tracer(
    endpoint: str, request_ratio: float, *, cluster: str, broker_id: str
) -> Tracer | None:
    """Build it; None: without an endpoint tracing is off.

    Raises:
        StartError: OpenTelemetry is not installed.
    """
    if not endpoint:
        return None
    try:
        from broker_ctl.tracing.open_telemetry import (  # half a second, and an extra
            OpenTelemetryTracer,
        )
    except ImportError as error:
        raise StartError(
            f"openTelemetryTracesEndpoint needs OpenTelemetry ({error.name} is missing): "
            "pip install 'broker-ctl[otel]', or leave it empty"
        ) from error
    resource = {
        "service.name": "broker-ctl",
        "service.namespace": cluster,
        "service.instance.id": broker_id,
        "service.version": version("broker-ctl"),
    }
    return OpenTelemetryTracer(endpoint, request_ratio, resource)


async def close_tracer(tracer: Tracer | None) -> None:
    """Send the spans that have ended."""
    if tracer is not None:
        await asyncio.to_thread(tracer.close, _CLOSE_S)
