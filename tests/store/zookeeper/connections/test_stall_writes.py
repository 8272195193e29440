"""What a thread writes while the event loop does not run, and what it proves afterwards."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvloop

from broker_ctl.clock import SystemClock
from broker_ctl.coordination.membership.registry import lease_node
from broker_ctl.coordination.session import AuthorityMode, SessionWatcher
from broker_ctl.core.machines.lease import LoopWatchdog
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.lab.time import ManualClock
from broker_ctl.store.zookeeper.connection import StallFrame, StallWrites, Xids
from broker_ctl.store.zookeeper.liveness import PingThread
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from broker_ctl.store.zookeeper.stream import Stream
from tests.store.zookeeper.connections.test_keepalive import compute, reached, run
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TIMEOUT_S = 4.0
TICK_S = 0.5
# The lease lasts for less than one session timeout.
BUSY_S = 5.0


class Socket:
    """Has received what a test says."""

    def __init__(self) -> None:
        self.unread = 0
        self.is_full = False
        self.sent: list[bytes] = []
        self.on_send: Callable[[bytes], object] = lambda _: None
        self.on_look: Callable[[], object] = lambda: None

    def unread_bytes(self) -> int:
        """The loop may read them as soon as they are counted."""
        unread = self.unread
        self.on_look()
        return unread

    def send_now(self, frame: bytes) -> bool:
        self.on_send(frame)
        self.sent.append(frame)
        return not self.is_full


class Stalled:
    """A loop that stands still, and its thread."""

    def __init__(self) -> None:
        self.socket, self.clock = Socket(), ManualClock(0.0)
        self.writes = StallWrites(cast("Stream", self.socket), Xids(), self.clock)
        self.proofs: list[tuple[float, float]] = []

    def send_at(self, now_s: float) -> bool:
        self.clock.time_s = now_s
        frame = StallFrame(bytes(8), 1.0, lambda sent_s, by_s: self.proofs.append((sent_s, by_s)))
        return self.writes.send(frame)

    def note_at(self, now_s: float, unread: int) -> None:
        self.clock.time_s, self.socket.unread = now_s, unread
        self.writes.note()

    def read_at(self, now_s: float, data: bytes) -> list[bytes]:
        """Each ``R`` ends a reply."""
        self.clock.time_s = now_s
        parts = []
        for part in self.writes.parts(data):
            parts.append(part)
            for _ in range(part.count(b"R")):
                report = self.writes.settle(is_committed=True)
                assert report is not None
                report()
        return parts


def test_a_reply_counts_as_arrived_when_its_last_byte_was_first_noted() -> None:
    loop = Stalled()
    for sent_s in (1.0, 2.0, 3.0):
        assert loop.send_at(sent_s)
    loop.note_at(1.5, 3)  # not the whole first one
    loop.note_at(2.5, 4)
    loop.note_at(3.5, 4)  # nothing new
    loop.note_at(4.5, 8)
    assert loop.read_at(9.0, b"...R...R...R") == [b"...", b"R", b"...R", b"...R"]
    # Of the last one it is only known that it is here.
    assert loop.proofs == [(1.0, 2.5), (2.0, 4.5), (3.0, 9.0)]


def test_notes_count_from_the_begin_of_the_stream() -> None:
    loop = Stalled()
    assert loop.read_at(0.0, b"......") == [b"......"]
    loop.send_at(1.0)
    loop.note_at(2.0, 4)
    # The loop runs again, and reads it in two parts; then it stands still again.
    assert loop.read_at(5.0, b"..") == [b".."]
    assert loop.read_at(6.0, b".R") == [b".R"]
    loop.send_at(10.0)
    loop.note_at(11.0, 2)
    assert loop.read_at(20.0, b".R..") == [b".R", b".."]
    assert loop.proofs == [(1.0, 2.0), (10.0, 11.0)]


def test_bytes_between_the_socket_and_the_loop_make_a_reply_later_never_earlier() -> None:
    loop = Stalled()
    loop.send_at(1.0)
    # The loop has taken three bytes from the socket, and has not counted them.
    loop.note_at(2.0, 1)
    assert loop.read_at(9.0, b"...R") == [b".", b"..R"]
    assert loop.proofs == [(1.0, 9.0)]


def test_what_was_not_sent_has_no_reply() -> None:
    loop = Stalled()
    loop.socket.is_full = True
    assert not loop.send_at(1.0)
    assert not loop.writes.is_next(1)
    loop.socket.is_full = False
    assert loop.send_at(2.0)
    # A refused one proves nothing.
    assert loop.writes.settle(is_committed=False) is None


def test_a_write_is_awaited_before_it_is_sent_and_has_its_number() -> None:
    """The loop may run again in that moment, and find the reply first."""
    loop = Stalled()
    awaited = []
    loop.socket.on_send = lambda frame: awaited.append(
        loop.writes.is_next(int.from_bytes(frame[4:8], "big"))
    )
    assert loop.send_at(1.0)
    assert awaited == [True]


def test_only_the_oldest_without_a_reply_is_next() -> None:
    loop = Stalled()
    assert not loop.writes.is_next(1)
    loop.send_at(1.0)
    loop.send_at(2.0)
    assert loop.writes.is_next(1)
    assert not loop.writes.is_next(2)


def test_what_the_loop_reads_while_the_thread_looks_is_not_counted_twice() -> None:
    loop = Stalled()
    loop.send_at(1.0)
    loop.send_at(1.5)
    loop.socket.on_look = lambda: loop.read_at(2.0, b"...R")
    loop.note_at(2.0, 4)
    loop.socket.on_look = lambda: None
    assert loop.read_at(9.0, b"...R") == [b"...R"]
    assert loop.proofs == [(1.0, 2.0), (1.5, 9.0)]


async def keeps_authority(given: StoreOptions) -> list[SessionAction]:
    """What the watcher did when its loop was busy for longer than the lease."""
    store = ZooKeeperStore(given)
    watcher = SessionWatcher(
        store,
        SystemClock(),
        node=lease_node("busy:8080", "nonce"),
        mode=AuthorityMode.LEASE,
        tick_s=TICK_S,
        rng=random.Random(0),
    )
    actions: list[SessionAction] = []
    watcher.listen(actions.append)
    watcher.start()
    await store.start()
    try:
        async with asyncio.timeout(60):
            await store.wait_connected()
            await watcher.wait_authority()
        deadline_s = watcher.deadline_s
        await eventually(lambda: watcher.deadline_s > deadline_s)
        deadline_s = watcher.deadline_s
        compute(BUSY_S)
        assert SystemClock().now_s() > deadline_s
        await eventually(lambda: watcher.deadline_s != deadline_s)
        return list(actions)
    finally:
        await watcher.close()
        await store.close()


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("new_loop", "is_tls"),
    [
        pytest.param(uvloop.new_event_loop, True, id="tls"),
        pytest.param(uvloop.new_event_loop, False, id="plain", marks=SLOW),
        pytest.param(asyncio.new_event_loop, True, id="asyncio tls", marks=SLOW),
        pytest.param(asyncio.new_event_loop, False, id="asyncio", marks=SLOW),
    ],
)
def test_a_loop_that_is_busy_for_longer_than_the_lease_keeps_its_authority(
    zookeeper: SharedEnsemble, chroot: str, new_loop: Callable[[], Any], is_tls: bool
) -> None:
    async def work(given: StoreOptions) -> None:
        assert await keeps_authority(given) == [SessionAction.BEGIN]

    options = StoreOptions(
        zookeeper.connect_string,
        chroot,
        session_timeout_s=TIMEOUT_S,
        operation_timeout_s=10.0,
        watchdog=LoopWatchdog(10.0),
    )
    with reached(options, is_tls=is_tls) as given:
        run(new_loop, work(given))


def test_without_writes_of_a_thread_authority_is_lost_until_two_heartbeats_are_committed(
    zookeeper: SharedEnsemble, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above shows what these writes prove."""
    monkeypatch.setattr(StallWrites, "send", lambda *_: False)

    async def work(given: StoreOptions) -> None:
        assert (await keeps_authority(given))[:3] == [
            SessionAction.BEGIN,
            SessionAction.FENCE,
            SessionAction.SESSION_LOST,
        ]

    options = StoreOptions(
        zookeeper.connect_string,
        chroot,
        session_timeout_s=TIMEOUT_S,
        operation_timeout_s=10.0,
        watchdog=LoopWatchdog(10.0),
    )
    run(uvloop.new_event_loop, work(options))


def test_each_write_of_the_thread_has_a_number_that_no_other_request_has() -> None:
    loop = Stalled()
    xids = loop.writes._xids
    numbers = [xids.next()]
    assert loop.send_at(1.0)
    numbers.append(xids.next())
    assert loop.send_at(2.0)
    sent = [int.from_bytes(frame[4:8], "big") for frame in loop.socket.sent]
    assert sorted([*numbers, *sent]) == [1, 2, 3, 4]
    # Replies come in the order of the writes.
    assert not loop.writes.is_next(sent[1])
    assert loop.writes.is_next(sent[0])
    loop.writes.settle(is_committed=True)
    assert loop.writes.is_next(sent[1])


def test_the_thread_sends_for_a_loop_that_is_late_and_not_beside_one_that_runs() -> None:
    loop, pings = Stalled(), list[bytes]()
    write = StallFrame(bytes(8), 1.0, lambda *_: None)

    def ping(frame: bytes) -> bool:
        pings.append(frame)
        return True

    watchdog = LoopWatchdog(BUSY_S)
    thread = PingThread(ping, 1.0, watchdog, loop.writes, lambda: write, clock=loop.clock)
    # A turn is noted once in a period.
    for now_s in (1.0, 2.0, 3.0):
        loop.clock.time_s = now_s
        thread.look()
        thread.note_turn()
    loop.clock.time_s = 4.4
    thread.look()
    assert (pings, loop.socket.sent) == ([], [])
    loop.clock.time_s = 4.5
    thread.look()
    assert (len(pings), len(loop.socket.sent)) == (1, 1)
    # It looks more often then, and sends no more than the loop would have.
    loop.clock.time_s = 4.7
    thread.look()
    assert (len(pings), len(loop.socket.sent)) == (1, 1)
    loop.clock.time_s = 5.5
    thread.look()
    assert (len(pings), len(loop.socket.sent)) == (2, 2)
