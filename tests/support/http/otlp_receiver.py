"""A collector of OpenTelemetry, as far as tests need one: it keeps the spans that it is sent."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.http.web_server import serving

_PATH = "/v1/traces"


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span, with the ids in hex; ``daemon`` is the broker id of the process that sent it."""

    daemon: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, str]

    @classmethod
    def of(cls, daemon: str, span: Span) -> "ReceivedSpan":
        return cls(
            daemon,
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            _texts(span.attributes),
        )


class Receiver:
    """The spans of all daemons, in the order in which they came."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[ReceivedSpan] = []

    async def receive(self, request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for part in sent.resource_spans:
            daemon = _texts(part.resource.attributes)["service.instance.id"]
            for scope in part.scope_spans:
                self.spans += [ReceivedSpan.of(daemon, span) for span in scope.spans]
        return web.Response(body=b"", content_type="application/x-protobuf")

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def above(self, span: ReceivedSpan) -> list[ReceivedSpan]:
        """A span, what caused it, and so on up to the root."""
        by_id = {one.span_id: one for one in self.spans}
        chain = [span]
        while (parent := by_id.get(chain[-1].parent_id)) is not None:
            chain.append(parent)
        return chain


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.add_routes([web.post(_PATH, receiver.receive)])
    async with serving(app) as url:
        receiver.url = f"{url}{_PATH}"
        yield receiver


def _texts(pairs: Sequence[KeyValue]) -> dict[str, str]:
    return {pair.key: pair.value.string_value or str(pair.value.int_value) for pair in pairs}
