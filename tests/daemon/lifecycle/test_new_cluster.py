"""A mistyped chroot ends the start, one for a new cluster does not: on real servers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from broker_ctl.coordination.membership.cluster import FoundCluster, find_clusters
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.time.waiting import PATIENCE_S
from tests.support.zookeeper.ensemble import SharedEnsemble

TICK = {"zookeeperTickTimeMillis": "500", "metadataStoreSessionTimeoutMillis": "4000"}
NAME = b'{"version":1,"name":"prod"}'


@pytest.fixture
def client(zookeeper: SharedEnsemble) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.connect_string)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def prod(client: KazooClient, chroot: str) -> str:
    """The chroot in which the cluster of that name lives."""
    client.create(f"{chroot}/right/broker-ctl/cluster", NAME, makepath=True)
    return f"{chroot}/right"


@asynccontextmanager
async def started(directory: Path, url: str, name: str) -> AsyncIterator[DaemonProcess]:
    settings = {"metadataStoreUrl": url, "clusterName": name, **TICK}
    daemon = DaemonProcess(directory, 1, settings)
    await daemon.start()
    try:
        yield daemon
    finally:
        if daemon.is_running:
            await daemon.kill()
        daemon.release_ports()


def log_of(daemon: DaemonProcess) -> str:
    return daemon.files.log.read_text(encoding="utf-8")


async def test_a_daemon_in_a_wrong_chroot_names_the_chroot_of_its_cluster(
    zookeeper: SharedEnsemble, client: KazooClient, chroot: str, prod: str, tmp_path: Path
) -> None:
    hosts, wrong = f"zk:{zookeeper.connect_string}", f"{chroot}/rihgt"
    # As often as it is started: the first leaves nothing that would look like a cluster.
    for _ in range(2):
        async with started(tmp_path, f"{hosts}{wrong}", "prod") as daemon:
            async with asyncio.timeout(PATIENCE_S):
                assert await daemon.wait() == 1, log_of(daemon)
            log = log_of(daemon)
        assert f"metadataStoreUrl={hosts}{wrong}: there is no cluster in {wrong}" in log
        assert f"{hosts}{prod} is that one" in log
        assert "Traceback" not in log
        assert client.exists(f"{wrong}/broker-ctl/cluster") is None
        assert client.exists(f"{wrong}/loadbalance") is None
        leases = f"{wrong}/broker-ctl/leases"
        assert not client.exists(leases) or client.get_children(leases) == []


async def test_a_cluster_with_a_name_of_its_own_begins_and_the_others_are_named(
    zookeeper: SharedEnsemble, chroot: str, prod: str, tmp_path: Path
) -> None:
    url = f"zk:{zookeeper.connect_string}{chroot}/new"
    async with (
        started(tmp_path, url, "test") as daemon,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=65_536) as http,
    ):
        await daemon.wait_ready(http, PATIENCE_S)
        begins = f"WARNING daemon.lifecycle.serving: a new cluster, test, begins in {chroot}/new"
        assert begins in log_of(daemon)
        assert f"prod in {prod}" in log_of(daemon)
        await daemon.stop()
        before = log_of(daemon)
        await daemon.start()
        await daemon.wait_ready(http, PATIENCE_S)
        assert "a new cluster" not in log_of(daemon).removeprefix(before), "it is there by now"


async def test_a_second_cluster_of_the_name_begins_where_the_name_was_written(
    zookeeper: SharedEnsemble, client: KazooClient, chroot: str, prod: str, tmp_path: Path
) -> None:
    client.create(f"{chroot}/new/broker-ctl/cluster", NAME, makepath=True)
    async with (
        started(tmp_path, f"zk:{zookeeper.connect_string}{chroot}/new", "prod") as daemon,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=65_536) as http,
    ):
        await daemon.wait_ready(http, PATIENCE_S)
    assert prod not in log_of(daemon)


async def test_clusters_are_found_by_name_or_by_their_brokers(
    zookeeper: SharedEnsemble, client: KazooClient, chroot: str, prod: str
) -> None:
    client.create(f"{chroot}/broken/broker-ctl/cluster", b"{", makepath=True)
    client.create(f"{chroot}/java/loadbalance/brokers/b:8080", makepath=True)
    client.create(f"{chroot}/java/admin/clusters/east", makepath=True)
    client.create(f"{chroot}/configuration/admin/clusters/east", makepath=True)
    store = ZooKeeperStore(StoreOptions(zookeeper.connect_string))
    await store.start()
    try:
        found = await find_clusters(store)
    finally:
        await store.close()
    assert [one for one in found if one.chroot.startswith(f"{chroot}/")] == [
        FoundCluster(f"{chroot}/broken", ()),
        FoundCluster(f"{chroot}/java", ("east",)),
        FoundCluster(prod, ("prod",)),
    ]
