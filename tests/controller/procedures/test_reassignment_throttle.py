"""The throttle of replicas that reassignments add: from the request to its end."""

import pytest

from broker_ctl.codec import decode_object, encode
from broker_ctl.core.partitions.values import DEFAULT_RULES
from broker_ctl.errors import OrderConflict, ReassignmentMissing
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.paths import BROKER_DEFAULTS
from broker_ctl.store.records.partitions import FOLLOWER_RATE, LEADER_RATE
from tests.support.clusters.partition_cluster import PartitionCluster, Running, partition
from tests.support.clusters.partition_procedures import admin_of, catching_up, procedures
from tests.support.time.waiting import eventually

P0 = partition("t", 0)
MIB = 1 << 20


async def config(cluster: PartitionCluster) -> dict[str, str] | None:
    node = await cluster.operator.get(BROKER_DEFAULTS)
    return None if node is None else dict(decode_object(node.data)["config"])


async def is_written(cluster: PartitionCluster, expected: dict[str, str] | None) -> None:
    async def is_it() -> bool:
        return await config(cluster) == expected

    await eventually(is_it, what=f"{BROKER_DEFAULTS} is {expected}")


async def start(running: Running, throttle: int | None = MIB) -> None:
    """A topic on 1 and 2 moves to 3 and 4."""
    admin = admin_of(running)
    await admin.create_topic("t", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)
    await admin.reassign({P0: (3, 4)}, throttle, is_dry_run=False)


def added(cluster: PartitionCluster, *brokers: int) -> list[tuple[int, ...] | None]:
    """The added replicas, as these brokers were instructed."""
    held = [cluster.receivers[broker].replicas.get(P0) for broker in brokers]
    return [None if one is None else one.adding for one in held]


def rates(rate: int) -> dict[str, str]:
    return {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}


def shown(running: Running) -> list[int | None]:
    admin, key = admin_of(running), "throttle_bytes_per_s"
    rows = [admin.overview(), admin.describe("t"), *admin.reassignments()]
    return [row[key] for row in rows]


@pytest.mark.parametrize("has_queues", [False, True], ids=["http", "zkqueue"])
@in_virtual_time
async def test_a_throttle_comes_with_its_reassignment_and_goes_with_it(has_queues: bool) -> None:
    async with catching_up(1, 2, 3, 4, has_queues=has_queues) as (cluster, catching):
        running = await cluster.lead(procedures())
        catching.lagging = {4}
        await start(running)
        assert await config(cluster) == rates(MIB)
        assert shown(running) == [MIB, MIB, MIB]
        await eventually(lambda: added(cluster, 1, 2, 3, 4) == [(3, 4)] * 4)
        changed = await admin_of(running).throttle_reassignments(2 * MIB, is_dry_run=False)
        assert changed == {
            "before": {"throttle_bytes_per_s": MIB},
            "after": {"throttle_bytes_per_s": 2 * MIB},
            "reassigning": 1,
        }
        await is_written(cluster, rates(2 * MIB))
        catching.lagging = set()
        await is_written(cluster, None)
        await eventually(lambda: added(cluster, 3, 4) == [(), ()])
        assert shown(running) == [None, None]


@in_virtual_time
async def test_without_a_reassignment_there_is_nothing_to_throttle() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, catching):
        running = await cluster.lead(procedures())
        with pytest.raises(ReassignmentMissing, match="no reassignment is in progress"):
            await admin_of(running).throttle_reassignments(MIB, is_dry_run=False)
        catching.lagging = {4}
        await start(running, None)
        assert await config(cluster) is None
        await admin_of(running).throttle_reassignments(MIB, is_dry_run=True)
        assert await config(cluster) is None
        await admin_of(running).throttle_reassignments(MIB, is_dry_run=False)
        await is_written(cluster, rates(MIB))
        await admin_of(running).throttle_reassignments(None, is_dry_run=False)
        await is_written(cluster, None)
        # What an operator's tool writes applies, too.
        data = encode({"version": 1, "config": {FOLLOWER_RATE: " 7 "}})
        await cluster.operator.create(BROKER_DEFAULTS, data)
        await eventually(lambda: shown(running) == [7, 7, 7])


@in_virtual_time
async def test_a_throttle_survives_its_controller_and_ends_under_the_next() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, catching):
        running = await cluster.lead(procedures())
        catching.lagging = {4}
        await start(running)
        await running.store.close()
        following = await cluster.lead(procedures())
        assert shown(following) == [MIB, MIB, MIB]
        catching.lagging = set()
        await is_written(cluster, None)
        # A controller that died after the last reassignment, and before this, has left it.
        data = encode({"version": 1, "config": {**rates(MIB), "log.cleaner.threads": "2"}})
        await following.store.close()
        await cluster.operator.create(BROKER_DEFAULTS, data)
        await cluster.lead(procedures())
        await is_written(cluster, {"log.cleaner.threads": "2"})


@in_virtual_time
async def test_a_node_that_cannot_be_read_is_left_alone() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, catching):
        running = await cluster.lead(procedures())
        catching.lagging = {4}
        await start(running)
        await cluster.operator.set(BROKER_DEFAULTS, encode({"config": {LEADER_RATE: "fast"}}))
        await admin_of(running).throttle_reassignments(3, is_dry_run=False)
        await is_written(cluster, rates(3))
        await cluster.operator.set(BROKER_DEFAULTS, b"[]")
        with pytest.raises(OrderConflict, match="correct it, or delete the node"):
            await admin_of(running).throttle_reassignments(5, is_dry_run=False)
        assert shown(running) == [3, 3, 3]


@in_virtual_time
async def test_a_node_that_cannot_be_read_is_named_once_and_left_where_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, catching):
        running = await cluster.lead(procedures())
        catching.lagging = {4}
        await start(running)
        await cluster.operator.set(BROKER_DEFAULTS, b"[]")
        catching.lagging = set()
        await eventually(lambda: not running.term.context.reassigning)
        for name in ("u", "v"):
            await admin_of(running).create_topic(name, {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)
            await admin_of(running).reassign({partition(name, 0): (2, 1)}, is_dry_run=False)
        await eventually(lambda: not running.term.context.reassigning)
        node = await cluster.operator.get(BROKER_DEFAULTS)
        assert node is not None
        assert node.data == b"[]"
        complaints = [each for each in caplog.messages if "throttle" in each or "handle" in each]
        assert len(complaints) == 1, complaints
        # One that is repaired counts, and goes.
        data = encode({"version": 1, "config": rates(MIB)})
        await cluster.operator.set(BROKER_DEFAULTS, data)
        await is_written(cluster, None)
