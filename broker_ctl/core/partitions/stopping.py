"""Moves leaderships off a stopping broker, and removes it from ISRs (docs: kafka-procedures).

A stop is refused while a partition would be left with fewer in-sync replicas than its min ISR,
since its writes would end or depend on one broker; an operator may force it. Two kinds of
partitions never cause a refusal: those with a single replica, for which nothing can be
preserved, and those whose min ISR exceeds their number of replicas, which take no writes anyway.
"""

from collections.abc import Set as AbstractSet

from broker_ctl.core.partitions import elections
from broker_ctl.core.partitions.elections import Election
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr


def shortfall(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    leaving: AbstractSet[int],
    min_isr: int,
) -> tuple[int, ...] | None:
    """Return the in-sync replicas that would remain, if fewer than ``min_isr``; None: may stop."""
    if not 1 < len(assignment.replicas) >= min_isr or leaving.isdisjoint(state.isr):
        return None
    remaining = tuple(each for each in state.isr if each in live and each not in leaving)
    return remaining if len(remaining) < min_isr else None


def next_state(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    leaving: AbstractSet[int],
    controller_epoch: int,
) -> Election:
    """Return the state without stopping brokers; refused if nothing changes or none can lead."""
    if state.leader in leaving:
        return elections.controlled_shutdown(assignment, state, live, leaving, controller_epoch)
    return elections.without(state, leaving, controller_epoch)
