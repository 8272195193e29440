"""The registry: who is there, and who was there when something happened."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from broker_ctl.coordination.membership.cluster import PeerRacks
from broker_ctl.coordination.membership.foreign_brokers import find_foreign_brokers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import NoNode, SessionExpired, StartError
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, Notification
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.tasks import TaskScope
from tests.support.clusters.sessions import TICK_S, TIMEOUT_S, Party, parties
from tests.support.time.waiting import eventually


class Member:
    """A party with a registry."""

    def __init__(self, party: Party, broker_id: str, nonce: str, rack: str = "") -> None:
        self.party = party
        self.store = party.store
        urls = BrokerUrls(broker_id, f"http://{broker_id}")
        self.registry = Registry(
            party.store,
            Registration(nonce, 0, 7, urls, rack=rack),
            party.deletions,
            TICK_S,
            rng=random.Random(1),
        )

    @property
    def seen(self) -> set[str]:
        return set(self.registry.peers)


@asynccontextmanager
async def members(
    *broker_ids: str, operation_timeout_s: float = 30.0
) -> AsyncIterator[list[Member]]:
    async with parties(len(broker_ids), operation_timeout_s=operation_timeout_s) as built:
        all_ = [
            Member(party, broker_id, f"nonce-{number}")
            for number, (party, broker_id) in enumerate(zip(built, broker_ids, strict=True))
        ]
        for one in all_:
            await one.registry.start()
        yield all_
        for one in all_:
            await one.registry.close()


@in_virtual_time
async def test_a_broker_is_seen_by_all_from_registering_to_unregistering() -> None:
    async with members("a:1", "b:1") as (a, b):
        await a.registry.register(b"report")
        await b.registry.register(b"report")
        await eventually(lambda: a.seen == b.seen == {"a:1", "b:1"})
        peer = b.registry.peer("a:1")
        assert peer is not None
        assert peer.urls.web_url == "http://a:1"
        assert peer.registration.session_timeout_ms == TIMEOUT_S * 1000
        await a.registry.unregister()
        await eventually(lambda: b.seen == {"b:1"})
        assert await a.store.exists(paths.load_report("a:1")) is None


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("-oProxyCommand=x #:8080", "-oProxyCommand=x #:8080"),
        ("$(x):1", "b:1"),
        ("c:1", "-oProxyCommand=x:1"),
        ("c", "c:1"),
    ],
)
def test_a_registration_that_is_not_of_a_host_and_a_port_is_corrupt(name: str, named: str) -> None:
    @in_virtual_time
    async def look() -> None:
        async with members("a:1") as (a,):
            await a.registry.register(b"report")
            forged = Registration("n", 0, 7, BrokerUrls(named, "http://b:1")).encode()
            path = f"{paths.REGISTRATIONS}/{name}"
            await a.store.create(path, forged, CreateMode.EPHEMERAL)
            await eventually(lambda: a.registry.corrupt > 0)
            assert a.seen == {"a:1"}

    look()


@in_virtual_time
async def test_a_broker_that_unregisters_is_at_no_time_taken_for_a_foreign_one() -> None:
    async with members("a:1", "b:1") as (a, b):
        await a.registry.register(b"report")
        tree, foreign = a.party.ensemble.tree, []

        def look(_: Notification) -> None:
            report, own = paths.load_report("a:1"), paths.registration("a:1")
            if tree.find(report) is not None and tree.find(own) is None:
                foreign.append("a:1")

        stop = await b.store.watch("/", look)
        await a.registry.unregister()
        await eventually(lambda: tree.find(paths.registration("a:1")) is None)
        stop()
        assert foreign == []


@in_virtual_time
async def test_listeners_hear_of_each_change_until_they_stop() -> None:
    async with members("a:1", "b:1") as (a, b):
        heard: list[set[str]] = []
        stop = a.registry.listen(lambda: heard.append(a.seen))
        await b.registry.register(b"")
        await eventually(lambda: heard == [{"b:1"}])
        stop()
        await b.registry.unregister()
        await eventually(lambda: a.seen == set())
        assert heard == [{"b:1"}]


@in_virtual_time
async def test_both_nodes_go_with_the_session_and_can_be_registered_in_the_next() -> None:
    async with members("a:1", "b:1") as (a, b):
        await a.registry.register(b"")
        assert a.registry.is_registered
        a.party.expire()
        await eventually(lambda: b.seen == set())
        await eventually(lambda: a.party.watcher.epoch == 2)
        assert not a.registry.is_registered
        await a.registry.register(b"")
        await eventually(lambda: b.seen == {"a:1"})


@in_virtual_time
async def test_a_broker_id_in_use_is_refused_with_what_to_set() -> None:
    async with members("a:1", "a:1") as (first, twin):
        await first.registry.register(b"")
        began_s = twin.party.clock.now_s()
        with pytest.raises(StartError) as met:
            await twin.registry.register(b"")
        said = str(met.value)
        assert "broker id a:1 is in use" in said
        assert "started at 7 ms" in said
        assert "advertisedAddress" in said
        waited_s = twin.party.clock.now_s() - began_s
        assert waited_s == pytest.approx(TIMEOUT_S + 2 * TICK_S + 2.0, abs=0.5)
        assert first.registry.is_registered


@in_virtual_time
async def test_the_end_of_an_earlier_session_of_the_same_broker_is_waited_for() -> None:
    async with members("a:1", "a:1") as (earlier, now):
        await earlier.registry.register(b"")
        asyncio.get_running_loop().call_later(8.0, earlier.party.expire)
        began_s = now.party.clock.now_s()
        await now.registry.register(b"")
        assert now.party.clock.now_s() - began_s == pytest.approx(8.0, abs=0.3)


@in_virtual_time
async def test_a_cut_during_the_wait_for_the_end_of_an_earlier_session_makes_no_twin() -> None:
    async with members("a:1", "a:1") as (earlier, now):
        await earlier.registry.register(b"")
        earlier.store.disconnect()
        loop = asyncio.get_running_loop()
        # Over the limit, and shorter than the session: who is cut learns nothing meanwhile.
        limit_s = TIMEOUT_S + 2 * TICK_S + 2.0
        loop.call_later(limit_s - 6.0, now.store.disconnect)
        loop.call_later(limit_s + 1.0, now.store.reconnect)
        await now.registry.register(b"")
        assert now.registry.is_registered


@in_virtual_time
async def test_nodes_of_this_session_from_a_lost_call_are_replaced() -> None:
    async with members("a:1") as (a,):
        for path in (paths.load_report("a:1"), paths.registration("a:1")):
            await a.store.create(path, b"left", CreateMode.EPHEMERAL, make_parents=True)
        await a.registry.register(b"report")
        node = await a.store.get(paths.load_report("a:1"))
        assert node is not None
        assert node.data == b"report"


@in_virtual_time
async def test_an_outage_delays_registering_and_an_expiry_ends_it() -> None:
    async with members("a:1", operation_timeout_s=1.0) as (a,):
        a.store.disconnect()
        registering = asyncio.get_running_loop().create_task(a.registry.register(b""), name="a")
        await asyncio.sleep(3.0)
        a.store.reconnect()
        await registering
        await a.registry.unregister()
        a.store.disconnect()
        registering = asyncio.get_running_loop().create_task(a.registry.register(b""), name="a")
        await asyncio.sleep(2 * TIMEOUT_S)
        a.store.reconnect()
        with pytest.raises(SessionExpired):
            await registering
        assert not a.registry.is_registered


@in_virtual_time
async def test_a_drain_is_announced_and_the_rest_of_the_registration_stays() -> None:
    async with members("a:1", "b:1") as (a, b):
        await a.registry.register(b"")
        await a.registry.announce_drain()
        await eventually(lambda: (p := b.registry.peer("a:1")) and p.registration.is_draining)
        peer = b.registry.peer("a:1")
        assert peer is not None
        assert peer.registration.session_timeout_ms == TIMEOUT_S * 1000
        assert peer.registration.nonce == "nonce-0"


@in_virtual_time
async def test_a_drain_is_announced_again_until_the_servers_have_heard_it() -> None:
    async with members("a:1", "b:1", operation_timeout_s=1.0) as (a, b):
        await a.registry.register(b"")
        a.store.disconnect()
        async with TaskScope("test") as tasks:
            announcing = tasks.start(a.registry.announce_drain(), "drain")
            await asyncio.sleep(3.0)
            assert not announcing.done()
            a.store.reconnect()
            await announcing
        await eventually(lambda: (p := b.registry.peer("a:1")) and p.registration.is_draining)


@in_virtual_time
async def test_a_broker_that_is_not_registered_does_not_write_to_the_nodes_of_its_twin() -> None:
    async with members("a:1", "a:1") as (a, twin):
        await twin.registry.register(b"twin's")
        await a.registry.announce_drain()
        await a.registry.unregister()
        await asyncio.sleep(1.0)
        peer = twin.registry.peer("a:1")
        assert peer is not None
        assert not peer.registration.is_draining
        await twin.registry.unregister()
        with pytest.raises(NoNode):
            await twin.registry.publish(b"report")


@in_virtual_time
async def test_a_broker_that_unregisters_in_an_outage_is_gone_after_it() -> None:
    async with members("a:1", "b:1", operation_timeout_s=1.0) as (a, b):
        await a.registry.register(b"")
        await eventually(lambda: b.seen == {"a:1"})
        a.store.disconnect()
        async with TaskScope("test") as tasks:
            leaving = tasks.start(a.registry.unregister(), "unregister")
            await asyncio.sleep(3.0)
            assert not a.registry.is_registered
            assert not leaving.done()
        # The caller that waited has gone, and it is done nevertheless, in the same session.
        a.store.reconnect()
        tree = a.party.ensemble.tree
        await eventually(lambda: tree.find(paths.load_report("a:1")) is None, deadline_s=5.0)
        await eventually(lambda: b.seen == set(), deadline_s=5.0)
        a.party.watcher.check()


@in_virtual_time
async def test_the_registration_goes_also_where_the_report_has_gone_before() -> None:
    async with members("a:1", "b:1") as (a, b):
        await a.registry.register(b"")
        await b.store.delete(paths.load_report("a:1"))
        await a.registry.unregister()
        await eventually(lambda: b.seen == set(), deadline_s=5.0)


@in_virtual_time
async def test_a_registration_that_was_under_way_goes_with_the_others() -> None:
    async with members("a:1", "b:1") as (a, b):
        a.party.longest_s = 0.5
        tree = a.party.ensemble.tree
        async with TaskScope("test") as tasks:
            tasks.start(a.registry.register(b""), "register")
            await eventually(lambda: tree.find(paths.registration("a:1")))
        assert not a.registry.is_registered
        await a.registry.unregister()
        await eventually(lambda: b.seen == set(), deadline_s=5.0)


@in_virtual_time
async def test_a_broker_that_registers_while_it_unregisters_keeps_the_new_nodes() -> None:
    async with members("a:1", "b:1", operation_timeout_s=1.0) as (a, b):
        await a.registry.register(b"first")
        a.store.disconnect()
        async with TaskScope("test") as tasks:
            tasks.start(a.registry.unregister(), "unregister")
            await asyncio.sleep(0.1)
            registering = tasks.start(a.registry.register(b"again"), "register")
            await asyncio.sleep(2.0)
            a.store.reconnect()
            await registering
        await asyncio.sleep(5.0)
        assert b.seen == {"a:1"}
        assert a.registry.is_registered


# Was it an expiry, or a release?


@in_virtual_time
async def test_an_expiry_takes_the_registration_in_the_same_transaction() -> None:
    async with members("a:1", "b:1") as (a, b):
        await a.registry.register(b"")
        owned = await a.store.create("/owned", mode=CreateMode.EPHEMERAL)
        first = owned.stat.ephemeral_owner
        assert await b.registry.was_registered_at("a:1", first, owned.stat.czxid)
        a.party.expire()
        expired_at = a.party.ensemble.tree.zxid
        await eventually(lambda: b.seen == set())
        assert not await b.registry.was_registered_at("a:1", first, expired_at)
        # Back again: the younger registration was not there when it happened.
        await a.party.watcher.wait_authority()
        await a.registry.register(b"")
        assert not await b.registry.was_registered_at("a:1", first, expired_at)
        now_at = a.party.ensemble.tree.zxid + 1
        assert await b.registry.was_registered_at("a:1", a.store.session_id, now_at)
        # What the first session may still have left behind, the second one has not released.
        assert not await b.registry.was_registered_at("a:1", first, now_at)
        await eventually(lambda: b.seen == {"a:1"})
        await a.registry.unregister()
        await eventually(lambda: b.seen == set())
        assert await b.registry.was_registered_at("a:1", a.store.session_id, expired_at)
        assert not await b.registry.was_registered_at("a:1", first, expired_at)


@in_virtual_time
async def test_a_release_before_unregistering_differs_from_an_expiry_after_it() -> None:
    async with members("a:1", "b:1") as (a, b):
        await a.registry.register(b"")
        await a.store.create("/owned", mode=CreateMode.EPHEMERAL)
        await a.store.delete("/owned")
        released_at = a.party.ensemble.tree.zxid
        await a.registry.unregister()
        await eventually(lambda: b.seen == set())
        mine, after = a.store.session_id, a.party.ensemble.tree.zxid + 1
        assert await b.registry.was_registered_at("a:1", mine, released_at)
        assert not await b.registry.was_registered_at("a:1", mine, after)


@in_virtual_time
async def test_a_release_is_none_the_less_one_if_the_registration_goes_while_it_is_read() -> None:
    async with members("a:1", "b:1") as (a, b):
        await a.registry.register(b"")
        await eventually(lambda: b.seen == {"a:1"})
        mine, released_at = a.store.session_id, a.party.ensemble.tree.zxid
        async with TaskScope("test") as tasks:
            tasks.start(a.registry.unregister(), "unregister")
            # One of these reads is sent before the deletion is notified, and does not find the
            # node.
            while b.seen:
                assert await b.registry.was_registered_at("a:1", mine, released_at)


@in_virtual_time
async def test_without_a_zxid_a_present_registration_counts_as_a_past_one() -> None:
    async with members("a:1", "b:1") as (a, b):
        await a.registry.register(b"")
        assert await b.registry.was_registered_at("a:1", a.store.session_id, -1)
        await a.registry.unregister()
        assert not await b.registry.was_registered_at("a:1", a.store.session_id, -1)


# Others.


@in_virtual_time
async def test_brokers_of_others_are_found() -> None:
    async with members("a:1") as (a,):
        await a.registry.register(b"")
        assert await find_foreign_brokers(a.store) == []
        await a.store.create(paths.load_report("java:8080"), b"{}")
        assert await find_foreign_brokers(a.store) == ["java:8080"]


@in_virtual_time
async def test_a_registration_that_does_not_decode_hides_only_itself() -> None:
    async with members("a:1", "b:1") as (a, b):
        await b.store.create(paths.registration("c:1"), b"{", make_parents=True)
        newer = b'{"version":99,"brokerId":"d:1"}'
        await b.store.create(paths.registration("d:1"), newer)
        await a.registry.register(b"")
        await eventually(lambda: b.seen == {"a:1"})
        await eventually(lambda: b.registry.corrupt >= 2)


@in_virtual_time
async def test_a_registration_that_another_client_deleted_is_created_again() -> None:
    async with members("a:1", "b:1") as (a, b), TaskScope("test") as scope:
        await a.registry.register(b"first")
        await eventually(lambda: b.seen == {"a:1"})
        scope.start(a.registry.keep(lambda: b"again"), "keep")
        for taken in ((paths.registration("a:1"),), (paths.load_report("a:1"),)):
            for path in taken:
                await b.store.delete(path)
            with suppress(NoNode):
                await a.registry.publish(b"reported")
            await eventually(lambda: b.seen == {"a:1"})

            async def stands() -> bool:
                report = await b.store.get(paths.load_report("a:1"))
                return report is not None and report.data == b"again"

            await eventually(stands)
            await b.store.set(paths.load_report("a:1"), b"first")
        # What it took away itself stays away.
        await a.registry.unregister()
        await asyncio.sleep(5.0)
        assert b.seen == set()


@in_virtual_time
async def test_a_session_that_has_another_timeout_says_so_in_its_registration() -> None:
    async with members("a:1", "b:1") as (a, b), TaskScope("test") as scope:
        await a.registry.register(b"")
        scope.start(a.registry.keep(lambda: b""), "keep")
        await eventually(lambda: b.seen == {"a:1"})
        for server in a.party.ensemble.servers:
            server.most_timeout_s = TIMEOUT_S / 2
        a.party.blink()
        half_ms = TIMEOUT_S * 500

        def is_published() -> bool:
            peer = b.registry.peer("a:1")
            return peer is not None and peer.registration.session_timeout_ms == half_ms

        await eventually(is_published)
        # Once, and not at every look.
        await asyncio.sleep(5.0)
        node = await b.store.get(paths.registration("a:1"))
        assert node is not None
        assert node.stat.version == 1


@in_virtual_time
async def test_racks_are_those_of_live_brokers_that_have_one() -> None:
    async with parties(3) as built:
        names = {"a:1": "r1", "b:1": "", "c:1": "r2"}
        brokers = [
            Member(party, name, name, rack)
            for party, (name, rack) in zip(built, names.items(), strict=True)
        ]
        first, racks = brokers[0].registry, PeerRacks(brokers[0].registry)
        for one in brokers:
            await one.registry.start()
            await one.registry.register(b"{}")
        await eventually(lambda: racks.current() == {"a:1": "r1", "c:1": "r2"})
        same = racks.current()
        await brokers[1].registry.unregister()
        await eventually(lambda: "b:1" not in first.peers)
        assert racks.current() is same
        await brokers[2].registry.unregister()
        await eventually(lambda: racks.current() == {"a:1": "r1"})
        for one in brokers:
            await one.registry.close()
