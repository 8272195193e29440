"""ZooKeeper is gone, for a while or for good."""

import asyncio

from broker_ctl.daemon.lifecycle import exits
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from tests.end_to_end.conftest import NewCluster


async def test_with_a_limit_the_daemon_ends_with_a_code_of_its_own(
    new_cluster: NewCluster,
) -> None:
    with reserve_port() as nobody_listens:
        cluster = new_cluster(
            1,
            metadataStoreUrl=f"zk:127.0.0.1:{port_of(nobody_listens)}",
            metadataStoreSessionTimeoutMillis="4000",
            zookeeperSessionReconnectMaxRetries="3",
        )
        async with cluster as daemons:
            only = daemons.all[0]
            async with asyncio.timeout(60):
                assert await only.wait() == exits.RETRIES_USED_UP
            assert "zookeeperSessionReconnectMaxRetries" in only.files.log.read_text()
