"""``broker-ctl attach`` beside a played Pulsar cluster, over a real ZooKeeper."""

import asyncio
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.clusters.attached import QUICK
from tests.support.clusters.foreign_cluster import DYNAMIC, ForeignCluster, foreign_cluster
from tests.support.rules.json_units import out_of_system
from tests.support.zookeeper.ensemble import SharedEnsemble

Served = tuple[ForeignCluster, str]


@pytest.fixture
async def served(zookeeper: SharedEnsemble, chroot: str) -> AsyncIterator[Served]:
    """The cluster, and where its metadata are."""
    options = StoreOptions(zookeeper.connect_string, chroot=chroot)
    async with foreign_cluster(connect=lambda _: ZooKeeperStore(options)) as cluster:
        yield cluster, f"{zookeeper.connect_string}{chroot}"


async def attach(served: Served, *options: str) -> Result:
    """Run to its end, in a thread: the cluster is played in this one."""
    cluster, zookeeper = served
    at = ["attach", "--zookeeper", zookeeper, "--admin", cluster.urls[1]]
    return await asyncio.to_thread(CliRunner().invoke, main, [*at, *options])


async def test_once_shows_a_plan_and_says_by_its_exit_code_that_there_is_one(
    served: Served,
) -> None:
    cluster, _ = served
    cluster.running[DYNAMIC[0]], before = "true", await cluster.tree()
    found = await attach(served, "--once")
    assert found.exit_code == 3, found.output
    assert "cluster played: 3 brokers, 12 bundles" in found.output
    assert "transfer" in found.output
    assert re.search(r"max over mean throughput +2\.50 -> ", found.output)
    command = "pulsar-admin brokers update-dynamic-config"
    assert f"{command} --config loadBalancerSheddingEnabled --value false" in found.output
    assert await cluster.tree() == before
    assert await cluster.store.exists("/broker-ctl") is None
    assert cluster.asked == []


async def test_once_ends_with_0_where_there_is_nothing_to_be_done(served: Served) -> None:
    cluster, _ = served
    first, *others = cluster.brokers
    for number, bundle in enumerate(sorted(first.owned)[:6]):
        await cluster.release(first, bundle)
        await cluster.take(others[number % 2], bundle)
    await cluster.report()
    found = await attach(served, "--once", "--output", "json", "--set", f"{DYNAMIC[1]}=false")
    assert found.exit_code == 0, found.output
    seen = json.loads(found.output)
    assert seen["throughput_imbalance"] == pytest.approx(1.0)
    assert seen["plan"]["decisions"] == []
    assert seen["cluster_balancer"] == []
    assert seen["console_url"] == f"{seen['url']}/ui/"
    assert list(out_of_system(seen)) == []


async def test_once_ends_with_4_and_the_reason_while_the_metadata_are_migrated(
    served: Served,
) -> None:
    cluster, zookeeper = served
    await cluster.migrate("COMPLETED")
    found = await attach(served, "--once")
    assert found.exit_code == 4, found.output
    why = "the cluster has migrated its metadata to oxia://oxia:6648/pulsar"
    assert f"held back: {why}" in found.output
    found = await attach(served, "--once", "--output", "json")
    assert found.exit_code == 4, found.output
    assert json.loads(found.output)["metadata_outdated"]["cause"] == "migration"
    for broker in cluster.brokers:
        await broker.store.delete(f"/loadbalance/brokers/{broker.broker_id}")
    found = await attach(served, "--once")
    assert found.exit_code == 1
    assert f"no broker is registered at {zookeeper}" in found.output
    assert why in " ".join(found.output.split())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ("--once", "--set", "loadBalancerSheddingEnabeld=false"),
            "--set: loadBalancerSheddingEnabeld",
        ),
        (
            ("--once", "--cluster", "other"),
            "clusterName=other is not one of the clusters in /admin/clusters",
        ),
        (("--once", "--act"), "--once excludes"),
        (("--disable-cluster-balancer",), "--disable-cluster-balancer requires --act"),
    ],
)
async def test_contradicting_options_are_rejected(
    served: Served, options: tuple[str, ...], expected: str
) -> None:
    found = await attach(served, *options)
    assert found.exit_code in {1, 2}
    assert expected in found.output


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [("/rihgt", "no {wrong}; clusters"), ("", "{wrong} has right; clusters")],
)
async def test_a_chroot_without_brokers_is_reported_with_its_nodes_and_the_clusters_elsewhere(
    zookeeper: SharedEnsemble, chroot: str, wrong: str, expected: str
) -> None:
    store = ZooKeeperStore(StoreOptions(zookeeper.connect_string, chroot=f"{chroot}/right"))
    await store.start()
    await store.create("/admin/clusters/played", make_parents=True)
    await store.create("/loadbalance/brokers/b:8080", make_parents=True)
    await store.close()
    at = f"{chroot}{wrong}"
    options = ["attach", "--zookeeper", zookeeper.connect_string + at]
    options += ["--admin", "http://127.0.0.1:1", "--once"]
    found = await asyncio.to_thread(CliRunner().invoke, main, options)
    assert found.exit_code == 1
    assert f"no broker is registered at {zookeeper.connect_string}{at}" in found.output
    said = " ".join(found.output.split())
    assert expected.format(wrong=at) in said
    assert f"played in {chroot}/right" in said


async def test_it_quiets_the_cluster_acts_on_it_and_puts_its_settings_back(
    served: Served,
) -> None:
    cluster, zookeeper = served
    cluster.running[DYNAMIC[0]] = cluster.running[DYNAMIC[1]] = "true"
    cluster.overrides[DYNAMIC[1]] = "true"
    options = ["--act", "--disable-cluster-balancer", "--yes", "--output", "json", "--for", "60"]
    options += [word for setting in QUICK for word in ("--set", setting)]
    command = (sys.executable, "-m", "broker_ctl", "attach", "--zookeeper", zookeeper)
    process = await asyncio.create_subprocess_exec(
        *command, "--admin", cluster.urls[0], *options, stdout=PIPE, stderr=PIPE
    )
    assert process.stdout is not None
    seen: dict[str, Any] = {}
    async for line in process.stdout:
        seen = json.loads(line)
        if seen["plan"] and not seen["moves"] and seen["throughput_imbalance"] < 1.01:
            break
    assert cluster.overrides == {DYNAMIC[0]: "false", DYNAMIC[1]: "false"}
    process.send_signal(signal.SIGINT)
    _, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
    assert [len(broker.owned) for broker in cluster.brokers] == [4, 4, 4]
    assert seen["unloads"] == len(cluster.asked)
    assert cluster.overrides == {DYNAMIC[1]: "true"}
    assert b"delete-dynamic-config --config loadBalancerSheddingEnabled" in stderr
