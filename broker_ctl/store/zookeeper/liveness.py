"""What keeps a session alive: pings, a thread that pings, and one that writes for a busy loop."""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from broker_ctl.clock import Clock, SystemClock
from broker_ctl.core.machines.lease import LoopWatchdog
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection, StallFrame, StallWrites

log = logging.getLogger(__name__)

# A thread that pings for a busy event loop (docs: busy-loop).
#
# It sends only while the loop does not: a loop that runs has its own pings. Besides pings it
# repeats a write that the session's owner has set. It reads nothing; the loop finds the answers
# in the socket.


# A turn is noted once in a period, so a loop that runs is never later than this.
_LATE_PERIODS: Final = 1.5
# A thread that comes so late was stopped itself, and the loop with it.
_STOPPED_PERIODS: Final = 2.5
_LATE_LOOKS: Final = 5
_PING: Final = wire.frame(wire.ping(), wire.XID_PING)


class PingThread:
    """Watches the loop that makes it, and pings for that loop as long as ``watchdog`` allows.

    Args:
        send: sends a frame at once from any thread, and returns False if it cannot.
        period_s: of the pings.
        watchdog: how long it sends.
        stall_writes: sends the others.
        stall_write: what to write; None: nothing.
    """

    def __init__(
        self,
        send: Callable[[bytes], bool],
        period_s: float,
        watchdog: LoopWatchdog,
        stall_writes: StallWrites,
        stall_write: Callable[[], StallFrame | None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._send = send
        self._period_s = period_s
        self._watchdog = watchdog
        self._stall_writes = stall_writes
        self._stall_write = stall_write
        self._pinged_s = self._wrote_s = 0.0
        self._is_late = False
        self._clock = clock or SystemClock()
        self._turn_s = self._looked_s = self._clock.now_s()
        self._watched = threading.get_ident()
        self._is_reported = False
        self._stopped = threading.Event()
        # A dead loop must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="zookeeper pings", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more but a ping that has begun; does not wait for the end of the thread."""
        self._stopped.set()

    def note_turn(self) -> float:
        """The loop runs; returns the seconds since it noted this before."""
        before_s, self._turn_s = self._turn_s, self._clock.now_s()
        return self._turn_s - before_s

    def _run(self) -> None:
        # A late loop is looked at more often, to know when replies arrived.
        while not self._stopped.wait(self._period_s / (_LATE_LOOKS if self._is_late else 1)):
            self.look()

    def look(self) -> None:
        """Ping if the loop is late, and may still be alive."""
        now_s, turn_s = self._clock.now_s(), self._turn_s
        looked_s, self._looked_s = self._looked_s, now_s
        self._is_late = now_s - turn_s >= _LATE_PERIODS * self._period_s
        if not self._is_late:
            self._is_reported = False
        elif self._watchdog.allows_ping(turn_s, now_s):
            self._stall_writes.note()
            self._send_due(now_s)
        elif now_s - looked_s < _STOPPED_PERIODS * self._period_s and not self._is_reported:
            self._is_reported = True
            log.error(
                "the event loop has not run for %.1f s; its session is left to expire\n%s",
                now_s - turn_s,
                _stack_of(self._watched),
            )

    def _send_due(self, now_s: float) -> None:
        write = self._stall_write()
        if (
            write is not None
            and now_s >= self._wrote_s + write.period_s
            and self._stall_writes.send(write)
        ):
            self._wrote_s = now_s
        # A write that waits for a quorum does not answer, as a ping does.
        if now_s >= self._pinged_s + self._period_s and self._send(_PING):
            self._pinged_s = now_s


def _stack_of(thread_id: int) -> str:
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001  # documented, for such a report
    return "".join(traceback.format_stack(frame)) if frame is not None else "an unknown place"


# Pings, and the end of a connection on which no answers come.


# Of the session timeout (docs: pulsar-session-watcher): the period allows several pings to be
# lost, the limit leaves two thirds of the session to reach another server.
_PING_PERIODS: Final = 12
_SILENCE_LIMITS: Final = 3
_BUSY_PERIODS: Final = 3


async def keep_alive(
    connection: Connection,
    timeout_s: float,
    watchdog: LoopWatchdog | None = None,
    stall_write: Callable[[], StallFrame | None] = lambda: None,
) -> None:
    """Ping while nothing else is sent, and abort a connection on which no answers come.

    Args:
        connection: watched until it is closed.
        timeout_s: of the session.
        watchdog: how long a thread pings while this loop is busy; None: not at all.
        stall_write: what the thread writes besides.
    """
    period_s = timeout_s / _PING_PERIODS
    thread = None
    if watchdog is not None:
        thread = _thread_for(connection, period_s, watchdog, stall_write)
    try:
        await _ping(connection, period_s, timeout_s / _SILENCE_LIMITS, thread)
    finally:
        if thread is not None:
            thread.stop()


def _thread_for(
    connection: Connection,
    period_s: float,
    watchdog: LoopWatchdog,
    stall_write: Callable[[], StallFrame | None],
) -> PingThread | None:
    if not connection.stream.share():
        return None
    stall_writes = connection.stall_writes
    thread = PingThread(connection.stream.send_now, period_s, watchdog, stall_writes, stall_write)
    try:
        thread.start()
    except RuntimeError as error:
        log.warning("only the event loop sends pings: %s", error)
        return None
    return thread


async def _ping(
    connection: Connection, period_s: float, limit_s: float, thread: PingThread | None
) -> None:
    while not connection.is_closed:
        await asyncio.sleep(period_s)
        if thread is not None:
            busy_s = thread.note_turn()
            if busy_s > _BUSY_PERIODS * period_s:
                log.warning("the event loop did not run for up to %.1f s", busy_s)
        if connection.unanswered_s > limit_s:
            # After a stall of this loop the answer may wait in the socket: read it first.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if (silent_s := connection.unanswered_s) > limit_s:
                connection.abort(f"no answer for {silent_s:.1f} s")
        elif connection.idle_s >= period_s:
            connection.send_ping()
