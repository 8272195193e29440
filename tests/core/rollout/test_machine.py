"""The tables of a rollout, and what a rollout remembers."""

from dataclasses import replace

import pytest

from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.rollout.broker_machine import TRANSITIONS as BROKER_TRANSITIONS
from broker_ctl.core.rollout.broker_machine import BrokerRolloutEvent as BrokerEvent
from broker_ctl.core.rollout.broker_machine import BrokerRolloutState as BrokerState
from broker_ctl.core.rollout.forecast import Pace
from broker_ctl.core.rollout.machine import ENDED, HOLDING, TRANSITIONS, RolloutEvent, RolloutState
from broker_ctl.core.rollout.rollout import BrokerReadings, Rollout, RolloutTerms, closed_gates
from broker_ctl.errors import CorruptRecord, InvalidTransition
from broker_ctl.store.records.rollout import RolloutRecord
from tests.support.rules.json_units import out_of_system

ORDER = AuditInfo(1000, "anna", "update")
WAY = (
    BrokerEvent.BEGIN,
    BrokerEvent.EMPTIED,
    BrokerEvent.RESTART_BEGAN,
    BrokerEvent.RESTARTED,
    BrokerEvent.PASSED,
)


def begun(*batches: tuple[str, ...]) -> Rollout:
    return Rollout.begin("r1", ORDER, RolloutTerms(), batches or (("a",), ("b",)))


def restarted(rollout: Rollout, *broker_ids: str) -> Rollout:
    for broker_id in broker_ids:
        for event in WAY:
            rollout = rollout.on_broker(broker_id, event, 2000)
    return rollout


def test_every_state_but_the_last_ones_can_be_left_and_every_state_reached() -> None:
    left = {state for state, _ in TRANSITIONS}
    assert set(RolloutState) - left == ENDED
    assert set(TRANSITIONS.values()) == set(RolloutState)
    assert {state for state, _ in BROKER_TRANSITIONS} == set(BrokerState) - {BrokerState.DONE}


def test_a_rollout_can_be_aborted_wherever_it_holds_something() -> None:
    for state in (*HOLDING, RolloutState.STOPPED):
        assert TRANSITIONS[state, RolloutEvent.ABORT] is RolloutState.ABORTING


def test_an_event_that_does_not_fit_is_an_error_that_names_the_rollout() -> None:
    with pytest.raises(InvalidTransition, match="r1"):
        begun().on(RolloutEvent.RESUME, 2000)
    with pytest.raises(InvalidTransition, match="b"):
        begun().on_broker("b", BrokerEvent.PASSED, 2000)


def test_the_batch_in_progress_is_the_first_that_has_not_restarted() -> None:
    rollout = begun(("a", "b"), ("c",))
    assert [each.broker_id for each in rollout.current] == ["a", "b"]
    rollout = restarted(rollout, "a")
    assert [each.broker_id for each in rollout.current] == ["a", "b"]
    rollout = restarted(rollout, "b")
    assert [each.broker_id for each in rollout.current] == ["c"]
    assert rollout.outstanding == {"c"}
    assert restarted(rollout, "c").current == ()


def test_a_broker_receives_nothing_from_its_turn_until_its_gates_have_opened() -> None:
    rollout = begun()
    assert rollout.drained == frozenset()
    for event in WAY[:-1]:
        rollout = rollout.on_broker("a", event, 2000)
        assert rollout.drained == {"a"}, event
    assert rollout.on_broker("a", WAY[-1], 2000).drained == frozenset()


def test_a_paused_rollout_keeps_what_it_holds() -> None:
    rollout = begun().on_broker("a", BrokerEvent.BEGIN, 2000).on(RolloutEvent.PAUSE, 3000)
    assert rollout.is_holding
    assert rollout.drained == {"a"}


def test_a_stopped_rollout_drains_nobody_and_keeps_how_far_it_is() -> None:
    rollout = begun().on_broker("a", BrokerEvent.BEGIN, 2000)
    assert rollout.drained == {"a"}
    stopped = rollout.on(RolloutEvent.FAIL, 3000, "a: why")
    assert (stopped.drained, stopped.is_holding, stopped.is_over) == (frozenset(), False, False)
    assert stopped.note == "a: why"


def test_the_time_left_follows_the_pace_so_far() -> None:
    rollout = begun(("a",), ("b",), ("c",))
    assert rollout.eta_s(11_000) is None
    assert restarted(rollout, "a").eta_s(11_000) == 20.0


def test_what_is_printed_for_programs_is_in_one_system_of_units() -> None:
    row = restarted(begun(), "a").to_row(ORDER.at_ms + 10_000)
    assert row["eta_s"] == 10.0
    assert list(out_of_system(row)) == []


def test_health_is_noted_of_a_restarted_broker_only() -> None:
    rollout = begun()
    assert rollout.found_healthy("a") == rollout
    for event in (
        BrokerEvent.BEGIN,
        BrokerEvent.EMPTIED,
        BrokerEvent.RESTART_BEGAN,
        BrokerEvent.RESTARTED,
    ):
        rollout = rollout.on_broker("a", event, 2000)
    found = rollout.found_healthy("a").progress_of("a")
    assert found is not None
    assert found.is_healthy


def test_a_restart_that_is_said_again_is_news_and_no_other_state() -> None:
    rollout = begun()
    for event in (BrokerEvent.BEGIN, BrokerEvent.EMPTIED, BrokerEvent.RESTART_BEGAN):
        rollout = rollout.on_broker("a", event, 2000)
    again = rollout.on_broker("a", BrokerEvent.RESTART_BEGAN, 9000).progress_of("a")
    assert again is not None
    assert (again.changed_ms, again.heard_ms) == (2000, 9000)


def test_a_record_is_read_as_it_was_written() -> None:
    rollout = begun(("a", "b"), ("c",)).on_broker("a", BrokerEvent.BEGIN, 5, run_before="run-1")
    rollout = replace(rollout, moves=7, least_moves=5, msg_rate=1.5, note="n", live_ids=(1, 2))
    data = RolloutRecord(rollout).encode()
    assert RolloutRecord.decode("/p", data).rollout == rollout


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (b'"running"', b'"walking"'),
        (b'"waiting"', b'"sitting"'),
        (b'"broker":"a"', b'"broker":"z"'),
        (b'"sinceMs":1000', b'"sinceMs":"x"'),
    ],
)
def test_a_record_that_does_not_fit_is_corrupt(text: bytes, other: bytes) -> None:
    data = RolloutRecord(begun()).encode()
    assert text in data
    with pytest.raises(CorruptRecord):
        RolloutRecord.decode("/p", data.replace(text, other))


GOOD = BrokerReadings("new", "old", is_healthy=True, version="2", has_reported=True)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (GOOD, ""),
        (replace(GOOD, run=None), "not registered"),
        (replace(GOOD, run="old"), "the one from before the restart"),
        (replace(GOOD, is_healthy=False), "ready at its own address"),
        (replace(GOOD, has_reported=False), "no load report"),
        (replace(GOOD, version="1"), "runs version 1, wanted is 2"),
        (replace(GOOD, stale=("b", "c")), "no report since the moves of b, c"),
        (replace(GOOD, lagging=("t-0", "t-1")), "not in sync: t-0, t-1"),
        (replace(GOOD, lagging=("a", "b", "c", "d", "e")), "a, b, c, d and 1 more"),
        (replace(GOOD, msg_rate=49.0, msg_rate_before=100.0), "clients have not returned"),
        (replace(GOOD, msg_rate=50.0, msg_rate_before=100.0), ""),
    ],
)
def test_each_gate_says_what_it_waits_for(seen: BrokerReadings, words: str) -> None:
    closed = closed_gates(seen, "2")
    assert len(closed) == bool(words)
    assert words in "".join(closed)


def test_any_version_will_do_where_none_is_wanted() -> None:
    assert closed_gates(replace(GOOD, version=""), "") == ()


def test_the_pace_rises_while_moves_are_short_and_halves_when_they_are_long() -> None:
    pace = Pace.of(2)
    for _ in range(3):
        pace = pace.after(pace.moves, 0.1)
    assert pace.moves == 8
    assert pace.after(8, 0.9).moves == 4
    assert Pace.of(2).after(2, 0.9).moves == 2
    # A last small group says nothing about more of them.
    assert pace.after(3, 0.1).moves == 8
    for _ in range(9):
        pace = pace.after(pace.moves, 0.1)
    assert pace.moves == 16
