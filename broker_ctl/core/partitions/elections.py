"""Elects leaders of partitions, moves leaderships off stopping brokers, and returns them."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final, NamedTuple

from broker_ctl.core.partitions.values import (
    DEFAULT_RULES,
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    TopicRules,
)

# Elects leaders of partitions: the four elections, and the controller's other state changes.
#
# Docs: kafka-elections. Each function takes the state of one partition and returns the state to
# be written, or a refusal, for which nothing is written. Every new state has the next leader
# epoch, even if only the ISR changes, so that brokers with an older epoch get the state again.
#
# ``live`` are the brokers whose replica can serve: registered brokers, except those on which the
# replica of this partition has failed (docs: kafka-failure-kinds).


class ElectionRefusal(StrEnum):
    """Reason why a partition keeps its state."""

    NONE_IN_SYNC_LIVES = "no replica in sync lives"
    NONE_LIVES = "no replica lives"
    NONE_IN_SYNC_REMAINS = "no replica in sync remains"
    TOO_FEW_REMAIN = "too few replicas in sync would remain"
    NONE_IN_TARGET = "no target replica in sync lives"
    PREFERRED_LEADS = "the preferred replica leads"
    PREFERRED_DEAD = "the preferred replica is dead"
    PREFERRED_BEHIND = "the preferred replica is not in sync"
    NOTHING_CHANGES = "nothing changes"


class RefusedElection(NamedTuple):
    """A refusal: the partition keeps its state."""

    reason: ElectionRefusal


Election = LeaderAndIsr | RefusedElection


def initial(assignment: Assignment, live: AbstractSet[int], controller_epoch: int) -> Election:
    """Return the first state of a partition: all live replicas are in sync, since logs are empty.

    Topic ids guarantee that the logs are empty: no replica of an earlier topic with the same name
    can take part (docs: kafka-topic-deletion).
    """
    isr = tuple(sorted(replica for replica in assignment.replicas if replica in live))
    if not isr:
        return RefusedElection(ElectionRefusal.NONE_LIVES)
    leader = next(replica for replica in assignment.replicas if replica in live)
    return LeaderAndIsr(leader, 0, isr, controller_epoch)


def offline(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    controller_epoch: int,
    rules: TopicRules = DEFAULT_RULES,
) -> Election:
    """Elect a leader for a partition whose leader is dead, or that has none.

    Candidates are tried in assignment order, so that the preferred replica leads if it can
    (KAFKA-3670). A replica outside the ISR leads only if the topic allows unclean elections and no
    in-sync replica is live: then the ISR is the new leader alone, and the state records that data
    may have been lost.
    """
    leader = _first(assignment.replicas, state.isr, live)
    if leader != NO_LEADER:
        isr = tuple([member for member in state.isr if member in live])
        return _changed(state, leader, isr, controller_epoch)
    if not rules.is_unclean_allowed:
        return RefusedElection(ElectionRefusal.NONE_IN_SYNC_LIVES)
    for replica in assignment.replicas:
        if replica in live:
            isr = (replica,)
            return _changed(state, replica, isr, controller_epoch)._replace(is_recovering=True)
    return RefusedElection(ElectionRefusal.NONE_LIVES)


def reassign(
    assignment: Assignment, state: LeaderAndIsr, live: AbstractSet[int], controller_epoch: int
) -> Election:
    """Elect a target replica if the leader is not a target of the reassignment, or dead."""
    leader = _first(assignment.target, state.isr, live)
    if leader == NO_LEADER:
        return RefusedElection(ElectionRefusal.NONE_IN_TARGET)
    return _changed(state, leader, state.isr, controller_epoch)


def preferred(
    assignment: Assignment, state: LeaderAndIsr, live: AbstractSet[int], controller_epoch: int
) -> Election:
    """Elect the preferred (first) replica, if it is live and in sync."""
    first = assignment.replicas[0] if assignment.replicas else NO_LEADER
    if first == state.leader:
        return RefusedElection(ElectionRefusal.PREFERRED_LEADS)
    if first not in live:
        return RefusedElection(ElectionRefusal.PREFERRED_DEAD)
    if first not in state.isr:
        return RefusedElection(ElectionRefusal.PREFERRED_BEHIND)
    return _changed(state, first, state.isr, controller_epoch)


def controlled_shutdown(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    leaving: AbstractSet[int],
    controller_epoch: int,
) -> Election:
    """Elect a leader for a partition whose leader is stopping; stopping brokers leave the ISR.

    ``leaving`` are brokers in controlled shutdown: still live, but no longer eligible to lead.
    """
    leader = NO_LEADER
    for replica in assignment.replicas:
        if replica in live and replica not in leaving and replica in state.isr:
            leader = replica
            break
    if leader == NO_LEADER:
        return RefusedElection(ElectionRefusal.NONE_IN_SYNC_REMAINS)
    isr = tuple([member for member in state.isr if member not in leaving])
    return _changed(state, leader, isr, controller_epoch)


def leaderless(state: LeaderAndIsr, controller_epoch: int) -> Election:
    """Return the state without a leader; the ISR stays, so that its next live member can lead.

    Docs: kafka-failure-kinds.
    """
    if state.leader == NO_LEADER:
        return RefusedElection(ElectionRefusal.NOTHING_CHANGES)
    return _changed(state, NO_LEADER, state.isr, controller_epoch)


def without(state: LeaderAndIsr, gone: Collection[int], controller_epoch: int) -> Election:
    """Return the state in which the replicas ``gone`` neither lead nor are in the ISR.

    If all in-sync replicas are gone the ISR stays, for a later clean election (KAFKA-5083).
    """
    isr = tuple([member for member in state.isr if member not in gone]) or state.isr
    leader = NO_LEADER if state.leader in gone else state.leader
    if leader == state.leader and len(isr) == len(state.isr):
        return RefusedElection(ElectionRefusal.NOTHING_CHANGES)
    return _changed(state, leader, isr, controller_epoch)


def after_broker_change(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    controller_epoch: int,
    rules: TopicRules = DEFAULT_RULES,
) -> Election:
    """Return the state after a change of the live brokers.

    A dead leader is replaced, or the partition has no leader. If the leader is live, dead followers
    leave the ISR; otherwise commits would wait until the leader notices (KAFKA-948, 3143).
    """
    if state.leader in live:
        dead = [member for member in state.isr if member not in live]
        return without(state, dead, controller_epoch)
    elected = offline(assignment, state, live, controller_epoch, rules)
    if isinstance(elected, RefusedElection) and state.leader != NO_LEADER:
        return leaderless(state, controller_epoch)
    return elected


def bump_epoch(state: LeaderAndIsr, controller_epoch: int) -> LeaderAndIsr:
    """Return the same state with the next leader epoch, so that brokers get it again.

    Docs: kafka-reassignment, cruise-control.
    """
    return _changed(state, state.leader, state.isr, controller_epoch)


def with_isr(state: LeaderAndIsr, isr: Collection[int]) -> LeaderAndIsr:
    """Return the state that a leader writes: a new ISR, the same epochs (docs: kafka-paths).

    An in-sync follower has all records of the leader, so recovery ends with the first (KIP-704).
    """
    is_recovering = state.is_recovering and len(isr) == 1
    return state._replace(isr=tuple(sorted(isr)), is_recovering=is_recovering)


def _first(order: tuple[int, ...], isr: tuple[int, ...], live: AbstractSet[int]) -> int:
    for replica in order:
        if replica in live and replica in isr:
            return replica
    return NO_LEADER


def _changed(
    state: LeaderAndIsr, leader: int, isr: tuple[int, ...], controller_epoch: int
) -> LeaderAndIsr:
    return LeaderAndIsr(
        leader,
        state.leader_epoch + 1,
        isr,
        controller_epoch,
        state.is_recovering,
        state.version,
    )


# Moves leaderships off a stopping broker, and removes it from ISRs (docs: kafka-procedures).
#
# A stop is refused while a partition would be left with fewer in-sync replicas than its min ISR,
# since its writes would end or depend on one broker; an operator may force it. Two kinds of
# partitions never cause a refusal: those with a single replica, for which nothing can be
# preserved, and those whose min ISR exceeds their number of replicas, which take no writes anyway.


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
        return controlled_shutdown(assignment, state, live, leaving, controller_epoch)
    return without(state, leaving, controller_epoch)


# When leadership returns to preferred replicas (docs: kafka-preferred).
#
# A broker that has just started does not get all leaderships at once: until it is in sync
# everywhere its caches are cold and its disks are busy, which clients would notice (KAFKA-20708).


# Time for which a broker counts as just started, unless it is in sync everywhere before.
WARM_UP_S: Final = 120.0
# Maximum number of elections in one event of the controller; the next event follows at once.
BATCH: Final = 1_000


def is_imbalanced(preferring: int, elsewhere: int, percent: float) -> bool:
    """Return whether too many of the partitions that prefer a broker are led elsewhere."""
    return preferring > 0 and 100 * elsewhere > percent * preferring


def imbalanced(
    preferring: Mapping[int, int],
    led_elsewhere: Mapping[int, Collection[object]],
    percent: float,
) -> list[int]:
    """Return the ids of brokers that should get leaderships back, ascending."""
    return sorted(
        broker_id
        for broker_id, elsewhere in led_elsewhere.items()
        if is_imbalanced(preferring.get(broker_id, 0), len(elsewhere), percent)
    )


def is_warm(age_s: float | None, lagging: int) -> bool:
    """Return whether a broker may get leaderships.

    Args:
        age_s: seconds since it registered; None: before this controller's term.
        lagging: number of its replicas that are not in the ISR.
    """
    return age_s is None or age_s >= WARM_UP_S or lagging == 0
