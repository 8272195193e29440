"""A whole daemon in memory: all that `broker_ctl.daemon` builds, but for sockets and ZooKeeper."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
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
from broker_ctl.instruments.kinds import Instrument
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from tests.support.daemon.in_memory_daemon import NoServer
from tests.support.time.waiting import eventually

SETTINGS = (
    "clusterName=c",
    "advertisedAddress=h1",
    "webServicePort=8080",
    "metadataStoreSessionTimeoutMillis=10000",
    "metadataStoreOperationTimeoutSeconds=4",
    "zookeeperTickTimeMillis=500",
)


class _IdleHost:
    async def measure(self) -> SystemUsage:
        return SystemUsage()


class MemoryEnvironment(Environment):
    """As a process has them, but for stores and sockets; on the time of the loop.

    Attributes:
        store: of the brokers.
        configuration: the same, unless it was given an ensemble of its own.
        shown: what HTTP would show.
    """

    def __init__(
        self, ensemble: MemoryEnsemble, configuration: MemoryEnsemble | None = None
    ) -> None:
        super().__init__(LoopClock(), random.Random(1))
        self.store = MemoryStore(ensemble, session_timeout_s=10.0, operation_timeout_s=4.0)
        self.configuration = self.store
        if configuration is not None:
            self.configuration = MemoryStore(
                configuration,
                "configuration-metadata-store",
                session_timeout_s=10.0,
                operation_timeout_s=4.0,
            )
        self.shown: Dependencies | None = None

    def open_stores(self, _: Settings, __: StoreInstruments) -> tuple[OwnStore, OwnStore]:
        return self.store, self.configuration

    def host_usage(self, _: Settings) -> UsageSource:
        return _IdleHost()

    def api(self, dependencies: Dependencies, _: ApiRules) -> ApiServer:
        self.shown = dependencies
        return NoServer()


@dataclass
class Run:
    """A daemon that runs."""

    assembly: Assembly
    around: MemoryEnvironment
    ensemble: MemoryEnsemble
    daemon: asyncio.Task[int]
    signals: StopSignals

    @property
    def shown(self) -> Dependencies:
        assert self.around.shown is not None
        return self.around.shown

    @property
    def is_ready(self) -> bool:
        """The answer of /readyz; raises the error of a daemon that has failed."""
        if self.daemon.done():
            self.daemon.result()
        return self.shown.readiness().is_ready

    async def wait_ready(self) -> None:
        await eventually(lambda: self.is_ready, deadline_s=120.0, what="ready")

    def readings(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of an instrument in a scrape, by the values of its labels."""
        return readings(self.assembly.foundation.instruments, name)


def readings(instruments: Iterable[Instrument], name: str) -> dict[tuple[str, ...], float]:
    """The samples of an instrument in a scrape, by the values of its labels."""
    (found,) = (one for one in instruments if one.name == name)
    return {tuple(sample.labels.values()): sample.value for sample in found.samples()}


@asynccontextmanager
async def whole_daemon(
    *overrides: str,
    ensemble: MemoryEnsemble | None = None,
    configuration: MemoryEnsemble | None = None,
) -> AsyncIterator[Run]:
    """A daemon from its start, stopped at the end unless it has ended by then."""
    ensemble = ensemble or MemoryEnsemble()
    around = MemoryEnvironment(ensemble, configuration)
    assembly = Assembly(load(None, {}, [*SETTINGS, *overrides]), around)
    connect(assembly)
    signals = StopSignals()
    daemon = Daemon(assembly, Notifier({}), signals)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(daemon.run(), name="daemon")
        yield Run(assembly, around, ensemble, task, signals)
        signals.ask()
