"""The part of a broker process that keeps replicas: a loop of its own, and a disk that stays."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.lab.replication.plane import SimulatedReplicas
from broker_ctl.lab.replication.storage import MemoryStorage
from tests.deterministic.world.loops import ProcessLoop, Turns, TurnsClock, new_loop
from tests.deterministic.world.network import HostNetwork, MemoryNetwork

_T = TypeVar("_T")

REPLICA_PORT: Final = 6650


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

    def __init__(
        self,
        number: int,
        turns: Turns,
        network: MemoryNetwork,
        disk: MemoryStorage | None = None,
    ) -> None:
        self.number = number
        self.address = address_of(number)
        self.host = host_of(number)
        self.loop: ProcessLoop = new_loop(turns, f"replicas of {self.host}")
        self.replicas: SimulatedReplicas | None = None
        self._turns = turns
        self._network = network
        self._disk = disk or MemoryStorage()
        self._life = 0
        self._plug: HostNetwork | None = None
        self.granted: Callable[[], Authority] = Authority

    def _authority(self) -> Authority:
        return self.granted()

    async def start(self) -> None:
        """A new process, which has what is on the disk."""
        self._life += 1
        self.loop = new_loop(self._turns, f"replicas of {self.host} #{self._life}")
        self._plug = self._network.of(self.host)
        self.replicas = replicas = SimulatedReplicas(
            self.number,
            self.address,
            self._disk,
            self._plug,
            clock=TurnsClock(self._turns),
            authority=self._authority,
            rng=random.Random(self.number),
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

    def move(self) -> "ReplicaProcess":
        """Its disk, as it is now, on another machine of the same name; this one reaches nobody."""
        self._network.drop(self.host)
        if self._plug is not None:
            self._plug.pull()
        self.host = f"{self.host} before"
        disk = MemoryStorage()
        disk._held.update(self._disk.load())
        return ReplicaProcess(self.number, self._turns, self._network, disk)

    async def run(self, work: Awaitable[_T]) -> _T:
        """Do something in its loop, from another one."""

        async def done() -> _T:
            return await work

        finished = asyncio.get_running_loop().create_future()

        def on_end(ended: asyncio.Task[_T]) -> None:
            if not ended.cancelled():
                # The caller may have gone away; then the failure concerns nobody.
                ended.exception()
            if not finished.done():
                finished.set_result(None)

        task = self.loop.create_task(done(), name=f"asked of {self.loop.name}")
        task.add_done_callback(on_end)
        await finished
        return task.result()
