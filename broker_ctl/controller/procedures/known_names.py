"""What an operator names, held against what the controller knows."""

from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import NO_LEADER
from broker_ctl.errors import TopicMissing


def check_topic(context: Context, topic: str) -> None:
    """Judge a name.

    Raises:
        TopicMissing: there is no such topic, or it is being deleted.
    """
    if topic in context.topics:
        return
    if topic in context.deleting:
        raise TopicMissing(f"{topic} is being deleted")
    raise TopicMissing(f"there is no topic {topic}")


def check_partition(context: Context, partition: TopicPartition) -> None:
    """Judge a partition; as `check_topic`."""
    check_topic(context, partition.topic)
    if partition not in context.assignments:
        raise TopicMissing(f"there is no partition {partition}")


def leader_of(context: Context, partition: TopicPartition) -> int:
    """Who leads it by its state, or `NO_LEADER`."""
    state = context.states.get(partition)
    return NO_LEADER if state is None else state.leader
