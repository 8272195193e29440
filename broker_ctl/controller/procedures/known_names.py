"""Checks the names in an operator's request against the controller's state."""

from collections.abc import Iterable, Mapping, Sequence

from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.reassigning import fault_of_target
from broker_ctl.core.partitions.replanning import replan
from broker_ctl.core.partitions.replica_lists import fault_of
from broker_ctl.core.partitions.values import NO_LEADER
from broker_ctl.errors import InvalidReplicas, ReassignmentMissing, TopicMissing

Targets = Mapping[TopicPartition, tuple[int, ...]]


def check_topic(context: Context, topic: str) -> None:
    """Check that a topic exists.

    Raises:
        TopicMissing: there is no such topic, or it is being deleted.
    """
    if topic in context.topics:
        return
    if topic in context.deleting:
        raise TopicMissing(f"{topic} is being deleted")
    raise TopicMissing(f"there is no topic {topic}")


def check_partition(context: Context, partition: TopicPartition) -> None:
    """Check that a partition exists; raises as `check_topic`."""
    check_topic(context, partition.topic)
    if partition not in context.assignments:
        raise TopicMissing(f"there is no partition {partition}")


def check_targets(context: Context, targets: Targets) -> None:
    """Judge replicas that partitions are to have.

    Raises:
        TopicMissing, InvalidReplicas: as named.
    """
    for partition, target in targets.items():
        check_partition(context, partition)
        min_isr = context.rules_of(partition.topic).min_isr
        fault = fault_of_target(target, context.assignments[partition], context.brokers, min_isr)
        if fault is not None:
            raise InvalidReplicas(f"{partition} {fault}")


def check_reassigning(context: Context) -> None:
    """Require that a reassignment is in progress.

    Raises:
        ReassignmentMissing: there is none.
    """
    if not context.reassigning:
        raise ReassignmentMissing("no reassignment is in progress")


def origins_of(context: Context, partitions: Iterable[TopicPartition]) -> Targets:
    """Where partitions came from; none: all that are under way.

    Raises:
        ReassignmentMissing: one of them is not under way.
    """
    chosen = list(partitions) or list(context.reassigning)
    for partition in chosen:
        if partition not in context.reassigning:
            raise ReassignmentMissing(f"{partition} is not being reassigned")
    return {partition: context.assignments[partition].origin for partition in chosen}


def replanned(
    context: Context, topics: Iterable[str], brokers: Sequence[int]
) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    """Replicas for the partitions of topics, evenly over brokers and racks: those that change.

    Raises:
        TopicMissing, InvalidReplicas: as named.
    """
    if (fault := fault_of(brokers, context.brokers)) is not None:
        raise InvalidReplicas(f"the list of brokers {fault}")
    before: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in topics:
        check_topic(context, topic)
        for partition in context.partitions_of(topic):
            before[partition] = context.assignments[partition].target
    after = replan(before, brokers, context.racks.racks)
    return [(each, after[each]) for each in sorted(after) if after[each] != before[each]]


def leader_of(context: Context, partition: TopicPartition) -> int:
    """The leader of a partition by its state, or `NO_LEADER`."""
    state = context.states.get(partition)
    return NO_LEADER if state is None else state.leader
