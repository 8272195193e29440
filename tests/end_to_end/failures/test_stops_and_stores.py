import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import look_up, make_namespace
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPICS = [Topic("persistent", Namespace("public", "default"), f"t-{n}") for n in range(12)]
ROOT = "/namespace/public/default"


@contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=hosts)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def owners(hosts: str) -> dict[str, int]:
    """Session that owns each bundle."""
    with connected(hosts) as client:
        names = client.get_children(ROOT) if client.exists(ROOT) else []
        stats = {name: client.exists(f"{ROOT}/{name}") for name in names}
        return {name: stat.ephemeralOwner for name, stat in stats.items() if stat is not None}


async def test_a_stop_hands_everything_over_and_leaves_no_node(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    async with new_cluster(2, loadBalancerSheddingEnabled="false") as daemons:
        await daemons.wait_ready(http)
        one, other = daemons.all
        await make_namespace(http, one)
        for topic in TOPICS:
            await eventually(partial(look_up, http, one, topic), what=f"an owner of {topic}")
        one.signal(signal.SIGTERM)
        assert await one.wait() == 0

        with connected(zookeeper.connect_string + chroot) as client:
            assert client.get_children("/loadbalance/brokers") == [other.broker_id]
            assert client.get_children("/broker-ctl/brokers") == [other.broker_id]
            registered = client.exists(f"/broker-ctl/brokers/{other.broker_id}")
        # Nobody waits for a session to expire.
        left = await asyncio.to_thread(owners, zookeeper.connect_string + chroot)
        assert registered is not None
        assert set(left.values()) <= {registered.ephemeralOwner}
        for topic in TOPICS:
            answer = await eventually(
                partial(look_up, http, other, topic), what=f"an owner of {topic}"
            )
            assert answer["brokerId"] == other.broker_id


async def test_a_restart_with_stop_mode_keep_moves_nothing(
    new_cluster: NewCluster,
    http: HttpClient,
    zookeeper: SharedEnsemble,
    chroot: str,
    tmp_path: Path,
) -> None:
    hosts = zookeeper.connect_string + chroot
    kept = {"stopMode": "keep", "sessionDirectory": str(tmp_path / "session")}
    kept["loadBalancerAutoBundleSplitEnabled"] = "false"
    # A start takes long on a busy machine, and the session is to be there still.
    kept["metadataStoreSessionTimeoutMillis"] = "60000"
    async with new_cluster(1, **kept) as daemons:
        await daemons.wait_ready(http)
        only = daemons.all[0]
        await make_namespace(http, only)
        for topic in TOPICS:
            await eventually(partial(look_up, http, only, topic), what=f"an owner of {topic}")
        before = await asyncio.to_thread(owners, hosts)
        only.signal(signal.SIGTERM)
        assert await only.wait() == 0
        saved = tmp_path / "session" / "zookeeper-session.json"
        assert saved.stat().st_mode & 0o777 == 0o600
        assert await asyncio.to_thread(owners, hosts) == before

        await only.start()
        await only.wait_ready(http)

        assert await asyncio.to_thread(owners, hosts) == before
        assert not saved.exists()
        assert (await look_up(http, only, TOPICS[0]))["brokerId"] == only.broker_id


async def test_policies_live_in_the_configuration_store_and_nothing_else_does(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    url = f"zk:{zookeeper.connect_string}{chroot}/configuration"
    async with new_cluster(1, configurationMetadataStoreUrl=url) as daemons:
        await daemons.wait_ready(http)
        only = daemons.all[0]
        await make_namespace(http, only)
        await eventually(partial(look_up, http, only, TOPICS[0]), what="an owner")

        with connected(zookeeper.connect_string + chroot) as client:
            assert client.exists("/configuration/admin/policies/public/default") is not None
            assert client.exists("/admin/policies") is None
            assert client.exists("/admin/local-policies/public/default") is not None
            assert client.get_children("/configuration") == ["admin"]
            assert client.get_children("/configuration/admin") == ["policies"]
