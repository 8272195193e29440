"""Nodes in Pulsar's formats, which nobody signs: what an anonymous writer can do with each.

Real daemons that ask for tokens, grants and signatures, and the writer beside them.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from broker_ctl.broker.policies.dynamic_config import DYNAMIC_KEYS
from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.coordination.election import ConfirmedEpoch, Leadership
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import Fenced, MultiFailed
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.settings.root import DECLARATIONS
from broker_ctl.store import paths
from broker_ctl.store.interface import SetData
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.daemon.running_daemons import look_up, make_namespace, overview
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

ADMIN, READER = "S3cretAdminToken0123456789", "S3cretReaderToken012345678"
TOPIC: Final = Topic("persistent", Namespace("public", "default"), "orders")
EVIL: Final = "evil.example"
FULL: Final = 0.99
ELECTION: Final = paths.LOADBALANCE_ELECTION
CONFIGURATION: Final = "/admin/v2/brokers/configuration"
# Subjects of settings that say who may do what, and how much of it.
PROTECTION: Final = frozenset(
    {
        *("security", "jwt", "loopback_token", "openid", "tls", "client_limits"),
        *("metadata", "zookeeper", "dataplane", "audit"),
    }
)


@asynccontextmanager
async def protected_daemon(
    zookeeper: SharedEnsemble, chroot: str, directory: Path
) -> AsyncIterator[tuple[HttpClient, DaemonProcess]]:
    """A daemon with all that protects it, a client with the token of its super user."""
    tokens = directory / "tokens"
    tokens.write_text(f"admin:{ADMIN}\nreader:{READER}\n", encoding="utf-8")
    tokens.chmod(0o600)
    settings = {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "tokenSecretKeyFile": str(tokens),
        "superUserRoles": "admin",
        "znodeSignatures": "require",
        "clusterKeyRequired": "true",
        "loadBalancerAutoBundleSplitEnabled": "false",
    }
    async with (
        HttpClient(token=ADMIN, timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        Daemons(directory, 1, settings) as daemons,
    ):
        await daemons.wait_ready(http)
        await make_namespace(http, daemons.all[0])
        yield http, daemons.all[0]


async def as_role(token: str | None, method: str, url: str, json_body: Any = None) -> HttpReply:
    async with HttpClient(token=token, timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http:
        return await http.request(method, url, json=json_body)


async def test_a_raised_epoch_ends_a_leadership_and_those_of_a_deleted_node_begin_again(
    zookeeper: SharedEnsemble, chroot: str, attacker: KazooClient
) -> None:
    store = ZooKeeperStore(StoreOptions(zookeeper.connect_string, chroot))
    await store.start()
    await store.wait_connected()
    try:
        await store.create(ELECTION.epoch_path, make_parents=True)
        for _ in range(3):
            stat = await store.set(ELECTION.epoch_path, b"")
        leadership = Leadership(ELECTION, stat.version, lambda: None)
        await store.multi([leadership.guard])
        broker = ConfirmedEpoch(store, ELECTION)
        await broker.confirm(leadership.epoch)

        attacker.set(ELECTION.epoch_path, b"")
        with pytest.raises(MultiFailed):
            await store.multi([leadership.guard])

        attacker.delete(ELECTION.epoch_path)
        attacker.create(ELECTION.epoch_path, b"")
        await store.multi([SetData(ELECTION.epoch_path, b"")])
        await broker.confirm(1)
        broker.require_newest(1, "epoch")
        with pytest.raises(Fenced, match=f"{leadership.epoch} is unknown"):
            await broker.confirm(leadership.epoch)
    finally:
        await store.close()


@pytest.mark.slow
async def test_an_owner_node_sends_clients_anywhere_and_takes_a_bundle_away(
    zookeeper: SharedEnsemble, chroot: str, attacker: KazooClient, tmp_path: Path
) -> None:
    async with protected_daemon(zookeeper, chroot, tmp_path) as (http, daemon):
        own = (await eventually(lambda: look_up(http, daemon, TOPIC)))["brokerUrl"]
        parent = f"{paths.OWNERSHIP}/{TOPIC.namespace}"
        for name in attacker.get_children(parent):
            data, _ = attacker.get(f"{parent}/{name}")
            attacker.delete(f"{parent}/{name}")
            forged = json.loads(data) | {"brokerId": f"{EVIL}:1", "nativeUrl": f"pulsar://{EVIL}:1"}
            attacker.create(f"{parent}/{name}", json.dumps(forged).encode(), ephemeral=True)

        async def is_sent_away() -> bool:
            return (await look_up(http, daemon, TOPIC)).get("brokerUrl") == f"pulsar://{EVIL}:1"

        await eventually(is_sent_away, what="clients are sent to the attacker")
        assert EVIL not in own
        status = await http.request("GET", f"{daemon.url}/control/v1/status")
        assert status.json()["bundles"] == []


@pytest.mark.slow
async def test_a_load_report_makes_a_broker_look_full(
    zookeeper: SharedEnsemble, chroot: str, attacker: KazooClient, tmp_path: Path
) -> None:
    async with protected_daemon(zookeeper, chroot, tmp_path) as (http, daemon):
        path = paths.load_report(daemon.broker_id)

        async def is_full() -> bool:
            report: dict[str, Any] = json.loads(attacker.get(path)[0])
            # A report of the same time is not read again.
            report["lastUpdate"] += 1
            report["cpu"] = {"usage": FULL * 100.0, "limit": 100.0}
            attacker.set(path, json.dumps(report).encode())
            brokers = (await overview(http, daemon)).get("brokers", [])
            return any(one["usage_ratio"] >= FULL for one in brokers)

        await eventually(is_full, what="the leader believes the report")


@pytest.mark.slow
async def test_a_tenant_names_its_admins_and_no_super_user(
    zookeeper: SharedEnsemble, chroot: str, attacker: KazooClient, tmp_path: Path
) -> None:
    async with protected_daemon(zookeeper, chroot, tmp_path) as (_, daemon):
        created = f"{daemon.url}/admin/v2/namespaces/public/mallory"
        assert (await as_role(READER, "PUT", created, {})).status == 403
        tenant = "/admin/policies/public"
        forged = json.loads(attacker.get(tenant)[0]) | {"adminRoles": ["reader"]}
        attacker.set(tenant, json.dumps(forged).encode())

        async def is_admin() -> bool:
            return (await as_role(READER, "PUT", created, {})).status == 204

        await eventually(is_admin, what="the forged admin of the tenant counts")
        for method, path in (
            ("GET", "/control/v1/status"),
            ("PUT", "/control/v1/pause"),
            ("PUT", "/admin/v2/tenants/other"),
            ("POST", f"{CONFIGURATION}/maxConcurrentLookupRequest/1"),
        ):
            reply = await as_role(READER, method, daemon.url + path, {})
            assert reply.status == 403, (path, reply.body)


async def test_dynamic_configuration_changes_the_balancing_and_nothing_that_protects(
    zookeeper: SharedEnsemble, chroot: str, attacker: KazooClient, tmp_path: Path
) -> None:
    async with protected_daemon(zookeeper, chroot, tmp_path) as (http, daemon):
        url = f"{daemon.url}{CONFIGURATION}/runtime"
        weaker = {
            "authenticationEnabled": "false",
            "authorizationEnabled": "false",
            "superUserRoles": "admin,reader",
            "znodeSignatures": "accept",
            "clusterKeyRequired": "false",
            "peerAllowedHosts": EVIL,
            "allowedPlugins": "Any",
            "maxHttpServerConnections": "1",
            "loadBalancerSheddingEnabled": "false",
        }
        attacker.ensure_path(paths.CONFIGURATION)
        attacker.set(paths.CONFIGURATION, json.dumps(weaker).encode())

        async def effective() -> Mapping[str, str]:
            reply = await http.request("GET", url)
            return dict(reply.json()) if reply.status == 200 else {}

        async def is_changed() -> bool:
            return (await effective())["loadBalancerSheddingEnabled"] == "false"

        await eventually(is_changed, what="the override of a strategy counts")
        assert (await as_role(None, "GET", url)).status == 401
        assert (await as_role(READER, "PUT", f"{daemon.url}/control/v1/pause", {})).status == 403
        assert (await effective())["maxHttpServerConnections"] != "1"
        log = daemon.files.log.read_text(encoding="utf-8")
        for key in weaker.keys() - {"loadBalancerSheddingEnabled"}:
            assert f"{key}: not dynamic" in log


def test_no_setting_that_protects_is_dynamic() -> None:
    subjects = {declaration.subject for declaration in DECLARATIONS.values()}
    assert subjects >= PROTECTION
    assert {DECLARATIONS[key].subject for key in DYNAMIC_KEYS} & PROTECTION == set()
