"""The ZooKeeper server that a daemon is connected to dies."""

import asyncio
from functools import partial
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from tests.support.daemon.running_daemons import look_up, make_namespace, status
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPICS = [Topic("persistent", Namespace("public", "default"), f"t-{n}") for n in range(20)]
ROOT = "/namespace/public/default"


def server_port_of(daemon: DaemonProcess, ports: set[int]) -> int:
    """The port of the server that a daemon is connected to."""
    for connection in psutil.Process(daemon.pid).net_connections("tcp"):
        established = connection.status == psutil.CONN_ESTABLISHED
        if established and connection.raddr.port in ports:
            return int(connection.raddr.port)
    raise AssertionError("not connected")


def owner_nodes(client: KazooClient) -> dict[str, tuple[int, int]]:
    """Identity of every owner node."""
    nodes = {}
    for name in client.get_children(ROOT):
        stat = client.exists(f"{ROOT}/{name}")
        assert stat is not None
        nodes[name] = (stat.czxid, stat.ephemeralOwner)
    return nodes


@pytest.mark.slow
async def test_no_bundle_changes_its_owner(
    ensemble3: SharedEnsemble, http: HttpClient, tmp_path: Path
) -> None:
    url = f"zk:{ensemble3.connect_string}/server-death"
    client = KazooClient(hosts=f"{ensemble3.connect_string}/server-death")
    settings = {"metadataStoreUrl": url, **SETTINGS, "loadBalancerSheddingEnabled": "false"}
    settings["loadBalancerAutoBundleSplitEnabled"] = "false"
    async with Daemons(tmp_path, 2, settings) as daemons:
        await daemons.wait_ready(http)
        await make_namespace(http, daemons.all[0])
        for topic in TOPICS:
            await eventually(partial(look_up, http, daemons.all[0], topic))
        await asyncio.to_thread(client.start)
        try:
            before = await asyncio.to_thread(owner_nodes, client)
            assert len(before) == 4
            ports = {server.client_port for server in ensemble3.servers}
            for daemon in daemons.all:
                port = server_port_of(daemon, ports)
                victim = next(one for one in ensemble3.servers if one.client_port == port)
                await victim.kill()

                async def is_back(daemon: DaemonProcess = daemon) -> bool:
                    return (await status(http, daemon)).get("session", {}).get("state") == (
                        "connected"
                    ) and bool(await look_up(http, daemon, TOPICS[0]))

                await eventually(is_back, what=f"{daemon.broker_id} at work again")
                await victim.restart()
            assert await asyncio.to_thread(owner_nodes, client) == before
        finally:
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)
