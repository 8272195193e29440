"""Who is there and who leads, for lookups and for the surface."""

from broker_ctl.coordination.election import Election
from broker_ctl.coordination.registry import Registry
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.broker import BrokerUrls, LookupUrls
from broker_ctl.core.session import State


class LiveCluster:
    """`ports.Cluster` over the registry and the election."""

    def __init__(self, registry: Registry, election: Election, watcher: SessionWatcher) -> None:
        self._registry = registry
        self._election = election
        self._watcher = watcher

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
        """Broker id and web address of the leader; None while nobody is known to lead.

        Whoever led when the session was lost may have gone since, and nobody here would hear of it.
        """
        is_heard = self._watcher.state in {State.CONNECTED, State.SUSPENDED}
        leader = self._election.leader if is_heard else None
        return None if leader is None else (leader.broker_id, leader.service_url)
