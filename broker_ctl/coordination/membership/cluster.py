"""Live brokers and the leader, for lookups and the API; the cluster's name and peers."""

import contextlib
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from broker_ctl.codec import decode_object
from broker_ctl.coordination.election import Election
from broker_ctl.coordination.membership.foreign_brokers import ForeignBroker, ForeignBrokers
from broker_ctl.coordination.membership.registry import Peer, Registry
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.broker import BrokerUrls, LookupUrls
from broker_ctl.core.model.commands import Command, HandleCommand, Reply
from broker_ctl.errors import (
    CorruptRecord,
    HttpError,
    NewerVersion,
    NoAuth,
    NodeExists,
    PeerRefused,
    PeerUnreachable,
    StartError,
)
from broker_ctl.peer_http import AddressSource, PeerAddresses, PeerHttp, urls_at
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.broker_ctl import ClusterName

log = logging.getLogger(__name__)

# The cluster name below a chroot: the first broker writes it, and all others must match it.


async def require_cluster_name(store: MetadataStore, name: str) -> None:
    """Write the name if there is none: a new cluster, or one of an earlier release.

    Raises:
        StartError: the store has another name.
        CorruptRecord, NewerVersion: the stored name cannot be read.
    """
    node = await store.get(paths.CLUSTER_NAME)
    if node is None:
        with contextlib.suppress(NodeExists):
            await store.create(paths.CLUSTER_NAME, ClusterName(name).encode(), make_parents=True)
        node = await store.get(paths.CLUSTER_NAME)
    kept = name if node is None else ClusterName.decode(node.path, node.data).name
    if kept != name:
        raise StartError(
            f"clusterName={name}, but the brokers below metadataStoreUrl are the cluster {kept}: "
            "give that name, or this cluster a chroot of its own. Where the cluster is to be "
            f"called {name} from now on, stop all its brokers and delete {paths.CLUSTER_NAME}",
        )


# Other clusters on the same ZooKeeper servers: they reveal a mistyped chroot.


# A nested chroot, as in /pulsar/east; deeper ones are not searched.
_DEPTH: Final = 2
# A limit, since the servers may hold the data of many other applications.
_MOST_NODES: Final = 200
# Nodes inside a cluster are not chroots of others.
_NOT_CHROOTS: Final = frozenset(
    {"zookeeper", "broker-ctl", "admin", "loadbalance", "namespace", "ledgers", "managed-ledgers"}
)


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """A chroot that brokers use or have used; it may have several cluster names, or none."""

    chroot: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.names) or 'a cluster'} in {self.chroot or '/'}"


async def find_clusters(tree: MetadataStore) -> list[FoundCluster]:
    """Find clusters in the first levels of a store without a chroot, by path.

    Raises:
        StoreError: the store does not answer. Nodes that we may not read are skipped.
    """
    found: list[FoundCluster] = []
    left, looked = deque([""]), 0
    while left and looked < _MOST_NODES:
        chroot, looked = left.popleft(), looked + 1
        try:
            names = await _names(tree, chroot)
            if names is not None:
                found.append(FoundCluster(chroot, names))
            if chroot.count("/") < _DEPTH:
                below = sorted({*await tree.children(chroot or "/")} - _NOT_CHROOTS)
                left += [f"{chroot}/{name}" for name in below]
        except NoAuth:
            continue
    return sorted(found, key=lambda cluster: cluster.chroot)


async def _names(tree: MetadataStore, chroot: str) -> tuple[str, ...] | None:
    """Names of the cluster below a chroot; None if there is no cluster."""
    node = await tree.get(f"{chroot}{paths.CLUSTER_NAME}")
    if node is not None:
        try:
            return (ClusterName.decode(node.path, node.data).name,)
        except (CorruptRecord, NewerVersion):
            return ()
    if not await tree.children(f"{chroot}{paths.LOAD_REPORTS}"):
        return None
    return tuple(sorted(await tree.children(f"{chroot}{paths.CLUSTERS}")))


# Racks of live brokers, from their registrations.


class PeerRacks:
    """Follows the registry; to be made before the registry starts."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._current: Mapping[str, str] = {}
        registry.listen(self._changed)

    def current(self) -> Mapping[str, str]:
        """The racks of the brokers that have one, by id; the same object until one changes."""
        return self._current

    def _changed(self) -> None:
        peers = self._registry.peers.items()
        racks = {name: peer.registration.rack for name, peer in peers if peer.registration.rack}
        if racks != self._current:
            self._current = racks


# Commands to other brokers over their control HTTP; a broker calls itself the same way.


class Peers(Protocol):
    """Sends commands to brokers: over HTTP, or in memory in deterministic tests."""

    async def send(self, broker_id: str, command: Command, timeout_s: float) -> Reply:
        """Send one command.

        Raises:
            PeerUnreachable: there was no answer; the command may have been executed.
            PeerRefused: the broker refused it.
        """
        ...


class HttpPeers:
    """`POST {web address}/control/v1/{verb}`, answered with JSON or the name of an error."""

    def __init__(self, registry: Registry, http: PeerHttp, own: HandleCommand) -> None:
        self._registry = registry
        self._http = http
        self._own = own

    async def send(self, broker_id: str, command: Command, timeout_s: float) -> Reply:
        """See `Peers.send`."""
        if broker_id == self._registry.broker_id:
            return await self._own(command)
        peer = self._registry.peer(broker_id)
        if peer is None or not (peer.urls.web_url or peer.urls.web_url_tls):
            raise PeerUnreachable(f"{broker_id} is not registered")
        # The node's name is the id; what the payload has as its id, its writer may have invented.
        urls = replace(peer.urls, broker_id=broker_id)
        try:
            reply = await self._http.request(
                "POST",
                urls,
                f"/control/v1/{command.verb}",
                AddressSource.REGISTRATION,
                json=command.to_row(),
                timeout_s=timeout_s,
            )
            row = self._row(reply.body)
        except HttpError as error:
            raise PeerUnreachable(f"{broker_id}: {error}") from error
        if reply.status != 200:
            kind, reason = str(row.get("error", reply.status)), str(row.get("reason", ""))
            raise PeerRefused(kind, f"{broker_id}: {reason}")
        return row

    @staticmethod
    def _row(body: bytes) -> Mapping[str, Any]:
        try:
            return decode_object(body)
        except CorruptRecord as error:
            raise HttpError(f"the reply is not a JSON object: {error}") from error


# Live brokers and the leader, for lookups and for the API.


# A leader that was read before the session was lost may be gone.
_CURRENT: Final = frozenset({SessionState.CONNECTED, SessionState.SUSPENDED})


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

    @property
    def version(self) -> int:
        """Grows with each change of who is alive, where, and who leads."""
        registries = (self._registry, self._others)
        changes = sum(each.version for each in registries if each is not None)
        return changes + self._election.version

    def broker_ids(self) -> list[str]:
        """Live brokers, sorted."""
        registries = (self._registry, self._others)
        return sorted({peer for each in registries if each is not None for peer in each.peers})

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        """Addresses of a live broker, without those that are refused; None: it is not alive."""
        urls = self.registered(broker_id)
        if urls is None:
            return None
        source = (
            AddressSource.PULSAR if self._own(broker_id) is None else AddressSource.REGISTRATION
        )
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
    bound = addresses.bind(leader.broker_id, urls, AddressSource.ELECTION)
    return leader.broker_id, bound.web_url or bound.web_url_tls or ""
