"""The essentials once more on a real server: what the memory store cannot prove of ZooKeeper."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.coordination.election import Election, Leadership
from broker_ctl.core.machines.session import SessionAction, SessionState
from broker_ctl.errors import BadVersion, BundleBusy, BundleReclaimable, MultiFailed
from broker_ctl.store import paths
from broker_ctl.store.interface import NO_SESSION, Check, CreateMode, SavedSession, SetData
from broker_ctl.store.records.ownership import LeaderBroker, NamespaceEphemeralData
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from broker_ctl.tasks import TaskScope
from tests.support.clusters.brokers import NAMESPACE, Broker, Steering
from tests.support.clusters.tenants import make_tenants
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.session_faults import expire_session

TIMEOUT_S = 4.0
TICK_S = 0.5


class RealBroker(Broker):
    """A broker on a real server."""

    def __init__(self, hosts: str, chroot: str, number: int, kept: SavedSession) -> None:
        self.zookeeper = ZooKeeperStore(
            StoreOptions(
                hosts=hosts,
                chroot=chroot,
                session_timeout_s=TIMEOUT_S,
                resumed=kept,
            ),
        )
        self._hosts = hosts
        self.actions: list[SessionAction] = []
        rng = random.Random(number)
        super().__init__(
            number, self.zookeeper, SystemClock(), rng, Steering(rng, 0.0), tick_s=TICK_S
        )
        self.watcher.listen(self.actions.append)

    async def expire(self) -> None:
        """End its session behind its back, and wait until the next one serves."""
        epoch = self.watcher.epoch
        session_id, password = self.zookeeper.session_id, self.zookeeper.saved_session.password
        await expire_session(self._hosts, session_id, password)
        await eventually(lambda: self.watcher.epoch > epoch)
        await self.wait_ready()


Start = Callable[..., Awaitable[RealBroker]]


@pytest.fixture
async def start(zookeeper: SharedEnsemble, chroot: str) -> AsyncIterator[Start]:
    """Starts brokers; all of one test share one chroot."""
    brokers: list[RealBroker] = []

    async def start_one(number: int = 0, kept: SavedSession = NO_SESSION) -> RealBroker:
        broker = RealBroker(zookeeper.connect_string, chroot, number, kept)
        brokers.append(broker)
        await broker.start()
        await make_tenants(broker.store, "c", NAMESPACE.tenant)
        return broker

    yield start_one
    for broker in brokers:
        await broker.close()


async def test_heartbeats_prove_authority_and_an_expiry_begins_a_new_session(start: Start) -> None:
    broker = await start()
    broker.watcher.check_epoch(1)
    await broker.expire()
    broker.watcher.check_epoch(2)
    gone = broker.actions.index(SessionAction.END)
    assert SessionAction.FENCE in broker.actions[:gone]
    assert broker.actions[gone + 1 :] == [
        SessionAction.SESSION_LOST,
        SessionAction.RECONNECTED,
        SessionAction.SESSION_REESTABLISHED,
        SessionAction.BEGIN,
    ]


async def test_a_lost_connection_is_made_good_in_the_same_session(start: Start) -> None:
    broker = await start()
    await broker.namespaces.create(NAMESPACE, bundles=1)
    (bundle,) = (await broker.namespaces.ring(NAMESPACE)).bundles
    token = await broker.ownership.acquire(bundle)
    broker.zookeeper.abort_connection()
    await eventually(lambda: SessionAction.RECONNECTED in broker.actions)
    await eventually(lambda: broker.watcher.state is SessionState.CONNECTED)
    assert broker.actions == [
        SessionAction.BEGIN,
        SessionAction.CONNECTION_LOST,
        SessionAction.RECONNECTED,
        SessionAction.VERIFY,
    ]
    assert broker.owned() == {bundle: token}


async def test_a_bundle_has_one_owner_and_its_tokens_grow(start: Start) -> None:
    one, two = await start(0), await start(1)
    await one.namespaces.create(NAMESPACE, bundles=1)
    (bundle,) = (await one.namespaces.ring(NAMESPACE)).bundles
    first = await one.ownership.acquire(bundle)
    with pytest.raises(BundleBusy):
        await two.ownership.acquire(bundle)
    await one.ownership.unload(bundle)
    second = await two.ownership.acquire(bundle)
    left, right = await two.ownership.split(bundle, "range_equally_divide")
    assert await two.loaded() == two.owned()
    assert first < second < two.owned()[left] == two.owned()[right]
    found = await one.ownership.owner_of(left)
    assert found is not None
    assert found.urls == two.urls


async def test_a_bundle_whose_node_is_deleted_is_fenced_and_a_left_node_replaced(
    start: Start,
) -> None:
    one, two = await start(0), await start(1)
    await one.namespaces.create(NAMESPACE, bundles=1)
    (bundle,) = (await one.namespaces.ring(NAMESPACE)).bundles
    await one.ownership.acquire(bundle)
    await two.store.delete(paths.ownership(bundle))
    await eventually(lambda: not one.ownership.owned())
    assert await one.loaded() == {}
    # One transaction deletes the node of a lost call and creates ours on the same path.
    data = NamespaceEphemeralData(one.urls).encode()
    left = await one.store.create(paths.ownership(bundle), data, CreateMode.EPHEMERAL)
    assert await one.ownership.acquire(bundle) > left.stat.czxid
    await one.store.sync("/")
    assert set(one.owned()) == {bundle}


async def test_a_refused_release_keeps_the_bundle(start: Start) -> None:
    broker = await start()
    await broker.namespaces.create(NAMESPACE, bundles=1)
    (bundle,) = (await broker.namespaces.ring(NAMESPACE)).bundles
    token = await broker.ownership.acquire(bundle)
    await broker.store.create("/epoch")
    with pytest.raises(Exception, match="BadVersion"):
        await broker.ownership.release(bundle, token, 1.0, [Check("/epoch", 7)])
    assert broker.owned() == {bundle: token}
    assert await broker.store.get(paths.ownership(bundle))


async def test_an_expiry_moves_nothing_and_others_wait_for_the_grace(start: Start) -> None:
    one, two = await start(0), await start(1)
    await one.namespaces.create(NAMESPACE, bundles=4)
    bundles = (await one.namespaces.ring(NAMESPACE)).bundles
    for bundle in bundles:
        await one.ownership.acquire(bundle)
        assert await two.ownership.owner_of(bundle)
    before = one.owned()
    answer = one.steering.hold("loaded")
    expiring = asyncio.get_running_loop().create_task(one.expire(), name="expire")
    # The listener order of the store: who owned a node is known when its deletion is notified.
    await eventually(lambda: len(two.owners._vanished) == 4)
    with pytest.raises(BundleReclaimable):
        await two.ownership.acquire(bundles[0])
    answer.set()
    await expiring
    assert one.owned().keys() == before.keys()
    assert min(one.owned().values()) > max(before.values())
    assert await one.loaded() == one.owned()


async def test_a_release_by_a_broker_that_goes_lets_others_in_at_once(start: Start) -> None:
    one, two = await start(0), await start(1)
    await one.namespaces.create(NAMESPACE, bundles=1)
    (bundle,) = (await one.namespaces.ring(NAMESPACE)).bundles
    await one.ownership.acquire(bundle)
    assert await two.ownership.owner_of(bundle)
    assert await one.ownership.drain(5.0) == 0
    await one.registry.unregister()
    await eventually(lambda: two.registry.peer(one.broker_id) is None)
    assert await two.ownership.acquire(bundle)


async def test_a_session_that_is_taken_up_again_moves_nothing(start: Start) -> None:
    one = await start(0)
    await one.namespaces.create(NAMESPACE, bundles=2)
    for bundle in (await one.namespaces.ring(NAMESPACE)).bundles:
        await one.ownership.acquire(bundle)
    before = one.owned()
    await one.halt()
    await one.store.close(end_session=False)
    kept = one.zookeeper.saved_session
    again = await start(0, kept)
    assert again.zookeeper.session_id == kept.session_id
    assert again.owned().keys() == before.keys()
    assert min(again.owned().values()) > max(before.values())


@asynccontextmanager
async def standing(broker: RealBroker) -> AsyncIterator[tuple[Election, list[Leadership]]]:
    """Stands for election, in one session after another."""
    leadings: list[Leadership] = []
    election = Election(
        broker.store,
        broker.watcher,
        broker.deletions,
        clock=broker.clock,
        election_name=paths.LOADBALANCE_ELECTION,
        leader=LeaderBroker(broker.broker_id, ""),
        rng=random.Random(0),
    )
    broker.watcher.listen(election.on_session_action)

    async def lead(leadership: Leadership) -> None:
        leadings.append(leadership)
        await asyncio.get_running_loop().create_future()

    async def stand(_epoch: int) -> None:
        await election.run(lead)

    async with TaskScope(f"election of {broker.broker_id}") as scope:
        scope.start(broker.watcher.run_epochs(stand), "stand")
        yield election, leadings


async def test_one_leads_and_a_deposed_leader_s_transaction_is_refused(start: Start) -> None:
    one, two = await start(0), await start(1)
    async with standing(one) as (first, led_first):
        await eventually(lambda: first.leadership)
        async with standing(two) as (second, led_second):
            await eventually(lambda: second.leader)
            assert led_second == []
            await one.store.create("/decision")
            await one.store.multi([led_first[0].guard, SetData("/decision", b"1")])
            await one.expire()
            await eventually(lambda: first.leadership or second.leadership)
            (newest,) = [*led_first[1:], *led_second]
            assert newest.epoch > led_first[0].epoch
            with pytest.raises(MultiFailed) as met:
                await one.store.multi([led_first[0].guard, SetData("/decision", b"2")])
            assert isinstance(met.value.cause, BadVersion)
            leader = second if second.leadership else first
            await leader.resign()
            other = first if leader is second else second
            await eventually(lambda: other.leadership)
