"""Memory of one controller term, in a process that does nothing else.

The brokers are registrations, and acknowledge each instruction at once: what they keep of their
replicas is not the controller's. The term takes over all partitions, then the broker that leads
them all dies, and the others take its leaderships over.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from broker_ctl.clock import SystemClock
from broker_ctl.codec import encode
from broker_ctl.controller.controller import ControllerDependencies, PartitionController
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.partitions.values import ControllerRules, LiveBroker
from broker_ctl.http_client import HttpReply
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.paths import CONTROLLER_ELECTION
from broker_ctl.store.records.partitions import encode_broker
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from broker_ctl.tasks import TaskScope
from tests.benchmarks.failover.layout import (
    BROKERS,
    VICTIM,
    cluster_layout,
    lay_states,
    lay_topics,
)
from tests.benchmarks.failover.memory import forget_peak, peak_rss_mb, rss_mb
from tests.benchmarks.store.processes import answer, run_on_uvloop, task_of_this_process
from tests.benchmarks.store.tree import direct_store
from tests.support.time.waiting import eventually

LIMIT_S: Final = 1800.0
_POLL_S: Final = 0.5
# Within this time the last instructions are sent.
_SETTLED_S: Final = 3.0
_EPOCH: Final = 2
_KB_PER_MB: Final = 1000


async def lay_cluster(hosts: str, chroot: str, partitions: int) -> None:
    """The nodes of a cluster whose last controller is gone, and its registered brokers."""
    async with direct_store(hosts, chroot) as store:
        layout = cluster_layout(partitions)
        await store.create(CONTROLLER_ELECTION.epoch_path, b"0", make_parents=True)
        for epoch in range(1, _EPOCH + 1):
            await store.set(CONTROLLER_ELECTION.epoch_path, str(epoch).encode(), epoch - 1)
        await lay_topics(store, layout)
        await lay_states(store, layout)
        for root in (
            paths.BROKER_IDS,
            paths.FAILED,
            paths.REASSIGNED,
            paths.TOPIC_CONFIGURATION,
            paths.DELETIONS,
        ):
            await store.create(root, make_parents=True)


async def measure(hosts: str, chroot: str, partitions: int) -> dict[str, float]:
    """In kB (1000 bytes) a partition; `controller_failover.py` describes the figures."""
    async with direct_store(hosts, chroot) as store, direct_store(hosts, chroot) as brokers:
        for broker_id in range(1, BROKERS + 1):
            live = LiveBroker(broker_id, 0, "localhost", 6650, f"localhost:{8000 + broker_id}")
            path = paths.broker(broker_id)
            await brokers.create(path, encode_broker(live, 0), CreateMode.EPHEMERAL)
        controller = PartitionController(dependencies(store, _at_once))
        leadership = Leadership(CONTROLLER_ELECTION, _EPOCH, lambda: None)
        before_mb = rss_mb()

        async def stage(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
            forget_peak()
            await work()
            await asyncio.sleep(_SETTLED_S)
            return peak_rss_mb() - before_mb, rss_mb() - before_mb

        async def take_over() -> None:
            await eventually(lambda: controller.has_taken_over, LIMIT_S, "it leads", _POLL_S)

        async def fail_over() -> None:
            await brokers.delete(paths.broker(VICTIM))
            await eventually(lambda: _is_failed_over(controller), LIMIT_S, "led", _POLL_S)

        tasks = TaskScope("term")
        tasks.start(controller.lead(leadership), "term")
        try:
            taken_over, held = await stage(take_over)
            failed_over, held_after = await stage(fail_over)
        finally:
            await tasks.close()
        found = {
            "held_kb": held,
            "takeover_peak_kb": taken_over,
            "failover_peak_kb": failed_over,
            "held_after_failover_kb": held_after,
        }
        return {
            **{name: round(mb * _KB_PER_MB / partitions, 2) for name, mb in found.items()},
            "process_mb": round(before_mb + max(taken_over, failed_over), 1),
        }


def _is_failed_over(controller: PartitionController) -> bool:
    context = controller.context
    return context is not None and VICTIM not in context.brokers and not context.offline


async def _at_once(reply: HttpReply) -> HttpReply:
    await asyncio.sleep(0)
    return reply


def dependencies(
    store: ZooKeeperStore, send: Callable[[HttpReply], Awaitable[HttpReply]]
) -> ControllerDependencies:
    """Of a controller whose brokers acknowledge all; ``send`` passes their answers on."""
    rules = ControllerRules(is_rebalancing=False)

    async def acknowledge(broker: LiveBroker, body: bytes, timeout_s: float) -> HttpReply:
        # They have all that an earlier controller has sent.
        answer = {"broker_epoch": broker.epoch, "errors": [], "differing": []}
        return await send(HttpReply(200, {}, encode(answer)))

    return ControllerDependencies(
        store=store,
        broker_id=0,
        call=acknowledge,
        clock=SystemClock(),
        rules=lambda: rules,
        has_queues=False,
        record=lambda *_: None,
        instruments=ControllerInstruments(),
        rng=random.Random(1),
    )


if __name__ == "__main__":
    task = task_of_this_process()
    answer(run_on_uvloop(measure(task["hosts"], task["chroot"], task["partitions"])))
