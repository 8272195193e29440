"""A real cluster whose operators have ports of their own; one broker is configured as before."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from click.testing import CliRunner, Result

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.cli.main import main
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from tests.support.clusters.tenants import make_tenant
from tests.support.daemon.own_settings import OwnSettings
from tests.support.daemon.running_daemons import NAMESPACE, look_up
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPIC = Topic("persistent", Namespace("public", "default"), "orders")
SETTLED = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false"}
SEPARATED = 2


@dataclass
class Cluster:
    """Three daemons, of which two have ports for administration and metrics."""

    daemons: Sequence[DaemonProcess]
    admin: list[str]
    metrics: list[str]
    http: HttpClient

    async def status(self, method: str, url: str) -> tuple[int, str]:
        reply = await self.http.request(method, url, allow_redirects=method == "GET")
        return reply.status, reply.body.decode()

    async def is_complete(self) -> bool:
        """Whether the brokers serve, and know each other."""
        try:
            for daemon in self.daemons:
                if (await self.http.request("GET", f"{daemon.url}/readyz")).status != 200:
                    return False
            for url in (*self.admin, self.daemons[2].url):
                reply = await self.http.request("GET", f"{url}/admin/v2/brokers")
                if len(reply.json()) != len(self.daemons):
                    return False
        except HttpError:
            return False
        url = f"{self.admin[0]}/control/v1/cluster"
        return (await self.http.request("GET", url, allow_redirects=True)).status == 200

    async def put(self, url: str) -> int:
        """Send a change, and send it again wherever a broker redirects it."""
        while True:
            reply = await self.http.request("PUT", url)
            if reply.status != 307:
                return reply.status
            url = reply.headers["Location"]

    async def owner(self) -> str:
        found = await eventually(
            partial(look_up, self.http, self.daemons[0], TOPIC), what="an owner"
        )
        return str(found["brokerId"])


@asynccontextmanager
async def running(
    zookeeper: SharedEnsemble, chroot: str, directory: Path
) -> AsyncIterator[Cluster]:
    store = {"metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}"}
    with ExitStack() as held:
        ports = [port_of(held.enter_context(reserve_port())) for _ in range(2 * SEPARATED)]
        admin, metrics = ports[:SEPARATED], ports[SEPARATED:]
        own = [
            {"adminServicePort": str(one), "metricsServicePort": str(other)}
            for one, other in zip(admin, metrics, strict=True)
        ]
        async with (
            OwnSettings(directory, SETTINGS | SETTLED | store, [*own, {}]) as daemons,
            HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        ):
            cluster = Cluster(
                daemons.all,
                [f"http://127.0.0.1:{port}" for port in admin],
                [f"http://127.0.0.1:{port}" for port in metrics],
                http,
            )
            await eventually(cluster.is_complete, what="three brokers")
            yield cluster


async def test_brokers_command_each_other_at_their_admin_ports(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with running(zookeeper, chroot, tmp_path) as cluster:
        first = cluster.daemons[0]
        await make_tenant(cluster.http, cluster.admin[0], "public")
        url = f"{cluster.admin[0]}/admin/v2/namespaces/{NAMESPACE}"
        assert (await cluster.http.request("PUT", url, json={})).status == 204
        step = f"{TOPIC.domain}/{TOPIC.namespace}/{TOPIC.local}"
        bundle = (await cluster.status("GET", f"{first.url}/lookup/v2/topic/{step}/bundle"))[1]
        await cluster.owner()
        unload = f"/admin/v2/namespaces/{NAMESPACE}/{bundle}/unload"
        # The leader sends commands to brokers of both kinds, from whichever broker it is asked.
        for receiver in cluster.daemons:
            for asked in (cluster.admin[0], cluster.admin[1], cluster.daemons[2].url):
                target = f"{asked}{unload}?destinationBroker={receiver.broker_id}"
                assert await cluster.put(target) == 204
            assert await cluster.owner() == receiver.broker_id
            # Redirected to the owner.
            assert await cluster.put(cluster.daemons[2].url + unload) == 204
            await cluster.owner()

        for daemon, admin, metrics in zip(
            cluster.daemons, cluster.admin, cluster.metrics, strict=False
        ):
            status, reason = await cluster.status("PUT", daemon.url + unload)
            assert (status, admin.rpartition(":")[2] in reason) == (403, True), reason
            status, text = await cluster.status("GET", f"{metrics}/metrics")
            assert (status, "broker_ctl_" in text) == (200, True)
            assert (await cluster.status("GET", f"{daemon.url}/metrics"))[0] == 403
            for url in (daemon.url, admin, metrics):
                assert (await cluster.status("GET", f"{url}/readyz"))[0] == 200


async def test_the_command_line_says_which_port_to_use(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with running(zookeeper, chroot, tmp_path) as cluster:
        for url, code in ((cluster.daemons[0].url, 1), (cluster.admin[0], 0)):
            done = await _run("brokers", "list", "--url", url)
            assert done.exit_code == code, done.output
            assert ("(adminServicePort)" in done.output) is (code == 1)


async def _run(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, list(arguments))
