"""Reassignment of partitions: new replica lists, their validation and their plans.

Reassignment of a partition to other replicas (docs: kafka-design-v3, kafka-reassignment).

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

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

from broker_ctl.core.partitions import elections
from broker_ctl.core.partitions.elections import RefusedElection
from broker_ctl.core.partitions.placing import NO_RACKS, Racks, racks_used, racks_wanted
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr, TopicPartition
from broker_ctl.errors import InvalidReplicas

# Validation of replica lists, the same for every source.


def fault_of(replicas: Sequence[int], allowed: Collection[int]) -> str | None:
    """Return what is wrong with a replica list, as the end of a sentence; None if it is valid.

    ``allowed`` are the broker ids that the list may contain.
    """
    if not replicas:
        return "names no broker"
    negative = sorted(broker for broker in replicas if broker < 0)
    if negative:
        return f"names {_listed(negative)}, which no broker can be"
    repeated = sorted({broker for broker in replicas if replicas.count(broker) > 1})
    if repeated:
        return f"names {_listed(repeated)} more than once"
    unknown = sorted(broker for broker in replicas if broker not in allowed)
    if unknown:
        may = f"only {_listed(sorted(allowed))}" if allowed else "there is none"
        return f"names {_listed(unknown)}: no such broker lives, {may}"
    return None


def fault_of_min_isr(min_isr: int, replicas: Sequence[int]) -> str | None:
    """Return why a partition with these replicas could never commit; None if it could."""
    if len(replicas) >= min_isr:
        return None
    count = "1 replica" if len(replicas) == 1 else f"{len(replicas)} replicas"
    return f"has {count}, fewer than its min ISR of {min_isr}: nothing could be committed"


def _listed(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers))


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


class ReassignmentProgress(NamedTuple):
    """The announcements that this controller has sent for a reassignment; initially none.

    Attributes:
        is_announced: whether all replicas got updates about all replicas.
        settled_epoch: the leader epoch of the updates about the target alone; None before them.
    """

    is_announced: bool = False
    settled_epoch: int | None = None


NOTHING_ANNOUNCED = ReassignmentProgress()


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
    progress: ReassignmentProgress,
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
        if isinstance(elected, RefusedElection):
            return None
        led = elected
    return led._replace(isr=tuple(member for member in led.isr if member in target))


# Plans new replicas for existing partitions (docs: cruise-control).
#
# The plan distributes replicas evenly with few moves: a replica moves only if its broker is not
# one of the given ones, has more than its share, or shares a rack with another replica while a
# rack has none (docs: kafka-racks).


Replicas = tuple[int, ...]


def replan(
    partitions: Mapping[TopicPartition, Replicas],
    brokers: Collection[int],
    racks: Racks = NO_RACKS,
) -> dict[TopicPartition, Replicas]:
    """Plan replicas on these brokers only, evenly distributed, with few moves.

    Each partition keeps its number of replicas, and is on as many racks as it can be. Afterwards
    leaderships are balanced by reordering the replicas of partitions, which moves no data.

    Raises:
        InvalidReplicas: a partition has more replicas than there are brokers.
    """
    allowed = {broker: racks.get(broker, "") for broker in sorted(brokers)}
    for partition, replicas in sorted(partitions.items()):
        if len(replicas) > len(allowed):
            raise InvalidReplicas(
                f"{partition} has {len(replicas)} replicas, and is to be on {len(allowed)} brokers"
            )
    placed = {
        partition: [replica for replica in partitions[partition] if replica in allowed]
        for partition in sorted(partitions)
    }
    counts = Counter(dict.fromkeys(allowed, 0))
    counts.update(replica for replicas in placed.values() for replica in replicas)
    for partition, kept in placed.items():
        _complete(kept, len(partitions[partition]), counts, allowed)
    _level(counts, _holders(placed, counts), partial(_move, allowed))
    leaders = Counter(dict.fromkeys(counts, 0))
    leaders.update(replicas[0] for replicas in placed.values())
    _level(leaders, _leaders(placed, counts), _lead)
    return {partition: tuple(kept) for partition, kept in placed.items()}


def _complete(kept: list[int], factor: int, counts: Counter[int], racks: Racks) -> None:
    """Give up replicas that share a rack while another one would have none; add what is missing.

    The preferred replica stays: its leadership would move with it.
    """
    while racks_used(kept, racks) + factor - len(kept) < racks_wanted(factor, racks):
        in_rack = Counter(racks[broker] for broker in kept)
        sharing = [broker for broker in kept[1:] if in_rack[racks[broker]] > 1]
        given = max(sharing, key=lambda broker: (counts[broker], broker))
        kept.remove(given)
        counts[given] -= 1
    in_rack = Counter(racks[broker] for broker in kept)
    while len(kept) < factor:
        free = [broker for broker in counts if broker not in kept]
        least = min(free, key=lambda broker: (in_rack[racks[broker]], counts[broker], broker))
        kept.append(least)
        counts[least] += 1
        in_rack[racks[least]] += 1


# By broker: the replica lists from which it could give a replica or a leadership.
_Held = dict[int, list[list[int]]]
# Moves a replica or leadership from the first broker to the second; returns whether it could.
_Give = Callable[[list[int], int, int], bool]


def _level(counts: Counter[int], held: _Held, give: _Give) -> None:
    """Move from the brokers with most to those with least while that makes them more even.

    Within a rack a replica can always move if the difference is two; to another rack only if its
    partition stays on as many racks; a leadership only to a broker that has a replica.
    """
    stuck: set[tuple[int, int]] = set()
    while True:
        by_count = sorted(counts, key=lambda broker: (counts[broker], broker))
        pairs = (
            (most, least)
            for most in reversed(by_count)
            for least in by_count
            if counts[most] - counts[least] > 1 and (most, least) not in stuck
        )
        pair = next(pairs, None)
        if pair is None:
            return
        most, least = pair
        given = (place for place, each in enumerate(held[most]) if give(each, most, least))
        place = next(given, None)
        if place is None:
            stuck.add(pair)
            continue
        held[least].append(held[most].pop(place))
        counts[most] -= 1
        counts[least] += 1


def _move(racks: Racks, replicas: list[int], giver: int, receiver: int) -> bool:
    if receiver in replicas:
        return False
    moved = [receiver if broker == giver else broker for broker in replicas]
    if racks_used(moved, racks) < racks_wanted(len(moved), racks):
        return False
    replicas[:] = moved
    return True


def _lead(replicas: list[int], giver: int, receiver: int) -> bool:
    if receiver not in replicas:
        return False
    place = replicas.index(receiver)
    replicas[0], replicas[place] = receiver, giver
    return True


def _holders(placed: Mapping[TopicPartition, list[int]], brokers: Iterable[int]) -> _Held:
    held: _Held = {broker: [] for broker in brokers}
    for replicas in placed.values():
        for replica in replicas:
            held[replica].append(replicas)
    return held


def _leaders(placed: Mapping[TopicPartition, list[int]], brokers: Iterable[int]) -> _Held:
    held: _Held = {broker: [] for broker in brokers}
    for replicas in placed.values():
        held[replicas[0]].append(replicas)
    return held
