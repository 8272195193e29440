"""Floods of a bounded size against one daemon: its session, its bundles and its health check stay.

Four floods in turn, from a process of their own on the same machine.
"""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.machines.lease import LeaseRules
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.store import paths
from broker_ctl.tasks import TaskScope
from tests.support.daemon.running_daemons import NAMESPACE, make_namespace, status
from tests.support.security import floods
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

log = logging.getLogger(__name__)

BUNDLES: Final = 12
POLICIES: Final = 10
# Almost as expensive as a pattern may be, for the longest text that a client may choose.
HOSTILE: Final = r"(?i)(?:[\w.-]?){20}X"
# One read takes at least this time, or it would be no attack.
LEAST_READ_S: Final = 0.03
# What a hang looks like on a machine that is busy with other work. The goal is that no heartbeat is
# later, and no health check slower, than 1 s; the figures are printed.
HANG_S: Final = 10.0
HEALTH: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Watch:
    """The slowest health check, and the longest time between heartbeats, by ZooKeeper's clock."""

    def __init__(self, daemon: DaemonProcess, zookeeper: KazooClient) -> None:
        self._daemon = daemon
        self._zookeeper = zookeeper
        self._lease = paths.lease(daemon.broker_id)
        self.slowest_s = self.longest_s = 0.0
        self.checks = self.heartbeats = 0

    async def check_health(self) -> None:
        """As a probe does, each time over a new connection; until cancelled."""
        host, port = self._daemon.broker_id.split(":")
        while True:
            began_s = time.monotonic()
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(HEALTH)
                answer = await reader.read()
                writer.close()
                self.checks += answer.startswith(b"HTTP/1.1 200 ")
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            await asyncio.sleep(0.02)

    async def read_heartbeats(self) -> None:
        """Read the node that each heartbeat writes; until cancelled."""
        _, before = await asyncio.to_thread(self._zookeeper.get, self._lease)
        while True:
            await asyncio.sleep(0.05)
            _, stat = await asyncio.to_thread(self._zookeeper.get, self._lease)
            if stat.version != before.version:
                self.longest_s = max(self.longest_s, (stat.mtime - before.mtime) / 1000)
                self.heartbeats += stat.version - before.version
                before = stat


@pytest.fixture
def reader(zookeeper: SharedEnsemble, chroot: str) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.connect_string + chroot)
    client.start()
    yield client
    client.stop()
    client.close()


async def flood(kind: str, daemon: DaemonProcess) -> Mapping[str, int]:
    """How often there was which answer."""
    host, port = daemon.broker_id.split(":")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, floods.__file__, kind, host, port), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(2 * PATIENCE_S):
            written, _ = await process.communicate()
        assert process.returncode == 0
        counts: dict[str, int] = json.loads(written)
        return counts
    finally:
        with suppress(ProcessLookupError):
            process.kill()


async def make_policies(http: HttpClient, daemon: DaemonProcess) -> None:
    failover = {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "100"},
    }
    for number in range(POLICIES):
        body = {
            "namespaces": [f"tenant-{number}/none"],
            "primary": [f"{HOSTILE}{number}"],
            "auto_failover_policy": failover,
        }
        url = f"{daemon.url}{floods.POLICIES_PATH}/policy-{number}"
        reply = await http.request("POST", url, json=body)
        assert reply.status == 204, reply.body


async def read_is_expensive(http: HttpClient, daemon: DaemonProcess) -> None:
    """One of the hostile reads, alone."""
    began_s = time.monotonic()
    url = f"{daemon.url}{floods.POLICIES_PATH}/brokers/{'a-' * 30}zzz:8080"
    reply = await http.request("GET", url)
    took_s = time.monotonic() - began_s
    sys.stderr.write(f"one hostile read: {reply.status} after {took_s:.2f} s\n")
    assert (reply.status, took_s >= LEAST_READ_S) == (200, True)


def scraped(answers: Mapping[str, int]) -> None:
    assert answers["200"] > floods.SCRAPERS
    assert answers.keys() <= {"200", "503", "disconnected"}


def read(answers: Mapping[str, int]) -> None:
    """Those that wait for more than 30 s are rejected."""
    assert answers["200"] > floods.READS / 4
    assert answers["200"] + answers.get("503", 0) == floods.READS


def refused_compressed(answers: Mapping[str, int]) -> None:
    assert answers == {"415": floods.BOMBS}


def connected(answers: Mapping[str, int]) -> None:
    assert answers["connected"] > floods.SILENT / 4


# What makes each flood an attack, and no failure of the client.
ATTACKS: Final[Mapping[str, Callable[[Mapping[str, int]], None]]] = {
    "scrapes": scraped,
    "hostile-reads": read,
    "bombs": refused_compressed,
    "silent-sockets": connected,
}


async def owned_by(http: HttpClient, daemon: DaemonProcess) -> dict[str, int]:
    """The daemon's bundles and their fencing tokens."""
    url = f"{daemon.url}/control/v1/owners?namespace={NAMESPACE}"
    rows = (await http.request("GET", url)).json()
    return {row["bundle"]: row["token"] for row in rows if row["owner"] == daemon.broker_id}


async def acquire_all(http: HttpClient, daemon: DaemonProcess) -> dict[str, int]:
    async def are_owned() -> dict[str, int]:
        for number in range(8 * BUNDLES):
            path = f"/lookup/v2/topic/persistent/{NAMESPACE}/t{number}"
            await http.request("GET", daemon.url + path)
        owned = await owned_by(http, daemon)
        return owned if len(owned) == BUNDLES else {}

    return await eventually(are_owned)


@pytest.mark.slow
@pytest.mark.parametrize("timeout_ms", [6_000, 30_000])
async def test_four_floods_end_no_session_and_delay_no_health_check(
    timeout_ms: int,
    zookeeper: SharedEnsemble,
    chroot: str,
    reader: KazooClient,
    tmp_path: Path,
) -> None:
    settings = {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "metadataStoreSessionTimeoutMillis": str(timeout_ms),
        # The bundles stay as they are, whatever load the floods make.
        "loadBalancerAutoBundleSplitEnabled": "false",
    }
    tick_s = float(SETTINGS["zookeeperTickTimeMillis"]) / 1000
    async with (
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        Daemons(tmp_path, 1, settings) as daemons,
    ):
        await daemons.wait_ready(http)
        daemon = daemons.all[0]
        await make_namespace(http, daemon, BUNDLES)
        await make_policies(http, daemon)
        owned = await acquire_all(http, daemon)
        session = (await status(http, daemon))["session"]
        rules = LeaseRules(timeout_ms / 1000, tick_s)
        await read_is_expensive(http, daemon)
        figures = {}
        for kind in floods.FLOODS:
            watch = Watch(daemon, reader)
            async with TaskScope("watch") as scope:
                scope.start(watch.check_health(), "health")
                scope.start(watch.read_heartbeats(), "heartbeats")
                began_s = time.monotonic()
                answers = await flood(kind, daemon)
                took_s = time.monotonic() - began_s
                # At least one heartbeat from before to after.
                await asyncio.sleep(rules.period_s)
            late_s = watch.longest_s - rules.period_s
            figures[kind] = (watch.slowest_s, late_s, watch.checks)
            ATTACKS[kind](answers)
            sys.stderr.write(
                f"{timeout_ms} ms, {kind}: {took_s:.1f} s, {watch.checks} health checks, slowest "
                f"{watch.slowest_s:.2f} s; {watch.heartbeats} heartbeats, late by {late_s:.2f} s, "
                f"limit {HANG_S:g} s; {answers}\n"
            )
        now = (await status(http, daemon))["session"]
        assert (now["state"], now["epoch"]) == ("connected", session["epoch"])
        assert await owned_by(http, daemon) == owned
        for kind, (slowest_s, late_s, checks) in figures.items():
            assert slowest_s <= HANG_S, kind
            assert late_s <= HANG_S, kind
            assert checks > 0, kind
