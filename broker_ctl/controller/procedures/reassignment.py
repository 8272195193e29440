"""Reassignment of partitions to other replicas (docs: kafka-design-v3, kafka-reassignment)."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from broker_ctl.controller.procedures.procedure import Alarm, ControllerContext, make_parents
from broker_ctl.controller.state.batch_writer import CHUNK
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.store.loader import READS, pipelined, read_nodes
from broker_ctl.controller.transport.messages import StopResponse
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions import elections
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.elections import Election, ElectionRefusal, RefusedElection
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.reassigning import (
    NOTHING_ANNOUNCED,
    Announce,
    Finish,
    ReassignmentProgress,
    Settle,
    Step,
    begun,
    fault_of_target,
    is_undone,
    next_step,
)
from broker_ctl.core.partitions.values import (
    Assignment,
    BrokersChanged,
    LeaderAndIsr,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NodeExists,
    NoNode,
    OrderConflict,
    StoreError,
    TopicMissing,
)
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import (
    Check,
    Create,
    Delete,
    MetadataStore,
    Operation,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.paths import BROKER_DEFAULTS
from broker_ctl.store.records.partitions import (
    decode_configuration,
    decode_request,
    decode_throttle,
    encode_configuration,
    encode_request,
    with_throttle,
)

log = logging.getLogger(__name__)

# Nodes with which operators request reassignments: read, validated and deleted.
#
# A request is `/brokers/partitions_reassigned/T/P`. It is deleted with the final assignment, or at
# once if it is not valid, which is logged (docs: kafka-paths, kafka-reassignment; KAFKA-9478: a
# request that stays behind must not hide later ones).


class ReassignmentRequest(NamedTuple):
    """A request; ``version`` is that of its node."""

    target: tuple[int, ...]
    version: int


class ReassignmentRequests:
    """Pending requests as of the last read."""

    def __init__(self, store: MetadataStore, context: Context, state_changer: StateChanger) -> None:
        self._store = store
        self._context = context
        self._state_changer = state_changer
        self.pending: dict[TopicPartition, ReassignmentRequest] = {}

    async def read(self) -> None:
        """Read all requests; invalid ones are deleted, as are parents of past ones."""
        self.pending = {}
        topics = await self._store.children(partition_paths.REASSIGNED)
        parents, empty = await self._parents([f"{partition_paths.REASSIGNED}/{t}" for t in topics])
        paths: list[str] = []

        async def list_below(parent: str) -> None:
            numbers = await self._store.children(parent)
            paths.extend(f"{parent}/{number}" for number in numbers)
            if not numbers and _is_past(await self._store.exists(parent)):
                empty.append(parent)

        await pipelined(parents, list_below, "topics of requests")

        async def read(batch: list[str]) -> None:
            for path, node in zip(batch, await read_nodes(self._store, batch), strict=True):
                await self._add(path, node)

        await pipelined(batched(paths, READS), read, "requests")
        await pipelined(batched(empty, CHUNK), self._remove_parents, "parents of requests")

    async def _parents(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """Parents that may have requests, and those whose requests are gone.

        They are read many at a time, and only the former are listed.
        """
        used: list[str] = []
        empty: list[str] = []

        async def look(batch: list[str]) -> None:
            for path, node in zip(batch, await read_nodes(self._store, batch), strict=True):
                if not isinstance(node, Versioned) or node.stat.children_count:
                    used.append(path)
                elif _is_past(node.stat):
                    empty.append(path)

        await pipelined(batched(paths, READS), look, "parents of requests")
        return used, empty

    async def _remove_parents(self, paths: Sequence[str]) -> None:
        """Delete parents without requests, all of them or, if one has changed, one by one."""
        if await self._remove([Delete(path) for path in paths]) or len(paths) == 1:
            return
        for path in paths:
            await self._remove([Delete(path)])

    async def _add(self, path: str, node: Versioned | StoreError | None) -> None:
        if node is None:
            return
        partition = partition_paths.partition_of_request(path)
        if isinstance(node, StoreError) or partition is None:
            log.warning("ignored %s: it is not a readable request", path)
            return
        try:
            request = ReassignmentRequest(decode_request(node), node.stat.version)
        except CorruptRecord as error:
            await self._refuse(path, node.stat.version, str(error))
            return
        assignment = self._context.assignments.get(partition)
        if assignment is None:
            # The topic may be new, with its own event still queued, or about to be deleted.
            if await self._is_unknown(partition):
                await self._refuse(path, request.version, f"there is no partition {partition}")
            return
        min_isr = self._context.rules_of(partition.topic).min_isr
        fault = fault_of_target(request.target, assignment, self._context.brokers, min_isr)
        if fault is not None:
            await self._refuse(path, request.version, f"it {fault}")
            return
        self.pending[partition] = request

    async def _is_unknown(self, partition: TopicPartition) -> bool:
        if partition.topic in self._context.topics:
            return True
        return await self._store.exists(partition_paths.topic(partition.topic)) is None

    async def _refuse(self, path: str, version: int, why: str) -> None:
        log.warning("the request %s is refused and deleted: %s", path, why)
        await self._remove([Delete(path, version)])

    async def _remove(self, operations: Sequence[Operation]) -> bool:
        try:
            await self._state_changer.write(operations)
        except MultiFailed as error:
            # The node is gone, replaced or not empty: the next read will show it.
            log.debug("cannot delete a request: %s; reading requests again", error)
            return False
        return True

    # New requests.

    async def put(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """Write requests, each replacing a pending one.

        Raises:
            MultiFailed: another client writes them too; some may have been written.
        """
        await self.read()
        for topic in sorted({partition.topic for partition in targets}):
            parent = f"{partition_paths.reassigned_topic(topic)}/0"
            await make_parents(self._store, self._state_changer, parent)
        for batch in batched(sorted(targets), CHUNK):
            await self._state_changer.write([self._put(each, targets[each]) for each in batch])
        await self.read()

    def _put(self, partition: TopicPartition, target: tuple[int, ...]) -> Operation:
        path, data = partition_paths.reassigned(partition), encode_request(target)
        pending = self.pending.get(partition)
        if pending is None:
            return Create(path, data)
        return SetData(path, data, pending.version)


def _is_past(stat: Stat | None) -> bool:
    """Whether an empty parent had requests: any other was just created for the next one."""
    return stat is not None and stat.cversion > 0


# The throttle of replicas that reassignments add (Kafka: leader and follower throttled rates).
#
# Its only state is Kafka's configuration of all brokers, which each broker reads by itself: it
# survives the controller. Which replicas it applies to follows from the topics' nodes. It goes
# with the last reassignment; a controller that takes over looks for it, since the one before may
# have died in between.


class ReassignmentThrottle:
    """The throttle in one term; ``context.throttle`` is the one that was read last."""

    def __init__(self, store: MetadataStore, context: Context, state_changer: StateChanger) -> None:
        self._store = store
        self._context = context
        self._state_changer = state_changer
        # Version (mzxid) of the node that was found to be unreadable last: it is named once.
        self._reported_zxid = 0

    async def read(self) -> None:
        """Read it; one that cannot be read leaves the one before."""
        node = await self._store.get(BROKER_DEFAULTS)
        try:
            self._context.throttle = None if node is None else decode_throttle(node)
        except CorruptRecord as error:
            self._report(node, f"ignored a throttle: {error}")

    async def end(self) -> None:
        """Remove it with the last reassignment; a node that cannot be read is left alone."""
        if self._context.throttle is None:
            return
        try:
            await self.put(None)
        except OrderConflict as error:
            node = await self._store.get(BROKER_DEFAULTS)
            self._report(node, f"a throttle is left in place: {error}")

    def _report(self, node: Versioned | None, text: str) -> None:
        """Warn once for each version of the node."""
        zxid = 0 if node is None else node.stat.mzxid
        if zxid != self._reported_zxid:
            self._reported_zxid = zxid
            log.warning("%s", text)

    async def put(self, rate: int | None) -> None:
        """Change it; None: remove it.

        Raises:
            OrderConflict: the node cannot be read.
        """
        before = self._context.throttle
        while True:
            if rate is not None:
                await make_parents(self._store, self._state_changer, BROKER_DEFAULTS)
            write = self._write(await self._store.get(BROKER_DEFAULTS), rate)
            try:
                if write is not None:
                    await self._state_changer.write([write])
            except Ambiguous:
                continue  # the next read shows whether it was written
            except MultiFailed as error:
                if not isinstance(error.cause, BadVersion | NodeExists | NoNode):
                    raise
                continue  # another client has written it
            break
        self._context.throttle = rate
        if rate != before:
            log.info("throttle of replicas that are added: %s, was %s", _text(rate), _text(before))

    def _write(self, node: Versioned | None, rate: int | None) -> Operation | None:
        """The write that leads to the rate; None: nothing has to be written."""
        try:
            before = {} if node is None else decode_configuration(node)
        except CorruptRecord as error:
            raise OrderConflict(f"{error}: correct it, or delete the node") from None
        after = with_throttle(before, rate)
        if after == before:
            return None
        if node is None:
            return Create(BROKER_DEFAULTS, encode_configuration(after))
        if not after:
            return Delete(BROKER_DEFAULTS, node.stat.version)
        return SetData(BROKER_DEFAULTS, encode_configuration(after), node.stat.version)


def _text(rate: int | None) -> str:
    return "none" if rate is None else f"{rate} bytes/s"


# Reassignment of partitions to other replicas (docs: kafka-design-v3, kafka-reassignment).
#
# `core/partitions/reassigning.py` decides on the next step from the stored state and from the
# updates that this controller has sent. It decides again whenever an ISR, a broker or a request
# changes; nothing is polled. Many partitions of a topic, which share its node, are written at
# once (KAFKA-6617).


# Delay before ending, so that partitions that come into sync together are written together.
_PAUSE_S: Final = 0.2

Assignments = Mapping[TopicPartition, Assignment]
# Assignments by topic and partition.
Wanted = Mapping[str, dict[TopicPartition, Assignment]]


class Reassignments:
    """`Procedure`: the reassignments of one term.

    Attributes:
        throttle: of the replicas that they add.
    """

    def __init__(self, controller: ControllerContext) -> None:
        self._context = controller.context
        self._state_changer = controller.state_changer
        self._alarm = Alarm(controller, "reassignments", self._advance_all)
        self.requests = ReassignmentRequests(
            controller.store, controller.context, controller.state_changer
        )
        self.throttle = ReassignmentThrottle(
            controller.store, controller.context, controller.state_changer
        )
        self._announced: dict[TopicPartition, ReassignmentProgress] = {}

    async def resume(self) -> None:
        """See `Procedure`."""
        await self.on_requests_changed()

    async def on_requests_changed(self) -> None:
        """See `Procedure`."""
        await self.throttle.read()
        await self.requests.read()
        await self.advance([*self.requests.pending, *self._context.reassigning])

    async def on_brokers_changed(self, changed: BrokersChanged) -> None:  # noqa: ARG002
        """See `Procedure`."""
        await self.advance(self._context.reassigning)

    async def on_topics_changed(self, topics: Collection[str]) -> None:
        """See `Procedure`: requests may be older than the topic that they name."""
        if topics:
            await self.on_requests_changed()

    async def on_states_changed(self, partitions: Collection[TopicPartition]) -> None:
        """See `Procedure`."""
        if not self._context.reassigning.isdisjoint(partitions):
            self._alarm.set(_PAUSE_S)

    async def on_stop_responses(self, answers: Sequence[StopResponse]) -> None:
        """See `Procedure`: the next full instruction removes remaining replicas as strays."""

    async def request(
        self, targets: Mapping[TopicPartition, tuple[int, ...]], throttle: int | None = None
    ) -> None:
        """Write requests, and start them, under a new throttle or, without one, under the old."""
        if throttle is not None:
            await self.throttle.put(throttle)
        await self.requests.put(targets)
        await self.advance(targets)

    async def advance(self, partitions: Iterable[TopicPartition]) -> None:
        """Execute the possible next steps of the partitions; the last one removes the throttle."""
        each_once = sorted(set(partitions))
        is_begun = await self._begin(each_once)
        await self._announce(each_once)
        if not (await self._end(each_once) and is_begun):
            self._alarm.set(_PAUSE_S)
        if not (self._context.reassigning or self.requests.pending):
            await self.throttle.end()

    async def _advance_all(self) -> None:
        await self.advance([*self.requests.pending, *self._context.reassigning])

    # Start.

    async def _begin(self, partitions: Iterable[TopicPartition]) -> bool:
        """Write original and target replicas of new requests (U1); false as in `_end`."""
        wanted: defaultdict[str, dict[TopicPartition, Assignment]] = defaultdict(dict)
        for partition in partitions:
            before = self._context.assignments.get(partition)
            request = self.requests.pending.get(partition)
            if before is not None and request is not None and request.target != before.target:
                wanted[partition.topic][partition] = begun(before, request.target)
        is_done = await self._announce_undone(wanted)
        for topic, assignments in wanted.items():
            if not assignments:
                continue
            # A request that only reorders the replicas ends here.
            ended = [each for each, of in assignments.items() if not of.is_reassigning]
            if await self._write(topic, assignments, {}, ended):
                log.info("topic %s: reassigning %d partitions", topic, len(assignments))
                for partition in assignments:
                    self._announced.pop(partition, None)
            else:
                is_done = False
        return is_done

    async def _announce_undone(self, wanted: Wanted) -> bool:
        """Send updates to the replicas of partitions without a next step; the others wait."""
        known = self._context.assignments
        undone = [
            partition
            for assignments in wanted.values()
            for partition, after in assignments.items()
            if is_undone(known[partition], after) and partition in self._context.states
        ]
        if not undone:
            return True
        changes = await self._state_changer.change(undone, self._bump, "reassignment undone")
        for partition in set(undone).difference(changes.changed):
            del wanted[partition.topic][partition]  # handled in the next round
        return len(changes.changed) == len(undone)

    async def _announce(self, partitions: Iterable[TopicPartition]) -> None:
        """Send updates to all replicas, under the next leader epoch (A1)."""
        news = [each for each in partitions if isinstance(self._step(each), Announce)]
        if news:
            changes = await self._state_changer.change(news, self._bump, "reassignment begun")
            for partition in changes.changed:
                self._announced[partition] = ReassignmentProgress(is_announced=True)

    def _bump(self, _: TopicPartition, __: Assignment, state: LeaderAndIsr) -> Election:
        return elections.bump_epoch(state, self._context.epoch)

    def _step(self, partition: TopicPartition) -> Step | None:
        """The next step; None: the partition is not reassigned, or never had a leader."""
        context = self._context
        if partition not in context.reassigning or partition not in context.states:
            return None
        return next_step(
            context.assignments[partition],
            context.states[partition],
            context.live_for(partition),
            context.epoch,
            self._announced.get(partition, NOTHING_ANNOUNCED),
        )

    # End.

    async def _end(self, partitions: Iterable[TopicPartition]) -> bool:
        """End the reassignments that are ready; false if one has to be retried after a conflict."""
        ready: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            if self._is_ready(partition):
                ready[partition.topic].append(partition)
        is_done = True
        for topic, of_topic in ready.items():
            for chunk in batched(of_topic, CHUNK):
                is_done &= await self._end_chunk(topic, chunk)
        return is_done

    def _is_ready(self, partition: TopicPartition) -> bool:
        context, request = self._context, self.requests.pending.get(partition)
        assignment = context.assignments.get(partition)
        if assignment is None or (request is not None and request.target != assignment.target):
            return False  # the request has another target: that one is started first
        if not assignment.is_reassigning:
            return request is not None
        # A partition that never had a leader has nothing to copy.
        is_new = partition not in context.states
        return is_new or isinstance(self._step(partition), Settle | Finish)

    async def _end_chunk(self, topic: str, chunk: list[TopicPartition]) -> bool:
        """Settle and finish partitions of one topic; false if one has to be retried."""
        context = self._context
        before = {partition: context.assignments[partition] for partition in chunk}
        await self._settle(
            topic,
            {each: of for each, of in before.items() if isinstance(self._step(each), Settle)},
        )
        ended = {
            partition: Assignment(assignment.target)
            for partition, assignment in before.items()
            if partition not in context.states
            or not assignment.is_reassigning
            or isinstance(self._step(partition), Finish)
        }
        states = {each: context.states[each] for each in ended if each in context.states}
        if not await self._write(topic, ended, states, ended):
            return False
        # Only after the update was sent to the leader (B5, KAFKA-1170).
        topic_id = context.topics[topic].topic_id
        await self._state_changer.stop_replicas(
            _stops(topic_id, {each: before[each] for each in ended}, states)
        )
        await self._state_changer.initialise(ended.keys() - states.keys(), "replicas reassigned")
        log.info("topic %s: %d partitions have been reassigned", topic, len(ended))
        return len(ended) == len(chunk)

    async def _settle(self, topic: str, moving: Assignments) -> None:
        """Reduce the leader and the ISR to the target replicas, and send them updates (B3, B4)."""
        if not moving:
            return
        context = self._context

        def settled(partition: TopicPartition, _: Assignment, state: LeaderAndIsr) -> Election:
            live = context.live_for(partition)
            step = next_step(moving[partition], state, live, context.epoch, NOTHING_ANNOUNCED)
            return (
                step.state
                if isinstance(step, Settle)
                else RefusedElection(ElectionRefusal.NONE_IN_TARGET)
            )

        written = context.topics[topic]
        # Updates from here on name the target replicas only (B2).
        targets = {each: Assignment(of.target) for each, of in moving.items()}
        context.put_topic(topic, _with(written, targets))
        try:
            changes = await self._state_changer.change(moving, settled, "replicas reassigned")
        finally:
            context.put_topic(topic, written)
        for partition, state in changes.changed.items():
            self._announced[partition] = ReassignmentProgress(
                is_announced=True, settled_epoch=state.leader_epoch
            )

    # Writes.

    async def _write(
        self,
        topic: str,
        assignments: Assignments,
        states: Mapping[TopicPartition, LeaderAndIsr],
        ended: Collection[TopicPartition],
    ) -> bool:
        """Write the topic's node if the states are unchanged, and delete the ended requests.

        Returns False if another client wrote first; the nodes were then read again.
        """
        pending = self.requests.pending
        operations: list[Operation] = [
            Check(partition_paths.leader_and_isr(partition), state.version)
            for partition, state in states.items()
        ]
        operations += [
            Delete(partition_paths.reassigned(partition), pending[partition].version)
            for partition in ended
            if partition in pending
        ]

        try:
            await self._state_changer.change_topic(
                topic, lambda node: _with(node, assignments), operations
            )
        except (MultiFailed, TopicMissing) as error:
            log.info("topic %s: cannot write its reassignment: %s; retrying", topic, error)
            await self._state_changer.refresh(list(states))
            await self.requests.read()
            return False
        for partition in ended:
            pending.pop(partition, None)
        return True


def _with(topic: TopicAssignment, assignments: Assignments) -> TopicAssignment:
    partitions = {partition.partition: of for partition, of in assignments.items()}
    return replace(topic, partitions={**topic.partitions, **partitions})


def _stops(
    topic_id: str, moved: Assignments, states: Mapping[TopicPartition, LeaderAndIsr]
) -> dict[int, list[ReplicaStop]]:
    """Stops of the replicas that were removed, by broker."""
    stops: defaultdict[int, list[ReplicaStop]] = defaultdict(list)
    for partition, assignment in moved.items():
        leader_epoch = states[partition].leader_epoch if partition in states else 0
        stop = ReplicaStop(partition, topic_id, leader_epoch, is_deleted=True)
        for broker_id in assignment.removing:
            stops[broker_id].append(stop)
    return stops
