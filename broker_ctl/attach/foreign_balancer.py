"""Whether this process may act beside the load balancer of the cluster.

Pulsar's leader sheds and splits on its own; two balancers of one cluster undo each other's work
(docs: cruise-control). So this process executes nothing while Pulsar's balancer is on, unless an
operator overrides that.
"""

from collections.abc import Callable, Iterable
from typing import Final

from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.attach.cluster_balancer import Automatism
from broker_ctl.attach.metadata_source import ClusterSource
from broker_ctl.clock import Clock
from broker_ctl.errors import PeerError

# A cycle asks several times; the settings change rarely.
_FRESH_S: Final = 5.0


class ClusterBalancer:
    """The load balancer of the cluster; its settings are read again every few seconds.

    Attributes:
        acts: whether this process may change anything in the cluster (pulsarAct).
        source: whether the cluster still is as it is shown to plans.

    Args:
        despite_cluster_balancer: act even if the cluster's balancer is on
            (pulsarActDespiteClusterBalancer).
        obstacle: why these brokers accept no requests; empty: they accept them.
    """

    def __init__(
        self,
        admin: PulsarAdmin,
        clock: Clock,
        *,
        acts: bool,
        despite_cluster_balancer: bool,
        source: ClusterSource,
        obstacle: Callable[[], str] = lambda: "",
    ) -> None:
        self._admin = admin
        self._clock = clock
        self.acts = acts
        self._is_beside = despite_cluster_balancer
        self.source = source
        self._obstacle = obstacle
        self._known: tuple[Automatism, ...] = ()
        self._asked_s: float | None = None

    async def findings(self) -> tuple[Automatism, ...]:
        """The automatisms that are on.

        Raises:
            PeerRefused, PeerUnreachable: the settings of the cluster cannot be read.
        """
        now_s = self._clock.now_s()
        if self._asked_s is None or now_s - self._asked_s >= _FRESH_S:
            self._known = await self._admin.cluster_balancer()
            self._asked_s = now_s
        return self._known

    async def blocked_reason(self) -> str:
        """See `Executor.blocked_reason`."""
        if why := await self.source.obstacle():
            return why
        if not self.acts:
            return "decisions are recorded but not executed: see pulsarAct and dryRun"
        if why := self._obstacle():
            return why
        try:
            found = await self.findings()
        except PeerError as error:
            if self._is_beside:
                return ""
            return f"cannot read whether the cluster balances itself: {error}"
        return describe_findings(one for one in found if not (self._is_beside and one.is_rival))


def describe_findings(findings: Iterable[Automatism]) -> str:
    """Describe obstacles with reason and remedy; empty without obstacles."""
    found = tuple(findings)
    if not found:
        return ""
    text = " / ".join(f"{one.key}={one.value}: {one.why}; {one.command}" for one in found)
    if not all(one.is_rival for one in found):
        return f"the cluster would ignore requests: {text}"
    return (
        f"the cluster balances itself, and each would undo what the other does: {text} / or set "
        "pulsarActDespiteClusterBalancer=true"
    )
