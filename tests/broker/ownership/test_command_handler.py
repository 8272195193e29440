"""Orders of the leader, on the broker that gets them."""

import asyncio
from dataclasses import replace

import pytest

from broker_ctl.broker.ownership.command_handler import BundleCommandHandler
from broker_ctl.coordination.directives import MoveRecord
from broker_ctl.coordination.election import ConfirmedEpoch
from broker_ctl.core.model.commands import (
    AcquireBundle,
    Command,
    MergeBundles,
    PrepareTransfer,
    ReceiveBundle,
    ReleaseBundle,
    SplitBundle,
)
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import BrokerCtlError, Draining, Fenced, NotOwner
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, Operation
from broker_ctl.store.records.broker_ctl import MoveNode
from tests.support.clusters.brokers import Cluster, MemoryBroker, cluster

EPOCH = paths.LOADBALANCE_ELECTION.epoch_path


async def orders_at_epoch_1(broker: MemoryBroker) -> BundleCommandHandler:
    """A handler at epoch 1: a leader was elected once."""
    await broker.store.create(EPOCH, make_parents=True)
    await broker.store.set(EPOCH, b"")
    return orders_of(broker)


def orders_of(broker: MemoryBroker) -> BundleCommandHandler:
    return BundleCommandHandler(
        ownership=broker.ownership,
        owners=broker.owners,
        moves=broker.moves,
        epochs=ConfirmedEpoch(broker.store, paths.LOADBALANCE_ELECTION),
    )


@in_virtual_time
async def test_split_bundles_may_be_merged_again_and_a_command_may_be_repeated() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        orders = await orders_at_epoch_1(broker)
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        reply = await orders.handle(SplitBundle(1, parent, "range_equally_divide"))
        left, right = parent.cut((0x20000000,))
        assert reply == {"children": [str(left), str(right)]}
        first = await orders.handle(MergeBundles(1, left, right))
        assert first == {"bundle": str(parent), "token": broker.owned()[parent]}
        assert await orders.handle(MergeBundles(1, left, right)) == first
        await built.settled()


@in_virtual_time
async def test_an_order_to_join_is_checked_against_the_epoch_before_and_as_it_is_done() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        orders = await orders_at_epoch_1(broker)
        left, right = built.bundles[:2]
        for bundle in (left, right):
            await broker.ownership.acquire(bundle)
        before = broker.owned()
        # One at which nobody was elected.
        with pytest.raises(Fenced, match="epoch 2 is unknown"):
            await orders.handle(MergeBundles(2, left, right))
        await broker.store.set(EPOCH, b"")
        # One that was the newest.
        with pytest.raises(Fenced, match=EPOCH):
            await orders.handle(MergeBundles(1, left, right))
        with pytest.raises(Fenced, match="epoch 3 is unknown"):
            await orders.handle(MergeBundles(3, left, right))
        with pytest.raises(Fenced, match="2 was seen"):
            await orders.handle(MergeBundles(1, left, right))
        assert broker.owned() == before
        await built.settled()


@in_virtual_time
async def test_only_the_owner_of_both_can_join_them() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        orders = await orders_at_epoch_1(one)
        left, right = built.bundles[:2]
        await one.ownership.acquire(left)
        await two.ownership.acquire(right)
        with pytest.raises(NotOwner):
            await orders.handle(MergeBundles(1, left, right))
        await built.settled()


@in_virtual_time
async def test_an_order_of_an_epoch_that_the_store_does_not_know_takes_and_cuts_nothing() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        orders = await orders_at_epoch_1(broker)
        owned, free = built.bundles[:2]
        token = await broker.ownership.acquire(owned)
        for order in (AcquireBundle(2, free), SplitBundle(2, owned, "range_equally_divide")):
            with pytest.raises(Fenced, match=EPOCH):
                await orders.handle(order)
        assert broker.owned() == {owned: token}
        assert await built.ring() == built.bundles
        await built.settled()


@in_virtual_time
async def test_an_order_to_take_or_cut_is_checked_against_the_epoch_as_it_is_done() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        orders = await orders_at_epoch_1(broker)
        owned, free = built.bundles[:2]
        token = await broker.ownership.acquire(owned)
        to_take_or_cut: list[AcquireBundle | SplitBundle] = [
            AcquireBundle(1, free),
            SplitBundle(1, owned, "range_equally_divide"),
        ]
        for number, order in enumerate(to_take_or_cut, 1):
            # The epoch is known, and another leader is elected.
            at_newest = replace(order, epoch=number)
            assert isinstance(await refusal(orders, replace(order, epoch=number + 1)), Fenced)
            assert orders.newest_epoch == number
            await broker.store.set(EPOCH, b"")
            with pytest.raises(Fenced, match=EPOCH):
                await orders.handle(at_newest)
        assert broker.owned() == {owned: token}
        assert await built.ring() == built.bundles
        await built.settled()


# Moves.


def guard() -> Operation:
    return Check(EPOCH, 1)


async def moving(built: Cluster, bundle: Bundle) -> MoveRecord:
    """The first broker has it, and the second is to get it."""
    source, receiver = built.brokers[:2]
    token = await source.ownership.acquire(bundle)
    move = MoveNode("m1", bundle, 1, source.broker_id, token, receiver.broker_id, 10**15, 0)
    return await source.moves.begin(move, guard())


async def rerouted(built: Cluster, record: MoveRecord) -> MoveRecord:
    """The leader has found another receiver, and has written so."""
    move = replace(record.move, to_broker=built.brokers[2].broker_id)
    return await built.brokers[0].moves.adopt(replace(record, move=move), 1, guard())


async def refusal(orders: BundleCommandHandler, order: Command) -> BrokerCtlError | None:
    try:
        await orders.handle(order)
    except BrokerCtlError as error:
        return error
    return None


@in_virtual_time
async def test_a_move_that_was_written_again_makes_the_orders_of_before_void() -> None:
    async with cluster(3) as built:
        source, receiver, other = built.brokers
        await orders_at_epoch_1(source)
        bundle = built.bundles[0]
        old = await moving(built, bundle)
        new = await rerouted(built, old)
        token = old.move.token
        for broker, order in (
            (receiver, PrepareTransfer(1, bundle, "m1", old.version)),
            (source, ReleaseBundle(1, bundle, "m1", old.version, token, 1_000)),
            (receiver, ReceiveBundle(1, bundle, "m1", old.version)),
        ):
            with pytest.raises(Fenced, match=r"version 1; the command was sent at .* version 0"):
                await orders_of(broker).handle(order)
        assert source.owned() == {bundle: token}
        await orders_of(source).handle(ReleaseBundle(1, bundle, "m1", new.version, token, 1_000))
        await orders_of(other).handle(ReceiveBundle(1, bundle, "m1", new.version))
        assert other.owned().keys() == {bundle}
        assert await other.moves.read("m1") is None
        await built.settled()


@in_virtual_time
async def test_an_order_of_a_move_is_obeyed_only_by_the_broker_that_the_record_names() -> None:
    async with cluster(3) as built:
        source, receiver, other = built.brokers
        await orders_at_epoch_1(source)
        bundle = built.bundles[0]
        record = await moving(built, bundle)
        names = 1, bundle, "m1", record.version
        for broker, order in (
            (other, PrepareTransfer(*names)),
            (receiver, ReleaseBundle(*names, record.move.token, 1_000)),
            (other, ReceiveBundle(*names)),
        ):
            with pytest.raises(Fenced, match=f"this order to {order.verb} is for"):
                await orders_of(broker).handle(order)
        assert await orders_of(receiver).handle(PrepareTransfer(*names)) == {
            "accepted": str(bundle)
        }
        # From now on a release by the source is not taken for an expiry.
        assert receiver.owners.recall(bundle) is not None
        receiver.ownership.is_draining = True
        with pytest.raises(Draining):
            await orders_of(receiver).handle(PrepareTransfer(*names))
        await built.settled()


@in_virtual_time
@pytest.mark.parametrize("what", ["the record", "the epoch"])
async def test_a_release_holds_for_the_record_and_the_epoch_when_its_node_goes(what: str) -> None:
    async with cluster(3) as built:
        source = built.brokers[0]
        orders = await orders_at_epoch_1(source)
        bundle = built.bundles[0]
        record = await moving(built, bundle)
        token = record.move.token
        go_on = source.steering.hold("unload")
        async with asyncio.TaskGroup() as group:
            order = ReleaseBundle(1, bundle, "m1", record.version, token, 1_000)
            obeying = group.create_task(refusal(orders, order), name="release")
            await asyncio.sleep(0.1)
            if what == "the record":
                await rerouted(built, record)
            else:
                await source.store.set(EPOCH, b"")
            go_on.set()
        assert isinstance(obeying.result(), Fenced)
        assert source.owned() == {bundle: token}
        await built.settled()


@in_virtual_time
@pytest.mark.parametrize("what", ["the record", "the epoch"])
async def test_a_receiver_holds_to_the_record_and_the_epoch_when_its_node_comes(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(3) as built:
        source, receiver, _ = built.brokers
        orders = await orders_at_epoch_1(source)
        bundle = built.bundles[0]
        record = await moving(built, bundle)
        await orders.handle(
            ReleaseBundle(1, bundle, "m1", record.version, record.move.token, 1_000)
        )
        sync = receiver.owners.sync

        async def change_then_sync(asked: Bundle) -> None:
            if what == "the record":
                await rerouted(built, record)
            else:
                await source.store.set(EPOCH, b"")
            await sync(asked)

        monkeypatch.setattr(receiver.owners, "sync", change_then_sync)
        receive = ReceiveBundle(1, bundle, "m1", record.version)
        assert isinstance(await refusal(orders_of(receiver), receive), Fenced)
        assert receiver.owned() == {}
        await built.settled()


@in_virtual_time
async def test_a_receiver_whose_server_is_behind_looks_again_before_it_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(3) as built:
        source, receiver, _ = built.brokers
        await orders_at_epoch_1(source)
        record = await moving(built, built.bundles[0])
        read, behind = receiver.moves.read, [None]

        async def late(move_id: str) -> MoveRecord | None:
            return behind.pop() if behind else await read(move_id)

        monkeypatch.setattr(receiver.moves, "read", late)
        prepare = PrepareTransfer(1, built.bundles[0], "m1", record.version)
        assert await orders_of(receiver).handle(prepare)
