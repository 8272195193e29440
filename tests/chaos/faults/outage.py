"""All servers stop for a while: daemons wait, say so, use no more memory, and come back.

The last daemon has a limit on its attempts, and ends with a code of its own.
"""

import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from broker_ctl.daemon.lifecycle import exits
from broker_ctl.errors import HttpError
from tests.chaos.clients.traffic import Traffic
from tests.chaos.cluster.cluster import DAEMONS, RECOVERY_S, SESSION_S, Broker, Cluster, now_s
from tests.chaos.cluster.topics import topics
from tests.chaos.judges.acts import Guard
from tests.chaos.progress import Progress
from tests.support.time.waiting import eventually

_LIMITED: Final = {DAEMONS: {"zookeeperSessionReconnectMaxRetries": "3"}}
_BYTES_PER_MB: Final = 1e6
# Room for what an allocator does in any process; a leak of a few kB a second is far beyond it.
_MAX_GROWTH_MB: Final = 8.0
_SAMPLE_S: Final = 1.0
_SERVED_S: Final = 60.0
# From here on nothing is new any more: the sessions are lost, the caches are empty.
_USED_TO_IT_S: Final = SESSION_S + 2.0


@dataclass(slots=True)
class Outage:
    """What came of it; memory is resident, in 10**6 bytes, one value for each waiting daemon."""

    seconds: float
    readyz: Sequence[str] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    rss_before_mb: Sequence[float] = ()
    rss_begin_mb: Sequence[float] = ()
    rss_end_mb: Sequence[float] = ()
    rss_after_mb: Sequence[float] = ()
    back_s: float | None = None
    exit_code_with_limit: int | None = None
    violations: list[str] = field(default_factory=list)

    @property
    def growth_mb(self) -> float:
        pairs = zip(self.rss_begin_mb, self.rss_end_mb, strict=True)
        return round(max((end - begin for begin, end in pairs), default=0.0), 1)

    @property
    def sentence(self) -> str:
        back = "never" if self.back_s is None else f"after {self.back_s:.1f} s"
        return (
            f"servers gone for {self.seconds:g} s; memory grew by {self.growth_mb} MB; "
            f"all served again {back}; with a limit: exit code {self.exit_code_with_limit}; "
            f"{len(self.violations)} violations"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "outage_s": self.seconds,
            "readyz": list(self.readyz),
            "metrics": dict(self.metrics),
            "rss_before_mb": list(self.rss_before_mb),
            "rss_begin_mb": list(self.rss_begin_mb),
            "rss_end_mb": list(self.rss_end_mb),
            "rss_after_mb": list(self.rss_after_mb),
            "rss_growth_mb": self.growth_mb,
            "back_s": self.back_s,
            "back_bound_s": RECOVERY_S,
            "exit_code_with_limit": self.exit_code_with_limit,
            "violations": self.violations,
        }


async def outage(seconds: float, directory: Path, progress: Progress) -> Outage:
    """Run a cluster, take its servers away for ``seconds``, and see it come back."""
    await asyncio.to_thread(directory.mkdir, parents=True)
    found = Outage(seconds)
    async with Cluster(directory, Guard.LEASE, _LIMITED) as cluster:
        traffic = Traffic(cluster, random.Random(1))
        await traffic.make_namespace()
        async with asyncio.TaskGroup() as group:
            clients = group.create_task(traffic.run(), name="traffic")
            await eventually(lambda: _is_served(cluster), _SERVED_S, "all is served", poll_s=0.2)
            await _stand_still(cluster, found, progress)
            await _come_back(cluster, found, progress)
            clients.cancel()
    _judge(found)
    return found


async def _is_served(cluster: Cluster) -> bool:
    hashes = [topic.ring_hash for topic in topics()]
    return await cluster.is_settled() and not cluster.log.unserved(hashes, now_s())


async def _stand_still(cluster: Cluster, found: Outage, progress: Progress) -> None:
    waiting, limited = cluster.brokers[:-1], cluster.brokers[-1]
    found.rss_before_mb = _rss_mb(waiting)
    begin_s = now_s()
    async with asyncio.TaskGroup() as group:
        for server in cluster.ensemble.servers:
            group.create_task(server.stop(), name=f"stop server {server.id}")
    while (passed_s := now_s() - begin_s) < found.seconds:
        progress.show(f"no server; {_rss_mb(waiting)} MB")
        if passed_s >= _USED_TO_IT_S and not found.rss_begin_mb:
            found.rss_begin_mb = _rss_mb(waiting)
        await asyncio.sleep(_SAMPLE_S)
    found.rss_end_mb = _rss_mb(waiting)
    found.readyz = [await _reason(cluster, broker) for broker in waiting]
    found.metrics = await _metrics(cluster, waiting[0])
    found.exit_code_with_limit = limited.daemon.exit_code


async def _come_back(cluster: Cluster, found: Outage, progress: Progress) -> None:
    progress.show("servers start")
    for server in cluster.ensemble.servers:
        await cluster.start_server(server)
    await cluster.wait_quorum()
    begin_s = now_s()
    try:
        await eventually(lambda: _is_served(cluster), _SERVED_S, "all is served", poll_s=0.1)
    except AssertionError:
        return
    found.back_s = round(now_s() - begin_s, 2)
    found.rss_after_mb = _rss_mb(cluster.brokers[:-1])


def _rss_mb(brokers: Sequence[Broker]) -> list[float]:
    pids = [broker.daemon.pid for broker in brokers]
    return [round(psutil.Process(pid).memory_info().rss / _BYTES_PER_MB, 1) for pid in pids if pid]


async def _reason(cluster: Cluster, broker: Broker) -> str:
    try:
        reply = await cluster.http.request("GET", f"{broker.daemon.url}/readyz")
    except HttpError as error:
        return str(error)
    return f"{reply.status} {reply.body.decode()}"


async def _metrics(cluster: Cluster, broker: Broker) -> dict[str, float]:
    """Those that show the outage, the states of the session that are 0 left out."""
    reply = await cluster.http.request("GET", f"{broker.daemon.url}/metrics")
    text = reply.body.decode()
    is_ready = re.search(r"^broker_ctl_ready(?:{[^}]*})? (\S+)", text, re.MULTILINE)
    state = re.search(r'^broker_ctl_session_state{[^}]*state="(\w+)"[^}]*} 1', text, re.MULTILINE)
    found = {} if is_ready is None else {"broker_ctl_ready": float(is_ready[1])}
    return found if state is None else {**found, f"session_state {state[1]}": 1.0}


def _judge(found: Outage) -> None:
    if not all(said.startswith("503") for said in found.readyz):
        found.violations.append(f"/readyz does not show the outage: {found.readyz}")
    if found.metrics.get("broker_ctl_ready") != 0.0:
        found.violations.append(f"no metric shows the outage: {found.metrics}")
    if found.growth_mb > _MAX_GROWTH_MB:
        found.violations.append(f"memory grew by {found.growth_mb} MB")
    if found.back_s is None or found.back_s > RECOVERY_S:
        found.violations.append(f"I6: all was served again after {found.back_s} s")
    if found.exit_code_with_limit != exits.RETRIES_USED_UP:
        found.violations.append(f"with a limit: exit code {found.exit_code_with_limit}")
