"""A cluster in memory, seen through the API; mypy holds its fakes to the types of the services."""

import math
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import (
    ApiRules,
    ClientForwarding,
    Dependencies,
    PartitionDependencies,
    Readiness,
)
from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.context.decisions import DecisionLog, outcome_row
from broker_ctl.broker.load.reporter import LoadReporter
from broker_ctl.broker.lookup.lookup import (
    Answer,
    ClusterRouter,
    Connect,
    LeaseGuard,
    Lookup,
    LookupStatistics,
    PeerCluster,
    Redirect,
    Scope,
)
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.partitioned_topics import PartitionedTopics
from broker_ctl.broker.namespaces.policy_store import PolicyStore
from broker_ctl.broker.ownership.command_handler import BundleCommandHandler, OwnTopics
from broker_ctl.broker.ownership.dataplane_watch import DataPlaneWatch
from broker_ctl.broker.ownership.held_bundles import OwnedBundle
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.ownership import Owner, Ownership
from broker_ctl.broker.ownership.ring_change import Boundaries
from broker_ctl.broker.policies.constraints import ConstraintsCache
from broker_ctl.broker.policies.dynamic_config import DynamicConfiguration
from broker_ctl.broker.policies.policies import Policies
from broker_ctl.broker.policies.tenants import StoredGrants
from broker_ctl.broker.replicas.partition_leaders import PartitionLeaders
from broker_ctl.broker.services import BrokerServices
from broker_ctl.clock import SystemClock
from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.directives import Directives
from broker_ctl.coordination.membership.cluster import LiveCluster
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.history.rows import JournalEntry, Outcome
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.broker import AdvertisedListener, BrokerUrls, LookupUrls
from broker_ctl.core.model.commands import Command
from broker_ctl.core.model.load import BrokerLoad, ResourceUsage, SystemUsage
from broker_ctl.core.model.names import PERSISTENT, Bundle, Namespace, Ring, Topic
from broker_ctl.core.planning.size import SizeAdvice
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.dataplane.bundles.interface import Unloaded
from broker_ctl.errors import (
    BrokerCtlError,
    BundleGone,
    BundleMoving,
    ForeignNamespace,
    InvalidName,
    NamespaceMissing,
    NoLeader,
    NotOwner,
    OwnershipError,
)
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.declared import Instruments
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.peer_http import PeerAddresses, PeerHttp
from broker_ctl.security.audit.log import AuditLog, AuditRules
from broker_ctl.settings.root import Settings
from broker_ctl.simulation.model.curves import TopicRates, Wave
from broker_ctl.simulation.workload.workload import TopicLoad, Workload
from broker_ctl.store.interface import Operation
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.simple import BrokerReport
from broker_ctl.store.watched_cache import CacheRules
from tests.support.clusters.controller_admin import MemoryControllerAdmin
from tests.support.clusters.memory_operations import MemoryOperations
from tests.support.clusters.tenants import make_tenants
from tests.support.time.waiting import PATIENCE_S, eventually

NAMESPACE = Namespace("t", "ns")
RING = Ring.even(NAMESPACE, 4)
BUNDLES = RING.bundles
TOKEN = "a-secret-of-the-operator"
CLUSTER = "c1"
# Eight topics, in each bundle of the ring some; each takes in ten messages of 100 bytes a second.
TRAFFIC = TopicRates(10.0, 20.0, 1000.0, 2000.0, producers=1, consumers=2)
TOPICS = tuple(Topic("persistent", NAMESPACE, f"topic {number}") for number in range(8))
WORKLOAD = Workload("few", tuple(TopicLoad.of(str(topic), Wave(TRAFFIC)) for topic in TOPICS))


# Fields of the leader's view in which nothing happens.
_CALM = {
    "bundle_count": 4,
    "decisions": [],
    "lost_brokers": [],
    "over_limits": [],
    "is_full": False,
    "offline_bundles": 0,
    "offline_eta_s": None,
    "paused": False,
    "pause_reason": "",
    "dry_run": False,
    "splits": 0,
    "unloads": 0,
}


def _bundle_row(world: "World", bundle: str) -> dict[str, Any]:
    """What a leader knows of a bundle."""
    load = {"throughput_bytes_per_s": 2000.0, "msg_per_s": 10.0}
    return {
        "owner": world.owners.get(Bundle.parse(bundle)),
        **load,
        **{f"long_{name}": value for name, value in load.items()},
        "topics": 2,
        "usage_ratio": 0.1,
        "promised_to": None,
        "unowned_s": None,
    }


class Held(OwnedBundle):
    """A bundle in some state, under a token that no lock has."""

    def __init__(self, bundle: Bundle, state: BundleState, token: int) -> None:
        super().__init__(bundle, state)
        self._token = token

    @property
    def token(self) -> int:
        return self._token


@dataclass
class World:
    """What all brokers share: rings, owners, registered brokers, leader and controller."""

    rings: dict[Namespace, Ring] = field(default_factory=lambda: {NAMESPACE: RING})
    owners: dict[Bundle, str] = field(default_factory=dict)
    tokens: dict[Bundle, int] = field(default_factory=dict)
    brokers: dict[str, BrokerUrls] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set)
    leader_id: str | None = None
    controller_id: str | None = None

    def assign(self, bundle: Bundle, broker_id: str) -> None:
        self.tokens[bundle] = 1 + max(self.tokens.values(), default=100)
        self.owners[bundle] = broker_id


class MemoryNamespaces(Namespaces):
    """The rings of the world; what is created and deleted is in the store too."""

    def __init__(self, world: World, stored: Namespaces) -> None:
        self._world = world
        self._stored = stored

    async def ring(self, namespace: Namespace) -> Ring:
        try:
            return self._world.rings[namespace]
        except KeyError:
            raise NamespaceMissing(f"namespace {namespace} does not exist") from None

    async def create(
        self,
        namespace: Namespace,
        *,
        bundles: int | None = None,
        boundaries: Sequence[int] = (),
        policies: Mapping[str, Any] | None = None,
        is_dry_run: bool = False,
    ) -> Ring:
        ring = await self._stored.create(
            namespace,
            bundles=bundles,
            boundaries=boundaries,
            policies=policies,
            is_dry_run=is_dry_run,
        )
        if not is_dry_run:
            self._world.rings[namespace] = ring
        return ring

    async def delete(self, namespace: Namespace, *, is_dry_run: bool = False) -> None:
        await self.ring(namespace)
        if any(bundle.namespace == namespace for bundle in self._world.owners):
            raise OwnershipError(f"{namespace}: bundles are owned; unload the namespace first")
        if is_dry_run:
            return
        await self._stored.delete(namespace)
        del self._world.rings[namespace]

    async def of_tenant(self, tenant: str) -> list[Namespace]:
        return [namespace for namespace in self._world.rings if namespace.tenant == tenant]


class MemoryOwnership(Ownership):
    """The bundles of one broker; ``refuse`` makes its next acts fail."""

    def __init__(self, world: World, urls: BrokerUrls) -> None:
        self._world = world
        self.urls = urls
        self.is_draining = False
        self.moving: set[Bundle] = set()
        self.refuse: BrokerCtlError | None = None

    def owned(self) -> Mapping[Bundle, OwnedBundle]:
        return {
            bundle: Held(bundle, BundleState.OWNED, self._world.tokens[bundle])
            for bundle, broker_id in self._world.owners.items()
            if broker_id == self.urls.broker_id
        }

    async def owner_of(self, bundle: Bundle) -> Owner | None:
        if bundle in self.moving:
            raise BundleMoving(f"{bundle} is releasing")
        owner = self._world.owners.get(bundle)
        if owner is None:
            return None
        urls = self._world.brokers[owner]
        return Owner(urls, self._world.tokens[bundle], is_self=owner == self.urls.broker_id)

    async def unload(self, bundle: Bundle) -> Unloaded:
        if self.refuse is not None:
            raise self.refuse
        if self._world.owners.get(bundle) != self.urls.broker_id:
            raise NotOwner(f"{bundle} is not owned here")
        del self._world.owners[bundle]
        return Unloaded(0, is_confirmed=True)

    async def split(
        self,
        bundle: Bundle,
        algorithm: str,
        boundaries: tuple[int, ...] = (),
        guards: Sequence[Operation] = (),
    ) -> tuple[Bundle, ...]:
        del guards
        if self._world.owners.get(bundle) != self.urls.broker_id:
            raise NotOwner(f"{bundle} is not owned here")
        if algorithm == "topic_count_equally_divide":
            return ()
        points = boundaries or ((bundle.range.low + bundle.range.high) // 2,)
        ring = self._world.rings[bundle.namespace].split(bundle, points)
        self._world.rings[bundle.namespace] = ring
        del self._world.owners[bundle]
        children = bundle.cut(points)
        for child in children:
            self._world.assign(child, self.urls.broker_id)
        return children


class MemoryLookup(Lookup):
    """Follows `managers.lookup`: owner, self, the leader; ``gate`` holds lookups up.

    ``remembered`` is what is answered without waiting, and ``knows_rings`` whether it holds for
    whole bundles, while ``changes`` stays.
    """

    def __init__(self, world: World, ownership: MemoryOwnership, cluster: "MemoryCluster") -> None:
        self._world = world
        self._ownership = ownership
        self._cluster = cluster
        self.placement = ownership.urls.broker_id
        self.gate: Callable[[], Any] | None = None
        self.refuse: Exception | None = None
        self.remembered: dict[Topic, BrokerUrls] = {}
        self.knows_rings = False
        self.is_leased = True
        self.changes = 0
        self.recalled = 0
        # Namespaces that live in a peer cluster, and in one that is none.
        self.peers: dict[Namespace, BrokerUrls] = {}
        self.foreign: set[Namespace] = set()
        self.counts = LookupStatistics(7, 5, 3, 2, (0.001, 0.002, 0.003))

    def statistics(self) -> LookupStatistics:
        return self.counts

    async def peer_cluster_of(self, namespace: Namespace) -> BrokerUrls | None:
        if namespace in self.foreign:
            raise ForeignNamespace(f"namespace {namespace} is served in east, not in {CLUSTER}")
        return self.peers.get(namespace)

    async def bundle_of(self, topic: Topic) -> Bundle:
        ring = self._world.rings.get(topic.namespace)
        if ring is None:
            raise NamespaceMissing(f"namespace {topic.namespace} does not exist")
        return ring.bundle_of(topic)

    @property
    def version(self) -> int:
        return self.changes

    def is_allowed(self) -> bool:
        return self.is_leased

    def recall_ring(self, topic: Topic) -> Ring | None:
        return self._world.rings.get(topic.namespace) if self.knows_rings else None

    def count_recalled(self, connects: int, redirects: int, took_s: float) -> None:
        assert took_s >= 0
        self.recalled += connects + redirects

    def recall(self, topic: Topic, *, authoritative: bool) -> Connect | None:
        del authoritative
        urls = self.remembered.get(topic)
        return None if urls is None else Connect(urls)

    async def find(
        self,
        topic: Topic,
        *,
        authoritative: bool = False,
        proof: str | None = None,
        is_preloading: bool = False,
    ) -> Answer:
        del is_preloading
        if self.gate is not None:
            await self.gate()
        if self.refuse is not None:
            raise self.refuse
        peer = await self.peer_cluster_of(topic.namespace)
        if peer is not None:
            return PeerCluster(peer)
        bundle = await self.bundle_of(topic)
        return await self.find_bundle(bundle, authoritative=authoritative, proof=proof)

    async def find_bundle(
        self,
        bundle: Bundle,
        domain: str = PERSISTENT,
        *,
        authoritative: bool = False,
        proof: str | None = None,
        is_preloading: bool = False,
    ) -> Answer:
        del domain, proof, is_preloading
        owner = await self._ownership.owner_of(bundle)
        own_id = self._ownership.urls.broker_id
        if owner is not None:
            return Connect(owner.urls)
        chosen = own_id if authoritative else self.placement
        if chosen == own_id and (authoritative or self._world.leader_id == own_id):
            self._world.assign(bundle, own_id)
            return Connect(self._ownership.urls)
        if self._world.leader_id == own_id:
            return Redirect(self._world.brokers[chosen], is_authoritative=True)
        leader = self._cluster.leader()
        if leader is None:
            raise NoLeader("no broker leads at present")
        return Redirect(self._world.brokers[leader[0]], is_authoritative=False)


class MemoryCluster(LiveCluster):
    def __init__(self, world: World) -> None:
        self._world = world

    def broker_ids(self) -> list[str]:
        return sorted(self._world.brokers)

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        return self._world.brokers.get(broker_id)

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        urls = self.urls_of(broker_id)
        # The daemon's own port: two above that of its web server.
        if urls is None:
            return None
        host, _, port = broker_id.rpartition(":")
        return LookupUrls(f"pulsar://{host}:{int(port) + 2}")

    def leader(self) -> tuple[str, str] | None:
        leader_id = self._world.leader_id
        if leader_id is None:
            return None
        return leader_id, self._world.brokers[leader_id].web_url or ""


class MemoryBalancerAdmin(LoadBalancer):
    def __init__(self, world: World, directives: Directives, journal: DecisionLog) -> None:
        self._world = world
        self.directives, self.journal = directives, journal
        self.refuse: BrokerCtlError | None = None
        self.ordered_by: list[str] = []
        self._operations = MemoryOperations()
        self.bundle_loads: dict[Bundle, tuple[float, float]] = {}
        self.reported: dict[str, dict[str, Any]] = {}
        self.moves: list[dict[str, Any]] = []

    @property
    def operations(self) -> MemoryOperations:
        return self._operations

    def overview(self) -> Mapping[str, Any]:
        load = {"msg_per_s": 10.0, "throughput_bytes_per_s": 1000.0}
        usual = {"usage_ratio": 0.5, "is_draining": False, "bundles": 1, **load}
        brokers = [
            {"broker": name, **usual, **self.reported.get(name, {})}
            for name in sorted(self._world.brokers)
        ]
        bundles = [
            {"bundle": str(bundle), "msg_per_s": msg_rate, "throughput_bytes_per_s": throughput}
            for bundle, (msg_rate, throughput) in self.bundle_loads.items()
        ]
        seen = {"epoch": 9, "usage_imbalance": 1.25, "brokers": brokers, "moves": self.moves}
        newest = {"leader": self._world.leader_id, "taken_at_ms": 1, "cycle": 4}
        return {**_CALM, **newest, **seen, "bundles": bundles}

    def advise_size(self, growth_ratio: float = 0.0) -> SizeAdvice | None:
        needed = round(2 * (1 + growth_ratio))
        return SizeAdvice(3, growth_ratio, 0.5, 0.85, needed, needed + 1, None, needed + 1)

    def explain(self, subject: str) -> Mapping[str, Any]:
        known = {*self._world.brokers, *map(str, self._world.owners)}
        if subject not in known:
            raise InvalidName(f"{subject!r} is neither a live broker nor a bundle")
        return {
            "subject": subject,
            **({} if "/" not in subject else _bundle_row(self._world, subject)),
            "reported": False,
            "load": {"usage_ratio": 0.5, "msg_per_s": 10.0},
            "decisions": [outcome_row(entry())],
        }

    async def move(
        self, bundle: Bundle, destination: str, who: str = "", *, is_dry_run: bool = False
    ) -> Mapping[str, Any]:
        if self.refuse is not None:
            raise self.refuse
        source = self._world.owners.get(bundle)
        if not is_dry_run:
            self.ordered_by.append(who)
            self._world.assign(bundle, destination)
        return {"bundle": str(bundle), "from": source, "to": destination}

    async def special_bundle(self, namespace: Namespace, name: str) -> Bundle:
        if not self._world.owners:
            raise BundleGone(f"{name}: nothing was reported of the bundles of {namespace} yet")
        return min(self._world.owners) if name == "LARGEST" else max(self._world.owners)

    async def split(
        self,
        bundle: Bundle,
        algorithm: str,
        positions: tuple[int, ...],
        who: str = "",
        *,
        is_unloading: bool,
    ) -> Mapping[str, Any]:
        self.ordered_by.append(who)
        if self.refuse is not None:
            raise self.refuse
        owner = self._world.owners.get(bundle) or min(self._world.brokers)
        self._world.assign(bundle, owner)
        ownership = MemoryOwnership(self._world, self._world.brokers[owner])
        children = await ownership.split(bundle, algorithm, positions)
        for child in children if is_unloading else ():
            self._world.assign(child, max(self._world.brokers))
        return {"children": [str(child) for child in children]}

    async def merge(
        self, left: Bundle, right: Bundle, who: str = "", *, is_dry_run: bool = False
    ) -> Mapping[str, Any]:
        if self.refuse is not None:
            raise self.refuse
        if is_dry_run:
            owner = self._world.owners.get(left) or self._world.owners.get(right)
            return {"bundle": str(left.joined(right)), "owner": owner}
        self.ordered_by.append(who)
        ring = self._world.rings[left.namespace].merge(left, right)
        self._world.rings[left.namespace] = ring
        owner = self._world.owners.pop(left, None) or min(self._world.brokers)
        self._world.owners.pop(right, None)
        self._world.assign(left.joined(right), owner)
        return {"bundle": str(left.joined(right)), "owner": owner}


class _OpenScope(Scope):
    """A block that nothing ends."""

    def __init__(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class MemoryAuthorised(LeaseGuard):
    """A lease that is held, unless ``refuse`` is set: then it has expired."""

    def __init__(self) -> None:
        self.refuse: BrokerCtlError | None = None

    def held(self, *, needs_store: bool = False) -> Scope:
        del needs_store
        if self.refuse is not None:
            raise self.refuse
        return _OpenScope()


class MemoryCommands(BundleCommandHandler):
    def __init__(self) -> None:
        self.obeyed: list[Command] = []
        self.refuse: Exception | None = None

    async def handle(self, order: Command) -> Mapping[str, Any]:
        if self.refuse is not None:
            raise self.refuse
        self.obeyed.append(order)
        return {"token": 42}


class MemoryJournal(DecisionLog):
    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self.counted: dict[tuple[str, str, str], int] = {}

    def record(self, entry: JournalEntry) -> None:
        self.entries.insert(0, entry)

    def recent(self, limit: int) -> list[JournalEntry]:
        return self.entries[:limit]

    def counts(self) -> Mapping[tuple[str, str, str], int]:
        return self.counted


class MemoryReporter(LoadReporter):
    def __init__(self, urls: BrokerUrls) -> None:
        usage = SystemUsage(cpu=ResourceUsage(150.0, 200.0), memory=ResourceUsage(10.0, 100.0))
        self.report = LocalBrokerData(urls, BrokerLoad(urls.broker_id, usage))

    def current(self) -> BrokerReport:
        return self.report


class Metadata:
    """A store with the managers of policies and configuration, one for all brokers of a world.

    ``t/ns`` is in it as it is in the world; it knows nothing else of rings and owners.
    """

    def __init__(self) -> None:
        clock, rng = SystemClock(), random.Random(1)
        self._ensemble = MemoryEnsemble()
        self.store = MemoryStore(self._ensemble)
        self.namespaces = Namespaces(
            self.store,
            self.store,
            cluster=CLUSTER,
            default_bundles=lambda: self.configuration.current().splitting.default_bundles,
            clock=clock,
            cache_rules=CacheRules(),
            rng=random.Random(1),
        )
        self.policies = Policies.of(
            self.store,
            self.store,
            cluster=CLUSTER,
            namespaces=self.namespaces,
            clock=clock,
            rng=rng,
        )
        policies = PolicyStore.of(self.store, clock, rng)
        self.partitioned_topics = PartitionedTopics(policies, self.namespaces, CacheRules())
        self.configuration = DynamicConfiguration(self.store, Settings(), clock=clock, rng=rng)
        self.directives = Directives(self.store, rng=random.Random(1))

    @property
    def zxid(self) -> int:
        """Grows with everything that is written."""
        return self._ensemble.tree.zxid

    async def start(self) -> None:
        await self.store.start()
        await self.store.wait_connected()
        await self.namespaces.start()
        await self.partitioned_topics.start()
        await make_tenants(self.store, CLUSTER, NAMESPACE.tenant)
        await self.namespaces.create(NAMESPACE)
        await self.configuration.start()
        await self.directives.start()

    async def close(self) -> None:
        await self.directives.close()
        await self.configuration.close()
        await self.partitioned_topics.close()
        await self.namespaces.close()
        await self.store.close()


class Broker:
    """One broker of a `World`, with its API server; a test may change the attributes."""

    def __init__(
        self, world: World, urls: BrokerUrls, peers: HttpClient, metadata: "Metadata"
    ) -> None:
        self.world = world
        self.urls = urls
        self.metadata = metadata
        self.cluster = MemoryCluster(world)
        self.ownership = MemoryOwnership(world, urls)
        # Serves what a test loads, and nobody counts its acts.
        self.dataplane = SimulatedDataPlane(
            WORKLOAD, SystemClock(), broker_id=urls.broker_id, rng=random.Random(1), tick_s=0.01
        )
        self.lookup = MemoryLookup(world, self.ownership, self.cluster)
        self.authorised = MemoryAuthorised()
        self.commands = MemoryCommands()
        self.journal = MemoryJournal()
        self.directives = metadata.directives
        self.admin = MemoryBalancerAdmin(world, self.directives, self.journal)
        self.partition_admin = MemoryControllerAdmin()
        self.partition_leaders = PartitionLeaders(
            metadata.store, SystemClock(), CacheRules(), rng=random.Random(1)
        )
        self.readiness = Readiness(is_ready=True)
        self.session_state = SessionState.CONNECTED
        self.instruments = Instruments()
        self.dependencies = Dependencies(
            own_id=urls.broker_id,
            services=self._services(),
            lookup=self.lookup,
            boundaries=Boundaries(self.dataplane, SplitRules),
            topics=OwnTopics(self.ownership.owned, self.dataplane),
            cluster=self.cluster,
            balancer=self.admin,
            admin=self._admin_if_leading,
            readiness=lambda: self.readiness,
            authority=lambda: (3, 1500),
            session_state=lambda: self.session_state,
            peers=PeerHttp(peers, PeerAddresses(), self.world.brokers.get),
            forwarding=ClientForwarding(
                lambda headers: PeerHttp(
                    peers, PeerAddresses(), self.world.brokers.get, sign_for=lambda *_: headers
                ),
                self.world.proven.__contains__,
            ),
            instruments=self.instruments,
            clock=SystemClock(),
            audit=AuditLog(AuditRules(), urls.broker_id, SystemClock()),
            authorised=self.authorised,
            partitions=PartitionDependencies(
                self._partition_admin_if_controlling, self._controller
            ),
        )
        self.api: ApiServer | None = None

    def _services(self) -> BrokerServices:
        """What no test of the API asks for is real, and never started."""
        metadata, clock = self.metadata, SystemClock()
        store, registration = metadata.store, Registration("", 0, 0, self.urls)
        registry = Registry(
            store,
            registration,
            Deletions(store, rng=random.Random(1)),
            tick_s=1.0,
            rng=random.Random(1),
        )
        return BrokerServices(
            dataplane=self.dataplane,
            configuration=metadata.configuration,
            constraints=ConstraintsCache(store, store, CLUSTER, rng=random.Random(1)),
            policies=metadata.policies,
            grants=StoredGrants(store, clock, CacheRules(), rng=random.Random(1)),
            namespaces=MemoryNamespaces(self.world, metadata.namespaces),
            partitioned_topics=metadata.partitioned_topics,
            partition_leaders=self.partition_leaders,
            home=ClusterRouter(store, CLUSTER, clock, CacheRules(), rng=random.Random(1)),
            owners=Owners(store, registry, clock, 0.0, CacheRules(), rng=random.Random(1)),
            ownership=self.ownership,
            commands=self.commands,
            dataplane_watch=DataPlaneWatch(
                self.dataplane, self.ownership, clock, math.inf, rng=random.Random(1)
            ),
            reporter=MemoryReporter(self.urls),
            history=None,
        )

    @property
    def broker_id(self) -> str:
        return self.urls.broker_id

    @property
    def url(self) -> str:
        assert self.urls.web_url is not None
        return self.urls.web_url

    async def serve(self, bundle: Bundle) -> None:
        """Own a bundle and have its topics loaded; none is opened again, for want of authority."""
        self.world.assign(bundle, self.broker_id)
        await self.dataplane.load(bundle, self.world.tokens[bundle])
        expected = {topic.name for topic in WORKLOAD.topics_in(bundle)}

        async def is_granted() -> bool:
            return set(await self.dataplane.topics(bundle)) == expected

        self.dataplane.grant(1, math.inf)
        await eventually(is_granted, what="its topics are open")
        self.dataplane.grant(1, 0.0)

    def _admin_if_leading(self) -> LoadBalancer | None:
        return self.admin if self.world.leader_id == self.broker_id else None

    def _partition_admin_if_controlling(self) -> ControllerOperations | None:
        return self.partition_admin if self.world.controller_id == self.broker_id else None

    def _controller(self) -> tuple[str, str] | None:
        name = self.world.controller_id
        return None if name is None else (name, self.world.brokers[name].web_url or "")


def urls_at(port: int) -> BrokerUrls:
    """The addresses of a broker on loopback; its data plane's ports lead nowhere."""
    external = AdvertisedListener("external", native_url=f"pulsar://outside:{port}")
    return BrokerUrls(
        f"127.0.0.1:{port}",
        web_url=f"http://127.0.0.1:{port}",
        native_url=f"pulsar://127.0.0.1:{port + 1}",
        listeners=(external,),
    )


@asynccontextmanager
async def serving_brokers(
    ports: Sequence[int],
    rules: ApiRules | None = None,
    token: str | None = None,
    audit: AuditRules | None = None,
) -> AsyncIterator[list[Broker]]:
    """Brokers of one world on these ports; the first one leads, and controls partitions.

    ``audit`` is for the first.
    """
    base = rules or ApiRules(CLUSTER)
    world = World(brokers={f"127.0.0.1:{port}": urls_at(port) for port in ports})
    world.leader_id = world.controller_id = f"127.0.0.1:{ports[0]}"
    world.proven |= world.brokers.keys()
    async with HttpClient(token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as peers:
        metadata = Metadata()
        brokers = [Broker(world, urls_at(port), peers, metadata) for port in ports]
        started: list[ApiServer] = []
        try:
            await metadata.start()
            if audit is not None:
                log = AuditLog(audit, brokers[0].broker_id, SystemClock())
                brokers[0].dependencies = replace(brokers[0].dependencies, audit=log)
                await log.start()
            for broker in brokers:
                await broker.dataplane.start()
            for broker, port in zip(brokers, ports, strict=True):
                broker.api = ApiServer(broker.dependencies, replace(base, port=port))
                await broker.api.start()
                started.append(broker.api)
            yield brokers
        finally:
            for api in started:
                await api.stop(1.0)
            for broker in brokers:
                await broker.dependencies.audit.close()
                await broker.dataplane.stop()
                await broker.partition_leaders.close()
            await metadata.close()


def entry(at_ms: int = 1) -> JournalEntry:
    """An entry of the journal with a skip of a cycle."""
    skip = Skip("cluster", Reason.BELOW_THRESHOLD, "5 % above the mean")
    return JournalEntry(at_ms, 9, 4, skip, Outcome("skipped"))
