"""One schedule: a seeded order of wishes and faults, and then the time to recover."""

import asyncio
import traceback
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from zlib import crc32

from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.servers import Copy
from tests.deterministic.clients.clients import Clients
from tests.deterministic.clients.operators import Operators
from tests.deterministic.clients.replicated_clients import ReplicatedClients
from tests.deterministic.clients.ring_changes import RingChanges
from tests.deterministic.faults.busy_loops import BusyLoops
from tests.deterministic.faults.faults import Faults
from tests.deterministic.faults.groups import Groups
from tests.deterministic.faults.lost_nodes import LostNodes, loses_nodes
from tests.deterministic.faults.replicated_faults import ReplicatedFaults
from tests.deterministic.faults.second_lives import SecondLives
from tests.deterministic.faults.server_faults import ServerFaults
from tests.deterministic.judges.answered import wrong_answers
from tests.deterministic.judges.histories import unexplained_acts, unexplained_writes
from tests.deterministic.judges.settled import Settled
from tests.deterministic.scenarios.restoration import Restoration
from tests.deterministic.world.cluster import Cluster, has_limits
from tests.deterministic.world.configuration import ConfigurationFaults, Outage, follows_policies
from tests.deterministic.world.daemon_process import GRACE_S, TICK_S, TIMEOUT_S
from tests.deterministic.world.wire import Coverage

STEPS: Final = 200
# I6: session timeout + tick + reclaim grace + 2 s.
RECOVERY_S: Final = TIMEOUT_S + TICK_S + GRACE_S + 2.0
_PAUSE_S: Final = 0.12
_START_S: Final = 20.0
_LAST_FAULTS_S: Final = 10.0
# In one schedule in this number the servers are restored from a copy in the end.
_RESTORE_SHARE: Final = 16
_RESTORED: Final = 6
# One schedule in this number has loops that are busy, or die.
_BUSY_SHARE: Final = 5
# One in this number has operators with rollouts, drains and approved plans.
_OPERATED_SHARE: Final = 2

Step = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a schedule. ``trace`` is equal for equal runs."""

    seed: int
    steps: int
    violations: tuple[str, ...]
    trace: int
    faults: Mapping[str, int]
    outcomes: Mapping[str, int]
    acts: int
    refused: int
    recovery_s: float


def _silent(_: str) -> None:
    return


def _is_forsaken(store: MemoryEnsemble) -> bool:
    return not store.session_ids


class Schedule:
    """Draws what happens next.

    With ``only`` the other steps are left out, at the time at which they would have been taken.

    Attributes:
        taken: the names of the steps, by their numbers.
    """

    def __init__(
        self,
        seed: int,
        coverage: Coverage,
        emit: Callable[[str], None] = _silent,
        only: Collection[int] | None = None,
    ) -> None:
        self._seed = seed
        self._only = only
        self.taken: dict[int, str] = {}
        self._cluster = Cluster(seed, coverage, emit)
        self._clients = Clients(self._cluster)
        self._faults = Faults(self._cluster)
        self._server_faults = ServerFaults(self._cluster, self._faults, seed)
        self._groups = Groups(self._cluster, self._faults)
        self._second_lives = SecondLives(self._cluster, self._faults)
        self._lost_nodes = LostNodes(self._cluster, self._faults)
        self._ring_changes = RingChanges(self._cluster, self._clients, self._faults)
        self._busy_loops = BusyLoops(self._cluster, self._faults.note, seed)
        self._configuration = ConfigurationFaults(self._cluster, self._faults)
        self._replicated = ReplicatedClients(self._cluster, self._clients)
        self._replicated_faults = ReplicatedFaults(self._cluster, self._replicated, self._faults)
        self._operators: Operators | None = None
        if seed % _OPERATED_SHARE == _OPERATED_SHARE - 1:
            self._operators = Operators(self._cluster, self._clients)
        self._recovery_s = 0.0
        self._recovery_limit_s = RECOVERY_S + self._cluster.timeout_s - TIMEOUT_S
        self._copy: Copy | None = None

    def run(self) -> Outcome:
        """All of it."""
        cluster = self._cluster
        try:
            cluster.run(self._run())
        except RuntimeError as error:
            cluster.observer.complain(f"I10: {error}", cluster.turns.now_s)
        except Exception as error:  # noqa: BLE001  a night does not end with a fault of the suite
            found = "".join(traceback.format_exception(error))
            cluster.observer.complain(f"failed: {found}", cluster.turns.now_s)
        observer = cluster.observer
        for said in (
            *unexplained_acts(observer),
            *unexplained_writes(self._clients.writes),
        ):
            observer.complain(said, cluster.turns.now_s)
        loops = [one for daemon in cluster.daemons for one in (daemon.loop, daemon.replicas.loop)]
        for loop in (*cluster.loops, *loops):
            for failure in loop.failures:
                observer.complain(f"failed: {failure}", cluster.turns.now_s)
        trace = crc32(repr((cluster.turns.count, observer.acts)).encode(), cluster.ensemble.trace)
        return Outcome(
            self._seed,
            STEPS,
            tuple(observer.violations),
            trace,
            {**self._faults.counts, **self._faults.judged_late()},
            self._clients.outcomes,
            observer.acts,
            observer.refused,
            self._recovery_s,
        )

    async def _run(self) -> None:
        cluster = self._cluster
        for daemon in cluster.daemons:
            await daemon.process.start()
            daemon.start()
        async with asyncio.timeout(_START_S):
            await self._clients.create_namespace()
        self._replicated.create_topic()
        async with asyncio.TaskGroup() as pending:
            await self._take_steps(pending)
        await self._recover()
        await self._outlast_the_configuration()
        await self._restore()
        await self._end()

    async def _take_steps(self, pending: asyncio.TaskGroup) -> None:
        verbs, weights = zip(*self._verbs().items(), strict=True)
        draws, observer = self._cluster.draws, self._cluster.observer
        last = STEPS - 1 if self._only is None else max(self._only, default=-1)
        for number in range(last + 1):
            if number == STEPS // 2 and self._seed % _RESTORE_SHARE == _RESTORED:
                self._copy = self._cluster.ensemble.copy()
            draws.begin_step(number)
            (verb,) = draws.choices(verbs, weights)
            pause_s = draws.expovariate(1 / _PAUSE_S)
            if self._only is None or number in self._only:
                self.taken[number] = verb.__name__
                pending.create_task(verb(), name=f"step {number}")
            draws.end_step()
            await asyncio.sleep(pause_s)
            for said in wrong_answers(self._cluster):
                observer.complain(said, self._cluster.turns.now_s)
            if observer.violations:
                return

    def _verbs(self) -> dict[Step, float]:
        clients, faults = self._clients, self._faults
        replicated, replicated_faults = self._replicated, self._replicated_faults
        configuration = self._configuration
        verbs: dict[Step, float] = {
            clients.look_up_any: 60,
            clients.write_any: 25,
            clients.unload_any: 8,
            clients.move_any: 10,
            clients.split_any: 4,
            clients.turn_load: 4,
            faults.cut_request: 16,
            faults.make_too_large: 2,
            faults.delay: 2,
            faults.cut: 4,
            faults.expire_one: 2,
            faults.expire_all: 0.4,
            faults.change_leader: 1,
            faults.cut_follower: 3,
            faults.pause: 3,
            faults.depose: 2,
            faults.split_under_foot: 2,
            faults.kill: 1.5,
            faults.stop_daemon: 3,
            faults.start_daemons: 4,
            faults.step_wall_clock: 1,
            faults.lose_calls: 3,
            faults.delay_calls: 4,
            faults.kill_calling: 1,
            faults.replace_process: 1,
            replicated.produce_any: 25,
            replicated.consume_any: 4,
            replicated.reassign_any: 1.5,
            replicated.cancel_any: 0.5,
            replicated.grow: 0.5,
            replicated.elect_preferred: 1.5,
            replicated_faults.kill_controller: 1,
            replicated_faults.depose_controller: 1.5,
            replicated_faults.cut_network: 2,
            replicated_faults.pause_process: 1.5,
            self._groups.part: 1.5,
            self._second_lives.begin: 1,
            **self._server_faults.verbs(),
            **self._ring_changes.verbs(),
        }
        if not has_limits(self._seed) and self._seed % _BUSY_SHARE == _BUSY_SHARE - 1:
            verbs[self._busy_loops.block] = 4
        if loses_nodes(self._seed):
            verbs[self._lost_nodes.delete_any] = 3
        if self._cluster.configuration is not None:
            verbs |= {
                configuration.cut: 4,
                configuration.expire: 2,
                configuration.restart: 2,
                configuration.change_policies: 3,
            }
        if self._operators is not None:
            verbs |= self._operators.verbs()
        return verbs

    async def _recover(self) -> None:
        """I6: within the bound all is served again, and what daemons know is what there is."""
        cluster = self._cluster
        if cluster.observer.violations:
            return
        cluster.say("* the last fault")
        await self._second_lives.heal()
        await self._faults.heal()
        await self._server_faults.heal()
        await self._replicated_faults.heal()
        await self._configuration.heal()
        if self._operators is not None:
            # Restarts of a rollout are none of the faults, and the bound is not one of theirs.
            await self._operators.finish(self._ask_and_supervise)
        began_s, settled = cluster.turns.now_s, Settled(cluster)
        given_up: set[str] = set()
        while wrong := [
            *settled.judge(),
            *self._replicated.stale(),
            *follows_policies(cluster),
        ]:
            if cluster.turns.now_s - began_s > self._recovery_limit_s:
                for said in wrong:
                    cluster.observer.complain(f"I6: {said}", cluster.turns.now_s)
                return
            if more := self._second_lives.supervise() - given_up:
                # The exit of a daemon that met its former life is the last fault, once.
                given_up |= more
                began_s = cluster.turns.now_s
            await self._ask_for_all()
        self._recovery_s = cluster.turns.now_s - began_s
        for said in (*self._replicated.judge(), *await self._replicated.judge_logs()):
            cluster.observer.complain(said, cluster.turns.now_s)

    async def _ask_and_supervise(self) -> None:
        """A broker that gave up as the last fault passed: gates of a rollout wait for it."""
        self._second_lives.supervise()
        await self._ask_for_all()

    async def _ask_for_all(self) -> None:
        """Clients of each topic and partition ask for it."""
        async with asyncio.TaskGroup() as asking:
            asking.create_task(self._clients.look_up_all())
            for partition in self._replicated.partitions:
                asking.create_task(self._replicated.produce(partition))

    async def _outlast_the_configuration(self) -> None:
        """Ownership and lookups need nothing of the configuration store that was not read."""
        cluster = self._cluster
        if cluster.configuration is None or cluster.observer.violations:
            return
        for said in await Outage(cluster, self._clients, self._recovery_limit_s).judge():
            cluster.observer.complain(f"I6: {said}", cluster.turns.now_s)

    async def _restore(self) -> None:
        """An operator follows the procedure after the servers were restored from a copy."""
        cluster = self._cluster
        if self._copy is None or cluster.observer.violations:
            return
        self._faults.note("restore", "from a copy")
        # Sessions of the copy have to end first.
        limit_s = self._recovery_limit_s + cluster.timeout_s
        for said in await Restoration(cluster, self._clients, limit_s).judge(self._copy):
            cluster.observer.complain(f"I6: {said}", cluster.turns.now_s)

    async def _end(self) -> None:
        """Everybody stops; nothing is left of them (I8)."""
        cluster = self._cluster
        await self._replicated.close()
        if cluster.observer.violations:
            return
        for daemon in cluster.daemons:
            daemon.stop()
        if not await cluster.until(
            lambda: not any(daemon.is_running for daemon in cluster.daemons), _LAST_FAULTS_S
        ):
            cluster.observer.complain("I10: a daemon does not stop", cluster.turns.now_s)
        stores = [one for one in (cluster.ensemble, cluster.configuration) if one is not None]
        for store in stores:
            await cluster.until(partial(_is_forsaken, store), cluster.timeout_s + 2 * TICK_S)
            for session_id in sorted(store.session_ids):
                cluster.observer.complain(f"I8: session {session_id} lives", cluster.turns.now_s)
        for bundle in sorted(cluster.observer.standing):
            cluster.observer.complain(f"I8: {bundle} has an owner", cluster.turns.now_s)
        for daemon in cluster.daemons:
            await daemon.process.kill()
