"""Instructions of the controller for replicas, executed on this broker."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from broker_ctl.codec import encode_to_keep
from broker_ctl.coordination.directives import NodeCache
from broker_ctl.coordination.election import ConfirmedEpoch
from broker_ctl.core.partitions.instructions import (
    FAILED,
    NO_REPLICA,
    STALE_EPOCH,
    STORAGE_ERROR,
    WRONG_TOPIC_ID,
    Instruction,
    ReplicaError,
    ReplicaSpan,
    ReplicaState,
    ReplicaStop,
    compared_row,
    digest_of,
    within,
)
from broker_ctl.core.partitions.values import TopicAssignment, TopicPartition
from broker_ctl.dataplane.webhook.replica_wire import HeldReplica, ReplicaPlane
from broker_ctl.errors import (
    AuthorityLost,
    BrokerCtlError,
    CorruptRecord,
    DataPlaneRefused,
    Fenced,
    NodeExists,
    NoNode,
)
from broker_ctl.retry import is_undecided, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode, MetadataStore
from broker_ctl.store.records.partitions import decode_throttle, decode_topic, encode_failed

log = logging.getLogger(__name__)

# Replicas that this broker cannot serve, published to the controller (docs: kafka-failure-kinds).
#
# They are published in an ephemeral node for every transport of instructions: a log may fail at
# any time, and only an instruction has an answer that could report it.


# One node lists all of them and must stay small: the controller gets the rest once these are
# handled.
_MOST: Final = 5_000
# What an instruction that was carried out has shown; None: the replica can be served.
_OUTCOMES: Final = frozenset({STORAGE_ERROR, FAILED, None})


class FailedReplicas:
    """Failed replicas of this broker by partition, with the reason."""

    def __init__(self, store: MetadataStore, broker_id: int, *, rng: random.Random) -> None:
        self._store = store
        self._path = paths.failed(broker_id)
        self._reasons: dict[TopicPartition, str] = {}
        self._changed = asyncio.Event()
        self._rng = rng

    @property
    def reasons(self) -> Mapping[TopicPartition, str]:
        """A live view of all failed replicas; it may change during any await."""
        return MappingProxyType(self._reasons)

    def record_results(
        self, partitions: Iterable[TopicPartition], errors: Collection[ReplicaError]
    ) -> None:
        """Record which of the instructed partitions the data plane failed."""
        if self._reasons or errors:
            reasons = dict(errors)
            # Any other reason: the instruction was not carried out, and says nothing of the log.
            self._update(
                {each: why for each in partitions if (why := reasons.get(each)) in _OUTCOMES}
            )

    def reset(self, held: Iterable[HeldReplica]) -> None:
        """Start with the replicas that the data plane holds, before any of them is instructed."""
        self._reasons.clear()
        self.update_from_listing(held)

    def update_from_listing(self, held: Iterable[HeldReplica]) -> None:
        """Update storage failures from a listing of all held replicas; other failures stay."""
        stored = {one.partition: STORAGE_ERROR for one in held if one.is_failed}
        mended = {
            partition: None
            for partition, reason in self._reasons.items()
            if reason == STORAGE_ERROR and partition not in stored
        }
        self._update({**stored, **mended})

    def _update(self, reported: Mapping[TopicPartition, str | None]) -> None:
        before = len(self._reasons), self._reasons.keys() & reported.keys()
        for partition, reason in reported.items():
            if reason is None:
                self._reasons.pop(partition, None)
            else:
                self._reasons[partition] = reason
        if before != (len(self._reasons), self._reasons.keys() & reported.keys()):
            log.warning("%d replicas cannot be served: reporting them", len(self._reasons))
            self._changed.set()

    async def publish(self) -> None:
        """Write the failed replicas, retrying until the store accepts them."""
        await retry(
            self._write, "cannot publish the failed replicas", rng=self._rng, judge=_may_pass
        )

    async def keep(self) -> None:
        """Publish each change until cancelled."""
        while True:
            await self._changed.wait()
            await self.publish()

    async def _write(self) -> None:
        self._changed.clear()
        failed = sorted(self._reasons)[:_MOST]
        node = await self._store.get(self._path)
        if node is not None and node.stat.ephemeral_owner != self._store.session_id:
            # The node is of an ended session: it says nothing about this registration.
            await self._store.delete(self._path, node.stat.version)
            node = None
        data = encode_failed(failed)
        if node is None and failed:
            await self._store.create(self._path, data, CreateMode.EPHEMERAL, make_parents=True)
        elif node is not None and not failed:
            await self._store.delete(self._path, node.stat.version)
        elif node is not None and node.data != data:
            await self._store.set(self._path, data, node.stat.version)


def _may_pass(error: BrokerCtlError) -> bool:
    """Each attempt reads first: a node that came or went meanwhile is seen by the next one."""
    return is_undecided(error) or isinstance(error, NoNode | NodeExists)


# The throttle of replicas that reassignments add, as this broker has to apply it.
#
# Each broker reads it from the store itself, as Kafka's do: it applies whatever controller is
# elected, and a broker that starts later has it too.


class ReplicationThrottle:
    """The newest throttle; one that cannot be read leaves the one before in force."""

    def __init__(self, store: MetadataStore, *, rng: random.Random) -> None:
        self._cache = NodeCache(store, paths.BROKER_DEFAULTS, decode_throttle, rng=rng)
        self._changed = asyncio.Event()
        self._cache.listen(self._changed.set)

    async def start(self) -> None:
        """Watch the node; returns once it has been read."""
        await self._cache.start()
        await self._cache.wait_synced()

    async def close(self) -> None:
        """Stop the watch; the last known throttle stays."""
        await self._cache.close()

    async def wait_changed(self, limit_s: float) -> None:
        """Return when it has changed, at the latest after ``limit_s``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._changed.wait()
        self._changed.clear()

    @property
    def rate(self) -> int | None:
        """Bytes a second; None: no limit."""
        return self._cache.values.get(paths.BROKER_DEFAULTS)


# What this broker knows of its replicas, and which states the data plane has confirmed. Pure.


class KnownReplica(NamedTuple):
    """What this broker knows of one of its replicas.

    Attributes:
        may_lead: from the instruction to lead until the data plane has confirmed another role.
    """

    topic_id: str
    leader_epoch: int
    may_lead: bool


class KnownReplicas:
    """The replicas of this broker in one registration.

    A state is confirmed once the data plane has taken it, until the replica gets another one or
    may have got another one: only then a controller may leave it out of its instructions.

    Attributes:
        removals: grows when a replica may have been removed, also from one registration to another.
    """

    def __init__(self, held: Iterable[HeldReplica] = (), removals: int = 0) -> None:
        self.removals = removals
        self._replicas = {
            one.partition: KnownReplica(one.topic_id, one.leader_epoch, may_lead=False)
            for one in held
        }
        # Encoded, as a controller digests them.
        self._confirmed: dict[TopicPartition, bytes] = {}
        # None: replicas came or went since they were sorted.
        self._ordered: list[TopicPartition] | None = None

    def __len__(self) -> int:
        return len(self._replicas)

    def get(self, partition: TopicPartition) -> KnownReplica | None:
        """The replica; None: it is not held."""
        return self._replicas.get(partition)

    def led(self) -> Iterator[HeldReplica]:
        """The replicas that lead, or may still lead."""
        for partition, (topic_id, leader_epoch, may_lead) in self._replicas.items():
            if may_lead:
                yield HeldReplica(partition, topic_id, leader_epoch)

    def put(self, partition: TopicPartition, replica: KnownReplica) -> None:
        """Set what is known of a replica; its state is not confirmed yet."""
        replicas, confirmed = self._replicas, self._confirmed
        if partition not in replicas:
            self._ordered = None
        replicas[partition] = replica
        if partition in confirmed:
            del confirmed[partition]

    def on_stopped(self, stop: ReplicaStop) -> None:
        """The data plane has stopped a replica; its newest leader epoch stays known."""
        known = self._replicas.get(stop.partition)
        if stop.is_deleted:
            self.remove(stop.partition)
        elif known is not None:
            epoch = max(known.leader_epoch, stop.leader_epoch)
            self.put(stop.partition, KnownReplica(known.topic_id, epoch, may_lead=False))

    def remove(self, partition: TopicPartition) -> None:
        """Forget a replica that is not held any more."""
        self.removals += 1
        if self._replicas.pop(partition, None) is not None:
            self._ordered = None
        self._confirmed.pop(partition, None)

    def doubt(self, partitions: Iterable[TopicPartition]) -> None:
        """These replicas may get another state, or may have got it."""
        for partition in partitions:
            self._confirmed.pop(partition, None)

    def confirm(
        self,
        replicas: Iterable[ReplicaState],
        broker_id: int,
        errors: Iterable[ReplicaError] = (),
    ) -> None:
        """The data plane has taken these states of replicas on this broker, except for errors."""
        known, confirmed = self._replicas, self._confirmed
        failed = {partition for partition, _ in errors}
        for replica in replicas:
            partition = replica.partition
            if partition in failed:
                continue
            if replica.state.leader != broker_id and known[partition].may_lead:
                known[partition] = known[partition]._replace(may_lead=False)
            confirmed[partition] = encode_to_keep(compared_row(replica))

    def within(
        self, after: TopicPartition | None, until: TopicPartition | None
    ) -> Sequence[TopicPartition]:
        """The replicas in a span, in order."""
        if self._ordered is None:
            self._ordered = sorted(self._replicas)
        return within(self._ordered, after, until)

    def unnamed(
        self,
        named: Mapping[TopicPartition, str],
        after: TopicPartition | None,
        until: TopicPartition | None,
    ) -> list[HeldReplica]:
        """The replicas in a span that are not named with their topic id."""
        return [
            HeldReplica(partition, known.topic_id, known.leader_epoch)
            for partition in self.within(after, until)
            if named.get(partition) != (known := self._replicas[partition]).topic_id
        ]

    def is_as(self, span: ReplicaSpan) -> bool:
        """Whether exactly the replicas of a controller's span are held, in the same states."""
        confirmed = self._confirmed
        rows = [confirmed.get(each, b"") for each in self.within(span.after, span.until)]
        return all(rows) and digest_of(rows) == span.digest


# Stray replicas: replicas on this broker that are not assigned to it any more.
#
# Docs: kafka-topic-deletion; KAFKA-14616. Removing a replica deletes records, so an instruction
# alone is not enough: the topic's node is read after a sync, and the replica stays if the node
# cannot be read.


class StrayReplicas:
    """Finds stray replicas by the topics' nodes in the store."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id

    async def find_outdated(self, held: Iterable[HeldReplica]) -> list[HeldReplica]:
        """Find the replicas of deleted topics whose names were reused.

        Raises:
            StoreError: the topics cannot be read.
        """
        replicas = list(held)
        topics = await self._topics(replicas)
        return [replica for replica in replicas if _is_outdated(replica, topics)]

    async def find_unassigned(self, held: Iterable[HeldReplica]) -> list[HeldReplica]:
        """Find the replicas of deleted topics, and those assigned to other brokers.

        Raises:
            StoreError: the topics cannot be read.
        """
        replicas = list(held)
        topics = await self._topics(replicas)
        found = [replica for replica in replicas if not self._is_assigned(replica, topics)]
        if len(found) < len(replicas):
            log.warning(
                "%d replicas stay: the store assigns them to this broker",
                len(replicas) - len(found),
            )
        return found

    async def find_deletable(self, held: Iterable[HeldReplica]) -> set[TopicPartition]:
        """Find partitions not assigned to this broker, and those of topics being deleted.

        Raises:
            StoreError: the topics cannot be read.
        """
        replicas = list(held)
        topics = await self._topics(replicas)
        names = [name for name, topic in topics.items() if topic is not None]
        requests = await self._store.get_many([paths.deletion(name) for name in names])
        deleted = {
            name for name, request in zip(names, requests, strict=True) if request is not None
        }
        return {
            replica.partition
            for replica in replicas
            if replica.partition.topic in deleted or not self._is_assigned(replica, topics)
        }

    def _is_assigned(
        self, replica: HeldReplica, topics: Mapping[str, TopicAssignment | None]
    ) -> bool:
        topic, number = replica.partition
        if topic not in topics or _is_outdated(replica, topics):
            return topic not in topics
        known = topics[topic]
        assignment = None if known is None else known.partitions.get(number)
        return assignment is not None and self._broker_id in assignment.replicas

    async def _topics(
        self, replicas: Iterable[HeldReplica]
    ) -> Mapping[str, TopicAssignment | None]:
        """Assignments by topic; None for a deleted topic, no entry for an unreadable one."""
        names = sorted({replica.partition.topic for replica in replicas})
        if not names:
            return {}
        await self._store.sync(paths.TOPICS)
        nodes = await self._store.get_many([paths.topic(name) for name in names])
        topics: dict[str, TopicAssignment | None] = {}
        for name, node in zip(names, nodes, strict=True):
            try:
                topics[name] = None if node is None else decode_topic(node)
            except CorruptRecord as error:
                log.warning("cannot read topic %s: %s; its replicas stay", name, error)
        return topics


def _is_outdated(replica: HeldReplica, topics: Mapping[str, TopicAssignment | None]) -> bool:
    topic = topics.get(replica.partition.topic)
    return topic is not None and topic.topic_id != replica.topic_id


# Instructions of the controller for replicas, executed on this broker.
#
# Docs: kafka-design-v3, kafka-fencing, kafka-procedures. Instructions are executed one at a time.
# The checks come in this order: controller epoch, which the store must have confirmed, broker
# epoch, and for each partition the topic id, the leader epoch, and whether this broker has a
# replica. Strays are removed first; then come leaders, followers, and replicas that stop. Each
# call to the data plane first ends all fetching for its partitions, so that no replica leads a
# partition that it still fetches. An instruction with digests passes the same checks, and changes
# no replica.


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
