"""Owner nodes of all brokers, and who owned a bundle until just now."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import (
    AuthorityLost,
    BundleBusy,
    BundleReclaimable,
    CorruptRecord,
    StoreClosed,
    StoreError,
)
from broker_ctl.lab.memory_store.ensemble import EnsembleRules, MemoryEnsemble
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Change, CreateMode, Notification
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.watched_cache import CacheRules
from tests.support.clusters.brokers import InTurn
from tests.support.clusters.sessions import LONGEST_S, TICK_S, Party, parties
from tests.support.time.waiting import eventually

BUNDLE = Bundle.parse("t/ns/0x00000000_0xffffffff")
PATH = paths.ownership(BUNDLE)
GRACE_S = 2.0
OWNER = BrokerUrls("owner:1", "http://owner:1")


@asynccontextmanager
async def scene(
    ensemble: MemoryEnsemble | None = None,
) -> AsyncIterator[tuple[Party, Registry, Owners, Party]]:
    """A registered owner of a bundle, and another broker that looks at it."""
    async with parties(2, ensemble=ensemble) as (owner, looker):
        registered = Registry(
            owner.store,
            Registration("n", 0, 0, OWNER),
            owner.deletions,
            TICK_S,
            rng=random.Random(1),
        )
        await registered.register(b"")
        await create_node(owner)
        own = Registration("m", 0, 0, BrokerUrls("looker:1"))
        registry = Registry(looker.store, own, looker.deletions, TICK_S, rng=random.Random(1))
        await registry.start()
        owners = Owners(
            looker.store, registry, looker.clock, GRACE_S, CacheRules(), rng=random.Random(1)
        )
        await owners.start()
        yield owner, registered, owners, looker
        await owners.close()
        await registry.close()


async def create_node(owner: Party) -> None:
    data = NamespaceEphemeralData(OWNER).encode()
    await owner.store.create(PATH, data, CreateMode.EPHEMERAL, make_parents=True)


@in_virtual_time
async def test_the_owner_is_read_once_and_then_followed() -> None:
    async with scene() as (owner, _, owners, _):
        record = await owners.owner_of(BUNDLE)
        assert record is not None
        assert record.urls == OWNER
        assert record.session_id == owner.store.session_id
        misses = owners.cache.misses
        assert await owners.owner_of(BUNDLE) == record
        assert owners.cache.misses == misses
        await owner.store.delete(PATH)
        await eventually(lambda: owners.cache.peek(PATH) is None)
        assert await owners.owner_of(BUNDLE) is None
        await create_node(owner)
        await asyncio.sleep(0.1)
        again = await owners.owner_of(BUNDLE)
        assert again is not None
        assert again.token > record.token


@in_virtual_time
async def test_an_expiry_reserves_it_for_the_grace_and_no_longer() -> None:
    async with scene() as (owner, _, owners, _):
        await owners.owner_of(BUNDLE)
        owner.expire()
        await asyncio.sleep(0.1)
        with pytest.raises(BundleReclaimable, match="owner:1"):
            await owners.check_reclaim(BUNDLE, "looker:1")
        await owners.check_reclaim(BUNDLE, "owner:1")
        await asyncio.sleep(GRACE_S)
        await owners.check_reclaim(BUNDLE, "looker:1")


@in_virtual_time
async def test_after_a_sync_a_lagging_server_shows_the_expiry_of_an_owner() -> None:
    rules = EnsembleRules(servers=2, lag=lambda: 0.5)
    async with scene(MemoryEnsemble(rules, InTurn())) as (owner, _, owners, _):
        await asyncio.sleep(1.0)
        owner.expire()
        # The session has ended, and this broker has not been notified.
        await owners.check_reclaim(BUNDLE, "looker:1")
        await owners.sync(BUNDLE)
        with pytest.raises(BundleReclaimable, match="owner:1"):
            await owners.check_reclaim(BUNDLE, "looker:1")


@in_virtual_time
async def test_a_release_reserves_nothing() -> None:
    async with scene() as (owner, registered, owners, _):
        await owners.owner_of(BUNDLE)
        await owner.store.delete(PATH)
        await asyncio.sleep(0.1)
        await owners.check_reclaim(BUNDLE, "looker:1")
        # Nor does one after which the broker went: its registration stood at the time.
        await create_node(owner)
        await asyncio.sleep(0.1)
        await owners.owner_of(BUNDLE)
        await owner.store.delete(PATH)
        await registered.unregister()
        await asyncio.sleep(0.1)
        await owners.check_reclaim(BUNDLE, "looker:1")


@in_virtual_time
async def test_a_successor_that_is_registered_already_makes_no_release_of_an_expiry() -> None:
    # A daemon that could not give a bundle up unregisters and leaves its session to expire.
    async with scene() as (owner, registered, owners, _):
        await owners.owner_of(BUNDLE)
        await registered.unregister()
        successor = Party(owner.ensemble, 2)
        await successor.start()
        again = Registry(
            successor.store,
            Registration("o", 0, 0, OWNER),
            successor.deletions,
            TICK_S,
            rng=random.Random(1),
        )
        await again.register(b"")
        owner.expire()
        await asyncio.sleep(0.1)
        with pytest.raises(BundleReclaimable, match="owner:1"):
            await owners.check_reclaim(BUNDLE, "looker:1")
        # Nor does that one's end, which comes later.
        await again.unregister()
        await asyncio.sleep(0.1)
        with pytest.raises(BundleReclaimable, match="owner:1"):
            await owners.check_reclaim(BUNDLE, "looker:1")
        await successor.close()


@in_virtual_time
async def test_an_owner_that_was_named_has_its_grace_though_the_answer_was_not_kept() -> None:
    async with parties(2) as (owner, looker):
        await create_node(owner)
        own = Registration("m", 0, 0, BrokerUrls("looker:1"))
        registry = Registry(looker.store, own, looker.deletions, TICK_S, rng=random.Random(1))
        await registry.start()
        owners = Owners(
            looker.store, registry, looker.clock, GRACE_S, CacheRules(), rng=random.Random(1)
        )
        await owners.start()
        assert await owners.owner_of(BUNDLE) is not None
        owners.forget(BUNDLE)
        owner.expire()
        await asyncio.sleep(0.1)
        for _ in "12":
            with pytest.raises(BundleReclaimable, match="owner:1"):
                await owners.check_reclaim(BUNDLE, "looker:1")
        await owners.check_reclaim(BUNDLE, "owner:1")
        await asyncio.sleep(GRACE_S)
        await owners.check_reclaim(BUNDLE, "looker:1")
        # Who has it next and gives it up is not taken for the one before.
        another = Party(owner.ensemble, 2)
        await another.start()
        await create_node(another)
        await another.store.delete(PATH)
        await asyncio.sleep(0.1)
        await owners.check_reclaim(BUNDLE, "looker:1")
        await another.close()
        await owners.close()
        await registry.close()


@in_virtual_time
async def test_a_start_outlasts_servers_that_do_not_answer() -> None:
    async with parties(1, operation_timeout_s=5.0) as (party,):
        owners = owners_at(party)
        # The first attempts are sent and not answered, the next ones are not even sent.
        party.longest_s = 1000.0
        async with asyncio.TaskGroup() as starting:
            start = starting.create_task(owners.start())
            await asyncio.sleep(12.0)
            party.store.disconnect()
            party.longest_s = LONGEST_S
            await asyncio.sleep(60.0)
            assert not start.done()
            party.store.reconnect()
        assert await owners.owner_of(BUNDLE) is None
        await create_node(party)
        assert await owners.owner_of(BUNDLE) is not None
        await owners.close()


@in_virtual_time
async def test_a_start_ends_when_the_store_is_closed() -> None:
    async with parties(1, operation_timeout_s=5.0) as (party,):
        owners = owners_at(party)
        party.store.disconnect()
        async with asyncio.TaskGroup() as starting:
            start = starting.create_task(refused(owners.start()))
            await asyncio.sleep(12.0)
            await party.store.close()
        assert isinstance(start.result(), StoreClosed)
        await owners.close()


def owners_at(party: Party) -> Owners:
    registry = Registry(
        party.store, Registration("m", 0, 0, OWNER), party.deletions, TICK_S, rng=random.Random(1)
    )
    return Owners(party.store, registry, party.clock, GRACE_S, CacheRules(), rng=random.Random(1))


async def refused(work: Awaitable[None]) -> StoreError | None:
    try:
        await work
    except StoreError as error:
        return error
    return None


@in_virtual_time
async def test_a_former_owner_that_came_back_and_released_ends_its_grace() -> None:
    async with scene() as (owner, _, owners, _):
        await owners.owner_of(BUNDLE)
        owner.expire()
        await eventually(lambda: owner.watcher.epoch == 2)
        await create_node(owner)
        await owner.store.delete(PATH)
        await asyncio.sleep(0.1)
        await owners.check_reclaim(BUNDLE, "looker:1")


@in_virtual_time
async def test_an_owner_that_was_never_looked_at_is_known_by_its_registration() -> None:
    async with scene() as (owner, _, owners, _):
        owner.expire()
        await asyncio.sleep(0.1)
        with pytest.raises(BundleReclaimable, match="owner:1"):
            await owners.check_reclaim(BUNDLE, "looker:1")
        await owners.check_reclaim(BUNDLE, "owner:1")


@in_virtual_time
async def test_nodes_that_were_never_read_have_the_grace_of_what_ended_them() -> None:
    others = [Bundle.parse(f"t/other-{number}/0x00000000_0xffffffff") for number in range(2)]
    async with scene() as (owner, _, owners, _):
        for other in others:
            data = NamespaceEphemeralData(OWNER).encode()
            await owner.store.create(
                paths.ownership(other), data, CreateMode.EPHEMERAL, make_parents=True
            )
        await owner.store.delete(PATH)
        owner.expire()
        await asyncio.sleep(0.1)
        await owners.check_reclaim(BUNDLE, "looker:1")
        for other in others:
            with pytest.raises(BundleReclaimable, match="owner:1"):
                await owners.check_reclaim(other, "looker:1")
        # What is known of them is kept once: of a dead broker with many bundles, in every other.
        assert len({id(vanished) for vanished in owners._vanished.values()}) == 1


@in_virtual_time
async def test_after_its_own_outage_it_waits_for_owners_that_may_have_expired_unseen() -> None:
    async with scene() as (owner, _, owners, looker):
        looker.store.disconnect()
        owner.expire()
        await asyncio.sleep(GRACE_S + 1.0)
        looker.store.reconnect()
        await asyncio.sleep(0.1)
        with pytest.raises(BundleReclaimable, match="after an outage"):
            await owners.check_reclaim(BUNDLE, "looker:1")
        await asyncio.sleep(GRACE_S)
        await owners.check_reclaim(BUNDLE, "looker:1")


@in_virtual_time
async def test_nobody_learns_an_owner_before_the_watch_is_set_so_a_restart_waits_for_none() -> None:
    async with parties(2) as (owner, looker):
        await create_node(owner)
        owners = owners_at(looker)
        with pytest.raises(AuthorityLost, match="starting"):
            await owners.owner_of(BUNDLE)
        await owner.store.delete(PATH)
        await asyncio.sleep(0.1)
        await owners.start()
        assert await owners.owner_of(BUNDLE) is None
        await owners.check_free(BUNDLE, "looker:1")
        await owners.close()


@in_virtual_time
async def test_an_expiry_during_the_shortest_outage_of_its_own_is_waited_for_too() -> None:
    async with scene() as (owner, _, owners, looker):
        await owners.owner_of(BUNDLE)
        looker.store.disconnect()
        owner.expire()
        await asyncio.sleep(0.1)
        looker.store.reconnect()
        await asyncio.sleep(0.1)
        with pytest.raises(BundleReclaimable, match="after an outage"):
            await owners.check_free(BUNDLE, "looker:1")
        await asyncio.sleep(GRACE_S)
        await owners.check_free(BUNDLE, "looker:1")


@in_virtual_time
@pytest.mark.parametrize("releaser", ["owner:1", "looker:1"])
async def test_a_release_before_an_outage_proves_nothing_about_owners_that_came_during_it(
    releaser: str,
) -> None:
    async with scene() as (owner, _, owners, looker):
        await owner.store.delete(PATH)
        data = NamespaceEphemeralData(BrokerUrls(releaser)).encode()
        await owner.store.create(PATH, data, CreateMode.EPHEMERAL)
        await asyncio.sleep(0.1)
        assert await owners.owner_of(BUNDLE) is not None
        await owner.store.delete(PATH)
        await asyncio.sleep(0.1)
        await owners.sync(BUNDLE)
        looker.store.disconnect()
        await create_node(owner)
        owner.expire()
        await asyncio.sleep(0.1)
        looker.store.reconnect()
        await asyncio.sleep(0.1)
        with pytest.raises(BundleReclaimable, match="after an outage"):
            await owners.check_reclaim(BUNDLE, "looker:1")
        await asyncio.sleep(GRACE_S)
        await owners.check_reclaim(BUNDLE, "looker:1")


@in_virtual_time
async def test_a_bundle_that_is_released_after_its_own_outage_is_free_at_once() -> None:
    async with scene() as (owner, _, owners, looker):
        looker.store.disconnect()
        await asyncio.sleep(0.1)
        looker.store.reconnect()
        await eventually(lambda: looker.store.is_connected)
        await owners.sync(BUNDLE)
        await owner.store.delete(PATH)
        await asyncio.sleep(0.1)
        await owners.check_reclaim(BUNDLE, "looker:1")


@in_virtual_time
async def test_a_bundle_with_an_owner_node_is_not_free() -> None:
    async with scene() as (_, _, owners, _):
        with pytest.raises(BundleBusy, match="owner:1"):
            await owners.check_free(BUNDLE, "looker:1")
        # What stands under the own name is for the locks to judge.
        await owners.check_free(BUNDLE, "owner:1")


@in_virtual_time
async def test_an_expiry_while_an_earlier_release_is_looked_into_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scene() as (owner, _, owners, _):
        await owners.owner_of(BUNDLE)
        await owner.store.delete(PATH)
        await asyncio.sleep(0.1)
        was_registered_at = owners._registry.was_registered_at

        async def late(broker_id: str, session_id: int, zxid: int) -> bool:
            answer = await was_registered_at(broker_id, session_id, zxid)
            if owner.watcher.epoch == 1:
                await create_node(owner)
                await owners.owner_of(BUNDLE)
                owner.expire()
                await eventually(lambda: owner.watcher.epoch == 2)
            return answer

        monkeypatch.setattr(owners._registry, "was_registered_at", late)
        with pytest.raises(BundleReclaimable, match="owner:1"):
            await owners.check_reclaim(BUNDLE, "looker:1")


@in_virtual_time
async def test_after_a_deletion_without_a_zxid_an_unknown_owner_has_its_grace() -> None:
    async with scene() as (owner, _, owners, looker):
        for is_known in (False, True):
            await asyncio.sleep(0.1)
            if is_known:
                await owners.owner_of(BUNDLE)
            owners._on_notification(Notification(Change.DELETED, PATH, -1))
            if is_known:
                await owners.check_reclaim(BUNDLE, "looker:1")
                continue
            with pytest.raises(BundleReclaimable, match="an unknown broker"):
                await owners.check_reclaim(BUNDLE, "looker:1")
        assert looker.store.session_id != owner.store.session_id


@in_virtual_time
async def test_deletions_older_than_the_grace_are_forgotten() -> None:
    async with scene() as (owner, _, owners, _):
        for _ in range(5):
            await owners.owner_of(BUNDLE)
            await owner.store.delete(PATH)
            await asyncio.sleep(GRACE_S + 1.0)
            await create_node(owner)
            await asyncio.sleep(0.1)
        other = Bundle.parse("t/other/0x00000000_0xffffffff")
        data = NamespaceEphemeralData(OWNER).encode()
        await owner.store.create(
            paths.ownership(other), data, CreateMode.EPHEMERAL, make_parents=True
        )
        await owners.owner_of(other)
        await owner.store.delete(paths.ownership(other))
        await asyncio.sleep(0.1)
        assert len(owners._vanished) == 1


@in_virtual_time
async def test_an_owner_node_that_does_not_decode_is_refused_and_counted() -> None:
    async with scene() as (owner, _, owners, _):
        await owner.store.set(PATH, b"{")
        with pytest.raises(CorruptRecord):
            await owners.owner_of(BUNDLE)
        assert owners.cache.corrupt == 1
