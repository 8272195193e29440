"""The controller on a real server; what it writes, as an independent client reads it."""

import json
import random
from typing import Any

import pytest
from kazoo.client import KazooClient

from broker_ctl.codec import encode
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.election_node import ControllerRecords, ElectionNode
from broker_ctl.core.partitions.values import NO_LEADER
from broker_ctl.lab.time import LoopClock
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import Create
from broker_ctl.store.paths import CONTROLLER_ELECTION
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.clusters.partition_cluster import AnyStore, partition, partition_cluster
from tests.support.clusters.partition_procedures import admin_of, procedures
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

P0 = partition("t", 0)


def payloads(hosts: str, chroot: str, *paths: str) -> list[Any]:
    """Payloads of nodes, read by another client than ours."""
    client = KazooClient(hosts + chroot)
    client.start()
    try:
        return [json.loads(client.get(path)[0]) for path in paths]
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize("has_queues", [False, True], ids=["http", "zkqueue"])
async def test_leaders_are_elected_announced_and_written_as_the_seed_says(
    zookeeper: SharedEnsemble, chroot: str, has_queues: bool
) -> None:
    def new_store() -> AnyStore:
        return ZooKeeperStore(StoreOptions(hosts=zookeeper.connect_string, chroot=chroot))

    async with partition_cluster(1, 2, 3, has_queues=has_queues, new_store=new_store) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
        await cluster.led(P0, 1)
        await eventually(lambda: P0 in cluster.receivers[3].replicas)
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        await eventually(lambda: cluster.receivers[3].leaders()[P0] == 2)
        await eventually(lambda: running.value("under_replicated") == 3)
        state, epoch = payloads(
            zookeeper.connect_string,
            chroot,
            partition_paths.leader_and_isr(P0),
            CONTROLLER_ELECTION.epoch_path,
        )
        assert state == {
            "version": 1,
            "leader": 2,
            "leader_epoch": 1,
            "controller_epoch": 1,
            "isr": [2, 3],
        }
        assert epoch == 1
        await cluster.stop_broker(3)
        await cluster.stop_broker(2)
        await cluster.led(P0, NO_LEADER)


async def test_a_topic_that_kafka_has_led_is_adopted_and_deleted(
    zookeeper: SharedEnsemble, chroot: str
) -> None:
    def new_store() -> AnyStore:
        return ZooKeeperStore(StoreOptions(hosts=zookeeper.connect_string, chroot=chroot))

    path, given = partition_paths.topic("t"), "5f" * 16
    async with partition_cluster(1, 2, new_store=new_store) as cluster:
        kafkas = {"version": 1, "controller_epoch": 9, "leader": 2, "leader_epoch": 7, "isr": [2]}
        await cluster.operator.multi(
            [
                Create(path, encode({"version": 1, "partitions": {"0": [1, 2]}})),
                Create(f"{path}/partitions"),
                Create(f"{path}/partitions/0"),
                Create(f"{path}/partitions/0/state", encode(kafkas)),
            ]
        )
        admin = admin_of(await cluster.lead(procedures()))
        await admin.adopt_topic("t", given, is_dry_run=False)
        await eventually(lambda: P0 in cluster.receivers[1].replicas)
        topic, state = payloads(
            zookeeper.connect_string, chroot, path, partition_paths.leader_and_isr(P0)
        )
        assert topic == {
            "version": 3,
            "topic_id": given,
            "partitions": {"0": [1, 2]},
            "adding_replicas": {},
            "removing_replicas": {},
        }
        assert state == {**kafkas, "controller_epoch": 1}
        await admin.delete_topic("t", is_dry_run=False)

        async def is_gone() -> bool:
            return await cluster.operator.exists(path) is None

        await eventually(is_gone)


async def test_the_seat_of_the_controller_is_written_as_the_seed_says(
    zookeeper: SharedEnsemble, chroot: str
) -> None:
    store = ZooKeeperStore(StoreOptions(hosts=zookeeper.connect_string, chroot=chroot))
    await store.start()
    await store.wait_connected()
    try:
        own = LeaderBroker("b7:8080", "http://b7:8080")
        records = ControllerRecords(own, 7, LoopClock())
        election_node = ElectionNode(
            store,
            Deletions(store, rng=random.Random(1)),
            CONTROLLER_ELECTION,
            records,
            rng=random.Random(1),
        )
        claimed = await election_node.claim()
        assert claimed is not None
        assert claimed.epoch == 1
        node = await election_node.read()
        assert node is not None
        assert node.stat.is_ephemeral
        assert election_node.leader_of(node) == own
        holder, epoch = payloads(
            zookeeper.connect_string,
            chroot,
            CONTROLLER_ELECTION.node_path,
            CONTROLLER_ELECTION.epoch_path,
        )
        del holder["timestamp"]
        assert holder == {
            "version": 1,
            "brokerid": 7,
            "controller_epoch": 1,
            "daemon": "b7:8080",
            "web_url": "http://b7:8080",
        }
        assert epoch == 1
        assert await election_node.claim() is None
    finally:
        await store.close()
