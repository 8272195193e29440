"""A batch of new states on its way: what is written, and who is told what.

This is where the time of a failover goes: plain loops over tuples, and each partition is encoded
once, whoever hears of it (docs: kafka-procedures).
"""

from broker_ctl.controller.transport.messages import Mail, PartitionRequest, entry
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
        partitions, states: as they will stand once it is done, versions included.
        operations: of a partition, the last one tells its state.
        owners: whose operation each is.
        mail: who is to hear of it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.partitions: list[TopicPartition] = []
        self.states: list[LeaderAndIsr] = []
        self.operations: list[Operation] = []
        self.owners: list[TopicPartition] = []
        self.mail: Mail = {}

    def set(self, partition: TopicPartition, assignment: Assignment, elected: LeaderAndIsr) -> None:
        """Another state; it bears the version of the one that it takes the place of."""
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
        """The first state of a partition."""
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
        address(self.mail, self._context, partition, assignment, state)


def address(
    mail: Mail,
    context: Context,
    partition: TopicPartition,
    assignment: Assignment,
    state: LeaderAndIsr,
) -> None:
    """Put a partition's entry into the mail of all that it names and that live."""
    named = named_in_letter(context, assignment, state)
    letter = letter_of(context, partition, state, named)
    brokers = context.brokers
    for replica in named:
        if replica in brokers:
            lot = mail.get(replica)
            if lot is None:
                mail[replica] = {partition: letter}
            else:
                lot[partition] = letter


def named_in_letter(
    context: Context, assignment: Assignment, state: LeaderAndIsr
) -> tuple[int, ...]:
    """The replicas that may be in sync, which is what a leader is told as its replicas.

    A broker that is about to stop is not let into an ISR that it is not in (KIP-841): the leader
    would wait for it from then on, and it fetches no more.
    """
    leaving, replicas = context.leaving, assignment.replicas
    if not leaving:
        return replicas
    return tuple([each for each in replicas if each not in leaving or each in state.isr])


def letter_of(
    context: Context, partition: TopicPartition, state: LeaderAndIsr, named: tuple[int, ...]
) -> PartitionRequest:
    """A partition's entry."""
    topic = partition[0]
    topic_id, min_isr = context.topics[topic].topic_id, context.rules_of(topic).min_isr
    return entry(ReplicaState(partition, topic_id, state, named, min_isr))
