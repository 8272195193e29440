"""What is read of the daemon: its metric of the event loop, its lease, its log, its memory."""

import asyncio
import math
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.store import paths
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.lines.log_lines import CYCLE_ENDED, matches

_LAG: Final = "broker_ctl_loop_lag_seconds"
# Far more often than a heartbeat is due: none is missed.
_LOOK_S: Final = 0.05

Buckets = Mapping[float, float]


async def lag_buckets(http: HttpClient, daemon: DaemonProcess) -> Buckets:
    """Number of timers that were at most as late as each bound, by the bound in ms."""
    reply = await http.request("GET", f"{daemon.url}/metrics")
    assert reply.status == 200, reply.body
    (family,) = (
        one for one in text_string_to_metric_families(reply.body.decode()) if one.name == _LAG
    )
    return {
        float(sample.labels["le"]) * 1000: sample.value
        for sample in family.samples
        if sample.name.endswith("_bucket")
    }


def lag_figures(before: Buckets, after: Buckets) -> Mapping[str, float]:
    """``p50``, ``p99`` and ``max`` of what was observed in between."""
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    total = max(counts.values())
    return {
        "p50": round(_quantile(counts, 0.50 * total), 2),
        "p99": round(_quantile(counts, 0.99 * total), 2),
        "max": next(bound for bound, count in counts.items() if count == total),
    }


def _quantile(counts: Buckets, rank: float) -> float:
    low, below = 0.0, 0.0
    for bound, count in counts.items():
        if count >= rank:
            if bound == math.inf:
                break
            return low + (bound - low) * (rank - below) / (count - below)
        low, below = bound, count
    return low


class Pulse:
    """The heartbeats of a daemon, by the times at which the servers took them."""

    def __init__(self, store: ZooKeeperStore, daemon: DaemonProcess) -> None:
        self._store = store
        self._path = paths.lease(daemon.broker_id)
        self._taken_s: dict[int, float] = {}

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            stat = await self._store.exists(self._path)
            if stat is not None:
                self._taken_s[stat.version] = stat.mtime_ms / 1000
            await asyncio.sleep(_LOOK_S)

    @property
    def count(self) -> int:
        """How many there were after the first."""
        return max(self._taken_s) - min(self._taken_s)

    def late(self, limit_s: float) -> int:
        """How many came more than ``limit_s`` after the one before."""
        taken = sorted(self._taken_s.items())
        return sum(
            later_s - earlier_s > limit_s * (later - earlier)
            for (earlier, earlier_s), (later, later_s) in pairwise(taken)
        )

    @property
    def longest_s(self) -> float:
        """From one to the next, at most."""
        taken = sorted(self._taken_s.values())
        return max(later - earlier for earlier, later in pairwise(taken))


def cycles_s(daemon: DaemonProcess) -> list[float]:
    """How long each of its cycles took, by its log."""
    return [float(match[1]) for _, match in matches(daemon, CYCLE_ENDED)]


def rss_mb(pid: int) -> float:
    """The resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (kib,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
    return int(kib) / 1024
