"""Numbers of brokers: one life after another, and never two at a time."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.partitions.values import LiveBroker
from broker_ctl.errors import StartError
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.partitions import decode_broker
from broker_ctl.tasks import TaskScope
from tests.support.clusters.sessions import TICK_S, TIMEOUT_S, Party, parties
from tests.support.time.waiting import eventually

PATH = paths.broker(3)


class Numbered:
    """A party with the number 3."""

    def __init__(self, party: Party, daemon: str) -> None:
        self.party = party
        self.store = party.store
        self.daemon = daemon
        own = LiveBroker(3, 0, "h", 6650, daemon, f"http://{daemon}")
        self.ids = BrokerIds(
            party.store, own, party.deletions, party.clock, TICK_S, rng=random.Random(1)
        )

    async def announce(self, session_timeout_s: float) -> None:
        """As the registry does."""
        urls = BrokerUrls(self.daemon, f"http://{self.daemon}")
        record = Registration("n", round(session_timeout_s * 1000), 7, urls)
        path = paths.registration(self.daemon)
        await self.store.create(path, record.encode(), CreateMode.EPHEMERAL, make_parents=True)


@asynccontextmanager
async def numbered(
    *daemons: str, operation_timeout_s: float = 30.0
) -> AsyncIterator[list[Numbered]]:
    async with parties(len(daemons), operation_timeout_s=operation_timeout_s) as built:
        yield [Numbered(party, daemon) for party, daemon in zip(built, daemons, strict=True)]


@in_virtual_time
async def test_the_epoch_is_the_czxid_of_the_node_and_the_node_says_where_the_broker_is() -> None:
    async with numbered("a:1") as (a,):
        assert a.ids.epoch == 0
        assert await a.ids.register() == a.ids.epoch
        node = await a.store.get(PATH)
        assert node is not None
        assert node.stat.czxid == a.ids.epoch > 0
        assert node.stat.ephemeral_owner == a.store.session_id
        assert decode_broker(node) == LiveBroker(3, a.ids.epoch, "h", 6650, "a:1", "http://a:1")


@in_virtual_time
async def test_a_life_ends_with_its_session_and_the_next_has_a_greater_epoch() -> None:
    async with numbered("a:1") as (a,):
        first = await a.ids.register()
        a.party.expire()
        await eventually(lambda: a.party.watcher.epoch == 2)
        assert a.ids.epoch == 0
        assert await a.ids.register() > first


@in_virtual_time
async def test_the_end_of_the_node_of_an_earlier_session_of_the_same_broker_is_waited_for() -> None:
    async with numbered("a:1", "a:1") as (earlier, now):
        await earlier.announce(TIMEOUT_S)
        first = await earlier.ids.register()
        asyncio.get_running_loop().call_later(8.0, earlier.party.expire)
        began_s = now.party.clock.now_s()
        assert await now.ids.register() > first
        assert now.party.clock.now_s() - began_s == pytest.approx(8.0, abs=0.3)


@in_virtual_time
async def test_a_broker_id_in_use_is_refused_with_the_name_of_its_process() -> None:
    async with numbered("a:1", "b:1") as (first, twin):
        # Its session may last longer than ours: what its daemon says counts.
        await first.announce(2 * TIMEOUT_S)
        await first.ids.register()
        began_s = twin.party.clock.now_s()
        with pytest.raises(StartError) as met:
            await twin.ids.register()
        said = str(met.value)
        assert "brokerId=3 is in use" in said
        assert "started at 7 ms as a:1" in said
        waited_s = twin.party.clock.now_s() - began_s
        assert waited_s == pytest.approx(2 * TIMEOUT_S + 2 * TICK_S + 2.0, abs=0.5)
        assert first.ids.epoch > 0
        assert twin.ids.epoch == 0


@in_virtual_time
async def test_a_node_of_this_session_that_was_left_behind_begins_no_life() -> None:
    async with numbered("a:1") as (a,):
        left = await a.store.create(PATH, b"left", CreateMode.EPHEMERAL, make_parents=True)
        assert await a.ids.register() > left.stat.czxid


@in_virtual_time
async def test_the_end_of_a_node_that_does_not_decode_is_waited_for_like_any_other() -> None:
    async with numbered("a:1", "b:1") as (a, b):
        await a.store.create(PATH, b"{", CreateMode.EPHEMERAL, make_parents=True)
        asyncio.get_running_loop().call_later(3.0, a.party.expire)
        assert await b.ids.register() > 0


@in_virtual_time
async def test_unregistering_deletes_the_own_node_and_never_that_of_another() -> None:
    async with numbered("a:1", "b:1") as (a, b):
        await a.ids.register()
        await a.ids.unregister()
        assert a.ids.epoch == 0
        assert await b.store.get(PATH) is None
        await a.ids.register()
        await b.store.delete(PATH)
        epoch = await b.ids.register()
        await a.ids.unregister()
        node = await b.store.get(PATH)
        assert node is not None
        assert node.stat.czxid == epoch


@in_virtual_time
async def test_a_node_that_another_client_deleted_is_created_with_another_epoch() -> None:
    async with numbered("a:1", "b:1") as (a, b), TaskScope("test") as scope:
        first = await a.ids.register()
        scope.start(a.ids.keep(), "keep")
        await b.store.delete(PATH)
        await eventually(lambda: a.ids.epoch > first)
        # Also one that was deleted while this broker was disconnected.
        second = a.ids.epoch
        a.store.disconnect()
        await b.store.delete(PATH)
        a.store.reconnect()
        await eventually(lambda: a.ids.epoch > second)
        # What it took away itself stays away.
        await a.ids.unregister()
        await asyncio.sleep(5.0)
        assert await b.store.get(PATH) is None


@in_virtual_time
async def test_a_number_that_was_taken_meanwhile_is_taken_back_when_it_is_free() -> None:
    async with numbered("a:1", "b:1") as (a, b), TaskScope("test") as scope:
        first = await a.ids.register()
        scope.start(a.ids.keep(), "keep")
        a.store.disconnect()
        await b.store.delete(PATH)
        taken = await b.store.create(PATH, b"{", CreateMode.EPHEMERAL)
        a.store.reconnect()
        asyncio.get_running_loop().call_later(3.0, b.party.expire)
        await eventually(lambda: a.ids.epoch > taken.stat.czxid > first)


@in_virtual_time
async def test_a_registration_goes_through_however_often_the_connection_is_lost() -> None:
    async with numbered("a:1") as (a,), TaskScope("test") as scope:
        a.store.disconnect()
        registering = scope.start(a.ids.register(), "register", is_joined=True)
        await asyncio.sleep(1.0)
        a.store.reconnect()
        epoch = await registering
        assert epoch == a.ids.epoch > 0


@in_virtual_time
async def test_a_broker_that_unregisters_in_an_outage_is_gone_after_it() -> None:
    async with numbered("a:1", "b:1") as (a, b):
        await a.ids.register()
        a.store.disconnect()
        async with TaskScope("test") as scope:
            scope.start(a.ids.unregister(), "unregister")
            await asyncio.sleep(3.0)
        assert await b.store.get(PATH) is not None
        a.store.reconnect()

        async def is_gone() -> bool:
            return await b.store.get(PATH) is None

        await eventually(is_gone, deadline_s=5.0)
        a.party.watcher.check()


@in_virtual_time
async def test_a_registration_that_was_under_way_goes_too() -> None:
    async with numbered("a:1", "b:1") as (a, b):
        a.party.longest_s = 0.5
        async with TaskScope("test") as scope:
            scope.start(a.ids.register(), "register")
            await eventually(lambda: a.party.ensemble.tree.find(PATH))
        assert a.ids.epoch == 0
        await a.ids.unregister()
        assert await b.store.get(PATH) is None


@in_virtual_time
async def test_a_late_deletion_of_an_earlier_epoch_spares_the_node_of_the_next() -> None:
    async with numbered("a:1", operation_timeout_s=1.0) as (a,), TaskScope("test") as scope:
        await a.ids.register()
        a.store.disconnect()
        scope.start(a.ids.unregister(), "unregister")
        # The first attempt has failed, and the next one comes in a moment only.
        await asyncio.sleep(1.1)
        a.store.reconnect()
        epoch = await a.ids.register()
        await asyncio.sleep(5.0)
        node = await a.store.get(PATH)
        assert node is not None
        assert node.stat.czxid == epoch


@in_virtual_time
async def test_a_number_of_another_broker_that_lives_is_refused_at_its_next_heartbeat() -> None:
    async with numbered("b0:8080", "b1:8080") as (first, twin):
        await first.announce(TIMEOUT_S)
        await first.ids.register()
        began_s = twin.party.clock.now_s()
        with pytest.raises(StartError) as met:
            await twin.ids.wait_free()
        assert "brokerId=3 is in use: b0:8080 has it, and is alive" in str(met.value)
        assert twin.party.clock.now_s() - began_s < TIMEOUT_S / 2


@in_virtual_time
async def test_a_number_is_free_once_the_session_that_has_it_is_gone() -> None:
    async with numbered("b0:8080", "b1:8080") as (first, other):
        await other.ids.wait_free()
        await first.announce(TIMEOUT_S)
        await first.ids.register()
        # It has died, and its session stands for a while.
        await first.party.watcher.close()
        asyncio.get_running_loop().call_later(3.0, first.party.expire)
        began_s = other.party.clock.now_s()
        await other.ids.wait_free()
        assert other.party.clock.now_s() - began_s == pytest.approx(3.0, abs=0.6)
