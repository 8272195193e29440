"""Pings, an event loop that does not run, and the session that it has."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from broker_ctl.core.machines.lease import LoopWatchdog
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection, Xids
from broker_ctl.store.zookeeper.liveness import keep_alive
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.http.certificates import serving_context, trusting_context
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import LoopThread, SharedEnsemble
from tests.support.zookeeper.proxy import Proxy

# The shortest that the test server grants.
TIMEOUT_S = 1.0
BUSY_S = 2.4
PATIENT_TIMEOUT_S = 60.0
PAUSE_S = 0.0001
PING = wire.frame(wire.ping(), wire.XID_PING)

LOOPS = pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
WITH_TLS = pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])


def compute(for_s: float) -> None:
    """Plain Python: other threads run, other tasks of the loop do not."""
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        pass


def run(new_loop: Callable[[], Any], work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work)


def options(zookeeper: SharedEnsemble, chroot: str, limit_s: float | None) -> StoreOptions:
    return StoreOptions(
        zookeeper.connect_string,
        chroot,
        session_timeout_s=TIMEOUT_S,
        operation_timeout_s=10.0,
        watchdog=None if limit_s is None else LoopWatchdog(limit_s),
    )


@contextmanager
def reached(given: StoreOptions, *, is_tls: bool) -> Iterator[StoreOptions]:
    """The same servers, over TLS if ``is_tls``; the proxy does not run in the busy loop."""
    if not is_tls:
        yield given
        return
    port = int(given.hosts.rpartition(":")[2])
    with LoopThread("TLS proxy") as thread:
        scope = Proxy.to(port, serving_context())
        proxy = thread.run(scope.__aenter__())
        try:
            yield replace(given, hosts=proxy.address, tls=trusting_context())
        finally:
            thread.run(scope.__aexit__(None, None, None))


async def survives(given: StoreOptions, busy: Callable[[float], None] = compute) -> bool:
    """Whether a session, and a node of it, outlive a loop that is busy for more than twice T."""
    store = ZooKeeperStore(given)
    await store.start()
    try:
        await store.wait_connected()
        assert store.session_timeout_s == TIMEOUT_S
        session_id = store.session_id
        made = await store.create("/mine", mode=CreateMode.EPHEMERAL, make_parents=True)
        busy(BUSY_S)
        found = await store.get("/mine")
        lives = found is not None and found.stat.czxid == made.stat.czxid
        if not lives:
            await eventually(lambda: store.session_id not in {0, session_id})
        assert lives is (store.session_id == session_id)
        return lives
    finally:
        await store.close()


@LOOPS
@WITH_TLS
def test_a_busy_loop_keeps_its_session(
    zookeeper: SharedEnsemble, chroot: str, new_loop: Callable[[], Any], is_tls: bool
) -> None:
    async def work(given: StoreOptions) -> None:
        assert await survives(given)

    with reached(options(zookeeper, chroot, 10.0), is_tls=is_tls) as given:
        run(new_loop, work(given))


def test_a_loop_that_is_taken_for_dead_loses_its_session(
    zookeeper: SharedEnsemble, chroot: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        assert not await survives(options(zookeeper, chroot, 0.5))

    run(uvloop.new_event_loop, work())
    (said,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert "the event loop has not run for" in said
    # The place at which it was stuck.
    assert "in compute" in said


async def test_without_a_thread_the_loop_alone_keeps_the_session(
    zookeeper: SharedEnsemble, chroot: str
) -> None:
    assert not await survives(options(zookeeper, chroot, None))


@LOOPS
@WITH_TLS
def test_a_frame_of_the_thread_never_cuts_one_of_the_loop(
    zookeeper: SharedEnsemble, chroot: str, new_loop: Callable[[], Any], is_tls: bool
) -> None:
    """Frames that are larger than the socket's buffer leave in parts, with pings all the while."""

    async def work(given: StoreOptions) -> None:
        store = ZooKeeperStore(given)
        await store.start()
        await store.wait_connected()
        await store.create("/large", make_parents=True)
        connection = store._session._connection
        assert connection is not None
        assert connection.stream.share()
        own = connection.stream._shared
        assert own is not None
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        data = b"x" * 300_000
        is_over, sent, refused = threading.Event(), 0, 0

        def ping_all_the_time() -> None:
            nonlocal sent, refused
            # Between two pings the loop gets the interpreter at once, and not after 5 ms.
            while not is_over.wait(PAUSE_S):
                is_sent = connection.stream.send_now(PING)
                sent, refused = sent + is_sent, refused + (not is_sent)

        thread = threading.Thread(target=ping_all_the_time)
        thread.start()
        try:
            for _ in range(8):
                async with asyncio.TaskGroup() as group:
                    for _ in range(4):
                        group.create_task(store.set("/large", data), name="set")
        finally:
            is_over.set()
            thread.join()
        assert store._session._connection is connection
        assert not connection.is_closed
        assert sent > 0
        assert refused > 0
        await store.close()

    # A third of it without an answer would end the connection, too.
    patient = replace(options(zookeeper, chroot, None), session_timeout_s=PATIENT_TIMEOUT_S)
    with reached(patient, is_tls=is_tls) as given:
        run(new_loop, work(given))


class Stalled(Connection):
    """A connection whose answer is in the socket: the loop reads it some turns later, or never."""

    def __init__(self, turns: int) -> None:
        super().__init__(print, print, print, 1, Xids())
        self.turns = turns
        self.looks = 0

    @property
    def unanswered_s(self) -> float:
        self.looks += 1
        if self.looks == 1:
            self._turn()
        return 1.0 if self.turns else 0.0

    def _turn(self) -> None:
        if self.turns:
            self.turns -= 1
            self._loop.call_soon(self._turn)


async def test_what_lies_in_the_socket_after_a_stall_is_read_before_the_server_is_judged() -> None:
    connection = Stalled(turns=2)
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(keep_alive(connection, 0.3), name="keep alive")
        await eventually(lambda: connection.looks >= 3)
        keeping.cancel()
    assert not connection.is_closed


async def test_a_server_that_says_nothing_for_a_third_of_the_timeout_is_left() -> None:
    connection = Stalled(turns=1_000_000)
    async with asyncio.timeout(60):
        await keep_alive(connection, 0.3)
    assert connection.is_closed
    assert "no answer for 1.0 s" in str(await connection.wait_closed())
