"""One of many daemons: all of `broker_ctl.daemon`, with a data plane in its own process."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.broker.load.host_usage import UsageSource
from broker_ctl.coordination.membership.cluster import Peers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.commands import HandleCommand
from broker_ctl.daemon.lifecycle.lifecycle import Daemon
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.metrics import connect
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.memory_store.transport import Fault, FaultPoint, MemoryRequest
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.peer_http import PeerHttp
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from tests.deterministic.fleet.counts import Traffic
from tests.deterministic.fleet.traffic import FleetTraffic
from tests.deterministic.judges.observer import Observer
from tests.deterministic.world.daemon_process import MemoryPeers, across
from tests.deterministic.world.loops import Turns, TurnsClock, new_loop
from tests.deterministic.world.wire import Coverage, Wire
from tests.support.daemon.in_memory_daemon import IdleHost, NoServer

_T = TypeVar("_T")

TIMEOUT_S: Final = 30.0
TICK_S: Final = 2.0
GRACE_S: Final = 2.0
# Each topic acts once in that time: often enough that most reigns are judged by acts.
_ACT_TICK_S: Final = 300.0


class CountingWire(Wire):
    """A `Wire` whose requests are counted."""

    def __init__(self, rng: random.Random, coverage: Coverage, traffic: Traffic) -> None:
        super().__init__(rng, coverage)
        self._traffic = traffic

    def mishap(self, request: MemoryRequest, point: FaultPoint) -> Fault | None:
        """Count it where it arrives."""
        if point is FaultPoint.BEFORE:
            self._traffic.note(request)
        return super().mishap(request, point)


class World:
    """What all daemons share."""

    def __init__(
        self,
        turns: Turns,
        ensemble: MemoryEnsemble,
        observer: Observer,
        load: FleetTraffic,
        traffic: Traffic,
    ) -> None:
        self.turns = turns
        self.ensemble = ensemble
        self.observer = observer
        self.load = load
        self.traffic = traffic
        self.coverage = Coverage()
        self.by_id: dict[str, FleetDaemon] = {}


class FleetDaemon(Environment):
    """One daemon after another on one host.

    Attributes:
        dependencies: what HTTP would show of the daemon that runs; None while none does.
    """

    def __init__(self, number: int, world: World, rng: random.Random) -> None:
        super().__init__(TurnsClock(world.turns), rng)
        self.number = number
        self.host = f"b{number}"
        self.broker_id = f"{self.host}:8080"
        self._world = world
        self.wire: Wire = CountingWire(rng, world.coverage, world.traffic)
        self.loop = new_loop(world.turns, self.broker_id)
        self.store: MemoryStore | None = None
        self.plane: SimulatedDataPlane | None = None
        self.assembly: Assembly | None = None
        self.dependencies: Dependencies | None = None
        self.exits: list[object] = []
        self.main: asyncio.Task[int] | None = None
        self._signals = StopSignals()

    @property
    def is_running(self) -> bool:
        return self.main is not None and not self.main.done()

    @property
    def is_ready(self) -> bool:
        return self.dependencies is not None and self.dependencies.readiness().is_ready

    @property
    def is_leading(self) -> bool:
        return self.dependencies is not None and self.dependencies.admin() is not None

    def start(self) -> None:
        """A new daemon."""
        self._signals = StopSignals()
        self.main = self.loop.create_task(self._main(), name=f"main {self.broker_id}")
        self.main.add_done_callback(self._ended)

    async def _main(self) -> int:
        settings = [
            "clusterName=c",
            f"advertisedAddress={self.host}",
            "webServicePort=8080",
            "metadataStoreUrl=h",
            f"metadataStoreSessionTimeoutMillis={round(TIMEOUT_S * 1000)}",
            f"zookeeperTickTimeMillis={round(TICK_S * 1000)}",
            f"brokerReclaimGraceMillis={round(GRACE_S * 1000)}",
            "hostUsageSource=dataplane",
        ]
        self.assembly = assembly = Assembly(load(None, {}, settings), self)
        connect(assembly)
        return await Daemon(assembly, Notifier({}), self._signals).run()

    def _ended(self, main: "asyncio.Task[int]") -> None:
        if main is self.main:
            self.dependencies = self.assembly = None
            self.exits.append(main.exception() or main.result())

    def stop(self) -> None:
        """As SIGTERM does."""
        self._signals.ask()

    def kill(self) -> None:
        """The host is gone: the world sees nothing of it any more."""
        self.dependencies = self.assembly = None
        if self.plane is not None:
            self.plane.grant(0, 0.0)
        if self.store is not None:
            self.store.disconnect()
        main, self.main = self.main, None
        if main is not None:
            main.cancel()

    async def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something in the daemon's loop, from another loop."""
        return await across(self.loop.create_task(work, name="called"))

    # Environment.

    def open_stores(self, _: Settings, __: StoreInstruments) -> tuple[OwnStore, OwnStore]:
        self.store = MemoryStore(
            self._world.ensemble,
            session_timeout_s=TIMEOUT_S,
            transit=self.wire.transit,
            faults=self.wire.mishap,
            is_batching=True,
        )
        broker_id, observer = self.broker_id, self._world.observer
        self.store.listen(lambda _: observer.forget(broker_id))
        return self.store, self.store

    def dataplane(self, _settings: Settings) -> DataPlane:
        self.plane = SimulatedDataPlane(
            self._world.load,
            self.clock,
            broker_id=self.broker_id,
            rng=self.rng,
            serve_log=self._world.observer,
            tick_s=_ACT_TICK_S,
            origin_s=0.0,
        )
        return self.plane

    def host_usage(self, _settings: Settings) -> UsageSource:
        return IdleHost()

    def peers(self, _registry: Registry, _http: PeerHttp, own: HandleCommand) -> Peers:
        return MemoryPeers(self, self._world.by_id, own)

    def api(self, dependencies: Dependencies, _rules: ApiRules) -> ApiServer:
        self.dependencies = dependencies
        return NoServer()
