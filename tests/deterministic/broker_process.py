"""A broker process beside its daemon: it outlives it, and dies and comes back without it."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from broker_ctl.clock import Clock
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.load import BundleStats, SystemUsage
from broker_ctl.dataplane.act_log import ActLog
from broker_ctl.dataplane.interface import Unloaded
from broker_ctl.dataplane.simulated import SimulatedDataPlane
from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.simulation.workload import Workload
from tests.deterministic.replica_process import ReplicaLink, ReplicaProcess

_LONGEST_S = 0.002
ACT_TICK_S = 0.25


class BrokerProcess:
    """One broker process; `DataPlaneLink` is how a daemon calls it."""

    def __init__(
        self,
        broker_id: str,
        workload: Workload,
        clock: Clock,
        draws: random.Random,
        *,
        acts: ActLog,
        replicas: ReplicaProcess,
    ) -> None:
        self.replicas = replicas
        self.serving = SimulatedDataPlane(
            workload,
            clock,
            broker_id=broker_id,
            draw=draws,
            act_log=acts,
            tick_s=ACT_TICK_S,
            topic_close_s=0.01,
            origin_s=0.0,
        )
        self.is_alive = False

    async def start(self) -> None:
        """A new process, which has forgotten everything."""
        await self.serving.start()
        await self.replicas.start()
        self.is_alive = True

    async def kill(self) -> None:
        self.is_alive = False
        await self.serving.stop()
        await self.replicas.kill()


class DataPlaneLink:
    """`DataPlane` of one daemon: calls over a wire that may lose them, there or on the way back.

    Attributes:
        is_severed: the daemon is dead, whatever its tasks still do.
        losses: for the next calls, whether each is carried out before its answer is lost.
        replicas: the calls about replicas, which share both.
    """

    storage_refuses_old_tokens = False

    def __init__(self, process: BrokerProcess, draws: random.Random) -> None:
        self._process = process
        self._draws = draws
        self._instance_id = ""
        self.is_severed = False
        self.losses: list[bool] = []
        self.replicas: ReplicaLink | None = None

    def sever(self) -> None:
        """The daemon is dead: nothing that it still does is heard of."""
        self.is_severed = True
        if self.replicas is not None:
            self.replicas.sever()

    @property
    def instance_id(self) -> str:
        return self._instance_id

    def take_loss(self) -> bool | None:
        """Whether the next call is carried out before its answer is lost; None: it is not lost."""
        return self.losses.pop() if self.losses else None

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[SimulatedDataPlane]:
        loss = self.take_loss()
        await self._pass(is_lost=loss is False)
        yield self._process.serving
        await self._pass(is_lost=loss is True)
        self._instance_id = self._process.serving.instance_id

    async def _pass(self, *, is_lost: bool) -> None:
        await asyncio.sleep(self._draws.random() * _LONGEST_S)
        if is_lost or self.is_severed or not self._process.is_alive:
            raise DataPlaneUnreachable("no answer")

    async def start(self) -> None:
        async with self._call():
            pass

    async def stop(self) -> None:
        self.grant(0, 0.0)

    async def load(self, bundle: Bundle, token: int, *, is_preloading: bool = True) -> None:
        async with self._call() as serving:
            await serving.load(bundle, token, is_preloading=is_preloading)

    async def renew(self, bundle: Bundle, token: int) -> None:
        async with self._call() as serving:
            await serving.renew(bundle, token)

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        async with self._call() as serving:
            await serving.split(parent, children)

    async def merge(self, children: tuple[Bundle, Bundle], parent: Bundle, token: int) -> None:
        async with self._call() as serving:
            await serving.merge(children, parent, token)

    async def unload(self, bundle: Bundle, deadline_s: float) -> Unloaded:
        async with self._call() as serving:
            return await serving.unload(bundle, deadline_s)

    async def unload_topic(self, topic: str) -> None:
        async with self._call() as serving:
            await serving.unload_topic(topic)

    async def fence(self, bundle: Bundle) -> None:
        async with self._call() as serving:
            await serving.fence(bundle)

    def grant(self, session_epoch: int, deadline_s: float) -> None:
        if not self.is_severed and self._process.is_alive:
            self._process.serving.grant(session_epoch, deadline_s)

    async def loaded(self) -> Mapping[Bundle, int]:
        async with self._call() as serving:
            return await serving.loaded()

    async def topics(self, bundle: Bundle) -> tuple[str, ...]:
        async with self._call() as serving:
            return await serving.topics(bundle)

    async def topic_statistics(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        async with self._call() as serving:
            return await serving.topic_statistics(bundle)

    async def statistics(self) -> Mapping[Bundle, BundleStats]:
        async with self._call() as serving:
            return await serving.statistics()

    async def usage(self) -> SystemUsage | None:
        async with self._call() as serving:
            return await serving.usage()
