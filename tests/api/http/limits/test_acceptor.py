"""Connections accepted over real sockets, with asyncio's own event loop and with uvloop."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
import uvloop

from broker_ctl.api.http.limits import acceptor
from broker_ctl.api.http.limits.acceptor import Acceptor, PlainPorts
from tests.support.time.waiting import PATIENCE_S, eventually

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
CLIENTS = 40


@pytest.fixture(params=LOOPS)
def run(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[Callable[[], Awaitable[None]]], None]]:
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:

        def run_in(test: Callable[[], Awaitable[None]]) -> None:
            async def bounded() -> None:
                async with asyncio.timeout(PATIENCE_S):
                    await test()

            runner.run(bounded())

        yield run_in


def connected(number: int, count: int) -> list[socket.socket]:
    """Clients whose connections wait in the backlog: nothing is accepted without a turn."""
    return [socket.create_connection(("127.0.0.1", number)) for _ in range(count)]


def close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


def test_a_turn_accepts_as_many_as_it_may_and_no_more(run: Callable[..., None]) -> None:
    async def test() -> None:
        taken: list[socket.socket] = []
        one = Acceptor(lambda client, _: taken.append(client), most=16)
        clients = connected(await one.listen("127.0.0.1", 0, 100), CLIENTS)
        seen = [0]
        while len(taken) < CLIENTS:
            await asyncio.sleep(0)
            if len(taken) != seen[-1]:
                seen.append(len(taken))
        assert seen == [0, 16, 32, 40]
        assert {client.gettimeout() for client in taken} == {0}
        one.close()
        close(clients + taken)

    run(test)


def test_the_taker_of_a_connection_may_close_the_acceptor(run: Callable[..., None]) -> None:
    async def test() -> None:
        taken: list[socket.socket] = []

        def take(client: socket.socket, _: object) -> None:
            taken.append(client)
            one.close()

        one = Acceptor(take)
        clients = connected(await one.listen("127.0.0.1", 0, 100), 3)
        await eventually(lambda: len(taken) > 0)
        # What stayed in the backlog is told so.
        with pytest.raises(ConnectionResetError):
            clients[-1].recv(1)
        assert len(taken) == 1
        close(clients + taken)

    run(test)


class Exhausted:
    """A listening socket whose `accept` fails in the given ways before it succeeds."""

    def __init__(self, listening: socket.socket, failures: list[int]) -> None:
        self._listening = listening
        self.failures = failures

    def fileno(self) -> int:
        return self._listening.fileno()

    def getsockname(self) -> Any:
        return self._listening.getsockname()

    def close(self) -> None:
        self._listening.close()

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            number = self.failures.pop(0)
            raise OSError(number, errno.errorcode[number])
        return self._listening.accept()


@pytest.mark.parametrize(
    ("failures", "warnings"),
    [
        ([errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM], 4),
        ([errno.ECONNABORTED, errno.EPROTO], 0),
    ],
)
def test_accepting_waits_for_descriptors_and_not_for_clients_that_left(
    run: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failures: list[int],
    warnings: int,
) -> None:
    monkeypatch.setattr(acceptor, "_EXHAUSTED_S", 0.01)
    made: list[Exhausted] = []
    listen = acceptor._listen

    def exhausted(*arguments: Any) -> Exhausted:
        made.append(Exhausted(listen(*arguments), list(failures)))
        return made[-1]

    monkeypatch.setattr(acceptor, "_listen", exhausted)

    async def test() -> None:
        taken: list[socket.socket] = []
        one = Acceptor(lambda client, _: taken.append(client))
        clients = connected(await one.listen("127.0.0.1", 0, 100), 2)
        await eventually(lambda: len(taken) == 2)
        assert made[0].failures == []
        one.close()
        close(clients + taken)

    run(test)
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == warnings


def test_a_pause_ends_with_the_acceptor(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listen = acceptor._listen
    monkeypatch.setattr(acceptor, "_EXHAUSTED_S", 0.05)
    monkeypatch.setattr(
        acceptor, "_listen", lambda *given: Exhausted(listen(*given), [errno.EMFILE])
    )

    async def test() -> None:
        one = Acceptor(lambda client, _: client.close())
        clients = connected(await one.listen("127.0.0.1", 0, 100), 1)
        await eventually(lambda: len(caplog.records) == 1)
        one.close()
        with pytest.raises(ConnectionResetError):
            clients[0].recv(1)
        close(clients)
        await asyncio.sleep(0.1)

    run(test)
    assert [one.getMessage() for one in caplog.records] == ["cannot accept a connection: EMFILE"]


class Greeting(asyncio.Protocol):
    """Says hello and goes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A transport of uvloop is one by its methods alone.
        cast("asyncio.Transport", transport).write(b"hello")
        transport.close()


async def read(number: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", number)
    try:
        return await reader.read()
    finally:
        writer.close()


def test_a_port_in_the_clear_serves_more_than_one_turn_accepts(run: Callable[..., None]) -> None:
    async def test() -> None:
        ports = PlainPorts("test")
        number = await ports.listen(Greeting, "127.0.0.1", 0, 100)
        async with asyncio.TaskGroup() as clients:
            answers = [clients.create_task(read(number)) for _ in range(100)]
        assert {answer.result() for answer in answers} == {b"hello"}
        await ports.close()
        with pytest.raises(ConnectionRefusedError):
            await read(number)

    run(test)


def test_a_socket_that_became_no_connection_is_closed_with_its_port(
    run: Callable[..., None],
) -> None:
    async def test() -> None:
        ports = PlainPorts("test")
        number = await ports.listen(Greeting, "127.0.0.1", 0, 100)
        clients = connected(number, 1)
        # Accepted, and its task has not had its first step.
        for one in list(ports._acceptors[0]._listening):
            ports._acceptors[0]._accept(one)
        await ports.close()
        clients[0].settimeout(PATIENCE_S)
        assert clients[0].recv(10) in {b"", b"hello"}
        close(clients)

    run(test)


def test_an_address_in_use_is_an_error_and_holds_nothing(run: Callable[..., None]) -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as held:
            ports = PlainPorts("test")
            with pytest.raises(OSError, match="in use"):
                await ports.listen(Greeting, "127.0.0.1", held.getsockname()[1], 100)
            await ports.close()

    run(test)
