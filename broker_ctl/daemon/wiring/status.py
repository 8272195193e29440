"""Status of this daemon for the API: readiness, authority, session."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker_ctl.api.http.dependencies import Readiness
from broker_ctl.broker.replicas.lifecycle import Replicas
from broker_ctl.clock import Clock
from broker_ctl.coordination.session.watcher import Grant, SessionWatcher
from broker_ctl.core.machines.session import State
from broker_ctl.dataplane.bundles.authority import Authority
from broker_ctl.tasks import TaskFaults

# Authority without an end is reported as one day; clients ask again long before that.
_LONGEST_S: Final = 86_400.0
_STARTING: Final = Readiness(is_ready=False, reason="starting")


def session_grant(watcher: SessionWatcher) -> Callable[[], Grant]:
    """What a session allows a daemon that owns no bundles."""
    return lambda: Grant(watcher.epoch, watcher.deadline_s)


@dataclass(slots=True)
class DaemonStatus:
    """Read at each request.

    Attributes:
        granted: what the data plane may act on. The session's own grant is too early: after an
            expiry it comes before the bundles are re-acquired, and a broker process that reads it
            would serve what is not owned (I1a). While the data plane is silent, a broker process
            that still reads it would never stop (I11).
        now: readiness of the current stage, which the lifecycle sets.
    """

    watcher: SessionWatcher
    clock: Clock
    faults: TaskFaults
    granted: Callable[[], Grant]
    replicas: Replicas | None = None
    now: Readiness = _STARTING

    def readiness(self) -> Readiness:
        """The lifecycle's readiness, unless a needed task or the authority has ended meanwhile."""
        watcher, now = self.watcher, self.now
        if watcher.withheld:
            return Readiness(is_ready=False, reason=watcher.withheld)
        if now.is_ready and self.clock.now_s() >= watcher.deadline_s:
            reason = (
                f"ZooKeeper does not answer: the session is {watcher.state}, and nothing is served "
                "until it is back; broker-ctl zookeeper status shows the servers"
            )
            return Readiness(is_ready=False, reason=reason)
        if now.is_ready and (dead := self.faults.dead):
            reason = f"task {dead[0]} has failed, the log says why: restart this daemon"
            return Readiness(is_ready=False, reason=reason)
        if now.is_ready and watcher.state is State.SUSPENDED:
            return Readiness(is_ready=True, reason=self._away_text())
        return now

    def _away_text(self) -> str:
        """What a broker does whose connection is lost, and for how long.

        Docs: lookups-while-zookeeper-is-away.
        """
        left_s = self.watcher.deadline_s - self.clock.now_s()
        until = f"until its lease ends in {left_s:.0f} s" if left_s < _LONGEST_S else "on"
        return (
            f"ZooKeeper is away: this broker serves {until}; lookups of what it does not serve "
            "are answered with 503"
        )

    def authority(self) -> tuple[int, int]:
        """Session epoch, and the milliseconds for which acts may still start.

        With replicas: 0 until all leaderships of earlier sessions have been stopped.
        """
        grant, replicas, now_s = self.granted(), self.replicas, self.clock.now_s()
        if replicas is not None and not replicas.is_granted(grant.epoch):
            return grant.epoch, 0
        deadline_s = min(grant.deadline_s, now_s + _LONGEST_S)
        return grant.epoch, Authority(grant.epoch, deadline_s).remaining_ms(now_s)

    def session_state(self) -> State:
        """State of the session with ZooKeeper."""
        return self.watcher.state
