"""Lookups from memory are answered without a task, and all others as before, over real sockets."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.routing import RequestSteps
from broker_ctl.broker.lookup.lookup import Connect
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import InvalidName
from broker_ctl.security.client_limits import RateLimits
from tests.support.clusters.fake_services import CLUSTER, NAMESPACE, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import eventually

LIMIT_S = 60.0
PATH = "/lookup/v2/topic/persistent/t/ns"
BODY = b'{"bundles":{"numBundles":2}}'


def request(local: str, *headers: str) -> bytes:
    lines = (f"GET {PATH}/{local} HTTP/1.1", "Host: localhost", *headers)
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next response."""
        async with asyncio.timeout(LIMIT_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
            _, found, after = head.partition(b"content-length: ")
            length = int(after.split(b"\r\n")[0]) if found else 0
            return int(head.split()[1]), await self.reader.readexactly(length)


@asynccontextmanager
async def client_of(broker: Broker) -> AsyncIterator[Client]:
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


@pytest.fixture
def recalls(leader: Broker, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What memory was asked for, and whether in a task; it has the topics in `remembered`."""
    recall, seen = leader.lookup.recall, []

    def noted(topic: Topic, *, authoritative: bool) -> Connect | None:
        seen.append((topic.local, asyncio.current_task() is not None))
        return recall(topic, authoritative=authoritative)

    monkeypatch.setattr(leader.lookup, "recall", noted)
    for local in ("known", "other"):
        leader.lookup.remembered[Topic("persistent", NAMESPACE, local)] = leader.urls
    return seen


def counted(broker: Broker) -> dict[str, float]:
    """Requests that the server has counted, by status."""
    samples = broker.instruments.api.requests.samples()
    return {sample.labels["status"]: sample.value for sample in samples}


async def test_what_memory_knows_is_answered_without_a_task(
    leader: Broker, recalls: list[tuple[str, bool]]
) -> None:
    async with client_of(leader) as client:
        for local in ("known", "other", "known"):
            client.send(request(local))
            status, body = await client.answer()
            assert (status, leader.broker_id.encode() in body) == (200, True)
    assert recalls == [("known", False), ("other", False), ("known", False)]
    assert counted(leader) == {"200": 3}


async def test_what_has_to_wait_goes_on_in_a_task_and_no_step_is_repeated(
    leader: Broker, recalls: list[tuple[str, bool]]
) -> None:
    in_task: list[bool] = []

    async def gate() -> None:
        in_task.append(asyncio.current_task() is not None)
        await asyncio.sleep(0)

    leader.lookup.gate = gate
    async with client_of(leader) as client:
        for local in ("unknown", "known"):
            client.send(request(local))
            assert (await client.answer())[0] == 200
    assert in_task == [True]
    # And the connection answers at once again after it.
    assert recalls == [("unknown", False), ("known", False)]
    assert counted(leader) == {"200": 2}


async def test_answers_keep_the_order_of_requests_behind_one_that_waits(
    leader: Broker, recalls: list[tuple[str, bool]]
) -> None:
    entered, opened = asyncio.Event(), asyncio.Event()

    async def gate() -> None:
        entered.set()
        await opened.wait()

    leader.lookup.gate = gate
    async with client_of(leader) as client:
        client.send(request("%20missing?authoritative=true&listenerName=nobody"))
        await entered.wait()
        client.send(request("known"))
        async with client_of(leader) as other:
            other.send(request("other"))
            assert (await other.answer())[0] == 200
        opened.set()
        assert (await client.answer())[0] == 412
        assert (await client.answer())[0] == 200
    # Behind a request in progress it waits for the task of the connection.
    assert recalls[1:] == [("other", False), ("known", True)]


@pytest.mark.parametrize(
    "pieces",
    [
        [request("known")[:9], request("known")[9:]],
        [request("known")[:-2], request("known")[-2:]],
        [request("known") + request("known")],
        [request("known", "Content-Length: 2"), b"{}"],
        [request("known", "Transfer-Encoding: chunked"), b"0\r\n\r\n"],
        [
            b"PUT /admin/v2/namespaces/t/new HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
        ],
    ],
    ids=["in its line", "in its end", "two at once", "length", "chunks", "change"],
)
async def test_a_connection_that_sends_anything_else_is_served_as_before(
    leader: Broker, recalls: list[tuple[str, bool]], pieces: list[bytes]
) -> None:
    expected = [200, 200] if pieces == [request("known") * 2] else [200]
    if pieces[0].startswith(b"PUT"):
        expected = [204]
    async with client_of(leader) as client:
        client.send(request("known"))
        assert (await client.answer())[0] == 200
        for piece in pieces:
            client.send(piece)
            await client.writer.drain()
        for status in expected:
            assert (await client.answer())[0] == status
        client.send(request("known"))
        assert (await client.answer())[0] == 200
    assert recalls[0] == ("known", False)


@pytest.mark.parametrize("header", ["Connection: close", "Expect: 100-continue", "Upgrade: h2c"])
async def test_a_request_that_asks_for_more_is_answered_too(
    leader: Broker, recalls: list[tuple[str, bool]], header: str
) -> None:
    async with client_of(leader) as client:
        client.send(request("known", header))
        if header.startswith("Expect"):
            assert (await client.answer())[0] == 100
        assert (await client.answer())[0] == 200
    assert len(recalls) == 1


async def test_an_error_in_memory_is_a_response(leader: Broker, recalls: Any) -> None:
    async with client_of(leader) as client:
        for local, status in (("%00", 412), ("known?authoritative=perhaps", 400), ("known", 200)):
            client.send(request(local))
            assert (await client.answer())[0] == status
    assert counted(leader) == {"412": 1, "400": 1, "200": 1}
    assert [local for local, _ in recalls] == ["known"]


async def test_a_bug_in_memory_shows_no_traceback(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a private matter")

    monkeypatch.setattr(leader.lookup, "recall", fail)
    async with client_of(leader) as client:
        client.send(request("known"))
        status, body = await client.answer()
    assert (status, b"private" in body) == (500, False)


async def test_a_connection_that_was_answered_at_once_is_closed_when_it_is_idle() -> None:
    rules = ApiRules(CLUSTER, idle_timeout_s=0.2)
    async with serving_brokers([free_port()], rules) as [broker], client_of(broker) as client:
        broker.lookup.remembered[Topic("persistent", NAMESPACE, "known")] = broker.urls
        client.send(request("known"))
        assert (await client.answer())[0] == 200
        async with asyncio.timeout(LIMIT_S):
            assert await client.reader.read() == b""


@pytest.mark.parametrize("local", ["known", "unknown"])
async def test_each_request_counts_once_in_the_rates(local: str) -> None:
    rules = ApiRules(CLUSTER, rates=RateLimits(address_per_s=2.0))
    async with serving_brokers([free_port()], rules) as [broker], client_of(broker) as client:
        broker.lookup.remembered[Topic("persistent", NAMESPACE, "known")] = broker.urls

        async def status() -> int:
            client.send(request(local))
            return (await client.answer())[0]

        # The first two are at once; how long the others take decides nothing but their number.
        assert [await status(), await status()] == [200, 200]
        async with asyncio.timeout(LIMIT_S):
            while await status() != 429:
                pass


async def _waits(wait: Callable[[], Awaitable[Any]]) -> Any:
    await wait()


async def test_a_step_that_waits_without_a_task_is_an_error() -> None:
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(RuntimeError, match="without a task"):
        RequestSteps(_waits(lambda: never))


async def test_steps_may_fail_before_their_first_wait() -> None:
    async def fail() -> Any:
        raise InvalidName("x")

    with pytest.raises(InvalidName):
        RequestSteps(fail())


class Written(asyncio.Transport):
    """What is written to a connection."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.data = b""

    def write(self, data: Any) -> None:
        self.data += bytes(data)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""


async def test_what_arrives_before_the_task_begins_waits_behind_it(
    leader: Broker, recalls: list[tuple[str, bool]]
) -> None:
    assert leader.api is not None
    (server,) = leader.api._http._servers
    connection, transport = server(), Written()
    connection.connection_made(transport)
    connection.data_received(request("unknown?listenerName=nobody"))
    connection.data_received(request("known"))
    assert transport.data == b""
    await eventually(lambda: transport.data.count(b"HTTP/1.1") == 2)
    connection.connection_lost(None)
    assert re.findall(rb"HTTP/1.1 (\d+)", transport.data) == [b"412", b"200"]
    assert [local for local, _ in recalls] == ["unknown", "known"]
