"""The life of one controller after another, in a process that does nothing else.

The brokers are registrations, and acknowledge each instruction at once: a million partitions with
their replicas would not fit on one machine. Three of the brokers lead a third each. All topics are
made, the first of the three dies, the second is let go, and then the controller itself is replaced.
Meanwhile the loop is watched, and a heartbeat is committed each second over the controller's own
session.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import permutations
from typing import Any, Final

from broker_ctl.clock import SystemClock
from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.controller import PartitionController
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.partitions.values import DEFAULT_RULES, LiveBroker
from broker_ctl.daemon.lifecycle.interpreter import (
    collect_periodically,
    collect_young,
    freeze_garbage,
)
from broker_ctl.http_client import HttpReply
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.paths import CONTROLLER_ELECTION
from broker_ctl.store.records.partitions import encode_broker
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from broker_ctl.tasks import TaskScope
from tests.benchmarks.failover.layout import BROKERS
from tests.benchmarks.failover.memory import peak_rss_mb
from tests.benchmarks.failover.scene import SESSION_MS
from tests.benchmarks.failover.term_memory import dependencies
from tests.benchmarks.machine.idle_loop import quantiles
from tests.benchmarks.store.processes import answer, run_on_uvloop, task_of_this_process
from tests.benchmarks.store.tree import direct_store
from tests.support.time.waiting import eventually

LIMIT_S: Final = 3600.0
PARTITIONS_OF_A_TOPIC: Final = 10_000
_LEADERS: Final = (BROKERS, BROKERS - 1, BROKERS - 2)
_FOLLOWERS: Final = list(permutations(range(1, BROKERS - 2), 2))
_POLL_S: Final = 0.05
_TICK_S: Final = 0.01
# Without an instruction for this long, the last one was sent.
_SETTLED_S: Final = 1.0
_HEARTBEAT: Final = "/heartbeat"
_HEARTBEAT_S: Final = 1.0
# A session without a heartbeat for so much longer than its interval would be in danger.
_LATE_S: Final = SESSION_MS / 1000 / 3


async def prepare(store: ZooKeeperStore) -> None:
    """The nodes of a cluster without topics."""
    await store.create(CONTROLLER_ELECTION.epoch_path, b"0", make_parents=True)
    for root in (
        paths.BROKER_IDS,
        paths.TOPICS,
        paths.FAILED,
        paths.REASSIGNED,
        paths.TOPIC_CONFIGURATION,
        paths.DELETIONS,
        _HEARTBEAT,
    ):
        await store.create(root, make_parents=True)


def replicas(number: int) -> tuple[int, ...]:
    """Of a partition: a third is led by each of three brokers, and the others follow."""
    return (_LEADERS[number % 3], *_FOLLOWERS[number // 3 % len(_FOLLOWERS)])


class Watched:
    """How late the loop and the heartbeats of this process are.

    Attributes:
        lags_ms: how late it woke from each sleep of 10 ms.
        heartbeats_s: from the time that each was due until it was committed.
    """

    def __init__(self, store: ZooKeeperStore) -> None:
        self._store = store
        self.lags_ms: list[float] = []
        self.heartbeats_s: list[float] = []

    async def watch_loop(self) -> None:
        """Until cancelled."""
        while True:
            due_s = time.monotonic() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self.lags_ms.append(max(0.0, time.monotonic() - due_s) * 1000)

    async def beat(self) -> None:
        """Until cancelled."""
        due_s = time.monotonic()
        while True:
            await self._store.set(_HEARTBEAT, b"")
            self.heartbeats_s.append(time.monotonic() - due_s)
            due_s = max(due_s + _HEARTBEAT_S, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())

    def figures(self) -> dict[str, Any]:
        """What to print."""
        lags = {name: round(ms, 2) for name, ms in quantiles(self.lags_ms).items()}
        return {
            "loop_lag_ms": lags,
            "heartbeats": len(self.heartbeats_s),
            "heartbeats_late": sum(took_s > _LATE_S for took_s in self.heartbeats_s),
            "longest_heartbeat_s": round(max(self.heartbeats_s), 3),
        }


class Course:
    """Controllers one after another over the same partitions."""

    def __init__(self, store: ZooKeeperStore, brokers: ZooKeeperStore, partitions: int) -> None:
        self._store = store
        self._brokers = brokers
        self._partitions = partitions
        self._epoch = 0
        self._sent_s = 0.0
        self.seconds: dict[str, float] = {}

    async def run(self) -> None:
        """All stages, whose seconds are in ``seconds``."""
        for broker_id in range(1, BROKERS + 1):
            live = LiveBroker(broker_id, 0, "localhost", 6650, f"localhost:{8000 + broker_id}")
            path = paths.broker(broker_id)
            await self._brokers.create(path, encode_broker(live, 0), CreateMode.EPHEMERAL)
        dying, leaving, _ = _LEADERS
        async with self._term() as controller:
            admin = await _admin_of(controller)
            await self._stage("created_s", lambda: self._create(admin), controller)
            await self._stage("third_dies_s", lambda: self._kill(dying, controller), controller)
            await self._stage("shutdown_s", lambda: self._let_go(leaving, controller), controller)
        began_s = time.monotonic()
        async with self._term() as controller:
            await self._stage("takeover_s", lambda: _admin_of(controller), controller, began_s)

    @asynccontextmanager
    async def _term(self) -> AsyncIterator[PartitionController]:
        before, self._epoch = self._epoch, self._epoch + 1
        path = CONTROLLER_ELECTION.epoch_path
        await self._store.set(path, str(self._epoch).encode(), before)
        controller = PartitionController(dependencies(self._store, self._sent))
        leadership = Leadership(CONTROLLER_ELECTION, self._epoch, lambda: None)
        tasks = TaskScope("term")
        tasks.start(controller.lead(leadership), "term")
        try:
            yield controller
        finally:
            await tasks.close()

    async def _stage(
        self,
        name: str,
        work: Callable[[], Awaitable[object]],
        controller: PartitionController,
        began_s: float | None = None,
    ) -> None:
        """Until every partition has a leader, and the last instruction was acknowledged."""
        began_s = time.monotonic() if began_s is None else began_s
        await work()
        done_s = time.monotonic()

        def is_settled() -> bool:
            context = controller.context
            assert context is not None, "the term has ended"
            return not context.offline and time.monotonic() - self._sent_s > _SETTLED_S

        await eventually(is_settled, LIMIT_S, name, _POLL_S)
        self.seconds[name] = round(max(done_s, self._sent_s) - began_s, 3)

    async def _create(self, admin: ControllerOperations) -> None:
        for first in range(0, self._partitions, PARTITIONS_OF_A_TOPIC):
            numbers = range(first, min(first + PARTITIONS_OF_A_TOPIC, self._partitions))
            rows = {number - first: replicas(number) for number in numbers}
            name = f"t-{first // PARTITIONS_OF_A_TOPIC}"
            await admin.create_topic(name, rows, DEFAULT_RULES, is_dry_run=False)

    async def _kill(self, broker_id: int, controller: PartitionController) -> None:
        await self._brokers.delete(paths.broker(broker_id))

        def is_gone() -> bool:
            context = controller.context
            return context is not None and broker_id not in context.brokers and not context.offline

        await eventually(is_gone, LIMIT_S, f"broker {broker_id} is replaced", _POLL_S)

    async def _let_go(self, broker_id: int, controller: PartitionController) -> None:
        context, admin = controller.context, await _admin_of(controller)
        assert context is not None
        epoch = context.brokers[broker_id].epoch
        reply = await admin.shut_down(broker_id, epoch, is_forced=False)
        assert reply["is_done"], reply["reason"]

    async def _sent(self, reply: HttpReply) -> HttpReply:
        await asyncio.sleep(0)
        self._sent_s = time.monotonic()
        return reply


async def _admin_of(controller: PartitionController) -> ControllerOperations:
    return await eventually(lambda: controller.admin, LIMIT_S, "a controller", _POLL_S)


async def measure(hosts: str, chroot: str, partitions: int) -> dict[str, Any]:
    """Seconds of each stage; `controller_failover.py` describes the figures."""
    # As the daemon does: Python's own triggers would search all partitions again and again.
    freeze_garbage()
    async with direct_store(hosts, chroot) as store, direct_store(hosts, chroot) as brokers:
        await prepare(store)
        watched, course = Watched(store), Course(store, brokers, partitions)
        async with TaskScope("watching") as tasks:
            tasks.start(watched.watch_loop(), "loop")
            tasks.start(watched.beat(), "heartbeats")
            tasks.start(collect_periodically(SESSION_MS / 1000, SystemClock()), "garbage")
            tasks.start(collect_young(SystemClock()), "young garbage")
            await course.run()
        return {**course.seconds, **watched.figures(), "process_mb": peak_rss_mb()}


if __name__ == "__main__":
    task = task_of_this_process()
    answer(run_on_uvloop(measure(task["hosts"], task["chroot"], task["partitions"])))
