"""The part of a broker process that keeps replicas: a loop of its own, and a disk that stays."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from broker_ctl.core.partitions.instructions import ReplicaError, ReplicaState, ReplicaStop
from broker_ctl.dataplane.authority import Authority
from broker_ctl.dataplane.replicas import HeldReplica, IsrAnswer, IsrWish
from broker_ctl.dataplane.replication.plane import SimulatedReplicas
from broker_ctl.dataplane.replication.storage import MemoryStorage
from broker_ctl.errors import DataPlaneUnreachable
from tests.deterministic.loops import ProcessLoop, Turns, TurnsClock, new_loop
from tests.deterministic.network import MemoryNetwork

_T = TypeVar("_T")
Ask = Callable[[SimulatedReplicas], Awaitable[_T]]

LAG_S: Final = 3.0
REPLICA_PORT: Final = 6650
_LONGEST_S: Final = 0.002
_ANSWER_S: Final = 1.0


def host_of(number: int) -> str:
    return f"b{number}"


def address_of(number: int) -> str:
    """Where the replicas of broker ``number`` are fetched."""
    return f"{host_of(number)}:{REPLICA_PORT}"


class ReplicaProcess:
    """One process after another on one disk.

    Attributes:
        granted: how long it may take writes, by what its daemon said last.
    """

    def __init__(self, number: int, turns: Turns, network: MemoryNetwork) -> None:
        self.number = number
        self.address = address_of(number)
        self.host = host_of(number)
        self.loop: ProcessLoop = new_loop(turns, f"replicas of {self.host}")
        self.replicas: SimulatedReplicas | None = None
        self._turns = turns
        self._network = network
        self._disk = MemoryStorage()
        self._life = 0
        self.granted: Callable[[], Authority] = Authority

    def _authority(self) -> Authority:
        return self.granted()

    async def start(self) -> None:
        """A new process, which has what is on the disk."""
        self._life += 1
        self.loop = new_loop(self._turns, f"replicas of {self.host} #{self._life}")
        self.replicas = replicas = SimulatedReplicas(
            self.number,
            self.address,
            self._disk,
            self._network.of(self.host),
            clock=TurnsClock(self._turns),
            authority=self._authority,
            lag_time_s=LAG_S,
        )
        await self.run(replicas.start())

    async def kill(self) -> None:
        """All that stood between it and others is reset, and nothing of it runs any more."""
        replicas, self.replicas = self.replicas, None
        self._network.drop(self.host)
        if self.loop.is_stopped:
            self.loop.continue_process()
        if replicas is not None:
            await self.run(replicas.stop())

    async def run(self, work: Awaitable[_T]) -> _T:
        """Do something in its loop, from another one."""

        async def done() -> _T:
            return await work

        told = asyncio.get_running_loop().create_future()

        def tell(ended: asyncio.Task[_T]) -> None:
            if not ended.cancelled():
                # Whoever waited may have gone away; then it failed for nobody.
                ended.exception()
            if not told.done():
                told.set_result(None)

        task = self.loop.create_task(done(), name=f"asked of {self.loop.name}")
        task.add_done_callback(tell)
        await told
        return task.result()


class DaemonLink(Protocol):
    """The wire between a daemon and its broker process.

    Attributes:
        is_severed: that daemon is dead, whatever its tasks still do.
    """

    is_severed: bool

    def take_loss(self) -> bool | None:
        """Whether the next call is carried out before its answer is lost; None: it is not lost."""
        ...


class ReplicaLink:
    """`OwnReplicaPlane` of one daemon: calls to the process over a wire that may lose them.

    Args:
        authority: how long the process may take writes, as long as the daemon lives.
    """

    def __init__(
        self,
        process: ReplicaProcess,
        draws: random.Random,
        link: DaemonLink,
        authority: Callable[[], Authority],
    ) -> None:
        self._process = process
        self._draws = draws
        self._link = link
        self._authority = authority
        process.granted = authority

    async def start(self) -> None:
        """The process lives without it."""

    async def stop(self) -> None:
        """The process lives on."""

    def sever(self) -> None:
        """The daemon is dead; the process knows what it said last."""
        if self._process.granted is self._authority:
            last = self._authority()
            self._process.granted = lambda: last

    async def _ask(self, ask: Ask[_T]) -> _T:
        loss = self._link.take_loss()
        await self._pass(is_lost=loss is False)
        replicas = self._process.replicas
        if replicas is None:
            raise DataPlaneUnreachable("no process")
        try:
            # A process that is stopped answers when it goes on, to nobody.
            async with asyncio.timeout(_ANSWER_S):
                answer = await self._process.run(ask(replicas))
        except TimeoutError:
            raise DataPlaneUnreachable("no answer in time") from None
        await self._pass(is_lost=loss is True)
        return answer

    async def _pass(self, *, is_lost: bool) -> None:
        await asyncio.sleep(self._draws.random() * _LONGEST_S)
        if is_lost or self._link.is_severed:
            raise DataPlaneUnreachable("no answer")

    async def become_leader(self, replicas: Sequence[ReplicaState]) -> Sequence[ReplicaError]:
        return await self._ask(lambda plane: plane.become_leader(replicas))

    async def become_follower(
        self, replicas: Sequence[ReplicaState], brokers: Mapping[int, str]
    ) -> Sequence[ReplicaError]:
        return await self._ask(lambda plane: plane.become_follower(replicas, brokers))

    async def stop_replicas(self, stops: Sequence[ReplicaStop]) -> Sequence[ReplicaError]:
        return await self._ask(lambda plane: plane.stop_replicas(stops))

    async def replicas(self) -> Sequence[HeldReplica]:
        return await self._ask(lambda plane: plane.replicas())

    async def isr_wishes(self) -> Sequence[IsrWish]:
        return await self._ask(lambda plane: plane.isr_wishes())

    async def answer_wishes(self, answers: Sequence[IsrAnswer]) -> None:
        await self._ask(lambda plane: plane.answer_wishes(answers))
