"""The session machine: its table, and what follows from it whatever happens."""

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.machines.session import TRANSITIONS, Action, Event, State, step
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
    Action.CONNECTION_LOST,
    Action.RECONNECTED,
    Action.SESSION_LOST,
    Action.SESSION_REESTABLISHED,
}
# The grammar of events (docs: pulsar-session-watcher), as an automaton over what listeners hear.
GRAMMAR = {
    ("up", Action.CONNECTION_LOST): "cut",
    ("up", Action.SESSION_LOST): "lost",
    ("cut", Action.RECONNECTED): "up",
    ("cut", Action.SESSION_LOST): "lost",
    ("lost", Action.RECONNECTED): "returning",
    ("returning", Action.SESSION_REESTABLISHED): "up",
}


def walk(events: list[Event]) -> list[Action]:
    """What is done when ``events`` happen; an event that cannot happen is left out."""
    state = State.NONE
    done: list[Action] = []
    for event in events:
        if (state, event) in TRANSITIONS:
            state, actions = step(state, event)
            done += actions
    return done


histories = st.lists(st.sampled_from(Event), max_size=60).map(walk)


def test_the_table_is_this_one() -> None:
    assert rendered(TRANSITIONS) == TABLE


def test_a_pair_without_a_row_is_an_error() -> None:
    check_steps(TRANSITIONS, step, State, Event)
    assert "suspended, opened" in without_row(TRANSITIONS, State, Event)
    assert {pair for pair in without_row(TRANSITIONS, State, Event) if "closed," in pair} == {
        f"closed, {event}" for event in Event
    }


@given(histories)
def test_listeners_hear_words_of_pulsars_grammar(history: list[Action]) -> None:
    place = "up"
    for action in history:
        if action in NOTIFIED:
            assert (place, action) in GRAMMAR, f"{action} after {place}"
            place = GRAMMAR[place, action]
    assert place != "returning"


@given(histories)
def test_sessions_begin_and_end_in_turn(history: list[Action]) -> None:
    scopes = [action for action in history if action in {Action.BEGIN, Action.END}]
    assert scopes[::2] == [Action.BEGIN] * len(scopes[::2])
    assert scopes[1::2] == [Action.END] * len(scopes[1::2])


@given(histories)
def test_authority_is_withdrawn_before_a_session_ends_or_is_reported_lost(
    history: list[Action],
) -> None:
    is_fenced = True
    for action in history:
        if action in {Action.BEGIN, Action.SESSION_REESTABLISHED}:
            is_fenced = False
        elif action is Action.FENCE:
            is_fenced = True
        elif action in {Action.END, Action.SESSION_LOST}:
            assert is_fenced


@given(histories)
def test_after_each_new_connection_everything_is_verified_or_begins_again(
    history: list[Action],
) -> None:
    for place, action in enumerate(history):
        if action is Action.RECONNECTED:
            following = set(history[place + 1 : place + 3])
            assert following & {Action.VERIFY, Action.BEGIN}
