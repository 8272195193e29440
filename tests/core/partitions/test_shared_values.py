"""Equal values of many partitions are one object."""

import sys

from broker_ctl.core.partitions import context as shared_values
from broker_ctl.core.partitions.context import Context, SharedValues
from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
)


def replicas(*broker_ids: int) -> tuple[int, ...]:
    return tuple(broker_ids)


def test_partitions_share_equal_assignments_and_states() -> None:
    context = Context(1)
    context.put_topic(
        "t", TopicAssignment("id", {number: Assignment(replicas(1, 2)) for number in range(2)})
    )
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    context.put_state(first, LeaderAndIsr(1, 0, replicas(1, 2), 1))
    context.put_state(second, LeaderAndIsr(1, 0, replicas(1, 2), 1))
    assert context.assignments[first] is context.assignments[second]
    assert context.topics["t"].partitions[0] is context.assignments[first]
    assert context.states[first] is context.states[second]
    context.put_state(second, LeaderAndIsr(1, 1, replicas(1, 2), 1))
    assert context.states[first].isr is context.states[second].isr


def test_the_values_that_are_remembered_are_bounded() -> None:
    shared = SharedValues[tuple[int, ...]]()
    for number in range(shared_values.MAX_KNOWN + 10):
        shared.share(replicas(number))
    assert len(shared) <= shared_values.MAX_KNOWN
    assert shared.share(replicas(0)) == (0,)


def test_an_index_that_has_become_empty_gives_its_memory_back() -> None:
    context = Context(1)
    context.put_brokers({1: LiveBroker(1, 1, "h", 1)})
    count = 1000
    context.put_topic(
        "t", TopicAssignment("id", {number: Assignment((1,)) for number in range(count)})
    )
    assert sys.getsizeof(context.offline) > count
    for number in range(count):
        context.put_state(TopicPartition("t", number), LeaderAndIsr(1, 0, (1,), 1))
    assert not context.offline
    assert sys.getsizeof(context.offline) < count
    assert sys.getsizeof(context.led_elsewhere[1]) < count
