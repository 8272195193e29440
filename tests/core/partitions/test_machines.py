"""The stages of replicas: Kafka's table, stage by stage.

Docs: kafka-state-machines.
"""

import pytest

from broker_ctl.core.partitions.values import (
    REPLICA_PREDECESSORS,
    ReplicaStage,
    TopicPartition,
    step_replica,
)
from broker_ctl.errors import InvalidTransition

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
    assert REPLICA_PREDECESSORS.keys() == set(ReplicaStage)


def test_a_skipped_step_is_refused_with_the_name_of_its_partition() -> None:
    with pytest.raises(
        InvalidTransition, match=r"replica: deletion started in state online \(t-7\)"
    ):
        step_replica(ReplicaStage.ONLINE, ReplicaStage.DELETION_STARTED, TopicPartition("t", 7))
