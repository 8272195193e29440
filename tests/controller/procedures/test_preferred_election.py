"""Leaderships that go back, by themselves and by order (docs: kafka-preferred)."""

import pytest

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.procedures import preferred_election
from broker_ctl.controller.procedures.preferred_election import FIRST_CHECK_S
from broker_ctl.controller.state.batch_writer import Changes
from broker_ctl.controller.state.state_changes import Decide
from broker_ctl.core.partitions.values import DEFAULT_RULES, ControllerRules, TopicPartition
from broker_ctl.errors import InvalidReplicas, TopicMissing
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.partition_cluster import PartitionCluster, partition
from tests.support.clusters.partition_procedures import Catching, admin_of, catching_up, procedures
from tests.support.time.waiting import eventually

P0, P1 = partition("t", 0), partition("t", 1)


async def create(admin: ControllerOperations, *replicas: tuple[int, ...]) -> None:
    await admin.create_topic("t", dict(enumerate(replicas)), DEFAULT_RULES, is_dry_run=False)


async def leader(cluster: PartitionCluster, number: int = 0) -> int:
    state = await cluster.state(partition("t", number))
    assert state is not None
    return state.leader


async def away_and_back(cluster: PartitionCluster, catching: Catching) -> None:
    """Broker 1 loses what it leads, comes back, and is not in sync yet."""
    catching.lagging, catching.poll_s = {1}, 1.0
    await cluster.stop_broker(1)
    await cluster.led(P0, 2)
    await cluster.start_broker(1)


@in_virtual_time
async def test_a_broker_gets_its_leaderships_back_when_it_is_in_sync_again() -> None:
    rules = ControllerRules(imbalance_check_s=30.0)
    async with catching_up(1, 2, 3, rules=rules) as (cluster, catching):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        await create(admin, (1, 2, 3), (1, 3, 2), (2, 1, 3))
        await away_and_back(cluster, catching)
        began_s = cluster.clock.now_s()
        await eventually(lambda: cluster.clock.now_s() > began_s + 200, 300, poll_s=1.0)
        assert [await leader(cluster, number) for number in range(3)] == [2, 3, 2]
        assert admin.overview()["not_preferred"] == 2
        catching.lagging = set()
        await cluster.led(P0, 1)
        await cluster.led(P1, 1)
        state = await cluster.state(P0)
        assert state is not None
        assert state.isr == (1, 2, 3)
        reasons = [row.reason for _, row in running.journal.rows]
        assert reasons.count("preferred") == 2


@in_virtual_time
async def test_a_broker_that_has_just_started_waits_until_it_is_in_sync_everywhere() -> None:
    """KAFKA-20708: leading the partitions that were in sync first made its catching up slow."""
    rules = ControllerRules(imbalance_check_s=10.0)
    async with catching_up(1, 2, 3, rules=rules) as (cluster, catching):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2, 3), (1, 3, 2))
        await away_and_back(cluster, catching)
        began_s = cluster.clock.now_s()
        # In sync with one of the two; the other one takes long.
        await cluster.write_isr(P0, 1, 2, 3)
        await eventually(lambda: cluster.clock.now_s() > began_s + 100, 200, poll_s=1.0)
        assert await leader(cluster) == 2

        async def is_back() -> bool:
            return await leader(cluster) == 1

        await eventually(is_back, 60, poll_s=1.0)
        assert 115 < cluster.clock.now_s() - began_s < 140
        assert await leader(cluster, 1) == 3


@in_virtual_time
async def test_a_broker_in_sync_everywhere_does_not_wait_for_others_that_are_not() -> None:
    rules = ControllerRules(imbalance_check_s=10.0)
    async with catching_up(1, 2, 3, rules=rules) as (cluster, catching):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2, 3), (1, 2, 3))
        await cluster.stop_broker(3)
        await away_and_back(cluster, catching)
        began_s = cluster.clock.now_s()
        catching.lagging = set()

        async def is_back() -> bool:
            return [await leader(cluster, number) for number in (0, 1)] == [1, 1]

        await eventually(is_back, 60, poll_s=1.0)
        assert cluster.clock.now_s() - began_s < 30
        assert admin.overview()["under_replicated"] == 2


@in_virtual_time
async def test_many_are_given_back_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preferred_election, "BATCH", 2)
    async with catching_up(1, 2) as (cluster, catching):
        running = await cluster.lead(procedures())
        await create(admin_of(running), *[(1, 2)] * 5)
        calls: list[int] = []
        change = running.term.state_changer.change

        async def counted(partitions: list[TopicPartition], decide: Decide, why: str) -> Changes:
            if why == "preferred":
                calls.append(len(partitions))
            return await change(partitions, decide, why)

        monkeypatch.setattr(running.term.state_changer, "change", counted)
        await away_and_back(cluster, catching)
        catching.lagging = set()
        for number in range(5):
            await cluster.led(partition("t", number), 1)
        rows = [row for _, row in running.journal.rows if row.reason == "preferred"]
        assert len(rows) == 5
        assert calls == [2, 2, 1]


@in_virtual_time
async def test_a_broker_that_is_about_to_stop_gets_nothing_back() -> None:
    async with catching_up(1, 2) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2))
        await admin.shut_down(1, cluster.receivers[1].epoch, is_forced=False)
        await cluster.write_isr(P0, 1, 2)
        await eventually(lambda: admin.describe("t")["partitions"][0]["isr"] == [1, 2])
        reply = await admin.elect("preferred", [P0], is_dry_run=False)
        assert reply["partitions"][0]["reason"] == "the preferred replica is dead"
        assert await leader(cluster) == 2


@in_virtual_time
async def test_little_that_is_led_elsewhere_stays_there() -> None:
    rules = ControllerRules(imbalance_check_s=10.0, imbalance_percent=60.0)
    async with catching_up(1, 2, 3, rules=rules) as (cluster, catching):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, *[(1, 2, 3)] * 10)
        await away_and_back(cluster, catching)
        half = [partition("t", number) for number in range(5)]
        for each in half:
            await cluster.led(each, 2)
            await cluster.write_isr(each, 1, 2, 3)
        await eventually(lambda: admin.overview()["under_replicated"] == 5)
        await admin.elect("preferred", half, is_dry_run=False)
        catching.lagging = set()
        began_s = cluster.clock.now_s()
        await eventually(lambda: cluster.clock.now_s() > began_s + 60, 90, poll_s=1.0)
        assert admin.overview()["under_replicated"] == 0
        assert admin.overview()["not_preferred"] == 5


@pytest.mark.parametrize("is_rebalancing", [True, False])
@in_virtual_time
async def test_rebalancing_starts_soon_after_a_controller_unless_it_is_switched_off(
    is_rebalancing: bool,
) -> None:
    rules = ControllerRules(is_rebalancing=is_rebalancing)
    async with catching_up(1, 2, 3, rules=rules) as (cluster, _):
        await cluster.create_topic("t", (1, 2, 3))
        first = await cluster.lead(procedures())
        await cluster.led(P0, 1)
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        await cluster.start_broker(1)
        await eventually(lambda: admin_of(first).overview()["under_replicated"] == 0)
        second = await cluster.lead(procedures())
        began_s = cluster.clock.now_s()
        await eventually(lambda: cluster.clock.now_s() > began_s + FIRST_CHECK_S + 1, poll_s=0.5)
        assert await leader(cluster) == (1 if is_rebalancing else 2)
        assert admin_of(second).overview()["epoch"] == 2


@in_virtual_time
async def test_an_ordered_election_is_done_at_once_or_answered_with_the_reason() -> None:
    async with catching_up(1, 2, 3, rules=ControllerRules(is_rebalancing=False)) as (
        cluster,
        catching,
    ):
        admin = admin_of(await cluster.lead(procedures()))
        await create(admin, (1, 2, 3), (2, 3, 1), (1, 3, 2))
        await away_and_back(cluster, catching)
        await cluster.write_isr(P0, 1, 2, 3)
        await eventually(lambda: admin.describe("t")["partitions"][0]["isr"] == [1, 2, 3])
        judged = await admin.elect("preferred", [], is_dry_run=True)
        assert judged == {
            "kind": "preferred",
            "partitions": [{"topic": "t", "partition": 0, "before": 2, "leader": 1, "reason": ""}],
        }
        assert await leader(cluster) == 2
        named = [P0, P1, partition("t", 2)]
        done = await admin.elect("preferred", named, is_dry_run=False)
        rows = [(row["before"], row["leader"], row["reason"]) for row in done["partitions"]]
        assert rows == [
            (2, 1, ""),
            (2, 2, "the preferred replica leads"),
            (3, 3, "the preferred replica is not in sync"),
        ]
        assert await leader(cluster) == 1
        with pytest.raises(TopicMissing, match="there is no partition t-9"):
            await admin.elect("preferred", [partition("t", 9)], is_dry_run=True)


@in_virtual_time
async def test_an_unclean_election_wants_its_partitions_named_and_is_counted() -> None:
    async with catching_up(1, 2) as (cluster, catching):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        await create(admin, (1, 2), (2, 1))
        catching.lagging = {1, 2}
        await cluster.write_isr(P0, 1)
        await cluster.stop_broker(1)
        await cluster.led(P0, -1)
        with pytest.raises(InvalidReplicas, match="name its partitions"):
            await admin.elect("unclean", [], is_dry_run=False)
        with pytest.raises(InvalidReplicas, match="'any' is not an election"):
            await admin.elect("any", [P0], is_dry_run=False)
        judged = await admin.elect("unclean", [P0, P1], is_dry_run=True)
        done = await admin.elect("unclean", [P0, P1], is_dry_run=False)
        assert judged == done
        rows = [(row["before"], row["leader"], row["reason"]) for row in done["partitions"]]
        assert rows == [(-1, 2, ""), (2, 2, "nothing changes")]
        state = await cluster.state(P0)
        assert state is not None
        assert (state.isr, state.is_recovering) == ((2,), True)
        assert running.value("unclean_elections") == 1
        assert admin.describe("t")["partitions"][0]["is_recovering"] is True
