"""All of a daemon that a stranger reaches, as its code declares it: attacks walk these lists.

A new route, port or file is in them without anybody's doing.
"""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pytest
from aiohttp import web

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.access.route_rules import ROUTE_RULES, Access, Exempt, Rule
from broker_ctl.api.http.request_params import has_dry_run, supports_dry_run
from broker_ctl.security.authorization import Operation
from broker_ctl.settings.root import DECLARATIONS
from tests.support.time.waiting import PATIENCE_S

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Answered by a handler, whatever it would have done.
REACHED: Final = 299
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_SAMPLES: Final = {
    "domain": "persistent",
    "tenant": "t",
    "namespace": "ns",
    "bundle": "0x00000000_0xffffffff",
    "partition": "1",
}


@dataclass(frozen=True, slots=True)
class Route:
    """A route, as its rule names it."""

    method: str
    pattern: str
    access: Access

    def path(self, name: str | None = None) -> str:
        """A path that matches no other route; with ``name`` in place of each variable."""
        return _PLACEHOLDER.sub(
            lambda found: _SAMPLES.get(found[1], "x") if name is None else name, self.pattern
        )

    @property
    def is_change(self) -> bool:
        return self.method not in READS

    @property
    def is_open(self) -> bool:
        """Whether everybody may send it."""
        return self.access in {Exempt.HEALTH, Exempt.METRICS, Exempt.CONSOLE}

    @property
    def is_of_client(self) -> bool:
        """Whether a public port serves it also where there are others."""
        if isinstance(self.access, Rule):
            return self.access.operation is Operation.LOOKUP
        return self.access not in {Exempt.CONSOLE, Exempt.DATA_PLANE}

    @property
    def variables(self) -> list[str]:
        return _PLACEHOLDER.findall(self.pattern)

    def __str__(self) -> str:
        return f"{self.method} {self.pattern}"


ROUTES: Final = tuple(
    Route(method, pattern, access) for (method, pattern), access in ROUTE_RULES.items()
)
ROUTE_OF: Final = {(route.method, route.pattern): route for route in ROUTES}
# The settings that name a port.
PORT_KEYS: Final = tuple(
    sorted(key for key in DECLARATIONS if re.search(r"ServicePort(Tls)?$", key))
)
# The settings that name a file that decides who is believed.
TRUSTED_FILES: Final = tuple(
    sorted(key for key, one in DECLARATIONS.items() if one.setting.guard is not None)
)


async def _name_route(request: web.Request) -> web.Response:
    resource = request.match_info.route.resource
    assert resource is not None
    return web.Response(status=REACHED, text=resource.canonical)


@supports_dry_run
async def _name_action(request: web.Request) -> web.Response:
    return await _name_route(request)


def without_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers do nothing from here on: each answers with 299 and the pattern of its route."""
    original = ApiServer.routes

    def routes(self: ApiServer) -> list[web.RouteDef]:
        return [
            web.RouteDef(
                one.method,
                one.path,
                _name_action if has_dry_run(one.handler) else _name_route,
                one.kwargs,
            )
            for one in original(self)
        ]

    monkeypatch.setattr(ApiServer, "routes", routes)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, as it came."""

    status: int
    head: str
    body: bytes


class Asker:
    """Sends requests as they are written, over one connection while that stands."""

    def __init__(self, url: str, *headers: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._address = (host, int(port))
        self._headers = headers
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self, method: str, path: str, headers: Iterable[str] = (), body: bytes = b""
    ) -> Answer:
        """The response to a request; ``Host`` is ours unless ``headers`` has one."""
        headers = list(headers)
        names = {line.partition(":")[0].lower() for line in headers}
        own = {"host": "Host: localhost", "content-length": f"Content-Length: {len(body)}"}
        lines = [line for name, line in own.items() if name not in names]
        text = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, *self._headers, *headers, "", ""])
        async with asyncio.timeout(PATIENCE_S):
            for is_last in (False, True):
                try:
                    return await self._exchange(text.encode("utf-8", "surrogateescape") + body)
                except (asyncio.IncompleteReadError, ConnectionError):
                    self.close()
                    if is_last:
                        raise
        raise AssertionError

    async def _exchange(self, request: bytes) -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("utf-8", "replace").lower()
        length = re.search(r"\r\ncontent-length: (\d+)", head)
        has_body = length is not None and not request.startswith(b"HEAD ")
        body = await reader.readexactly(int(length[1])) if length and has_body else b""
        if "\r\nconnection: close" in head or length is None:
            self.close()
        return Answer(int(head.split()[1]), head, body)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"
