"""Brokers that are about to stop (docs: kafka-procedures)."""

from collections.abc import Sequence

import pytest

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.core.partitions.values import DEFAULT_RULES, TopicRules
from broker_ctl.errors import Fenced
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import Operation
from tests.support.clusters.partition_cluster import PartitionCluster, partition
from tests.support.clusters.partition_procedures import (
    Story,
    admin_of,
    catching_up,
    ends_alike_wherever_it_is_cut,
    holders,
    procedures,
)
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import led_through

P0, P1 = partition("t", 0), partition("t", 1)
EITHER = pytest.mark.parametrize("has_queues", [False, True], ids=["http", "zkqueue"])


def epoch_of(cluster: PartitionCluster, broker: int) -> int:
    return cluster.receivers[broker].epoch


async def create(
    admin: ControllerOperations, *replicas: tuple[int, ...], rules: TopicRules = DEFAULT_RULES
) -> None:
    await admin.create_topic("t", dict(enumerate(replicas)), rules, is_dry_run=False)


@EITHER
@in_virtual_time
async def test_a_broker_that_stops_leads_nothing_and_is_in_no_isr(has_queues: bool) -> None:
    async with catching_up(1, 2, 3, has_queues=has_queues) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2, 3), (2, 1, 3))
        await eventually(lambda: holders(cluster, P0) == {1, 2, 3})
        reply = await admin.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert reply == {"broker": 1, "is_done": True, "led": [], "reason": ""}
        first, second = await cluster.led(P0, 2), await cluster.led(P1, 2)
        assert (first.isr, second.isr) == ((2, 3), (2, 3))
        # Broker 1 no longer fetches: otherwise it would be in sync again at once.
        await eventually(lambda: holders(cluster, P0) == {2, 3})
        await eventually(lambda: holders(cluster, P1) == {2, 3})
        assert {row["broker"]: row["state"] for row in admin.overview()["brokers"]} == {
            1: "stopping",
            2: "live",
            3: "live",
        }
        again = await admin.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert again["is_done"] is True
        assert await cluster.state(P0) == first
        await cluster.stop_broker(1)
        await cluster.start_broker(1)
        await eventually(lambda: holders(cluster, P0) == {1, 2, 3})
        assert admin.overview()["brokers"][0]["state"] == "live"


async def heard(cluster: PartitionCluster, leader: int, epoch: int) -> None:
    """Wait until the leader of the first partition leads under the epoch."""
    replicas = cluster.receivers[leader].replicas

    def has_heard() -> bool:
        replica = replicas.get(P0)
        return replica is not None and (replica.state.leader, replica.state.leader_epoch) == (
            leader,
            epoch,
        )

    await eventually(has_heard, what=f"broker {leader} hears of leader epoch {epoch}")


@pytest.mark.parametrize("broker", [1, 3], ids=["leader", "follower"])
@EITHER
@in_virtual_time
async def test_a_broker_that_stops_is_let_into_no_isr_however_long_it_fetches_on(
    broker: int, has_queues: bool
) -> None:
    async with catching_up(1, 2, 3, has_queues=has_queues) as (cluster, catching):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2, 3))
        await eventually(lambda: holders(cluster, P0) == {1, 2, 3})
        catching.stubborn = {broker}
        await admin.shut_down(broker, epoch_of(cluster, broker), is_forced=False)
        leader = 2 if broker == 1 else 1
        await heard(cluster, leader, 1)
        await catching.look()
        others = tuple(each for each in (1, 2, 3) if each != broker)
        assert (await cluster.led(P0, leader)).isr == others
        # In its next life it may be in sync again, under the same leader epoch.
        catching.stubborn = set()
        await cluster.stop_broker(broker)
        await cluster.start_broker(broker)

        async def is_back() -> bool:
            state = await cluster.state(P0)
            return state is not None and (state.leader_epoch, state.isr) == (1, (1, 2, 3))

        await eventually(is_back, what="in sync again")


@in_virtual_time
async def test_a_stopping_broker_that_is_not_in_sync_does_not_enter_the_isr() -> None:
    async with catching_up(1, 2, 3) as (cluster, catching):
        catching.lagging = {3}
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2, 3))
        await cluster.write_isr(P0, 1, 2)
        await admin.shut_down(3, epoch_of(cluster, 3), is_forced=False)
        catching.lagging, catching.stubborn = set(), {3}
        await heard(cluster, 1, 1)
        await catching.look()
        assert (await cluster.led(P0, 1)).isr == (1, 2)
        again = await admin.shut_down(3, epoch_of(cluster, 3), is_forced=False)
        assert again["is_done"] is True
        assert (await cluster.led(P0, 1)).leader_epoch == 1


@in_virtual_time
async def test_after_a_refusal_half_way_the_broker_is_let_in_again() -> None:
    async with catching_up(1, 2, 3) as (cluster, catching):
        catching.lagging = {3}
        running, store = await led_through(cluster, build_admin=procedures())
        admin = admin_of(running)
        await create(admin, (1, 2), (2, 3), rules=TopicRules(min_isr=1))
        await eventually(lambda: holders(cluster, P1) == {2, 3})

        async def shrink(_: Sequence[Operation]) -> None:
            store.before = None
            await cluster.write_isr(P1, 2)

        store.before = shrink
        refused = await admin.shut_down(2, epoch_of(cluster, 2), is_forced=False)
        assert refused["is_done"] is False
        assert "t-1 would have no replica in sync" in refused["reason"]

        async def is_in_sync() -> bool:
            state = await cluster.state(P0)
            return state is not None and (state.leader_epoch, state.isr) == (1, (1, 2))

        await eventually(is_in_sync, what="in sync again")


@in_virtual_time
async def test_the_log_of_a_broker_that_stops_is_kept() -> None:
    async with catching_up(1, 2) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2))
        await admin.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        await eventually(lambda: holders(cluster, P0) == {2})
        (stop,) = [
            stop for instruction in cluster.receivers[1].instructions for stop in instruction.stops
        ]
        assert (stop.partition, stop.is_deleted, stop.leader_epoch) == (P0, False, 1)


@in_virtual_time
async def test_nothing_is_done_where_a_partition_would_have_too_few_in_sync() -> None:
    async with catching_up(1, 2, 3) as (cluster, catching):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2), (1, 2, 3), rules=TopicRules(min_isr=2))
        catching.lagging = {1, 2, 3}
        before = await cluster.state(P1)
        reply = await admin.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert reply["is_done"] is False
        assert reply["led"] == [["t", 0], ["t", 1]]
        assert reply["reason"] == (
            "1 partitions need broker 1, as fewer than they ask for would be left in sync:"
            " t-0 would have 2 in sync"
        )
        assert await cluster.state(P1) == before
        assert admin.overview()["brokers"][0]["state"] == "live"
        forced = await admin.shut_down(1, epoch_of(cluster, 1), is_forced=True)
        assert forced == {"broker": 1, "is_done": True, "led": [], "reason": ""}
        assert (await cluster.led(P0, 2)).isr == (2,)


@in_virtual_time
async def test_a_partition_whose_only_replica_is_on_the_broker_is_reported_and_stays() -> None:
    async with catching_up(1, 2) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1,), (1, 2))
        reply = await admin.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert reply == {"broker": 1, "is_done": True, "led": [["t", 0]], "reason": ""}
        await eventually(lambda: holders(cluster, P1) == {2})
        assert holders(cluster, P0) == {1}
        assert (await cluster.led(P1, 2)).isr == (2,)


@in_virtual_time
async def test_two_that_stop_at_once_are_not_each_others_successors() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2, 3))
        await admin.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        refused = await admin.shut_down(2, epoch_of(cluster, 2), is_forced=False)
        assert refused["is_done"] is True
        assert (await cluster.led(P0, 3)).isr == (3,)
        last = await admin.shut_down(3, epoch_of(cluster, 3), is_forced=False)
        assert last["is_done"] is False
        assert last["led"] == [["t", 0]]


@pytest.mark.parametrize("broker", [1, 7])
@in_virtual_time
async def test_an_earlier_life_of_a_broker_cannot_stop_it(broker: int) -> None:
    async with catching_up(1, 2) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2))
        with pytest.raises(Fenced, match=f"broker {broker} .* asks with epoch 4"):
            await admin.shut_down(broker, 4, is_forced=True)
        assert (await cluster.led(P0, 1)).isr == (1, 2)


@EITHER
@in_virtual_time
async def test_a_shutdown_ends_alike_wherever_its_controller_dies(has_queues: bool) -> None:
    async def prepare(cluster: PartitionCluster, admin: ControllerOperations) -> None:
        await create(admin, (1, 2, 3), (2, 1, 3))
        await eventually(lambda: holders(cluster, P1) == {1, 2, 3})

    async def ask(cluster: PartitionCluster, admin: ControllerOperations) -> None:
        reply = await admin.shut_down(1, epoch_of(cluster, 1), is_forced=False)
        assert reply["led"] == []
        await cluster.stop_broker(1)

    async def is_over(cluster: PartitionCluster) -> bool:
        states = [await cluster.state(each) for each in (P0, P1)]
        is_alone = all(state is not None and state.isr == (2, 3) for state in states)
        return is_alone and 1 not in cluster.stores

    async def final_state(cluster: PartitionCluster) -> list[object]:
        states = [await cluster.state(each) for each in (P0, P1)]
        return [(state.leader, state.isr) for state in states if state is not None]

    story = Story((1, 2, 3), prepare, ask, is_over, final_state, has_queues=has_queues)
    assert await ends_alike_wherever_it_is_cut(story) >= 2
