"""Kafka's side: its brokers log when they have carried an instruction of the controller out."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from broker_ctl.clock import SystemClock
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import Change, Notification
from broker_ctl.store.records.partitions import decode_state
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.failover.brokers import now_s
from tests.benchmarks.failover.layout import PARTITIONS_OF_A_TOPIC
from tests.benchmarks.kafka import rows
from tests.benchmarks.kafka.cluster import KafkaBroker, Operator
from tests.benchmarks.kafka.sizes import Sizes
from tests.benchmarks.lines.progress import report_progress
from tests.support.time.waiting import eventually

_CONTROLLER: Final = "/controller"
_LIMIT_S: Final = 600.0
_POLL_S: Final = 0.1
_MOVED: Final = "moved-0"
_LARGE: Final = "large-0"


@dataclass(slots=True)
class Theirs:
    """Brokers of Kafka, of which the last leads everything.

    Attributes:
        store: of the measurement's own, below Kafka's chroot.
    """

    brokers: dict[int, KafkaBroker]
    operator: Operator
    store: ZooKeeperStore
    sizes: Sizes
    seconds: rows.Rows = field(default_factory=rows.Rows)
    _gone_s: float = 0.0
    _clock: SystemClock = field(default_factory=SystemClock)

    @property
    def victim(self) -> KafkaBroker:
        """The broker that leads everything."""
        return self.brokers[max(self.brokers)]

    async def lay(self) -> None:
        """Make the topics."""
        await self.store.watch(partition_paths.BROKER_IDS, self._heard)
        topics = self.sizes.partitions // PARTITIONS_OF_A_TOPIC
        first, second, last = self.brokers
        replicas = (f"{last},{first},{second}", f"{last},{second},{first}")
        await self.operator.ask("create", "t", topics, PARTITIONS_OF_A_TOPIC, *replicas)
        await self.operator.ask("create", "moved", 1, self.sizes.moved, f"{first},{second}")
        await self._restore()

    async def leader_dies(self) -> rows.Window:
        """See `rows.System`."""
        await self._leave_controller(self.victim.number)
        self._gone_s, began_s = 0.0, now_s()
        await self.victim.kill()
        gone_s = await eventually(lambda: self._gone_s, _LIMIT_S, "the registration goes")
        ended_s = await self._finished(began_s, 2 * self.sizes.partitions, but=self.victim)
        await self._bring_back()
        return gone_s, ended_s

    async def controller_dies(self) -> rows.Window:
        """See `rows.System`."""
        began_s = now_s()
        await self.store.delete(_CONTROLLER)
        updates = 3 * self.sizes.partitions + 2 * self.sizes.moved
        return began_s, await self._finished(began_s, updates)

    async def shutdown(self) -> rows.Window:
        """See `rows.System`."""
        await self._leave_controller(self.victim.number)
        began_s = now_s()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.victim.stop(), name="stop")
            updates = 2 * self.sizes.partitions
            ended_s = await self._finished(began_s, updates, but=self.victim)
        await self._bring_back()
        return began_s, ended_s

    async def _bring_back(self) -> None:
        await self.victim.start()
        report_progress(f"  broker {self.victim.number} of Kafka is back")
        await self._restore()
        report_progress("  it leads all again")

    async def reassignment(self) -> rows.Window:
        """See `rows.System`."""
        first, second, last = self.brokers
        began_s, ended_s = await self.operator.ask(
            "reassign", _MOVED, self.sizes.moved, f"{first},{last}"
        )
        await self.operator.ask("reassign", _MOVED, self.sizes.moved, f"{first},{second}")
        return began_s, ended_s

    async def creation(self) -> rows.Window:
        """See `rows.System`."""
        began_s = now_s()
        replicas = [",".join(map(str, ids)) for ids in self.sizes.large_lists(self.brokers)]
        await self.operator.ask("create", "large", 1, self.sizes.large, *replicas)
        updates = self.sizes.large_replicas * self.sizes.large
        return began_s, await self._finished(began_s, updates)

    async def deletion(self) -> rows.Window:
        """See `rows.System`."""
        began_s, _ = await self.operator.ask("delete", _LARGE)

        async def is_gone() -> bool:
            for broker in self.brokers.values():
                broker.assert_running()
            return await self.store.exists(partition_paths.topic(_LARGE)) is None

        await eventually(is_gone, _LIMIT_S, "the topic goes", 0.02)
        ended_s = now_s()

        def is_deleted() -> bool:
            return not any(broker.has_deleted_logs() for broker in self.brokers.values())

        # A minute later its files are deleted; until then they are open.
        await eventually(is_deleted, _LIMIT_S, "the files go", 1.0)
        return began_s, ended_s

    async def _finished(
        self, since_s: float, updates: int, but: KafkaBroker | None = None
    ) -> float:
        """When instructions for this number of partitions had been carried out."""
        found: list[tuple[float, int]] = []

        def last_s() -> float | None:
            for broker in self.brokers.values():
                if broker is not but:
                    broker.assert_running()
                    found.extend(broker.finished(since_s))
            done = sum(count for _, count in found) >= updates
            return max(at_s for at_s, _ in found) if done else None

        return await eventually(last_s, _LIMIT_S, f"{updates} updates", _POLL_S)

    async def _leave_controller(self, number: int) -> None:
        """Another broker than this one becomes the controller: its death is not to be measured."""

        async def is_another() -> bool:
            node = await self.store.get(_CONTROLLER)
            if node is not None and f'"brokerid":{number},' in node.data.decode():
                await self.store.delete(_CONTROLLER)
            return node is not None and f'"brokerid":{number},' not in node.data.decode()

        await eventually(is_another, _LIMIT_S, "another controller", 1.0)
        # It sends everything to everybody first.
        await asyncio.sleep(3.0)
        await self._restore()

    async def _restore(self) -> None:
        """Wait until all replicas are in sync and the first one of each partition leads it.

        By the nodes: what brokers answer of in-sync replicas can stay behind for good.
        """
        topics = range(self.sizes.partitions // PARTITIONS_OF_A_TOPIC)
        paths = [
            f"{partition_paths.topic(f't-{topic}')}/partitions/{row}/state"
            for topic in topics
            for row in range(PARTITIONS_OF_A_TOPIC)
        ]

        async def is_whole() -> bool:
            nodes = await self.store.get_many(paths)
            states = [decode_state(node) for node in nodes if node is not None]
            if len(states) < len(paths) or any(len(state.isr) < 3 for state in states):
                return False
            if all(state.leader == self.victim.number for state in states):
                return True
            await self.operator.ask("elect")
            return False

        await eventually(is_whole, _LIMIT_S, "the victim leads all again", 1.0)

    def _heard(self, notification: Notification) -> None:
        is_victim = notification.path == partition_paths.broker(self.victim.number)
        if is_victim and notification.change is Change.DELETED:
            self._gone_s = self._clock.wall_ms() / 1000
