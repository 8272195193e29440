"""Sockets that connect to the binary port and say nothing, in floods of a bounded size."""

import logging
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest

from broker_ctl.api.binary.enums import CommandType, ServerError
from tests.api.binary.serving import RULES, serving
from tests.support.http.binary_client import CONNECT, BinaryClient
from tests.support.time.waiting import eventually

FLOOD = 600


@contextmanager
def silent(address: str, port: int) -> Iterator[socket.socket]:
    """A connection from an address of loopback."""
    with socket.create_connection(("127.0.0.1", port), 10, (address, 0)) as tcp:
        yield tcp


async def test_silent_sockets_take_no_places_of_clients(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(max_connections=FLOOD // 2) as served, AsyncExitStack() as stack:
        before = await stack.enter_async_context(BinaryClient.connected(served.port))
        with caplog.at_level(logging.WARNING):
            for _ in range(FLOOD):
                await stack.enter_async_context(BinaryClient.to(served.port))
            async with BinaryClient.to(served.port) as client:
                assert (await client.ask(CONNECT)).type == CommandType.CONNECTED
                assert await client.is_answered()
        assert await before.is_answered()
        limit = RULES.max_waiting_of_address
        await eventually(lambda: served.connections() <= limit + 1)
        refused = next(iter(served.instruments.refused_connections.samples())).value
        # The client that proves itself waits, too, where its CONNECT comes after its connection.
        assert refused in {FLOOD - limit, FLOOD + 1 - limit}
        line = f"more than {limit} binary clients of 127.0.0.1 have sent no CONNECT"
        assert caplog.text.count(line) == 1


async def test_the_oldest_silent_sockets_of_the_flooding_address_are_closed_first() -> None:
    async with serving(max_waiting_of_address=2) as served, AsyncExitStack() as stack:
        other = stack.enter_context(silent("127.0.0.2", served.port))
        oldest, second, newest = [
            await stack.enter_async_context(BinaryClient.to(served.port)) for _ in range(3)
        ]
        error = (await oldest.receive()).error
        assert error.error == ServerError.ServiceNotReady
        assert error.message == "2 newer clients of 127.0.0.1 have sent no CONNECT"
        assert await oldest.rest() == b""
        for client in (second, newest):
            assert (await client.ask(CONNECT)).type == CommandType.CONNECTED
        other.settimeout(0)
        with pytest.raises(BlockingIOError):
            other.recv(1)


async def test_the_oldest_of_all_addresses_are_closed_beyond_the_common_limit() -> None:
    async with serving(max_waiting=2) as served, AsyncExitStack() as stack:
        first = await stack.enter_async_context(BinaryClient.to(served.port))
        for number in range(2, 4):
            stack.enter_context(silent(f"127.0.0.{number}", served.port))
        error = (await first.receive()).error
        assert error.message == "2 newer clients of all addresses have sent no CONNECT"


async def test_a_burst_of_clients_with_their_connect_is_admitted_in_full() -> None:
    async with (
        serving(max_waiting=30, max_waiting_of_address=5) as served,
        AsyncExitStack() as stack,
    ):
        # The loop does not run meanwhile: it finds all of them at once, as after a broker's death.
        # They are beyond both limits, and not twice as many as may wait.
        burst = [stack.enter_context(silent("127.0.0.1", served.port)) for _ in range(50)]
        for tcp in burst:
            tcp.sendall(CONNECT)
        await eventually(lambda: served.counted().get(("CONNECT", "ok")) == len(burst))
        assert served.connections() == len(burst)
        assert not next(iter(served.instruments.refused_connections.samples())).value


async def test_a_waiting_client_whose_place_was_taken_meanwhile_is_refused_with_the_reason() -> (
    None
):
    async with serving(max_connections=1) as served, AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(BinaryClient.to(served.port)) for _ in range(2)
        ]
        assert (await second.ask(CONNECT)).type == CommandType.CONNECTED
        error = (await first.ask(CONNECT)).error
        assert error.error == ServerError.ServiceNotReady
        assert error.message == "1 clients are connected already"
        assert await first.rest() == b""
        assert await second.is_answered()
