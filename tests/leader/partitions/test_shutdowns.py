"""Brokers that are about to stop (reference: A.8 controlled shutdown)."""

import pytest

from broker_ctl.core.partitions.values import DEFAULT_RULES, TopicRules
from broker_ctl.errors import Fenced
from broker_ctl.ports import PartitionDesk
from tests.support.partition_cluster import PartitionCluster, partition
from tests.support.partition_office import (
    Story,
    catching_up,
    desk_of,
    ends_alike_wherever_it_is_cut,
    holders,
    office,
)
from tests.support.virtual_time import in_virtual_time
from tests.support.waiting import eventually

P0, P1 = partition("t", 0), partition("t", 1)
EITHER = pytest.mark.parametrize("has_queues", [False, True], ids=["http", "zkqueue"])


def epoch_of(cluster: PartitionCluster, broker: int) -> int:
    return cluster.receivers[broker].epoch


async def create(
    desk: PartitionDesk, *replicas: tuple[int, ...], rules: TopicRules = DEFAULT_RULES
) -> None:
    await desk.create_topic("t", dict(enumerate(replicas)), rules, is_dry_run=False)


@EITHER
@in_virtual_time
async def test_a_broker_that_stops_leads_nothing_and_is_in_no_isr(has_queues: bool) -> None:
    async with catching_up(1, 2, 3, has_queues=has_queues) as (cluster, _):
        desk = desk_of(await cluster.lead(office()))
        await create(desk, (1, 2, 3), (2, 1, 3))
        await eventually(lambda: holders(cluster, P0) == {1, 2, 3})
        reply = await desk.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert reply == {"broker": 1, "is_done": True, "led": [], "reason": ""}
        first, second = await cluster.led(P0, 2), await cluster.led(P1, 2)
        assert (first.isr, second.isr) == ((2, 3), (2, 3))
        # It fetches no more: or it would be in sync again at once.
        await eventually(lambda: holders(cluster, P0) == {2, 3})
        await eventually(lambda: holders(cluster, P1) == {2, 3})
        assert {row["broker"]: row["state"] for row in desk.overview()["brokers"]} == {
            1: "stopping",
            2: "live",
            3: "live",
        }
        again = await desk.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert again["is_done"] is True
        assert await cluster.state(P0) == first
        await cluster.stop_broker(1)
        await cluster.start_broker(1)
        await eventually(lambda: holders(cluster, P0) == {1, 2, 3})
        assert desk.overview()["brokers"][0]["state"] == "live"


@in_virtual_time
async def test_the_log_of_a_broker_that_stops_is_kept() -> None:
    async with catching_up(1, 2) as (cluster, _):
        desk = desk_of(await cluster.lead(office()))
        await create(desk, (1, 2))
        await desk.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        await eventually(lambda: holders(cluster, P0) == {2})
        (stop,) = [stop for told in cluster.receivers[1].instructions for stop in told.stops]
        assert (stop.partition, stop.is_deleted, stop.leader_epoch) == (P0, False, 1)


@in_virtual_time
async def test_nothing_is_done_where_a_partition_would_have_too_few_in_sync() -> None:
    async with catching_up(1, 2, 3) as (cluster, catching):
        desk = desk_of(await cluster.lead(office()))
        await create(desk, (1, 2), (1, 2, 3), rules=TopicRules(min_isr=2))
        catching.lagging = {1, 2, 3}
        before = await cluster.state(P1)
        reply = await desk.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert reply["is_done"] is False
        assert reply["led"] == [["t", 0], ["t", 1]]
        assert reply["reason"] == (
            "1 partitions need broker 1, as fewer than they ask for would be left in sync:"
            " t-0 would have 2 in sync"
        )
        assert await cluster.state(P1) == before
        assert desk.overview()["brokers"][0]["state"] == "live"
        forced = await desk.shut_down(1, epoch_of(cluster, 1), is_forced=True)
        assert forced == {"broker": 1, "is_done": True, "led": [], "reason": ""}
        assert (await cluster.led(P0, 2)).isr == (2,)


@in_virtual_time
async def test_what_has_its_only_replica_there_is_told_and_stays() -> None:
    async with catching_up(1, 2) as (cluster, _):
        desk = desk_of(await cluster.lead(office()))
        await create(desk, (1,), (1, 2))
        reply = await desk.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert reply == {"broker": 1, "is_done": True, "led": [["t", 0]], "reason": ""}
        await eventually(lambda: holders(cluster, P1) == {2})
        assert holders(cluster, P0) == {1}
        assert (await cluster.led(P1, 2)).isr == (2,)


@in_virtual_time
async def test_two_that_stop_at_once_are_not_each_others_successors() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        desk = desk_of(await cluster.lead(office()))
        await create(desk, (1, 2, 3))
        await desk.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        refused = await desk.shut_down(2, epoch_of(cluster, 2), is_forced=False)
        assert refused["is_done"] is True
        assert (await cluster.led(P0, 3)).isr == (3,)
        last = await desk.shut_down(3, epoch_of(cluster, 3), is_forced=False)
        assert last["is_done"] is False
        assert last["led"] == [["t", 0]]


@pytest.mark.parametrize("broker", [1, 7])
@in_virtual_time
async def test_an_earlier_life_of_a_broker_cannot_stop_it(broker: int) -> None:
    async with catching_up(1, 2) as (cluster, _):
        desk = desk_of(await cluster.lead(office()))
        await create(desk, (1, 2))
        with pytest.raises(Fenced, match=f"broker {broker} .* asks with epoch 4"):
            await desk.shut_down(broker, 4, is_forced=True)
        assert (await cluster.led(P0, 1)).isr == (1, 2)


@EITHER
@in_virtual_time
async def test_a_shutdown_ends_alike_wherever_its_controller_dies(has_queues: bool) -> None:
    async def prepare(cluster: PartitionCluster, desk: PartitionDesk) -> None:
        await create(desk, (1, 2, 3), (2, 1, 3))
        await eventually(lambda: holders(cluster, P1) == {1, 2, 3})

    async def ask(cluster: PartitionCluster, desk: PartitionDesk) -> None:
        reply = await desk.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert reply["led"] == []
        await cluster.stop_broker(1)

    async def is_over(cluster: PartitionCluster) -> bool:
        states = [await cluster.state(each) for each in (P0, P1)]
        is_alone = all(state is not None and state.isr == (2, 3) for state in states)
        return is_alone and 1 not in cluster.stores

    async def told(cluster: PartitionCluster) -> list[object]:
        states = [await cluster.state(each) for each in (P0, P1)]
        return [(state.leader, state.isr) for state in states if state is not None]

    story = Story((1, 2, 3), prepare, ask, is_over, told, has_queues=has_queues)
    assert await ends_alike_wherever_it_is_cut(story) >= 2
