"""A complete daemon as a process: the composition of `broker_ctl.daemon`, in memory."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from functools import cache, partial
from typing import Any, Protocol, TypeVar

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.broker.load.host_usage import UsageSource
from broker_ctl.coordination.membership.cluster import Peers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.machines.lease import LoopWatchdog
from broker_ctl.core.model.commands import Command, HandleCommand, Reply
from broker_ctl.core.model.load import SystemUsage
from broker_ctl.core.model.names import Bundle
from broker_ctl.daemon.lifecycle.lifecycle import Daemon
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.metrics import connect
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.dataplane.bundles.interface import Authority, DataPlane
from broker_ctl.errors import BrokerCtlError, PeerError, PeerRefused, PeerUnreachable
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.peer_http import PeerHttp
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from broker_ctl.store.interface import NO_SESSION, SavedSession
from tests.deterministic.world.broker_process import BrokerProcess, DataPlaneLink, ReplicaLink
from tests.deterministic.world.calls import MemoryCalls
from tests.deterministic.world.loops import ProcessLoop, Turns, TurnsClock, new_loop
from tests.deterministic.world.replica_process import REPLICA_PORT, host_of
from tests.deterministic.world.wire import Coverage, Wire
from tests.support.daemon.in_memory_daemon import NoServer

_T = TypeVar("_T")

TIMEOUT_S = 4.0
TICK_S = 0.5
GRACE_S = 2.0
OPERATION_S = 6.0
# Longer than the session timeout: without the thread a session would end earlier.
WATCHDOG_S = 5.0
_SETTINGS = {
    "clusterName": "c",
    "metadataStoreOperationTimeoutSeconds": str(round(OPERATION_S)),
    "loopWatchdogSeconds": str(round(WATCHDOG_S)),
    "zookeeperTickTimeMillis": str(round(TICK_S * 1000)),
    "brokerReclaimGraceMillis": str(round(GRACE_S * 1000)),
    "hostUsageSource": "dataplane",
    "dataPlaneRequestTimeoutMillis": "1000",
    "dataPlaneFailureTimeoutMillis": "3000",
    "namespaceBundleUnloadingTimeoutMs": "1000",
    "brokerShutdownTimeoutMs": "2000",
    "statsUpdateFrequencyInSecs": "4",
    "loadBalancerReportUpdateMinIntervalMillis": "2000",
    "loadBalancerSheddingIntervalMinutes": "0.1",
    "loadBalancerSplitIntervalMinutes": "0.2",
    "loadBalancerSheddingGracePeriodMinutes": "0.1",
    "loadBalancerBundleUnloadMinThroughputThreshold": "0",
    "loadBalancerMaxLoadMovedPerHourPercentage": "1000",
    "replicaPollMillis": "1000",
    "replicaLagTimeMaxMillis": "3000",
    "replicaAcknowledgeTimeoutMillis": "2000",
    "controlledShutdownMaxRetries": "1",
    "leaderImbalanceCheckIntervalSeconds": "15",
}


def broker_id_of(number: int) -> str:
    return f"{host_of(number)}:8080"


@cache
def settings_of(number: int, timeout_s: float) -> Settings:
    settings = {
        **_SETTINGS,
        "metadataStoreSessionTimeoutMillis": str(round(timeout_s * 1000)),
        "advertisedAddress": host_of(number),
        "webServicePort": "8080",
        "brokerId": str(number),
        "brokerServicePort": str(REPLICA_PORT),
    }
    return load(None, {}, [f"{key}={value}" for key, value in settings.items()])


class _IdleHost:
    async def measure(self) -> SystemUsage:
        return SystemUsage()


class DaemonProcess(Environment):
    """One daemon after another beside one broker process.

    Attributes:
        incarnation: how many daemons there have been here.
        dependencies: what HTTP would show of the daemon that runs; None while none does.
        is_keeping: the next stop leaves the session to the daemon that starts next.
        configuration: the store of the policies; None where that is ``store``.
    """

    def __init__(
        self,
        number: int,
        turns: Turns,
        ensemble: MemoryEnsemble,
        *,
        configuration: MemoryEnsemble | None,
        process: BrokerProcess,
        peers: Mapping[str, "DaemonProcess"],
        coverage: Coverage,
        timeout_s: float,
        rng: random.Random,
        on_doubt: Callable[["DaemonProcess"], None],
    ) -> None:
        self.number = number
        self.broker_id = broker_id_of(number)
        self.process = process
        self.replicas = process.replicas
        self.turns_clock = TurnsClock(turns)
        super().__init__(self.turns_clock, rng)
        self.wire = Wire(rng, coverage)
        self.configuration_wire = Wire(random.Random(f"{number}"), coverage)
        self.incarnation = 0
        self.dependencies: Dependencies | None = None
        self.assembly: Assembly | None = None
        self.store: MemoryStore | None = None
        self.configuration: MemoryStore | None = None
        self.exits: list[object] = []
        self.is_keeping = False
        self._turns = turns
        self._ensemble = ensemble
        self._configuration_ensemble = configuration
        self._peers = peers
        self._timeout_s = timeout_s
        self._on_doubt = on_doubt
        self._kept_session = NO_SESSION
        self.loop = new_loop(turns, self.broker_id)
        self.link = DataPlaneLink(process, self.clock, rng)
        self._signals = StopSignals()
        self.main: asyncio.Task[int] | None = None

    @property
    def is_running(self) -> bool:
        return self.main is not None and not self.main.done()

    @property
    def is_stopped(self) -> bool:
        """As by SIGSTOP."""
        return self.loop.is_stopped

    def start(self) -> None:
        """A new daemon."""
        self.incarnation += 1
        self.loop = new_loop(self._turns, f"{self.broker_id} #{self.incarnation}")
        self.link = DataPlaneLink(self.process, self.clock, self.rng)
        self._signals = StopSignals()
        self.main = self.loop.create_task(self._main(), name=f"main {self.loop.name}")
        self.main.add_done_callback(self._ended)

    async def _main(self) -> int:
        assembly = Assembly(settings_of(self.number, self._timeout_s), self)
        connect(assembly)
        self.assembly = assembly
        return await Daemon(assembly, Notifier({}), self._signals).run()

    def _ended(self, main: "asyncio.Task[int]") -> None:
        if main is not self.main:
            return
        self.dependencies = None
        if not main.cancelled():
            self.exits.append(main.exception() or main.result())

    def stop(self, *, is_keeping: bool = False) -> None:
        """As SIGTERM does."""
        self.is_keeping = is_keeping
        self._signals.ask()

    def kill(self) -> None:
        """As SIGKILL does: the world sees nothing of it any more."""
        self.link.sever()
        self.dependencies = None
        for store in (self.store, self.configuration):
            if store is not None:
                store.disconnect()
        if self.loop.is_stopped:
            self.loop.continue_process()
        main, self.main = self.main, None
        if main is not None:
            main.cancel()

    def owned(self) -> list[Bundle]:
        """What it holds, in whatever state."""
        return [] if self.assembly is None else sorted(self.assembly.services.ownership.owned())

    async def unload(self, bundle: Bundle) -> None:
        """By order of an operator."""
        if self.assembly is not None:
            await self.assembly.services.ownership.unload(bundle)

    async def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something in the daemon's loop, from another loop."""
        task = self.loop.create_task(work, name="called")
        return await across(task)

    # Environment.

    def open_stores(
        self, settings: Settings, _instruments: StoreInstruments
    ) -> tuple[OwnStore, OwnStore]:
        kept, self._kept_session = self._kept_session, NO_SESSION
        watchdog = LoopWatchdog(settings.session.loop_watchdog_s)
        store = MemoryStore(
            self._ensemble,
            session_timeout_s=self._timeout_s,
            operation_timeout_s=OPERATION_S,
            transit=self.wire.transit,
            resumed=kept,
            faults=self.wire.mishap,
            pulse=partial(self._pulse_s, self.loop, watchdog),
            is_busy=lambda: self.loop.is_blocked,
        )
        self.store = store
        # What it knew of others it reads again from here on.
        store.listen(lambda _: self._on_doubt(self))
        if self._configuration_ensemble is None:
            return store, store
        self.configuration = MemoryStore(
            self._configuration_ensemble,
            "configuration-metadata-store",
            session_timeout_s=self._timeout_s,
            operation_timeout_s=OPERATION_S,
            transit=self.configuration_wire.transit,
            faults=self.configuration_wire.mishap,
            pulse=self.loop.pulse_s,
        )
        return store, self.configuration

    def _pulse_s(self, loop: ProcessLoop, watchdog: LoopWatchdog) -> float:
        """Until when its pings have arrived."""
        return self.wire.pulse_s(loop.pulse_s(watchdog))

    def keeps_session(self, _settings: Settings) -> bool:
        return self.is_keeping

    def keep_session(self, _settings: Settings, session: SavedSession) -> None:
        self._kept_session = session

    def dataplane(self, _settings: Settings) -> DataPlane:
        return self.link

    def host_usage(self, _settings: Settings) -> UsageSource:
        return _IdleHost()

    def peers(self, _registry: Registry, _http: PeerHttp, own: HandleCommand) -> Peers:
        return MemoryPeers(self, self._peers, own)

    def replica_plane(
        self, _settings: Settings, _dataplane: DataPlane, authority: Callable[[], Authority]
    ) -> ReplicaLink:
        self.link.replicas = ReplicaLink(self.link, self.replicas, authority)
        return self.link.replicas

    def calls(self, _http: HttpClient) -> HttpClient:
        return MemoryCalls(self._peers, self.wire.transit_to)

    def api(self, dependencies: Dependencies, _rules: ApiRules) -> ApiServer:
        self.dependencies = dependencies
        return NoServer()


class Host(Protocol):
    """A daemon that sends or gets commands; without ``dependencies`` it does not listen."""

    broker_id: str
    wire: Wire

    @property
    def dependencies(self) -> Dependencies | None: ...

    async def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something in its loop, from another loop."""
        ...


class MemoryPeers:
    """Commands between daemons; errors arrive in the words in which HTTP would bring them."""

    def __init__(self, sender: Host, others: Mapping[str, Host], own: HandleCommand) -> None:
        self._sender = sender
        self._others = others
        self._own = own

    async def send(self, broker_id: str, order: Command, timeout_s: float) -> Reply:
        if broker_id == self._sender.broker_id:
            return await self._own(order)
        other = self._others[broker_id]
        try:
            async with asyncio.timeout(timeout_s):
                await self._sender.wire.transit_to(broker_id)
                if other.dependencies is None:
                    raise PeerUnreachable(f"{broker_id} does not listen")
                reply = await other.call(other.dependencies.services.commands.handle(order))
                await self._sender.wire.transit_to(broker_id)
        except TimeoutError:
            raise PeerUnreachable(f"{broker_id}: no answer within {timeout_s} s") from None
        except PeerError:
            raise
        except BrokerCtlError as error:
            raise PeerRefused(type(error).__name__, str(error)) from error
        return reply


async def across(task: "asyncio.Task[_T]") -> _T:
    """The outcome of a task of another loop; who waits for it may go away."""
    done = asyncio.get_running_loop().create_future()

    def on_end(ended: "asyncio.Task[_T]") -> None:
        if not ended.cancelled():
            # The caller may have gone away; then the failure concerns nobody.
            ended.exception()
        if not done.done():
            done.set_result(None)

    task.add_done_callback(on_end)
    await done
    if task.cancelled():
        raise PeerUnreachable("it died meanwhile")
    return task.result()
