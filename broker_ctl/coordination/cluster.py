"""Who is there and who leads, for lookups and for the surface."""

from broker_ctl.coordination.election import Election
from broker_ctl.coordination.registry import Registry
from broker_ctl.core.broker import BrokerUrls, LookupUrls


class LiveCluster:
    """`ports.Cluster` over the registry and the election."""

    def __init__(self, registry: Registry, election: Election) -> None:
        self._registry = registry
        self._election = election

    def broker_ids(self) -> list[str]:
        """Live brokers, sorted."""
        return sorted(self._registry.peers)

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        """Where a live broker is reached."""
        peer = self._registry.peer(broker_id)
        return None if peer is None else peer.urls

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        """Where the daemon of a live broker answers binary lookups."""
        peer = self._registry.peer(broker_id)
        return None if peer is None else peer.registration.lookup_urls

    def leader(self) -> tuple[str, str] | None:
        """Broker id and web address of the leader; None while nobody is known to lead."""
        leader = self._election.leader
        return None if leader is None else (leader.broker_id, leader.service_url)
