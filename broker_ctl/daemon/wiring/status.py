"""Status of this daemon for the API: readiness, authority, session."""

from dataclasses import dataclass
from typing import Final

from broker_ctl.api.http.dependencies import Readiness
from broker_ctl.broker.replicas.lifecycle import Replicas
from broker_ctl.clock import Clock
from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.machines.session import State
from broker_ctl.tasks import TaskFaults

# Authority without an end is reported as one day; clients ask again long before that.
_LONGEST_S: Final = 86_400.0
_STARTING: Final = Readiness(is_ready=False, reason="starting")


@dataclass(slots=True)
class DaemonStatus:
    """Read at each request.

    Attributes:
        now: readiness of the current stage, which the lifecycle sets.
    """

    watcher: SessionWatcher
    clock: Clock
    faults: TaskFaults
    replicas: Replicas | None = None
    now: Readiness = _STARTING

    def readiness(self) -> Readiness:
        """The lifecycle's readiness, unless a needed task or the authority has ended meanwhile."""
        watcher, now = self.watcher, self.now
        if now.is_ready and self.clock.now_s() >= watcher.deadline_s:
            return Readiness(is_ready=False, reason=f"no authority: the session is {watcher.state}")
        if now.is_ready and (dead := self.faults.dead):
            reason = f"task {dead[0]} has failed, the log says why: restart this daemon"
            return Readiness(is_ready=False, reason=reason)
        return now

    def authority(self) -> tuple[int, int]:
        """Session epoch, and the milliseconds for which acts may still start.

        With replicas: 0 until all leaderships of earlier sessions have been stopped.
        """
        watcher, replicas = self.watcher, self.replicas
        is_open = replicas is None or replicas.is_granted(watcher.epoch)
        remaining_s = watcher.deadline_s - self.clock.now_s() if is_open else 0.0
        return watcher.epoch, round(min(max(remaining_s, 0.0), _LONGEST_S) * 1000)

    def session_state(self) -> State:
        """State of the session with ZooKeeper."""
        return self.watcher.state
