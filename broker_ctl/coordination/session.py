"""The session watcher: heartbeats, the authority that they prove, and one scope per session.

`core/machines/session.py` decides, this module acts. The deadline is checked at each use of
authority (`check`); the timer only notifies listeners, since a stalled loop fires it late.
"""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.heartbeats import HeartbeatNode, Heartbeats
from broker_ctl.core.machines.lease import Heartbeat, Lease, LeaseRules
from broker_ctl.core.machines.session import SessionAction, SessionMachineEvent, SessionState, step
from broker_ctl.errors import AuthorityLost, HistoryBehind, SessionError, StoreError
from broker_ctl.store.interface import MetadataStore, SessionEvent
from broker_ctl.tasks import TaskScope, first_of

log = logging.getLogger(__name__)

# The loop's clock stops while the machine is suspended: a single sleep until the deadline would end
# after it, and after later proofs, and no listener would learn that authority had lapsed.
_LOOK_S: Final = 0.5
# One heartbeat may be late.
_SILENT_PERIODS: Final = 2
# Pulsar's fraction of the timeout after which a silent session counts as lost.
_PULSAR_FRACTION: Final = 5 / 6

_EVENTS: Final = {
    SessionEvent.CONNECTED: SessionMachineEvent.OPENED,
    SessionEvent.SUSPENDED: SessionMachineEvent.SUSPENDED,
    SessionEvent.RECONNECTED: SessionMachineEvent.RECONNECTED,
    SessionEvent.EXPIRED: SessionMachineEvent.EXPIRED,
    SessionEvent.CLOSED: SessionMachineEvent.CLOSED,
}


class AuthorityMode(StrEnum):
    """What ends the right to serve (docs: ownership-authority)."""

    LEASE = "lease"
    STORAGE = "storage"
    PULSAR56 = "pulsar56"


# Each lookup uses these twice, and an enum attribute takes as long as reading the clock.
_LEASE: Final = AuthorityMode.LEASE
_ALIVE: Final = frozenset({SessionState.CONNECTED, SessionState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class Grant:
    """Authority of a session until a time on `Clock.now_s`; 0: none; infinity: without an end."""

    epoch: int
    deadline_s: float


def _has_failed(task: "asyncio.Task[None]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


def _shorten_lease(lease: Lease, granted_s: float, handshake_s: float) -> Lease:
    log.warning(
        "this server grants a session timeout of %.1f s, not %.1f s as the one before: "
        "set the same minSessionTimeout, maxSessionTimeout and tickTime on all servers",
        granted_s,
        lease.rules.timeout_s,
    )
    return lease.renegotiated(replace(lease.rules, timeout_s=granted_s), handshake_s)


def _check_lease_rules(mode: AuthorityMode, lease: Lease | None) -> None:
    """Check at the start of a session, and whenever a server grants it another timeout."""
    if mode is AuthorityMode.LEASE and lease is not None:
        lease.rules.check()


async def _cancel_and_wait(task: "asyncio.Task[None]") -> None:
    """Cancel a task and return when it has ended; a cancellation of the caller waits for that."""
    asked: asyncio.CancelledError | None = None
    task.cancel()
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            asked = error
    if asked is not None:
        raise asked


class SessionWatcher:
    """The session of this broker: its epoch, and the deadline of its authority.

    Attributes:
        silent_at_s: when the store counts as silent unless another heartbeat is committed.
        withheld: why this broker claims no authority although it has a session; empty: it does.
    """

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        *,
        node: HeartbeatNode,
        mode: AuthorityMode,
        tick_s: float,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._clock = clock
        self._heartbeats = Heartbeats(
            store,
            clock,
            node=node,
            on_committed=self._prove,
            rng=rng,
        )
        self._mode = mode
        self.tick_s = tick_s
        self.silent_at_s = 0.0
        self.withheld = ""
        self._state = SessionState.NONE
        self._epoch = 0
        self._lease: Lease | None = None
        self._suspended_s = math.inf
        self._changed = asyncio.Event()
        self._listeners: list[Callable[[SessionAction], None]] = []
        self._grant_listeners: list[Callable[[Grant], None]] = []
        self._tasks = TaskScope("session watcher")
        self._stop_listening: Callable[[], None] | None = None

    # State.

    @property
    def state(self) -> SessionState:
        """State of the session."""
        return self._state

    @property
    def epoch(self) -> int:
        """Number of sessions of this process so far; locks never pass from one to the next."""
        return self._epoch

    @property
    def has_store(self) -> bool:
        """Whether the store answers this broker: a heartbeat was committed a short time ago."""
        return self._state is SessionState.CONNECTED and self._clock.now_s() < self.silent_at_s

    @property
    def deadline_s(self) -> float:
        """The time until which an act may start, on `Clock.now_s`; 0: none may."""
        if self.withheld:
            return 0.0
        is_alive = self._state in _ALIVE
        if self._mode is _LEASE:
            return self._lease.deadline_s if is_alive and self._lease is not None else 0.0
        match self._mode:
            case AuthorityMode.STORAGE:
                return math.inf if self._epoch and self._state is not SessionState.CLOSED else 0.0
            case AuthorityMode.PULSAR56:
                limit_s = self._store.session_timeout_s * _PULSAR_FRACTION
                return self._suspended_s + limit_s if is_alive else 0.0

    def check(self) -> None:
        """Check authority before an act that needs the session.

        Raises:
            AuthorityLost: the lease has run out, there is no session, or authority is withheld.
        """
        if self._clock.now_s() >= self.deadline_s:
            why = self.withheld or f"the session is {self._state}"
            raise AuthorityLost(f"no authority: {why}")

    def check_epoch(self, epoch: int) -> None:
        """As `check`; also requires that session ``epoch`` is the current one."""
        self.check()
        if epoch != self._epoch or self._lease is None:
            raise AuthorityLost(f"session {epoch} has ended")

    # Authority that is not claimed.

    def withhold(self, why: str) -> float:
        """Give up authority at once, and send no heartbeat, until `claim`; the session lives on.

        Returns the time on `Clock.now_s` until which others may act on what was granted before.
        """
        before_s = self.deadline_s
        self.withheld = why
        self._heartbeats.end()
        if self._clock.now_s() < before_s:
            self._feed(SessionMachineEvent.DEADLINE)
        return before_s

    def claim(self) -> None:
        """End `withhold`: authority comes back with the next proof."""
        self.withheld = ""
        self._send_heartbeats()

    def _send_heartbeats(self) -> None:
        if self._lease is not None and not self.withheld:
            self._heartbeats.begin(self._epoch, self._lease.rules)

    # Listeners and waiting.

    def listen(self, listener: Callable[[SessionAction], None]) -> None:
        """Call ``listener`` with every action of the machine, in order."""
        self._listeners.append(listener)

    def listen_grants(self, listener: Callable[[Grant], None]) -> None:
        """Call ``listener`` with each grant: at each heartbeat and when authority ends."""
        self._grant_listeners.append(listener)

    def start(self) -> None:
        """Listen to the store, and send heartbeats while there is a session.

        Must be called before the store connects: earlier events are missed.
        """
        self._stop_listening = self._store.listen(lambda event: self._feed(_EVENTS[event]))
        self._tasks.keep(self._heartbeats.run(), "heartbeats")
        self._tasks.keep(self._watch_deadline(), "deadline")

    async def close(self) -> None:
        """Stop; withdraws authority."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        if self._state is not SessionState.CLOSED:
            self._feed(SessionMachineEvent.CLOSED)
        await self._tasks.close()

    async def wait_authority(self) -> None:
        """Return once acts are allowed; does not return after the store is closed."""
        while self._clock.now_s() >= self.deadline_s:
            await self._changed.wait()

    async def wait_past(self, deadline_s: float) -> None:
        """Return once a granted deadline has passed."""
        await asyncio.sleep(max(0.0, deadline_s - self._clock.now_s()))

    async def run_epochs(self, work: Callable[[int], Awaitable[None]]) -> None:
        """Run ``work(epoch)`` once in each session; cancel it when the session ends.

        Returns when the store is closed. An error of ``work`` is raised, unless the end of the
        session caused it.

        Raises:
            SettingsError: the timeout that a server granted is too short for a lease.
            HistoryBehind: the servers have lost transactions that this process has seen.
        """
        done_epoch = 0
        while self._state is not SessionState.CLOSED:
            if self._epoch == done_epoch or not self._is_current(self._epoch):
                await self._changed.wait()
                continue
            done_epoch = self._epoch
            _check_lease_rules(self._mode, self._lease)
            # A plain task, not a task group: a group whose child fails at its end loses a
            # concurrent cancellation, and a stop must not get lost.
            name = f"session {done_epoch}"
            working = self._tasks.start(self._run_epoch(work, done_epoch), name, is_joined=True)
            working.add_done_callback(lambda _: self._notify_waiters())
            try:
                while self._is_current(done_epoch) and not _has_failed(working):
                    await self._changed.wait()
                    _check_lease_rules(self._mode, self._lease)
            finally:
                await _cancel_and_wait(working)
            if _has_failed(working):
                working.result()
            log.info("session %d has ended", done_epoch)

    async def _run_epoch(self, work: Callable[[int], Awaitable[None]], epoch: int) -> None:
        """Run ``work``; an error that the end of its session caused is suppressed."""
        try:
            await work(epoch)
        except* HistoryBehind:
            # This error ends more than the session.
            raise
        except* SessionError as failed:
            # A request may fail at the end of the session before the watcher learns of it.
            log.info("session %d: %s", epoch, first_of(failed))
        except* (StoreError, AuthorityLost) as failed:
            if self._is_current(epoch):
                raise
            log.info("session %d: %s", epoch, first_of(failed))

    def _is_current(self, epoch: int) -> bool:
        return self._epoch == epoch and self._state not in {
            SessionState.EXPIRED,
            SessionState.CLOSED,
        }

    # The machine.

    def _feed(self, event: SessionMachineEvent) -> None:
        before = self._state
        self._state, actions = step(before, event)
        if event is SessionMachineEvent.SUSPENDED:
            self._suspended_s = min(self._suspended_s, self._clock.now_s())
        elif event is SessionMachineEvent.RECONNECTED:
            self._suspended_s = math.inf
            granted_s = self._store.session_timeout_s
            if self._lease is not None and granted_s < self._lease.rules.timeout_s:
                # The next server has other limits, and counts from the handshake.
                self._lease = _shorten_lease(self._lease, granted_s, self._store.handshake_s)
                self._send_heartbeats()
            self._heartbeats.trigger_now()
        for action in actions:
            self._act(action)
        if before is not self._state:
            log.info("session %d: %s -> %s (%s)", self._epoch, before, self._state, event)
        grant = Grant(self._epoch, self.deadline_s)
        for listener in tuple(self._grant_listeners):
            listener(grant)
        self._notify_waiters()

    def _notify_waiters(self) -> None:
        # Waiters read the state again, so no change is missed.
        self._changed.set()
        self._changed = asyncio.Event()

    def _act(self, action: SessionAction) -> None:
        if action is SessionAction.BEGIN:
            self._epoch += 1
            self._suspended_s = math.inf
            rules = LeaseRules(self._store.session_timeout_s, self.tick_s)
            self._lease = Lease(rules, self._store.handshake_s)
            self._send_heartbeats()
        elif action is SessionAction.END:
            self._lease = None
            self._heartbeats.end()
        for listener in tuple(self._listeners):
            listener(action)

    def _prove(self, epoch: int, beat: Heartbeat) -> None:
        """A heartbeat was committed: extend the lease."""
        # The session may have ended while it was in flight, and another begun.
        if epoch != self._epoch or self._lease is None or self.withheld:
            return
        self._lease = self._lease.acknowledged(beat)
        silent_s = beat.answered_s + _SILENT_PERIODS * self._lease.rules.period_s
        self.silent_at_s = max(self.silent_at_s, silent_s)
        # After an outage the first answer only proves the time of the heartbeat before.
        is_proof = self._lease.remaining_s(self._clock.now_s()) > 0
        if is_proof or self._mode is not AuthorityMode.LEASE:
            self._feed(SessionMachineEvent.LEASE_RENEWED)

    async def _watch_deadline(self) -> None:
        while self._state is not SessionState.CLOSED:
            deadline_s, now_s = self.deadline_s, self._clock.now_s()
            if self._state not in {
                SessionState.CONNECTED,
                SessionState.SUSPENDED,
            } or deadline_s in {0, math.inf}:
                await self._changed.wait()
            elif now_s >= deadline_s:
                # After a stall of this loop proofs may wait in the socket: read them first.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                if self._clock.now_s() >= self.deadline_s > 0:
                    self._feed(SessionMachineEvent.DEADLINE)
            else:
                await asyncio.sleep(min(deadline_s - now_s, _LOOK_S))
