"""Which brokers were lost lately, watched by each broker, so that a new leader knows it."""

import math
from collections.abc import Callable

from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.core.cluster.mass_loss import Absences


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
