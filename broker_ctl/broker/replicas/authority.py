"""The authority under which partition leaders on this broker accept writes.

Docs: kafka-failure-kinds, kafka-design-v3. A leader that resumes after a pause has an expired lease
and accepts no writes. A new session would give it a new lease while it still believes that it
leads; if it was alone in its ISR and another broker was elected uncleanly, both would commit. A
session therefore begins without authority for replicas until all former leaders on this broker have
been stopped: every leader then leads by an instruction of this session.
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
        """Grant authority for the session: every leader here has an instruction of this session."""
        self._granted_epoch = epoch

    def revoke(self) -> None:
        """Revoke: leaders accept no writes until the next grant."""
        self._granted_epoch = 0

    def is_granted(self, epoch: int) -> bool:
        """Return whether replicas have the authority of session ``epoch``."""
        return self._granted_epoch == epoch

    def current(self) -> Authority:
        """The current authority; read it at each act."""
        grant = self._grant
        return Authority(grant.epoch, grant.deadline_s if self.is_granted(grant.epoch) else 0.0)
