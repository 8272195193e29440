"""All servers stop for long, and brokers serve on by promises; then one broker is cut off alone.

Real daemons with ``ownershipAuthority=failsafe``, whose broker processes have no other guard: the
shared log accepts every act, and an act of two brokers for one hash is seen in it.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from broker_ctl.errors import HttpError
from tests.chaos.clients.traffic import Traffic
from tests.chaos.cluster.cluster import DAEMONS, SESSION_S, Broker, Cluster, now_s
from tests.chaos.cluster.topics import topics
from tests.chaos.judges.acts import Guard
from tests.chaos.progress import Progress
from tests.support.time.waiting import eventually

_FAILSAFE: Final = {number: {"ownershipAuthority": "failsafe"} for number in range(1, DAEMONS + 1)}
_NS_PER_S: Final = 1_000_000_000
_SERVED_S: Final = 90.0
_SAMPLE_S: Final = 1.0
# Broker processes act ten times a second, and ask for their authority as often.
_GAP_LIMIT_S: Final = 1.0
# After it, one that is cut off acts no more: the lease counts from a heartbeat before that.
_LEASE_S: Final = SESSION_S


@dataclass(slots=True)
class Failsafe:
    """What came of it."""

    seconds: float
    served_by: Mapping[str, int] = field(default_factory=dict)
    acts: int = 0
    longest_gap_s: float = 0.0
    gap_when_back_s: float = 0.0
    sessions_kept: int = 0
    cut_off_acted_for_s: float = 0.0
    taken_over_after_s: float | None = None
    violations: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        return (
            f"servers gone for {self.seconds:g} s: {self.acts} acts, longest gap of a topic "
            f"{self.longest_gap_s:.2f} s, {self.gap_when_back_s:.2f} s as they came back, "
            f"{self.sessions_kept} of {DAEMONS} sessions kept; one broker cut off: it acted for "
            f"{self.cut_off_acted_for_s:.1f} s, all served after {self.taken_over_after_s} s; "
            f"{len(self.violations)} violations"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "outage_s": self.seconds,
            "topics_served_by": dict(self.served_by),
            "acts": self.acts,
            "longest_gap_s": self.longest_gap_s,
            "gap_when_back_s": self.gap_when_back_s,
            "sessions_kept": self.sessions_kept,
            "cut_off_acted_for_s": self.cut_off_acted_for_s,
            "taken_over_after_s": self.taken_over_after_s,
            "violations": self.violations,
        }


async def failsafe(seconds: float, directory: Path, progress: Progress) -> Failsafe:
    """Run a cluster, take its servers away for ``seconds``, give them back, cut one broker off."""
    await asyncio.to_thread(directory.mkdir, parents=True)
    found = Failsafe(seconds)
    async with Cluster(directory, Guard.LEASE, _FAILSAFE) as cluster:
        # What an operator unloads as the servers go away is unserved until they are back.
        traffic = Traffic(cluster, random.Random(1), operators=0)
        await traffic.make_namespace()
        async with asyncio.TaskGroup() as group:
            clients = group.create_task(traffic.run(), name="traffic")
            await eventually(lambda: _is_served(cluster), _SERVED_S, "all is served", poll_s=0.2)
            await traffic.spread()
            await eventually(lambda: _is_served(cluster), _SERVED_S, "all is served", poll_s=0.2)
            found.served_by = _bundles_by_broker(cluster)
            await _stand_still(cluster, found, progress)
            await _cut_one_off(cluster, found, progress)
            clients.cancel()
    found.violations += _two_at_once(cluster)
    return found


async def _is_served(cluster: Cluster) -> bool:
    hashes = [topic.ring_hash for topic in topics()]
    return await cluster.is_settled() and not cluster.log.unserved(hashes, now_s())


def _bundles_by_broker(cluster: Cluster) -> dict[str, int]:
    """How many topics each broker served last."""
    last = _last_actors(cluster)
    return {one.id: sum(broker == one.id for broker in last.values()) for one in cluster.brokers}


def _last_actors(cluster: Cluster) -> dict[int, str]:
    return {position: act.broker for act in cluster.log.in_order() for position in act.hashes}


async def _stand_still(cluster: Cluster, found: Failsafe, progress: Progress) -> None:
    before = [await cluster.session_of(broker) for broker in cluster.brokers]
    begin_s = now_s()
    async with asyncio.TaskGroup() as group:
        for server in cluster.ensemble.servers:
            group.create_task(server.stop(), name=f"stop server {server.id}")
    stalled_s = 0.0
    while (passed_s := now_s() - begin_s) < found.seconds:
        progress.show(f"no server for {passed_s:.0f} s")
        await asyncio.sleep(_SAMPLE_S)
        # What a machine that is too busy costs this process, it may cost a broker.
        stalled_s = max(stalled_s, now_s() - begin_s - passed_s - _SAMPLE_S)
    end_s, limit_s = now_s(), _GAP_LIMIT_S + stalled_s
    found.acts = sum(len(times) for times in _times(cluster, begin_s, end_s).values())
    found.longest_gap_s = _longest_gap_s(cluster, begin_s, end_s)
    if found.longest_gap_s > limit_s:
        found.violations.append(f"a topic was not served for {found.longest_gap_s} s")
    progress.show("servers start")
    for server in cluster.ensemble.servers:
        await cluster.start_server(server)
    await cluster.wait_quorum()
    await eventually(lambda: _is_served(cluster), _SERVED_S, "all is served", poll_s=0.2)
    due_s = now_s() + 2 * SESSION_S
    await asyncio.sleep(2 * SESSION_S)
    limit_s = max(limit_s, _GAP_LIMIT_S + now_s() - due_s)
    found.gap_when_back_s = _longest_gap_s(cluster, end_s, now_s())
    if found.gap_when_back_s > limit_s:
        said = f"a topic was not served for {found.gap_when_back_s} s as the servers came back"
        found.violations.append(said)
    after = [await cluster.session_of(broker) for broker in cluster.brokers]
    found.sessions_kept = sum(old == new for old, new in zip(before, after, strict=True))


async def _cut_one_off(cluster: Cluster, found: Failsafe, progress: Progress) -> None:
    """From the servers alone: the others reach it, and do not promise."""
    counts = _bundles_by_broker(cluster)
    alone = max(cluster.brokers, key=lambda broker: counts[broker.id])
    progress.show(f"{alone.id} is cut off")
    for link in cluster.links.of_daemon(alone.number):
        await link.cut()
    # Until now a heartbeat may have got through.
    begin_s = now_s()
    hashes = [topic.ring_hash for topic in topics()]

    async def is_taken_over() -> bool:
        others = all(broker != alone.id for broker in _last_actors(cluster).values())
        return others and not cluster.log.unserved(hashes, now_s())

    try:
        await eventually(is_taken_over, _SERVED_S, "others serve all", poll_s=0.5)
    except AssertionError as error:
        unserved = cluster.log.unserved(hashes, now_s())
        found.violations.append(
            f"I6: {error}; {alone.id} is cut off; served last by {_bundles_by_broker(cluster)}, "
            f"{len(unserved)} hashes unserved now; statuses: {await _statuses(cluster)}"
        )
        return
    found.taken_over_after_s = round(now_s() - begin_s, 1)
    found.cut_off_acted_for_s = round(_last_act_s(cluster, alone) - begin_s, 2)
    if found.cut_off_acted_for_s > _LEASE_S:
        found.violations.append(f"I1a: {alone.id} acted for {found.cut_off_acted_for_s} s")
    await cluster.links.heal_all()
    await eventually(lambda: _is_served(cluster), _SERVED_S, "all is served", poll_s=0.2)


async def _statuses(cluster: Cluster) -> list[str]:
    """What each daemon says of itself."""
    found: list[str] = []
    for broker in cluster.brokers:
        try:
            reply = await cluster.http.request("GET", f"{broker.daemon.url}/control/v1/status")
            found.append(f"{broker.id}: {reply.body.decode()}")
        except HttpError as error:
            found.append(f"{broker.id}: {error}")
    return found


def _last_act_s(cluster: Cluster, broker: Broker) -> float:
    return max(act.t_ns for act in cluster.log.acts if act.broker == broker.id) / _NS_PER_S


def _times(cluster: Cluster, begin_s: float, end_s: float) -> dict[int, list[float]]:
    """When each hash was served within a time."""
    times: dict[int, list[float]] = {topic.ring_hash: [] for topic in topics()}
    for act in cluster.log.in_order():
        at_s = act.t_ns / _NS_PER_S
        if begin_s <= at_s <= end_s:
            for position in act.hashes:
                times.setdefault(position, []).append(at_s)
    return times


def _longest_gap_s(cluster: Cluster, begin_s: float, end_s: float) -> float:
    gaps = (
        late - early
        for times in _times(cluster, begin_s, end_s).values()
        for early, late in pairwise([begin_s, *times, end_s])
    )
    return round(max(gaps), 2)


def _two_at_once(cluster: Cluster) -> Sequence[str]:
    """Each hash passes from one owner to the next, and tokens never go down."""
    highest: dict[int, tuple[int, str]] = {}
    found: list[str] = []
    for act in cluster.log.in_order():
        for position in act.hashes:
            token, broker = highest.get(position, (0, act.broker))
            if act.token < token or (act.token == token and act.broker != broker):
                found.append(
                    f"I1b: {act.broker} acted for {position:08x} under {act.token} after "
                    f"{broker} under {token}"
                )
            highest[position] = max((token, broker), (act.token, act.broker))
    return found[:10]
