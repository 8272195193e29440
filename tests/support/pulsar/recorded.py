"""Brokers that answer as Pulsar 4.0.8 did when it was asked: over real sockets, by the record."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from aiohttp import web

from broker_ctl.core.model.broker import BrokerUrls
from tests.support.http.web_server import serving

RECORDED: Final = Path(__file__).parents[2] / "pulsar" / "recorded"
# The brokers of the record: asked, leading, and the third.
ASKED, OTHER, LEADER = "127.0.0.1:23190", "127.0.0.1:23191", "127.0.0.1:23192"

Answer = Mapping[str, Any]
Live = Callable[[web.Request], web.StreamResponse | None]


def recorded(name: str) -> Any:
    """A recorded file's content."""
    return json.loads((RECORDED / name).read_text(encoding="utf-8"))


@dataclass
class RecordedBroker:
    """One broker.

    Attributes:
        seen: requests so far: method, path with query, body, authorization.
        live: asked before the record; None: the record answers.
    """

    answers: Mapping[tuple[str, str], Answer]
    places: Callable[[str], str]
    seen: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    live: Live = lambda _: None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = (await request.read()).decode()
        self.seen.append(
            (request.method, unquote(request.raw_path), body, request.headers.get("Authorization"))
        )
        # As Jersey does with a body of any other type, also with an empty one.
        if request.method != "GET" and request.content_type != "application/json":
            return web.Response(status=415)
        if (answer := self.live(request)) is not None:
            return answer
        known = self.answers.get((request.method, unquote(request.raw_path)))
        if known is None:
            return web.json_response({"reason": "HTTP 404 Not Found"}, status=404)
        reply = web.Response(status=known["status"], text=known["body"])
        if "location" in known:
            reply.headers["Location"] = self.places(known["location"])
        return reply

    def orders(self) -> list[str]:
        """Method and path of each request that was not a GET."""
        return [f"{method} {path}" for method, path, *_ in self.seen if method != "GET"]


class RecordedCluster:
    """Three brokers by their recorded names, at addresses of their own."""

    def __init__(self) -> None:
        self.urls: dict[str, str] = {}
        answers = {
            (row["method"], unquote(row["path"])): row for row in recorded("admin_answers.json")
        }
        self.brokers = {
            name: RecordedBroker(answers, self._places) for name in (ASKED, OTHER, LEADER)
        }

    def known(self) -> dict[str, BrokerUrls]:
        """Addresses of the brokers as a registry has them, by recorded name."""
        return {name: BrokerUrls(name, url) for name, url in self.urls.items()}

    def _places(self, location: str) -> str:
        for name, url in self.urls.items():
            location = location.replace(f"http://{name}", url)
        return location


@asynccontextmanager
async def recorded_cluster() -> AsyncIterator[RecordedCluster]:
    """The brokers, answering."""
    cluster = RecordedCluster()
    async with AsyncExitStack() as stack:
        for name, broker in cluster.brokers.items():
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", broker.answer)
            cluster.urls[name] = await stack.enter_async_context(serving(app))
        yield cluster
