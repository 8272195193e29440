"""The demo cluster of ``broker-ctl quickstart``: its servers, its daemons, its load."""

import asyncio
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from broker_ctl.cli import status_screen
from broker_ctl.cli.runtime.zookeeper_target import require_private
from broker_ctl.cli.status_screen import DemoSnapshot, DemoTable
from broker_ctl.daemon.wiring.stores import StoreCredentials, open_store
from broker_ctl.dataplane.bundles.serve_log import OwnershipVerdict, judge, merge_logs, read_events
from broker_ctl.errors import EmbeddedError, HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.embedded.daemons import Daemons
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.load_client import LoadClient
from broker_ctl.settings.sources import load
from broker_ctl.simulation.workload.workload import Workload
from broker_ctl.store import paths
from broker_ctl.store.records.broker_ctl import ClusterName
from broker_ctl.store.zookeeper.store import ZooKeeperStore

WORKLOAD: Final = "skewed"
_SEED: Final = 1
_TICK_S: Final = 0.1
_NAMESPACE: Final = "public/default"
_BUNDLES: Final = 4
_POLL_S: Final = 1.0

# Short intervals, so that a minute shows what takes an hour with the defaults.
SETTINGS: Final = {
    "clusterName": "quickstart",
    "metadataStoreSessionTimeoutMillis": "6000",
    "zookeeperTickTimeMillis": "500",
    "dataPlane": "simulated",
    "simulatedWorkload": WORKLOAD,
    "simulatedSeed": str(_SEED),
    "hostUsageSource": "dataplane",
    "statsUpdateFrequencyInSecs": "1",
    "loadBalancerHostUsageCheckIntervalMinutes": "0.02",
    "loadBalancerReportUpdateMinIntervalMillis": "1000",
    "loadBalancerReportUpdateMaxIntervalMinutes": "0.05",
    "loadBalancerSheddingIntervalMinutes": "0.05",
    "loadBalancerSplitIntervalMinutes": "0.05",
    "loadBalancerSheddingGracePeriodMinutes": "0.25",
    "loadBalancerHistoryResourcePercentage": "0.2",
    "loadBalancerBundleUnloadMinThroughputThreshold": "0",
    "loadBalancerMaxLoadMovedPerHourPercentage": "1000",
    "brokerShutdownTimeoutMs": "10000",
}


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run, and for how long; with 0 partitions there is no replicated topic."""

    brokers: int
    servers: int
    partitions: int
    duration_s: float | None
    is_live: bool
    zookeeper: str | None
    directory: Path | None


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Result of a run. ``imbalance`` is the maximum over the mean usage of the brokers.

    ``owners_ok``, ``double_served`` and ``unserved_s`` come from the serve logs of all data planes
    over the whole run.
    """

    brokers: int
    leader: str
    bundles: int
    splits: int
    unloads: int
    imbalance_first: float
    imbalance_last: float
    owners_ok: bool
    double_served: int
    unserved_s: float
    partitions: int
    offline_partitions: int
    metrics_urls: list[str] = field(default_factory=list)

    @property
    def is_measured(self) -> bool:
        """Whether the cluster ran long enough to be measured."""
        return self.bundles > 0

    @property
    def sentence(self) -> str:
        """The result in one line."""
        served = "no topic was served twice" if not self.double_served else "DOUBLE SERVED"
        return (
            f"{self.splits} splits, {self.unloads} unloads; "
            f"imbalance {self.imbalance_first:.2f} -> {self.imbalance_last:.2f}; "
            f"{served}; longest gap {self.unserved_s:.2f} s"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(slots=True)
class _DemoOverviews:
    """First imbalance and newest overview of the leader; newest overview of the controller."""

    first: float = 0.0
    newest: dict[str, Any] = field(default_factory=dict)
    leader: str = ""
    replicated: dict[str, Any] = field(default_factory=dict)
    # By epoch: each leader counts the decisions of its own term.
    counts: dict[int, dict[str, int]] = field(default_factory=dict)

    def count(self, overview: Mapping[str, Any]) -> None:
        """Remember what this term has done so far."""
        names = ("splits", "unloads")
        self.counts[overview["epoch"]] = {name: int(overview.get(name, 0)) for name in names}

    def total(self, name: str) -> int:
        """Of all terms."""
        return sum(each[name] for each in self.counts.values())


class DemoCluster:
    """One run; at its end all processes are stopped and temporary files are removed."""

    def __init__(self, options: DemoOptions) -> None:
        self._options = options
        self._workload = Workload.named(WORKLOAD, _SEED)
        self._seen = _DemoOverviews()

    async def run(self) -> DemoResult:
        """Run until the duration is over or a signal comes."""
        async with AsyncExitStack() as scopes:
            directory = self._options.directory
            if directory is None:
                kept = tempfile.TemporaryDirectory(prefix="broker-ctl-quickstart-")
                directory = Path(scopes.enter_context(kept))
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stopped.set)
            verdict, daemons = await self._run(directory, stopped)
        return self._result(verdict, daemons)

    async def _run(
        self, directory: Path, stopped: asyncio.Event
    ) -> tuple[OwnershipVerdict, Daemons]:
        async with (
            self._ensemble(directory) as hosts,
            HttpClient(timeout_s=5.0, max_body_bytes=8 << 20) as http,
        ):
            settings = {
                "metadataStoreUrl": f"zk:{hosts}",
                **SETTINGS,
                "loadHistoryDirectory": str((directory / "history").absolute()),
                # The same start for all brokers: the load of a bundle must not jump when it moves.
                "simulatedStartSeconds": f"{time.clock_gettime(time.CLOCK_BOOTTIME):.3f}",
            }
            daemons = self._daemons(directory, settings)
            for daemon in daemons.all:
                # Otherwise the events of an earlier run would be checked, too.
                daemon.files.serve_log.unlink(missing_ok=True)
            async with daemons:
                await daemons.wait_ready(http)
                await self._create_namespace(http, daemons)
                await self._create_topic(http, daemons)
                self._log(f"console: {daemons.all[0].url}/ui/")
                self._log(f"broker.conf: {daemons.all[0].files.configuration}")
                await self._watch(http, daemons, stopped)
                end_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                await self._poll(http, daemons)
        self._log("stopped; checking the serve logs")
        return self._check_logs(daemons, end_ns), daemons

    def _daemons(self, directory: Path, settings: dict[str, str]) -> Daemons:
        count = self._options.brokers
        if not self._options.partitions:
            return Daemons(directory, count, settings)
        return Daemons(directory, count, settings, status_screen.settings_of)

    @staticmethod
    def _log(text: str) -> None:
        # stdout is for the table and the JSON line.
        sys.stderr.write(text + "\n")

    @asynccontextmanager
    async def _ensemble(self, directory: Path) -> AsyncIterator[str]:
        """``host:port.../chroot`` of servers started for this run, or of the given ones."""
        if self._options.zookeeper is None:
            self._log(f"starting {self._options.servers} ZooKeeper server(s)")
            home = directory / "zookeeper"
            async with Ensemble.of(home, self._options.servers) as ensemble:
                yield ensemble.connect_string
            return
        hosts, chroot = self._options.zookeeper, f"/broker-ctl-quickstart-{secrets.token_hex(6)}"
        store = _open_store(hosts)
        await store.start()
        try:
            # Another run on the same servers is a cluster of the same name.
            name = ClusterName(SETTINGS["clusterName"]).encode()
            await store.create(chroot + paths.CLUSTER_NAME, name, make_parents=True)
            yield hosts + chroot
        finally:
            await _remove(store, chroot)
            await store.close()

    async def _create_namespace(self, http: HttpClient, daemons: Daemons) -> None:
        tenant = {"allowedClusters": [SETTINGS["clusterName"]]}
        bundles = {"bundles": {"numBundles": _BUNDLES}}
        admin = f"{daemons.all[0].url}/admin/v2"
        for path, body in (("tenants/public", tenant), (f"namespaces/{_NAMESPACE}", bundles)):
            url = f"{admin}/{path}"
            reply = await http.request("PUT", url, json=body)
            if reply.status not in {204, 409}:
                raise EmbeddedError(f"{url}: {reply.status} {reply.body.decode(errors='replace')}")

    async def _create_topic(self, http: HttpClient, daemons: Daemons) -> None:
        if count := self._options.partitions:
            url = daemons.all[0].url
            await status_screen.create_topic(http, url, count, len(daemons.all))
            self._log(f"try: broker-ctl partitions describe {status_screen.TOPIC} --url {url}")

    async def _watch(self, http: HttpClient, daemons: Daemons, stopped: asyncio.Event) -> None:
        """Run the clients and the table until the duration is over."""
        client = LoadClient(
            http,
            [daemon.url for daemon in daemons.all],
            [topic.name for topic in self._workload.topics],
            random.Random(_SEED),  # noqa: S311  (spreads requests)
        )
        async with asyncio.TaskGroup() as group:
            clients = group.create_task(client.run(), name="load client")
            watching = group.create_task(self._show(http, daemons, client), name="table")
            try:
                async with asyncio.timeout(self._options.duration_s):
                    await stopped.wait()
            except TimeoutError:
                pass
            clients.cancel()
            watching.cancel()

    async def _show(self, http: HttpClient, daemons: Daemons, client: LoadClient) -> None:
        table = DemoTable(is_live=self._options.is_live)
        with table:
            while True:
                await self._poll(http, daemons)
                table.show(self._snapshot(daemons, client))
                await asyncio.sleep(_POLL_S)

    def _snapshot(self, daemons: Daemons, client: LoadClient) -> DemoSnapshot:
        running = [daemon.url for daemon in daemons.all if daemon.is_running]
        ended = [
            f"{daemon.broker_id} has ended with exit code {daemon.exit_code}: {daemon.files.log}"
            for daemon in daemons.all
            if not daemon.is_running
        ]
        urls = running or [daemon.url for daemon in daemons.all]
        seen = self._seen
        return DemoSnapshot(seen.newest, client.statistics, urls, ended, seen.replicated)

    async def _poll(self, http: HttpClient, daemons: Daemons) -> None:
        """Read the leader's overview from the first broker that answers, and the controller's."""
        if self._options.partitions:
            overview = await status_screen.overview(http, daemons.all[0].url)
            self._seen.replicated = overview or self._seen.replicated
        for daemon in daemons.all:
            try:
                reply = await http.request(
                    "GET", f"{daemon.url}/control/v1/cluster", allow_redirects=True
                )
                if reply.status == 200:
                    self._record(reply.json())
                    return
            except HttpError:
                continue

    def _record(self, overview: dict[str, Any]) -> None:
        self._seen.newest = overview
        self._seen.count(overview)
        self._seen.leader = str(overview.get("leader", ""))
        owned = sum(1 for bundle in overview["bundles"] if bundle.get("owner"))
        # The first overview in which all bundles have an owner and a load.
        is_whole = owned >= _BUNDLES and all(
            b["throughput_bytes_per_s"] > 0 for b in overview["bundles"]
        )
        if not self._seen.first and is_whole:
            self._seen.first = float(overview["usage_imbalance"] or 0.0)

    def _check_logs(self, daemons: Daemons, end_ns: int) -> OwnershipVerdict:
        # A broker that never served anything has no log.
        logs = [path for d in daemons.all if (path := d.files.serve_log).exists()]
        events = merge_logs(map(read_events, logs))
        expected = self._workload.positions_with_traffic(0.0)
        return judge(events, _TICK_S, expected, end_ns)

    def _result(self, verdict: OwnershipVerdict, daemons: Daemons) -> DemoResult:
        newest = self._seen.newest
        return DemoResult(
            brokers=len(daemons.all),
            leader=self._seen.leader,
            bundles=len(newest.get("bundles", ())),
            splits=self._seen.total("splits"),
            unloads=self._seen.total("unloads"),
            imbalance_first=self._seen.first,
            imbalance_last=float(newest.get("usage_imbalance") or 0.0),
            owners_ok=verdict.owners_ok,
            double_served=verdict.double_served,
            unserved_s=verdict.unserved_s,
            partitions=int(self._seen.replicated.get("partitions", 0)),
            offline_partitions=int(self._seen.replicated.get("offline", 0)),
            metrics_urls=[f"{daemon.url}/metrics" for daemon in daemons.all],
        )


def _open_store(hosts: str) -> ZooKeeperStore:
    """A store with the identity that the environment names, which the daemons have, too.

    Raises:
        SettingsError, StartError: a setting is wrong, or a file cannot be read.
    """
    entries = (f"metadataStoreUrl=zk:{hosts}", "metadataStoreOperationTimeoutSeconds=10")
    settings = load(None, os.environ, entries)
    require_private(settings)
    url = settings.metadata.store_url
    assert url is not None
    return open_store(
        settings,
        url,
        "metadata-store",
        random.SystemRandom(),
        instruments=StoreInstruments(),
        credentials=StoreCredentials.now(settings),
    )


async def _remove(store: ZooKeeperStore, path: str) -> None:
    """Delete a node recursively; ephemeral nodes of ended daemons may expire meanwhile."""
    for name in await store.children(path):
        await _remove(store, f"{path}/{name}")
    stat = await store.exists(path)
    if stat is not None:
        await store.delete(path)
