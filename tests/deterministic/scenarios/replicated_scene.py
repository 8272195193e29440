"""A story of one replicated partition, played step by step over complete daemons in memory.

Whatever happens in the story, the observer and the logs are judged at its end as in a schedule.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from broker_ctl.core.partitions.values import NO_LEADER, LeaderAndIsr, TopicPartition, TopicRules
from broker_ctl.errors import DataPlaneRefused
from broker_ctl.lab.replica_client import Produced, ReplicaClient
from tests.deterministic.clients.replicated_clients import HOST
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import DaemonProcess
from tests.deterministic.world.replicated_topics import create_topic
from tests.deterministic.world.wire import Coverage
from tests.support.replicas.replica_logs import (
    Acknowledged,
    ReplicaLog,
    divergent,
    lost,
    shared_epochs,
    unappointed,
    unlike,
)

PARTITION: Final = TopicPartition("t", 0)
_PATIENCE_S: Final = 30.0
_TRIES: Final = 100
_RETRY_S: Final = 0.1
# Longer than any pause of a story.
_CLIENT_S: Final = 25.0


class Scene:
    """Three daemons, their broker processes, and clients that wait for long."""

    def __init__(self, seed: int = 1) -> None:
        self.cluster = Cluster(seed, Coverage(), lambda _: None)
        self.acknowledged: list[Acknowledged] = []
        self._links: dict[int, ReplicaClient] = {}

    def play(self, story: Callable[["Scene"], Awaitable[None]], *, is_lossy: bool = False) -> None:
        """Start everything, play the story, and judge; ``is_lossy``: an unclean election is in it.

        Raises:
            AssertionError: the story went on in another way, or something was violated.
        """
        self.cluster.run(self._play(story, is_lossy=is_lossy))
        assert self.cluster.observer.violations == []

    async def _play(self, story: Callable[["Scene"], Awaitable[None]], *, is_lossy: bool) -> None:
        cluster = self.cluster
        for daemon in cluster.daemons:
            await daemon.process.start()
            daemon.start()
        try:
            await story(self)
            assert await self._wrong_when_calm(is_lossy=is_lossy) == []
        finally:
            await self._end()

    async def _wrong_when_calm(self, *, is_lossy: bool) -> list[str]:
        """Replicas in sync may still be about to hear of the last record."""
        for _ in range(_TRIES):
            if not (said := await self._wrong(is_lossy=is_lossy)):
                break
            await asyncio.sleep(_RETRY_S)
        return said

    async def _wrong(self, *, is_lossy: bool) -> list[str]:
        said = [*shared_epochs(self.acknowledged)]
        said += unappointed(self.acknowledged, self.cluster.observer.partitions.appointed)
        if self.states:
            logs = await self.logs()
            said += [*divergent(logs), *unlike(logs, self.states)]
            said += [] if is_lossy else lost(self.acknowledged, logs, self.states)
        return said

    async def _end(self) -> None:
        """Nothing is left to run."""
        for link in self._links.values():
            await link.close()
        daemons = [*self.cluster.daemons, *self.cluster.former]
        mains = [daemon.main for daemon in daemons if daemon.main is not None]
        for daemon in daemons:
            daemon.kill()
            await daemon.process.kill()
        await self.cluster.until(lambda: all(main.done() for main in mains), _PATIENCE_S)

    # What is seen.

    @property
    def states(self) -> dict[TopicPartition, LeaderAndIsr]:
        return self.cluster.observer.partitions.states

    @property
    def state(self) -> LeaderAndIsr:
        return self.states.get(PARTITION, LeaderAndIsr(NO_LEADER, -1, (), -1))

    def controllers(self) -> list[DaemonProcess]:
        """Who controls, or thinks so."""
        return [
            daemon
            for daemon in self.cluster.running
            if daemon.assembly is not None
            and daemon.assembly.partitions is not None
            and daemon.assembly.partitions.election.leadership is not None
        ]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait in virtual time.

        Raises:
            AssertionError: it does not come to that.
        """
        assert await self.cluster.until(condition, _PATIENCE_S), f"{what}: {self.state}"

    async def wait_led(self, leader: int, *isr: int) -> None:
        """This broker leads, with these in sync."""
        await self.until(
            lambda: self.state.leader == leader and {*self.state.isr} == {*isr},
            f"{leader} leads with {isr}",
        )

    async def logs(self) -> Sequence[ReplicaLog]:
        """Of all broker processes that live."""
        return [
            ReplicaLog(
                daemon.number, held.partition, held.high_watermark, await link.log(PARTITION)
            )
            for daemon in self.cluster.daemons
            if daemon.process.is_alive
            for link in [self._link(daemon.number)]
            for held in await link.held()
        ]

    async def values(self) -> dict[int, list[bytes]]:
        """The records that each broker process has."""
        return {log.broker: [value for _, value in log.records] for log in await self.logs()}

    # What is done.

    async def create(self, *replicas: int, min_isr: int = 2, is_unclean: bool = False) -> None:
        """The partition; returns when all its replicas are in sync."""
        rules = TopicRules(is_unclean, min_isr)

        create_topic(self.cluster.ensemble, PARTITION.topic, {0: replicas}, rules)
        await self.wait_led(replicas[0], *replicas)

    async def produce(self, broker: int, value: bytes) -> Produced:
        """A record, acknowledged by all.

        Raises:
            DataPlaneError: it was not.
        """
        link = self._link(broker)
        produced = await link.produce(PARTITION, [value])
        offset, epoch = produced
        self.acknowledged.append(Acknowledged(PARTITION, offset, value, epoch, broker))
        return produced

    async def commit(self, broker: int, value: bytes) -> None:
        """A record, as soon as the broker knows that it leads."""
        for _ in range(_TRIES):
            try:
                await self.produce(broker, value)
            except DataPlaneRefused:
                await asyncio.sleep(_RETRY_S)
            else:
                return
        raise AssertionError(f"{broker} takes no record: {self.state}")

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Something that goes on meanwhile; its failure is for the caller that awaits it."""
        return self.cluster.driver.create_task(work, name="meanwhile")

    def _link(self, broker: int) -> ReplicaClient:
        if broker not in self._links:
            address = self.cluster.daemons[broker].replicas.address
            network = self.cluster.network.of(HOST)
            self._links[broker] = ReplicaClient(network, address, timeout_s=_CLIENT_S)
        return self._links[broker]

    def stop(self, broker: int) -> None:
        """As SIGSTOP of the daemon and of its broker process."""
        daemon = self.cluster.daemons[broker]
        daemon.loop.stop_process()
        daemon.replicas.loop.stop_process()

    def go_on(self, broker: int) -> None:
        """As SIGCONT of both."""
        daemon = self.cluster.daemons[broker]
        daemon.loop.continue_process()
        daemon.replicas.loop.continue_process()

    async def kill(self, broker: int) -> None:
        """Both, with the session left open."""
        daemon = self.cluster.daemons[broker]
        daemon.kill()
        await daemon.process.kill()

    async def start_again(self, broker: int) -> None:
        daemon = self.cluster.daemons[broker]
        await daemon.process.start()
        daemon.start()
