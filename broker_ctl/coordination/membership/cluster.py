"""Live brokers and the leader, for lookups and for the API."""

from broker_ctl.coordination.election.election import Election, leader_address
from broker_ctl.coordination.membership.foreign_brokers import ForeignBroker, ForeignBrokers
from broker_ctl.coordination.membership.registry import Peer, Registry
from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.machines.session import State
from broker_ctl.core.model.broker import BrokerUrls, LookupUrls


class LiveCluster:
    """The registry and the election.

    Args:
        registry: broker-ctl processes; None: there are none, as the brokers run elsewhere.
        others: Pulsar's registry, which also lists brokers that are not broker-ctl processes;
            None: there may be none. Our own brokers are in it, too, as their data planes advertise.
    """

    def __init__(
        self,
        registry: Registry | None,
        election: Election,
        watcher: SessionWatcher,
        others: ForeignBrokers | None = None,
    ) -> None:
        self._registry = registry
        self._election = election
        self._watcher = watcher
        self._others = others

    def broker_ids(self) -> list[str]:
        """Live brokers, sorted."""
        registries = (self._registry, self._others)
        return sorted({peer for each in registries if each is not None for peer in each.peers})

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        """Addresses of a live broker; None: it is not alive."""
        peer = self._own(broker_id) or self._other(broker_id)
        return None if peer is None else peer.urls

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        """Addresses at which a live broker or its daemon answers binary lookups."""
        peer = self._own(broker_id)
        if peer is not None:
            return peer.registration.lookup_urls
        other = self._other(broker_id)
        if other is None:
            return None
        # Brokers other than broker-ctl's answer lookups themselves.
        return LookupUrls(other.urls.native_url, other.urls.native_url_tls)

    def leader(self) -> tuple[str, str] | None:
        """Broker id and web address of the leader; None while no leader is known.

        A leader that was read before the session was lost may be gone, so it is not returned.
        """
        is_current = self._watcher.state in {State.CONNECTED, State.SUSPENDED}
        return leader_address(self._election) if is_current else None

    def _own(self, broker_id: str) -> Peer | None:
        return None if self._registry is None else self._registry.peer(broker_id)

    def _other(self, broker_id: str) -> ForeignBroker | None:
        return None if self._others is None else self._others.peer(broker_id)
