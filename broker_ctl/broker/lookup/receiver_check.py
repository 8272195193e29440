"""Whether this broker may receive a bundle, judged here and not by what a request says.

A lookup that says that the leader chose this broker proves nothing (docs: threat-ports). So the
broker applies the mandatory filters of placement to itself: drains, pinned namespaces, isolation.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.constraints import Constraints, IsolationPolicy
from broker_ctl.core.strategies.placement.filters import required_broker
from broker_ctl.errors import NoBroker
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore


@dataclass(frozen=True, slots=True)
class ReceiverCheck:
    """The mandatory filters of placement, for this broker alone.

    Attributes:
        drained: ids of the brokers that operators have drained.
        report_ttl_s: the age up to which a load report counts; as the leader's.
    """

    store: MetadataStore
    registry: Registry
    constraints: Callable[[], Constraints]
    drained: Callable[[], Collection[str]]
    report_ttl_s: Callable[[], float]

    async def check(self, bundle: Bundle) -> None:
        """Accept a bundle for this broker, or refuse it.

        Raises:
            NoBroker: placement would not choose this broker.
            StoreError: the reports of primaries could not be read.
        """
        own_id, namespace = self.registry.broker_id, bundle.namespace
        if own_id in self.drained():
            raise NoBroker(f"{bundle}: {own_id} is drained and receives nothing")
        if required_broker(namespace, self._can_receive) not in {None, own_id}:
            raise NoBroker(f"{bundle}: {own_id} is not {namespace.name}, which it belongs to")
        constraints = self.constraints()
        policy = constraints.policy_of(namespace)
        if policy is not None:
            await self._check_policy(bundle, policy)
        elif (reserving := constraints.reserved_by(own_id)) is not None:
            reason = f"is a primary of policy {reserving.name}, for others only"
            raise NoBroker(f"{bundle}: {own_id} {reason}")

    async def _check_policy(self, bundle: Bundle, policy: IsolationPolicy) -> None:
        own_id = self.registry.broker_id
        if policy.is_primary(own_id):
            return
        if not policy.is_secondary(own_id):
            reason = f"is neither primary nor secondary of policy {policy.name}"
            raise NoBroker(f"{bundle}: {own_id} {reason}")
        if not policy.admits(own_id, await self._available(policy)):
            reason = f"is only secondary of policy {policy.name}, and primaries are available"
            raise NoBroker(f"{bundle}: {own_id} {reason}")

    async def _available(self, policy: IsolationPolicy) -> int:
        """The primaries that the leader may choose from, up to as many as the policy wants."""
        # The store dates all reports by one clock, and this broker's is never much older.
        newest_ms = await self._reported_ms(self.registry.broker_id)
        count = 0
        for broker_id in sorted(self.registry.peers):
            if count >= policy.min_available:
                break
            if policy.is_primary(broker_id) and self._can_receive(broker_id):
                age_ms = newest_ms - await self._reported_ms(broker_id)
                count += age_ms <= self.report_ttl_s() * 1000
        return count

    async def _reported_ms(self, broker_id: str) -> int:
        """When a broker has written its load report; 0: it has none."""
        stat = await self.store.exists(paths.load_report(broker_id))
        return 0 if stat is None else stat.mtime_ms

    def _can_receive(self, broker_id: str) -> bool:
        peer = self.registry.peer(broker_id)
        return peer is not None and not peer.is_draining and broker_id not in self.drained()
