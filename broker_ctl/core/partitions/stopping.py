"""Taking a broker out of leaderships and ISRs before it stops (docs: kafka-procedures).

It is refused while a partition would be left with fewer in sync than it asks for, as its writes
would end then, or hang on one broker; an operator may insist. A partition whose only replica is
there is no reason to refuse, nor is one that asks for more than it has replicas: nothing can be
kept of the one, and the other takes no writes, whatever is done.
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
    """Who would be left in sync, where these are fewer than ``min_isr``; None: they may go."""
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
    """Without those that leave; a refusal where they go on leading, or are not in sync anyway."""
    if state.leader in leaving:
        return elections.controlled_shutdown(assignment, state, live, leaving, controller_epoch)
    return elections.without(state, leaving, controller_epoch)
