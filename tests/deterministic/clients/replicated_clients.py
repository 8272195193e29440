"""What clients and operators do with the replicated topic, and what they were answered (I9)."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.core.partitions.values import TopicPartition, TopicRules
from broker_ctl.lab.replica_client import ReplicaClient
from broker_ctl.lab.replication.tcp import ANY_EPOCH
from tests.deterministic.clients.clients import Clients
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import DaemonProcess
from tests.deterministic.world.replicated_topics import create_topic
from tests.linearizability.records import RecordHistory
from tests.support.replicas.replica_logs import (
    Acknowledged,
    Consumed,
    ReplicaLog,
    contradictions,
    disorder,
    divergent,
    lost,
    shared_epochs,
    unappointed,
    unlike,
)

TOPIC: Final = "r"
HOST: Final = "client"
_PARTITIONS: Final = 2
_MOST_PARTITIONS: Final = 3
_MIN_ISR: Final = 2
_PRODUCE_S: Final = 2.0
_FRESH_S: Final = 2.0


class ReplicatedClients:
    """Producers, each of which waits for its answer, consumers, and an operator."""

    def __init__(self, cluster: Cluster, clients: Clients) -> None:
        self._cluster = cluster
        self._clients = clients
        self._rng = cluster.draws
        self._numbers = count(1)
        self._producing: set[TopicPartition] = set()
        self._links: dict[str, ReplicaClient] = {}
        self._acknowledged: list[Acknowledged] = []
        self._consumed: set[Consumed] = set()
        self._history = RecordHistory()
        self._produced_s: dict[TopicPartition, float] = {}

    @property
    def partitions(self) -> list[TopicPartition]:
        """Those that have a state."""
        return sorted(self._cluster.observer.partitions.states)

    # Operators.

    def create_topic(self) -> None:
        """Each broker is preferred by as many partitions as any other, as far as that goes."""
        brokers = [daemon.number for daemon in self._cluster.daemons]
        replicas = {n: (*brokers[n:], *brokers[:n]) for n in range(_PARTITIONS)}
        create_topic(self._cluster.ensemble, TOPIC, replicas, TopicRules(min_isr=_MIN_ISR))

    def _admins(self) -> Iterator[tuple[DaemonProcess, ControllerOperations]]:
        """The controller, and each broker that only thinks that it is one."""
        for daemon in self._cluster.running:
            if daemon.dependencies is not None and daemon.dependencies.partitions is not None:
                admin = daemon.dependencies.partitions.admin()
                if admin is not None:
                    yield daemon, admin

    def _some_admin(self) -> tuple[DaemonProcess, ControllerOperations] | None:
        admins = list(self._admins())
        return self._rng.choice(admins) if admins else None

    async def reassign_any(self) -> None:
        """Two or three replicas, in whatever order."""
        if not self.partitions or (found := self._some_admin()) is None:
            return
        daemon, admin = found
        partition = self._rng.choice(self.partitions)
        brokers = [one.number for one in self._cluster.daemons]
        target = tuple(self._rng.sample(brokers, self._rng.choice([2, 3, 3])))
        work = daemon.call(admin.reassign({partition: target}, is_dry_run=False))
        await self._clients.ask(f"reassign {partition} to {target}", work)

    async def cancel_any(self) -> None:
        if (found := self._some_admin()) is not None:
            daemon, admin = found
            work = daemon.call(admin.cancel_reassignment([], is_dry_run=False))
            await self._clients.ask("cancel", work)

    async def grow(self) -> None:
        partitions = len(self.partitions)
        found = self._some_admin()
        if found is not None and partitions and partitions < _MOST_PARTITIONS:
            daemon, admin = found
            work = daemon.call(admin.grow_topic(TOPIC, partitions + 1, {}, is_dry_run=False))
            await self._clients.ask(f"grow to {partitions + 1}", work)

    async def elect_preferred(self) -> None:
        if (found := self._some_admin()) is not None:
            daemon, admin = found
            await self._clients.ask(
                "elect", daemon.call(admin.elect("preferred", [], is_dry_run=False))
            )

    def controllers(self) -> list[DaemonProcess]:
        return [daemon for daemon, _ in self._admins()]

    # Producers and consumers.

    async def produce_any(self) -> None:
        if self.partitions:
            await self.produce(self._rng.choice(self.partitions))

    async def produce(self, partition: TopicPartition) -> None:
        """One record, unless the last one is still under way."""
        if partition in self._producing or (daemon := self._clients.pick()) is None:
            return
        self._producing.add(partition)
        try:
            await self._clients.ask(f"produce to {partition}", self._produce(partition, daemon))
        finally:
            self._producing.discard(partition)

    async def _produce(self, partition: TopicPartition, daemon: DaemonProcess) -> None:
        if daemon.dependencies is None:
            return
        led = await daemon.call(daemon.dependencies.services.partition_leaders.find(*partition))
        if led.leader is None or led.state is None:
            return
        number = next(self._numbers)
        value = f"{partition} {number}".encode()
        epoch = self._rng.choice([ANY_EPOCH, led.state.leader_epoch])
        link, turns = self._link(led.leader.address), self._cluster.turns
        called_s = turns.now_s
        try:
            produced = await link.produce(partition, [value], leader_epoch=epoch)
        except BaseException:
            self._history.append_unanswered(partition, value, called_s)
            raise
        self._history.append(partition, value, called_s, turns.now_s, produced.offset)
        self._acknowledged.append(
            Acknowledged(
                partition,
                produced.offset,
                value,
                produced.leader_epoch,
                led.leader.broker_id,
                "",
                number,
            )
        )
        self._produced_s[partition] = self._cluster.turns.now_s

    async def consume_any(self) -> None:
        """All of a partition, at whichever broker says that it leads."""
        if self.partitions:
            partition = self._rng.choice(self.partitions)
            broker = self._rng.choice(self._cluster.daemons)
            work = self._consume(partition, broker.replicas.address)
            await self._clients.ask(f"consume {partition} at {broker.number}", work)

    async def _consume(self, partition: TopicPartition, address: str) -> None:
        called_s = self._cluster.turns.now_s
        found = await self._link(address).consume(partition)
        values, now_s = [record.value for record in found.records], self._cluster.turns.now_s
        self._history.read(partition, 0, values, called_s, now_s)
        for offset, record in enumerate(found.records):
            self._consumed.add(Consumed(partition, offset, record.value))

    def _link(self, address: str) -> ReplicaClient:
        if address not in self._links:
            network = self._cluster.network.of(HOST)
            self._links[address] = ReplicaClient(network, address, timeout_s=_PRODUCE_S)
        return self._links[address]

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()

    # What must hold.

    def stale(self) -> Iterator[str]:
        """Partitions into which nothing could be written lately."""
        now_s = self._cluster.turns.now_s
        for partition in self.partitions:
            if now_s - self._produced_s.get(partition, 0.0) > _FRESH_S:
                yield f"{partition} takes no record"

    def judge(self) -> Iterator[str]:
        """By what was acknowledged and consumed: at any time."""
        seen: list[Acknowledged | Consumed] = [*self._acknowledged, *self._consumed]
        yield from shared_epochs(self._acknowledged)
        yield from unappointed(self._acknowledged, self._cluster.observer.partitions.appointed)
        yield from contradictions(seen)
        yield from disorder(self._acknowledged)

    async def judge_logs(self) -> Sequence[str]:
        """By all logs, when all is calm and nobody produces."""
        states = self._cluster.observer.partitions.states
        logs = [
            log
            for daemon in self._cluster.daemons
            for log in await self._logs(daemon.number, daemon.replicas.address)
        ]
        seen: list[Acknowledged | Consumed] = [*self._acknowledged, *self._consumed]
        # Of leaders: a replica that was reassigned may have left its log behind.
        committed = {
            log.partition: [value for _, value in log.records]
            for log in logs
            if log.partition in states and states[log.partition].leader == log.broker
        }
        return [
            *lost(seen, logs, states),
            *divergent(logs),
            *unlike(logs, states),
            *self._history.judge(committed, self._cluster.turns.now_s),
        ]

    async def _logs(self, broker: int, address: str) -> list[ReplicaLog]:
        link = self._link(address)
        return [
            ReplicaLog(broker, held.partition, held.high_watermark, await link.log(held.partition))
            for held in await link.held()
        ]
