"""Pings, and the end of a connection on which no answers come."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from broker_ctl.core.machines.watchdog import LoopWatchdog
from broker_ctl.store.zookeeper.connection import Connection
from broker_ctl.store.zookeeper.liveness.ping_thread import PingThread
from broker_ctl.store.zookeeper.liveness.stall_writes import StallFrame

log = logging.getLogger(__name__)

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
