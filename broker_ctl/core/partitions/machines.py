"""Where a partition and each of its replicas stand (docs: kafka-state-machines).

A controller moves replicas from stage to stage. What may precede a stage is written beside it, and
anything else is an error: a batch that would skip a step was put together wrongly. Of a partition
no stage is kept: it follows from its state and from the brokers that live, at each announcement.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.errors import InvalidTransition


class PartitionStage(StrEnum):
    """NEW: assigned, and never led. OFFLINE: it was led, and has no leader that lives."""

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class ReplicaStage(StrEnum):
    """DELETION_INELIGIBLE: to be deleted, and its broker is gone or could not do it."""

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
    """The next stage, which is the one asked for.

    Raises:
        InvalidTransition: it may not follow; names the replica.
    """
    if stage not in REPLICA_PREDECESSORS[to]:
        raise InvalidTransition("replica", stage, to, str(replica))
    return to
