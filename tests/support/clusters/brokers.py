"""Brokers without a process: the complete ownership stack of each, over one ensemble.

Everything is real but the network and the messages: `Broker` wires what `daemon` wires. Faults
are steered through `Steering`, which every message to the store and every call of the data plane
passes, and an `Observer` looks at the tree after every transaction.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.held_bundles import OwnershipChange
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.ownership import Ownership, OwnershipDependencies
from broker_ctl.broker.ownership.reacquire import ReclaimResult
from broker_ctl.clock import Clock
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.directives import Moves
from broker_ctl.coordination.locks import Locks
from broker_ctl.coordination.membership.registry import Registry, lease_node
from broker_ctl.coordination.session import AuthorityMode, SessionWatcher
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.dataplane.bundles.interface import Unloaded
from broker_ctl.dataplane.bundles.serve_log import (
    OwnershipVerdict,
    ServeEvent,
    ServeLog,
    judge,
    merge_logs,
)
from broker_ctl.errors import CorruptRecord, DataPlaneUnreachable
from broker_ctl.instruments.balancing import OwnershipInstruments
from broker_ctl.lab.memory_store.ensemble import EnsembleRules, MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.memory_store.transport import Fault, FaultPoint, MemoryRequest
from broker_ctl.lab.simulated import MemoryServeLog, SimulatedDataPlane
from broker_ctl.lab.time import LoopClock
from broker_ctl.simulation.workload.workload import Workload
from broker_ctl.store import paths
from broker_ctl.store.interface import (
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Operation,
    Result,
    SavedSession,
    Versioned,
)
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.watched_cache import CacheRules
from broker_ctl.tasks import TaskScope
from tests.support.clusters.tenants import make_tenants
from tests.support.time.waiting import eventually

NAMESPACE = Namespace("public", "default")
TIMEOUT_S = 10.0
TICK_S = 1.0
GRACE_S = 2.0
UNLOAD_S = 5.0
ACT_TICK_S = 0.1


def broker_of(node: Versioned) -> str | None:
    try:
        return NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id
    except CorruptRecord:
        return None


class Steering:
    """Counts the points at which the world can change, and lets it change at a chosen one."""

    def __init__(self, rng: random.Random, longest_s: float = 0.002) -> None:
        self._rng = rng
        self.longest_s = longest_s
        self._left = 0
        self._fault: Callable[[], object] | None = None
        self.passed = 0
        self._cut: tuple[FaultPoint, Callable[[], object]] | None = None
        self._requests_left = 0
        self.failing: dict[str, list[bool]] = {}
        self._gates: dict[str, asyncio.Event] = {}
        self.preloaded: dict[Bundle, bool] = {}

    def arm(self, after: int, fault: Callable[[], object]) -> None:
        """Do ``fault`` once ``after`` more points have been passed."""
        self._left, self._fault = after, fault

    def disarm(self) -> bool:
        """Drop the planned fault; return whether it had not been injected yet."""
        is_armed = self._fault is not None or self._cut is not None
        self._fault = self._cut = None
        return is_armed

    async def point(self) -> None:
        """Delay one message or call on its way; inject the planned fault if it is due."""
        await asyncio.sleep(self._rng.uniform(0, self.longest_s))
        self.passed += 1
        if self._fault is not None:
            self._left -= 1
            if self._left < 0:
                fault, self._fault = self._fault, None
                fault()

    def cut_at_request(self, after: int, point: FaultPoint, fault: Callable[[], object]) -> None:
        """Cut the connection before or after the request behind ``after`` others is executed."""
        self._requests_left, self._cut = after, (point, fault)

    def mishap(self, _: MemoryRequest, point: FaultPoint) -> Fault | None:
        """Inject the planned fault at a request; return what happens to the request then."""
        if self._cut is None or self._cut[0] is not point:
            return None
        self._requests_left -= 1
        if self._requests_left >= 0:
            return None
        fault, self._cut = self._cut[1], None
        fault()
        return Fault.CUT

    def fail(self, verb: str, *, is_executed: bool = False, times: int = 1) -> None:
        """Let the next calls of the data plane fail, before or after they were carried out."""
        self.failing[verb] = [is_executed] * times

    def hold(self, verb: str) -> asyncio.Event:
        """Keep the answers of this call of the data plane back until the event is set."""
        return self._gates.setdefault(verb, asyncio.Event())

    async def gate(self, verb: str) -> None:
        """Wait where `hold` says so."""
        if (gate := self._gates.get(verb)) is not None:
            await gate.wait()

    def failure(self, verb: str) -> bool | None:
        """None: this call succeeds; else it fails, and is carried out nevertheless where True."""
        planned = self.failing.get(verb)
        return planned.pop() if planned else None


class SteeredDataPlane(SimulatedDataPlane):
    """A data plane behind a network: request and reply take time, and may be lost."""

    steering: Steering

    @property
    def log(self) -> ServeLog | None:
        return self._serve_log

    async def load(self, bundle: Bundle, token: int, *, is_preloading: bool = True) -> None:
        async with self._call("load"):
            await super().load(bundle, token, is_preloading=is_preloading)
            self.steering.preloaded[bundle] = is_preloading

    async def renew(self, bundle: Bundle, token: int) -> None:
        async with self._call("renew"):
            await super().renew(bundle, token)

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        async with self._call("split"):
            await super().split(parent, children)

    async def merge(self, children: tuple[Bundle, Bundle], parent: Bundle, token: int) -> None:
        async with self._call("merge"):
            await super().merge(children, parent, token)

    async def unload(self, bundle: Bundle, deadline_s: float) -> Unloaded:
        async with self._call("unload"):
            return await super().unload(bundle, deadline_s)

    async def fence(self, bundle: Bundle) -> None:
        async with self._call("fence"):
            await super().fence(bundle)

    async def topics(self, bundle: Bundle) -> tuple[str, ...]:
        async with self._call("topics"):
            return await super().topics(bundle)

    async def topic_statistics(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        async with self._call("topic_statistics"):
            return await super().topic_statistics(bundle)

    async def loaded(self) -> Mapping[Bundle, int]:
        async with self._call("loaded"):
            return await super().loaded()

    @asynccontextmanager
    async def _call(self, verb: str) -> AsyncIterator[None]:
        failure = self.steering.failure(verb)
        await self.steering.point()
        if failure is False:
            raise DataPlaneUnreachable(f"{verb}: lost on the way there")
        yield
        await self.steering.gate(verb)
        await self.steering.point()
        if failure is True:
            raise DataPlaneUnreachable(f"{verb}: lost on the way back")


class Observer:
    """Sees the tree after every transaction; I5 and I8 must hold at each zxid."""

    def __init__(self, ensemble: "ObservedEnsemble") -> None:
        self._ensemble = ensemble
        self.faults: list[str] = []
        self.owners_at: dict[int, dict[Bundle, Versioned]] = {}

    def owners(self) -> dict[Bundle, Versioned]:
        """Owner nodes as they stand now."""
        tree, found = self._ensemble.tree, {}
        for tenant in tree.children(paths.OWNERSHIP):
            for name in tree.children(f"{paths.OWNERSHIP}/{tenant}"):
                root = f"{paths.OWNERSHIP}/{tenant}/{name}"
                for child in tree.children(root):
                    bundle = paths.owned_bundle(f"{root}/{child}")
                    node = tree.find(f"{root}/{child}")
                    assert bundle is not None
                    assert node is not None
                    found[bundle] = node
        return found

    def look(self) -> None:
        zxid, owners = self._ensemble.tree.zxid, self.owners()
        self.owners_at[zxid] = owners
        for left, right in pairwise(sorted(owners)):
            if left.overlaps(right):
                self.faults.append(f"at {zxid} two owner nodes: {left} and {right}")
        for bundle, node in owners.items():
            if not node.stat.is_ephemeral:
                self.faults.append(f"at {zxid} {bundle} is owned for ever")


class InTurn(random.Random):
    """Every client meets the next server."""

    def __init__(self) -> None:
        super().__init__(0)
        self._number = -1

    def choice(self, seq: Any) -> Any:
        self._number += 1
        return seq[self._number % len(seq)]


class ObservedEnsemble(MemoryEnsemble):
    """A `MemoryEnsemble` that is looked at after each transaction."""

    def __init__(self, lag_s: float | None = None) -> None:
        if lag_s is None:
            super().__init__()
        else:
            # The first broker is at the leader, the second at a follower that is behind.
            super().__init__(EnsembleRules(servers=2, lag=lambda: lag_s), InTurn())
        self.observer = Observer(self)

    def own(self, bundle: Bundle, urls: BrokerUrls, session_id: int) -> None:
        """Create an owner node for some session."""
        data = NamespaceEphemeralData(urls).encode()
        self._commit([Create(paths.ownership(bundle), data, CreateMode.EPHEMERAL)], session_id)

    def delete_as_admin(self, path: str) -> None:
        """Delete a node of any session."""
        self._commit([Delete(path)], 0)

    def _commit(self, operations: Sequence[Operation], session_id: int) -> tuple[Result, ...]:
        results = super()._commit(operations, session_id)
        if any(operation.path.startswith(paths.OWNERSHIP) for operation in operations):
            self.observer.look()
        return results


def urls_of(number: int) -> BrokerUrls:
    return BrokerUrls(
        f"b{number}:8080", f"http://b{number}:8080", native_url=f"pulsar://b{number}:6650"
    )


class StartableStore(MetadataStore, Protocol):
    async def start(self) -> None: ...


class Broker:
    """What `daemon` builds of coordination and ownership, without the API and load reports."""

    def __init__(
        self,
        number: int,
        store: StartableStore,
        clock: Clock,
        rng: random.Random,
        steering: Steering,
        *,
        mode: AuthorityMode = AuthorityMode.LEASE,
        tick_s: float = TICK_S,
        dataplane: "SteeredDataPlane | None" = None,
        is_preloading: bool = True,
    ) -> None:
        self.urls = urls_of(number)
        self.store = store
        self.clock = clock
        self.steering = steering
        self.watcher = SessionWatcher(
            store,
            clock,
            node=lease_node(self.broker_id, f"nonce-{number}"),
            mode=mode,
            tick_s=tick_s,
            rng=rng,
        )
        self.locks = Locks(
            store, paths.OWNERSHIP, broker_id=self.broker_id, broker_of=broker_of, rng=rng
        )
        registration = Registration(f"nonce-{number}", 0, 0, self.urls)
        self.deletions = Deletions(store, rng=rng)
        self.registry = Registry(store, registration, self.deletions, tick_s, rng=rng)
        self.moves = Moves(store, rng=rng)
        self.namespaces = Namespaces(
            store,
            store,
            cluster="c",
            default_bundles=lambda: 4,
            clock=clock,
            cache_rules=CacheRules(),
            rng=rng,
        )
        self.owners = Owners(store, self.registry, clock, GRACE_S, CacheRules(), rng=rng)
        # A broker process outlives its daemon.
        self._found_dataplane = dataplane is not None
        self.split_rules = SplitRules()
        self.changes: list[OwnershipChange] = []
        self.instruments = OwnershipInstruments()
        self.dataplane = dataplane or SteeredDataPlane(
            Workload.named("steady", 0),
            clock,
            broker_id=self.broker_id,
            rng=rng,
            serve_log=MemoryServeLog(1_000_000),
            tick_s=ACT_TICK_S,
        )
        self.dataplane.steering = steering
        parts = OwnershipDependencies(
            store=store,
            watcher=self.watcher,
            locks=self.locks,
            namespaces=self.namespaces,
            owners=self.owners,
            moves=self.moves,
            deletions=self.deletions,
            dataplane=self.dataplane,
            rng=rng,
            is_preloading=is_preloading,
            split_rules=lambda: self.split_rules,
            on_owner_change=self.changes.append,
            instruments=self.instruments,
        )
        self.ownership = Ownership(parts, self.urls, lambda: UNLOAD_S)
        self.watcher.listen(self.locks.on_session_action)
        self.watcher.listen_grants(self.ownership.on_grant)
        self.tasks = TaskScope(f"broker {self.broker_id}")
        self.ready_epoch = 0
        self.reclaimed: list[ReclaimResult] = []
        self.serving: asyncio.Task[None] | None = None

    @property
    def broker_id(self) -> str:
        return self.urls.broker_id

    @property
    def acts(self) -> Sequence[ServeEvent]:
        """The log of its data plane."""
        log = self.dataplane.log
        assert isinstance(log, MemoryServeLog)
        return log.events

    async def start(self) -> None:
        if not self._found_dataplane:
            await self.dataplane.start()
        self.watcher.start()
        await self.store.start()
        await self.store.wait_connected()
        await self.namespaces.start()
        await self.registry.start()
        await self.owners.start()
        await self.moves.start()
        await self.locks.start()
        self.serving = self.tasks.start(self.watcher.run_epochs(self._session), "serve")
        await self.wait_ready()

    async def _session(self, epoch: int) -> None:
        async with self.ownership.session(epoch) as reclaimed:
            self.reclaimed.append(reclaimed)
            await self.registry.register(b"{}")
            self.ready_epoch = epoch
            await asyncio.get_running_loop().create_future()

    async def wait_ready(self) -> None:
        """Serving in the newest session."""

        def is_ready() -> bool:
            assert self.serving is not None
            if self.serving.done():
                self.serving.result()
            return self.ready_epoch == self.watcher.epoch and self.has_authority

        await eventually(is_ready, deadline_s=120.0, what=f"{self.broker_id} is ready")

    @property
    def has_authority(self) -> bool:
        return self.clock.now_s() < self.watcher.deadline_s

    async def close(self) -> None:
        await self.halt()
        await self.dataplane.stop()
        await self.store.close()

    async def halt(self) -> None:
        """The daemon ends; its session and its broker process live on."""
        await self.tasks.close()
        await self.watcher.close()
        await self.registry.close()
        await self.moves.close()
        await self.locks.close()
        await self.deletions.close()
        await self.namespaces.close()
        await self.owners.close()

    def owned(self) -> dict[Bundle, int]:
        """The bundles that its ownership says it serves."""
        held = self.ownership.owned().values()
        return {one.bundle: one.token for one in held if one.state is BundleState.OWNED}

    async def loaded(self) -> dict[Bundle, int]:
        """The bundles that its data plane serves, read without the network between."""
        return dict(await SimulatedDataPlane.loaded(self.dataplane))


class MemoryBroker(Broker):
    """A broker whose network and session a test has in its hands."""

    def __init__(
        self,
        ensemble: ObservedEnsemble,
        number: int,
        rng: random.Random,
        *,
        mode: AuthorityMode = AuthorityMode.LEASE,
        operation_timeout_s: float = 30.0,
        session_id: int = 0,
        dataplane: SteeredDataPlane | None = None,
        is_preloading: bool = True,
    ) -> None:
        steering = Steering(rng)
        self.ensemble = ensemble
        self.memory = MemoryStore(
            ensemble,
            session_timeout_s=TIMEOUT_S,
            operation_timeout_s=operation_timeout_s,
            transit=steering.point,
            resumed=SavedSession(session_id),
            faults=steering.mishap,
        )
        super().__init__(
            number,
            self.memory,
            LoopClock(),
            rng,
            steering,
            mode=mode,
            dataplane=dataplane,
            is_preloading=is_preloading,
        )

    def expire(self) -> None:
        """The servers end the session."""
        self.ensemble.expire(self.store.session_id)

    def blink(self) -> None:
        """Cut the connection; the next one is there at once."""
        self.memory.disconnect()
        self.memory.reconnect()

    def cut(self, seconds: float) -> None:
        """Cut the connection for a number of seconds."""
        self.memory.disconnect()
        asyncio.get_running_loop().call_later(seconds, self.memory.reconnect)

    def nodes(self) -> dict[Bundle, int]:
        """Owner nodes of its session, with their tokens."""
        return {
            bundle: node.stat.czxid
            for bundle, node in self.ensemble.observer.owners().items()
            if node.stat.ephemeral_owner == self.store.session_id
        }

    async def is_consistent(self) -> bool:
        """Whether ownership, owner nodes and the data plane have the same bundles."""
        owned = self.owned()
        if len(owned) != len(self.ownership.owned()) or self.nodes() != owned:
            return False
        return await self.loaded() == owned


@dataclass
class Cluster:
    """Brokers over one ensemble, and the bundles that their namespace began with."""

    ensemble: ObservedEnsemble
    brokers: list[MemoryBroker]
    bundles: tuple[Bundle, ...] = ()
    workload: Workload = field(default_factory=lambda: Workload.named("steady", 0))

    @property
    def faults(self) -> list[str]:
        return self.ensemble.observer.faults

    def topics_in(self, bundle: Bundle) -> list[str]:
        """Names of the topics with traffic."""
        return [topic.name for topic in self.workload.topics_in(bundle)]

    def positions(self, *bundles: Bundle) -> frozenset[int]:
        """Hashes on the ring of the topics in these bundles."""
        topics = (topic for bundle in bundles for topic in self.workload.topics_in(bundle))
        return frozenset(topic.position for topic in topics)

    async def ring(self) -> tuple[Bundle, ...]:
        """The bundles as they are now, read past all caches."""
        namespaces = self.brokers[0].namespaces
        namespaces.forget(NAMESPACE)
        return (await namespaces.ring(NAMESPACE)).bundles

    async def settled(self) -> None:
        """Wait until all brokers are ready and consistent."""
        for broker in self.brokers:
            await broker.wait_ready()
        for broker in self.brokers:
            await eventually(
                broker.is_consistent, deadline_s=60.0, what=f"{broker.broker_id} is consistent"
            )
        assert self.faults == []

    def verdict(self, expected: Collection[int] = ()) -> OwnershipVerdict:
        """Judge the logs of all data planes together."""
        acts = merge_logs(broker.acts for broker in self.brokers)
        return judge(acts, ACT_TICK_S, expected)


@asynccontextmanager
async def cluster(
    count: int = 1,
    *,
    bundles: int = 4,
    seed: int = 0,
    mode: AuthorityMode = AuthorityMode.LEASE,
    operation_timeout_s: float = 30.0,
    lag_s: float | None = None,
    is_preloading: bool = True,
) -> AsyncIterator[Cluster]:
    """Started brokers and a namespace; to be used in virtual time."""
    ensemble = ObservedEnsemble(lag_s)
    brokers = [
        MemoryBroker(
            ensemble,
            number,
            random.Random(seed * 1_000 + number),
            mode=mode,
            operation_timeout_s=operation_timeout_s,
            is_preloading=is_preloading,
        )
        for number in range(count)
    ]
    built = Cluster(ensemble, brokers)
    try:
        for broker in brokers:
            await broker.start()
        await make_tenants(brokers[0].store, "c", NAMESPACE.tenant)
        ring = await brokers[0].namespaces.create(NAMESPACE, bundles=bundles)
        built.bundles = ring.bundles
        yield built
    finally:
        for broker in brokers:
            await broker.close()
