"""Every handler is reached through the server, by the route that is its own.

A handler is a public method that takes a request, of any class of the package that has routes.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest
from aiohttp import web

import broker_ctl.api
import broker_ctl.attach
import broker_ctl.console.web
from broker_ctl.api import broker_server
from broker_ctl.api.broker_server import ApiServer
from broker_ctl.attach import server
from broker_ctl.console.web import routes as console_routes
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import serving_brokers
from tests.support.http.web_server import free_port

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PLACEHOLDER = re.compile(r"\{\w+(?::((?:[^{}]|\{[^{}]*\})*))?\}")
# One of them fits whatever a route asks of a part of its path.
SAMPLES = ("x", "1", "persistent", "0x00000000_0xffffffff")


def handlers() -> dict[str, type[Any]]:
    """Classes of routes by ``class.method`` of each handler."""
    found: dict[str, type[Any]] = {}
    rooms = (broker_ctl.api, broker_ctl.attach, broker_ctl.console.web)
    for name in [
        module.name
        for room in rooms
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    ]:
        for _, kind in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            if kind.__name__.endswith("Routes") and kind.__module__ == name:
                found |= {
                    method.__qualname__: kind
                    for method_name, method in inspect.getmembers(kind, inspect.iscoroutinefunction)
                    if not method_name.startswith("_")
                    and "Request" in str(inspect.signature(method))
                }
    return found


def name_of(handler: Any) -> str:
    name: str = handler.__qualname__
    return name


def _sample(placeholder: re.Match[str]) -> str:
    pattern = placeholder.group(1) or ".*"
    return next(each for each in SAMPLES if re.fullmatch(pattern, each))


def _naming(handler: Any) -> Handler:
    async def answer_name(_: web.Request) -> web.Response:
        return web.json_response({"handler": name_of(handler)})

    return answer_name


def declared_by(module: ModuleType) -> set[str]:
    """The classes of routes that a server's module names."""
    source = inspect.getsource(module)
    return {
        name.partition(".")[0]
        for name in handlers()
        if re.search(rf"\b{name.partition('.')[0]}\(", source)
    }


def test_every_class_of_routes_is_served_somewhere() -> None:
    served = declared_by(broker_server) | declared_by(server) | declared_by(console_routes)
    assert {name.partition(".")[0] for name in handlers()} == served


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> list[web.RouteDef]:
    """Routes of the servers that the test makes; each answers with the name of its handler."""
    found: list[web.RouteDef] = []
    original = ApiServer.routes

    def naming_routes(self: ApiServer) -> list[web.RouteDef]:
        own = original(self)
        found[:] = own
        return [web.RouteDef(one.method, one.path, _naming(one.handler), one.kwargs) for one in own]

    monkeypatch.setattr(ApiServer, "routes", naming_routes)
    return found


async def test_every_handler_answers_at_its_own_route(
    routes: list[web.RouteDef], http: HttpClient
) -> None:
    async with serving_brokers([free_port()]) as (broker,):
        expected = set(handlers()) - {n for n in handlers() if n.startswith("AttachedRoutes.")}
        assert {name_of(one.handler) for one in routes} == expected
        # The first that matches answers: of two that have a path in common, the more exact one.
        wrong: list[tuple[str, str, str]] = []
        for one in routes:
            path = PLACEHOLDER.sub(_sample, one.path)
            reply = await http.request(one.method, broker.url + path)
            answered = reply.json().get("handler", f"{reply.status}")
            if answered != name_of(one.handler):
                wrong.append((one.method, one.path, answered))
        assert wrong == []
        assert len(routes) > 60
