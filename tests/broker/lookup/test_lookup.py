"""Where clients go: the owner, the leader, whom it chose, another cluster; and who joins whom."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from broker_ctl.broker.lookup.fallback_placement import (
    PATIENCE_S,
    FallbackPlacement,
    FallbackRules,
    ReceiverCheck,
)
from broker_ctl.broker.lookup.lookup import (
    ClusterRouter,
    Connect,
    LeaseGuard,
    Lookup,
    PeerCluster,
    Place,
    Redirect,
)
from broker_ctl.codec import encode
from broker_ctl.coordination.membership.cluster import LiveCluster
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.broker import NO_CONSTRAINTS, BrokerUrls, Constraints, LookupUrls
from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleStats,
    ResourceUsage,
    SystemUsage,
    UsageWeights,
)
from broker_ctl.core.model.names import NON_PERSISTENT, PERSISTENT, Bundle, Namespace, Topic
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from broker_ctl.errors import AuthorityLost, ForeignNamespace, NoBroker, NoLeader
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.placement_proofs import PlacementProofs
from broker_ctl.store import paths
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.watched_cache import CacheRules
from tests.support.clusters.brokers import NAMESPACE, Cluster, MemoryBroker, cluster
from tests.support.clusters.tenants import make_tenants
from tests.support.time.waiting import eventually

RULES = FallbackRules(LeastLongTermMessageRate(), PlacementRules(), UsageWeights())


@dataclass
class KnownCluster(LiveCluster):
    """A cluster over the registry of one broker; who leads is said by the test."""

    broker: MemoryBroker
    leads: MemoryBroker | None = None

    @property
    def version(self) -> int:
        leads = 0 if self.leads is None else 1 + self.broker_ids().index(self.leads.broker_id)
        return 1_000 * self.broker.registry.version + leads

    def broker_ids(self) -> list[str]:
        return sorted(self.broker.registry.peers)

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        peer = self.broker.registry.peer(broker_id)
        return None if peer is None else peer.urls

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        peer = self.broker.registry.peer(broker_id)
        return None if peer is None else peer.registration.lookup_urls

    def leader(self) -> tuple[str, str] | None:
        if self.leads is None:
            return None
        return self.leads.broker_id, self.leads.urls.web_url or ""

    def leader_urls(self) -> BrokerUrls | None:
        return None if self.leads is None else self.urls_of(self.leads.broker_id)


@dataclass
class Chooser:
    """The leader's placement; it answers when it may."""

    chosen: MemoryBroker
    asked: list[Bundle] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> str:
        self.asked.append(bundle)
        self.domains.append(domain)
        await self.may_answer.wait()
        return self.chosen.broker_id


@dataclass
class Door:
    """The lookups of one broker."""

    broker: MemoryBroker
    cluster: KnownCluster
    lookup: Lookup = field(init=False)
    chooser: Chooser | None = None
    drained: set[str] = field(default_factory=set)
    constraints: Constraints = NO_CONSTRAINTS

    def place(self) -> Place | None:
        return None if self.chooser is None else self.chooser.place


def proofs_at(broker: MemoryBroker, keys: ClusterKeys) -> PlacementProofs:
    return PlacementProofs(
        keys,
        broker.broker_id,
        broker.clock,
        is_required=True,
        epoch=lambda: 1,
        on_failure=lambda _: None,
    )


@asynccontextmanager
async def doors(built: Cluster, keys: ClusterKeys | None = None) -> AsyncIterator[list[Door]]:
    opened: list[Door] = []
    homes: list[ClusterRouter] = []
    for broker in built.brokers:
        cluster_router = ClusterRouter(
            broker.store, "c", broker.clock, CacheRules(), rng=random.Random(1)
        )
        await cluster_router.start()
        homes.append(cluster_router)
        cluster = KnownCluster(broker)
        door = Door(broker, cluster)
        fallback = FallbackPlacement(
            store=broker.store,
            registry=broker.registry,
            constraints=lambda: NO_CONSTRAINTS,
            rules=lambda: RULES,
            clock=broker.clock,
            rng=random.Random(1),
            drained=partial(getattr, door, "drained"),
        )
        door.lookup = Lookup(
            ownership=broker.ownership,
            namespaces=broker.namespaces,
            cluster=cluster,
            placement=door.place,
            cluster_router=cluster_router,
            fallback=fallback,
            receiver_check=ReceiverCheck(
                store=broker.store,
                registry=broker.registry,
                constraints=partial(getattr, door, "constraints"),
                drained=partial(getattr, door, "drained"),
                report_ttl_s=lambda: RULES.placement_rules.report_ttl_s,
            ),
            proofs=None if keys is None else proofs_at(broker, keys),
            authorised=LeaseGuard(broker.watcher),
            clock=broker.clock,
        )
        opened.append(door)
    try:
        yield opened
    finally:
        for door, cluster_router in zip(opened, homes, strict=True):
            await door.lookup.close()
            await cluster_router.close()


def topic_in(bundle: Bundle) -> Topic:
    names = (Topic("persistent", NAMESPACE, f"topic-{n}") for n in range(10_000))
    return next(topic for topic in names if topic.ring_hash in bundle.range)


@in_virtual_time
async def test_a_cold_bundle_goes_by_the_leader_to_whom_it_chose() -> None:
    async with cluster(3) as built, doors(built) as (one, two, three):
        topic = topic_in(built.bundles[0])
        for door in (one, two, three):
            door.cluster.leads = two.broker
        two.chooser = Chooser(three.broker)
        two.chooser.may_answer.set()
        assert await one.lookup.find(topic) == Redirect(two.broker.urls, is_authoritative=False)
        sent = await two.lookup.find(topic)
        assert sent == Redirect(three.broker.urls, is_authoritative=True)
        assert await three.lookup.find(topic, authoritative=True) == Connect(three.broker.urls)
        # From then on everybody knows.
        await eventually(lambda: one.broker.ownership.owner_of(built.bundles[0]))
        assert await one.lookup.find(topic) == Connect(three.broker.urls)
        assert one.lookup.statistics().redirects == 1
        assert one.lookup.statistics().answers == 1


@in_virtual_time
async def test_a_lookup_is_authoritative_only_with_the_proof_of_its_redirect() -> None:
    keys = ClusterKeys.of([bytes(range(32))])
    async with cluster(3) as built, doors(built, keys) as (one, two, three):
        topic = topic_in(built.bundles[0])
        for door in (one, two, three):
            door.cluster.leads = two.broker
        two.chooser = Chooser(three.broker)
        two.chooser.may_answer.set()
        to_leader = Redirect(two.broker.urls, is_authoritative=False)
        assert await one.lookup.find(topic) == to_leader
        sent = await two.lookup.find(topic)
        assert isinstance(sent, Redirect)
        assert (sent.urls, sent.is_authoritative) == (three.broker.urls, True)
        # Any client can say what follows; none of it was chosen.
        for door in (one, three):
            assert await door.lookup.find(topic, authoritative=True, proof="") == to_leader
        assert await one.lookup.find(topic, authoritative=True, proof=sent.proof) == to_leader
        asked = await two.lookup.find(topic, authoritative=True, proof="")
        assert isinstance(asked, Redirect)
        assert asked.urls == three.broker.urls
        found = await three.lookup.find(topic, authoritative=True, proof=sent.proof)
        assert found == Connect(three.broker.urls)


@in_virtual_time
async def test_a_protocol_without_room_for_a_proof_is_judged_by_the_receiver() -> None:
    keys = ClusterKeys.of([bytes(range(32))])
    async with cluster(1) as built, doors(built, keys) as (only,):
        topic = topic_in(built.bundles[0])
        only.drained.add(only.broker.broker_id)
        with pytest.raises(NoBroker, match="drained"):
            await only.lookup.find(topic, authoritative=True)
        only.drained.clear()
        assert await only.lookup.find(topic, authoritative=True) == Connect(only.broker.urls)


@in_virtual_time
async def test_the_leader_hears_for_which_kind_of_topic_it_chooses() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        chooser = one.chooser = Chooser(two.broker)
        chooser.may_answer.set()
        topic = topic_in(built.bundles[0])
        await one.lookup.find(topic)
        await one.lookup.find(replace(topic, domain=NON_PERSISTENT))
        assert chooser.domains == [PERSISTENT, NON_PERSISTENT]


@in_virtual_time
@pytest.mark.parametrize("tenant", ["pulsar", "sla-monitor"])
async def test_heartbeat_and_sla_namespaces_are_found_at_the_broker_that_they_name(
    tenant: str,
) -> None:
    async with cluster(3) as built, doors(built) as (one, two, three):
        named = Namespace(tenant, two.broker.broker_id)
        assert named.is_pinned
        await make_tenants(one.broker.store, "c", tenant)
        await one.broker.namespaces.create(named, bundles=1)
        # Also where a leader would choose another one.
        one.chooser = Chooser(three.broker)
        topic = Topic(PERSISTENT, named, "healthcheck")
        sent = Redirect(two.broker.urls, is_authoritative=True)
        assert await one.lookup.find(topic) == sent
        assert await two.lookup.find(topic) == Connect(two.broker.urls)
        assert one.chooser.asked == []
        # Of a broker that is away the leader decides.
        one.chooser.may_answer.set()
        gone = Topic(PERSISTENT, Namespace(tenant, "nobody:1"), "x")
        await one.broker.namespaces.create(gone.namespace, bundles=1)
        assert await one.lookup.find(gone) == Redirect(three.broker.urls, is_authoritative=True)


@in_virtual_time
async def test_equal_lookups_share_one_request_that_survives_the_end_of_the_first_caller() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        chooser = one.chooser = Chooser(two.broker)
        topic = topic_in(built.bundles[0])
        async with asyncio.TaskGroup() as group:
            first = group.create_task(one.lookup.find(topic))
            others = [group.create_task(one.lookup.find(topic)) for _ in range(50)]
            await eventually(lambda: chooser.asked)
            first.cancel()
            await asyncio.sleep(0.1)
            chooser.may_answer.set()
        assert first.cancelled()
        sent = Redirect(two.broker.urls, is_authoritative=True)
        assert [task.result() for task in others] == [sent] * 50
        assert chooser.asked == [built.bundles[0]]
        # What was answered is not kept: the next lookup asks again.
        await one.lookup.find(topic)
        assert len(chooser.asked) == 2


@in_virtual_time
@pytest.mark.parametrize("is_preloading", [True, False])
async def test_the_caller_of_a_lookup_decides_about_preloading(
    is_preloading: bool,
) -> None:
    async with cluster(1) as built, doors(built) as (one,):
        bundle = built.bundles[0]
        await one.lookup.find(topic_in(bundle), authoritative=True, is_preloading=is_preloading)
        assert one.broker.steering.preloaded == {bundle: is_preloading}


@in_virtual_time
async def test_an_error_reaches_all_who_have_joined() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        topic = topic_in(built.bundles[0])
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(_error_of(one, topic)) for _ in range(5)]
        assert [type(task.result()) for task in asked] == [NoLeader] * 5
        assert one.lookup.statistics().failures == 5


async def _error_of(door: Door, topic: Topic) -> Exception | None:
    try:
        await door.lookup.find(topic)
    except NoLeader as error:
        return error
    return None


@in_virtual_time
async def test_authoritative_questions_are_not_joined_with_others() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        chooser = one.chooser = Chooser(two.broker)
        topic = topic_in(built.bundles[0])
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(one.lookup.find(topic))
            await eventually(lambda: chooser.asked)
            assert await one.lookup.find(topic, authoritative=True) == Connect(one.broker.urls)
            chooser.may_answer.set()
        assert asked.result() == Redirect(two.broker.urls, is_authoritative=True)


@in_virtual_time
async def test_an_authoritative_lookup_acquires_nothing_that_placement_refuses() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        topic, bundle = topic_in(built.bundles[0]), built.bundles[0]
        one.drained.add(one.broker.broker_id)
        with pytest.raises(NoBroker, match="is drained"):
            await one.lookup.find(topic, authoritative=True)
        with pytest.raises(NoBroker, match="is drained"):
            await one.lookup.find_bundle(bundle, authoritative=True)
        assert one.broker.owned() == {}
        # An owner is found all the time.
        assert await two.lookup.find(topic, authoritative=True) == Connect(two.broker.urls)
        await eventually(lambda: one.broker.ownership.owner_of(bundle))
        assert await one.lookup.find(topic, authoritative=True) == Connect(two.broker.urls)


@in_virtual_time
async def test_without_a_leader_clients_wait_and_then_it_is_decided_on_the_reports() -> None:
    async with cluster(3) as built, doors(built) as (one, *_):
        for broker, rate in zip(built.brokers, (900.0, 100.0, 500.0), strict=True):
            await _report(broker, rate)
        topic = topic_in(built.bundles[0])
        with pytest.raises(NoLeader):
            await one.lookup.find(topic)
        await asyncio.sleep(PATIENCE_S / 2)
        with pytest.raises(NoLeader):
            await one.lookup.find(topic)
        await asyncio.sleep(PATIENCE_S * 0.6)
        least = built.brokers[1].urls
        assert await one.lookup.find(topic) == Redirect(least, is_authoritative=True)


@in_virtual_time
async def test_a_lookup_after_a_long_pause_waits_for_a_leader_again() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        topic = topic_in(built.bundles[0])
        with pytest.raises(NoLeader):
            await one.lookup.find(topic)
        await asyncio.sleep(PATIENCE_S * 3)
        # There may have been leaders in between, and a new one may be a second away.
        with pytest.raises(NoLeader):
            await one.lookup.find(topic)


@in_virtual_time
async def test_a_lookup_is_not_sent_to_a_leader_that_is_not_registered() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        one.cluster.leads = two.broker
        await two.broker.registry.unregister()
        await eventually(lambda: one.broker.registry.peer(two.broker.broker_id) is None)
        with pytest.raises(NoLeader):
            await one.lookup.find(topic_in(built.bundles[0]))


@in_virtual_time
async def test_a_burst_without_a_leader_is_spread() -> None:
    async with cluster(3) as built, doors(built) as (one, *_):
        for broker in built.brokers:
            await _report(broker, 100.0)
        fallback = one.lookup._fallback
        chosen = [await fallback.place(bundle) for bundle in built.bundles * 3]
        counts = {broker.broker_id: chosen.count(broker.broker_id) for broker in built.brokers}
        assert sum(counts.values()) == len(chosen)
        assert max(counts.values()) - min(counts.values()) <= 1


@in_virtual_time
async def test_without_a_leader_a_drained_broker_receives_nothing_either() -> None:
    async with cluster(3) as built, doors(built) as (one, two, _):
        for broker in built.brokers:
            await _report(broker, 100.0)
        fallback = one.lookup._fallback
        assert two.broker.broker_id in {await fallback.place(b) for b in built.bundles}
        one.drained.add(two.broker.broker_id)
        chosen = {await fallback.place(bundle) for bundle in built.bundles * 3}
        assert chosen == {b.broker_id for b in built.brokers} - {two.broker.broker_id}


@in_virtual_time
async def test_lookups_at_once_without_a_leader_share_the_load_reports() -> None:
    async with cluster(3) as built, doors(built) as (one, *_):
        for broker in built.brokers:
            await _report(broker, 100.0)
        before = one.broker.steering.passed
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(one.lookup._fallback.place(b)) for b in built.bundles * 3]
        # There and back, once for each broker at the most.
        assert one.broker.steering.passed - before <= 2 * len(built.brokers)
        counts = Counter(task.result() for task in asked)
        assert max(counts.values()) - min(counts.values()) <= 1


@in_virtual_time
async def test_without_load_reports_no_broker_can_receive() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        await one.broker.store.delete(paths.load_report(one.broker.broker_id))
        with pytest.raises(NoBroker):
            await one.lookup._fallback.place(built.bundles[0])


@in_virtual_time
async def test_clients_of_another_cluster_s_namespace_are_sent_to_a_peer() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        store, topic = one.broker.store, topic_in(built.bundles[0])
        one.cluster.leads = None
        policies = {"replication_clusters": ["far", "further"]}
        await _put(one.broker, paths.policies(NAMESPACE), policies)
        await eventually(lambda: _is_foreign(one, topic))
        with pytest.raises(ForeignNamespace, match="is served in far, further, not in c"):
            await one.lookup.find(topic)
        far = {"serviceUrl": "http://far:8080", "brokerServiceUrl": "pulsar://far:6650"}
        await _put(one.broker, paths.cluster("far"), far)
        await _put(one.broker, paths.cluster("c"), {"peerClusterNames": ["far"]})

        async def sent() -> bool:
            return not await _is_foreign(one, topic)

        await eventually(sent)
        there = BrokerUrls("far", "http://far:8080", native_url="pulsar://far:6650")
        assert await one.lookup.find(topic) == PeerCluster(there)
        # A namespace that is served here too is served here.
        both = encode({"replication_clusters": ["c", "far"]})
        await store.set(paths.policies(NAMESPACE), both)

        async def is_home() -> bool:
            return await one.lookup._cluster_router.peer_cluster_of(topic.namespace) is None

        await eventually(is_home)


async def _is_foreign(door: Door, topic: Topic) -> bool:
    try:
        await door.lookup._cluster_router.peer_cluster_of(topic.namespace)
    except ForeignNamespace:
        return True
    return False


async def _put(broker: MemoryBroker, path: str, value: Mapping[str, object]) -> None:
    if await broker.store.exists(path) is None:
        await broker.store.create(path, encode(value), make_parents=True)
    else:
        await broker.store.set(path, encode(value))


async def _report(broker: MemoryBroker, msg_rate: float) -> None:
    line = BundleStats(msg_rate_in=msg_rate)
    usage = SystemUsage(cpu=ResourceUsage(msg_rate / 10, 100.0))
    load = BrokerLoad(broker.broker_id, usage, {"a/b/0x00000000_0xffffffff": line}, 1, 1, "1.0")
    await broker.registry.publish(LocalBrokerData(broker.urls, load).encode())


# Without authority.


@in_virtual_time
async def test_without_the_lease_lookups_fail_at_once_and_are_counted() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        broker, topic = one.broker, topic_in(built.bundles[0])
        broker.memory.disconnect()
        await eventually(lambda: broker.watcher.state is SessionState.LOST, deadline_s=60.0)
        began_s = broker.clock.now_s()
        for _ in range(3):
            with pytest.raises(AuthorityLost):
                await one.lookup.find(topic)
        assert broker.clock.now_s() == began_s
        assert one.lookup.statistics().failures == 3
