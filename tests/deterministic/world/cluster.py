"""Everything that one schedule runs on, built from one seed."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from broker_ctl.lab.memory_store.ensemble import EnsembleRules
from tests.deterministic.judges.observed_ensembles import ConfigurationEnsemble, ObservedEnsemble
from tests.deterministic.judges.observer import Observer
from tests.deterministic.world.broker_process import BrokerProcess
from tests.deterministic.world.daemon_process import (
    GRACE_S,
    TICK_S,
    TIMEOUT_S,
    DaemonProcess,
    broker_id_of,
)
from tests.deterministic.world.draws import StepDraws
from tests.deterministic.world.loops import Turns, TurnsClock, new_loop
from tests.deterministic.world.network import MemoryNetwork
from tests.deterministic.world.replica_process import ReplicaProcess
from tests.deterministic.world.topics import new_workload
from tests.deterministic.world.wire import Coverage

_DAEMONS: Final = 3
_SERVERS: Final = 3
_LAG_S: Final = 0.003
_NETWORK_LAG_S: Final = 0.002
_PING_S: Final = 0.5
_POLL_S: Final = 0.05
# One schedule in this number has a configuration store of its own.
_CONFIGURATION_SHARE: Final = 4
# And one in this number has servers with different limits of session timeouts.
_LIMITS_SHARE: Final = 5
_LIMITED: Final = 3
# And in one in this number all servers are away at times.
_AWAY_SHARE: Final = 6
_AWAY: Final = 1
# With the shorter one a lease has room for its five heartbeats, too.
LONG_TIMEOUT_S: Final = 6.0


def has_limits(seed: int) -> bool:
    """Whether servers grant different session timeouts in this schedule."""
    return seed % _LIMITS_SHARE == _LIMITED


def has_outages(seed: int) -> bool:
    """Whether there are times without any server in this schedule."""
    return seed % _AWAY_SHARE == _AWAY


class Cluster:
    """Three daemons with their broker processes, over three servers.

    Attributes:
        rng: draws of the world: delays, servers. ``draws`` are those of clients and faults.
        timeout_s: the session timeout that daemons ask for.
        configuration: the server of the configuration store, where that is one of its own.
        by_id: whom the name of a broker leads to.
        former: daemons whose broker was started elsewhere since.
    """

    def __init__(self, seed: int, coverage: Coverage, emit: Callable[[str], None]) -> None:
        self.rng = random.Random(seed)
        self.draws = StepDraws(seed)
        self.timeout_s = LONG_TIMEOUT_S if has_limits(seed) else TIMEOUT_S
        self.turns = Turns()
        self.emit = emit
        self.coverage = coverage
        self.observer = Observer(GRACE_S)
        self.driver = new_loop(self.turns, "driver")
        rules = EnsembleRules(_SERVERS, TICK_S, _PING_S, lambda: self.rng.random() * _LAG_S)
        servers = new_loop(self.turns, "servers")
        self.ensemble = ObservedEnsemble(rules, self.rng, servers, self.observer)
        # Its draws are its own: a schedule without it is what it was.
        rng = random.Random(f"configuration {seed}")
        self.configuration: ConfigurationEnsemble | None = None
        if seed % _CONFIGURATION_SHARE == 0:
            alone = EnsembleRules(1, TICK_S, _PING_S)
            self.configuration = ConfigurationEnsemble(alone, rng, servers, self.observer)
        self.network = MemoryNetwork(lambda: self.rng.random() * _NETWORK_LAG_S)
        self.workload, self.dials = new_workload()
        self.by_id: dict[str, DaemonProcess] = {}
        for number in range(_DAEMONS):
            replicas = ReplicaProcess(number, self.turns, self.network)
            self.by_id[broker_id_of(number)] = self._daemon(number, replicas)
        self.daemons = list(self.by_id.values())
        self.former: list[DaemonProcess] = []
        self.loops = [self.driver, servers]

    def _daemon(self, number: int, replicas: ReplicaProcess) -> DaemonProcess:
        process = BrokerProcess(
            broker_id_of(number),
            self.workload,
            TurnsClock(self.turns),
            self.rng,
            acts=self.observer,
            replicas=replicas,
            network=self.driver,
        )
        return DaemonProcess(
            number,
            self.turns,
            self.ensemble,
            configuration=self.configuration,
            process=process,
            peers=self.by_id,
            timeout_s=self.timeout_s,
            coverage=self.coverage,
            rng=random.Random(self.rng.getrandbits(64)),
            on_doubt=self._doubt,
        )

    def begin_elsewhere(self, former: DaemonProcess) -> DaemonProcess:
        """The same broker on another machine, with the disk of its replicas, not started yet.

        From here on it is the one in ``daemons``; its ``former`` life goes on.
        """
        daemon = self._daemon(former.number, former.replicas.move())
        self.daemons[self.daemons.index(former)] = daemon
        self.former.append(former)
        return daemon

    @property
    def running(self) -> list[DaemonProcess]:
        """Daemons that can be asked."""
        return [daemon for daemon in self.daemons if daemon.is_running and daemon.dependencies]

    def _doubt(self, daemon: DaemonProcess) -> None:
        """Its connection has changed: it knows its timeout, and reads again whom it knew."""
        self.observer.forget(daemon.broker_id)
        if daemon.store is not None and daemon.store.is_connected:
            self.ensemble.note_heard(daemon.store.session_id)

    def say(self, what: str) -> None:
        self.emit(f"{self.turns.now_s - 1000:9.3f} {what}")

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run until ``work`` has ended, in the driver's loop."""
        task = self.driver.create_task(work, name="driver")
        self.turns.run_until(task.done)
        task.result()

    async def until(
        self, condition: Callable[[], bool], limit_s: float, poll_s: float = _POLL_S
    ) -> bool:
        """Wait in virtual time."""
        end_s = self.turns.now_s + limit_s
        while not condition():
            if self.turns.now_s >= end_s:
                return False
            await asyncio.sleep(poll_s)
        return True
