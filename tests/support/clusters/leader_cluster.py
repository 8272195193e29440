"""Several honest brokers on one memory store, and a leader among them."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from broker_ctl.balancer.context.decisions import DecisionLog, LeaderHistory
from broker_ctl.balancer.context.dependencies import BalancerDependencies, LeaderRules
from broker_ctl.balancer.execution.executor import ExecutorConnections
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.clock import Clock, SystemClock
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import Budgets
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from broker_ctl.errors import AuthorityLost, NodeExists
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.store import paths
from broker_ctl.store.records.ownership import NamespaceEphemeralData, OwnerNode
from broker_ctl.store.records.policies import LocalPolicies
from broker_ctl.tracing.spans import Tracer
from tests.support.clusters.in_memory_broker import (
    InMemoryBroker,
    ServingChecker,
    even_traffic,
    read_ring,
)
from tests.support.clusters.in_memory_peers import InMemoryPeers
from tests.support.time.waiting import eventually

NAMESPACE = Namespace("public", "default")
QUICK = LeaderRules(
    placement=LeastLongTermMessageRate(),
    budgets=Budgets(max_moves_per_broker=8, namespace_ratio=1.0, hourly_load_ratio=10.0),
    shedding_interval_s=0.1,
    splitting_interval_s=0.1,
    quota_interval_s=0.1,
    settle_s=2.0,
    reclaim_grace_s=0.1,
    order_s=0.3,
    unload_s=0.3,
    load_s=0.3,
)


@dataclass
class LeaderCluster:
    """``dependencies`` are what a leader on the first broker stands on."""

    ensemble: MemoryEnsemble
    traffic: Callable[[Bundle], BundleStats]
    rules: LeaderRules = QUICK
    clock: Clock = field(default_factory=SystemClock)
    serving_checker: ServingChecker = field(default_factory=ServingChecker)
    peers: InMemoryPeers = field(default_factory=InMemoryPeers)
    journal: DecisionLog = field(default_factory=DecisionLog)
    brokers: dict[str, InMemoryBroker] = field(default_factory=dict)
    has_authority: bool = True
    history: LeaderHistory | None = None
    needs_dual_authorization: bool = False
    constraints: Constraints = NO_CONSTRAINTS
    tracer: Tracer | None = None

    async def add(self, broker_id: str) -> InMemoryBroker:
        broker = InMemoryBroker(self.ensemble, broker_id, self.serving_checker, self.traffic)
        await broker.start()
        self.brokers[broker_id] = broker
        self.peers.join(broker_id, broker.handle)
        return broker

    async def kill(self, broker_id: str) -> None:
        self.peers.leave(broker_id)
        await self.brokers.pop(broker_id).die()

    async def create_namespace(self, bundles: int) -> Ring:
        store = next(iter(self.brokers.values())).store
        ring = Ring.even(NAMESPACE, bundles)
        await store.create(
            paths.local_policies(NAMESPACE),
            LocalPolicies(ring.boundaries).encode(),
            make_parents=True,
        )
        return ring

    def dependencies(self, broker_id: str) -> BalancerDependencies:
        broker = self.brokers[broker_id]

        async def owner_of(bundle: Bundle) -> OwnerNode | None:
            node = await broker.store.get(paths.ownership(bundle))
            if node is None:
                return None
            data = NamespaceEphemeralData.decode(node.path, node.data)
            return OwnerNode(data.urls, node.stat.czxid)

        async def ring_of(namespace: Namespace) -> Ring:
            return await read_ring(broker.store, namespace)

        return BalancerDependencies(
            own_id=broker_id,
            store=broker.store,
            registry=broker.registry,
            moves=broker.moves,
            build_executor=ExecutorConnections(broker.moves, self.peers).build_executor,
            clock=self.clock,
            journal=self.journal,
            rules=lambda: self.rules,
            ring_of=ring_of,
            owner_of=owner_of,
            directives=broker.directives,
            constraints=lambda: self.constraints,
            configuration_store=broker.store,
            history=self.history,
            needs_dual_authorization=self.needs_dual_authorization,
            rng=random.Random(1),
            tracer=self.tracer,
        )

    async def elect(self, broker_id: str) -> Leadership:
        """Elect a broker: under the new epoch the leader before it is fenced."""
        store, election = self.brokers[broker_id].store, paths.LOADBALANCE_ELECTION
        with suppress(NodeExists):
            await store.create(election.epoch_path, make_parents=True)
        stat = await store.set(election.epoch_path, broker_id.encode())
        return Leadership(election, stat.version, self._check)

    def _check(self) -> None:
        if not self.has_authority:
            raise AuthorityLost("the test took it away")

    @asynccontextmanager
    async def term(self, broker_id: str) -> AsyncIterator[LeaderTerm]:
        """The rooms of one leading, without its loops."""
        term = LeaderTerm.of(self.dependencies(broker_id), await self.elect(broker_id))
        await term.start()
        try:
            yield term
        finally:
            await term.close()

    async def publish(self) -> None:
        for broker in self.brokers.values():
            await broker.publish()

    async def synced(self, term: LeaderTerm) -> None:
        """The board has the newest report of every broker."""

        def has_all() -> bool:
            return all(
                (report := term.load_monitor.reports.get(broker_id)) is not None
                and set(report.lines) == set(broker.serving)
                for broker_id, broker in self.brokers.items()
            )

        await eventually(has_all, what="the board has all reports")

    async def owner(self, bundle: Bundle) -> str | None:
        store = next(iter(self.brokers.values())).store
        node = await store.get(paths.ownership(bundle))
        if node is None:
            return None
        return NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id

    async def record_count(self) -> int:
        return len(await next(iter(self.brokers.values())).store.children(paths.MOVES))


@asynccontextmanager
async def running_cluster(
    *broker_ids: str, traffic: Callable[[Bundle], BundleStats] = lambda _: even_traffic(1e7)
) -> AsyncIterator[LeaderCluster]:
    """Started brokers; those that the test did not stop are closed at the end."""
    cluster = LeaderCluster(MemoryEnsemble(), traffic)
    try:
        for broker_id in broker_ids:
            await cluster.add(broker_id)
        yield cluster
    finally:
        for broker in cluster.brokers.values():
            await broker.close()
