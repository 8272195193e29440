"""Real daemons that sign what they write to ZooKeeper, and an anonymous writer beside them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.cluster.directives import AuditInfo, Drain, Pause
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.security.cluster_key import DERIVED, KeyFile, new_key_line
from broker_ctl.store import paths
from broker_ctl.store.records.directives import DrainRecord, PauseRecord
from tests.support.daemon.running_daemons import (
    counts,
    leader_of,
    look_up,
    make_namespace,
    overview,
)
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

SECRET = "S3cretAdminToken0123456789"
TOPIC = Topic("persistent", Namespace("public", "default"), "orders")
GHOST = "127.0.0.1:9"
ORDER = AuditInfo.of(1_000, "mallory", "")


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as client:
        yield client


@pytest.fixture
def settings(zookeeper: SharedEnsemble, chroot: str, tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "tokens"
    file.write_text(f"admin:{SECRET}\n", encoding="utf-8")
    file.chmod(0o600)
    return {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "authenticationEnabled": "true",
        "tokenSecretKeyFile": str(file),
        "superUserRoles": "admin",
    }


async def rows(http: HttpClient, url: str) -> Any:
    return (await http.request("GET", url)).json()


def forge(attacker: KazooClient, honest: str) -> None:
    """A broker that does not exist, as leader too; a pause; a drain of a broker that does."""
    data, _ = attacker.get(paths.registration(honest))
    registration = json.loads(data) | {"brokerId": GHOST, "webUrl": f"http://{GHOST}"}
    attacker.create(paths.registration(GHOST), json.dumps(registration).encode(), ephemeral=True)
    attacker.create(paths.PAUSE, PauseRecord(Pause(ORDER)).encode(), makepath=True)
    drain = DrainRecord(Drain(ORDER, 1, 0.0)).encode()
    attacker.create(paths.drain(honest), drain, makepath=True)
    election = paths.LOADBALANCE_ELECTION.node_path
    holder = json.loads(attacker.get(election)[0])
    holder |= {"brokerId": GHOST, "serviceUrl": f"http://{GHOST}"}
    attacker.set(election, json.dumps(holder).encode())


@pytest.mark.parametrize("mode", ["accept", "require"])
async def test_what_an_anonymous_writer_says_counts_only_until_signatures_are_required(
    mode: str,
    settings: dict[str, str],
    http: HttpClient,
    attacker: KazooClient,
    tmp_path: Path,
) -> None:
    async with Daemons(tmp_path, 2, settings | {"znodeSignatures": mode}) as cluster:
        await cluster.wait_ready(http)
        leader, _ = await eventually(partial(leader_of, http, cluster.all), what="a leader")
        other = next(one for one in cluster.all if one is not leader)
        forge(attacker, other.broker_id)

        async def seen() -> tuple[bool, bool, bool, bool]:
            """Whether the pause, the drain, the broker and the leader count."""
            url = f"{leader.url}/admin/v2/brokers/{SETTINGS['clusterName']}"
            brokers = json.dumps(await rows(http, url))
            redirect = await http.request("GET", f"{other.url}/control/v1/cluster")
            return (
                (await rows(http, f"{other.url}/control/v1/pause"))["paused"],
                bool(await rows(http, f"{leader.url}/control/v1/drains")),
                GHOST in brokers,
                GHOST in redirect.headers.get("Location", ""),
            )

        async def refusals() -> float:
            text = (await http.request("GET", f"{other.url}/metrics")).body.decode()
            return sum(
                float(line.rpartition(" ")[2])
                for line in text.splitlines()
                if line.startswith("broker_ctl_znode_signature_failures_total{")
            )

        async def are_believed() -> bool:
            return await seen() == (True, True, True, True)

        async def are_counted() -> bool:
            return await refusals() >= 4

        await eventually(are_counted, what="failures are counted")
        if mode == "accept":
            await eventually(are_believed, what="all of it counts")
        else:
            await asyncio.sleep(1.0)
            assert await seen() == (False, False, False, False)
        log = other.files.log.read_text(encoding="utf-8")
        assert paths.PAUSE in log
        assert SECRET not in log


async def restarted(
    http: HttpClient, stack: AsyncExitStack, running: list[DaemonProcess], cluster: Daemons
) -> list[DaemonProcess]:
    """The daemons of ``cluster``, each started before one of ``running`` stops."""
    for old, new in zip(running, cluster.all, strict=True):
        stack.callback(new.release_ports)
        stack.push_async_callback(new.stop)
        await new.start()
        await new.wait_ready(http)
        # Old and new serve beside each other, and agree.
        for daemon in (old, new):
            assert await eventually(partial(look_up, http, daemon, TOPIC), what="an owner")
        await old.stop()
    return list(cluster.all)


@pytest.mark.slow
async def test_signatures_are_introduced_in_a_cluster_that_serves(
    settings: dict[str, str], http: HttpClient, attacker: KazooClient, tmp_path: Path
) -> None:
    before = Daemons(tmp_path / "off", 2, settings | {"znodeSignatures": "off"})
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(before)
        await before.wait_ready(http)
        await make_namespace(http, before.all[0])
        await eventually(partial(look_up, http, before.all[0], TOPIC), what="an owner")
        assert b"signature" not in attacker.get(paths.registration(before.all[0].broker_id))[0]
        running = list(before.all)
        for mode in ("accept", "require"):
            cluster = Daemons(tmp_path / mode, 2, settings | {"znodeSignatures": mode})
            running = await restarted(http, stack, running, cluster)
        for daemon in running:
            assert await eventually(partial(look_up, http, daemon, TOPIC), what="an owner")
            assert b"signature" in attacker.get(paths.registration(daemon.broker_id))[0]
        leader, _ = await eventually(partial(leader_of, http, running), what="a leader")

        async def is_complete() -> bool:
            return len((await overview(http, leader))["brokers"]) == 2

        await eventually(is_complete, what="the two brokers alone")


@pytest.mark.slow
async def test_a_cluster_that_requires_signatures_goes_from_derived_keys_to_a_file(
    settings: dict[str, str], http: HttpClient, tmp_path: Path
) -> None:
    """By restarts, one daemon at a time; no broker refuses what another one signs."""
    settings |= {"znodeSignatures": "require", "clusterKeyRequired": "true"}
    line = new_key_line()
    first = KeyFile.parse(f"{DERIVED}\n{line}")
    (new,) = KeyFile.parse(line).ids
    moved = first.promote(new)
    before = Daemons(tmp_path / "derived", 2, settings)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(before)
        await before.wait_ready(http)
        await make_namespace(http, before.all[0])
        running = list(before.all)
        for number, file in enumerate((first, moved, moved.remove(DERIVED))):
            path = tmp_path / f"cluster-{number}.key"
            path.write_text(str(file), encoding="utf-8")
            path.chmod(0o600)
            step = settings | {"clusterKeyFile": str(path)}
            cluster = Daemons(tmp_path / f"step-{number}", 2, step)
            running = await restarted(http, stack, running, cluster)
            await eventually(partial(leader_of, http, running), what="a leader")
            for daemon in running:
                for name in ("znode_signature_failures", "signed_requests_refused"):
                    assert await counts(http, daemon, f"broker_ctl_{name}_total") == {}
        leader, _ = await eventually(partial(leader_of, http, running), what="a leader")

        async def is_complete() -> bool:
            return len((await overview(http, leader))["brokers"]) == 2

        await eventually(is_complete, what="the two brokers alone")
