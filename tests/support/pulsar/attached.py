"""`broker-ctl attach` beside a real cluster, as an operator types it, and what it has shown."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from tests.support.pulsar.choice import Choice, Source
from tests.support.pulsar.cluster import PulsarCluster

_END_S: Final = 60.0
_RESTING: Final = 3
# A test has minutes, not hours. The brokers of one machine share its processors and its network
# interface, so what they use of either says nothing about one of them: bytes are compared.
HURRIED: Final = {
    "loadBalancerSheddingIntervalMinutes": "0.05",
    "loadBalancerSheddingGracePeriodMinutes": "0.2",
    "loadBalancerAverageSampleSeconds": "1",
    "loadBalancerPlannerSteadySeconds": "5",
    "loadBalancerPlannerRecentSeconds": "2",
    "loadBalancerPlannerReturnMinutes": "1",
    "loadBalancerPlannerChurnPercentagePerHour": "100",
    "loadBalancerMaxLoadMovedPerHourPercentage": "1000",
    "loadBalancerCPUResourceWeight": "0",
    "loadBalancerBandwidthInResourceWeight": "0",
    "loadBalancerBandwidthOutResourceWeight": "0",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


def command(
    cluster: PulsarCluster, *options: str, settings: Mapping[str, str] | None = None
) -> list[str]:
    """The command line; output is JSON."""
    chosen = {**HURRIED, **(settings or {})}
    is_by_admin = Choice.of_environment().source is Source.ADMIN
    source = ("--source", "admin") if is_by_admin else ("--zookeeper", cluster.zookeeper)
    if is_by_admin:
        chosen["pulsarAdminPollMillis"] = "1000"
    return [
        *(sys.executable, "-m", "broker_ctl", "attach"),
        *(*source, "--output", "json", *options),
        *(part for broker in cluster.running for part in ("--admin", broker.url)),
        *(part for key, value in chosen.items() for part in ("--set", f"{key}={value}")),
    ]


class Attached:
    """A running one, and all pictures that it has shown."""

    def __init__(self, process: asyncio.subprocess.Process, shown: Path) -> None:
        self._process = process
        self._shown = shown

    def pictures(self) -> list[dict[str, Any]]:
        """Oldest first."""
        lines = self._shown.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def decided(self, *kinds: str) -> list[dict[str, Any]]:
        """Decisions of these kinds with what came of them, oldest first, each once."""
        rows = {
            (row["at_ms"], row["sentence"]): row
            for picture in self.pictures()
            for row in picture.get("decisions", ())
            if row["kind"] in kinds
        }
        return [rows[key] for key in sorted(rows)]

    def reads_only_what_it_may(self, cluster: PulsarCluster) -> bool:
        """Whether it has no connection to ZooKeeper, if it is to read the admin API alone."""
        if Choice.of_environment().source is Source.ZOOKEEPER:
            return True
        port = int(cluster.zookeeper.rpartition(":")[2])
        connections = psutil.Process(self._process.pid).net_connections("tcp")
        return bool(connections) and all(one.raddr[1:] != (port,) for one in connections)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()

    def is_resting(self) -> bool:
        """Whether the newest pictures show nothing under way."""
        newest = self.pictures()[-_RESTING:]
        return len(newest) == _RESTING and not any(picture.get("moves") for picture in newest)

    async def end(self) -> None:
        """Stop it as Ctrl-C does; it must end well."""
        self._process.send_signal(signal.SIGINT)
        async with asyncio.timeout(_END_S):
            assert await self._process.wait() == 0


@asynccontextmanager
async def attached(
    cluster: PulsarCluster,
    directory: Path,
    *options: str,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Attached]:
    """Run it for the length of the block; it is killed where the block did not `end` it."""
    shown = directory / "shown.json"
    if Choice.of_environment().source is Source.ADMIN:
        # One state for all that run beside this cluster, also after each other.
        options = (*options, "--state", f"file:{directory / 'state'}")
    with shown.open("wb") as out, (directory / "attach.log").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *command(cluster, *options, settings=settings),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
        )
    try:
        yield Attached(process, shown)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def run_once(
    cluster: PulsarCluster, settings: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Run ``attach --once``; return its exit code and the view that it prints."""
    process = await asyncio.create_subprocess_exec(
        *command(cluster, "--once", settings=settings),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_END_S):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    picture: dict[str, Any] = json.loads(out)
    return process.returncode, picture


def imbalance(loads: Iterable[float]) -> float:
    """The largest over the mean; 1 where there is none."""
    held: Sequence[float] = list(loads)
    return max(held) * len(held) / sum(held) if sum(held) else 1.0
