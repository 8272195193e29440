"""Elections: worked examples, and properties that hold whichever brokers live.

Docs: kafka-elections.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.partitions import elections
from broker_ctl.core.partitions.elections import Election, ElectionRefusal, RefusedElection
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    NO_VERSION,
    Assignment,
    LeaderAndIsr,
    TopicRules,
)

ME = 9
UNCLEAN = TopicRules(is_unclean_allowed=True)
THREE = Assignment((1, 2, 3))


def led_by(leader: int, *isr: int, recovering: bool = False) -> LeaderAndIsr:
    return LeaderAndIsr(leader, 5, isr, 4, recovering, 17)


def after(leader: int, *isr: int, recovering: bool = False) -> LeaderAndIsr:
    """What is to be written over `led_by`: its version guards the write."""
    return LeaderAndIsr(leader, 6, isr, ME, recovering, 17)


def test_a_new_partition_is_led_by_the_first_that_lives_and_all_that_live_are_in_sync() -> None:
    assignment = Assignment((3, 1, 2))
    first = LeaderAndIsr(3, 0, (1, 2, 3), ME, is_recovering=False, version=NO_VERSION)
    assert elections.initial(assignment, {1, 2, 3}, ME) == first
    assert elections.initial(assignment, {1, 2}, ME) == LeaderAndIsr(1, 0, (1, 2), ME)
    assert elections.initial(assignment, {4}, ME) == RefusedElection(ElectionRefusal.NONE_LIVES)


@pytest.mark.parametrize(
    ("replicas", "state", "live", "rules", "expected"),
    [
        # Assignment order, not the order of the ISR, and the dead leave it.
        ((3, 2, 1), led_by(3, 1, 2, 3), {1, 2}, TopicRules(), after(2, 1, 2)),
        ((1, 2, 3), led_by(1, 1, 3), {2, 3}, TopicRules(), after(3, 3)),
        # In sync goes before out of sync, also where the latter were allowed.
        ((1, 2, 3), led_by(1, 1, 3), {2, 3}, UNCLEAN, after(3, 3)),
        (
            (1, 2, 3),
            led_by(1, 1),
            {2, 3},
            TopicRules(),
            RefusedElection(ElectionRefusal.NONE_IN_SYNC_LIVES),
        ),
        ((1, 2, 3), led_by(1, 1), {2, 3}, UNCLEAN, after(2, 2, recovering=True)),
        ((1, 2, 3), led_by(1, 1), {4}, UNCLEAN, RefusedElection(ElectionRefusal.NONE_LIVES)),
        # The last survivor is back.
        ((1, 2, 3), led_by(NO_LEADER, 2), {1, 2}, UNCLEAN, after(2, 2)),
        # That does not end a recovery: no other replica has the records of its leader.
        (
            (1, 2, 3),
            led_by(NO_LEADER, 2, recovering=True),
            {1, 2},
            TopicRules(),
            after(2, 2, recovering=True),
        ),
    ],
)
def test_offline(
    replicas: tuple[int, ...],
    state: LeaderAndIsr,
    live: set[int],
    rules: TopicRules,
    expected: Election,
) -> None:
    assert elections.offline(Assignment(replicas), state, live, ME, rules) == expected


@pytest.mark.parametrize(
    ("assignment", "state", "live", "expected"),
    [
        # Full (4, 5, 1, 2), from (1, 2) to (4, 5).
        (Assignment((4, 5, 1, 2), (4, 5), (1, 2)), led_by(1, 1, 2, 4, 5), {1, 2, 4, 5}, 4),
        (Assignment((4, 5, 1, 2), (4, 5), (1, 2)), led_by(1, 1, 2, 4, 5), {1, 2, 5}, 5),
        (Assignment((4, 5, 1, 2), (4, 5), (1, 2)), led_by(1, 1, 2, 5), {1, 2, 4, 5}, 5),
        (Assignment((4, 5, 1, 2), (4, 5), (1, 2)), led_by(1, 1, 2), {1, 2, 4, 5}, None),
    ],
)
def test_a_reassigned_partition_is_led_by_the_first_target_in_sync(
    assignment: Assignment, state: LeaderAndIsr, live: set[int], expected: int | None
) -> None:
    found = elections.reassign(assignment, state, live, ME)
    if expected is None:
        assert found == RefusedElection(ElectionRefusal.NONE_IN_TARGET)
    else:
        assert found == after(expected, *state.isr), "the ISR is for a later step to shrink"


@pytest.mark.parametrize(
    ("state", "live", "expected"),
    [
        (led_by(2, 1, 2, 3), {1, 2, 3}, after(1, 1, 2, 3)),
        (led_by(1, 1, 2, 3), {1, 2, 3}, RefusedElection(ElectionRefusal.PREFERRED_LEADS)),
        (led_by(2, 1, 2, 3), {2, 3}, RefusedElection(ElectionRefusal.PREFERRED_DEAD)),
        (led_by(2, 2, 3), {1, 2, 3}, RefusedElection(ElectionRefusal.PREFERRED_BEHIND)),
    ],
)
def test_preferred(state: LeaderAndIsr, live: set[int], expected: Election) -> None:
    assert elections.preferred(THREE, state, live, ME) == expected


@pytest.mark.parametrize(
    ("state", "live", "leaving", "expected"),
    [
        (led_by(1, 1, 2, 3), {1, 2, 3}, {1}, after(2, 2, 3)),
        # Two leave at once: the second one does not succeed the first.
        (led_by(1, 1, 2, 3), {1, 2, 3}, {1, 2}, after(3, 3)),
        (led_by(1, 1, 2), {1, 2, 3}, {1, 2}, RefusedElection(ElectionRefusal.NONE_IN_SYNC_REMAINS)),
        (led_by(1, 1, 2), {1, 3}, {1}, RefusedElection(ElectionRefusal.NONE_IN_SYNC_REMAINS)),
    ],
)
def test_controlled_shutdown(
    state: LeaderAndIsr, live: set[int], leaving: set[int], expected: Election
) -> None:
    assert elections.controlled_shutdown(THREE, state, live, leaving, ME) == expected


@pytest.mark.parametrize(
    ("state", "gone", "expected"),
    [
        (led_by(1, 1, 2, 3), {3}, after(1, 1, 2)),
        (led_by(1, 1, 2, 3), {1}, after(NO_LEADER, 2, 3)),
        (led_by(1, 1), {1}, after(NO_LEADER, 1)),
        (led_by(1, 1, 2), {1, 2}, after(NO_LEADER, 1, 2)),
        (led_by(1, 1, 2), {3}, RefusedElection(ElectionRefusal.NOTHING_CHANGES)),
        (led_by(NO_LEADER, 1), {1}, RefusedElection(ElectionRefusal.NOTHING_CHANGES)),
    ],
)
def test_the_last_in_sync_is_remembered(
    state: LeaderAndIsr, gone: set[int], expected: Election
) -> None:
    assert elections.without(state, gone, ME) == expected


@pytest.mark.parametrize(
    ("state", "live", "rules", "expected"),
    [
        (led_by(1, 1, 2, 3), {2, 3}, TopicRules(), after(2, 2, 3)),
        (led_by(1, 1, 2, 3), {1, 3}, TopicRules(), after(1, 1, 3)),
        (
            led_by(1, 1, 2, 3),
            {1, 2, 3},
            TopicRules(),
            RefusedElection(ElectionRefusal.NOTHING_CHANGES),
        ),
        (led_by(1, 1, 2), {3}, TopicRules(), after(NO_LEADER, 1, 2)),
        (led_by(1, 1, 2), {3}, UNCLEAN, after(3, 3, recovering=True)),
        # Without a leader already: it is not written again at each look.
        (
            led_by(NO_LEADER, 1, 2),
            {3},
            TopicRules(),
            RefusedElection(ElectionRefusal.NONE_IN_SYNC_LIVES),
        ),
        (led_by(NO_LEADER, 1, 2), {2, 3}, TopicRules(), after(2, 2)),
    ],
)
def test_a_change_of_brokers_makes_one_state(
    state: LeaderAndIsr, live: set[int], rules: TopicRules, expected: Election
) -> None:
    assert elections.after_broker_change(THREE, state, live, ME, rules) == expected


def test_no_leader_is_written_once() -> None:
    assert elections.leaderless(led_by(1, 1, 2), ME) == after(NO_LEADER, 1, 2)
    assert elections.leaderless(led_by(NO_LEADER, 1), ME) == RefusedElection(
        ElectionRefusal.NOTHING_CHANGES
    )


def test_a_recovery_is_over_when_a_follower_is_in_sync() -> None:
    alone = led_by(2, 2, recovering=True)
    assert elections.bump_epoch(alone, ME) == after(2, 2, recovering=True)
    assert elections.with_isr(alone, (2,)) == alone
    assert elections.with_isr(alone, (3, 2)) == led_by(2, 2, 3), "under the epochs that it had"
    assert elections.with_isr(led_by(2, 2, 3), (2,)) == led_by(2, 2), "to shrink is not a recovery"


# Properties, over clusters of eight brokers.

BROKERS = st.integers(1, 8)


class Case(NamedTuple):
    assignment: Assignment
    state: LeaderAndIsr
    live: frozenset[int]
    leaving: frozenset[int]
    rules: TopicRules


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any partition that a controller may find: the leader, if any, is in the ISR."""
    replicas = tuple(draw(st.lists(BROKERS, min_size=1, max_size=6, unique=True)))
    part = st.sets(st.sampled_from(replicas), max_size=len(replicas) - 1)
    adding = draw(part)
    removing = draw(st.sets(st.sampled_from(replicas))) - adding
    if len(removing) == len(replicas):
        removing = set()
    isr = tuple(sorted(draw(st.sets(st.sampled_from(replicas), min_size=1))))
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    is_recovering = len(isr) == 1 and draw(st.booleans())
    return Case(
        Assignment(replicas, tuple(adding), tuple(removing)),
        LeaderAndIsr(leader, draw(st.integers(0, 99)), isr, 4, is_recovering, 17),
        frozenset(draw(st.sets(BROKERS))),
        frozenset(draw(st.sets(BROKERS, max_size=3))),
        TopicRules(draw(st.booleans())),
    )


CLEAN: dict[str, Callable[[Case], Election]] = {
    "offline": lambda case: elections.offline(case.assignment, case.state, case.live, ME),
    "reassign": lambda case: elections.reassign(case.assignment, case.state, case.live, ME),
    "preferred": lambda case: elections.preferred(case.assignment, case.state, case.live, ME),
    "controlled shutdown": lambda case: elections.controlled_shutdown(
        case.assignment, case.state, case.live, case.leaving, ME
    ),
}
ALL: dict[str, Callable[[Case], Election]] = CLEAN | {
    "by the rules": lambda case: elections.offline(
        case.assignment, case.state, case.live, ME, case.rules
    ),
    "broker change": lambda case: elections.after_broker_change(
        case.assignment, case.state, case.live, ME, case.rules
    ),
    "without": lambda case: elections.without(case.state, case.leaving, ME),
    "leaderless": lambda case: elections.leaderless(case.state, ME),
    "bumped": lambda case: elections.bump_epoch(case.state, ME),
}


@pytest.mark.parametrize("name", ALL)
@given(case=cases())
def test_every_state_is_newer_names_its_controller_and_has_a_replica_in_sync(
    name: str, case: Case
) -> None:
    found = ALL[name](case)
    if isinstance(found, RefusedElection):
        return
    assert found.leader_epoch == case.state.leader_epoch + 1
    assert found.controller_epoch == ME
    assert found.version == case.state.version
    assert found.isr
    assert list(found.isr) == sorted(set(found.isr)), "ascending, each once"
    assert found.leader in {NO_LEADER, *found.isr}
    assert set(found.isr) <= set(case.assignment.replicas)
    assert not found.is_recovering or len(found.isr) == 1


@pytest.mark.parametrize("name", CLEAN)
@given(case=cases())
def test_a_clean_election_never_leaves_the_isr(name: str, case: Case) -> None:
    found = CLEAN[name](case)
    if isinstance(found, RefusedElection):
        return
    assert found.leader in case.state.isr
    assert found.leader in case.live
    assert set(found.isr) <= set(case.state.isr)
    assert not found.is_recovering or case.state.is_recovering
    if name == "controlled shutdown":
        assert not case.leaving & set(found.isr)
    if name == "reassign":
        assert found.leader in case.assignment.target


@given(cases())
def test_a_replica_out_of_sync_leads_only_where_allowed_and_is_marked_as_recovering(
    case: Case,
) -> None:
    found = elections.after_broker_change(case.assignment, case.state, case.live, ME, case.rules)
    if isinstance(found, RefusedElection) or found.leader in {NO_LEADER, *case.state.isr}:
        return
    assert case.rules.is_unclean_allowed
    assert not case.live & set(case.state.isr)
    assert found.isr == (found.leader,)
    assert found.is_recovering


@given(cases())
def test_after_a_change_of_brokers_nothing_is_left_to_do(case: Case) -> None:
    found = elections.after_broker_change(case.assignment, case.state, case.live, ME, case.rules)
    if isinstance(found, RefusedElection):
        return
    assert found.leader == NO_LEADER or found.leader in case.live
    if found.leader == NO_LEADER:
        assert found.isr == case.state.isr
    again = elections.after_broker_change(case.assignment, found, case.live, ME, case.rules)
    assert isinstance(again, RefusedElection)
