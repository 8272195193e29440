"""Loops that are busy, and loops that have died (I12).

A busy one keeps its session, and a dead one loses it, unless something else happens to the session
meanwhile. What can end it, or give it more time, is seen at the servers.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import (
    TICK_S,
    TIMEOUT_S,
    WATCHDOG_S,
    DaemonProcess,
)

# Session timeouts: busy for longer than one, and dead until long after the expiry.
_TIMES: Final = (0.9, 1.2, 2.8)
MOST_BLOCKED: Final = max(_TIMES)
_LOOK_S: Final = 0.05
# A session expires at a multiple of the tick; a request in flight may be counted once more.
EXPIRY_S: Final = TIMEOUT_S + 2 * TICK_S


class BusyLoops:
    """``note`` counts a fault; the draws are of this class alone."""

    def __init__(self, cluster: Cluster, note: Callable[[str, str], None], seed: int) -> None:
        self._cluster = cluster
        self._note = note
        self._rng = random.Random(f"busy loops {seed}")

    async def block(self) -> None:
        """The loop of a daemon does not run for a while; its threads do."""
        daemon, for_s = (
            self._rng.choice(self._cluster.daemons),
            TIMEOUT_S * self._rng.choice(_TIMES),
        )
        if daemon.is_stopped or not daemon.is_running:
            return
        self._note("busy loop" if for_s < WATCHDOG_S else "dead loop", daemon.broker_id)
        loop = daemon.loop
        loop.block()
        await SessionOfBlocked(self._cluster, daemon).judge(for_s)
        if loop.is_blocked:
            loop.continue_process()


class SessionOfBlocked:
    """What becomes of the session of a blocked loop, from now on."""

    def __init__(self, cluster: Cluster, daemon: DaemonProcess) -> None:
        self._cluster = cluster
        self._loop = daemon.loop
        self._wire = daemon.wire
        self._who = daemon.broker_id
        self._session_id = daemon.store.session_id if daemon.store is not None else 0
        session = cluster.ensemble._sessions.get(self._session_id)
        self._client = session.client if session is not None else None
        self._began_s = self._given_s = cluster.turns.now_s
        self._is_sound = self._look()

    def _look(self) -> bool:
        """Whether its connection to the servers is as it was."""
        ensemble, client = self._cluster.ensemble, self._client
        if not ensemble._is_serving:
            # The next leader gives each session its whole timeout.
            self._given_s = self._cluster.turns.now_s
            return False
        session = ensemble._sessions.get(self._session_id)
        is_same = session is None or session.client is client
        # A link that carries nothing holds back what the threads send, too.
        is_same = is_same and not self._wire.is_stalled
        return is_same and client is not None and client.server.is_linked

    async def judge(self, for_s: float) -> None:
        """Complain of a busy loop that loses its session, and of a dead one that keeps it."""
        observer, turns = self._cluster.observer, self._cluster.turns
        while turns.now_s < self._began_s + for_s and self._loop.is_blocked:
            await asyncio.sleep(_LOOK_S)
            now_s = turns.now_s
            lives = self._session_id in self._cluster.ensemble.session_ids
            is_forced = self._session_id in observer.forced
            if not lives:
                if self._is_sound and not is_forced and now_s < self._began_s + WATCHDOG_S:
                    observer.complain(f"I12: {self._who} was busy and lost its session", now_s)
                break
            self._is_sound = self._look() and self._is_sound
            if now_s > max(self._began_s + WATCHDOG_S, self._given_s) + EXPIRY_S:
                observer.complain(f"I12: {self._who} is dead and keeps its session", now_s)
                break
        # The session is gone or judged; the loop is blocked until the time is over.
        rest_s = self._began_s + for_s - turns.now_s
        await self._cluster.until(lambda: not self._loop.is_blocked, rest_s)
