"""Lookups of real daemons while real servers elect a leader, and while all of them are down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from tests.support.daemon.running_daemons import look_up, make_namespace, status
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPIC = Topic("persistent", Namespace("public", "default"), "t-1")
_PATH = f"/lookup/v2/topic/{TOPIC.domain}/{TOPIC.namespace}/{TOPIC.local}"
_LIMIT_S = 0.1
_TIMEOUT_MS = 12_000
# Most of a lease of that session timeout.
_OUTAGE_S = 6.0


@asynccontextmanager
async def _daemons(
    ensemble3: SharedEnsemble, http: HttpClient, tmp_path: Path, name: str
) -> AsyncIterator[tuple[DaemonProcess, DaemonProcess]]:
    """Two daemons: the owner of the topic's bundle, and another."""
    settings = {
        "metadataStoreUrl": f"zk:{ensemble3.connect_string}/{name}",
        **SETTINGS,
        "clusterName": name,
        "metadataStoreSessionTimeoutMillis": str(_TIMEOUT_MS),
        "loadBalancerEnabled": "false",
    }
    async with Daemons(tmp_path, 2, settings) as daemons:
        await daemons.wait_ready(http)
        await make_namespace(http, daemons.all[0])
        found = await eventually(partial(look_up, http, daemons.all[0], TOPIC))
        owner = next(each for each in daemons.all if each.broker_id == found["brokerId"])
        other = next(each for each in daemons.all if each is not owner)
        yield owner, other


async def _ask(http: HttpClient, daemon: DaemonProcess) -> tuple[int, bytes, float]:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    reply = await http.request("GET", f"{daemon.url}{_PATH}")
    return reply.status, reply.body, loop.time() - began_s


async def _state(http: HttpClient, daemon: DaemonProcess) -> str:
    return str((await status(http, daemon))["session"]["state"])


@pytest.mark.slow
async def test_an_election_of_the_servers_leader_holds_up_no_lookup(
    ensemble3: SharedEnsemble, http: HttpClient, tmp_path: Path
) -> None:
    async with _daemons(ensemble3, http, tmp_path, "election") as (owner, other):
        leader = await ensemble3.leader()
        await leader.kill()
        was_away, waits_s = False, []
        # Until a connection was lost and is back.
        async with asyncio.timeout(60):
            while True:
                code, body, took_s = await _ask(http, owner)
                assert (code, owner.broker_id.encode() in body) == (200, True), body
                waits_s.append(took_s)
                code, body, took_s = await _ask(http, other)
                assert code in {200, 503}, body
                waits_s.append(took_s)
                is_away = "suspended" in {await _state(http, owner), await _state(http, other)}
                if was_away and not is_away:
                    break
                was_away = was_away or is_away
        await leader.restart()
        # A machine that is busy with other tests may delay one; not each hundredth.
        assert sorted(waits_s)[int(0.99 * len(waits_s))] < _LIMIT_S, max(waits_s)


@pytest.mark.slow
async def test_an_outage_shorter_than_the_lease_holds_up_no_lookup(
    ensemble3: SharedEnsemble, http: HttpClient, tmp_path: Path
) -> None:
    async with _daemons(ensemble3, http, tmp_path, "outage") as (owner, other):
        for server in ensemble3.servers:
            await server.kill()

        async def is_away() -> bool:
            return {await _state(http, owner), await _state(http, other)} == {"suspended"}

        await eventually(is_away)
        waits_s, loop = [], asyncio.get_running_loop()
        until_s = loop.time() + _OUTAGE_S
        while loop.time() < until_s:
            code, body, took_s = await _ask(http, owner)
            assert (code, owner.broker_id.encode() in body) == (200, True), body
            waits_s.append(took_s)
            code, body, took_s = await _ask(http, other)
            assert (code, b"ZooKeeper is away" in body) == (503, True), body
            waits_s.append(took_s)
            ready = await http.request("GET", f"{owner.url}/readyz")
            assert (ready.status, b"ZooKeeper is away" in ready.body) == (200, True), ready.body
        # One alone does not serve: without the others there is no quorum.
        async with asyncio.TaskGroup() as group:
            for server in ensemble3.servers:
                group.create_task(server.restart())

        async def is_back() -> bool:
            return bool(await look_up(http, other, TOPIC))

        await eventually(is_back)
        assert sorted(waits_s)[int(0.99 * len(waits_s))] < _LIMIT_S, max(waits_s)
