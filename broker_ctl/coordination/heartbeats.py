"""Heartbeats: small writes, each of which proves by its commit that its session was alive.

`core/machines/lease.py` derives the lease from them; this module decides when to send them.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.core.machines.lease import Heartbeat, LeaseRules
from broker_ctl.errors import NoNode, StoreError
from broker_ctl.retry import Backoff, is_any, retry
from broker_ctl.store.interface import CreateMode, MetadataStore, SetData, StallWrite

# The lease runs out meanwhile: a pause is never longer.
_BACKOFF: Final = Backoff(first_s=0.1, factor=1.0, max_s=0.1)


@dataclass(frozen=True, slots=True)
class HeartbeatNode:
    """The node that heartbeats write.

    Attributes:
        payload: of the n-th heartbeat of this process.
        mode: as which it is created where it is missing, with its parents.
    """

    path: str
    payload: Callable[[int], bytes]
    mode: CreateMode = CreateMode.PERSISTENT


@dataclass(frozen=True, slots=True)
class _BeatSchedule:
    epoch: int
    rules: LeaseRules

    def next_beat_s(self, beat: Heartbeat) -> float:
        """When to send the heartbeat after ``beat``, on `Clock.now_s`.

        One period after it; after a late answer, not before the leader of the servers has surely
        learnt of it: an earlier one would prove nothing new.
        """
        known_s = beat.answered_s + self.rules.report_delay_s
        return max(beat.sent_s + self.rules.period_s, known_s)


class Heartbeats:
    """Sends heartbeats while there is a session.

    ``on_committed`` receives the session's epoch and each heartbeat that was answered over the
    connection on which it was sent.
    """

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        *,
        node: HeartbeatNode,
        on_committed: Callable[[int, Heartbeat], None],
        rng: random.Random,
    ) -> None:
        self._store = store
        self._clock = clock
        self._node = node
        self._on_committed = on_committed
        self._rng = rng
        self._schedule: _BeatSchedule | None = None
        self._has_session = asyncio.Event()
        self._send_now = asyncio.Event()
        self._count = 0

    def begin(self, epoch: int, rules: LeaseRules) -> None:
        """Start for a session, or for another timeout of it."""
        self._schedule = _BeatSchedule(epoch, rules)
        self._begin_in_stalls(epoch, rules)
        self._has_session.set()
        self.trigger_now()

    def end(self) -> None:
        """Stop: the session has ended."""
        self._schedule = None
        self._store.repeat_in_stalls(None)
        self._has_session.clear()

    def trigger_now(self) -> None:
        """Send the next heartbeat at once: the connection is new.

        All others are sent a period apart, because a server reports active sessions to its leader
        only periodically. On a new connection it does so at once (docs: zookeeper-session-rules).
        """
        self._send_now.set()

    def _begin_in_stalls(self, epoch: int, rules: LeaseRules) -> None:
        """Have a thread send them while this loop does not run."""

        def report(sent_s: float, answered_s: float) -> None:
            self._on_committed(epoch, Heartbeat(sent_s, answered_s))

        write = SetData(self._node.path, self._node.payload(0))
        self._store.repeat_in_stalls(StallWrite(write, rules.period_s, report))

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            schedule, beat = await retry(
                self._send,
                "cannot send a heartbeat",
                rng=self._rng,
                judge=is_any(StoreError),
                backoff=_BACKOFF,
                level=logging.DEBUG,
            )
            # Over another connection than it was sent on: it was found by reading, or sent again.
            # Which server took it when is not known then, so it proves nothing; the next one is
            # sent at once, and does.
            if not self._send_now.is_set():
                self._on_committed(schedule.epoch, beat)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(schedule.next_beat_s(beat) - self._clock.now_s()):
                    await self._send_now.wait()

    async def _send(self) -> tuple[_BeatSchedule, Heartbeat]:
        """Send the next one, as soon as there is a session."""
        while (schedule := self._schedule) is None:
            await self._has_session.wait()
        self._send_now.clear()
        sent_s = self._clock.now_s()
        await self._commit()
        return schedule, Heartbeat(sent_s, self._clock.now_s())

    async def _commit(self) -> None:
        self._count += 1
        node, payload = self._node, self._node.payload(self._count)
        try:
            await self._store.set(node.path, payload)
        except NoNode:
            await self._store.create(node.path, payload, node.mode, make_parents=True)
