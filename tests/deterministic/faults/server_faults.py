"""What goes wrong with the servers, the links to them and the machines that daemons run on."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from broker_ctl.lab.memory_store.servers import MemoryServer
from tests.deterministic.faults.faults import Faults
from tests.deterministic.world.cluster import LONG_TIMEOUT_S, Cluster, has_limits, has_outages
from tests.deterministic.world.daemon_process import TIMEOUT_S, DaemonProcess

# Below the slack of a lease (docs: zookeeper-session-rules).
_HELD_S: Final = (0.1, 0.2, 0.24)
_ACKNOWLEDGED_S: Final = (0.1, 0.5, 1.5)
_MOVES: Final = (1, 2, 3, 4)
_COMMITS: Final = (0, 30, 30)
_STALLS: Final = (0.2, 0.6, 1.1, 1.8)
_SLEEPS: Final = (0.2, 0.8, 1.0, 1.3, 2.5)
_RESTART_S: Final = (0.1, 0.5, 1.0)
_SECOND_S: Final = (0.0, 0.005, 0.1, 1.0)
_NEW_SESSION_S: Final = 10.0
_AWAY_S: Final = (5.0, 9.0, 16.0)
_LOOK_S: Final = 0.002

Step = Callable[[], Coroutine[Any, Any, None]]


class ServerFaults:
    """Each is one step, counted with all others."""

    def __init__(self, cluster: Cluster, faults: Faults, seed: int) -> None:
        self._cluster = cluster
        self._faults = faults
        self._rng = cluster.draws
        self._has_limits = has_limits(seed)
        self._has_outages = has_outages(seed)
        self._away_until_s = 0.0

    def verbs(self) -> dict[Step, float]:
        """Steps with their weights."""
        verbs: dict[Step, float] = {
            self.change_version: 0.7,
            self.hold_acknowledgements: 1.5,
            self.hold_touches: 1.5,
            self.expire_twice: 1,
            self.stall: 2,
            self.suspend: 2,
        }
        if self._has_limits:
            verbs[self.limit_timeouts] = 2
        if self._has_outages:
            verbs[self.be_away] = 2
        return verbs

    def _daemon(self) -> DaemonProcess:
        return self._rng.choice(self._cluster.daemons)

    # Servers.

    async def limit_timeouts(self) -> None:
        """The servers restart one by one with another maxSessionTimeout."""
        most_s = self._rng.choice([TIMEOUT_S, LONG_TIMEOUT_S])
        self._faults.note("limit timeouts", f"to {most_s} s")
        for server in self._rng.sample(self._cluster.ensemble.servers, 3):
            server.most_timeout_s = most_s
            server.drop_all("the server restarts")
            await asyncio.sleep(self._rng.choice(_RESTART_S))

    async def change_version(self) -> None:
        """A server restarts with another release: one from before 3.9 names no transactions."""
        server = self._server()
        server.is_old = not server.is_old
        said = "from before 3.9" if server.is_old else "of today"
        self._faults.note("server version", f"server {server.number} is {said}")
        server.drop_all("the server restarts")

    async def hold_acknowledgements(self) -> None:
        """Followers with slow disks: proposals wait, while a client moves between servers."""
        daemon, for_s = self._daemon(), self._rng.choice(_ACKNOWLEDGED_S)
        ensemble = self._cluster.ensemble
        self._faults.note("hold acknowledgements", f"{for_s} s, {daemon.broker_id} moves")
        ensemble.proposals.hold()
        for _ in range(self._rng.choice(_MOVES)):
            await asyncio.sleep(self._rng.uniform(0.02, 0.3))
            if daemon.store is not None:
                ensemble.drop(daemon.store.session_id, "the server is busy")
        await asyncio.sleep(for_s)
        # One by one at first: until its own commit comes, a request can have that of another.
        for _ in range(self._rng.choice(_COMMITS)):
            ensemble.proposals.release_one()
            await asyncio.sleep(self._rng.uniform(0.01, 0.1))
        ensemble.proposals.release()

    async def hold_touches(self) -> None:
        """A server reports late whom it hears from, and may lose its leader with that."""
        server, for_s = self._server(), self._rng.uniform(0.5, 4.0)
        server.held_s = self._rng.choice(_HELD_S)
        self._faults.note("hold touches", f"server {server.number} by {server.held_s} s")
        await asyncio.sleep(for_s)
        ensemble = self._cluster.ensemble
        if self._rng.random() < 0.5 and server is not ensemble.leader and server.is_linked:
            ensemble.cut_off(server)
            await asyncio.sleep(TIMEOUT_S * self._rng.choice(_STALLS))
            if not server.is_linked:
                ensemble.link(server)
        server.held_s = 0.0

    async def be_away(self) -> None:
        """No server answers anybody, for longer than leases last."""
        for_s = self._rng.choice(_AWAY_S)
        self._faults.note("away", f"all servers for {for_s} s")
        self._away_until_s = self._cluster.turns.now_s + for_s
        self._cluster.ensemble.change_leader(for_s)

    def _server(self) -> MemoryServer:
        return self._rng.choice(self._cluster.ensemble.servers)

    # Sessions.

    async def expire_twice(self) -> None:
        """The next session of a daemon ends before it has registered in it, or soon after."""
        daemon = self._daemon()
        store, ensemble = daemon.store, self._cluster.ensemble
        if store is None or not (first := store.session_id):
            return
        self._expire(first)

        def is_new() -> bool:
            return store.session_id not in {0, first}

        await self._cluster.until(is_new, _NEW_SESSION_S, _LOOK_S)
        await asyncio.sleep(self._rng.choice(_SECOND_S))
        if is_new() and store.session_id in ensemble.session_ids:
            self._faults.note("second expiry", daemon.broker_id)
            self._expire(store.session_id)

    def _expire(self, session_id: int) -> None:
        self._cluster.observer.forced.add(session_id)
        self._cluster.ensemble.expire(session_id)

    # Links and machines.

    async def stall(self) -> None:
        """A link to the servers carries nothing for a while, and neither end notices."""
        daemon, for_s = self._daemon(), TIMEOUT_S * self._rng.choice(_STALLS)
        wire = daemon.wire
        if wire.is_stalled:
            return
        self._faults.note("stall", f"{daemon.broker_id} for {for_s:.1f} s")
        wire.stall(self._cluster.turns.now_s)
        await asyncio.sleep(for_s)
        wire.flow()

    async def suspend(self) -> None:
        """A machine sleeps, with the daemon and its broker process."""
        daemon, for_s = self._daemon(), TIMEOUT_S * self._rng.choice(_SLEEPS)
        loops = [daemon.loop, daemon.replicas.loop]
        if not daemon.is_running or any(loop.is_stopped for loop in loops):
            return
        self._faults.note("suspend", f"{daemon.broker_id} for {for_s:.1f} s")
        for loop in loops:
            loop.suspend()
        await asyncio.sleep(for_s)
        for loop in loops:
            if loop.is_stopped:
                loop.continue_process()

    async def heal(self) -> None:
        """Servers are on time, and alike; those who come back get whatever they ask for."""
        self._cluster.ensemble.proposals.release()
        for server in self._cluster.ensemble.servers:
            server.held_s = 0.0
        if self._cluster.turns.now_s < self._away_until_s:
            self._cluster.ensemble.change_leader(0.0)
