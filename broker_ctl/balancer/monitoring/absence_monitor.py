"""Which brokers were lost lately, and whether this broker can judge that."""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.clock import Clock
from broker_ctl.core.cluster.surges import Absences
from broker_ctl.store.interface import MetadataStore, SessionEvent

# Which brokers were lost lately, watched by each broker, so that a new leader knows it.


class AbsenceMonitor:
    """Follows the registry; an operator who ends an automatic pause accepts the losses."""

    def __init__(self, dependencies: BalancerDependencies) -> None:
        self._dependencies = dependencies
        self._absences = Absences()
        self._is_held = False
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        """Start to listen."""
        self._on_directives()
        self._stops = [
            self._dependencies.registry.listen(self._observe),
            self._dependencies.directives.listen(self._on_directives),
        ]

    def close(self) -> None:
        """Stop listening."""
        for stop in self._stops:
            stop()
        self._stops.clear()

    def lost(self, silent: frozenset[str] = frozenset()) -> frozenset[str]:
        """The lost brokers that count now: while balancing is held back, until they return.

        Args:
            silent: live brokers whose load reports are gone.
        """
        self._observe()
        if self._is_held:
            return self._absences.since(-math.inf) | silent
        window_s = self._dependencies.rules().mass_loss.window_s
        then_s = self._dependencies.clock.now_s() - window_s
        self._absences = self._absences.after(then_s)
        return self._absences.since(then_s) | silent

    def _observe(self) -> None:
        peers = self._dependencies.registry.peers
        leaving = frozenset(each for each, peer in peers.items() if peer.is_draining)
        leaving |= self._dependencies.directives.drains.keys()
        now_s = self._dependencies.clock.now_s()
        self._absences = self._absences.observe(frozenset(peers), leaving, now_s)

    def _on_directives(self) -> None:
        self._observe()
        pause = self._dependencies.directives.pause
        is_held = pause is not None and pause.is_automatic
        if self._is_held and not is_held:
            self._absences = self._absences.accepted()
        elif pause is not None and is_held and not self._is_held:
            # This broker may have started after them.
            now_s = self._dependencies.clock.now_s()
            self._absences = self._absences.remember(pause.lost, now_s)
        self._is_held = is_held


# Whether this broker's own connection has been stable long enough to judge other brokers.
#
# After a disturbance of the own connection, live brokers may seem to be gone: the leader acts on
# their absence or silence only after one session timeout, within which their sessions reappear or
# end (docs: pulsar-extensible; "stable" and "jittery").


_CONNECTED: Final = frozenset({SessionEvent.CONNECTED, SessionEvent.RECONNECTED})


class StabilityGate:
    """Tracks the last loss of the connection."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._is_connected = True
        self._trouble_s: float | None = None
        self._stop_listening: Callable[[], None] | None = None

    def start(self) -> None:
        """Start to listen."""
        self._stop_listening = self._store.listen(self._on_session_event)

    def close(self) -> None:
        """Stop listening."""
        if self._stop_listening is not None:
            self._stop_listening()

    def remaining_s(self) -> float:
        """Seconds until other brokers may be judged; 0: now."""
        if not self._is_connected:
            return self._store.session_timeout_s
        if self._trouble_s is None:
            return 0.0
        quiet_s = self._clock.now_s() - self._trouble_s
        return max(0.0, self._store.session_timeout_s - quiet_s)

    async def wait_stable(self) -> None:
        """Return once other brokers may be judged."""
        while True:
            remaining_s = self.remaining_s()
            if remaining_s <= 0:
                return
            # The connection may be lost again during the sleep.
            await asyncio.sleep(remaining_s)

    def _on_session_event(self, event: SessionEvent) -> None:
        is_connected = event in _CONNECTED
        if not (is_connected and self._is_connected):
            self._trouble_s = self._clock.now_s()
        self._is_connected = is_connected
