"""Every act on a bundle, cut at every point at which the world can change.

After each cut: at no zxid a hash with two owner nodes, no topic served under an old token, what is
held equals the store and the data plane, and every bundle can be acquired again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count

import pytest

from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import BrokerCtlError
from broker_ctl.lab.memory_store.transport import FaultPoint
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.brokers import GRACE_S, Cluster, MemoryBroker, cluster
from tests.support.time.waiting import eventually

Act = Callable[[Cluster], Awaitable[object]]
Fault = Callable[[MemoryBroker], Callable[[], None]]

# Longer than any of the acts takes: a cut beyond its end must change nothing.
POINTS = 16


async def acquire(built: Cluster) -> object:
    return await built.brokers[0].ownership.acquire(built.bundles[1])


async def release(built: Cluster) -> object:
    return await built.brokers[0].ownership.unload(built.bundles[0])


async def split(built: Cluster) -> object:
    return await built.brokers[0].ownership.split(built.bundles[0], "range_equally_divide")


async def merge(built: Cluster) -> object:
    left, right = built.bundles
    return await built.brokers[0].ownership.merge(left, right)


# What each act may leave, whatever happens to it: all as it was, or all done.
WHOLE, HALVES, THREE = ["0x00000000"], ["0x00000000", "0x80000000"], ["0x00000000", "0x40000000"]
RINGS: dict[Act, list[list[str]]] = {
    acquire: [HALVES],
    release: [HALVES],
    split: [HALVES, [*THREE, "0x80000000"]],
    merge: [HALVES, WHOLE],
}


async def own_what_it_needs(built: Cluster, act: Act) -> MemoryBroker:
    """The broker that is to act, at the point at which it can."""
    broker = built.brokers[0]
    await broker.ownership.acquire(built.bundles[0])
    if act is merge:
        await broker.ownership.acquire(built.bundles[1])
    return broker


async def all_is_well(built: Cluster, act: Act) -> None:
    """A legal ring, one owner for each of its bundles, and nothing served twice."""
    await asyncio.sleep(1.0)
    await built.settled()
    ring = [str(bundle.range).partition("_")[0] for bundle in await built.ring()]
    assert ring in RINGS[act]
    await everything_can_be_acquired(built)
    await built.settled()
    verdict = built.verdict()
    assert verdict.double_served == 0, verdict.faults


def expire(broker: MemoryBroker) -> Callable[[], None]:
    return broker.expire


def lives_on(_: MemoryBroker) -> Callable[[], None]:
    """The session outlives the connection."""
    return lambda: None


def blink(broker: MemoryBroker) -> Callable[[], None]:
    return broker.blink


def partition(broker: MemoryBroker) -> Callable[[], None]:
    """For longer than the session lives."""
    return partial(broker.cut, 14.0)


def short_partition(broker: MemoryBroker) -> Callable[[], None]:
    """For a third of the session's timeout."""
    return partial(broker.cut, 3.0)


def steal(broker: MemoryBroker) -> Callable[[], None]:
    """Delete all owner nodes of the broker, as an operator would."""

    def delete() -> None:
        for bundle in broker.nodes():
            broker.ensemble.delete_as_admin(f"/namespace/{bundle}")

    return delete


async def carry_out(built: Cluster, act: Act) -> None:
    """The act may fail, but only in ways that say so."""
    try:
        await act(built)
    except BrokerCtlError:
        return


async def owners_after_asking(built: Cluster, bundle: Bundle) -> list[str]:
    """Ask every broker to acquire; those that say that they did."""
    served_by: list[str] = []
    for broker in built.brokers:
        with contextlib.suppress(BrokerCtlError):
            await broker.ownership.acquire(bundle)
            served_by.append(broker.broker_id)
    return served_by


async def everything_can_be_acquired(built: Cluster) -> None:
    """After the grace each bundle has exactly one owner, by whichever broker it is asked for."""
    await asyncio.sleep(GRACE_S + 1.0)
    for bundle in await built.ring():
        served_by = await eventually(
            partial(owners_after_asking, built, bundle), 30.0, f"{bundle} can be acquired"
        )
        assert len(served_by) == 1


@pytest.mark.parametrize("fault", [expire, blink, partition, short_partition, steal])
@pytest.mark.parametrize("act", [acquire, release, split, merge])
@in_virtual_time
async def test_an_act_that_is_cut_anywhere_leaves_one_owner_and_nothing_behind(
    act: Act, fault: Fault
) -> None:
    was_cut = 0
    for point in range(POINTS):
        async with cluster(2, bundles=2, seed=point) as built:
            broker = await own_what_it_needs(built, act)
            broker.steering.arm(point, fault(broker))
            await asyncio.wait_for(carry_out(built, act), 200.0)
            was_cut += not broker.steering.disarm()
            await all_is_well(built, act)
    assert was_cut >= 3, "the faults fell into the acts"


@pytest.mark.parametrize("fault", [lives_on, expire])
@pytest.mark.parametrize("point", FaultPoint)
@pytest.mark.parametrize("act", [acquire, release, split, merge])
@in_virtual_time
async def test_each_request_of_an_act_may_be_cut_off_before_and_after_it_is_executed(
    act: Act, point: FaultPoint, fault: Fault
) -> None:
    """With the connection alone, or with the session at the same moment."""
    for number in count():
        async with cluster(2, bundles=2, seed=number) as built:
            broker = await own_what_it_needs(built, act)
            broker.steering.cut_at_request(number, point, fault(broker))
            await asyncio.wait_for(carry_out(built, act), 200.0)
            is_beyond = broker.steering.disarm()
            await all_is_well(built, act)
        if is_beyond:
            break
    assert number >= 1, "the act has requests"


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (acquire, {"0x00000000_0x80000000", "0x80000000_0xffffffff"}),
        (release, set()),
        (split, {"0x00000000_0x40000000", "0x40000000_0x80000000"}),
        (merge, {"0x00000000_0xffffffff"}),
    ],
)
@in_virtual_time
async def test_a_caller_that_goes_away_does_not_stop_the_act(act: Act, left: set[str]) -> None:
    for point in range(POINTS):
        async with cluster(1, bundles=2, seed=point) as built:
            broker = await own_what_it_needs(built, act)
            task = broker.tasks.start(carry_out(built, act), "caller", is_joined=True)
            broker.steering.arm(point, task.cancel)
            await asyncio.wait([task])
            await built.settled()
            assert {str(bundle.range) for bundle in broker.owned()} == left
