"""What operators and strangers get wrong: each is a clear error, and nothing is lost."""

import asyncio
import socket
import sys
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from tests.end_to_end.conftest import NewCluster
from tests.support.clusters.tenants import make_tenant
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPIC = Topic("persistent", Namespace("public", "default"), "topic-100")
SECRET = "a-secret-of-the-operators"


async def run_daemon(*arguments: str) -> tuple[int, str]:
    """`broker-ctl run` until it ends by itself; its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker_ctl", "run", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_every_fault_of_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(
        "metadataStoreUrl=zk:localhost:2181\n"
        "webServicePort=eighty\n"
        "no equals sign\n"
        "loadBalancerSheddingIntervalMinuts=1\n"
    )

    code, said = await run_daemon("-c", str(path))

    assert code == 1
    for line, word in ((2, "webServicePort"), (3, "="), (4, "IntervalMinutes")):
        assert f"{path}:{line}" in said
        assert word in said


async def test_a_port_in_use_is_named(zookeeper: SharedEnsemble, chroot: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        code, said = await run_daemon(
            "--set", f"metadataStoreUrl=zk:{zookeeper.connect_string}{chroot}",
            "--set", f"webServicePort={port}",
        )  # fmt: skip

    assert code == 1
    assert f"127.0.0.1 port {port}" in said
    assert "webServicePort" in said


async def test_a_listener_off_loopback_without_authentication_is_refused() -> None:
    code, said = await run_daemon(
        "--set", "metadataStoreUrl=zk:localhost:2181", "--set", "bindAddress=0.0.0.0"
    )

    assert code == 1
    assert "allowInsecureListener" in said


async def test_an_ignored_restriction_and_tokens_in_the_clear_are_refused_together(
    tmp_path: Path,
) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(
        "metadataStoreUrl=zk:localhost:2181\n"
        "httpMaxRequestSize=65536\n"
        "bindAddress=0.0.0.0\n"
        "authenticationEnabled=true\n"
        f"tokenSecretKeyFile={tmp_path}/tokens\n"
    )

    code, said = await run_daemon("-c", str(path))

    assert code == 1
    assert f"{path}:2: httpMaxRequestSize: restricts" in said
    assert "webServicePort=8080: tokens would cross the network in the clear" in said
    assert "allowCleartextCredentials=false" in said


async def test_serving_on_without_a_lease_needs_a_storage_that_refuses_old_owners(
    zookeeper: SharedEnsemble, chroot: str
) -> None:
    code, said = await run_daemon(
        "--set", f"metadataStoreUrl=zk:{zookeeper.connect_string}{chroot}",
        "--set", f"webServicePort={free_port()}",
        "--set", "ownershipAuthority=storage",
    )  # fmt: skip

    assert code == 1
    assert "ownershipAuthority=storage" in said


async def test_an_unknown_host_is_said_on_readyz_and_in_the_log(
    new_cluster: NewCluster, http: HttpClient
) -> None:
    cluster = new_cluster(
        1, metadataStoreUrl="zk:no-such-host.invalid:2181", allowOpenMetadataStore="true"
    )
    async with cluster as daemons:
        only = daemons.all[0]

        async def says_why() -> bool:
            reply = await http.request("GET", f"{only.url}/readyz")
            return reply.status == 503 and b"ZooKeeper" in reply.body

        async def answers() -> bool:
            return "serving HTTP" in only.files.log.read_text()

        await eventually(answers, what="the API")
        await eventually(says_why, what="/readyz with its reason")
        await eventually(lambda: "no-such-host.invalid" in only.files.log.read_text())
        assert only.is_running


async def test_a_twin_with_the_same_broker_id_is_refused_and_the_first_serves_on(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    async with new_cluster(1, metadataStoreSessionTimeoutMillis="4000") as daemons:
        await daemons.wait_ready(http)
        only = daemons.all[0]
        await make_namespace(http, only)
        await eventually(partial(look_up, http, only, TOPIC), what="an owner")

        # Another machine that was given the same advertised address: another port to listen on.
        code, said = await run_daemon(
            "-c", str(only.files.configuration),
            "--set", "bindAddress=127.0.0.2",
            "--set", "advertisedAddress=127.0.0.1",
            "--set", "simulatedActLog=",
        )  # fmt: skip

        assert code == 1
        assert f"broker id {only.broker_id} is in use" in said
        assert (await look_up(http, only, TOPIC))["brokerId"] == only.broker_id


async def test_corrupt_nodes_are_skipped_counted_and_logged(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    async with new_cluster(1) as daemons:
        await daemons.wait_ready(http)
        only = daemons.all[0]
        await make_namespace(http, only)
        await eventually(lambda: leader_of(http, daemons.all), what="a leader")
        client = KazooClient(hosts=zookeeper.connect_string + chroot)
        await asyncio.to_thread(client.start)
        try:
            for path in (
                "/loadbalance/brokers/10.0.0.1:8080",
                "/broker-ctl/brokers/10.0.0.1:8080",
                "/broker-ctl/moves/nonsense",
                "/admin/local-policies/public/broken",
                "/loadbalance/bundle-data/public/default/0x00000000_0x40000000",
            ):
                await asyncio.to_thread(client.create, path, b"{not json", makepath=True)
        finally:
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)

        broken = Topic("persistent", Namespace("public", "broken"), "x")
        reply = await http.request(
            "GET", f"{only.url}/lookup/v2/topic/persistent/{broken.namespace}/x"
        )
        assert reply.status >= 500
        assert b"reason" in reply.body
        await eventually(partial(look_up, http, only, TOPIC), what="an owner nevertheless")
        for word in ("10.0.0.1:8080", "nonsense", "public/broken"):
            await eventually(partial(is_logged, only, word), what=f"a word on {word}")
        metrics = await http.request("GET", f"{only.url}/metrics")
        counted = [
            float(line.rpartition(" ")[2])
            for line in metrics.body.decode().splitlines()
            if line.startswith("broker_ctl_corrupt_nodes_total{")
        ]
        assert sum(counted) >= 3
        assert only.is_running


async def test_a_bad_request_gets_a_status_and_a_reason(
    new_cluster: NewCluster, http: HttpClient
) -> None:
    async with new_cluster(1) as daemons:
        await daemons.wait_ready(http)
        for path, status in (
            ("/lookup/v2/topic/persistent/public/default/a%00b", 412),
            ("/lookup/v2/topic/volatile/public/default/x", 412),
            ("/lookup/v2/topic/persistent/public/no-such-namespace/x", 404),
            ("/lookup/v2/topic/persistent/prop/cluster/ns/x", 412),
            ("/admin/v2/namespaces/public/no-such-namespace/bundles", 404),
        ):
            reply = await http.request("GET", daemons.all[0].url + path)
            assert (path, reply.status) == (path, status)
            assert reply.json()["reason"]


async def test_a_wrong_token_and_an_oversized_body_change_nothing(
    new_cluster: NewCluster, http: HttpClient, tmp_path: Path
) -> None:
    secret_file = tmp_path / "secret"
    secret_file.write_text(f"admin:{SECRET}\n")
    cluster = new_cluster(
        2,
        authenticationEnabled="true",
        tokenSecretKeyFile=str(secret_file),
        superUserRoles="admin",
    )
    async with (
        cluster as daemons,
        HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as operator,
        HttpClient(token="x" * 32, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as stranger,
    ):
        await daemons.wait_ready(http)
        url = f"{daemons.all[0].url}/admin/v2/namespaces/public/default"
        assert (await http.request("PUT", url)).status == 401
        assert (await stranger.request("PUT", url)).status == 401
        big = b'{"bundles":{"boundaries":["' + b"0" * (2 << 20) + b'"]}}'
        assert (await operator.request("PUT", url, content=big)).status == 413
        assert (await operator.request("PUT", url, content=b"{nonsense")).status == 400
        assert (await http.request("GET", f"{url}/bundles")).status == 401
        assert (await operator.request("GET", f"{url}/bundles")).status == 404
        await make_tenant(operator, daemons.all[0].url, "public")
        assert (await operator.request("PUT", url)).status == 204
        # Peers show the same secret: a transfer goes through both brokers' control API.
        first = await eventually(partial(look_up, operator, daemons.all[0], TOPIC))
        other = next(d for d in daemons.all if d.broker_id != first["brokerId"])
        bundle = await operator.request(
            "GET",
            f"{daemons.all[0].url}/lookup/v2/topic/persistent/{TOPIC.namespace}/{TOPIC.local}/bundle",
        )
        step = f"{url}/{bundle.body.decode()}/unload?destinationBroker={other.broker_id}"
        moved = await operator.request("PUT", step)
        # The secret does not follow a redirect to another origin by itself.
        while moved.status == 307:
            moved = await operator.request("PUT", moved.headers["Location"])
        assert moved.status == 204, moved.body
        assert (await look_up(operator, other, TOPIC))["brokerId"] == other.broker_id
        assert not any(is_logged(daemon, SECRET) for daemon in daemons.all)


def is_logged(daemon: DaemonProcess, word: str) -> bool:
    return word in daemon.files.log.read_text()
