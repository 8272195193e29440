"""Instructions of the controller for replicas, executed on this broker.

Docs: kafka-design-v3, kafka-fencing, kafka-procedures. Instructions are executed one at a time. The
checks come in this order: controller epoch, which the store must have confirmed, broker epoch, and
for each partition the topic id, the leader epoch, and whether this broker has a replica. Strays are
removed first; then come leaders, followers, and replicas that stop. Each call to the data plane
first ends all fetching for its partitions, so that no replica leads a partition that it still
fetches. An instruction with digests passes the same checks, and changes no replica.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker_ctl.broker.replicas.failed_replicas import FailedReplicas
from broker_ctl.broker.replicas.known_replicas import KnownReplica, KnownReplicas
from broker_ctl.broker.replicas.stray_replicas import StrayReplicas
from broker_ctl.coordination.election.confirmed_epoch import ConfirmedEpoch
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
from broker_ctl.errors import AuthorityLost, DataPlaneRefused, Fenced

log = logging.getLogger(__name__)

_MAX_LOGGED: Final = 5


class Handled(NamedTuple):
    """The answer to an instruction.

    Attributes:
        errors: the replicas that failed.
        differing: indexes of the spans whose digests are not those of the replicas here.
    """

    broker_epoch: int
    errors: tuple[ReplicaError, ...] = ()
    differing: tuple[int, ...] = ()


class ReplicaInstructions:
    """Executes instructions, and remembers the newest epochs.

    Args:
        epoch: returns the broker epoch, 0 while the broker is not registered.
        controller_epoch: of all controllers, earlier sessions included.

    Attributes:
        is_over: this registration was ended on purpose.
    """

    def __init__(
        self,
        plane: ReplicaPlane,
        broker_id: int,
        epoch: Callable[[], int],
        controller_epoch: ConfirmedEpoch,
        *,
        strays: StrayReplicas,
        failed: FailedReplicas,
    ) -> None:
        self._plane = plane
        self._broker_id = broker_id
        self._epoch = epoch
        self._controller_epoch = controller_epoch
        self._strays = strays
        self._failed = failed
        self._replicas = KnownReplicas()
        # The addresses that the data plane has; None: that is not certain.
        self._brokers: Mapping[int, str] | None = None
        self._lock = asyncio.Lock()
        self.is_over = False
        self.fenced = 0

    @property
    def known(self) -> KnownReplicas:
        """What this broker knows of its replicas; another object in each registration."""
        return self._replicas

    def count_led(self) -> int:
        """Count the partitions that this broker leads; iterates over all replicas."""
        return sum(1 for _ in self._replicas.led())

    async def begin(self) -> None:
        """List the held replicas and stop all of them: none leads until an instruction says so.

        Replicas of a deleted topic whose name was reused are removed first.

        Raises:
            DataPlaneError, StoreError: the caller must call `begin` again.
        """
        async with self._lock:
            self.is_over = False
            held = await self._plane.replicas()
            self._failed.reset(held)
            self._brokers = None
            self._replicas = KnownReplicas(held, self._replicas.removals + 1)
            find_outdated = await self._strays.find_outdated(held)
            await self._end(find_outdated, is_deleted=True)
            gone = {one.partition for one in find_outdated}
            left = [one for one in held if one.partition not in gone]
            may_lead = await self._end(left, is_deleted=False)
            for one in left:
                if one.partition in may_lead and not one.is_failed:
                    raise DataPlaneRefused(f"{one.partition} did not stop")

    def on_listing(self, held: Iterable[HeldReplica]) -> None:
        """Take from a listing of all replicas which of them cannot be served.

        A controller that takes over sends these again, also once their disk is back.
        """
        self._failed.update_from_listing(held)
        self._replicas.doubt(self._failed.reasons)

    async def stop_leading(self) -> bool:
        """Refuse instructions until `begin` and stop all leaders; False if some still lead.

        Raises:
            DataPlaneError: some replicas may still lead.
        """
        # Also if this task is cancelled below, while an instruction is executed.
        self.is_over = True
        async with self._lock:
            await self._end(self._replicas.led(), is_deleted=False)
            return not self.count_led()

    async def handle(self, instruction: Instruction) -> Handled:
        """Execute an instruction; executing it twice changes nothing.

        Raises:
            Fenced: its controller was deposed or never elected, or it is meant for an earlier
                registration.
            AuthorityLost: this broker is not (yet) registered at the broker epoch of the
                instruction.
            DataPlaneError, StoreError: it was executed in part; the controller may send it again.
        """
        try:
            # Outside the turn: a broker that stops must not wait for the store.
            await self._controller_epoch.confirm(instruction.controller_epoch)
            return await self._execute(instruction)
        except Fenced:
            self.fenced += 1
            raise

    async def _execute(self, instruction: Instruction) -> Handled:
        async with self._lock:
            broker_epoch = self._check(instruction)
            if instruction.spans:
                return Handled(broker_epoch, differing=await self._compare(instruction))
            await self._remove_strays(instruction)
            errors: list[ReplicaError] = []
            leaders, followers = self._classify(instruction.partitions, errors)
            if leaders:
                errors += await self._plane.become_leader(leaders)
            errors += await self._follow(followers, instruction.brokers)
            self._replicas.confirm([*leaders, *followers], self._broker_id, errors)
            errors += await self._stop(instruction.stops)
            self._failed.record_results(_partitions_of(instruction), errors)
        _log_errors(errors)
        return Handled(broker_epoch, tuple(errors))

    async def _compare(self, instruction: Instruction) -> tuple[int, ...]:
        """Indexes of the spans in which this broker has anything else than the controller."""
        await self._follow([], instruction.brokers)
        differing: list[int] = []
        for index, span in enumerate(instruction.spans):
            if not self._replicas.is_as(span):
                differing.append(index)
            await asyncio.sleep(0)
        return tuple(differing)

    async def _follow(
        self, followers: Sequence[ReplicaState], brokers: Mapping[int, str]
    ) -> Sequence[ReplicaError]:
        # Also without a follower that changes its leader: the endpoint to fetch from may be new
        # (KAFKA-13225).
        if not followers and brokers == self._brokers:
            return ()
        self._brokers = None
        errors = await self._plane.become_follower(followers, brokers)
        self._brokers = dict(brokers)
        return errors

    def _check(self, instruction: Instruction) -> int:
        self._controller_epoch.require_newest(instruction.controller_epoch, "controller epoch")
        if self.is_over:
            raise AuthorityLost("this broker is about to stop")
        own, meant = self._epoch(), instruction.broker_epoch
        if instruction.broker != self._broker_id or 0 < meant < own:
            raise Fenced(
                f"meant for broker {instruction.broker} at epoch {meant}, this is "
                f"{self._broker_id} at {own}"
            )
        if not own or meant != own:
            # The controller may see a registration before this broker learns that it succeeded.
            raise AuthorityLost(f"not registered at broker epoch {meant}, but at {own}")
        return own

    # The four steps.

    async def _remove_strays(self, instruction: Instruction) -> None:
        if not instruction.is_full:
            return
        named = {replica.partition: replica.topic_id for replica in instruction.partitions}
        unnamed = self._replicas.unnamed(named, instruction.after, instruction.until)
        if unnamed:
            await self._end(await self._strays.find_unassigned(unnamed), is_deleted=True)

    async def _end(
        self, held: Iterable[HeldReplica], *, is_deleted: bool
    ) -> Collection[TopicPartition]:
        """Stop replicas; returns those that the data plane refused to stop."""
        stops = [
            ReplicaStop(one.partition, one.topic_id, one.leader_epoch, is_deleted) for one in held
        ]
        if not stops:
            return ()
        if is_deleted:
            log.info("%d replicas are no longer assigned to this broker: removing them", len(stops))
        self._replicas.doubt(stop.partition for stop in stops)
        refused = list(await self._plane.stop_replicas(stops))
        _log_errors(refused)
        kept = {partition for partition, _ in refused}
        for stop in stops:
            if stop.partition not in kept:
                self._replicas.on_stopped(stop)
        return kept

    def _classify(
        self, instructed: Sequence[ReplicaState], errors: list[ReplicaError]
    ) -> tuple[list[ReplicaState], list[ReplicaState]]:
        """Split the instructed replicas into leaders and followers, and remember their states."""
        known, broker_id = self._replicas, self._broker_id
        leaders: list[ReplicaState] = []
        followers: list[ReplicaState] = []
        for replica in instructed:
            partition, topic_id, state, replicas, *_ = replica
            before = known.get(partition)
            if before is not None and before.topic_id != topic_id:
                errors.append(ReplicaError(partition, WRONG_TOPIC_ID))
            elif before is not None and state.leader_epoch < before.leader_epoch:
                errors.append(ReplicaError(partition, STALE_EPOCH))
            elif broker_id not in replicas:
                errors.append(ReplicaError(partition, NO_REPLICA))
            else:
                is_leader = state.leader == broker_id
                may_lead = is_leader or (before is not None and before.may_lead)
                known.put(partition, KnownReplica(topic_id, state.leader_epoch, may_lead))
                (leaders if is_leader else followers).append(replica)
        return leaders, followers

    async def _stop(self, stops: Sequence[ReplicaStop]) -> list[ReplicaError]:
        stale: list[ReplicaStop] = []
        allowed: list[ReplicaStop] = []
        for stop in stops:
            known = self._replicas.get(stop.partition)
            if known is not None and known.topic_id != stop.topic_id:
                continue  # this replica is gone, and another topic has its name
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
        self._replicas.doubt(stop.partition for stop in allowed)
        refused = list(await self._plane.stop_replicas(allowed))
        kept = {partition for partition, _ in refused}
        for stop in allowed:
            if stop.partition not in kept:
                self._replicas.on_stopped(stop)
        return errors + refused

    async def _ending(self, stale: Iterable[ReplicaStop]) -> set[TopicPartition]:
        """Select stale stops to execute: the store does not assign these replicas to this broker.

        The controller may repeat a deletion whose acknowledgement was lost after the replica was
        assigned here again; executing that would delete records that the ISR vouches for.
        """
        deleted = [
            HeldReplica(stop.partition, stop.topic_id, stop.leader_epoch)
            for stop in stale
            if stop.is_deleted
        ]
        return await self._strays.find_deletable(deleted) if deleted else set()


def _log_errors(errors: Sequence[ReplicaError]) -> None:
    if errors:
        reasons = ", ".join(f"{partition} {why}" for partition, why in errors[:_MAX_LOGGED])
        log.warning("%d replicas did not take their instructed state: %s", len(errors), reasons)


def _partitions_of(instruction: Instruction) -> Iterable[TopicPartition]:
    for replica in instruction.partitions:
        yield replica.partition
    for stop in instruction.stops:
        yield stop.partition
