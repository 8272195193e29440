"""A batch of new states: the operations to write, and the requests to brokers.

Most of the time of a failover is spent here: plain loops over tuples, and each partition is encoded
once for all its replicas (docs: kafka-procedures).
"""

from broker_ctl.controller.transport.messages import RequestsByBroker, encode_update
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.instructions import ReplicaState
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import Create, Operation, SetData
from broker_ctl.store.records.partitions import encode_state


class StateBatch:
    """New states that are written in one transaction.

    Attributes:
        partitions, states: the states after the write, versions included.
        operations: the last one of a partition writes its state.
        owners: the partition of each operation.
        requests: updates for the live replicas.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.partitions: list[TopicPartition] = []
        self.states: list[LeaderAndIsr] = []
        self.operations: list[Operation] = []
        self.owners: list[TopicPartition] = []
        self.requests: RequestsByBroker = {}

    def set(self, partition: TopicPartition, assignment: Assignment, elected: LeaderAndIsr) -> None:
        """Add a new state; ``elected`` carries the version that it replaces."""
        leader, leader_epoch, isr, controller_epoch, is_recovering, version = elected
        written = LeaderAndIsr(
            leader, leader_epoch, isr, controller_epoch, is_recovering, version + 1
        )
        path = partition_paths.leader_and_isr(partition)
        self.operations.append(SetData(path, encode_state(elected), version))
        self.owners.append(partition)
        self._add(partition, assignment, written)

    def create(
        self,
        partition: TopicPartition,
        assignment: Assignment,
        first: LeaderAndIsr,
        *,
        has_parent: bool,
    ) -> None:
        """Add the first state of a partition."""
        if not has_parent:
            self.operations.append(Create(partition_paths.partition(partition)))
            self.owners.append(partition)
        path = partition_paths.leader_and_isr(partition)
        self.operations.append(Create(path, encode_state(first)))
        self.owners.append(partition)
        self._add(partition, assignment, first._replace(version=0))

    def _add(self, partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr) -> None:
        self.partitions.append(partition)
        self.states.append(state)
        add_update(self.requests, self._context, partition, assignment, state)


def add_update(
    by_broker: RequestsByBroker,
    context: Context,
    partition: TopicPartition,
    assignment: Assignment,
    state: LeaderAndIsr,
) -> None:
    """Add a partition's update to the requests of its live replicas."""
    named = announced_replicas(context, assignment, state)
    request = encode_update(replica_state(context, partition, state, named))
    brokers = context.brokers
    for replica in named:
        if replica in brokers:
            requests = by_broker.get(replica)
            if requests is None:
                by_broker[replica] = {partition: request}
            else:
                requests[partition] = request


def announced_replicas(
    context: Context, assignment: Assignment, state: LeaderAndIsr
) -> tuple[int, ...]:
    """The replicas that may be in sync, sent to the leader as its replicas.

    A stopping broker is not admitted to an ISR that it is not in (KIP-841): it fetches no more,
    and the leader would wait for it.
    """
    leaving, replicas = context.leaving, assignment.replicas
    if not leaving:
        return replicas
    return tuple([each for each in replicas if each not in leaving or each in state.isr])


def replica_state(
    context: Context, partition: TopicPartition, state: LeaderAndIsr, named: tuple[int, ...]
) -> ReplicaState:
    """What the replicas of a partition are sent."""
    topic = partition[0]
    topic_id, min_isr = context.topics[topic].topic_id, context.rules_of(topic).min_isr
    adding = context.assignments[partition].adding if partition in context.reassigning else ()
    return ReplicaState(partition, topic_id, state, named, min_isr, adding)
