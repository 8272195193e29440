"""ZooKeeper stands still for longer than the lease: what clients and operators are answered."""

import time
from pathlib import Path

import pytest

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from tests.support.daemon.running_daemons import look_up, make_namespace, status
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPIC = Topic("persistent", Namespace("public", "default"), "t")
LOOKUP = "/lookup/v2/topic/persistent/public/default/t"
OWNERS = "/control/v1/owners?namespace=public/default"
# Far below the 30 s for which a read waits for the store.
AT_ONCE_S = 10.0


async def metric(http: HttpClient, daemon: DaemonProcess, name: str) -> float:
    text = (await http.request("GET", f"{daemon.url}/metrics")).body.decode()
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return sum(float(line[-1]) for line in lines if name in line[0])


async def failures(http: HttpClient, daemon: DaemonProcess) -> float:
    return await metric(http, daemon, "lookup_failures_total")


@pytest.mark.slow
async def test_lookups_are_refused_at_once_and_counted_and_no_leader_is_named(
    ensemble3: SharedEnsemble, http: HttpClient, tmp_path: Path
) -> None:
    url = f"zk:{ensemble3.connect_string}/no-authority"
    async with Daemons(tmp_path, 2, {"metadataStoreUrl": url, **SETTINGS}) as daemons:
        await daemons.wait_ready(http)
        one, other = daemons.all
        timeout_ms = float(SETTINGS["metadataStoreSessionTimeoutMillis"])
        assert await metric(http, one, "broker_ctl_session_timeout_seconds") == timeout_ms / 1000
        await make_namespace(http, one)
        await eventually(lambda: look_up(http, one, TOPIC))
        for server in ensemble3.servers:
            server.pause()
        try:
            for daemon in (one, other):

                async def is_lost(daemon: DaemonProcess = daemon) -> bool:
                    state = (await status(http, daemon)).get("session", {}).get("state")
                    return state in {"lost", "expired"}

                await eventually(is_lost, deadline_s=60.0, what=f"{daemon.broker_id} knows")
                before = await failures(http, daemon)
                began_s = time.monotonic()
                for path in (LOOKUP, LOOKUP, LOOKUP, OWNERS):
                    reply = await http.request("GET", daemon.url + path)
                    assert reply.status == 503, (path, reply.body)
                    assert reply.json()["error"] == "AuthorityLost"
                assert time.monotonic() - began_s < AT_ONCE_S

                # Scrapes of one second share what was counted at its begin.
                async def is_counted(
                    daemon: DaemonProcess = daemon, before: float = before
                ) -> bool:
                    return await failures(http, daemon) - before >= 3

                await eventually(is_counted, what="three failures")
                leader = await http.request("GET", f"{daemon.url}/admin/v2/brokers/leaderBroker")
                assert leader.status == 404
                assert "bundles are not served until" in daemon.files.log.read_text()
        finally:
            for server in ensemble3.servers:
                server.resume()
