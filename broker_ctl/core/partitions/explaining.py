"""Explains why a partition has its leader, from the facts on which elections decide.

Docs: kafka-elections.
"""

from collections.abc import Iterator
from enum import StrEnum

from broker_ctl.core.partitions import reassigning
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import NO_LEADER, Assignment, LeaderAndIsr, TopicPartition


class ReplicaStatus(StrEnum):
    """FAILED: its broker cannot serve it. SILENT: its broker acknowledges no instructions."""

    LIVE = "live"
    DEAD = "dead"
    FAILED = "failed"
    SILENT = "silent"
    STOPPING = "stopping"


def replica_status(context: Context, partition: TopicPartition, broker_id: int) -> ReplicaStatus:
    """Whether a replica can lead, and why it cannot."""
    if broker_id not in context.brokers:
        return ReplicaStatus.DEAD
    if broker_id in context.failures.of(partition):
        return ReplicaStatus.FAILED
    if broker_id in context.silent:
        return ReplicaStatus.SILENT
    return ReplicaStatus.STOPPING if broker_id in context.leaving else ReplicaStatus.LIVE


def reasons(context: Context, partition: TopicPartition) -> Iterator[str]:
    """Sentences: why it has this leader, or none, and what else is out of the ordinary."""
    assignment, state = context.assignments[partition], context.states.get(partition)
    if state is None:
        yield _without_state(context, partition, assignment)
        return
    yield _leader(context, partition, assignment, state)
    if state.is_recovering:
        yield f"broker {state.leader} was not in sync when elected: records may have been lost"
    min_isr = context.rules_of(partition.topic).min_isr
    if len(state.isr) < min_isr:
        yield (
            f"{len(state.isr)} in sync, min.insync.replicas is {min_isr}: no record with acks=all"
            " is committed"
        )
    if assignment.is_reassigning:
        missing = reassigning.missing(assignment, state)
        left = f"not yet in sync: {_ids(missing)}" if missing else "all of them are in sync"
        yield f"it moves to the replicas {_ids(assignment.target)}; {left}"


def _without_state(context: Context, partition: TopicPartition, assignment: Assignment) -> str:
    if partition.topic in context.deleting:
        return "its topic is being deleted"
    if context.live_for(partition).isdisjoint(assignment.replicas):
        return f"it never had a leader: none of its replicas {_ids(assignment.replicas)} lives"
    return "it never had a leader: its first state has not been written yet"


def _leader(
    context: Context, partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr
) -> str:
    if state.leader not in context.brokers:
        return _leaderless(context, partition, state)
    preferred = assignment.replicas[0] if assignment.replicas else NO_LEADER
    if state.leader == preferred:
        return f"broker {preferred} leads: it is the preferred replica"
    status = replica_status(context, partition, preferred)
    if status is not ReplicaStatus.LIVE:
        obstacle = f"is {status}"
    elif preferred not in state.isr:
        obstacle = "is not in sync"
    else:
        return (
            f"broker {state.leader} leads: the preferred replica {preferred} could not lead"
            " earlier; it is live and in sync, and leads after the next preferred election"
        )
    return f"broker {state.leader} leads: the preferred replica {preferred} {obstacle}"


def _leaderless(context: Context, partition: TopicPartition, state: LeaderAndIsr) -> str:
    if not context.live_for(partition).isdisjoint(state.isr):
        return "it has no live leader: the election has not been written yet"
    members = ", ".join(
        f"{each} is {replica_status(context, partition, each)}" for each in state.isr
    )
    if context.rules_of(partition.topic).is_unclean_allowed:
        return f"it has no leader: {members}, and no other replica lives"
    return (
        f"it has no leader: of the replicas in sync, {members}; it waits for one of them, since"
        " unclean.leader.election.enable is false"
    )


def _ids(broker_ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, broker_ids))
