"""What every response has in its head, whatever route it comes from."""

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import broker_ctl
from tests.support.clusters.fake_services import Broker
from tests.support.security.surface import ROUTES
from tests.support.time.waiting import PATIENCE_S

PACKAGE = Path(broker_ctl.__file__).parent
# All that serves HTTP.
ROOMS = ("api", "attach", "console")
# Of aiohttp: they name it, and let browsers guess.
THEIRS = {"FileResponse", "Response", "StreamResponse", "json_response"}
BY_HAND = {
    # Classes of this package derive from them there.
    ("api/http/responses.py", "Response"),
    ("api/http/responses.py", "StreamResponse"),
}


def made_by_aiohttp() -> Iterator[tuple[str, str]]:
    for file in (path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(ast.Name("web"), name)) if name in THEIRS:
                    yield file.relative_to(PACKAGE).as_posix(), name
                case ast.ClassDef(bases=[ast.Attribute(ast.Name("web"), name)]) if name in THEIRS:
                    yield file.relative_to(PACKAGE).as_posix(), name


def test_no_handler_makes_a_response_of_aiohttp() -> None:
    assert set(made_by_aiohttp()) == BY_HAND


async def head_of(broker: Broker, method: str, path: str) -> str:
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    more = "" if method == "GET" else "Content-Length: 0\r\n"
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return head.decode().lower()


async def test_no_route_names_software_or_lets_a_browser_guess(leader: Broker) -> None:
    asked = {(route.method, route.path("x")) for route in ROUTES}
    asked |= {("GET", "/nothing"), ("PATCH", "/livez"), ("BAD REQUEST", "/")}
    assert len(asked) > 90
    for method, path in sorted(asked):
        head = await head_of(leader, method, path)
        assert "\r\nx-content-type-options: nosniff\r\n" in head, (method, path, head)
        assert "\r\nserver:" not in head, (method, path, head)
        assert not re.search("python|aiohttp", head), (method, path, head)
