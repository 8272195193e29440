"""The authority to serve bundles: the lease, or past it the promises of all members.

Only serving lasts longer than the lease. Acquisitions, elections and replicas go by the session
watcher itself.
"""

from collections.abc import Callable
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.session.watcher import Grant, SessionWatcher
from broker_ctl.core.machines.session import Action, State
from broker_ctl.errors import AuthorityLost

# A session that has ended takes all authority along: its owner nodes are gone.
_STANDING: Final = frozenset({State.CONNECTED, State.SUSPENDED, State.LOST})


class ServingAuthority:
    """Until when this broker may serve what it owns."""

    def __init__(self, watcher: SessionWatcher, clock: Clock) -> None:
        self._watcher = watcher
        self._clock = clock
        self._promised = Grant(0, 0.0)
        self._grant_listeners: list[Callable[[Grant], None]] = []
        self._end_listeners: list[Callable[[], None]] = []
        watcher.listen_grants(lambda _: self._announce())
        watcher.listen(self._on_action)

    @property
    def epoch(self) -> int:
        """As `SessionWatcher.epoch`."""
        return self._watcher.epoch

    @property
    def state(self) -> State:
        """As `SessionWatcher.state`."""
        return self._watcher.state

    @property
    def deadline_s(self) -> float:
        """The time until which an act may start, on `Clock.now_s`; 0: none may."""
        watcher, promised = self._watcher, self._promised
        if promised.epoch != watcher.epoch or watcher.state not in _STANDING:
            return watcher.deadline_s
        return max(watcher.deadline_s, promised.deadline_s)

    @property
    def has_store(self) -> bool:
        """Whether ZooKeeper answers this broker: a heartbeat was committed a short time ago."""
        watcher = self._watcher
        return watcher.state is State.CONNECTED and self._clock.now_s() < watcher.silent_at_s

    @property
    def is_promised(self) -> bool:
        """Whether promises alone let this broker serve now."""
        return self._watcher.deadline_s <= self._clock.now_s() < self.deadline_s

    def check(self) -> None:
        """Check authority before bundles are served.

        Raises:
            AuthorityLost: neither the lease nor promises allow it.
        """
        now_s = self._clock.now_s()
        # The lease first: the lookups of all but the rarest hours end here.
        if now_s >= self._watcher.deadline_s and now_s >= self.deadline_s:
            raise AuthorityLost(f"no authority: the session is {self._watcher.state}")

    def extend(self, epoch: int, until_s: float) -> bool:
        """All members have promised; returns whether that counts.

        It does not once authority has lapsed: another broker may have owned the bundles since,
        and have released them.
        """
        if epoch != self._watcher.epoch or self._clock.now_s() >= self.deadline_s:
            return False
        self._promised = Grant(epoch, max(until_s, self._promised_until_s))
        self._announce()
        return True

    def lapse(self) -> None:
        """The promises have run out: notify those that wait under them."""
        self._announce()
        self._end()

    def listen_grants(self, listener: Callable[[Grant], None]) -> None:
        """Call ``listener`` with each grant: with each proof of the session, and each promise."""
        self._grant_listeners.append(listener)

    def listen_end(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when authority may have ended, or the connection; it checks."""
        self._end_listeners.append(listener)

    @property
    def _promised_until_s(self) -> float:
        is_current = self._promised.epoch == self._watcher.epoch
        return self._promised.deadline_s if is_current else 0.0

    def _on_action(self, action: Action) -> None:
        if action in {Action.FENCE, Action.CONNECTION_LOST}:
            self._end()

    def _announce(self) -> None:
        grant = Grant(self._watcher.epoch, self.deadline_s)
        for listener in tuple(self._grant_listeners):
            listener(grant)

    def _end(self) -> None:
        for listener in tuple(self._end_listeners):
            listener()
