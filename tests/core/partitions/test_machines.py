"""The stages of partitions and replicas: the tables of the reference (A.4), state by state."""

import pytest

from broker_ctl.core.partitions.machines import (
    PARTITION_PREDECESSORS,
    REPLICA_PREDECESSORS,
    PartitionStage,
    ReplicaStage,
    step_partition,
    step_replica,
)
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.errors import InvalidTransition

PARTITION = """\
new -> offline
new -> online
non-existent -> new
offline -> non-existent
offline -> offline
offline -> online
online -> offline
online -> online"""
REPLICA = """\
deletion ineligible -> offline
deletion ineligible -> online
deletion started -> deletion ineligible
deletion started -> deletion successful
deletion successful -> non-existent
new -> offline
new -> online
non-existent -> new
offline -> deletion ineligible
offline -> deletion started
offline -> offline
offline -> online
online -> offline
online -> online"""


def test_a_partition_goes_these_ways_and_no_other() -> None:
    gone = []
    for before in PartitionStage:
        for after in PartitionStage:
            try:
                assert step_partition(before, after) is after
            except InvalidTransition:
                continue
            gone.append(f"{before} -> {after}")
    assert "\n".join(sorted(gone)) == PARTITION


def test_a_replica_goes_these_ways_and_no_other() -> None:
    gone = []
    for before in ReplicaStage:
        for after in ReplicaStage:
            try:
                assert step_replica(before, after) is after
            except InvalidTransition:
                continue
            gone.append(f"{before} -> {after}")
    assert "\n".join(sorted(gone)) == REPLICA


def test_every_stage_has_its_row() -> None:
    assert PARTITION_PREDECESSORS.keys() == set(PartitionStage)
    assert REPLICA_PREDECESSORS.keys() == set(ReplicaStage)


def test_a_step_that_is_skipped_is_told_with_whose_it_was() -> None:
    with pytest.raises(InvalidTransition, match=r"partition: online in state non-existent \(t-7\)"):
        step_partition(PartitionStage.NON_EXISTENT, PartitionStage.ONLINE, TopicPartition("t", 7))
    with pytest.raises(InvalidTransition, match=r"replica: deletion started in state online"):
        step_replica(ReplicaStage.ONLINE, ReplicaStage.DELETION_STARTED)
