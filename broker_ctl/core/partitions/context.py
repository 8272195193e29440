"""The controller's in-memory state during one term, with indexes for its events."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Final, Generic, TypeVar

from broker_ctl.core.partitions.placing import RackIndex
from broker_ctl.core.partitions.values import (
    DEFAULT_RULES,
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
    TopicRules,
)

# Equal values are kept once: most partitions have one of few replica lists and states.


_T = TypeVar("_T", bound=Hashable)

# More distinct values than this are not worth a table: it begins again.
MAX_KNOWN: Final = 20_000


class SharedValues(Generic[_T]):
    """The values seen so far; bounded."""

    def __init__(self) -> None:
        self._known: dict[_T, _T] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, value: _T) -> _T | None:
        """Return the equal value that was seen; None: there was none."""
        return self._known.get(value)

    def share(self, value: _T) -> _T:
        """Return the value, or the equal one that was seen first."""
        known = self._known.get(value)
        if known is not None:
            return known
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[value] = value
        return value


class SharedStates:
    """The same of states, and of the ISRs of states that differ."""

    def __init__(self) -> None:
        self._states = SharedValues[LeaderAndIsr]()
        self._isrs = SharedValues[tuple[int, ...]]()

    def share(self, state: LeaderAndIsr) -> LeaderAndIsr:
        """Return an equal state."""
        known = self._states.get(state)
        if known is not None:
            return known
        leader, leader_epoch, isr, controller_epoch, is_recovering, version = state
        return self._states.share(
            LeaderAndIsr(
                leader,
                leader_epoch,
                self._isrs.share(isr),
                controller_epoch,
                is_recovering,
                version,
            )
        )


# Failed replicas, which their brokers cannot serve, by broker and by partition.
#
# Docs: kafka-event-queue.


NOBODY: Final[frozenset[int]] = frozenset()


class Failures:
    """The newest reports of the brokers."""

    def __init__(self) -> None:
        self._by_broker: dict[int, frozenset[TopicPartition]] = {}
        self._by_partition: dict[TopicPartition, frozenset[int]] = {}

    def put(self, broker_id: int, failed: frozenset[TopicPartition]) -> None:
        """Record the replicas that a broker reports as failed."""
        before = self._by_broker.pop(broker_id, frozenset())
        if failed:
            self._by_broker[broker_id] = failed
        for partition in before - failed:
            left = self._by_partition[partition] - {broker_id}
            if left:
                self._by_partition[partition] = left
            else:
                del self._by_partition[partition]
        for partition in failed - before:
            self._by_partition[partition] = self.of(partition) | {broker_id}

    def on(self, broker_id: int) -> frozenset[TopicPartition]:
        """Return the replicas that the broker reports as failed."""
        return self._by_broker.get(broker_id, frozenset())

    def of(self, partition: TopicPartition) -> frozenset[int]:
        """Return the brokers that cannot serve their replica of the partition."""
        return self._by_partition.get(partition, NOBODY)


# The controller's in-memory state during one term, with indexes for its events.
#
# Events do not scan all partitions: the partitions that a broker leads or has replicas of, and the
# offline, under-replicated and imbalanced ones are always up to date (docs: kafka-event-queue;
# KAFKA-10040). A context belongs to one term, and is dropped with it (KAFKA-5310).


class Context:
    """Brokers, topics, assignments and states of one term.

    Attributes:
        epoch: controller epoch of the term.
        brokers: registered brokers, by id.
        usable: ids of registered brokers that acknowledge instructions; an election treats the
            others as dead, unless no usable broker can lead.
        silent: ids of registered brokers that have not acknowledged an instruction in time.
        leaving: ids of brokers in controlled shutdown: they get no leadership and join no ISR.
        topics: content of the topics' nodes, by name.
        rules: rules of topics with any of their own, completed by the settings.
        assignments: assigned replicas, by partition.
        states: leader and ISR, by partition; only for partitions that have been initialised.
        offline: partitions without a live leader: no state, no leader, or a dead one.
        under_replicated: partitions with fewer in-sync replicas than assigned ones.
        under_min_isr: partitions with fewer in-sync replicas than their min ISR: they commit
            nothing.
        preferring: number of partitions that prefer each broker as their leader.
        led_elsewhere: by preferred broker, the partitions that it does not lead.
        reassigning: partitions with a reassignment in progress.
        throttle: bytes a second that each broker may spend on replicas that reassignments add;
            None: no limit.
        deleting: topics with a deletion in progress.
        failures: replicas that their brokers cannot serve.
        racks: racks of the brokers, and the partitions that violate them.
        unreadable: paths of topic and state nodes that do not decode; while there are any, stray
            replicas cannot be determined.
    """

    def __init__(self, epoch: int, default_rules: TopicRules = DEFAULT_RULES) -> None:
        self.epoch = epoch
        self._default_rules = default_rules
        self.brokers: dict[int, LiveBroker] = {}
        self.usable: frozenset[int] = NOBODY
        self.silent: frozenset[int] = NOBODY
        self.leaving: set[int] = set()
        self.topics: dict[str, TopicAssignment] = {}
        self.rules: dict[str, TopicRules] = {}
        self.assignments: dict[TopicPartition, Assignment] = {}
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        # A dict instead of a set: its order is the same in every run, and nearly that of the names,
        # which makes sorting cheap.
        self.offline: dict[TopicPartition, None] = {}
        self.under_replicated: set[TopicPartition] = set()
        self.under_min_isr: set[TopicPartition] = set()
        self.preferring: Counter[int] = Counter()
        self.led_elsewhere: defaultdict[int, set[TopicPartition]] = defaultdict(set)
        self.reassigning: set[TopicPartition] = set()
        self.throttle: int | None = None
        self.deleting: set[str] = set()
        self.unreadable: set[str] = set()
        self.failures = Failures()
        self.racks = RackIndex()
        self._shared_assignments = SharedValues[Assignment]()
        self._shared_states = SharedStates()
        self._led_by: defaultdict[int, dict[TopicPartition, None]] = defaultdict(dict)
        self._replicas_on: defaultdict[int, dict[TopicPartition, None]] = defaultdict(dict)

    # Queries.

    def led_by(self, broker_id: int) -> Collection[TopicPartition]:
        """Return partitions led by this broker, alive or not; for `NO_LEADER` the leaderless."""
        return self._led_by.get(broker_id, {}).keys()

    def dead_brokers(self) -> list[int]:
        """Return ids of brokers that have replicas but are not registered, ascending."""
        having = {broker for broker, replicas in self._replicas_on.items() if replicas}
        return sorted(having - self.brokers.keys())

    def replicas_on(self, broker_id: int) -> Collection[TopicPartition]:
        """Return the partitions with a replica on this broker."""
        return self._replicas_on.get(broker_id, {}).keys()

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return all partitions of a topic; none if the topic is unknown."""
        known = self.topics.get(topic)
        return [TopicPartition(topic, number) for number in known.partitions] if known else []

    def rules_of(self, topic: str) -> TopicRules:
        """Return the topic's rules of elections."""
        return self.rules.get(topic, self._default_rules)

    def live_for(self, partition: TopicPartition) -> frozenset[int]:
        """Return usable brokers on which a replica of the partition can serve."""
        failed = self.failures.of(partition)
        return self.usable - failed if failed else self.usable

    def registered_for(self, partition: TopicPartition) -> frozenset[int]:
        """Return the brokers of `live_for`, and those that do not acknowledge instructions."""
        return frozenset(self.brokers) - self.failures.of(partition)

    @property
    def imbalanced(self) -> int:
        """Return the number of partitions that their preferred replica does not lead."""
        return sum(map(len, self.led_elsewhere.values()))

    # Brokers.

    def put_brokers(self, brokers: Mapping[int, LiveBroker]) -> None:
        """Set all registered brokers; partitions led by any other broker become offline."""
        gone = self.brokers.keys() - brokers.keys()
        come = brokers.keys() - self.brokers.keys()
        self.brokers = dict(brokers)
        self.leaving &= brokers.keys()
        for broker_id in gone:
            self.failures.put(broker_id, frozenset())
            self.offline |= self._led_by[broker_id]
        for broker_id in come:
            for partition in self._led_by[broker_id]:
                _drop(self.offline, partition)
        self.put_silent(self.silent & brokers.keys())
        self.racks.put_brokers(brokers.values(), self.assignments, self.replicas_on)

    def put_silent(self, silent: Collection[int]) -> None:
        """Set the brokers that do not acknowledge instructions."""
        self.silent = frozenset(silent)
        self.usable = frozenset(self.brokers.keys() - self.silent)

    # Topics.

    def put_topic(self, name: str, topic: TopicAssignment) -> None:
        """Set the content of a topic's node; forgets partitions that the node no longer names."""
        before = self.topics.get(name)
        share = self._shared_assignments.share
        shared = {number: share(assignment) for number, assignment in topic.partitions.items()}
        self.topics[name] = replace(topic, partitions=shared)
        for number, assignment in shared.items():
            partition = TopicPartition(name, number)
            if self.assignments.get(partition) != assignment:
                self._assign(partition, assignment)
        if before is not None:
            self._forget(
                TopicPartition(name, number) for number in before.partitions.keys() - shared.keys()
            )

    def put_rules(self, name: str, rules: TopicRules | None) -> None:
        """Set a topic's own rules, completed by the settings; None: it has none of its own."""
        if rules is None:
            self.rules.pop(name, None)
        else:
            self.rules[name] = rules
        least = self.rules_of(name).min_isr
        for partition in self.partitions_of(name):
            state = self.states.get(partition)
            _keep(self.under_min_isr, partition, state is not None and len(state.isr) < least)

    def forget_topic(self, name: str) -> None:
        """Remove a topic, if it is known."""
        self._forget(self.partitions_of(name))
        self.topics.pop(name, None)
        self.rules.pop(name, None)
        self.deleting.discard(name)

    def _assign(self, partition: TopicPartition, assignment: Assignment) -> None:
        before = self.assignments.get(partition)
        if before is not None:
            self._unassign(partition, before)
        self.assignments[partition] = assignment
        self.racks.judge(partition, assignment)
        for replica in assignment.replicas:
            self._replicas_on[replica][partition] = None
        preferred = assignment.replicas[0] if assignment.replicas else NO_LEADER
        self.preferring[preferred] += 1
        if assignment.is_reassigning:
            self.reassigning.add(partition)
        state = self.states.get(partition)
        if state is None:
            self.offline[partition] = None
            self.led_elsewhere[preferred].add(partition)
        else:
            self._judge(partition, assignment, state)

    def _unassign(self, partition: TopicPartition, assignment: Assignment) -> None:
        for replica in assignment.replicas:
            _drop(self._replicas_on[replica], partition)
        preferred = assignment.replicas[0] if assignment.replicas else NO_LEADER
        self.preferring[preferred] -= 1
        self.led_elsewhere[preferred].discard(partition)
        self.reassigning.discard(partition)
        self.racks.forget(partition)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            assignment = self.assignments.pop(partition, None)
            if assignment is not None:
                self._unassign(partition, assignment)
            self.drop_state(partition)
            _drop(self.offline, partition)

    # States.

    def put_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """Set a partition's state; does nothing if the partition is not assigned."""
        assignment = self.assignments.get(partition)
        if assignment is None:
            return
        before = self.states.get(partition)
        self.states[partition] = self._shared_states.share(state)
        if before is None:
            self._led_by[state.leader][partition] = None
        elif before.leader != state.leader:
            _drop(self._led_by[before.leader], partition)
            self._led_by[state.leader][partition] = None
        self._judge(partition, assignment, state)

    def drop_state(self, partition: TopicPartition) -> None:
        """Remove a partition's state."""
        before = self.states.pop(partition, None)
        if before is None:
            return
        _drop(self._led_by[before.leader], partition)
        self.under_replicated.discard(partition)
        self.under_min_isr.discard(partition)
        assignment = self.assignments.get(partition)
        if assignment is not None and assignment.replicas:
            self.offline[partition] = None
            self.led_elsewhere[assignment.replicas[0]].add(partition)

    def _judge(
        self, partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr
    ) -> None:
        """Update the partition's membership in the index sets."""
        leader, replicas, isr = state.leader, assignment.replicas, len(state.isr)
        if leader in self.brokers:
            _drop(self.offline, partition)
        else:
            self.offline[partition] = None
        _keep(self.under_replicated, partition, isr < len(replicas))
        _keep(self.under_min_isr, partition, isr < self.rules_of(partition[0]).min_isr)
        preferred = replicas[0] if replicas else NO_LEADER
        _keep(self.led_elsewhere[preferred], partition, leader != preferred)


def _keep(into: set[TopicPartition], partition: TopicPartition, belongs: bool) -> None:
    """Add the partition to a set, or remove it."""
    if belongs:
        into.add(partition)
    elif partition in into:
        into.discard(partition)
        if not into:
            into.clear()  # otherwise an empty set keeps the memory of its largest size


def _drop(of: dict[TopicPartition, None], partition: TopicPartition) -> None:
    """Remove the partition, if it is there; as `_keep`."""
    if partition in of:
        del of[partition]
        if not of:
            of.clear()
