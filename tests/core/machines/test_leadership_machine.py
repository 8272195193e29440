"""The leadership machine: its table, and what follows from it whatever happens."""

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.machines.election import (
    TRANSITIONS,
    ElectionAction,
    ElectionEvent,
    ElectionState,
    pause_s,
    step,
)
from tests.support.rules.transition_tables import check_steps, rendered, without_row

TABLE = """\
electing, authority lost -> electing
electing, beaten -> electing
electing, connection lost -> electing
electing, free -> electing: create
electing, mine -> electing: delete
electing, others -> following
electing, resign -> resigned
electing, won -> leading: lead
following, authority lost -> following
following, connection lost -> following
following, free -> electing: create
following, mine -> electing: delete
following, others -> following
following, resign -> resigned
leading, authority lost -> electing: step down
leading, connection lost -> suspended
leading, failed -> electing: step down delete
leading, free -> electing: step down
leading, mine -> leading
leading, others -> following: step down
leading, resign -> resigned: step down delete
suspended, authority lost -> electing: step down
suspended, connection lost -> suspended
suspended, failed -> electing: step down delete
suspended, free -> electing: step down
suspended, mine -> leading
suspended, others -> following: step down
suspended, resign -> resigned: step down delete"""

FROM_THE_SESSION = {ElectionEvent.CONNECTION_LOST, ElectionEvent.AUTHORITY_LOST}


def test_the_table_is_this_one() -> None:
    assert rendered(TRANSITIONS) == TABLE


def test_a_pair_without_a_row_is_an_error() -> None:
    check_steps(TRANSITIONS, step, ElectionState, ElectionEvent)
    missing = without_row(TRANSITIONS, ElectionState, ElectionEvent)
    assert {"leading, won", "following, won", "electing, failed", "resigned, free"} <= missing


def test_the_session_may_speak_while_an_action_waits() -> None:
    # STAND and DELETE wait in these states; neither may be led elsewhere meanwhile.
    for event in FROM_THE_SESSION:
        assert step(ElectionState.ELECTING, event) == (ElectionState.ELECTING, ())
    assert (
        without_row(TRANSITIONS, set(ElectionState) - {ElectionState.RESIGNED}, FROM_THE_SESSION)
        == set()
    )


@given(st.lists(st.sampled_from(ElectionEvent), max_size=60))
def test_leading_begins_and_ends_in_turn_and_is_over_without_authority(
    events: list[ElectionEvent],
) -> None:
    state, is_leading = ElectionState.ELECTING, False
    for event in events:
        if (state, event) not in TRANSITIONS:
            continue
        state, actions = step(state, event)
        if ElectionAction.LEAD in actions:
            assert not is_leading
            is_leading = True
        if ElectionAction.STEP_DOWN in actions:
            assert is_leading
            is_leading = False
        if event is ElectionEvent.AUTHORITY_LOST:
            assert not is_leading
        assert is_leading == (state in {ElectionState.LEADING, ElectionState.SUSPENDED})


def test_a_candidate_that_keeps_losing_leadership_pauses_longer_each_time() -> None:
    assert pause_s(0, 0.7) == 0.0
    assert [pause_s(setbacks, 0.0) for setbacks in range(1, 6)] == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert pause_s(3, 0.7) == 1.7
    assert pause_s(1_000, 1.0) == 31.0
