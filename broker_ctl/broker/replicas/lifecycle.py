"""The replicas of this broker, in one life after another under its number (docs: kafka-design-v3).

A life begins with nothing led and nothing followed. What belongs to a topic that had its name
before is removed, then the broker registers, and the controller tells it of all replicas that it
has, strays going with that. So it reads no assignments and no states itself, as Kafka's design v3
has it: what it read would be older than what it is told.

It ends with the session, or where the broker process was started anew and has forgotten what it was
told: whoever registers again is told everything again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.broker.replicas.authority import ReplicaAuthority
from broker_ctl.broker.replicas.failed_replicas import FailedReplicas
from broker_ctl.broker.replicas.instructions import Handled, ReplicaInstructions
from broker_ctl.broker.replicas.isr_changes import IsrChanges
from broker_ctl.broker.replicas.stray_replicas import StrayReplicas
from broker_ctl.broker.replicas.zk_queue import ZkQueue
from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.webhook.replicas import ReplicaPlane
from broker_ctl.errors import Ambiguous, DataPlaneError, StoreError
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
# All that is held is listed now and then only, to see which logs have failed since: so much later
# for each replica that tens of thousands, idle, cost less than a hundredth of a core, also by HTTP.
_LIST_S: Final = 5.0
_LIST_EACH_S: Final = 0.0003
_STOP_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ReplicaDependencies:
    """What replicas stand on.

    Attributes:
        instance_id: of the broker process that keeps them.
        poll_s: between two questions for wishes.
        lag_time_s: a follower that has not caught up for so long is to leave the ISR.
    """

    store: MetadataStore
    ids: BrokerIds
    plane: ReplicaPlane
    authority: ReplicaAuthority
    instance_id: Callable[[], str]
    poll_s: float
    lag_time_s: float


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """Counts for metrics; all but the first two since the start."""

    held: int
    failed: int
    queued_applied: int
    queued_corrupt: int
    stale: int
    isr_expanded: int
    isr_shrunk: int
    isr_refused: int


class Replicas:
    """Lives as long as the store."""

    def __init__(self, dependencies: ReplicaDependencies) -> None:
        self._dependencies = dependencies
        store, ids = dependencies.store, dependencies.ids
        self._failed = FailedReplicas(store, ids.broker_id)
        self._instructions = ReplicaInstructions(
            dependencies.plane,
            ids.broker_id,
            self._current_broker_epoch,
            StrayReplicas(store, ids.broker_id),
            self._failed,
        )
        self._queue = ZkQueue(store, ids.broker_id, self._instructions.handle)
        self._isr = IsrChanges(store, dependencies.plane, ids.broker_id, dependencies.lag_time_s)
        self._session_epoch = 0
        self._instance_id = ""

    # For others.

    @property
    def ids(self) -> BrokerIds:
        """The number of this broker, and its epoch."""
        return self._dependencies.ids

    @property
    def newest_controller_epoch(self) -> int:
        """Of all controllers that were heard."""
        return self._instructions.newest_epoch

    @property
    def failed(self) -> Mapping[TopicPartition, str]:
        """Replicas that cannot be served, and why."""
        return self._failed.reasons

    def is_granted(self, epoch: int) -> bool:
        """Whether nothing goes on any more that was told in a session before ``epoch``."""
        return self._dependencies.authority.is_granted(epoch)

    async def handle(self, instruction: Instruction) -> Handled:
        """See `ReplicaInstructions.handle`."""
        return await self._instructions.handle(instruction)

    def count_led(self) -> int:
        """How many partitions are led here; looks at each."""
        return self._instructions.count_led()

    def statistics(self) -> ReplicaStatistics:
        """As of now."""
        return ReplicaStatistics(
            held=self._instructions.held,
            failed=len(self._failed.reasons),
            queued_applied=self._queue.applied,
            queued_corrupt=self._queue.corrupt,
            stale=self._instructions.fenced,
            isr_expanded=self._isr.expanded,
            isr_shrunk=self._isr.shrunk,
            isr_refused=self._isr.refused,
        )

    # One life after another.

    async def prepare(self, epoch: int) -> None:
        """At the start of a session, before anything is granted in it: nothing leads, nor follows.

        Returns when the broker process and the store have answered, however long that takes.
        """
        self.on_session_end()
        while True:
            # As it is before it is asked: one that is started anew meanwhile is found out.
            self._instance_id = self._dependencies.instance_id()
            self._dependencies.plane.expect(self._instance_id)
            try:
                await self._read_controller_epoch()
                await self._instructions.begin()
            except (DataPlaneError, StoreError) as error:
                if isinstance(error, StoreError) and not _may_pass(error):
                    raise
                log.warning("replicas cannot be listed: %s; retrying", error)
                await asyncio.sleep(_RETRY_S)
            else:
                break
        self._session_epoch = epoch
        self._dependencies.authority.grant(epoch)

    async def enter(self) -> None:
        """Begin a life: the controller tells of all that this broker has. `prepare` before.

        Raises:
            StartError: another process has this broker's number.
        """
        # What cannot be served is known when leaders are elected.
        await self._failed.publish()
        await self._dependencies.ids.register()

    async def run(self) -> None:
        """Live, until cancelled, or until the broker process ends after `leave`; `enter` before.

        Raises:
            StartError: another process has this broker's number.
        """
        stop_watching = await self._queue.watch()
        try:
            while True:
                await self._live()
                if self._instructions.is_over:
                    return  # a broker that stops must not come back in its last moment
                log.warning(
                    "the broker process restarted: registering again for all its instructions"
                )
                await self._dependencies.ids.unregister()
                await self.prepare(self._session_epoch)
                await self.enter()
        finally:
            stop_watching()

    def on_session_end(self) -> None:
        """The session has ended, or what was granted in it is given back."""
        self._dependencies.ids.on_session_end()
        self._dependencies.authority.revoke()

    def revoke(self) -> None:
        """The broker process is silent: whoever asks for authority from now on gets none."""
        self._dependencies.authority.revoke()

    async def leave(self) -> None:
        """End this life on purpose: nothing leads, and the controller sees that we have gone.

        Under the same authority the broker process serves bundles that are handed over after this:
        it is taken away only where that process cannot be told, before anybody else is elected.
        """
        is_over = False
        try:
            async with asyncio.timeout(_STOP_S):
                is_over = await self._instructions.stop_leading()
        except (DataPlaneError, TimeoutError) as error:
            log.warning("leaving: the leading replicas cannot be stopped: %r", error)
        if not is_over:
            self._dependencies.authority.revoke()
        await self._dependencies.ids.unregister()

    def _current_broker_epoch(self) -> int:
        """The broker epoch; 0 too where the broker process is not the one that this life is of.

        What is told again under its leader epoch of before must have been read after all that the
        former process had written to an ISR (KIP-497): that is so once this broker registers anew.
        """
        is_same = self._dependencies.instance_id() == self._instance_id
        return self._dependencies.ids.epoch if is_same else 0

    async def _read_controller_epoch(self) -> None:
        stat = await self._dependencies.store.exists(paths.CONTROLLER_SEAT.epoch_path)
        if stat is not None:
            # Its data version is the epoch of the newest controller.
            self._instructions.observe_controller_epoch(stat.version)

    async def _live(self) -> None:
        """Registered and told; returns when the broker process is another one."""
        async with asyncio.TaskGroup() as group:
            living = [
                group.create_task(self._dependencies.ids.keep(), name="broker id"),
                group.create_task(self._queue.run(), name="instructions"),
                group.create_task(self._failed.keep(), name="failed replicas"),
            ]
            await self._watch_dataplane()
            for task in living:
                task.cancel()

    async def _watch_dataplane(self) -> None:
        loop = asyncio.get_running_loop()
        listed_s = loop.time()
        while self._dependencies.instance_id() == self._instance_id:
            await asyncio.sleep(self._dependencies.poll_s)
            try:
                await self._isr.settle()
                if loop.time() - listed_s >= _LIST_S + _LIST_EACH_S * self._instructions.held:
                    self._failed.update_from_listing(await self._dependencies.plane.replicas())
                    listed_s = loop.time()
            except (DataPlaneError, StoreError) as error:
                # Wishes stand until they are answered. A process that stays silent, and a session
                # that has ended, are seen elsewhere.
                log.info("ISR changes are not applied yet: %s; retrying", error)


def _may_pass(error: StoreError) -> bool:
    return error.can_retry or isinstance(error, Ambiguous)
