"""Bodies are read by one reader, and none is read for a stranger who could hold a place by it."""

import ast
import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import broker_ctl
from broker_ctl.api.http import bodies
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.console.web import forms
from tests.support.clusters.fake_services import CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S, eventually

PACKAGE: Final = Path(broker_ctl.__file__).parent
# All that serves HTTP.
ROOMS: Final = ("api", "attach", "console")
READING: Final = {"content", "json", "multipart", "post", "read", "text"}
REQUESTS: Final = {"received", "request"}
SECURED: Final = ApiRules(
    CLUSTER, max_requests=4, **admitting(f"admin:{TOKEN}", {"admin"}), authenticates_metrics=True
)


def readings() -> Iterator[tuple[str, str]]:
    for file in (path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in REQUESTS
                and node.attr in READING
            ):
                yield file.relative_to(PACKAGE).as_posix(), node.attr


def test_only_the_bounded_reader_reads_bodies() -> None:
    assert set(readings()) == {("api/http/bodies.py", "content")}


@pytest.fixture
async def secured() -> AsyncIterator[Broker]:
    async with serving_brokers([free_port()], SECURED) as [broker]:
        yield broker


@asynccontextmanager
async def asking(
    broker: Broker, what: str, *more: str, address: str = "127.0.0.1", body: bytes = b""
) -> AsyncIterator[asyncio.StreamReader]:
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(address, 0))
    lines = [f"{what} HTTP/1.1", f"Host: {broker.broker_id}", *more, "", ""]
    writer.write("\r\n".join(lines).encode() + body)
    try:
        yield reader
    finally:
        writer.close()


async def status_of(broker: Broker, what: str, *more: str, address: str = "127.0.0.1") -> int:
    async with asking(broker, what, *more, address=address) as reader, asyncio.timeout(PATIENCE_S):
        return int((await reader.readline()).split()[1])


def form_of(broker: Broker, length: int = 100) -> tuple[str, ...]:
    return (
        f"Origin: http://{broker.broker_id}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {length}",
    )


async def test_forms_that_never_end_take_no_place_of_others(secured: Broker) -> None:
    api = secured.api
    assert api is not None
    async with AsyncExitStack() as stack:
        for number in range(forms._MOST_OF_ADDRESS * 2):
            what, address = "POST /ui/sign-in", f"127.0.0.{3 + number % 2}"
            held = asking(secured, what, *form_of(secured), address=address, body=b"t")
            await stack.enter_async_context(held)
        console = api._request_classes.console
        await eventually(lambda: console.in_flight == console.limit)
        bearer = f"Authorization: Bearer {TOKEN}"
        command = ("POST /control/v1/acquire", bearer, "Content-Length: 0")
        assert [
            await status_of(secured, "GET /livez"),
            await status_of(secured, "GET /readyz"),
            await status_of(secured, "GET /admin/v2/brokers/health"),
            await status_of(secured, "GET /dataplane/v1/authority"),
            await status_of(secured, "GET /metrics", bearer),
            await status_of(secured, "GET /control/v1/status", bearer),
            await status_of(secured, *command),
        ] == [200, 200, 200, 200, 200, 200, 400]


async def test_a_stranger_s_body_is_not_waited_for(secured: Broker) -> None:
    for what in ("POST /ui/act", "POST /control/v1/acquire", "PUT /control/v1/pause"):
        async with asking(secured, what, *form_of(secured), body=b"t") as reader:
            async with asyncio.timeout(PATIENCE_S):
                # In less than the time for a body, which has not come.
                assert b" 401 " in await reader.readline()
    assert secured.api is not None
    assert secured.api._request_classes.in_flight == 0


async def test_a_form_has_a_few_kilobytes_and_ten_seconds(
    secured: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = forms.MOST_OF_SIGN_IN
    assert await status_of(secured, "POST /ui/sign-in", *form_of(secured, most + 1)) == 413
    monkeypatch.setattr(bodies, "_LIMIT_S", 0.05)
    assert await status_of(secured, "POST /ui/sign-in", *form_of(secured)) == 408
    assert bodies._LIMIT_S <= 10


async def test_forms_of_one_address_leave_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forms, "_MOST_OF_ADDRESS", 1)
    rules = ApiRules(CLUSTER, **admitting(f"admin:{TOKEN}", {"admin"}))
    async with (
        serving_brokers([free_port()], rules) as [broker],
        asking(broker, "POST /ui/sign-in", *form_of(broker), address="127.0.0.3"),
    ):
        api = broker.api
        assert api is not None
        await eventually(lambda: api._request_classes.console.in_flight == 1)
        sent = ("POST /ui/sign-in", *form_of(broker, 0))
        assert await status_of(broker, *sent, address="127.0.0.3") == 503
        # Not a token, but read.
        assert await status_of(broker, *sent, address="127.0.0.4") == 401
