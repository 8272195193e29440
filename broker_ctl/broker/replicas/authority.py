"""How long the leaders of partitions here may take writes.

Docs: kafka-failure-kinds, kafka-design-v3. A leader that was paused wakes up with a lease that has
run out, and takes nothing. With its next session it would get another one, and still think that it
leads: where it is alone in its ISR, and somebody else was elected uncleanly, both would commit. So
a session begins without authority for replicas, until all that led has been stopped: what leads
then was told so in this session.
"""

from broker_ctl.coordination.session.watcher import Grant
from broker_ctl.dataplane.bundles.authority import Authority


class ReplicaAuthority:
    """Passes the session's authority on while it is granted to replicas for that session."""

    def __init__(self) -> None:
        self._grant = Grant(0, 0.0)
        self._granted_epoch = 0

    def on_grant(self, grant: Grant) -> None:
        """Listener of the session watcher."""
        self._grant = grant

    def grant(self, epoch: int) -> None:
        """Grant: nothing leads here without an instruction of this session."""
        self._granted_epoch = epoch

    def revoke(self) -> None:
        """Revoke: leaders accept no writes until the next grant."""
        self._granted_epoch = 0

    def is_granted(self, epoch: int) -> bool:
        """Whether replicas have the authority of that session."""
        return self._granted_epoch == epoch

    def current(self) -> Authority:
        """The current authority; read it at each act."""
        grant = self._grant
        return Authority(grant.epoch, grant.deadline_s if self.is_granted(grant.epoch) else 0.0)
