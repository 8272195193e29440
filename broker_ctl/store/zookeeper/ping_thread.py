"""A thread that pings for a busy event loop (docs: busy-loop).

It sends only while the loop does not: a loop that runs has its own pings. The thread knows nothing
of the session, proves no lease, and reads nothing; the loop finds the answers in the socket.
"""

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from broker_ctl.clock import Clock, SystemClock
from broker_ctl.core.machines.watchdog import LoopWatchdog
from broker_ctl.store.zookeeper import wire

log = logging.getLogger(__name__)

# A turn is noted once in a period, so a loop that runs is never later than this.
_LATE_PERIODS: Final = 1.5
# A thread that comes so late was stopped itself, and the loop with it.
_STOPPED_PERIODS: Final = 2.5
_PING: Final = wire.frame(wire.ping(), wire.XID_PING)


class PingThread:
    """Watches the loop that makes it, and pings for that loop as long as ``watchdog`` allows.

    ``send`` sends a frame at once from any thread, and returns False if it cannot.
    """

    def __init__(
        self,
        send: Callable[[bytes], bool],
        period_s: float,
        watchdog: LoopWatchdog,
        clock: Clock | None = None,
    ) -> None:
        self._send = send
        self._period_s = period_s
        self._watchdog = watchdog
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
        while not self._stopped.wait(self._period_s):
            self.look()

    def look(self) -> None:
        """Ping if the loop is late, and may still be alive."""
        now_s, turn_s = self._clock.now_s(), self._turn_s
        looked_s, self._looked_s = self._looked_s, now_s
        if now_s - turn_s < _LATE_PERIODS * self._period_s:
            self._is_reported = False
        elif self._watchdog.allows_ping(turn_s, now_s):
            self._send(_PING)
        elif now_s - looked_s < _STOPPED_PERIODS * self._period_s and not self._is_reported:
            self._is_reported = True
            log.error(
                "the event loop has not run for %.1f s; its session is left to expire\n%s",
                now_s - turn_s,
                _stack_of(self._watched),
            )


def _stack_of(thread_id: int) -> str:
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001  # documented, for such a report
    return "".join(traceback.format_stack(frame)) if frame is not None else "an unknown place"
