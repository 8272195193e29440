"""One daemon on a store in memory, with what it reaches beyond that left as it is live."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.broker.load.host_usage import UsageSource
from broker_ctl.core.model.load import SystemUsage
from broker_ctl.daemon.lifecycle.lifecycle import Daemon
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.metrics import connect
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from tests.support.time.waiting import eventually


class IdleHost:
    """A host without any usage."""

    async def measure(self) -> SystemUsage:
        """Nothing."""
        return SystemUsage()


class NoServer(ApiServer):
    """Nobody asks."""

    def __init__(self) -> None:
        """Nothing to serve."""

    async def start(self) -> None:
        """Nothing to listen on."""

    async def stop(self, deadline_s: float) -> None:
        """Nothing to refuse."""
        del deadline_s


class InMemory(Environment):
    """The environment of a process, but with a store in memory, an idle host and no port."""

    def __init__(self, ensemble: MemoryEnsemble | None = None) -> None:
        super().__init__(LoopClock(), random.Random(1))
        self.ensemble = ensemble or MemoryEnsemble()
        self.store = MemoryStore(self.ensemble, session_timeout_s=20.0)

    def open_stores(self, _: Settings, __: StoreInstruments) -> tuple[OwnStore, OwnStore]:
        """One store in memory, for both."""
        return self.store, self.store

    def host_usage(self, _: Settings) -> UsageSource:
        """Usage of a host that does nothing."""
        return IdleHost()

    def api(self, _: Dependencies, __: ApiRules) -> ApiServer:
        """No API server: no port is opened."""
        return NoServer()


def settings_of(*overrides: str) -> Settings:
    """Settings of a broker with the id b1:8080."""
    return load(None, {}, ["advertisedAddress=b1", "metadataStoreUrl=h", *overrides])


@dataclass(frozen=True, slots=True)
class Run:
    """A daemon at work; its exit code once it has ended."""

    around: InMemory
    assembly: Assembly
    signals: StopSignals
    ended: asyncio.Task[int]


@asynccontextmanager
async def running(
    *overrides: str, around: InMemory | None = None, kind: type[Daemon] = Daemon
) -> AsyncIterator[Run]:
    """A daemon that is ready; it is stopped in the end."""
    around = around or InMemory()
    signals, assembly = StopSignals(), Assembly(settings_of(*overrides), around)
    connect(assembly)
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(kind(assembly, Notifier({}), signals).run(), name="daemon")
        await eventually(lambda: ended.done() or assembly.status.now.is_ready)
        yield Run(around, assembly, signals, ended)
        signals.ask()
