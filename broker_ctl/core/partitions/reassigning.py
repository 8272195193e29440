"""Moving a partition to other replicas (docs: kafka-design-v3, kafka-reassignment).

The node of the topic says all: ``replicas`` holds both sets, ``adding`` and ``removing`` tell them
apart, and a controller that knows nothing else comes to the same end. A reassignment that takes
the place of another one drops no replica at once: what had been added only for the earlier one is
adding and removing both, and goes with the others at the end, out of the ISR first. To cancel is
to be reassigned to where it was, so that adding and removing are equal.

The steps of one reassignment, each of which may be repeated:

    begin     the topic's node gets both sets
    announce  the next leader epoch, and all replicas are announced to all (A1)
    wait      until the target is in sync
    settle    the target leads and is in sync, alone; it alone is announced to its replicas (B3, B4)
    finish    one transaction, at that very version of the state: the topic's node gets the
              target, and the request goes (B6); then the others are stopped and deleted (B5)

A replica that is on its way out cannot come back in between: the leader is informed first, and its
change of the ISR would be of an older version (KAFKA-1097, 1170). A replica without a stop,
since the controller died or that broker did, holds a stray, which goes with the next full
instruction.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from broker_ctl.core.partitions import elections
from broker_ctl.core.partitions.elections import Refused
from broker_ctl.core.partitions.replica_lists import fault_of, fault_of_min_isr
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr


class Announce(NamedTuple):
    """Write the state, tell all replicas of all."""

    state: LeaderAndIsr


class Wait(NamedTuple):
    """Nothing can be done before these target replicas are in sync, or live."""

    missing: tuple[int, ...]


class Settle(NamedTuple):
    """Write the state, tell the target replicas of themselves alone."""

    state: LeaderAndIsr


class Finish(NamedTuple):
    """Write the assignment where the state still has the version, and stop the ``removed``."""

    assignment: Assignment
    version: int
    removed: tuple[int, ...]


Step = Announce | Wait | Settle | Finish


class Progress(NamedTuple):
    """What this controller has announced of a reassignment; a new one has announced nothing.

    Attributes:
        is_announced: all replicas know of all.
        settled_epoch: the leader epoch under which the target knows of itself alone; None: none.
    """

    is_announced: bool = False
    settled_epoch: int | None = None


NOTHING_ANNOUNCED = Progress()


def fault_of_target(
    target: tuple[int, ...], assignment: Assignment, live: Collection[int], min_isr: int = 1
) -> str | None:
    """Why a partition cannot be moved there: replicas that it has may be dead, new ones not.

    It may not shrink below its min ISR; one that is below may go elsewhere as it is.
    """
    fault = fault_of(target, frozenset(live) | frozenset(assignment.replicas))
    return fault or fault_of_min_isr(min(min_isr, len(assignment.target)), target)


def begun(assignment: Assignment, target: tuple[int, ...]) -> Assignment:
    """The assignment with which a reassignment begins, or takes another one's place."""
    origin = assignment.origin
    full = tuple(dict.fromkeys(target + assignment.replicas))
    return Assignment(
        full,
        tuple(replica for replica in full if replica not in origin),
        tuple(replica for replica in full if replica not in target),
    )


def is_undone(before: Assignment, after: Assignment) -> bool:
    """Whether a new target ends a reassignment: no replica comes, and none goes.

    The leader may know the target alone already: all replicas have to be announced, under the
    next leader epoch, before the topic's node says that nothing is under way.
    """
    return before.is_reassigning and not after.is_reassigning


def is_going_back(assignment: Assignment) -> bool:
    """Whether a reassignment is being cancelled: nothing comes that was not there."""
    return assignment.is_reassigning and set(assignment.adding) == set(assignment.removing)


def missing(assignment: Assignment, state: LeaderAndIsr) -> tuple[int, ...]:
    """Target replicas that are not in sync."""
    return tuple(replica for replica in assignment.target if replica not in state.isr)


def next_step(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    controller_epoch: int,
    progress: Progress,
) -> Step:
    """What is to be done next; to be asked again after each step, and after each change of ISR."""
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
    """The state of the target alone; None where it cannot do without the others yet.

    On the way back one origin replica in sync is enough: there were no more before, and an
    operator who cancels must not wait for a broker that is dead.
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
