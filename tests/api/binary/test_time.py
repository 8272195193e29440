"""How long a client may take, in virtual time."""

import asyncio
import gc
import weakref

import pytest

from broker_ctl.api.binary import replies
from broker_ctl.api.binary.clients import Clients
from broker_ctl.api.binary.connection import BinaryConnection
from broker_ctl.api.binary.dependencies import BinaryRules
from broker_ctl.api.binary.enums import CommandType
from broker_ctl.api.binary.ready_answers import AnswersOf
from broker_ctl.api.binary.workers import LookupRequest, Workers
from broker_ctl.clock import SystemClock
from broker_ctl.instruments.clients import BinaryInstruments
from broker_ctl.instruments.declared import ApiInstruments
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.security.authorization import Client
from broker_ctl.security.client_limits import RateLimits, RequestRates
from tests.api.binary.memory_transport import MemoryTransport
from tests.api.binary.serving import no_delays
from tests.support.http.binary_client import CONNECT, PING, PONG, lookup

LOOKUP = lookup("persistent://t/ns/x")
# Two answers that differ.
ANSWER, LATE = replies.PONG, replies.partitions(1, 0)


class Inside:
    """A server's inside without a socket; ``answer_after_s`` is how long a lookup takes."""

    def __init__(self, max_in_flight: int = 100) -> None:
        self.rules = BinaryRules("v", max_in_flight=max_in_flight)
        self.answer_after_s = 0.0
        self.begun = 0
        self.workers = Workers(
            lambda _: None, self._answer, lambda _: LATE, self.rules.request_limit_s
        )
        rates = RequestRates(RateLimits(), "binary", SystemClock(), ApiInstruments().rate_limited)
        self.clients = Clients(
            self.rules, self.workers, rates, no_delays(), BinaryInstruments(), ready=self
        )

    def ready(self, client: Client | None, *, is_tls: bool) -> AnswersOf | None:
        del client, is_tls
        return None

    def now_s(self) -> float:
        return 0.0

    def count_ready(self, began_s: float) -> None:
        raise AssertionError(f"since {began_s}")

    async def _answer(self, request: LookupRequest) -> bytes:
        assert request.kind is CommandType.LOOKUP
        self.begun += 1
        if self.answer_after_s:
            await asyncio.sleep(self.answer_after_s)
        return ANSWER

    def transport(self) -> MemoryTransport:
        return MemoryTransport(BinaryConnection(self.clients))

    async def connected(self) -> MemoryTransport:
        transport = self.transport()
        transport.say(CONNECT)
        await asyncio.sleep(0)
        assert transport.heard() == [CommandType.CONNECTED]
        return transport


@in_virtual_time
async def test_a_client_without_a_connect_is_disconnected_after_the_limit() -> None:
    server = Inside()
    transport = server.transport()
    await asyncio.sleep(9.9)
    transport.say(CONNECT[:5])
    assert not transport.has_ended
    await asyncio.sleep(0.2)
    assert transport.heard() == [CommandType.ERROR]
    assert transport.has_ended
    # It has a second to read that, and what it says is thrown away.
    transport.say(CONNECT[5:])
    assert not list(server.clients.instruments.commands.samples())
    await asyncio.sleep(0.8)
    assert not transport.is_aborted
    await asyncio.sleep(0.2)
    assert transport.is_aborted
    await asyncio.sleep(0)
    assert len(server.clients) == 0
    assert transport.heard() == []


@in_virtual_time
async def test_a_silent_client_is_pinged_and_then_left() -> None:
    transport = await Inside().connected()
    await asyncio.sleep(29.9)
    assert transport.heard() == []
    await asyncio.sleep(0.2)
    assert transport.heard() == [CommandType.PING]
    await asyncio.sleep(29.7)
    assert not transport.is_aborted
    await asyncio.sleep(0.2)
    assert transport.is_aborted


@in_virtual_time
async def test_half_a_command_is_a_sign_of_life_once() -> None:
    transport = await Inside().connected()
    await asyncio.sleep(20)
    transport.say(LOOKUP[:9])
    await asyncio.sleep(29)
    assert transport.heard() == []
    await asyncio.sleep(2)
    assert transport.heard() == [CommandType.PING]
    await asyncio.sleep(28)
    assert not transport.is_aborted
    await asyncio.sleep(2)
    assert transport.is_aborted


@in_virtual_time
async def test_a_client_that_answers_pings_stays() -> None:
    transport = await Inside().connected()
    pings = 0
    for _ in range(600):
        await asyncio.sleep(1)
        for kind in transport.heard():
            assert kind == CommandType.PING
            pings += 1
            transport.say(PONG)
    assert not transport.is_aborted
    assert pings == pytest.approx(20, abs=1)


@in_virtual_time
async def test_a_client_that_sends_commands_is_not_pinged() -> None:
    transport = await Inside().connected()
    for _ in range(20):
        await asyncio.sleep(25)
        transport.say(PING)
        await asyncio.sleep(0)
        assert transport.heard() == [CommandType.PONG]
    assert not transport.is_aborted


@in_virtual_time
async def test_a_client_that_reads_no_answers_is_no_longer_read_and_later_disconnected() -> None:
    transport = await Inside().connected()
    transport.say(PING)
    transport_of(transport).pause_writing()
    assert not transport.is_read
    await asyncio.sleep(29)
    assert not transport.is_aborted
    await asyncio.sleep(2)
    assert transport.is_aborted


@in_virtual_time
async def test_a_client_that_reads_again_is_answered_what_it_said_before() -> None:
    server = Inside()
    transport = await server.connected()
    connection = transport_of(transport)
    # Its last commands came with those whose answers it did not take.
    server.answer_after_s = 1.0
    transport.say(LOOKUP)
    connection.pause_writing()
    connection.data_received(PING * 3)
    await asyncio.sleep(20)
    assert transport.heard() == [CommandType.PONG]
    connection.resume_writing()
    assert transport.is_read
    await asyncio.sleep(0)
    assert transport.heard() == [CommandType.PONG] * 3
    await asyncio.sleep(29)
    assert transport.heard() == []
    await asyncio.sleep(2)
    assert transport.heard() == [CommandType.PING]


@in_virtual_time
async def test_a_connection_at_its_limit_of_requests_in_progress_is_not_read() -> None:
    server = Inside(max_in_flight=2)
    server.answer_after_s = 20.0
    transport = await server.connected()
    transport.say(LOOKUP * 5 + PING)
    await asyncio.sleep(19)
    assert (server.begun, transport.is_read) == (2, False)
    await asyncio.sleep(2)
    assert transport.heard() == [CommandType.PONG] * 2
    assert (server.begun, transport.is_read) == (4, False)
    await asyncio.sleep(20)
    # One is left, and the ping: there is room again. It was not read, so it was not silent.
    assert transport.heard() == [CommandType.PONG] * 3
    assert (server.begun, transport.is_read) == (5, True)
    await asyncio.sleep(20)
    assert transport.heard() == [CommandType.PONG]


@in_virtual_time
async def test_a_request_has_its_time_from_when_it_came() -> None:
    server = Inside()
    server.answer_after_s = 31.0
    transport = await server.connected()
    transport.say(LOOKUP)
    await asyncio.sleep(29)
    transport.say(LOOKUP)
    await asyncio.sleep(2)
    assert transport.heard() == [CommandType.PARTITIONED_METADATA_RESPONSE]
    transport.say(PONG)
    await asyncio.sleep(27)
    assert transport.heard() == []
    await asyncio.sleep(2)
    assert transport.heard() == [CommandType.PARTITIONED_METADATA_RESPONSE]
    assert server.workers.in_flight == 0


@in_virtual_time
async def test_an_answer_for_a_client_that_has_gone_is_dropped() -> None:
    server = Inside()
    server.answer_after_s = 5.0
    transport = await server.connected()
    transport.say(LOOKUP * 3)
    await asyncio.sleep(1)
    transport.abort()
    await asyncio.sleep(1)
    assert len(server.clients) == 0
    assert server.workers.in_flight == 3
    await asyncio.sleep(5)
    assert server.workers.in_flight == 0
    assert transport.heard() == []


@in_virtual_time
async def test_a_connection_whose_client_has_gone_is_garbage_collected() -> None:
    transport = await Inside().connected()
    transport.abort()
    await asyncio.sleep(0)
    connection = weakref.ref(transport_of(transport))
    del transport
    # No timer of its own does so, until it would have been pinged.
    gc.collect()
    assert connection() is None


@in_virtual_time
async def test_a_client_that_connects_after_the_server_has_stopped_is_disconnected() -> None:
    # Its TLS handshake has taken longer than the end of the server.
    server = Inside()
    await server.clients.part()
    assert server.transport().is_aborted


@in_virtual_time
async def test_requests_that_wait_start_together() -> None:
    server = Inside()
    server.answer_after_s = 5.0
    transport = await server.connected()
    transport.say(LOOKUP * 50)
    await asyncio.sleep(5.1)
    assert transport.heard() == [CommandType.PONG] * 50
    assert (server.begun, server.workers.in_flight) == (50, 0)


@in_virtual_time
async def test_a_flood_has_its_share_of_each_turn_and_no_more() -> None:
    server = Inside(max_in_flight=10_000)
    floods = [await server.connected() for _ in range(40)]
    quiet = await server.connected()
    for flood in floods:
        flood.say(LOOKUP * 500 + PING)
        assert not flood.is_read
    answered = [0] * len(floods)
    turns = 0
    while sum(answered) < 40 * 501:
        turns += 1
        if turns == 2:
            quiet.say(LOOKUP)
        begun = server.begun
        await asyncio.sleep(0)
        assert server.begun - begun <= 128
        assert server.workers.in_flight <= 1024 + 64
        answered = [a + len(flood.heard()) for a, flood in zip(answered, floods, strict=True)]
        if turns == 60:
            # It is not last because it came last; and nobody is left out.
            assert quiet.heard() == [CommandType.PONG]
            assert min(answered) > 0
            assert max(answered) < 501
    assert 20_001 / 128 < turns < 600
    await asyncio.sleep(0)
    assert all(flood.is_read for flood in floods)
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_a_worker_that_has_waited_takes_nothing_more() -> None:
    # Its time has begun to run long before.
    opened, tasks = asyncio.Event(), []

    async def answer(request: LookupRequest) -> bytes:
        tasks.append(asyncio.current_task())
        if request.command == "slow":
            await opened.wait()
        return ANSWER

    workers = Workers(lambda _: None, answer, lambda _: LATE, 30.0)
    answers: list[bytes] = []
    workers.put(LookupRequest(CommandType.LOOKUP, "slow", b"", is_tls=False, reply=answers.append))
    await asyncio.sleep(1)
    opened.set()
    workers.wait_turn(lambda: None)
    workers.put(LookupRequest(CommandType.LOOKUP, "quick", b"", is_tls=False, reply=answers.append))
    await asyncio.sleep(1)
    assert answers == [ANSWER] * 2
    assert len(set(tasks)) == 2


@in_virtual_time
async def test_workers_that_are_closed_leave_no_task() -> None:
    server = Inside()
    server.answer_after_s = 5.0
    transport = await server.connected()
    transport.say(LOOKUP * 10)
    await asyncio.sleep(0)
    await server.workers.close()
    assert server.workers.in_flight == 0
    assert len(asyncio.all_tasks()) == 1


def transport_of(transport: MemoryTransport) -> BinaryConnection:
    """The server's side of the connection, for events that a socket would deliver."""
    return transport._connection
