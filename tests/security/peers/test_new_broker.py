"""A writer to ZooKeeper registers a broker of their own: what it gets is of no use elsewhere."""

import base64
import json
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kazoo.client import KazooClient

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.clock import SystemClock
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.signed_requests import HEADER, START_HEADER, RequestSigner
from broker_ctl.store import paths
from tests.support.daemon.running_daemons import (
    NAMESPACE,
    counts,
    leader_of,
    look_up,
    make_namespace,
)
from tests.support.security.listener import Listener, listening
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

SECRET = "S3cretAdminToken0123456789"
KEY = bytes(range(32))
TOPIC = Topic("persistent", Namespace("public", "default"), "orders")
ORDER = b'{"epoch":1}'


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def settings(zookeeper: SharedEnsemble, chroot: str, tmp_path: Path) -> dict[str, str]:
    return {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "authenticationEnabled": "true",
        "tokenSecretKeyFile": written(tmp_path / "tokens", f"admin:{SECRET}\n"),
        "superUserRoles": "admin",
    }


async def post(daemon: DaemonProcess, path: str, body: bytes, signature: str) -> tuple[int, str]:
    """One request without a token."""
    headers = {"Content-Type": "application/json", HEADER: signature}
    async with (
        aiohttp.ClientSession() as session,
        session.post(daemon.url + path, data=body, headers=headers) as reply,
    ):
        return reply.status, await reply.text()


async def captured(
    http: HttpClient, cluster: Daemons, attacker: KazooClient, listener: Listener
) -> tuple[str, bytes]:
    """Path and body of a command that the leader sends to a broker of the attacker's."""
    leader, _ = await eventually(partial(leader_of, http, cluster.all), what="a leader")
    follower = next(one for one in cluster.all if one is not leader)
    registration, _ = attacker.get(paths.registration(follower.broker_id))
    row: dict[str, Any] = json.loads(registration)
    row |= {"brokerId": listener.broker_id, "webUrl": listener.url, "nonce": "0" * 32}
    attacker.create(
        paths.registration(listener.broker_id), json.dumps(row).encode(), ephemeral=True
    )
    await eventually(partial(look_up, http, leader, TOPIC), what="an owner")
    step = f"{TOPIC.domain}/{TOPIC.namespace}/{TOPIC.local}"
    bundle = (await http.request("GET", f"{leader.url}/lookup/v2/topic/{step}/bundle")).body
    query = f"unload?destinationBroker={listener.broker_id}"
    url = f"{leader.url}/admin/v2/namespaces/{NAMESPACE}/{bundle.decode()}/{query}"

    async def orders() -> list[str]:
        with suppress(HttpError):
            await http.request("PUT", url, timeout_s=2.0)
        return [line for line in listener.requests if line.startswith("POST /control/v1/")]

    first = (await eventually(orders, what="a command"))[0]
    return first.split(" ")[1], listener.bodies[listener.requests.index(first)]


async def test_a_registered_broker_of_an_attacker_gets_no_token_and_nothing_to_replay(
    settings: dict[str, str], tmp_path: Path, attacker: KazooClient
) -> None:
    async with (
        HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        listening() as listener,
        Daemons(tmp_path, 2, settings) as cluster,
    ):
        await cluster.wait_ready(http)
        await make_namespace(http, cluster.all[0])
        path, body = await captured(http, cluster, attacker, listener)
        assert listener.secrets == []
        for daemon in cluster.all:
            status, text = await post(daemon, path, body, listener.signatures[0])
            assert status == 401
            assert f"signed for '{listener.broker_id}'" in text


async def test_a_signed_command_counts_once_at_its_broker_and_gives_no_other_right(
    settings: dict[str, str], tmp_path: Path
) -> None:
    line = base64.b64encode(KEY).decode()
    settings |= {
        "clusterKeyFile": written(tmp_path / "key", line),
        "clusterKeyRequired": "true",
    }
    async with (
        HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        Daemons(tmp_path, 1, settings) as cluster,
    ):
        await cluster.wait_ready(http)
        daemon = cluster.all[0]
        signer = RequestSigner(ClusterKeys.of([KEY]), "127.0.0.1:1")

        def signed(path: str, body: bytes = ORDER, method: str = "POST") -> str:
            now_ms = SystemClock().wall_ms()
            headers = signer.sign(daemon.broker_id, method, path, body, now_ms, start=start)
            return headers[HEADER]

        path, start = "/control/v1/acquire", ""
        # It has just started: a request before its start could have been signed by a clock ahead.
        early = {HEADER: signed(path)}
        wanted = await http.request("POST", daemon.url + path, content=ORDER, sign=lambda *_: early)
        assert wanted.status == 425
        start = wanted.headers[START_HEADER]
        header = signed(path)
        # The command is malformed, which only an accepted sender hears.
        assert (await post(daemon, path, ORDER, header))[0] == 400
        status, text = await post(daemon, path, ORDER, header)
        assert (status, "repeats" in text) == (401, True)
        status, text = await post(daemon, path, ORDER + b" ", signed(path))
        assert (status, "another body" in text) == (401, True)
        plan = "/control/v1/plans"
        status, text = await post(daemon, plan, ORDER, signed(plan))
        assert (status, "role broker may only" in text) == (403, True)
        # The token of a super user gives no command of brokers.
        reply = await http.request("POST", daemon.url + path, content=ORDER)
        assert (reply.status, b"only brokers" in reply.body) == (401, True)
        refused = await counts(http, daemon, "broker_ctl_signed_requests_refused_total")
        assert refused == {"repeated": 1, "other-body": 1, "unsigned": 1}
        # Each begins at 0: an alert sees the first increase.
        metrics = (await http.request("GET", f"{daemon.url}/metrics")).body.decode()
        assert re.search(r'_cluster_key{.*key="[0-9a-f]{8}",use="sign"} 1\.0\n', metrics)
        for labels in ('reason="time"', 'reason="stale-epoch"', 'family="pause",reason="wrong"'):
            assert re.search(rf"_total{{.*{labels}}} 0\.0\n", metrics), labels
        log = daemon.files.log.read_text(encoding="utf-8")
        assert line not in log
        assert SECRET not in log
