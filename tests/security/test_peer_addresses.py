"""A writer to ZooKeeper names addresses of their own: no daemon sends its token there.

Real daemons on a real ZooKeeper, and a listener at 127.0.0.2, where no broker is.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.store import paths
from tests.support.daemon.running_daemons import NAMESPACE, leader_of, look_up, make_namespace
from tests.support.security.listener import Listener, listening
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

SECRET = "S3cretAdminToken0123456789"
TOPIC = Topic("persistent", Namespace("public", "default"), "orders")
# Long enough for the retries of a command, and for a controller's instructions.
WATCHED_S = 4.0

NewCluster = Callable[..., Daemons]


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with listening() as found:
        yield found


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    """An operator's client; none of its requests goes to the listener."""
    async with HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as client:
        yield client


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"admin:{SECRET}\n", encoding="utf-8")
    file.chmod(0o600)
    return file


@pytest.fixture
def new_cluster(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path, token_file: Path
) -> NewCluster:
    """Two daemons that require a token, and send it to each other."""
    settings = {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "authenticationEnabled": "true",
        "tokenSecretKeyFile": str(token_file),
        "superUserRoles": "admin",
    }

    def make(of_each: Callable[[int], dict[str, str]] = lambda _: {}, **more: str) -> Daemons:
        return Daemons(tmp_path, 2, settings | more, of_each)

    return make


def rewrite(attacker: KazooClient, path: str, **fields: str) -> None:
    """Change fields of a payload, as everyone who reaches an open ZooKeeper can."""
    data, _ = attacker.get(path)
    attacker.set(path, json.dumps(json.loads(data) | fields).encode())


async def refusals(http: HttpClient, daemon: DaemonProcess, source: str) -> float:
    """What a daemon counts."""
    text = (await http.request("GET", f"{daemon.url}/metrics")).body.decode()
    return sum(
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("broker_ctl_peer_addresses_refused_total{")
        and f'source="{source}"' in line
    )


async def is_refused(
    http: HttpClient, daemons: Sequence[DaemonProcess], source: str, before: float = 0
) -> bool:
    """Whether some of the daemons have refused another address since."""
    return sum([await refusals(http, one, source) for one in daemons]) > before


async def command(
    http: HttpClient, leader: DaemonProcess, follower: DaemonProcess, owner: dict[str, Any]
) -> None:
    """Have the leader command the follower: to release a bundle, or to acquire it."""
    step = f"{TOPIC.domain}/{TOPIC.namespace}/{TOPIC.local}"
    bundle = (await http.request("GET", f"{leader.url}/lookup/v2/topic/{step}/bundle")).body
    there = leader if owner["httpUrl"] == follower.url else follower
    query = f"unload?destinationBroker={there.broker_id}"
    url = f"{leader.url}/admin/v2/namespaces/{NAMESPACE}/{bundle.decode()}/{query}"
    with suppress(HttpError):
        await http.request("PUT", url, timeout_s=WATCHED_S)


async def parted(http: HttpClient, cluster: Daemons) -> tuple[DaemonProcess, DaemonProcess]:
    """The leader and the other."""
    leader, _ = await eventually(partial(leader_of, http, cluster.all), what="a leader")
    return leader, next(one for one in cluster.all if one is not leader)


def replace_node(attacker: KazooClient, path: str, payload: Mapping[str, Any]) -> None:
    """Put an ephemeral node of the attacker there, in place of the one that may exist."""
    data = json.dumps(payload).encode()
    while True:
        # In one transaction: a broker that misses its node creates it again at once.
        replacement = attacker.transaction()
        replacement.delete(path)
        replacement.create(path, data, ephemeral=True)
        if not any(isinstance(result, Exception) for result in replacement.commit()):
            return
        try:
            attacker.create(path, data, ephemeral=True, makepath=True)
        except NodeExistsError:
            continue
        return


async def test_a_leader_sends_no_token_to_the_address_of_a_forged_registration(
    new_cluster: NewCluster, http: HttpClient, attacker: KazooClient, listener: Listener
) -> None:
    async with new_cluster() as cluster:
        await cluster.wait_ready(http)
        await make_namespace(http, cluster.all[0])
        leader, follower = await parted(http, cluster)
        owner = await eventually(partial(look_up, http, leader, TOPIC), what="an owner")
        path = paths.registration(follower.broker_id)
        for forged in ({}, {"brokerId": listener.broker_id}):
            before = await refusals(http, leader, "registration")
            rewrite(attacker, path, webUrl=listener.url, **forged)
            await eventually(partial(is_refused, http, [leader], "registration", before))
            await command(http, leader, follower, owner)
        assert (listener.requests, listener.secrets) == ([], [])
        log = leader.files.log.read_text(encoding="utf-8")
        assert log.count("refused what a registration node names") == 1
        assert listener.url in log
        assert SECRET not in log


async def test_a_broker_sends_no_token_to_the_address_of_a_forged_owner(
    new_cluster: NewCluster, http: HttpClient, attacker: KazooClient, listener: Listener
) -> None:
    async with new_cluster() as cluster:
        await cluster.wait_ready(http)
        await make_namespace(http, cluster.all[0])
        # Under an id that is no other broker's, and under one at the host of the listener.
        for bundle, broker_id in (
            ("0x00000000_0x40000000", "127.0.0.1:9"),
            ("0x40000000_0x80000000", listener.broker_id),
        ):
            path = f"/namespace/{NAMESPACE}/{bundle}"
            # The leader may have had it acquired.
            replace_node(attacker, path, {"brokerId": broker_id, "httpUrl": listener.url})

        async def owners_are_refused() -> bool:
            for daemon in cluster.all:
                for method, target in (
                    ("GET", f"/admin/v2/namespaces/{NAMESPACE}/topics"),
                    ("PUT", f"/admin/v2/namespaces/{NAMESPACE}/unload"),
                ):
                    with suppress(HttpError):
                        await http.request(method, daemon.url + target, timeout_s=WATCHED_S)
            return await is_refused(http, cluster.all, "owner")

        await eventually(owners_are_refused, what="the forged owner nodes")
        assert (listener.requests, listener.secrets) == ([], [])


async def test_a_controller_sends_no_token_to_the_address_of_a_forged_broker(
    new_cluster: NewCluster, http: HttpClient, attacker: KazooClient, listener: Listener
) -> None:
    async with new_cluster(lambda number: {"brokerId": str(number)}) as cluster:
        await cluster.wait_ready(http)
        for number in ("1", "2"):
            path = f"/brokers/ids/{number}"
            await eventually(partial(attacker.exists, path), what=path)
            data, _ = attacker.get(path)
            forged = json.loads(data) | {"web_url": listener.url, "daemon": listener.broker_id}
            # Of another session: the controller takes it for a broker that registers again.
            replace_node(attacker, path, forged)
        await asyncio.sleep(WATCHED_S)
        assert (listener.requests, listener.secrets) == ([], [])


async def test_a_broker_that_stops_sends_no_token_to_the_address_of_a_forged_controller(
    new_cluster: NewCluster,
    http: HttpClient,
    attacker: KazooClient,
    listener: Listener,
    token_file: Path,
) -> None:
    async with new_cluster(lambda number: {"brokerId": str(number)}) as cluster:
        await cluster.wait_ready(http)
        await eventually(partial(attacker.exists, "/controller"), what="a controller")
        for number in ("1", "2"):
            await eventually(partial(attacker.exists, f"/brokers/ids/{number}"), what=number)
        topic = ("orders", "--partitions", "2", "--replication-factor", "2", "--yes")
        target = ("--url", cluster.all[0].url, "--token-file", str(token_file))
        code, error = await verb("partitions", "create", *topic, *target)
        assert code == 0, error
        rewrite(attacker, "/controller", web_url=listener.url, daemon=listener.broker_id)
        await asyncio.sleep(1.0)
        for daemon in cluster.all:
            await daemon.stop()
        assert (listener.requests, listener.secrets) == ([], [])


async def test_a_daemon_does_not_redirect_to_the_address_of_a_forged_leader(
    new_cluster: NewCluster,
    http: HttpClient,
    attacker: KazooClient,
    listener: Listener,
    token_file: Path,
) -> None:
    async with new_cluster() as cluster:
        await cluster.wait_ready(http)
        _, honest = await parted(http, cluster)
        path = paths.LOADBALANCE_ELECTION.node_path
        status = ("status", "--cluster", "--url", honest.url, "--token-file", str(token_file))
        # The address alone: it counts for nothing beside the registration.
        rewrite(attacker, path, serviceUrl=listener.url)
        await asyncio.sleep(0.5)
        code, error = await verb(*status)
        assert code == 0, error
        # All of it: the daemon redirects, and the command line does not follow.
        rewrite(attacker, path, serviceUrl=listener.url, brokerId=listener.broker_id)

        async def why_not() -> str:
            code, error = await verb(*status)
            return error if code == 1 else ""

        error = await eventually(why_not, what="the forged leader")
        assert listener.broker_id.partition(":")[0] in error
        assert "--trusted-hosts" in error
        assert (listener.requests, listener.secrets) == ([], [])


async def verb(*arguments: str) -> tuple[int, str]:
    """Exit code and errors of a verb of the command line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker_ctl", *arguments,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        _, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, error.decode()
