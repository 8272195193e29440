"""Brokers prove their ids to each other with certificates: who is registered falsely gets nothing.

Real daemons on a real ZooKeeper that everybody can write, and listeners at 127.0.0.2.
"""

import asyncio
import base64
import json
import re
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from kazoo.client import KazooClient

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.settings.conditions import TLS_PROVIDER, TOKEN_PROVIDER
from broker_ctl.store import paths
from tests.support.daemon.running_daemons import (
    NAMESPACE,
    leader_of,
    look_up,
    make_namespace,
)
from tests.support.security.authority import Authority, Issued
from tests.support.security.listener import HOST, Listener, listening
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

# Brokers share no secret: tokens are verified with a public key.
KEY = ec.generate_private_key(ec.SECP256R1())
TOKEN = jwt.encode({"sub": "admin"}, KEY, "ES256")
REFUSED = r'broker_ctl_peer_addresses_refused_total\{.*source="registration"\} (\S+)'
TOPIC = Topic("persistent", Namespace("public", "default"), "orders")
CLUSTER = "prod"


@dataclass
class Cluster:
    """Two daemons whose requests to each other have certificates, and no signature."""

    daemons: Daemons
    authority: Authority
    attacker: KazooClient
    http: HttpClient

    async def leader(self) -> DaemonProcess:
        found, _ = await eventually(partial(leader_of, self.http, self.daemons.all))
        return found

    async def move(self, to: str) -> None:
        """Have the leader command a broker to acquire a bundle."""
        leader = await self.leader()
        step = f"{TOPIC.domain}/{TOPIC.namespace}/{TOPIC.local}"
        url = f"{leader.url}/lookup/v2/topic/{step}/bundle"
        bundle = (await self.http.request("GET", url)).body.decode()
        target = f"{NAMESPACE}/{bundle}/unload?destinationBroker={to}"
        with suppress(HttpError):
            await self.http.request(
                "PUT", f"{leader.url}/admin/v2/namespaces/{target}", timeout_s=2.0
            )

    async def owner(self) -> str:
        found = await eventually(
            partial(look_up, self.http, self.daemons.all[0], TOPIC), what="an owner"
        )
        return str(found["httpUrl"])

    def register(self, listener: Listener) -> None:
        """Put a broker of the attacker's beside the others, at the listener."""
        data, _ = self.attacker.get(paths.registration(self.daemons.all[0].broker_id))
        row = json.loads(data) | {
            "brokerId": listener.broker_id,
            "webUrl": None,
            "webUrlTls": listener.url,
            "nonce": "0" * 32,
        }
        self.attacker.create(
            paths.registration(listener.broker_id), json.dumps(row).encode(), ephemeral=True
        )


def server_context(files: Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return context


@pytest.fixture
async def cluster(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path, attacker: KazooClient
) -> AsyncIterator[Cluster]:
    async with running(f"{zookeeper.connect_string}{chroot}", tmp_path, attacker) as found:
        yield found


@asynccontextmanager
async def running(
    store: str,
    tmp_path: Path,
    attacker: KazooClient,
    own: Callable[[int], dict[str, str]] = lambda _: {},
    **more: str,
) -> AsyncIterator[Cluster]:
    """Two daemons; ``own`` are settings of one by its number."""
    authority = Authority(tmp_path / "ca", CLUSTER)
    public = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    settings = {
        **SETTINGS,
        "clusterName": CLUSTER,
        "metadataStoreUrl": f"zk:{store}",
        "authenticationEnabled": "true",
        "authenticationProviders": f"{TOKEN_PROVIDER},{TLS_PROVIDER}",
        "tokenPublicKey": f"data:;base64,{base64.b64encode(public).decode()}",
        "tokenPublicAlg": "ES256",
        "superUserRoles": "admin",
        "brokerClientTlsEnabled": "true",
        "brokerClientTrustCertsFilePath": str(authority.path),
        "tlsTrustCertsFilePath": str(authority.path),
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
        **more,
    }
    with ExitStack() as held:

        def of_each(number: int) -> dict[str, str]:
            files = [str(tmp_path / "ca" / f"b-{number}.{kind}") for kind in ("pem", "key")]
            return {
                "webServicePortTls": str(port_of(held.enter_context(reserve_port()))),
                "tlsCertificateFilePath": files[0],
                "tlsKeyFilePath": files[1],
                "brokerClientCertificateFilePath": files[0],
                "brokerClientKeyFilePath": files[1],
                **own(number),
            }

        daemons = Daemons(tmp_path / "d", 2, settings, of_each)
        for number, daemon in enumerate(daemons.all, start=1):
            authority.broker(f"b-{number}", daemon.broker_id)
        async with (
            HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
            daemons,
        ):
            await daemons.wait_ready(http)
            await make_namespace(http, daemons.all[0])
            yield Cluster(daemons, authority, attacker, http)


async def test_brokers_command_each_other_and_a_falsely_registered_one_gets_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    owner = await cluster.owner()
    other = next(one for one in cluster.daemons.all if one.url != owner)
    await cluster.move(other.broker_id)

    async def is_moved() -> bool:
        return await cluster.owner() == other.url

    await eventually(is_moved, what="the move to the other broker")
    await assert_clients_have_the_roles_of_their_certificates(cluster)
    foreign = Authority(tmp_path / "foreign", CLUSTER)
    async with AsyncExitStack() as stack:
        # Of a foreign authority, and of the cluster's own, for another broker at the same host.
        listeners = [
            await stack.enter_async_context(listening(server_context(files)))
            for files in (
                foreign.broker("b", f"{HOST}:1", HOST),
                cluster.authority.broker("b", f"{HOST}:1", HOST),
            )
        ]
        for listener in listeners:
            cluster.register(listener)

        async def are_refused() -> bool:
            for listener in listeners:
                await cluster.move(listener.broker_id)
            leader = await cluster.leader()
            metrics = (await cluster.http.request("GET", f"{leader.url}/metrics")).body.decode()
            log = await asyncio.to_thread(leader.files.log.read_text, "utf-8")
            is_logged = all(
                f"refused what a registration node names: POST {listener.url}" in log
                for listener in listeners
            )
            counted = re.search(REFUSED, metrics)
            return counted is not None and float(counted[1]) >= len(listeners) and is_logged

        await eventually(are_refused, what="both are refused")
        for listener in listeners:
            assert (listener.requests, listener.bodies) == ([], [])
    assert await cluster.owner() == other.url


async def assert_clients_have_the_roles_of_their_certificates(cluster: Cluster) -> None:
    authority = cluster.authority
    settings = cluster.daemons.all[0].files.configuration.read_text(encoding="utf-8")
    port = re.search("webServicePortTls=([0-9]+)", settings)
    assert port is not None
    # The role of a broker gives commands, and no reads.
    broker = authority.broker("reader", "127.0.0.1:9")
    for files, code in (
        (authority.issue("admin"), 0),
        (authority.issue("guest"), 1),
        (broker, 1),
    ):
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "broker_ctl",
                "status",
                "--url",
                f"https://127.0.0.1:{port[1]}",
            ),
            *("--tls-ca", str(files.authority)),
            *("--tls-cert", str(files.certificate), str(files.key)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == code, output
        assert code == 0 or b"403" in output or b"role" in output


async def test_brokers_with_and_without_certificates_of_ids_accept_each_other(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path, attacker: KazooClient
) -> None:
    """In the middle of the restarts that introduce them."""
    key = tmp_path / "key"
    key.write_text(base64.b64encode(bytes(range(32))).decode(), encoding="ascii")
    key.chmod(0o600)

    def own(number: int) -> dict[str, str]:
        return {"brokerClientTlsEnabled": "true" if number == 1 else "false"}

    store = f"{zookeeper.connect_string}{chroot}"
    required = {"clusterKeyFile": str(key), "clusterKeyRequired": "true"}
    async with running(store, tmp_path, attacker, own, **required) as cluster:
        for target in (*cluster.daemons.all, *cluster.daemons.all):

            async def is_there(target: DaemonProcess = target) -> bool:
                await cluster.move(target.broker_id)
                return await cluster.owner() == target.url

            await eventually(is_there, what=f"a move to {target.broker_id}")
            for daemon in cluster.daemons.all:
                # The broker that is asked has the other one unload what is not its own.
                url = f"{daemon.url}/admin/v2/namespaces/{NAMESPACE}/unload"
                reply = await cluster.http.request("PUT", url)
                assert reply.status == 204, reply.body
