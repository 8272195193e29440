"""I9 by clients of their own: producers of a replicated topic, and consumers behind them."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition
from broker_ctl.errors import DataPlaneError, HttpError, StoreError
from broker_ctl.lab.replica_client import ReplicaClient
from broker_ctl.lab.replication.tcp import TcpNetwork
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import decode_state
from tests.chaos.cluster.cluster import DAEMONS, Broker, Cluster, now_s
from tests.chaos.judges.verdict import some
from tests.support.replicas.replica_logs import (
    Acknowledged,
    Consumed,
    ReplicaLog,
    divergent,
    lost,
    unlike,
)
from tests.support.time.waiting import eventually

TOPIC: Final = "replicated"
_PARTITIONS: Final = 4
_MIN_ISR: Final = 2
_ANSWER_S: Final = 2.0
_PAUSE_S: Final = 0.1
_RETRY_S: Final = 0.1
# A record of a moment ago: the partition has a leader, and enough in sync.
_FRESH_S: Final = 2.0
_CALM_S: Final = 30.0
# What is read again behind the last record that was read before.
_BEHIND: Final = 20
_URL: Final = f"/control/v1/partitions/topics/{TOPIC}"
_CREATED: Final = {200, 409}


class Replication:
    """One topic, one producer for each of its partitions, and an auditor."""

    def __init__(self, cluster: Cluster, draw: random.Random) -> None:
        self._cluster = cluster
        self._rng = draw
        self._numbers = count(1)
        self._links: dict[int, ReplicaClient] = {}
        self._acknowledged: list[Acknowledged] = []
        self._consumed: set[Consumed] = set()
        self._read: dict[TopicPartition, int] = {}
        self._taken_s: dict[TopicPartition, float] = {}
        self._partitions = [TopicPartition(TOPIC, number) for number in range(_PARTITIONS)]
        self.violations: list[str] = []

    async def make_topic(self) -> None:
        brokers = range(1, DAEMONS + 1)
        replicas = {
            str(number): [brokers[(number + place) % DAEMONS] for place in range(DAEMONS)]
            for number in range(_PARTITIONS)
        }

        async def is_made() -> bool:
            broker = self._rng.choice(self._cluster.brokers)
            try:
                reply = await self._cluster.http.request(
                    "PUT",
                    f"{broker.daemon.url}{_URL}",
                    json={"replicas": replicas, "min_isr": _MIN_ISR},
                    allow_redirects=True,
                )
            except HttpError:
                return False
            return reply.status in _CREATED

        await eventually(is_made, _CALM_S, "the replicated topic", _RETRY_S)

    def stale(self) -> list[TopicPartition]:
        """Partitions that took no record a moment ago."""
        since_s = now_s() - _FRESH_S
        return [one for one in self._partitions if self._taken_s.get(one, 0.0) < since_s]

    # Clients.

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for partition in self._partitions:
                    group.create_task(self._produce(partition), name=f"produce to {partition}")
                group.create_task(self._audit(), name="audit")
        finally:
            for link in self._links.values():
                await link.close()

    async def _produce(self, partition: TopicPartition) -> None:
        """One record after another, each under a number of its own."""
        while True:
            led = await self._led(partition)
            if led is None or led["leader"] not in self._by_number():
                await asyncio.sleep(_RETRY_S)
                continue
            number = next(self._numbers)
            value = f"{partition} {number}".encode()
            try:
                offset, epoch = await self._link(led["leader"]).produce(
                    partition, [value], leader_epoch=led["leader_epoch"]
                )
            except DataPlaneError:
                await asyncio.sleep(_RETRY_S)
                continue
            self._acknowledged.append(
                Acknowledged(partition, offset, value, epoch, led["leader"], "", number)
            )
            self._taken_s[partition] = now_s()
            await asyncio.sleep(_PAUSE_S)

    async def _led(self, partition: TopicPartition) -> Mapping[str, Any] | None:
        broker = self._rng.choice(self._cluster.brokers)
        path = f"/partitions/v1/leader/{partition.topic}/{partition.partition}"
        try:
            reply = await self._cluster.http.request("GET", f"{broker.daemon.url}{path}")
        except HttpError:
            return None
        return dict(reply.json()) if reply.status == 200 else None

    async def _audit(self) -> None:
        """Reads from any broker: a deposed leader shows nothing that is not committed."""
        while True:
            partition = self._rng.choice(self._partitions)
            broker = self._rng.choice(self._cluster.brokers)
            begin = max(0, self._read.get(partition, 0) - _BEHIND)
            try:
                found = await self._link(broker.number).consume(partition, begin)
            except DataPlaneError:
                await asyncio.sleep(_RETRY_S)
                continue
            for offset, record in enumerate(found.records, begin):
                self._consumed.add(Consumed(partition, offset, record.value))
                self._read[partition] = max(self._read.get(partition, 0), offset)
            await asyncio.sleep(_PAUSE_S)

    def _by_number(self) -> Mapping[int, Broker]:
        return {broker.number: broker for broker in self._cluster.brokers}

    def _link(self, number: int) -> ReplicaClient:
        if number not in self._links:
            address = self._by_number()[number].replica_address
            self._links[number] = ReplicaClient(TcpNetwork(), address, timeout_s=_ANSWER_S)
        return self._links[number]

    # Judging.

    async def check(self) -> None:
        """When nobody produces any more, all faults are over, and all processes run."""
        said: list[str] = []

        async def is_well() -> bool:
            said[:] = await self._wrong()
            return not said

        try:
            await eventually(is_well, _CALM_S, "all replicas are in sync and alike", _RETRY_S)
        except AssertionError:
            self.violations += some(said)
        finally:
            for link in self._links.values():
                await link.close()

    async def _wrong(self) -> list[str]:
        states = await self._states()
        short = [f"I9: {one} has only {state.isr} in sync" for one, state in states.items()
                 if len(state.isr) < DAEMONS]  # fmt: skip
        try:
            logs = [log for broker in self._cluster.brokers for log in await self._logs(broker)]
        except DataPlaneError as error:
            return [f"I9: {error}"]
        seen: list[Acknowledged | Consumed] = [*self._acknowledged, *self._consumed]
        return [*short, *lost(seen, logs, states), *divergent(logs), *unlike(logs, states)]

    async def _states(self) -> dict[TopicPartition, LeaderAndIsr]:
        states = {}
        for partition in self._partitions:
            path = paths.leader_and_isr(partition)
            try:
                await self._cluster.observer.sync(path)
                node = await self._cluster.observer.get(path)
            except StoreError:
                continue
            if node is not None:
                states[partition] = decode_state(node)
        return states

    async def _logs(self, broker: Broker) -> list[ReplicaLog]:
        link = self._link(broker.number)
        return [
            ReplicaLog(
                broker.number,
                held.partition,
                held.high_watermark,
                await link.log(held.partition),
            )
            for held in await link.held()
        ]

    @property
    def acknowledged(self) -> Sequence[Acknowledged]:
        """The records whose commit producers have had acknowledged."""
        return tuple(self._acknowledged)

    @property
    def consumed(self) -> Sequence[Consumed]:
        """What consumers were given."""
        return tuple(self._consumed)
