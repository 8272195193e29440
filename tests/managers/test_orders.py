"""Orders of the leader that change a ring, on the broker that gets them."""

import pytest

from broker_ctl.core.orders import Cut, Join
from broker_ctl.errors import Fenced, NotOwner
from broker_ctl.managers.orders import OwnOrders
from broker_ctl.store import paths
from tests.support.brokers import MemoryBroker, cluster
from tests.support.virtual_time import in_virtual_time


async def orders_at_epoch_1(broker: MemoryBroker) -> OwnOrders:
    """Somebody was elected once."""
    path = paths.LOADBALANCE_SEAT.epoch_path
    await broker.store.create(path, make_parents=True)
    await broker.store.set(path, b"")
    return OwnOrders(
        ownership=broker.ownership,
        owners=broker.owners,
        moves=broker.moves,
        watcher=broker.watcher,
        seat=paths.LOADBALANCE_SEAT,
    )


@in_virtual_time
async def test_what_is_cut_may_be_joined_again_and_an_order_may_be_repeated() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        orders = await orders_at_epoch_1(broker)
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        reply = await orders.obey(Cut(1, parent, "range_equally_divide"))
        left, right = parent.cut((0x20000000,))
        assert reply == {"children": [str(left), str(right)]}
        first = await orders.obey(Join(1, left, right))
        assert first == {"bundle": str(parent), "token": broker.owned()[parent]}
        assert await orders.obey(Join(1, left, right)) == first
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
        # One that nobody has heard of, and that the store does not know.
        with pytest.raises(Fenced):
            await orders.obey(Join(2, left, right))
        with pytest.raises(Fenced, match="2 was seen"):
            await orders.obey(Join(1, left, right))
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
            await orders.obey(Join(1, left, right))
        await built.settled()
