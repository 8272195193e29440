"""Who leads a partition: the four elections, and what else a controller makes of a state.

Docs: kafka-elections. Each takes what is known of one partition and gives the state to be written,
or says why there is none; nothing is written for a refusal. Every state has the next leader epoch,
also where the ISR alone changes: brokers with an older one get it again (docs: kafka-elections).

``live`` are the brokers whose replica can serve: those that are registered, without those whose
replica of this very partition has failed (docs: kafka-failure-kinds).
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import NamedTuple

from broker_ctl.core.partitions.values import (
    DEFAULT_RULES,
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    TopicRules,
)


class ElectionRefusal(StrEnum):
    """Why a partition keeps the state that it has."""

    NONE_IN_SYNC_LIVES = "no replica in sync lives"
    NONE_LIVES = "no replica lives"
    NONE_IN_SYNC_REMAINS = "no replica in sync remains"
    TOO_FEW_REMAIN = "too few replicas in sync would remain"
    NONE_IN_TARGET = "no target replica in sync lives"
    PREFERRED_LEADS = "the preferred replica leads"
    PREFERRED_DEAD = "the preferred replica is dead"
    PREFERRED_BEHIND = "the preferred replica is not in sync"
    NOTHING_CHANGES = "nothing changes"


class Refused(NamedTuple):
    """There is no new state."""

    reason: ElectionRefusal


Election = LeaderAndIsr | Refused


def initial(assignment: Assignment, live: AbstractSet[int], controller_epoch: int) -> Election:
    """The first state of a partition: all that live are in sync, as there is nothing to lack.

    Safe only because the logs are empty, which is what topic ids are for (docs:
    kafka-topic-deletion).
    """
    isr = tuple(sorted(replica for replica in assignment.replicas if replica in live))
    if not isr:
        return Refused(ElectionRefusal.NONE_LIVES)
    leader = next(replica for replica in assignment.replicas if replica in live)
    return LeaderAndIsr(leader, 0, isr, controller_epoch)


def offline(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    controller_epoch: int,
    rules: TopicRules = DEFAULT_RULES,
) -> Election:
    """For a partition whose leader is gone, or that has none.

    In assignment order, so that leadership falls to the preferred replica where that is possible
    (KAFKA-3670). Out of the ISR only where the topic allows it and none in sync lives: then
    the new leader alone is in sync, and the state says that records may have been lost.
    """
    leader = _first(assignment.replicas, state.isr, live)
    if leader != NO_LEADER:
        isr = tuple([member for member in state.isr if member in live])
        return _changed(state, leader, isr, controller_epoch)
    if not rules.is_unclean_allowed:
        return Refused(ElectionRefusal.NONE_IN_SYNC_LIVES)
    for replica in assignment.replicas:
        if replica in live:
            isr = (replica,)
            return _changed(state, replica, isr, controller_epoch)._replace(is_recovering=True)
    return Refused(ElectionRefusal.NONE_LIVES)


def reassign(
    assignment: Assignment, state: LeaderAndIsr, live: AbstractSet[int], controller_epoch: int
) -> Election:
    """For a partition whose leader is not a target of its reassignment, or is dead."""
    leader = _first(assignment.target, state.isr, live)
    if leader == NO_LEADER:
        return Refused(ElectionRefusal.NONE_IN_TARGET)
    return _changed(state, leader, state.isr, controller_epoch)


def preferred(
    assignment: Assignment, state: LeaderAndIsr, live: AbstractSet[int], controller_epoch: int
) -> Election:
    """Lead where it was meant to be led: by the first replica, if that lives and is in sync."""
    first = assignment.replicas[0] if assignment.replicas else NO_LEADER
    if first == state.leader:
        return Refused(ElectionRefusal.PREFERRED_LEADS)
    if first not in live:
        return Refused(ElectionRefusal.PREFERRED_DEAD)
    if first not in state.isr:
        return Refused(ElectionRefusal.PREFERRED_BEHIND)
    return _changed(state, first, state.isr, controller_epoch)


def controlled_shutdown(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    leaving: AbstractSet[int],
    controller_epoch: int,
) -> Election:
    """For a partition whose leader is about to stop; brokers that are leave the ISR, too.

    ``leaving`` are brokers that still live, and take no leadership any more.
    """
    leader = NO_LEADER
    for replica in assignment.replicas:
        if replica in live and replica not in leaving and replica in state.isr:
            leader = replica
            break
    if leader == NO_LEADER:
        return Refused(ElectionRefusal.NONE_IN_SYNC_REMAINS)
    isr = tuple([member for member in state.isr if member not in leaving])
    return _changed(state, leader, isr, controller_epoch)


def leaderless(state: LeaderAndIsr, controller_epoch: int) -> Election:
    """No leader, and the ISR as it is: the first of it to come back may lead cleanly.

    Docs: kafka-failure-kinds.
    """
    if state.leader == NO_LEADER:
        return Refused(ElectionRefusal.NOTHING_CHANGES)
    return _changed(state, NO_LEADER, state.isr, controller_epoch)


def without(state: LeaderAndIsr, gone: Collection[int], controller_epoch: int) -> Election:
    """The replicas ``gone`` neither lead nor are in sync any more.

    Where all in sync are gone the ISR stays: it is remembered for a clean election (KAFKA-5083).
    """
    isr = tuple([member for member in state.isr if member not in gone]) or state.isr
    leader = NO_LEADER if state.leader in gone else state.leader
    if leader == state.leader and len(isr) == len(state.isr):
        return Refused(ElectionRefusal.NOTHING_CHANGES)
    return _changed(state, leader, isr, controller_epoch)


def after_broker_change(
    assignment: Assignment,
    state: LeaderAndIsr,
    live: AbstractSet[int],
    controller_epoch: int,
    rules: TopicRules = DEFAULT_RULES,
) -> Election:
    """All that a change of the live brokers asks for, in one state.

    A dead leader is followed by another one or by none; of a live one the dead followers leave
    the ISR, or commits would wait for them until it notices (KAFKA-948, 3143).
    """
    if state.leader in live:
        dead = [member for member in state.isr if member not in live]
        return without(state, dead, controller_epoch)
    elected = offline(assignment, state, live, controller_epoch, rules)
    if isinstance(elected, Refused) and state.leader != NO_LEADER:
        return leaderless(state, controller_epoch)
    return elected


def bump_epoch(state: LeaderAndIsr, controller_epoch: int) -> LeaderAndIsr:
    """The same under the next leader epoch, so that it is announced again.

    Docs: kafka-reassignment, cruise-control.
    """
    return _changed(state, state.leader, state.isr, controller_epoch)


def with_isr(state: LeaderAndIsr, isr: Collection[int]) -> LeaderAndIsr:
    """What a leader writes: the ISR alone, under its epochs (docs: kafka-paths).

    A follower in sync has what the leader has: with the first one the recovery is over (KIP-704).
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
