"""Deletion of a topic: the replicas that it waits for, and those that it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.partitions.deleting import Deletion
from broker_ctl.core.partitions.instructions import (
    FAILED,
    NO_REPLICA,
    STORAGE_ERROR,
    WRONG_TOPIC_ID,
)
from broker_ctl.core.partitions.values import ReplicaStage, TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def two_partitions() -> Deletion:
    return Deletion("aa", {P0: (1, 2), P1: (2, 3)})


def test_a_deletion_is_complete_when_every_replica_is_deleted() -> None:
    deletion = two_partitions()
    assert not deletion.is_complete
    assert deletion.begin({1, 2, 3}) == {1: [P0], 2: [P0, P1], 3: [P1]}
    for broker_id, partition in ((1, P0), (2, P0), (2, P1)):
        assert not deletion.answered(broker_id, partition, None)
        assert not deletion.is_complete
    assert not deletion.answered(3, P1, None)
    assert deletion.is_complete
    assert deletion.count(ReplicaStage.DELETION_SUCCESSFUL) == 4


def test_a_dead_broker_is_not_waited_for() -> None:
    deletion = two_partitions()
    assert deletion.begin({1}) == {1: [P0]}
    assert deletion.count(ReplicaStage.DELETION_INELIGIBLE) == 3
    deletion.answered(1, P0, None)
    assert deletion.is_complete


def test_a_broker_that_dies_meanwhile_is_waited_for_no_more() -> None:
    deletion = two_partitions()
    deletion.begin({1, 2, 3})
    deletion.answered(1, P0, None)
    deletion.answered(2, P0, None)
    deletion.lost({2, 3})
    assert deletion.is_complete
    assert deletion.count(ReplicaStage.DELETION_SUCCESSFUL) == 2
    assert not deletion.answered(2, P1, FAILED), "late, and nobody waits for it"


@pytest.mark.parametrize(
    ("reason", "is_again", "stage"),
    [
        (None, False, ReplicaStage.DELETION_SUCCESSFUL),
        (NO_REPLICA, False, ReplicaStage.DELETION_SUCCESSFUL),
        (WRONG_TOPIC_ID, False, ReplicaStage.DELETION_SUCCESSFUL),
        (STORAGE_ERROR, False, ReplicaStage.DELETION_INELIGIBLE),
        (FAILED, True, ReplicaStage.DELETION_STARTED),
    ],
)
def test_an_answer_sets_the_stage_of_its_replica(
    reason: str | None, is_again: bool, stage: ReplicaStage
) -> None:
    deletion = Deletion("aa", {P0: (1,)})
    deletion.begin({1})
    assert deletion.answered(1, P0, reason) is is_again
    assert deletion.count(stage) == 1


def test_a_topic_without_replicas_is_over_at_once() -> None:
    assert Deletion("aa", {}).is_complete


EVENTS = st.one_of(
    st.tuples(
        st.just("answered"),
        st.integers(1, 4),
        st.sampled_from([P0, P1]),
        st.sampled_from([None, FAILED, STORAGE_ERROR]),
    ),
    st.tuples(st.just("lost"), st.integers(1, 4)),
)


@given(st.sets(st.integers(1, 4)), st.lists(EVENTS, max_size=30))
def test_no_order_of_events_breaks_it_and_it_always_comes_to_an_end(
    live: set[int], events: list[tuple[object, ...]]
) -> None:
    deletion = Deletion("aa", {P0: (1, 2, 3), P1: (2, 3, 4)})
    deletion.begin(live)
    for event in events:
        match event:
            case ("answered", int(broker_id), TopicPartition() as partition, reason):
                assert reason is None or isinstance(reason, str)
                deletion.answered(broker_id, partition, reason)
            case ("lost", int(broker_id)):
                deletion.lost({broker_id})
        stages = [deletion.count(stage) for stage in ReplicaStage]
        assert sum(stages) == 6
        assert min(stages) >= 0
    deletion.lost({1, 2})
    for broker_id in (3, 4):
        for partition in (P0, P1):
            deletion.answered(broker_id, partition, None)
    assert deletion.is_complete
