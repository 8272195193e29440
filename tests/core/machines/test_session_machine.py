"""The session machine: its table, and what follows from it whatever happens."""

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.machines.session import (
    TRANSITIONS,
    SessionAction,
    SessionMachineEvent,
    SessionState,
    step,
)
from tests.support.rules.transition_tables import check_steps, rendered, without_row

TABLE = """\
connected, closed -> closed: fence end
connected, deadline -> lost: fence SessionLost
connected, expired -> expired: fence end SessionLost
connected, lease renewed -> connected
connected, reconnected -> connected: verify
connected, suspended -> suspended: ConnectionLost
expired, closed -> closed
expired, deadline -> expired
expired, lease renewed -> expired
expired, opened -> connected: Reconnected SessionReestablished begin
expired, suspended -> expired
lost, closed -> closed: fence end
lost, deadline -> lost
lost, expired -> expired: fence end
lost, lease renewed -> connected: Reconnected SessionReestablished verify
lost, reconnected -> lost: verify
lost, suspended -> lost
none, closed -> closed
none, expired -> none
none, opened -> connected: begin
none, reconnected -> connected: begin
none, suspended -> none
suspended, closed -> closed: fence end
suspended, deadline -> lost: fence SessionLost
suspended, expired -> expired: fence end SessionLost
suspended, lease renewed -> suspended
suspended, reconnected -> connected: Reconnected verify"""

NOTIFIED = {
    SessionAction.CONNECTION_LOST,
    SessionAction.RECONNECTED,
    SessionAction.SESSION_LOST,
    SessionAction.SESSION_REESTABLISHED,
}
# The grammar of events (docs: pulsar-session-watcher), as an automaton over what listeners hear.
GRAMMAR = {
    ("up", SessionAction.CONNECTION_LOST): "cut",
    ("up", SessionAction.SESSION_LOST): "lost",
    ("cut", SessionAction.RECONNECTED): "up",
    ("cut", SessionAction.SESSION_LOST): "lost",
    ("lost", SessionAction.RECONNECTED): "returning",
    ("returning", SessionAction.SESSION_REESTABLISHED): "up",
}


def walk(events: list[SessionMachineEvent]) -> list[SessionAction]:
    """What is done when ``events`` happen; an event that cannot happen is left out."""
    state = SessionState.NONE
    done: list[SessionAction] = []
    for event in events:
        if (state, event) in TRANSITIONS:
            state, actions = step(state, event)
            done += actions
    return done


histories = st.lists(st.sampled_from(SessionMachineEvent), max_size=60).map(walk)


def test_the_table_is_this_one() -> None:
    assert rendered(TRANSITIONS) == TABLE


def test_a_pair_without_a_row_is_an_error() -> None:
    check_steps(TRANSITIONS, step, SessionState, SessionMachineEvent)
    assert "suspended, opened" in without_row(TRANSITIONS, SessionState, SessionMachineEvent)
    assert {
        pair
        for pair in without_row(TRANSITIONS, SessionState, SessionMachineEvent)
        if "closed," in pair
    } == {f"closed, {event}" for event in SessionMachineEvent}


@given(histories)
def test_listeners_hear_words_of_pulsars_grammar(history: list[SessionAction]) -> None:
    place = "up"
    for action in history:
        if action in NOTIFIED:
            assert (place, action) in GRAMMAR, f"{action} after {place}"
            place = GRAMMAR[place, action]
    assert place != "returning"


@given(histories)
def test_sessions_begin_and_end_in_turn(history: list[SessionAction]) -> None:
    scopes = [action for action in history if action in {SessionAction.BEGIN, SessionAction.END}]
    assert scopes[::2] == [SessionAction.BEGIN] * len(scopes[::2])
    assert scopes[1::2] == [SessionAction.END] * len(scopes[1::2])


@given(histories)
def test_authority_is_withdrawn_before_a_session_ends_or_is_reported_lost(
    history: list[SessionAction],
) -> None:
    is_fenced = True
    for action in history:
        if action in {SessionAction.BEGIN, SessionAction.SESSION_REESTABLISHED}:
            is_fenced = False
        elif action is SessionAction.FENCE:
            is_fenced = True
        elif action in {SessionAction.END, SessionAction.SESSION_LOST}:
            assert is_fenced


@given(histories)
def test_after_each_new_connection_everything_is_verified_or_begins_again(
    history: list[SessionAction],
) -> None:
    for place, action in enumerate(history):
        if action is SessionAction.RECONNECTED:
            following = set(history[place + 1 : place + 3])
            assert following & {SessionAction.VERIFY, SessionAction.BEGIN}
