"""The span of a request that has passed authorization: its route, method, status."""

from contextlib import AbstractContextManager

from aiohttp import web

from broker_ctl.tracing.spans import NO_SPAN, TRACEPARENT, Span, Tracer, request_span


def traced(
    tracer: Tracer | None, request: web.Request, route: str
) -> AbstractContextManager[Span | None]:
    """For the length of the block a span, which continues the trace of the client if it has one."""
    if tracer is None:
        return NO_SPAN
    return request_span(
        tracer,
        f"{request.method} {route}",
        parent=request.headers.get(TRACEPARENT, ""),
        **{"http.request.method": request.method, "http.route": route},
    )


def note_status(span: Span | None, response: web.StreamResponse) -> None:
    """Add what was answered."""
    if span is not None:
        span.set("http.response.status_code", response.status)
