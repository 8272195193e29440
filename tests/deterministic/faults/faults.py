"""What goes wrong, drawn from the seed."""

import asyncio
from typing import Final

from broker_ctl.lab.memory_store.transport import FaultPoint, RequestKind
from broker_ctl.store import paths
from tests.deterministic.faults.busy_loops import MOST_BLOCKED
from tests.deterministic.faults.interference import insert_rival_leader, split_free_bundles
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import TIMEOUT_S, DaemonProcess
from tests.deterministic.world.topics import NAMESPACE
from tests.deterministic.world.wire import COVERED

_PAUSES: Final = (0.3, 0.9, 1.1, 2.0)
_CUTS: Final = (0.05, 0.3, 0.9, 1.3, 1.8)
_FOLLOWER_CUTS: Final = (0.3, 0.9, 1.5, 1.5)
_LATE_S: Final = (1.0, 2.0, 3.0)
_CALLS: Final = 3
_CALL_S: Final = 3.0
_RIVAL_S: Final = 1.0
# A stop has a deadline for each stage and none for the whole: announcing, resigning, draining,
# unregistering and deleting have 5 s each, the drain 2 s more, closing 2 s. A pause comes on top.
_STOP_S: Final = 29.0 + TIMEOUT_S * max(*_PAUSES, MOST_BLOCKED)


class Faults:
    """Each is one step; what ends later is counted in ``pending``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rng = cluster.draws
        self._cut: set[DaemonProcess] = set()
        self.counts: dict[str, int] = {}

    def note(self, kind: str, what: str) -> None:
        """Count it, and add it to the trace."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._cluster.coverage.steps[kind] += 1
        self._cluster.say(f"* {kind}: {what}")

    def _any(self) -> DaemonProcess:
        return self._rng.choice(self._cluster.daemons)

    # Requests.

    async def cut_request(self) -> None:
        """The connection ends before or after the next request of a kind is executed."""
        daemon = self._any()
        kind = self._rng.choice([kind for kind in COVERED if kind is not RequestKind.CLOSE_SESSION])
        point = self._rng.choice(list(FaultPoint))
        daemon.wire.cut_at(kind, point)
        self.note("cut request", f"{daemon.broker_id} {point} {kind}")

    async def make_too_large(self) -> None:
        daemon = self._any()
        daemon.wire.make_too_large()
        self.note("too large", daemon.broker_id)

    async def delay(self) -> None:
        daemon, by_s = self._any(), self._rng.choice([0.02, 0.2, 1.0, 3.5])
        self.note("delay", f"{daemon.broker_id} by {by_s} s")
        await self._slow_down(daemon, by_s, self._rng.uniform(0.5, 4.0))

    @staticmethod
    async def _slow_down(daemon: DaemonProcess, by_s: float, for_s: float) -> None:
        daemon.wire.slow_s = by_s
        await asyncio.sleep(for_s)
        daemon.wire.slow_s = 0.0

    # Connections and sessions.

    async def cut(self) -> None:
        daemon, for_s = self._any(), TIMEOUT_S * self._rng.choice(_CUTS)
        if daemon in self._cut or daemon.store is None:
            return
        self.note("cut", f"{daemon.broker_id} for {for_s:.1f} s")
        await self.cut_off(daemon, for_s)

    async def cut_off(self, daemon: DaemonProcess, for_s: float) -> None:
        """It reaches no server for a while, unless that is so already."""
        if daemon in self._cut or (store := daemon.store) is None:
            return
        self._cut.add(daemon)
        daemon.loop.call_soon(store.disconnect)
        await asyncio.sleep(for_s)
        if daemon.store is store and not daemon.link.is_severed:
            # Of a daemon that is stopped, behind the cut: else that would come last, and stay.
            daemon.loop.call_soon(store.reconnect)
        self._cut.discard(daemon)

    def _expire(self, daemon: DaemonProcess) -> None:
        if daemon.store is not None and daemon.store.session_id:
            self._cluster.observer.forced.add(daemon.store.session_id)
            self._cluster.ensemble.expire(daemon.store.session_id)

    async def expire_one(self) -> None:
        daemon = self._any()
        self.note("expiry", daemon.broker_id)
        self._expire(daemon)

    async def expire_all(self) -> None:
        self.note("expiry of all", "")
        for daemon in self._cluster.daemons:
            self._expire(daemon)

    # Servers.

    async def change_leader(self) -> None:
        for_s = self._rng.choice([0.2, 1.0, 3.0])
        self.note("leader change", f"takes {for_s} s")
        self._cluster.ensemble.change_leader(for_s)

    async def cut_follower(self) -> None:
        """It answers pings and reads; nothing of its clients reaches the leader."""
        ensemble = self._cluster.ensemble
        followers = [s for s in ensemble.servers if s is not ensemble.leader and s.is_linked]
        if not followers:
            return
        server, for_s = (
            self._rng.choice(followers),
            TIMEOUT_S * self._rng.choice(_FOLLOWER_CUTS),
        )
        self.note("follower cut", f"server {server.number} for {for_s:.1f} s")
        ensemble.cut_off(server)
        await asyncio.sleep(for_s)
        if not server.is_linked:
            ensemble.link(server)

    # Processes.

    async def pause(self) -> None:
        """As SIGSTOP, and SIGCONT."""
        daemon, for_s = self._any(), TIMEOUT_S * self._rng.choice(_PAUSES)
        if daemon.is_stopped or not daemon.is_running:
            return
        self.note("pause", f"{daemon.broker_id} for {for_s:.1f} s")
        await self.pause_for(daemon, for_s)

    @staticmethod
    async def pause_for(daemon: DaemonProcess, for_s: float) -> None:
        """Nothing of it runs for a while."""
        loop = daemon.loop
        if loop.is_stopped:
            return
        loop.stop_process()
        await asyncio.sleep(for_s)
        if loop.is_stopped:
            loop.continue_process()

    async def depose(self) -> None:
        """Another broker leads from the instant in which a write of the leader arrives."""
        ensemble = self._cluster.ensemble
        for daemon in self._cluster.daemons:
            daemon.wire.ambush(paths.MOVES, lambda: insert_rival_leader(ensemble, _RIVAL_S))
        self.note("depose", "at the next move that a leader orders")

    async def split_under_foot(self) -> None:
        """A bundle is split in the instant in which a broker takes one of its namespace."""
        daemon, ensemble = self._any(), self._cluster.ensemble
        daemon.wire.ambush(
            paths.ownership_of(NAMESPACE), lambda: split_free_bundles(ensemble, NAMESPACE)
        )
        self.note("split under foot", f"at the next acquisition by {daemon.broker_id}")

    async def kill(self) -> None:
        daemon = self._any()
        self.note("kill", daemon.broker_id)
        daemon.kill()
        self._cluster.observer.known.pop(daemon.broker_id, None)

    async def stop_daemon(self) -> None:
        """By a signal; the session is closed, or kept for the next daemon."""
        daemon, is_keeping = self._any(), self._rng.random() < 0.4
        if not daemon.is_running or daemon.dependencies is None:
            return
        self.note("stop and keep" if is_keeping else "stop", daemon.broker_id)
        if not is_keeping and self._rng.random() < 0.7:
            daemon.wire.cut_at(RequestKind.CLOSE_SESSION, self._rng.choice(list(FaultPoint)))
        incarnation = daemon.incarnation
        daemon.stop(is_keeping=is_keeping)

        def is_over() -> bool:
            return not daemon.is_running or daemon.incarnation != incarnation

        if not await self._cluster.until(is_over, _STOP_S):
            self._cluster.observer.complain(
                f"I10: {daemon.broker_id} does not stop", self._cluster.turns.now_s
            )

    async def start_daemons(self) -> None:
        """Start each daemon that is down."""
        for daemon in self._cluster.daemons:
            if not daemon.is_running:
                self.note("start", daemon.broker_id)
                daemon.start()

    async def step_wall_clock(self) -> None:
        daemon, by_ms = self._any(), self._rng.choice([-3_600_000, -5_000, 5_000, 3_600_000])
        self.note("clock step", f"{daemon.broker_id} by {by_ms} ms")
        daemon.turns_clock.stepped_ms += by_ms

    # Broker processes.

    async def lose_calls(self) -> None:
        daemon = self._any()
        is_done = self._rng.random() < 0.5
        daemon.link.calls.losses = [is_done] * self._rng.randrange(1, 4)
        self.note("data plane", f"{daemon.broker_id} loses {'answers' if is_done else 'calls'}")

    async def delay_calls(self) -> None:
        """The next calls that change something arrive when nobody waits for their answers."""
        daemon = self._any()
        count, most_s = self._rng.randrange(1, 4), self._rng.choice(_LATE_S)
        daemon.link.calls.late_s = [self._rng.uniform(0.3, most_s) for _ in range(count)]
        self.note("late calls", f"{daemon.broker_id} {count} calls, by up to {most_s} s")

    async def kill_calling(self) -> None:
        """A daemon dies while its calls are on their way, and another one comes at once."""
        daemon = self._any()
        if not daemon.is_running:
            return
        calls = daemon.link.calls
        calls.late_s = [self._rng.uniform(0.3, max(_LATE_S)) for _ in range(_CALLS)]

        def has_called() -> bool:
            return daemon.link.calls is not calls or len(calls.late_s) < _CALLS

        if not await self._cluster.until(has_called, _CALL_S) or daemon.link.calls is not calls:
            return
        self.note("kill with calls under way", daemon.broker_id)
        daemon.kill()
        self._cluster.observer.known.pop(daemon.broker_id, None)
        daemon.start()

    def judged_late(self) -> dict[str, int]:
        """How many calls of a dead daemon broker processes have refused."""
        gates = [gate for one in self._cluster.daemons for gate in one.process.gates]
        return {
            "late call of a dead daemon": sum(gate.ended[True] for gate in gates),
            "late call, before another one called": sum(gate.ended[False] for gate in gates),
        }

    async def replace_process(self) -> None:
        """The broker process dies behind a living daemon, and another one comes (I11)."""
        daemon, for_s = self._any(), self._rng.choice([0.1, 1.0, 6.0])
        if not daemon.process.is_alive:
            return
        self.note("broker process", f"{daemon.broker_id} is away for {for_s} s")
        await daemon.process.kill()
        await asyncio.sleep(for_s)
        await daemon.process.start()

    # The end of all of them.

    async def heal(self) -> None:
        """Nothing is wrong any more but what the daemons have made of it."""
        cluster = self._cluster
        for daemon in cluster.daemons:
            daemon.wire.calm()
            daemon.link.calls.losses = []
            daemon.link.calls.late_s = []
            if daemon.is_stopped:
                daemon.loop.continue_process()
            if daemon.store is not None and not daemon.link.is_severed:
                daemon.loop.call_soon(daemon.store.reconnect)
        for server in cluster.ensemble.servers:
            if not server.is_linked:
                cluster.ensemble.link(server)
        await self.start_daemons()
