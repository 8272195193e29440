"""The replicas of this broker over its registrations (docs: kafka-design-v3).

Each registration begins with all replicas stopped. Replicas of a deleted topic whose name was
reused are removed; then the broker registers, and the controller sends it the states of all its
replicas and the strays to remove. The broker does not read assignments or states itself, as in
Kafka's design v3: they would be older than the instructions.

A registration ends with the session, or when the broker process restarts and has forgotten its
instructions. The controller sends everything to a broker that registers again.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.broker.replicas.authority import ReplicaAuthority
from broker_ctl.broker.replicas.failed_replicas import FailedReplicas
from broker_ctl.broker.replicas.instructions import Handled, ReplicaInstructions
from broker_ctl.broker.replicas.isr_changes import IsrChanges
from broker_ctl.broker.replicas.stray_replicas import StrayReplicas
from broker_ctl.broker.replicas.throttle import ReplicationThrottle
from broker_ctl.broker.replicas.zk_queue import ZkQueue
from broker_ctl.coordination.election.confirmed_epoch import ConfirmedEpoch
from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.webhook.replicas import ReplicaPlane
from broker_ctl.errors import DataPlaneError, StoreError
from broker_ctl.retry import is_undecided, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore

log = logging.getLogger(__name__)

# Listing all replicas, to find logs that failed, is expensive. The interval grows with their
# number, so that tens of thousands of idle replicas cost less than a hundredth of a core, also over
# HTTP.
_LIST_S: Final = 5.0
_LIST_EACH_S: Final = 0.0003
_STOP_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ReplicaDependencies:
    """The parts that `Replicas` depends on.

    Attributes:
        instance_id: returns the instance id of the broker process.
        poll_s: interval between requests for pending ISR changes.
        lag_time_s: seconds after which a lagging follower leaves the ISR.
        rng: for the pauses of retries.
    """

    store: MetadataStore
    ids: BrokerIds
    plane: ReplicaPlane
    authority: ReplicaAuthority
    instance_id: Callable[[], str]
    poll_s: float
    lag_time_s: float
    rng: random.Random


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """Counts for metrics; all except the first two are totals since the start."""

    held: int
    failed: int
    queued_applied: int
    queued_corrupt: int
    stale: int
    isr_expanded: int
    isr_shrunk: int
    isr_refused: int


class Replicas:
    """The replicas of this broker; lives as long as the store.

    Attributes:
        throttle: applies to every registration; its owner starts and closes it.
    """

    def __init__(self, dependencies: ReplicaDependencies) -> None:
        self._dependencies = dependencies
        store, ids = dependencies.store, dependencies.ids
        self._failed = FailedReplicas(store, ids.broker_id, rng=dependencies.rng)
        self._controller_epoch = ConfirmedEpoch(store, paths.CONTROLLER_ELECTION)
        self._instructions = ReplicaInstructions(
            dependencies.plane,
            ids.broker_id,
            self._current_broker_epoch,
            self._controller_epoch,
            strays=StrayReplicas(store, ids.broker_id),
            failed=self._failed,
        )
        self._queue = ZkQueue(store, ids.broker_id, self._instructions.handle, rng=dependencies.rng)
        self.throttle = ReplicationThrottle(store, rng=dependencies.rng)
        self._isr = IsrChanges(
            store,
            dependencies.plane,
            ids.broker_id,
            dependencies.lag_time_s,
            removals=lambda: self._instructions.known.removals,
            throttle=lambda: self.throttle.rate,
        )
        self._session_epoch = 0
        self._instance_id = ""

    # Read by other parts.

    @property
    def ids(self) -> BrokerIds:
        """The number of this broker, and its epoch."""
        return self._dependencies.ids

    @property
    def newest_controller_epoch(self) -> int:
        """The newest controller epoch that the store has confirmed."""
        return self._controller_epoch.newest

    @property
    def failed(self) -> Mapping[TopicPartition, str]:
        """Replicas that cannot be served, with the reason."""
        return self._failed.reasons

    def is_granted(self, epoch: int) -> bool:
        """Return whether no replica acts on an instruction from a session before ``epoch``."""
        return self._dependencies.authority.is_granted(epoch)

    async def handle(self, instruction: Instruction) -> Handled:
        """See `ReplicaInstructions.handle`."""
        return await self._instructions.handle(instruction)

    def count_led(self) -> int:
        """Count the partitions that this broker leads; iterates over all replicas."""
        return self._instructions.count_led()

    def statistics(self) -> ReplicaStatistics:
        """Return the current counts."""
        return ReplicaStatistics(
            held=len(self._instructions.known),
            failed=len(self._failed.reasons),
            queued_applied=self._queue.applied,
            queued_corrupt=self._queue.corrupt,
            stale=self._instructions.fenced,
            isr_expanded=self._isr.expanded,
            isr_shrunk=self._isr.shrunk,
            isr_refused=self._isr.refused,
        )

    # Registrations, one after the other.

    async def prepare(self, epoch: int) -> None:
        """Stop all replicas at the start of a session, before it grants any authority.

        Returns once the broker process and the store have answered; there is no time limit.
        """
        self.on_session_end()
        await retry(
            self._begin,
            "cannot list the replicas",
            rng=self._dependencies.rng,
            judge=lambda error: is_undecided(error) or isinstance(error, DataPlaneError),
            level=logging.WARNING,
        )
        self._session_epoch = epoch
        self._dependencies.authority.grant(epoch)

    async def _begin(self) -> None:
        # Read before the request, so that a restart during the request is noticed.
        self._instance_id = self._dependencies.instance_id()
        self._dependencies.plane.expect(self._instance_id)
        await self._controller_epoch.read()
        await self._instructions.begin()

    async def enter(self) -> None:
        """Register, so that the controller sends the states of all replicas; call `prepare` first.

        Raises:
            StartError: another process has the id of this broker.
        """
        # Published first: elections must know which replicas cannot be served.
        await self._failed.publish()
        await self._dependencies.ids.register()

    async def run(self) -> None:
        """Execute instructions until cancelled, or until the broker process ends after `leave`.

        Call `enter` first.

        Raises:
            StartError: another process has the id of this broker.
        """
        stop_watching = await self._queue.watch()
        try:
            while True:
                await self._live()
                if self._instructions.is_over:
                    return  # a stopping broker must not register again
                log.warning(
                    "the broker process restarted: registering again for all its instructions"
                )
                await self._dependencies.ids.unregister()
                await self.prepare(self._session_epoch)
                await self.enter()
        finally:
            stop_watching()

    def on_session_end(self) -> None:
        """The session has ended, or its authority is given back."""
        self._dependencies.ids.on_session_end()
        self._dependencies.authority.revoke()

    def revoke(self) -> None:
        """Revoke the authority of replicas: the broker process is silent."""
        self._dependencies.authority.revoke()

    async def leave(self) -> None:
        """End this registration on purpose: stop all leaders, then unregister from the controller.

        Bundles are handed over after this, so the broker process keeps its authority. The authority
        of replicas is revoked only if the process cannot be asked to stop its leaders; that happens
        before any other broker is elected.
        """
        is_over = False
        try:
            async with asyncio.timeout(_STOP_S):
                is_over = await self._instructions.stop_leading()
        except (DataPlaneError, TimeoutError) as error:
            log.warning("cannot stop the leading replicas: %r; revoking their authority", error)
        if not is_over:
            self._dependencies.authority.revoke()
        await self._dependencies.ids.unregister()

    def _current_broker_epoch(self) -> int:
        """The broker epoch; 0 also if the broker process restarted since this registration.

        A state that the controller repeats at an unchanged leader epoch must have been read after
        all ISR changes of the former process (KIP-497). Registering again ensures that.
        """
        is_same = self._dependencies.instance_id() == self._instance_id
        return self._dependencies.ids.epoch if is_same else 0

    async def _live(self) -> None:
        """Run while registered; returns when the broker process has restarted."""
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
            # A throttle applies at once: the copies that it is for begin after it was written.
            await self.throttle.wait_changed(self._dependencies.poll_s)
            try:
                await self._isr.settle()
                if loop.time() - listed_s >= _LIST_S + _LIST_EACH_S * len(self._instructions.known):
                    self._instructions.on_listing(await self._dependencies.plane.replicas())
                    listed_s = loop.time()
            except (DataPlaneError, StoreError) as error:
                # Requests stay pending until they are answered. Other parts notice a silent process
                # and the end of the session.
                log.info("ISR changes are not applied yet: %s; retrying", error)
