"""A broker process of an operator behind the webhook: served, killed, noticed, back."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.core.partitions.values import Assignment, TopicAssignment
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import encode_topic
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import look_up, make_namespace, status
from tests.support.daemon.webhook_process import SECRET, broker_process, webhook
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Proxy
from tests.support.zookeeper.session_faults import expire_session, password_of

TOPIC = Topic("persistent", Namespace("public", "default"), "x")


async def test_a_dead_broker_process_is_noticed_and_a_new_one_is_given_everything_again(
    new_cluster: NewCluster, http: HttpClient, tmp_path: Path
) -> None:
    secret_file = tmp_path / "secret"
    with reserve_port() as held:
        port = port_of(held)
        async with (
            new_cluster(1, **webhook(port, secret_file)) as daemons,
            HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as as_daemon,
        ):
            only: DaemonProcess = daemons.all[0]

            async def loaded() -> dict[str, int]:
                reply = await as_daemon.request(
                    "GET", f"http://127.0.0.1:{port}/dataplane/v1/state"
                )
                return dict(reply.json()["bundles"])

            async def is_not_ready() -> bool:
                return (await http.request("GET", f"{only.url}/readyz")).status == 503

            async def owns_nothing() -> bool:
                return not (await status(http, only))["bundles"]

            authority_url = f"{only.url}/dataplane/v1/authority"
            async with broker_process(port, secret_file, authority_url):
                await only.wait_ready(http)
                await make_namespace(http, only, bundles=2)
                await eventually(partial(look_up, http, only, TOPIC), what="an owner")
                assert len(await loaded()) == 1
            # The broker process is dead, the daemon lives.
            await eventually(is_not_ready, what="the silence to be noticed")
            await eventually(owns_nothing, what="the bundles to be given up after their lease")
            async with broker_process(port, secret_file, authority_url):
                await only.wait_ready(http)
                await eventually(partial(look_up, http, only, TOPIC), what="an owner again")
                assert len(await loaded()) == 1


async def test_a_broker_process_with_replicas_is_instructed_and_its_successor_gets_all_again(
    new_cluster: NewCluster,
    http: HttpClient,
    zookeeper: SharedEnsemble,
    chroot: str,
    tmp_path: Path,
) -> None:
    secret_file, number = tmp_path / "secret", ("--broker-id", "1")
    with reserve_port() as held:
        port = port_of(held)
        settings = webhook(port, secret_file) | {
            "brokerId": "1",
            "replicaPollMillis": "100",
            # Longer than it takes a process to start.
            "dataPlaneFailureTimeoutMillis": "6000",
        }
        async with (
            new_cluster(1, **settings) as daemons,
            HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as as_daemon,
        ):
            only: DaemonProcess = daemons.all[0]

            async def replicas() -> list[Any] | None:
                """Topic, number and topic id of each; instructions come one by one in any order."""
                url = f"http://127.0.0.1:{port}/dataplane/v1/replicas"
                rows = (await as_daemon.request("GET", url)).json()["replicas"]
                return sorted(row[:3] for row in rows) if len(rows) == 2 else None

            authority_url = f"{only.url}/dataplane/v1/authority"
            async with broker_process(port, secret_file, authority_url, *number):
                await only.wait_ready(http)
                await make_topic(zookeeper.connect_string + chroot, "orders", [[1], [1]])
                both = await eventually(replicas, what="replicas of both partitions")
            # Killed and back at once, on an empty disk: it is not silent for the daemon to notice.
            async with broker_process(port, secret_file, authority_url, *number):
                await eventually(partial(answers, replicas), what="the new process")
                assert await eventually(replicas, what="all of it again") == both


@pytest.mark.slow
async def test_a_session_that_ends_while_everything_is_given_up_is_not_overlooked(
    new_cluster: NewCluster,
    http: HttpClient,
    zookeeper: SharedEnsemble,
    chroot: str,
    tmp_path: Path,
) -> None:
    secret_file = tmp_path / "secret"
    address = zookeeper.connect_string
    with reserve_port() as held:
        port = port_of(held)
        async with Proxy.to(zookeeper.servers[0].client_port) as proxy:
            url = f"zk:{proxy.address}{chroot}"
            settings = webhook(port, secret_file) | {"metadataStoreUrl": url}
            async with new_cluster(1, **settings) as daemons:
                only: DaemonProcess = daemons.all[0]
                authority_url = f"{only.url}/dataplane/v1/authority"
                async with broker_process(port, secret_file, authority_url):
                    await only.wait_ready(http)
                    await make_namespace(http, only, bundles=2)
                    await eventually(partial(look_up, http, only, TOPIC), what="an owner")
                    session_id = await asyncio.to_thread(registered_session, address, chroot, only)
                # To resign takes two of these.
                proxy.delay_s = 0.4

                def is_logged(*words: str) -> bool:
                    log = only.files.log.read_text()
                    return any(word in log for word in words)

                await eventually(
                    partial(is_logged, "no longer leader at /loadbalance/leader"),
                    what="the silence is noticed",
                )
                await expire_session(address, session_id, password_of(session_id))
                proxy.delay_s = 0.0
                ends = partial(is_logged, "session 1 has ended", "giving everything up")
                await eventually(ends, what="the work of the session has ended")
                async with broker_process(port, secret_file, authority_url):
                    await only.wait_ready(http)
                    await eventually(partial(look_up, http, only, TOPIC), what="an owner again")


def registered_session(address: str, chroot: str, daemon: DaemonProcess) -> int:
    """The session that a daemon is registered in."""
    client = KazooClient(hosts=address + chroot)
    client.start()
    try:
        stat = client.exists(f"/broker-ctl/brokers/{daemon.broker_id}")
        assert stat is not None
        return stat.ephemeralOwner
    finally:
        client.stop()
        client.close()


async def answers(ask: Callable[[], Awaitable[object]]) -> bool:
    try:
        await ask()
    except HttpError:
        return False
    return True


async def make_topic(hosts: str, name: str, replicas: Sequence[Sequence[int]]) -> None:
    """As an operator with nothing but ZooKeeper would."""
    partitions = {number: Assignment(tuple(each)) for number, each in enumerate(replicas)}
    data = encode_topic(TopicAssignment(f"{7:032x}", partitions))
    client = KazooClient(hosts=hosts)
    await asyncio.to_thread(client.start)
    try:
        path = paths.topic(name)
        await asyncio.to_thread(client.create, path, data, makepath=True)
    finally:
        await asyncio.to_thread(client.stop)
        await asyncio.to_thread(client.close)
