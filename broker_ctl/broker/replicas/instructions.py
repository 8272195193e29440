"""Instructions of the controller for replicas, executed on this broker.

Docs: kafka-design-v3, kafka-fencing, kafka-procedures. In one instruction, and one at a time:
controller epoch, then broker epoch; for each partition its topic's id, its leader epoch, and
whether this broker has a replica of it. Strays go first, then those that lead here, those that
follow, and those that end. Each call to the data plane begins with the end of all fetching of its
partitions, so that nobody leads what it still fetches from another.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from broker_ctl.broker.replicas.failed_replicas import FailedReplicas
from broker_ctl.broker.replicas.stray_replicas import StrayReplicas
from broker_ctl.core.partitions.instructions import (
    NO_REPLICA,
    STALE_EPOCH,
    WRONG_TOPIC_ID,
    Instruction,
    ReplicaError,
    ReplicaState,
    ReplicaStop,
)
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.webhook.replicas import HeldReplica, ReplicaPlane
from broker_ctl.errors import AuthorityLost, Fenced

log = logging.getLogger(__name__)

_MAX_LOGGED: Final = 5


class Handled(NamedTuple):
    """The answer to an instruction: what was told and is not so, and under which broker epoch."""

    broker_epoch: int
    errors: tuple[ReplicaError, ...]


class _Replica(NamedTuple):
    """What this broker knows of a replica that it holds."""

    topic_id: str
    leader_epoch: int
    is_leader: bool


class ReplicaInstructions:
    """Executes instructions, and keeps the newest epochs.

    Args:
        epoch: the broker epoch, 0 while there is none.

    Attributes:
        newest_epoch: of all controllers that were heard, also in sessions before.
        is_over: this life was ended on purpose.
    """

    def __init__(
        self,
        plane: ReplicaPlane,
        broker_id: int,
        epoch: Callable[[], int],
        strays: StrayReplicas,
        failed: FailedReplicas,
    ) -> None:
        self._plane = plane
        self._broker_id = broker_id
        self._epoch = epoch
        self._strays = strays
        self._failed = failed
        self._replicas: dict[TopicPartition, _Replica] = {}
        self._brokers: dict[int, str] = {}
        self._lock = asyncio.Lock()
        self.is_over = False
        self.newest_epoch = 0
        self.fenced = 0

    @property
    def held(self) -> int:
        """How many replicas are held."""
        return len(self._replicas)

    def count_led(self) -> int:
        """How many of them lead; looks at each."""
        return sum(replica.is_leader for replica in self._replicas.values())

    def observe_controller_epoch(self, epoch: int) -> None:
        """A controller epoch that was read: none below it is obeyed."""
        self.newest_epoch = max(self.newest_epoch, epoch)

    async def begin(self) -> None:
        """Ask what is held, and end all of it that is going on: nothing leads unless it is told.

        Replicas of a topic that had its name before are removed, before anything starts.

        Raises:
            DataPlaneError, StoreError: it is to be begun again.
        """
        async with self._lock:
            self.is_over = False
            held = await self._plane.replicas()
            self._failed.reset(held)
            self._brokers = {}
            self._replicas = {
                one.partition: _Replica(one.topic_id, one.leader_epoch, is_leader=False)
                for one in held
            }
            find_outdated = await self._strays.find_outdated(held)
            await self._end(find_outdated, is_deleted=True)
            gone = {one.partition for one in find_outdated}
            left = [one for one in held if one.partition not in gone]
            await self._end(left, is_deleted=False)

    async def stop_leading(self) -> bool:
        """Obey nobody until it begins again, and end what leads here; false where some of it stays.

        Raises:
            DataPlaneError: it is not known whether something leads on.
        """
        # Also where we are cancelled below, while an instruction is carried out.
        self.is_over = True
        async with self._lock:
            led = [
                HeldReplica(partition, replica.topic_id, replica.leader_epoch)
                for partition, replica in self._replicas.items()
                if replica.is_leader
            ]
            await self._end(led, is_deleted=False)
            return not self.count_led()

    async def handle(self, instruction: Instruction) -> Handled:
        """Execute an instruction; repeating it changes nothing.

        Raises:
            Fenced: its controller was deposed, or it is meant for an earlier life of this broker.
            AuthorityLost: this broker is not (yet) registered in the life that it is meant for.
            DataPlaneError, StoreError: not all of it was done; it may be sent again.
        """
        async with self._lock:
            broker_epoch = self._check(instruction)
            await self._remove_strays(instruction)
            errors: list[ReplicaError] = []
            leaders, followers = self._classify(instruction.partitions, errors)
            if leaders:
                errors += await self._plane.become_leader(leaders)
            # Also where nobody follows another now: whom to fetch from has changed (KAFKA-13225).
            if followers or instruction.brokers != self._brokers:
                errors += await self._plane.become_follower(followers, instruction.brokers)
                self._brokers = dict(instruction.brokers)
            errors += await self._stop(instruction.stops)
            self._failed.record_results(_partitions_of(instruction), errors)
        _log_errors(errors)
        return Handled(broker_epoch, tuple(errors))

    def _check(self, instruction: Instruction) -> int:
        if instruction.controller_epoch < self.newest_epoch:
            self.fenced += 1
            raise Fenced(
                f"controller epoch {instruction.controller_epoch}, {self.newest_epoch} was seen"
            )
        self.newest_epoch = instruction.controller_epoch
        if self.is_over:
            raise AuthorityLost("this broker is about to stop")
        own, meant = self._epoch(), instruction.broker_epoch
        if instruction.broker != self._broker_id or 0 < meant < own:
            self.fenced += 1
            raise Fenced(
                f"meant for broker {instruction.broker} at epoch {meant}, this is "
                f"{self._broker_id} at {own}"
            )
        if not own or meant != own:
            # The controller may see a registration before this broker hears that it stands.
            raise AuthorityLost(f"not registered at broker epoch {meant}, but at {own}")
        return own

    # The four steps.

    async def _remove_strays(self, instruction: Instruction) -> None:
        if not instruction.is_full:
            return
        named = {replica.partition: replica.topic_id for replica in instruction.partitions}
        known = self._replicas
        unnamed = [
            HeldReplica(partition, known[partition].topic_id, known[partition].leader_epoch)
            for partition in instruction.covered_partitions(sorted(known))
            if named.get(partition) != known[partition].topic_id
        ]
        if unnamed:
            await self._end(await self._strays.find_unassigned(unnamed), is_deleted=True)

    async def _end(self, held: Iterable[HeldReplica], *, is_deleted: bool) -> None:
        stops = [
            ReplicaStop(one.partition, one.topic_id, one.leader_epoch, is_deleted) for one in held
        ]
        if not stops:
            return
        if is_deleted:
            log.info("%d replicas are no longer assigned to this broker: removing them", len(stops))
        refused = list(await self._plane.stop_replicas(stops))
        _log_errors(refused)
        kept = {partition for partition, _ in refused}
        for stop in stops:
            if stop.partition not in kept:
                self._ended(stop)

    def _classify(
        self, told: Sequence[ReplicaState], errors: list[ReplicaError]
    ) -> tuple[list[ReplicaState], list[ReplicaState]]:
        """Those that lead here and those that follow; what they are told is remembered."""
        known, broker_id = self._replicas, self._broker_id
        leaders: list[ReplicaState] = []
        followers: list[ReplicaState] = []
        for replica in told:
            partition, topic_id, state, replicas, _ = replica
            before = known.get(partition)
            if before is not None and before.topic_id != topic_id:
                errors.append(ReplicaError(partition, WRONG_TOPIC_ID))
            elif before is not None and state.leader_epoch < before.leader_epoch:
                errors.append(ReplicaError(partition, STALE_EPOCH))
            elif broker_id not in replicas:
                errors.append(ReplicaError(partition, NO_REPLICA))
            else:
                is_leader = state.leader == broker_id
                known[partition] = _Replica(topic_id, state.leader_epoch, is_leader)
                (leaders if is_leader else followers).append(replica)
        return leaders, followers

    async def _stop(self, stops: Sequence[ReplicaStop]) -> list[ReplicaError]:
        stale: list[ReplicaStop] = []
        allowed: list[ReplicaStop] = []
        for stop in stops:
            known = self._replicas.get(stop.partition)
            if known is not None and known.topic_id != stop.topic_id:
                continue  # that one is gone already, and another topic has its name
            is_stale = known is not None and stop.leader_epoch < known.leader_epoch
            (stale if is_stale else allowed).append(stop)
        ending = await self._ending(stale)
        errors = [
            ReplicaError(stop.partition, STALE_EPOCH)
            for stop in stale
            if stop.partition not in ending
        ]
        allowed += [stop for stop in stale if stop.partition in ending]
        if not allowed:
            return errors
        refused = list(await self._plane.stop_replicas(allowed))
        kept = {partition for partition, _ in refused}
        for stop in allowed:
            if stop.partition not in kept:
                self._ended(stop)
        return errors + refused

    async def _ending(self, stale: Iterable[ReplicaStop]) -> set[TopicPartition]:
        """Those of them that are to be deleted all the same, and that the store does not have here.

        A deletion may be told again when its acknowledgement was lost, after the replica was
        assigned here once more: it would take records that the ISR answers for.
        """
        deleted = [
            HeldReplica(stop.partition, stop.topic_id, stop.leader_epoch)
            for stop in stale
            if stop.is_deleted
        ]
        return await self._strays.find_deletable(deleted) if deleted else set()

    def _ended(self, stop: ReplicaStop) -> None:
        known = self._replicas.pop(stop.partition, None)
        if known is not None and not stop.is_deleted:
            epoch = max(known.leader_epoch, stop.leader_epoch)
            self._replicas[stop.partition] = _Replica(known.topic_id, epoch, is_leader=False)


def _log_errors(errors: Sequence[ReplicaError]) -> None:
    if errors:
        shown = ", ".join(f"{partition} {why}" for partition, why in errors[:_MAX_LOGGED])
        log.warning("%d replicas did not take their instructed state: %s", len(errors), shown)


def _partitions_of(instruction: Instruction) -> Iterable[TopicPartition]:
    for replica in instruction.partitions:
        yield replica.partition
    for stop in instruction.stops:
        yield stop.partition
