"""Live brokers and the leader, for lookups and for the API."""

from dataclasses import replace
from typing import Final

from broker_ctl.coordination.election.election import Election
from broker_ctl.coordination.membership.foreign_brokers import ForeignBroker, ForeignBrokers
from broker_ctl.coordination.membership.registry import Peer, Registry
from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.machines.session import State
from broker_ctl.core.model.broker import BrokerUrls, LookupUrls
from broker_ctl.peer_http import PeerAddresses, Source, urls_at

# A leader that was read before the session was lost may be gone.
_CURRENT: Final = frozenset({State.CONNECTED, State.SUSPENDED})


class LiveCluster:
    """The registry and the election.

    Args:
        registry: broker-ctl processes; None: there are none, as the brokers run elsewhere.
        others: Pulsar's registry, which also lists brokers that are not broker-ctl processes;
            None: there may be none. Our own brokers are in it, too, as their data planes advertise.
        addresses: decides which of the web addresses count; None: those at the host of their id.
    """

    def __init__(
        self,
        registry: Registry | None,
        election: Election,
        watcher: SessionWatcher,
        others: ForeignBrokers | None = None,
        addresses: PeerAddresses | None = None,
    ) -> None:
        self._addresses = PeerAddresses() if addresses is None else addresses
        self._registry = registry
        self._election = election
        self._watcher = watcher
        self._others = others

    def broker_ids(self) -> list[str]:
        """Live brokers, sorted."""
        registries = (self._registry, self._others)
        return sorted({peer for each in registries if each is not None for peer in each.peers})

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        """Addresses of a live broker, without those that are refused; None: it is not alive."""
        urls = self.registered(broker_id)
        if urls is None:
            return None
        source = Source.PULSAR if self._own(broker_id) is None else Source.REGISTRATION
        return self._addresses.bind(broker_id, urls, source)

    def registered(self, broker_id: str) -> BrokerUrls | None:
        """Addresses of a live broker as its node has them; None: it is not alive."""
        peer = self._own(broker_id) or self._other(broker_id)
        if peer is None or peer.urls.broker_id == broker_id:
            return None if peer is None else peer.urls
        # The node's name is the id; what the payload has as its id, its writer may have invented.
        return replace(peer.urls, broker_id=broker_id)

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        """Addresses at which a live broker or its daemon answers binary lookups."""
        peer = self._own(broker_id)
        if peer is not None:
            return peer.registration.lookup_urls
        other = self._other(broker_id)
        if other is None:
            return None
        # Brokers other than broker-ctl's answer lookups themselves.
        urls = other.urls
        return LookupUrls(urls.native_url, urls.native_url_tls, urls.listeners)

    def leader(self) -> tuple[str, str] | None:
        """Broker id and web address of the leader; None while no leader is known.

        A leader that was read before the session was lost may be gone, so it is not returned.
        """
        leader = bound_leader(self._election, self._addresses) if self._knows_leader else None
        if leader is None or leader[1]:
            return leader
        urls = self.urls_of(leader[0])
        return leader[0], "" if urls is None else urls.web_url or urls.web_url_tls or ""

    def leader_urls(self) -> BrokerUrls | None:
        """As `urls_of`, of the leader; None while no leader is known that can be reached."""
        leader = self._election.leader if self._knows_leader else None
        return None if leader is None else self.urls_of(leader.broker_id)

    @property
    def _knows_leader(self) -> bool:
        return self._watcher.state in _CURRENT

    def _own(self, broker_id: str) -> Peer | None:
        return None if self._registry is None else self._registry.peer(broker_id)

    def _other(self, broker_id: str) -> ForeignBroker | None:
        return None if self._others is None else self._others.peer(broker_id)


def bound_leader(election: Election, addresses: PeerAddresses) -> tuple[str, str] | None:
    """Name and web address of the leader by the last read; None while unknown.

    The address is empty if it is refused: who leads is known in any case.
    """
    leader = election.leader
    if leader is None:
        return None
    urls = urls_at(leader.broker_id, leader.service_url)
    bound = addresses.bind(leader.broker_id, urls, Source.ELECTION)
    return leader.broker_id, bound.web_url or bound.web_url_tls or ""
