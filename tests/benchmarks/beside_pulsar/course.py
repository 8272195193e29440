"""Both sides of the run: the same cluster, placement and load, and one balancer at a time."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from tests.benchmarks.beside_pulsar import producing
from tests.benchmarks.beside_pulsar.figures import imbalance, interruptions_s, moves, quantile
from tests.benchmarks.beside_pulsar.load import (
    BUNDLES,
    CALM,
    HOT,
    first_owners,
    flows,
    topics_of,
)
from tests.benchmarks.beside_pulsar.watching import Observer, observing
from tests.support.pulsar.cluster import PulsarCluster, pulsar_cluster
from tests.support.pulsar.distribution import distribution
from tests.support.time.waiting import eventually

# How far the reported rate may be from what is sent when the balancer is switched on.
_FLOWING: Final = 0.15
_SHEDDING: Final = "loadBalancerSheddingEnabled"
_BALANCE: Final = "org.apache.pulsar.broker.loadbalance.impl"
# What holds for both sides. Rates and bytes are compared: brokers on one host use the same CPU.
_SHARED: Final = {
    "loadBalancerSheddingIntervalMinutes": "1",
    "loadBalancerSheddingGracePeriodMinutes": "30",
    "statsUpdateFrequencyInSecs": "2",
    # The averages that a leader keeps for the next one: ours begins with them, too.
    "loadBalancerResourceQuotaUpdateIntervalMinutes": "1",
}
# Pulsar's defaults, but for what it would never act below (1,000 msg/s, 1 MB/s), and for placing by
# count of bundles, which 5.0 has off. Stricter thresholds (10 %, half of the difference at once)
# make it worse: all bundles of one cycle may go to the same broker.
_PULSAR: Final = {
    "loadBalancerLoadSheddingStrategy": f"{_BALANCE}.UniformLoadShedder",
    "loadBalancerLoadPlacementStrategy": f"{_BALANCE}.LeastLongTermMessageRate",
    "loadBalancerMsgRateDifferenceShedderThreshold": "50",
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": "4",
    "maxUnloadPercentage": "0.2",
    "minUnloadMessage": "5",
    "minUnloadMessageThroughput": "5120",
    "loadBalancerDistributeBundlesEvenlyEnabled": "false",
}
_OURS: Final = {
    "loadBalancerLoadSheddingStrategy": "balance",
    "loadBalancerSheddingIntervalMinutes": "1",
    "loadBalancerSheddingGracePeriodMinutes": "30",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "loadBalancerCPUResourceWeight": "0",
    "loadBalancerBandwidthInResourceWeight": "0",
    "loadBalancerBandwidthOutResourceWeight": "0",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """How long, and how much.

    Attributes:
        settle_s: from the first message to the balancer.
        warm_s: from the balancer to the first sample that counts.
        seconds: that count; the step is in their middle.
    """

    seed: int = 7
    per_second: float = 250.0
    settle_s: float = 75.0
    warm_s: float = 75.0
    seconds: float = 200.0


@dataclass
class Side:
    """One side's outcome."""

    balancer: str
    settings: Mapping[str, str]
    figures: dict[str, Any] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self.figures, "settings": dict(self.settings)}


def run(wanted: Wanted, keep: Path | None) -> dict[str, Any]:
    """Measure both; ``keep``: where the output of our side goes."""
    pulsar = distribution()
    settings = {**_SHARED, **_PULSAR}
    with (
        tempfile.TemporaryDirectory() as scratch,
        pulsar_cluster(Path(scratch, "cluster"), pulsar, settings=settings) as cluster,
        observing(cluster.zookeeper) as observer,
    ):
        stage = Stage(cluster, observer, wanted, Path(scratch), keep)
        sides = asyncio.run(stage.both())
        return {
            "pulsar": pulsar.version,
            "cores": len(os.sched_getaffinity(0)),
            **asdict(wanted),
            "topics": len(stage.flows),
            "bundles": 2 * BUNDLES,
            "brokers": len(cluster.brokers),
            "message_bytes": producing.SIZE_BYTES,
            **{side.balancer: side.to_row() for side in sides},
        }


class Stage:
    """A running cluster, and what both sides begin with."""

    def __init__(
        self,
        cluster: PulsarCluster,
        observer: Observer,
        wanted: Wanted,
        directory: Path,
        keep: Path | None,
    ) -> None:
        self._cluster = cluster
        self._observer = observer
        self._wanted = wanted
        self._directory = directory
        self._keep = keep or directory
        self.flows = flows(wanted.seed, wanted.per_second)
        self._brokers = tuple(broker.id for broker in cluster.brokers)

    async def both(self) -> tuple[Side, Side]:
        """One after the other; Pulsar's first, whose averages know of nothing before it."""
        await self._make_namespaces()
        theirs = await self._side(Side("pulsar_uniform", {**_SHARED, **_PULSAR}))
        ours = await self._side(Side("broker_ctl", {**_SHARED, **_OURS}))
        return theirs, ours

    async def _make_namespaces(self) -> None:
        for namespace in (HOT, CALM):
            body = {"bundles": {"numBundles": BUNDLES}}
            reply = await self._cluster.admin("PUT", f"namespaces/{namespace}", body)
            assert reply.status == 204, reply.body

    async def _side(self, side: Side) -> Side:
        """One balancer: placed, loaded, settled, balanced, measured."""
        wanted = self._wanted
        async with self._admin() as admin, AsyncExitStack() as running:
            await self._place(admin)
            # Only now: a producer that has lost its topic waits ever longer to come back.
            send = await running.enter_async_context(self._producers(side.balancer))
            send("go")
            await asyncio.sleep(wanted.settle_s)
            await eventually(lambda: self._is_flowing(admin), 120, "all that is sent is reported")
            first = len(self._observer.samples)
            async with self._balancer(side.balancer, admin):
                await asyncio.sleep(wanted.warm_s)
                began = len(self._observer.samples)
                await asyncio.sleep(wanted.seconds / 2)
                send("step")
                stepped = len(self._observer.samples)
                await asyncio.sleep(wanted.seconds / 2)
                ended = len(self._observer.samples)
            send("stop")
            outcome = await self._outcome(side.balancer)
        side.figures = self._figures(outcome, first, began, stepped, ended)
        return side

    def _figures(
        self, outcome: Mapping[str, Any], first: int, began: int, stepped: int, ended: int
    ) -> dict[str, Any]:
        samples = self._observer.samples
        seen = [
            imbalance(sample, self.flows, self._brokers, is_after=number >= stepped)
            for number, sample in enumerate(samples[began:ended], began)
        ]
        ratios = [ratio for ratio in seen if ratio is not None]
        moved = moves(samples[first:ended])
        waits_ms = [wait * 1000 for wait in interruptions_s(moved, self.flows, outcome["slow"])]
        start = imbalance(samples[first], self.flows, self._brokers, is_after=False)
        return {
            "p50": round(quantile(ratios, 0.5), 3),
            "p99": round(quantile(ratios, 0.99), 3),
            "mean": round(sum(ratios) / max(1, len(ratios)), 3),
            "at_start": round(start or 0.0, 3),
            "moves": len(moved),
            "interruption_ms_p50": round(quantile(waits_ms, 0.5)),
            "interruption_ms_p99": round(quantile(waits_ms, 0.99)),
            "sent": outcome["sent"],
            "failed": outcome["failed"] + outcome["unanswered"],
            "each_20_s": [round(ratio, 2) for ratio in ratios[::40]],
        }

    async def _is_flowing(self, admin: PulsarAdmin) -> bool:
        reports = [
            (await admin.ask("broker-stats/load-report", broker_id)).json()
            for broker_id in self._brokers
        ]
        reported = sum(float(report["msgRateIn"]) for report in reports)
        return abs(reported - self._wanted.per_second) < _FLOWING * self._wanted.per_second

    # Where bundles are at first.

    async def _place(self, admin: PulsarAdmin) -> None:
        wanted = first_owners(self._wanted.seed, self._brokers)
        turn = asyncio.Semaphore(4)

        async def place(bundle: Bundle, broker_id: str) -> None:
            async with turn:
                await self._put(admin, bundle, broker_id)

        async with asyncio.TaskGroup() as tasks:
            for bundle, broker_id in wanted.items():
                if topics_of(self.flows, bundle):
                    tasks.create_task(place(bundle, broker_id), name=f"place {bundle}")

    async def _put(self, admin: PulsarAdmin, bundle: Bundle, broker_id: str) -> None:
        async def is_there() -> bool:
            owner = self._observer.owners().get(bundle)
            if owner is not None and owner.broker_id == broker_id:
                return True
            if owner is not None:
                await admin.unload(bundle, broker_id)
            # A lookup makes the broker that is asked acquire it.
            topic = topics_of(self.flows, bundle)[0].replace("://", "/")
            async with HttpClient(timeout_s=30, max_body_bytes=1 << 20) as http:
                try:
                    await http.request(
                        "GET",
                        f"{self._cluster.admin_url}/lookup/v2/topic/{topic}",
                        allow_redirects=True,
                    )
                except HttpError:
                    return False
            return False

        await eventually(is_there, 120, f"{bundle} at {broker_id}", poll_s=0.2)

    # Who balances.

    @asynccontextmanager
    async def _balancer(self, name: str, admin: PulsarAdmin) -> AsyncIterator[None]:
        if name == "broker_ctl":
            async with self._attached():
                yield
            return
        await admin.override(_SHEDDING, "true")
        try:
            yield
        finally:
            await admin.override(_SHEDDING, "false")

    @asynccontextmanager
    async def _attached(self) -> AsyncIterator[None]:
        options = [
            *("--zookeeper", self._cluster.zookeeper, "--admin", self._cluster.admin_url),
            *("--act", "--output", "json"),
            *(item for key, value in _OURS.items() for item in ("--set", f"{key}={value}")),
        ]
        with (self._keep / "attach.out").open("wb") as shown:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "broker_ctl", "attach", *options),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=shown,
                stderr=shown,
            )
            try:
                yield
                assert process.returncode is None, "attach has ended"
            finally:
                if process.returncode is None:
                    process.send_signal(signal.SIGTERM)
                await process.wait()

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[PulsarAdmin]:
        brokers = {broker.id: BrokerUrls(broker.id, broker.url) for broker in self._cluster.brokers}
        async with HttpClient(timeout_s=30, max_body_bytes=1 << 24) as http:
            yield PulsarAdmin((self._cluster.admin_url,), http, lambda: brokers, act_timeout_s=90)

    # What is sent.

    @asynccontextmanager
    async def _producers(self, name: str) -> AsyncIterator["_Orders"]:
        plan = self._directory / "flows.json"
        plan.write_text(json.dumps([asdict(flow) for flow in self.flows]), encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", producing.__name__, self._cluster.service_url),
            *(str(plan), str(self._outcome_file(name))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(120):
                assert await process.stdout.readline() == b"ready\n"
            yield _Orders(process.stdin)
            async with asyncio.timeout(60):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _outcome(self, name: str) -> dict[str, Any]:
        file = self._outcome_file(name)

        def written() -> dict[str, Any] | None:
            try:
                read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            except (FileNotFoundError, json.JSONDecodeError):
                return None
            return read

        return await eventually(written, 60, "the producers' outcome")

    def _outcome_file(self, name: str) -> Path:
        return self._directory / f"{name}.json"


class _Orders:
    """Orders to the producers."""

    def __init__(self, stdin: asyncio.StreamWriter) -> None:
        self._stdin = stdin

    def __call__(self, line: str) -> None:
        self._stdin.write(f"{line}\n".encode())
