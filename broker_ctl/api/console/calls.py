"""Requests that a page makes for its client, to the same routes as the client's own requests.

Such a request passes all steps of the dispatcher: limits, cross-origin protection, authorization,
dry runs, the audit log. The console has no right of its own. Where another broker has to answer,
the request goes there with the client's credentials.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from aiohttp import StreamReader, hdrs, web
from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from broker_ctl import codec
from broker_ctl.api.http.routing import RoutedRequest
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import CorruptRecord, HttpError
from broker_ctl.http_client import HttpReply

_BUFFER_BYTES: Final = 1 << 16
_PASSED: Final = (hdrs.HOST, hdrs.ORIGIN, "Sec-Fetch-Site", "X-Request-Id", hdrs.AUTHORIZATION)
_MOST_REDIRECTS: Final = 4
_REDIRECTED: Final = HTTPStatus.TEMPORARY_REDIRECT
_UNREACHABLE: Final = HTTPStatus.BAD_GATEWAY

Answer = Callable[[RoutedRequest], Awaitable[web.StreamResponse]]


class Forward(Protocol):
    """Sends a client's request to another broker of the cluster; see `forwarding`."""

    async def __call__(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpReply:
        """The reply, which may be a redirect to yet another broker.

        Raises:
            HttpError: the address is not one of a broker, or it does not answer in time.
        """
        ...


@dataclass(frozen=True, slots=True)
class CallReply:
    """A whole reply: status and JSON value, None where there is no JSON."""

    status: int
    value: Any

    @property
    def is_done(self) -> bool:
        """Whether the request succeeded."""
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def reason(self) -> str:
        """Why it did not, in the words of the API."""
        value = self.value
        reason = value.get("reason", "") if isinstance(value, Mapping) else ""
        return str(reason) or HTTPStatus(self.status).phrase

    @classmethod
    def of(cls, status: int, body: bytes) -> "CallReply":
        """The reply with this body."""
        try:
            return cls(status, codec.decode(body) if body else None)
        except CorruptRecord:
            return cls(status, None)


class Calls:
    """Makes such requests.

    Args:
        answer: the steps of a request of this server.
        forward: to other brokers; None: this process calls none for its clients.
        urls_of: the addresses of a live broker.
    """

    def __init__(
        self,
        answer: Answer,
        forward: Forward | None,
        urls_of: Callable[[str], BrokerUrls | None] = lambda _: None,
    ) -> None:
        self._answer = answer
        self._urls_of = urls_of
        self._forward = forward

    async def send(
        self, request: web.Request, method: str, target: str, body: Any = None, *, token: str = ""
    ) -> CallReply:
        """Make one request for the client of ``request``; ``target`` is path and query, encoded.

        ``token`` is of the client's session; empty: the client is known by the request itself.
        """
        content = None if body is None else codec.encode(body)
        headers = _headers(request, content, token)
        response = await self._answer(_request_for(request, method, target, headers, content))
        if response.status == _REDIRECTED:
            return await self._follow(response.headers[hdrs.LOCATION], method, headers, content)
        found = getattr(response, "body", None)
        return CallReply.of(response.status, found if isinstance(found, bytes) else b"")

    async def send_to(
        self, request: web.Request, broker: str, target: str, *, token: str = ""
    ) -> CallReply:
        """Make one GET for the client of ``request`` at the broker of this id."""
        urls = None if self._forward is None else self._urls_of(broker)
        url = None if urls is None else next(filter(None, reversed(urls.for_administration)), None)
        if url is None:
            return CallReply(_UNREACHABLE, {"reason": f"broker {broker} cannot be asked from here"})
        headers = _headers(request, None, token)
        return await self._follow(url.rstrip("/") + target, "GET", headers, None)

    async def _follow(
        self, url: str, method: str, headers: Mapping[str, str], content: bytes | None
    ) -> CallReply:
        if self._forward is None:
            reason = f"broker {urlsplit(url).netloc} answers this: open its console"
            return CallReply(_UNREACHABLE, {"reason": reason})
        passed = {
            name: headers[name] for name in (hdrs.AUTHORIZATION, "X-Request-Id") if name in headers
        }
        try:
            for _ in range(_MOST_REDIRECTS):
                reply = await self._forward(method, url, passed, content)
                if reply.status != _REDIRECTED:
                    return CallReply.of(reply.status, reply.body)
                url = reply.headers[hdrs.LOCATION]
        except HttpError as error:
            return CallReply(_UNREACHABLE, {"reason": str(error)})
        return CallReply(_UNREACHABLE, {"reason": "the brokers redirect to each other; try again"})


def _headers(request: web.Request, content: bytes | None, token: str) -> CIMultiDict[str]:
    headers = CIMultiDict(
        (name, value) for name in _PASSED if (value := request.headers.get(name)) is not None
    )
    if token:
        headers[hdrs.AUTHORIZATION] = f"Bearer {token}"
    if content is not None:
        headers[hdrs.CONTENT_TYPE] = "application/json"
        headers[hdrs.CONTENT_LENGTH] = str(len(content))
    return headers


def _request_for(
    request: web.Request, method: str, target: str, headers: CIMultiDict[str], content: bytes | None
) -> RoutedRequest:
    """A request on the connection of another one: of the same address and certificate."""
    assert isinstance(request, RoutedRequest)
    loop = asyncio.get_running_loop()
    payload = StreamReader(request.protocol, _BUFFER_BYTES, loop=loop)
    payload.feed_data(content or b"")
    payload.feed_eof()
    message = RawRequestMessage(
        method,
        target,
        HttpVersion11,
        CIMultiDictProxy(headers),
        tuple(
            (name.encode(), value.encode(errors="surrogateescape"))
            for name, value in headers.items()
        ),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
        url=URL(target, encoded=True),
    )
    made = RoutedRequest(message, payload, request.protocol, request.writer, request.task, loop)
    made.is_inner = True
    made.is_at_admin_port = request.is_at_admin_port
    return made
