"""Stages of partitions and of replicas (docs: kafka-state-machines).

The controller moves replicas from stage to stage. The table lists the stages that may precede each
stage; any other transition is an error of the controller. The stage of a partition is not stored:
it follows from the partition's state and the live brokers whenever it is needed.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.errors import InvalidTransition


class PartitionStage(StrEnum):
    """NEW: assigned, but never had a leader. OFFLINE: had a leader, but none is live now."""

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class ReplicaStage(StrEnum):
    """DELETION_INELIGIBLE: to be deleted, but its broker is gone or failed to delete it."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"


_R = ReplicaStage

REPLICA_PREDECESSORS: Final[Mapping[ReplicaStage, frozenset[ReplicaStage]]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}


def step_replica(stage: ReplicaStage, to: ReplicaStage, replica: object = "") -> ReplicaStage:
    """Return the requested next stage if the transition is allowed.

    Raises:
        InvalidTransition: the transition is not allowed; the message names the replica.
    """
    if stage not in REPLICA_PREDECESSORS[to]:
        raise InvalidTransition("replica", stage, to, str(replica))
    return to
