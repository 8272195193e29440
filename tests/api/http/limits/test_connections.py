"""Connections over real sockets: how many, and how long one may say nothing."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.limits import connections
from broker_ctl.instruments.kinds import Instrument
from tests.support.clusters.fake_services import CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import eventually

REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
SHORT_S = 0.2
DEADLINE_S = 60.0


class Line:
    """A client that says what a test has it say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
            return head + await self.reader.readexactly(int(length))

    async def rest(self) -> bytes:
        """All bytes until the server closes the connection."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.reader.read()


@asynccontextmanager
async def line_to(broker: Broker, address: str = "127.0.0.1") -> AsyncIterator[Line]:
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(address, 0))
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


def value_of(instrument: Instrument) -> float:
    return sum(sample.value for sample in instrument.samples())


@pytest.mark.parametrize("said", [b"", HEAD], ids=["nothing", "half a head"])
@pytest.mark.parametrize("is_answered_before", [False, True])
async def test_a_connection_without_a_whole_request_is_closed(
    said: bytes, is_answered_before: bool
) -> None:
    rules = ApiRules(CLUSTER, idle_timeout_s=SHORT_S)
    async with serving_brokers([free_port()], rules) as [broker], line_to(broker) as line:
        if is_answered_before:
            line.send(REQUEST)
            assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
        line.send(said)
        assert await line.rest() == b""
        api = broker.instruments.api
        await eventually(lambda: value_of(api.connections) == 0)


async def test_a_request_head_that_arrives_byte_by_byte_does_not_extend_the_idle_timeout() -> None:
    rules = ApiRules(CLUSTER, idle_timeout_s=SHORT_S)
    async with serving_brokers([free_port()], rules) as [broker], line_to(broker) as line:
        line.send(HEAD)
        api = broker.instruments.api
        await eventually(lambda: value_of(api.connections) == 1)

        async def is_closed() -> bool:
            line.send(b"x")
            return value_of(api.connections) == 0

        # A timer that started again with each byte would never close the connection.
        await eventually(is_closed, deadline_s=DEADLINE_S, poll_s=SHORT_S / 10)


async def test_a_request_that_takes_longer_is_answered() -> None:
    rules = ApiRules(CLUSTER, idle_timeout_s=SHORT_S)
    async with (
        serving_brokers([free_port()], rules) as [broker],
        line_to(broker) as line,
        line_to(broker) as idle,
    ):
        entered, opened = asyncio.Event(), asyncio.Event()

        async def gate() -> None:
            entered.set()
            await opened.wait()

        broker.lookup.gate = gate
        line.send(b"GET /lookup/v2/topic/persistent/t/ns/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await entered.wait()
        # It is older than the time of the other one, which is over then.
        assert await idle.rest() == b""
        opened.set()
        assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
        # And its own begins with the answer.
        assert await line.rest() == b""


async def test_one_connection_too_many_is_rejected_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = ApiRules(CLUSTER, max_connections=2)
    async with serving_brokers([free_port()], rules) as [broker], AsyncExitStack() as stack:
        api = broker.instruments.api
        first, second = [await stack.enter_async_context(line_to(broker)) for _ in range(2)]
        await _all_answer([first, second])
        async with line_to(broker) as third:
            refused = await third.rest()
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"2 connections are open already" in refused
        assert value_of(api.refused_connections) == 1
        assert value_of(api.connections) == 2
        # The others do not suffer from it, and there is room again when one has gone.
        await _all_answer([first, second])
        first.writer.close()
        await eventually(lambda: value_of(api.connections) == 1)
        async with line_to(broker) as fourth:
            await _all_answer([second, fourth])
        assert value_of(api.refused_connections) == 1
    # A flood of refused connections writes no log.
    assert "exception" not in caplog.text


async def test_one_address_takes_only_its_places() -> None:
    rules = ApiRules(CLUSTER, max_connections_of_address=2)
    async with serving_brokers([free_port()], rules) as [broker], AsyncExitStack() as stack:
        api = broker.instruments.api
        lines = [await stack.enter_async_context(line_to(broker)) for _ in range(2)]
        await _all_answer(lines)
        async with line_to(broker) as third, line_to(broker, "127.0.0.2") as other:
            refused = await third.rest()
            assert refused.startswith(b"HTTP/1.1 503 ")
            assert b"2 connections of this address are open already" in refused
            await _all_answer([*lines, other])
        assert value_of(api.refused_connections) == 1
        lines[0].writer.close()
        await eventually(lambda: value_of(api.connections) == 1)
        async with line_to(broker) as again:
            await _all_answer([again])


async def test_silent_connections_take_no_place_from_a_client() -> None:
    rules = ApiRules(CLUSTER, max_connections=3)
    async with serving_brokers([free_port()], rules) as [broker], AsyncExitStack() as stack:
        api = broker.instruments.api
        first = await stack.enter_async_context(line_to(broker))
        await _all_answer([first])
        silent = [await stack.enter_async_context(line_to(broker)) for _ in range(2)]
        silent[0].send(HEAD)
        await eventually(lambda: value_of(api.connections) == 3)
        second = await stack.enter_async_context(line_to(broker))
        await _all_answer([second])
        # The oldest of the two, although it has sent half a head; who has spoken stays.
        assert await silent[0].rest() == b""
        assert value_of(api.refused_connections) == 1
        await _all_answer([first, silent[1]])
        async with line_to(broker) as third:
            assert b"3 connections are open already" in await third.rest()


async def _all_answer(lines: Iterable[Line]) -> None:
    for line in lines:
        line.send(REQUEST)
        assert (await line.answer()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("files", "wanted", "servers", "taken"),
    [
        (1024, 2048, 1, 512),
        (1024, 512, 1, 512),
        (1024, 512, 2, 256),
        (65_536, 2048, 3, 2048),
        (resource.RLIM_INFINITY, 2048, 3, 2048),
    ],
)
def test_connections_leave_half_of_the_descriptors_to_others(
    files: int, wanted: int, servers: int, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert connections.cap(wanted, connections.HTTP / servers) == taken


async def test_a_server_takes_no_more_than_its_descriptors_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2, 2))
    async with serving_brokers([free_port()]) as [broker], line_to(broker) as first:
        await _all_answer([first])
        async with line_to(broker) as second:
            assert b"1 connections are open already" in await second.rest()


SECURED = admitting(f"admin:{TOKEN}", {"admin"})
HALF = (
    b"POST /ui/sign-in HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nt"
)
KNOWN = REQUEST.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
KNOWN = KNOWN.replace(b"/livez", b"/control/v1/pause")


async def test_half_requests_of_strangers_take_no_place_from_a_client() -> None:
    rules = ApiRules(CLUSTER, max_connections=3, max_connections_of_address=2, **SECURED)
    async with serving_brokers([free_port()], rules) as [broker], AsyncExitStack() as stack:

        async def line(address: str) -> Line:
            return await stack.enter_async_context(line_to(broker, address))

        first = await line("127.0.0.2")
        first.send(KNOWN)
        assert (await first.answer()).startswith(b"HTTP/1.1 200 ")
        halves = [await line("127.0.0.3") for _ in range(2)]
        for half in halves:
            half.send(HALF)
        api = broker.api
        assert api is not None
        await eventually(lambda: api._request_classes.console.in_flight == 2)
        # Of the address that has all of its places, and then of all.
        for address, gone in (("127.0.0.3", halves[0]), ("127.0.0.4", halves[1])):
            probe = await line(address)
            await _all_answer([probe])
            assert await gone.rest() == b""
        first.send(KNOWN)
        assert (await first.answer()).startswith(b"HTTP/1.1 200 ")
        await eventually(lambda: api._request_classes.in_flight == 0)


async def test_a_client_that_reads_no_answers_is_closed_and_counted() -> None:
    rules = ApiRules(CLUSTER, idle_timeout_s=SHORT_S)
    async with serving_brokers([free_port()], rules) as [broker], AsyncExitStack() as stack:
        api = broker.instruments.api
        line = await stack.enter_async_context(line_to(broker))
        line.send(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2_000)
        await eventually(lambda: value_of(api.unread_connections) == 1)
        await eventually(lambda: value_of(api.connections) == 0)


async def test_an_answer_that_is_never_read_ends_with_the_idle_timeout() -> None:
    """Also one that the server has written in whole, and that waits in its memory."""
    rules = ApiRules(CLUSTER, idle_timeout_s=SHORT_S)
    async with serving_brokers([free_port()], rules) as [broker]:
        host, port = broker.broker_id.split(":")
        with socket.socket() as unread:
            unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            unread.connect((host, int(port)))
            unread.sendall(REQUEST)
            api = broker.instruments.api
            await eventually(lambda: value_of(api.connections) == 1)
            await eventually(lambda: value_of(api.connections) == 0)
