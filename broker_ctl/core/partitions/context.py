"""The controller's state during one term, with the sets that its events need kept up to date.

Nothing here is scanned for an event: who is led by a broker, who has a replica there, who is
offline, under-replicated or led elsewhere than preferred is known at each moment (docs:
kafka-event-queue; KAFKA-10040). It belongs to one term, and ends with it (KAFKA-5310).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from broker_ctl.core.partitions.failures import NOBODY, Failures
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import (
    DEFAULT_RULES,
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicRules,
)


class Context:
    """Brokers, topics, assignments and states of one term.

    Attributes:
        epoch: of the controller.
        brokers: those that are registered, by id.
        usable: of these, the ones that take instructions; the others count as dead where a leader
            is elected, as long as another one can be.
        silent: of the registered ones, those that have not acknowledged in time.
        leaving: about to stop: they get no leadership, and get into no ISR (controlled shutdown).
        topics: by name, as their nodes stand.
        rules: of the topics that have any of their own, completed by the settings; they are put.
        assignments: of each partition.
        states: of each partition that has been initialised.
        offline: partitions without a leader: no state, no leader, or one that is dead.
        under_replicated: partitions with fewer in sync than assigned.
        under_min_isr: partitions with fewer in sync than they ask for: nothing is committed there.
        preferring: how many partitions have each broker as their preferred one.
        led_elsewhere: of these, the ones that another broker leads, or none.
        reassigning: partitions whose reassignment is under way.
        deleting: topics whose end was asked for.
        failures: replicas that their brokers cannot serve.
        unreadable: paths of the nodes of topics and states that do not decode: as long as there
            are any, strays cannot be determined.
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
        # In the order in which they came, so that what is made of them is done in the same order
        # at every run; and nearly in that of their names, so that to sort them costs little.
        self.offline: dict[TopicPartition, None] = {}
        self.under_replicated: set[TopicPartition] = set()
        self.under_min_isr: set[TopicPartition] = set()
        self.preferring: Counter[int] = Counter()
        self.led_elsewhere: defaultdict[int, set[TopicPartition]] = defaultdict(set)
        self.reassigning: set[TopicPartition] = set()
        self.deleting: set[str] = set()
        self.unreadable: set[str] = set()
        self.failures = Failures()
        self._led_by: defaultdict[int, dict[TopicPartition, None]] = defaultdict(dict)
        self._replicas_on: defaultdict[int, dict[TopicPartition, None]] = defaultdict(dict)

    # Queries.

    def led_by(self, broker_id: int) -> Collection[TopicPartition]:
        """Partitions whose leader is this broker, alive or not; `NO_LEADER`: that have none."""
        return self._led_by.get(broker_id, {}).keys()

    def dead_brokers(self) -> list[int]:
        """Those that have replicas, and are not registered; ascending."""
        having = {broker for broker, replicas in self._replicas_on.items() if replicas}
        return sorted(having - self.brokers.keys())

    def replicas_on(self, broker_id: int) -> Collection[TopicPartition]:
        """Partitions with a replica on this broker."""
        return self._replicas_on.get(broker_id, {}).keys()

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic, none where it is not known."""
        known = self.topics.get(topic)
        return [TopicPartition(topic, number) for number in known.partitions] if known else []

    def rules_of(self, topic: str) -> TopicRules:
        """What the topic asks of its elections."""
        return self.rules.get(topic, self._default_rules)

    def live_for(self, partition: TopicPartition) -> frozenset[int]:
        """Brokers on which a replica of the partition can serve."""
        failed = self.failures.of(partition)
        return self.usable - failed if failed else self.usable

    def registered_for(self, partition: TopicPartition) -> frozenset[int]:
        """The same, with those that do not acknowledge."""
        return frozenset(self.brokers) - self.failures.of(partition)

    @property
    def imbalanced(self) -> int:
        """How many partitions are not led by their preferred replica."""
        return sum(map(len, self.led_elsewhere.values()))

    # Brokers.

    def put_brokers(self, brokers: Mapping[int, LiveBroker]) -> None:
        """All brokers that are registered now; what is led by one that is not is offline."""
        gone = self.brokers.keys() - brokers.keys()
        come = brokers.keys() - self.brokers.keys()
        self.brokers = dict(brokers)
        self.leaving &= brokers.keys()
        for broker_id in gone:
            self.failures.put(broker_id, frozenset())
            self.offline |= self._led_by[broker_id]
        for broker_id in come:
            for partition in self._led_by[broker_id]:
                self.offline.pop(partition, None)
        self.put_silent(self.silent & brokers.keys())

    def put_silent(self, silent: Collection[int]) -> None:
        """The brokers that do not acknowledge."""
        self.silent = frozenset(silent)
        self.usable = frozenset(self.brokers.keys() - self.silent)

    # Topics.

    def put_topic(self, name: str, topic: TopicAssignment) -> None:
        """A topic's node as it stands; partitions that it names no more are forgotten."""
        before = self.topics.get(name)
        self.topics[name] = topic
        for number, assignment in topic.partitions.items():
            partition = TopicPartition(name, number)
            if self.assignments.get(partition) != assignment:
                self._assign(partition, assignment)
        if before is not None:
            self._forget(
                TopicPartition(name, number)
                for number in before.partitions.keys() - topic.partitions.keys()
            )

    def put_rules(self, name: str, rules: TopicRules | None) -> None:
        """What a topic asks for, completed by the settings; None: nothing of its own."""
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
            self._replicas_on[replica].pop(partition, None)
        preferred = assignment.replicas[0] if assignment.replicas else NO_LEADER
        self.preferring[preferred] -= 1
        self.led_elsewhere[preferred].discard(partition)
        self.reassigning.discard(partition)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            assignment = self.assignments.pop(partition, None)
            if assignment is not None:
                self._unassign(partition, assignment)
            self.drop_state(partition)
            self.offline.pop(partition, None)

    # States.

    def put_state(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """A partition's state as it stands; nothing where the partition is not assigned."""
        assignment = self.assignments.get(partition)
        if assignment is None:
            return
        before = self.states.get(partition)
        self.states[partition] = state
        if before is None:
            self._led_by[state.leader][partition] = None
        elif before.leader != state.leader:
            self._led_by[before.leader].pop(partition, None)
            self._led_by[state.leader][partition] = None
        self._judge(partition, assignment, state)

    def drop_state(self, partition: TopicPartition) -> None:
        """The partition has no state (any more)."""
        before = self.states.pop(partition, None)
        if before is None:
            return
        self._led_by[before.leader].pop(partition, None)
        self.under_replicated.discard(partition)
        self.under_min_isr.discard(partition)
        assignment = self.assignments.get(partition)
        if assignment is not None and assignment.replicas:
            self.offline[partition] = None
            self.led_elsewhere[assignment.replicas[0]].add(partition)

    def _judge(
        self, partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr
    ) -> None:
        """Put the partition into the sets that it belongs to now."""
        leader, replicas, isr = state.leader, assignment.replicas, len(state.isr)
        if leader in self.brokers:
            self.offline.pop(partition, None)
        else:
            self.offline[partition] = None
        _keep(self.under_replicated, partition, isr < len(replicas))
        _keep(self.under_min_isr, partition, isr < self.rules_of(partition[0]).min_isr)
        preferred = replicas[0] if replicas else NO_LEADER
        _keep(self.led_elsewhere[preferred], partition, leader != preferred)


def _keep(into: set[TopicPartition], partition: TopicPartition, belongs: bool) -> None:
    """Have the partition in a set, or not."""
    if belongs:
        into.add(partition)
    else:
        into.discard(partition)
