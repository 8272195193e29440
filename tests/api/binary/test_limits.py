"""The server's bounds, its start and its end, with real sockets."""

import asyncio
import logging
import socket
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import pytest

from broker_ctl.api.binary.dependencies import BinaryListener
from broker_ctl.api.binary.enums import CommandType, LookupType, ServerError
from broker_ctl.api.binary.server import BinaryServer
from broker_ctl.errors import StartError
from tests.api.binary.serving import RULES, SELF, Served, serving
from tests.support.http.binary_client import CONNECT, PING, BinaryClient, lookup
from tests.support.http.certificates import trusting_context
from tests.support.time.waiting import eventually

TOPIC = "persistent://t/ns/x"


async def test_one_client_too_many_is_rejected_and_may_come_back() -> None:
    async with serving(max_connections=2) as served:
        async with (
            BinaryClient.connected(served.port) as first,
            BinaryClient.connected(served.tls_port, trusting_context()),
        ):
            async with BinaryClient.to(served.port) as third:
                refused = (await third.ask(CONNECT)).error
                assert refused.error == ServerError.ServiceNotReady
                assert refused.message == "2 clients are connected already"
                assert await third.rest() == b""
            assert served.connections() == 2
            assert next(iter(served.instruments.refused_connections.samples())).value == 1
            assert await first.is_answered()
        await eventually(lambda: served.connections() == 0)
        async with BinaryClient.connected(served.port) as again:
            assert await again.is_answered()


async def test_more_refused_clients_than_can_be_answered_are_cut_off() -> None:
    async with serving(max_connections=1, linger_s=30.0) as served, AsyncExitStack() as stack:
        to = BinaryClient.to
        await stack.enter_async_context(BinaryClient.connected(served.port))
        clients = [await stack.enter_async_context(to(served.port)) for _ in range(300)]
        answered = [bool(await client.rest()) for client in clients]
        assert answered == [True] * 256 + [False] * 44
        assert served.connections() == 1
        for client in clients:
            client.writer.transport.abort()


async def test_a_client_that_does_not_read_is_not_read_and_loses_nothing() -> None:
    async with (
        serving(max_unsent_bytes=4096) as served,
        BinaryClient.to(served.port, receive_bytes=4096) as client,
    ):
        client.send(CONNECT)
        # Long questions and answers fill the buffers of the kernel soon.
        filler = "x" * 4000
        served.assign(replace(SELF, native_url=f"pulsar://{'x' * 2000}"), TOPIC)
        asked = 0
        with suppress(TimeoutError):
            # Its own buffers stay full only when the server reads no more.
            while asked < 1_000_000:
                client.send(lookup(TOPIC, asked, original_auth_data=filler))
                asked += 1
                async with asyncio.timeout(1.0):
                    await client.writer.drain()
        assert asked < 1_000_000
        async with BinaryClient.connected(served.port) as other:
            assert (await other.find(TOPIC)).response == LookupType.CONNECT
        assert (await client.receive()).type == CommandType.CONNECTED
        answered = 0
        async for command in client.receive_all():
            assert command.lookupTopicResponse.request_id == answered
            answered += 1
            if answered == asked:
                break


async def test_a_client_that_goes_away_leaves_nothing(served: Served) -> None:
    opened = asyncio.Event()
    served.lookup.gate = opened.wait
    async with BinaryClient.connected(served.port) as client:
        client.send(*(lookup(TOPIC, number) for number in range(5)))
        await eventually(lambda: served.bound.in_flight == 5)
    await eventually(lambda: served.connections() == 0)
    # Others may have joined it, so what was begun goes on.
    assert served.bound.in_flight == 5
    opened.set()
    await eventually(lambda: served.bound.in_flight == 0)
    assert next(iter(served.instruments.in_flight.samples())).value == 0


async def test_a_port_in_use_is_named_and_nothing_stays_open() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        served = Served(RULES, 10)
        listeners = (
            BinaryListener("127.0.0.1", 0, "plainPort"),
            BinaryListener("127.0.0.1", port, "tlsPort"),
        )
        server = BinaryServer(served.dependencies, RULES, listeners)
        with pytest.raises(StartError, match=rf"127\.0\.0\.1 port {port}.*in use.*tlsPort"):
            await server.start()
        assert server.ports == ()
        await server.stop(0.1)


async def test_an_address_of_another_machine_is_named() -> None:
    served = Served(RULES, 10)
    server = BinaryServer(served.dependencies, RULES, [BinaryListener("192.0.2.1", 0, "plainPort")])
    with pytest.raises(StartError, match=r"192\.0\.2\.1 port 0.*plainPort"):
        await server.start()


async def test_stopping_answers_what_is_in_progress_and_sends_the_rest_away() -> None:
    opened = asyncio.Event()
    async with serving() as served, BinaryClient.connected(served.port) as client:
        served.assign(SELF, TOPIC)
        served.lookup.gate = opened.wait
        client.send(lookup(TOPIC, 1))
        await eventually(lambda: served.bound.in_flight == 1)
        async with asyncio.TaskGroup() as group:
            port = served.port
            stop = group.create_task(served.server.stop(5))
            await eventually(lambda: served.server.ports == ())
            refused = await client.find(TOPIC, 2)
            assert refused.error == ServerError.ServiceNotReady
            assert refused.message == "this broker is shutting down"
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            assert not stop.done()
            opened.set()
            assert (await client.receive()).lookupTopicResponse.request_id == 1
            assert await client.rest() == b""
        assert served.connections() == 0


async def test_stopping_cuts_off_what_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served, BinaryClient.connected(served.port) as client:
        served.lookup.gate = asyncio.Event().wait
        client.send(*(lookup(TOPIC, number) for number in range(3)))
        await eventually(lambda: served.bound.in_flight == 3)
        with caplog.at_level(logging.WARNING):
            await served.server.stop(0.05)
        assert "cancelling 3 binary requests" in caplog.text
        assert await client.rest() == b""
        assert served.bound.in_flight == 0


async def test_stopping_waits_for_no_client_that_stays() -> None:
    async with (
        serving() as served,
        BinaryClient.connected(served.port) as plain,
        BinaryClient.connected(served.tls_port, trusting_context()) as wrapped,
        BinaryClient.to(served.port, receive_bytes=4096) as deaf,
    ):
        deaf.send(CONNECT, *[PING] * 100_000)
        async with asyncio.timeout(60):
            await served.server.stop(0.1)
        assert served.connections() == 0
        assert await plain.rest() == b""
        assert await wrapped.rest() == b""


async def test_a_client_that_sends_no_connect_in_time_is_disconnected_on_both_ports() -> None:
    async with (
        serving(connect_limit_s=0.1) as served,
        BinaryClient.to(served.port) as plain,
        BinaryClient.to(served.tls_port) as wrapped,
    ):
        assert (await plain.receive()).error.message == "no CONNECT came in time"
        assert await plain.rest() == b""
        # Not even the TLS handshake has begun.
        assert await wrapped.rest() == b""


async def test_a_client_that_connects_with_tls_to_the_plain_port_is_disconnected(
    served: Served,
) -> None:
    with pytest.raises(OSError, match=r"SSL|reset|closed"):
        async with BinaryClient.to(served.port, trusting_context()):
            pass
    await eventually(lambda: served.connections() == 0)
