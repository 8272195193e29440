"""Reassignment of a partition to other replicas (docs: kafka-design-v3, kafka-reassignment).

The topic's node has all state: ``replicas`` is the union of the old and the new replicas, and
``adding`` and ``removing`` distinguish them. A new controller can continue from that node alone. A
reassignment that replaces an earlier one removes no replica immediately: replicas that only the
earlier one added are in both ``adding`` and ``removing``; at the end they leave the ISR and are
removed like the others. A cancellation is a reassignment to the original replicas: ``adding`` and
``removing`` are equal.

The steps of a reassignment, each of which can be repeated:

    begin     the topic's node gets the union of both sets
    announce  all replicas get updates about all replicas, under the next leader epoch (A1)
    wait      until the target replicas are in sync
    settle    the target replicas are the ISR and have the leader; they get updates (B3, B4)
    finish    one transaction at that version of the state: the topic's node gets the target, and
              the request is deleted (B6); then the others are stopped and deleted (B5)

A replica that is being removed cannot return in between: the leader gets its update first, and an
ISR change of the leader would have an older version (KAFKA-1097, 1170). A replica without a stop,
because the controller or the broker died, is a stray, which the next full instruction removes.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from broker_ctl.core.partitions import elections
from broker_ctl.core.partitions.elections import Refused
from broker_ctl.core.partitions.replica_lists import fault_of, fault_of_min_isr
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr


class Announce(NamedTuple):
    """Write the state, and send updates about all replicas to all of them."""

    state: LeaderAndIsr


class Wait(NamedTuple):
    """Wait until these target replicas are live and in sync."""

    missing: tuple[int, ...]


class Settle(NamedTuple):
    """Write the state, and send updates about the target replicas to them alone."""

    state: LeaderAndIsr


class Finish(NamedTuple):
    """Write the assignment if the state still has the version, and stop the ``removed``."""

    assignment: Assignment
    version: int
    removed: tuple[int, ...]


Step = Announce | Wait | Settle | Finish


class Progress(NamedTuple):
    """The announcements that this controller has sent for a reassignment; initially none.

    Attributes:
        is_announced: whether all replicas got updates about all replicas.
        settled_epoch: the leader epoch of the updates about the target alone; None before them.
    """

    is_announced: bool = False
    settled_epoch: int | None = None


NOTHING_ANNOUNCED = Progress()


def fault_of_target(
    target: tuple[int, ...], assignment: Assignment, live: Collection[int], min_isr: int = 1
) -> str | None:
    """Return why the target is not valid; None if it is. New replicas must be on live brokers.

    The target may not be smaller than the min ISR, unless the partition is that small already.
    """
    fault = fault_of(target, frozenset(live) | frozenset(assignment.replicas))
    return fault or fault_of_min_isr(min(min_isr, len(assignment.target)), target)


def begun(assignment: Assignment, target: tuple[int, ...]) -> Assignment:
    """Return the assignment at the start of a reassignment, which may replace an earlier one."""
    origin = assignment.origin
    full = tuple(dict.fromkeys(target + assignment.replicas))
    return Assignment(
        full,
        tuple(replica for replica in full if replica not in origin),
        tuple(replica for replica in full if replica not in target),
    )


def is_undone(before: Assignment, after: Assignment) -> bool:
    """Return whether a new target ends a reassignment: no replica is added or removed.

    The leader may know only the target replicas. So before the topic's node ends the reassignment
    the controller sends updates about all replicas, with the next leader epoch.
    """
    return before.is_reassigning and not after.is_reassigning


def is_going_back(assignment: Assignment) -> bool:
    """Return whether a reassignment is being cancelled: no target replica is new."""
    return assignment.is_reassigning and set(assignment.adding) == set(assignment.removing)


def missing(assignment: Assignment, state: LeaderAndIsr) -> tuple[int, ...]:
    """Return the target replicas that are not in sync."""
    return tuple(replica for replica in assignment.target if replica not in state.isr)


def next_step(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    controller_epoch: int,
    progress: Progress,
) -> Step:
    """Decide on the next step; call it again after each step and each ISR change."""
    target = assignment.target
    settled = _settle(assignment, state, live, controller_epoch)
    if settled is None:
        if progress.is_announced:
            return Wait(missing(assignment, state) or target)
        return Announce(elections.bump_epoch(state, controller_epoch))
    is_target_announced = progress.settled_epoch == state.leader_epoch and set(state.isr) <= set(
        target
    )
    if is_target_announced:
        return Finish(Assignment(target), state.version, assignment.removing)
    return Settle(settled)


def _settle(
    assignment: Assignment, state: LeaderAndIsr, live: AbstractSet[int], controller_epoch: int
) -> LeaderAndIsr | None:
    """Return the state with only the target replicas; None while the others are still needed.

    For a cancellation one original replica in sync is enough: an operator who cancels must not wait
    for a dead broker.
    """
    target = assignment.target
    if missing(assignment, state) and not is_going_back(assignment):
        return None
    if state.leader in target and state.leader in live:
        led = elections.bump_epoch(state, controller_epoch)
    else:
        elected = elections.reassign(assignment, state, live, controller_epoch)
        if isinstance(elected, Refused):
            return None
        led = elected
    return led._replace(isr=tuple(member for member in led.isr if member in target))
