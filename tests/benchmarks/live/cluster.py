"""Daemons on a real ensemble that begin where a scenario does."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from broker_ctl.clock import SystemClock
from broker_ctl.core.model.names import RING_HIGH, Bundle, Namespace
from broker_ctl.errors import SettingsError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.lab.embedded.server import TICK_MS
from broker_ctl.settings.root import Settings
from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.live.tempo import paced
from tests.benchmarks.live.watching import Watch
from tests.support.clusters.tenants import make_tenant
from tests.support.daemon.running_daemons import leader_of
from tests.support.time.waiting import eventually

_AT_ONCE: Final = 16
_MOST_ROWS: Final = 1000
_SETTINGS: Final = {
    # Other work on the same machine must not cost a session.
    "metadataStoreSessionTimeoutMillis": "15000",
    "zookeeperTickTimeMillis": str(TICK_MS),
    "hostUsageSource": "dataplane",
    # Until the scenario begins, as a simulated leader knows nothing of what was before.
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is played, and how.

    Attributes:
        name: of the scenario.
        seed: 0: the scenario's own.
        brokers: how many.
        minutes: that are played.
        minute_s: how long each lasts.
        lead_s: from the start of the daemons to the first minute.
    """

    name: str
    seed: int
    brokers: int
    minutes: int
    minute_s: float = 1.0
    lead_s: float = 45.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running daemons, one for each broker of the scenario, in its order."""

    wanted: Wanted
    scenario: Scenario
    origin_s: float
    http: HttpClient
    daemons: Sequence[DaemonProcess]
    watch: Watch

    @property
    def broker_ids(self) -> list[str]:
        return [daemon.broker_id for daemon in self.daemons]

    @property
    def late_s(self) -> float:
        """How much of the scenario has gone by; below 0: it has not begun."""
        return SystemClock().now_s() - self.origin_s

    async def balance(self, *, is_on: bool) -> None:
        """Let the leader act, or stop it."""
        for key in ("loadBalancerAutoBundleSplitEnabled", "loadBalancerSheddingEnabled"):
            path = f"admin/v2/brokers/configuration/{key}/{str(is_on).lower()}"
            reply = await self.http.request("POST", f"{self.daemons[0].url}/{path}")
            assert reply.status == 204, reply.body

    async def play(self) -> None:
        """From before the first minute to the end of the last one.

        Raises:
            AssertionError: the first one is over.
        """
        assert self.late_s < 0, f"ready {self.late_s:.1f} s after the start: take a longer lead"
        # The reports of a minute are out when the next one begins, as in the simulator.
        await asyncio.sleep(self.wanted.minute_s / 2 - self.late_s)
        await self.balance(is_on=True)
        await asyncio.sleep(self.wanted.minutes * self.wanted.minute_s - self.late_s)

    async def transfers(self) -> list[dict[str, Any]]:
        """Moves that the leader has decided on, with what came of them."""
        url = f"{self.daemons[0].url}/control/v1/history?kind=transfer&limit={_MOST_ROWS}"
        reply = await self.http.request("GET", url, allow_redirects=True)
        assert reply.status == 200, reply.body
        return list(reply.json())


@asynccontextmanager
async def cluster_of(
    wanted: Wanted, scenario: Scenario, hosts: str, chroot: str, directory: Path
) -> AsyncIterator[Cluster]:
    """All bundles are at the brokers that the scenario begins with."""
    origin_s = SystemClock().now_s() + wanted.lead_s
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(HttpClient(timeout_s=20.0, max_body_bytes=8 << 20))
        settings = _settings(wanted, origin_s) | {"metadataStoreUrl": f"zk:{hosts}{chroot}"}
        daemons = await stack.enter_async_context(Daemons(directory, wanted.brokers, settings))
        await daemons.wait_ready(http)
        store = ZooKeeperStore(StoreOptions(hosts=hosts, chroot=chroot))
        await store.start()
        stack.push_async_callback(store.close)
        await store.wait_connected()
        rings = _rings(scenario.traffic.bundles)
        await _create(http, daemons.all[0], rings)
        watch = await stack.enter_async_context(Watch.of(store, rings))
        numbers = {broker_id: number for number, broker_id in enumerate(scenario.brokers)}
        owners = {
            bundle: daemons.all[numbers[owner]]
            for bundle, owner in zip(scenario.traffic.bundles, scenario.owners, strict=True)
        }
        await _take_all(http, daemons.all, owners)
        first = {bundle: daemon.broker_id for bundle, daemon in owners.items()}
        await eventually(lambda: watch.owned == first, what="the owners of the first minute")
        yield Cluster(wanted, scenario, origin_s, http, daemons.all, watch)


def cut(scenario: Scenario, minutes: int) -> Scenario:
    """Its first minutes.

    Raises:
        SettingsError: brokers come or go meanwhile, or differ: that is not played.
    """
    events = tuple(event for event in scenario.events if event.minute < minutes)
    if events or scenario.absent or len(set(scenario.brokers.values())) > 1:
        raise SettingsError(f"{scenario.name}: its brokers differ, or come and go meanwhile")
    traffic = scenario.traffic
    rates = ("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out")
    first: dict[str, Any] = {name: getattr(traffic, name)[:minutes] for name in rates}
    return replace(scenario, traffic=replace(traffic, **first), events=())


def _settings(wanted: Wanted, origin_s: float) -> dict[str, str]:
    return {
        **_SETTINGS,
        **paced(Settings(), wanted.minute_s),
        "simulatedWorkload": wanted.name,
        "simulatedSeed": str(wanted.seed),
        "simulatedBrokers": str(wanted.brokers),
        "simulatedStartSeconds": f"{origin_s:.6f}",
    }


def _rings(bundles: Sequence[Bundle]) -> Mapping[Namespace, list[str]]:
    """The boundaries of each namespace, as the HTTP interface takes them."""
    points: dict[Namespace, list[int]] = {}
    for bundle in sorted(bundles):
        points.setdefault(bundle.namespace, []).append(bundle.range.low)
    return {
        namespace: [f"0x{point:08x}" for point in (*lows, RING_HIGH)]
        for namespace, lows in points.items()
    }


async def _create(
    http: HttpClient, daemon: DaemonProcess, rings: Mapping[Namespace, list[str]]
) -> None:
    for namespace, boundaries in rings.items():
        await make_tenant(http, daemon.url, namespace.tenant)
        url = f"{daemon.url}/admin/v2/namespaces/{namespace}"
        reply = await http.request("PUT", url, json={"bundles": {"boundaries": boundaries}})
        assert reply.status == 204, reply.body


async def _take_all(
    http: HttpClient, daemons: Sequence[DaemonProcess], owners: Mapping[Bundle, DaemonProcess]
) -> None:
    """The leader's orders to take a bundle, given in its name."""
    _, epoch = await eventually(lambda: leader_of(http, daemons), what="a leader")

    async def take(waiting: Iterator[tuple[Bundle, DaemonProcess]]) -> None:
        for bundle, daemon in waiting:
            order = {"epoch": epoch, "bundle": str(bundle)}
            reply = await http.request("POST", f"{daemon.url}/control/v1/acquire", json=order)
            assert reply.status == 200, reply.body

    waiting = iter(owners.items())
    async with asyncio.TaskGroup() as group:
        for number in range(_AT_ONCE):
            group.create_task(take(waiting), name=f"take {number}")
