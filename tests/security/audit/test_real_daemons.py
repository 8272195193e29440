"""Audit logs of real daemons: one request id at all brokers, and sums that outlive the process."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import Daemons
from broker_ctl.security.audit.log import MAX_OF_ADDRESS
from tests.support.daemon.own_settings import OwnSettings
from tests.support.daemon.running_daemons import NAMESPACE, leader_of, look_up, make_namespace
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPIC = Topic("persistent", Namespace("public", "default"), "orders")
SETTLED = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false"}
REQUEST_ID = "INC-4711"
FOREIGN = {"Host": "rebound.example"}
FLOOD = 3 * MAX_OF_ADDRESS


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@asynccontextmanager
async def audited(
    zookeeper: SharedEnsemble, chroot: str, directory: Path, brokers: int
) -> AsyncIterator[tuple[Daemons, list[Path]]]:
    """Daemons with an audit log each, and where that is."""
    files = [directory / f"audit-{number}.log" for number in range(brokers)]
    store = {"metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}"}
    own = [{"auditFile": str(file)} for file in files]
    async with OwnSettings(directory, SETTINGS | SETTLED | store, own) as daemons:
        yield daemons, files


async def test_one_request_id_finds_the_events_of_all_brokers(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with (
        audited(zookeeper, chroot, tmp_path, 2) as (daemons, files),
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as operator,
    ):
        leader, _ = await eventually(partial(leader_of, http, daemons.all))
        (follower,) = (each for each in daemons.all if each is not leader)
        await make_namespace(http, leader, bundles=1)
        await eventually(partial(look_up, http, leader, TOPIC), what="an owner")
        await eventually(partial(_knows, http, leader.url, follower.broker_id))
        path = f"{leader.url}/admin/v2/namespaces/{NAMESPACE}/0x00000000_0xffffffff"
        for receiver in (leader, follower, leader):
            url = f"{path}/unload?destinationBroker={receiver.broker_id}"
            async with operator.put(url, headers={"X-Request-Id": REQUEST_ID}) as reply:
                assert reply.status == 204, await reply.text()
        # What the leader does of its own accord, or for another request, does not carry the id.
        url = f"{path}/unload?destinationBroker={follower.broker_id}"
        async with operator.put(url) as reply:
            assert reply.status == 204, await reply.text()
    events = [
        (row["broker"], row["target"].rpartition("/")[2], row["request_id"])
        for file in files
        for row in rows(file)
        if row["kind"] == "change" and row["operation"] in {"PUT", "POST"}
    ]
    commands = {
        (verb, request_id) for broker, verb, request_id in events if broker == follower.broker_id
    }
    assert {("prepare", REQUEST_ID), ("receive", REQUEST_ID), ("release", REQUEST_ID)} <= commands
    ids_of_prepare = [each[2] for each in events if each[1] == "prepare"]
    assert ids_of_prepare.count(REQUEST_ID) == len(ids_of_prepare) - 1
    assert (leader.broker_id, "unload", REQUEST_ID) in events


async def _knows(http: HttpClient, url: str, broker_id: str) -> bool:
    reply = await http.request("GET", f"{url}/admin/v2/brokers")
    return broker_id in reply.json()


async def _answers(operator: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with operator.get(f"{url}/livez"):
            return True
    except aiohttp.ClientError:
        return False


async def _flood(operator: aiohttp.ClientSession, url: str) -> None:
    for _ in range(FLOOD):
        async with operator.get(f"{url}/readyz", headers=FOREIGN) as reply:
            assert reply.status == 421


def _sums(file: Path) -> int:
    return sum(row.get("count", 0) for row in rows(file))


@pytest.mark.slow
async def test_sums_of_refusals_outlive_a_stop_and_are_soon_safe_from_a_kill(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with (
        audited(zookeeper, chroot, tmp_path, 2) as (daemons, files),
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as operator,
    ):
        stopped, killed = daemons.all
        for daemon in daemons.all:
            await eventually(partial(_answers, operator, daemon.url), what="an answer")
        await _flood(operator, killed.url)
        await _flood(operator, stopped.url)
        stopped.signal(signal.SIGTERM)
        await eventually(lambda: _sums(files[0]) == FLOOD - MAX_OF_ADDRESS, what="sums of a stop")
        # Without a stop, and with nothing else that happens.
        await eventually(lambda: _sums(files[1]) == FLOOD - MAX_OF_ADDRESS, what="sums in time")
        await killed.kill()
