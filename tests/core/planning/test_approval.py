"""Approved plans: the machine, and the state of each decision."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Reason, Skip, Split, Transfer
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.approval import (
    OPEN,
    TRANSITIONS,
    ApprovalEvent,
    ApprovalState,
    Fate,
    check_progress,
    mark_refused,
    record_results,
    step,
)
from broker_ctl.errors import InvalidTransition
from tests.support.clusters.views import BUNDLES, RING, broker, cluster, stats

A, B, C, D, FREE = BUNDLES[:5]
TABLE = """\
approved, begin -> carrying out
approved, stop -> stopped
carrying out, begin -> carrying out
carrying out, settled -> done
carrying out, stop -> stopped
carrying out, stuck -> stopped
proposed, approve -> approved
stopped, settled -> stopped
stopped, stuck -> stopped"""


def test_the_table_is_this_one() -> None:
    rows = sorted(f"{state}, {event} -> {after}" for (state, event), after in TRANSITIONS.items())
    assert "\n".join(rows) == TABLE


def test_a_pair_without_a_row_is_an_error_that_names_the_plan() -> None:
    for state in ApprovalState:
        for event in ApprovalEvent:
            if (state, event) in TRANSITIONS:
                assert step(state, event) is TRANSITIONS[state, event]
                continue
            with pytest.raises(InvalidTransition, match="0a1b"):
                step(state, event, "plan 0a1b")


@given(st.lists(st.sampled_from(ApprovalEvent), max_size=30))
def test_a_finished_plan_never_starts_again(events: list[ApprovalEvent]) -> None:
    state, is_over = ApprovalState.PROPOSED, False
    for event in events:
        if (state, event) not in TRANSITIONS:
            continue
        state = step(state, event)
        assert not (is_over and state in OPEN)
        is_over = state not in OPEN


def transfer(bundle: Bundle, source: str, destination: str) -> Transfer:
    none = NO_LOAD
    return Transfer(bundle, source, destination, Reason.ADMIN, "", none, none, none)


def seen(**moves: InFlight) -> ClusterView:
    reports = [broker("b1", 0.6, {A: stats(60), B: stats(10)}), broker("b2", 0.1, {C: stats(10)})]
    return cluster(reports, owners={FREE: None}, moves=moves.values())


def waiting(*decisions: Action) -> tuple[Fate, ...]:
    return (Fate.WAITING,) * len(decisions)


def fates_of(view: ClusterView, *decisions: Action) -> str:
    return "".join(check_progress(view, decisions, waiting(*decisions)).fates)


def test_a_decision_whose_outcome_is_there_already_is_done() -> None:
    children = RING.split(A, ((A.range.low + A.range.high) // 2,))
    merged = RING.merge(A, B)
    split = Split(A, "b1", "range_equally_divide", (), Reason.TOPICS, "")
    merge = Merge(A, B, "b1", Reason.COLD, "")
    assert fates_of(seen(), transfer(A, "b1", "b2"), transfer(C, "b1", "b2")) == ".d"
    assert fates_of(seen(), Assign(FREE, "b1", Reason.UNOWNED, "")) == "."
    assert fates_of(seen(), Assign(C, "b2", Reason.UNOWNED, "")) == "d"
    assert fates_of(seen(), split, merge) == ".."
    assert fates_of(replace(seen(), rings={RING.namespace: children}), split) == "d"
    assert fates_of(replace(seen(), rings={RING.namespace: merged}), merge) == "d"


def test_a_move_that_is_still_under_way_has_not_arrived() -> None:
    view = seen(only=InFlight(C, "b1", "b2"))
    assert fates_of(view, transfer(C, "b1", "b2")) == "."


def test_a_decision_that_is_settled_is_not_checked_again() -> None:
    decisions = (transfer(A, "b1", "b2"), transfer(B, "b1", "b2"))
    found = check_progress(seen(), decisions, (Fate.FAILED, Fate.WAITING))
    assert found.fates == (Fate.FAILED, Fate.WAITING)
    assert dict(found.waiting) == {1: decisions[1]}


def test_a_spent_budget_puts_off_and_all_else_ends() -> None:
    decisions = (transfer(A, "b1", "b2"), transfer(B, "b1", "b2"), transfer(C, "b2", "b1"))
    left = dict(enumerate(decisions))
    skips = (
        Skip(str(A), Reason.BUDGET_BROKER, ""),
        Skip(str(B), Reason.NOT_OWNED, ""),
        Skip("cluster", Reason.NO_GAIN, ""),
    )
    fates, final = mark_refused(left, waiting(*decisions), skips)
    assert "".join(fates) == ".o."
    assert final == skips[1:2]


def test_a_decision_that_was_tried_is_done_or_has_failed() -> None:
    decisions = (transfer(A, "b1", "b2"), transfer(B, "b1", "b2"), transfer(C, "b2", "b1"))
    tried = decisions[:2]
    fates = record_results(
        dict(enumerate(decisions)), waiting(*decisions), tried, frozenset({(A,)})
    )
    assert "".join(fates) == "df."
