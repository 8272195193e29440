"""One guard, tested alone: a cluster under faults until the time is over, and the verdict."""

import asyncio
import random
from collections import Counter as Counting
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.clients.counter import Counter
from tests.chaos.clients.replication import Replication
from tests.chaos.clients.traffic import Traffic
from tests.chaos.cluster.cluster import DAEMON, Cluster, now_s
from tests.chaos.cluster.topics import topics
from tests.chaos.faults.configuration_faults import Fault, Mend
from tests.chaos.faults.faults import EXPIRIES, FAULTS
from tests.chaos.judges.acts import Guard
from tests.chaos.judges.answers import wrong_answers
from tests.chaos.judges.evidence import Evidence
from tests.chaos.judges.planted import missed
from tests.chaos.judges.verdict import some
from tests.chaos.judges.wall_clock import WallClock
from tests.chaos.progress import Progress

_POLL_S: Final = 0.1
# Long past the bound: what is not served by then will never be.
_HOPELESS_S: Final = 60.0


@dataclass(slots=True)
class Report:
    """What came of it."""

    faults: Counting[str] = field(default_factory=Counting)
    acquisitions: int = 0
    refused: int = 0
    acts: int = 0
    committed: int = 0
    elections: int = 0
    violations: list[str] = field(default_factory=list)
    recoveries_s: list[float] = field(default_factory=list)
    hops: Counting[int] = field(default_factory=Counting)
    lookup_statuses: Counting[int] = field(default_factory=Counting)


class Hopeless(Exception):
    """The cluster did not come back: there is nothing more to be learnt."""


class Phase:
    """One run of one cluster: ``faults`` by the names in the schedule, until time or schedule end.

    ``command`` is what the daemons begin as, and ``cluster`` where all processes are.
    """

    def __init__(
        self,
        guard: Guard,
        schedule: Iterator[str],
        directory: Path,
        draw: random.Random,
        progress: Progress,
        *,
        faults: Mapping[str, Fault] = FAULTS,
        command: Sequence[str] = DAEMON,
        cluster: type[Cluster] = Cluster,
    ) -> None:
        self._cluster = cluster
        self._faults = faults
        self._command = command
        self._guard = guard
        self._schedule = schedule
        self._directory = directory
        self._rng = draw
        self._progress = progress
        self._hashes = [topic.ring_hash for topic in topics()]
        self._forced: set[int] = set()
        self._recoveries: list[tuple[str, float]] = []
        self._clock = WallClock()
        self.report = Report()

    async def run(self, seconds: float) -> Report:
        """Run for ``seconds`` from when all is served; then stop everything and judge."""
        self._directory.mkdir(parents=True)
        scope = self._cluster(self._directory, self._guard, command=self._command)
        async with scope as cluster:
            counter = Counter(cluster)
            self._replication = Replication(cluster, random.Random(self._rng.random()))
            try:
                await self._run(cluster, counter, seconds)
            except* Hopeless as error:
                self._complain(str(error.exceptions[0]))
            await self._wind_up(cluster)
        self._progress.say(f"{self._guard}: judging {len(cluster.log.acts)} acts")
        self._judge(cluster, counter)
        for said in self._replication.violations:
            self.report.violations.append(f"{self._guard}: {said}")
        return self.report

    async def _run(self, cluster: Cluster, counter: Counter, seconds: float) -> None:
        # Draws of its own: how many it takes depends on how fast answers come.
        traffic = Traffic(cluster, random.Random(self._rng.random()))
        await traffic.make_namespace()
        await self._replication.make_topic()
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(traffic.run(), name="traffic"),
                group.create_task(counter.run(), name="counter"),
                group.create_task(self._replication.run(), name="replication"),
            ]
            await self._wait_served(cluster, "the start")
            end_s = now_s() + seconds
            for kind in self._schedule:
                await self._round(cluster, kind)
                if now_s() >= end_s:
                    break
            for task in background:
                task.cancel()
        self.report.hops, self.report.lookup_statuses = (
            traffic.lookups.hops,
            traffic.lookups.statuses,
        )
        for said in some(traffic.lookups.violations):
            self._complain(said)
        await counter.check()
        await self._replication.check()
        async for said in wrong_answers(cluster):
            self._complain(said)

    async def _round(self, cluster: Cluster, kind: str) -> None:
        self._progress.show(f"{self._guard}: {kind}")
        if kind in EXPIRIES:
            self._forced.update([await cluster.session_of(one) for one in cluster.brokers])
        mend: Mend | None = None
        try:
            mend = await self._faults[kind](cluster, self._rng)
        except AssertionError as error:
            self._progress.say(f"{kind} could not be done: {error}")
        else:
            self.report.faults[kind] += 1
        await cluster.wait_quorum()
        recovered_s = await self._wait_served(cluster, kind)
        self._recoveries.append((kind, recovered_s))
        if recovered_s:
            self._progress.say(f"{kind}: all served again after {recovered_s:.1f} s")
        if mend is not None:
            await mend()
            await self._wait_served(cluster, f"{kind}, mended")
        for broker in cluster.brokers:
            if not broker.daemon.is_running:
                self._complain(f"{broker.id} ended by itself, code {broker.daemon.exit_code}")
                await broker.daemon.start()

    async def _wait_served(self, cluster: Cluster, what: str) -> float:
        """Seconds until all was served, by brokers that are all ready."""
        begin_s = now_s()
        while (
            not await cluster.is_settled()
            or cluster.log.unserved(self._hashes, now_s())
            or self._replication.stale()
        ):
            if now_s() - begin_s > _HOPELESS_S:
                left = len(cluster.log.unserved(self._hashes, now_s()))
                stale = self._replication.stale()
                raise Hopeless(
                    f"I6: after {what} {left} topics are not served, {stale} take no record, or"
                    " not all are ready"
                )
            self._clock.read()
            await asyncio.sleep(_POLL_S)
        return cluster.log.served_since(self._hashes, begin_s)

    async def _wind_up(self, cluster: Cluster) -> None:
        self._progress.say(f"{self._guard}: stopping")
        await cluster.heal()
        self._clock.read()
        await cluster.stop_daemons()
        self._clock.read()
        codes: Mapping[str, int | None] = {
            broker.id: broker.daemon.exit_code for broker in cluster.brokers
        }
        for broker_id, code in codes.items():
            if code:
                self._complain(f"{broker_id} stopped with code {code}")

    def _judge(self, cluster: Cluster, counter: Counter) -> None:
        deaths = [
            (death.broker_id, self._wall_ms(death.at_s), self._wall_ms(death.heard_s))
            for death in cluster.deaths
        ]
        evidence = Evidence(
            guard=self._guard,
            chroot=cluster.chroot,
            history=cluster.archive.history(),
            clock=self._clock,
            acts=list(cluster.log.in_order()),
            refused=cluster.log.refused,
            forced=self._forced,
            deaths=deaths,
            holds=cluster.holds,
            recoveries=self._recoveries,
            readings=counter.readings,
            acknowledged=self._replication.acknowledged,
            consumed=self._replication.consumed,
            answers=cluster.configuration.answers,
        )
        replay = evidence.replay()
        for said in evidence.judged(replay):
            self._complain(said)
        for said in missed(evidence):
            self._complain(said)
        report = self.report
        report.recoveries_s = [recovered_s for _, recovered_s in self._recoveries]
        report.acquisitions = len(replay.reigns)
        report.acts = len(evidence.acts)
        report.refused = sum(len(act.hashes) for act in evidence.refused)
        report.committed = len(evidence.acknowledged)
        report.elections = len(replay.partitions.appointed)

    def _wall_ms(self, at_s: float) -> int:
        return self._clock.wall_ms(round(at_s * 1_000_000_000))

    def _complain(self, said: str) -> None:
        self._progress.say(f"VIOLATION {said}")
        self.report.violations.append(f"{self._guard}: {said}")
