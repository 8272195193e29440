"""Simulated broker processes that keep replicas, without daemons: the test is their controller."""

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.core.partitions.instructions import ReplicaState
from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.webhook.replica_wire import IsrAnswer, IsrProposal
from broker_ctl.lab.replica_client import ReplicaClient
from broker_ctl.lab.replication.log import LogRecord
from broker_ctl.lab.replication.plane import SimulatedReplicas
from broker_ctl.lab.replication.storage import MemoryStorage, ReplicaStorage
from broker_ctl.lab.replication.tcp import ReplicationTls, TcpNetwork
from broker_ctl.lab.time import ManualClock
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S, eventually

_T = TypeVar("_T")

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = "0123456789abcdef" * 2
LAG_S = 10.0


def instruction(
    state: LeaderAndIsr,
    partition: TopicPartition = ORDERS,
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    topic_id: str = TOPIC_ID,
    min_isr: int = 1,
) -> ReplicaState:
    return ReplicaState(partition, topic_id, state, replicas, min_isr)


def state(leader: int, epoch: int, isr: Sequence[int], version: int = -1) -> LeaderAndIsr:
    """A state whose version grows with its epoch, with room for changes of the ISR between."""
    return LeaderAndIsr(
        leader, epoch, tuple(isr), 1, version=10 * epoch if version < 0 else version
    )


class Planes:
    """Broker processes 1 and up, over real sockets and on one clock. A scope.

    Attributes:
        authority: of each, by broker id.
        storages: by broker id; they outlive a process.
    """

    def __init__(
        self,
        count: int = 3,
        storage: Callable[[int], ReplicaStorage] = lambda _: MemoryStorage(),
        clock: Clock | None = None,
        tls: Callable[[int], ReplicationTls | None] = lambda _: None,
    ) -> None:
        self.networks = {number: TcpNetwork(tls(number)) for number in range(1, count + 1)}
        self.clock = clock or ManualClock()
        self.ids = range(1, count + 1)
        self.authority = {number: Authority(1, float("inf")) for number in self.ids}
        self.storages = {number: storage(number) for number in self.ids}
        self.addresses = {number: f"127.0.0.1:{free_port()}" for number in self.ids}
        self.planes: dict[int, SimulatedReplicas] = {}
        self._clients: dict[int, ReplicaClient] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for number in self.ids:
            await self.start(number)
            network, address = self.networks[number], self.addresses[number]
            client = ReplicaClient(network, address, timeout_s=PATIENCE_S)
            self._clients[number] = await self._stack.enter_async_context(client)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()
        for number in tuple(self.planes):
            await self.stop(number)

    def __getitem__(self, number: int) -> SimulatedReplicas:
        return self.planes[number]

    def client(self, number: int) -> ReplicaClient:
        return self._clients[number]

    async def start(self, number: int) -> None:
        plane = SimulatedReplicas(
            number,
            self.addresses[number],
            self.storages[number],
            self.networks[number],
            clock=self.clock,
            authority=lambda: self.authority[number],
            rng=random.Random(number),
        )
        await plane.start()
        self.planes[number] = plane

    async def stop(self, number: int) -> None:
        await self.planes.pop(number).stop()

    async def instruct(self, new: ReplicaState, *numbers: int) -> None:
        """Send the state as the controller would, to these brokers or to all replicas that run."""
        for number in numbers or [one for one in new.replicas if one in self.planes]:
            plane = self.planes[number]
            if new.state.leader == number:
                errors = await plane.become_leader([new])
            else:
                errors = await plane.become_follower([new], self.addresses)
            assert not errors, (number, errors)

    async def wait_proposal(self, number: int, isr: Sequence[int]) -> IsrProposal:
        async def proposed() -> IsrProposal | None:
            proposals = await self.planes[number].isr_proposals(LAG_S)
            return next((proposal for proposal in proposals if proposal.isr == tuple(isr)), None)

        return await eventually(proposed, what=f"{number} proposals {isr}")

    async def grant(self, number: int, proposal: IsrProposal) -> LeaderAndIsr:
        """Answer a proposal as granted, as after a write to the store."""
        new = state(number, proposal.leader_epoch, proposal.isr, proposal.version + 1)
        await self.planes[number].answer_proposals(
            [IsrAnswer(proposal.partition, new, is_granted=True)]
        )
        return new

    async def wait_log(
        self, number: int, values: Sequence[bytes], partition: TopicPartition = ORDERS
    ) -> list[LogRecord]:
        """Wait until the log of a replica is this."""

        async def log() -> list[LogRecord] | None:
            records = await self.client(number).log(partition)
            return records if [record.value for record in records] == list(values) else None

        if not values:
            return await self.client(number).log(partition)
        return await eventually(log, what=f"{values!r} at {number}")

    async def within(self, ask: Callable[[], Awaitable[_T | None]], what: str) -> _T:
        return await eventually(ask, what=what)
