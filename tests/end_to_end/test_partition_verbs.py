"""Replicated partitions as operators and clients meet them: verbs and routes of real daemons."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.cli.main import main
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.http_client import HttpClient
from tests.support.replicas.replicated_daemons import ReplicatedDaemons
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

# As short as a lease allows with the servers' tick.
TIMEOUT_MS = 4000


@pytest.fixture
async def daemons(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path, http: HttpClient
) -> AsyncIterator[ReplicatedDaemons]:
    settings = {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "metadataStoreSessionTimeoutMillis": str(TIMEOUT_MS),
        "replicaPollMillis": "100",
        "autoLeaderRebalanceEnabled": "false",
    }
    async with ReplicatedDaemons(tmp_path / "daemons", 3, settings, http) as started:
        await eventually(lambda: knows_all(started), what="a controller that knows all brokers")
        yield started


async def knows_all(daemons: ReplicatedDaemons) -> bool:
    found = await daemons.controller()
    return found is not None and len(found["brokers"]) == 3


async def typed(daemons: ReplicatedDaemons, *arguments: str, at: int = 1) -> Result:
    environment = {"BROKER_CTL_URL": daemons.by_id[at].url}
    return await asyncio.to_thread(CliRunner(env=environment).invoke, main, arguments)


async def output_of(daemons: ReplicatedDaemons, *arguments: str, at: int = 1) -> Any:
    """What a verb that goes well prints for a program."""
    result = await typed(daemons, *arguments, "--output", "json", at=at)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_a_topic_is_made_moved_extended_and_deleted_from_the_command_line(
    daemons: ReplicatedDaemons, tmp_path: Path
) -> None:
    shown = await output_of(daemons, "controller", "show", at=2)
    assert [row["broker"] for row in shown["brokers"]] == [1, 2, 3]
    unknown = await typed(daemons, "partitions", "create", "orders", "--replicas", "0:1,9", "--yes")
    assert unknown.exit_code == 1
    assert "9" in unknown.stderr
    assert "1, 2, 3" in unknown.stderr

    create = ["partitions", "create", "orders", "--partitions", "4", "--replication-factor", "2"]
    planned = await output_of(daemons, *create, "--dry-run")
    assert await output_of(daemons, "partitions", "list") == []
    made = await output_of(daemons, *create, "--min-isr", "1", "--yes", at=3)
    assert len(made["partitions"]) == len(planned["partitions"]) == 4
    again = await typed(daemons, *create, "--yes")
    assert (again.exit_code, "orders" in again.stderr) == (1, True)
    described = await output_of(daemons, "partitions", "describe", "orders")
    replicas = {row["partition"]: row["replicas"] for row in made["partitions"]}
    assert {row["partition"]: row["replicas"] for row in described["partitions"]} == replicas
    assert [row["leader"] for row in described["partitions"]] == [
        replicas[number][0] for number in range(4)
    ]
    for broker in daemons.by_id:
        for number, of_one in replicas.items():
            led = await daemons.led(TopicPartition("orders", number), at=broker)
            assert led is not None
            assert (led["leader"], led["address"]) == (of_one[0], daemons.address(of_one[0]))

    path = tmp_path / "moves.json"
    plan = await output_of(
        *(daemons, "partitions", "reassign", "plan", "orders"),
        *("--brokers", "2,3", "--out", str(path)),
    )
    moved = {row["partition"]: row["replicas"] for row in plan["partitions"]}
    assert moved
    assert all(set(of_one) == {2, 3} for of_one in moved.values())
    start = ["partitions", "reassign", "start", "--from", str(path), "--throttle", "50MiB"]
    assert (await output_of(daemons, *start, "--yes", "--wait"))["result"] == "moved"
    described = await output_of(daemons, "partitions", "describe", "orders")
    now = {row["partition"]: row["replicas"] for row in described["partitions"]}
    assert now == replicas | moved
    assert await output_of(daemons, "partitions", "reassign", "status") == []

    grown = await output_of(daemons, "partitions", "grow", "orders", "--partitions", "6", "--yes")
    assert [row["partition"] for row in grown["partitions"]] == [4, 5]
    await eventually(lambda: is_whole(daemons, 6), what="six partitions with leaders")

    too_late = await typed(daemons, "partitions", "reassign", "throttle", "1MiB", "--yes")
    assert (too_late.exit_code, "no reassignment" in too_late.stderr) == (1, True)
    whole = await typed(daemons, "partitions", "adopt", "orders", "--yes")
    assert (whole.exit_code, "orders" in whole.output) == (1, True)

    deleted = await output_of(daemons, "partitions", "delete", "orders", "--yes", at=2)
    assert deleted["result"] == "deleting"

    async def is_gone() -> bool:
        return not await output_of(daemons, "partitions", "list")

    await eventually(is_gone, what="the topic is gone")
    await eventually(lambda: is_unknown(daemons), what="no client is sent there")


async def is_whole(daemons: ReplicatedDaemons, partitions: int) -> bool:
    found = [await daemons.led(TopicPartition("orders", number)) for number in range(partitions)]
    return all(led is not None and led["address"] is not None for led in found)


async def is_unknown(daemons: ReplicatedDaemons) -> bool:
    return await daemons.led(TopicPartition("orders", 0), at=3) is None


@pytest.mark.slow
async def test_clients_learn_another_leader_when_one_dies_and_the_first_when_it_is_back(
    daemons: ReplicatedDaemons,
) -> None:
    partition = TopicPartition("orders", 0)
    # The controller is not the broker that dies.
    controller = (await output_of(daemons, "controller", "show"))["broker"]
    first, second = (broker for broker in daemons.by_id if broker != controller)
    lists = ["--replicas", f"0:{first},{second}"]
    await output_of(daemons, "partitions", "create", "orders", *lists, "--yes", at=controller)
    before = await daemons.wait_led(partition, first, (first, second), at=controller)

    await daemons.by_id[first].kill()
    after = await daemons.wait_led(partition, second, (second,), at=controller)
    assert after["leader_epoch"] > before["leader_epoch"]
    assert after["address"] == daemons.address(second)
    behind = await output_of(daemons, "elect", "preferred", "--yes", at=controller)
    assert behind["result"] == "nothing"

    unclean = await output_of(daemons, "elect", "unclean", "orders-0", "--dry-run", at=controller)
    assert unclean["result"] == "nothing"

    await daemons.by_id[first].start()
    await daemons.wait_led(partition, second, (first, second), at=controller)
    elected = await output_of(daemons, "elect", "preferred", "orders-0", "--yes", at=controller)
    assert [(row["before"], row["leader"]) for row in elected["partitions"]] == [(second, first)]
    back = await daemons.wait_led(partition, first, at=second)
    assert back["leader_epoch"] > after["leader_epoch"]
