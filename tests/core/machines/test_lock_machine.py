"""The lock machine: its table, and what follows from it whatever happens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.machines.lock import (
    TRANSITIONS,
    Claim,
    LockAction,
    LockEvent,
    LockState,
    claim_of,
    step,
)
from tests.support.rules.transition_tables import check_steps, rendered, without_row

LIVE = """\
held, gone -> lost: notify lost
held, mine -> held
held, node deleted -> verifying: read
held, other -> lost: notify lost
held, reconnected -> verifying: read
held, release -> releasing: delete
held, session ended -> lost
held, suspended -> suspect
releasing, done -> released
releasing, gone -> releasing
releasing, mine -> releasing
releasing, node deleted -> releasing
releasing, other -> releasing
releasing, reconnected -> releasing
releasing, refused -> verifying: read
releasing, release -> releasing: delete
releasing, session ended -> released
releasing, suspended -> releasing
suspect, gone -> lost: notify lost
suspect, mine -> suspect
suspect, node deleted -> verifying: read
suspect, other -> lost: notify lost
suspect, reconnected -> verifying: read
suspect, release -> releasing: delete
suspect, session ended -> lost
suspect, suspended -> suspect
verifying, gone -> lost: notify lost
verifying, mine -> held
verifying, node deleted -> verifying: read
verifying, other -> lost: notify lost
verifying, reconnected -> verifying: read
verifying, release -> releasing: delete
verifying, session ended -> lost
verifying, suspended -> suspect"""
ENDED = "\n".join(sorted(f"{s}, {e} -> {s}" for s in ("lost", "released") for e in LockEvent))

# What comes from outside, at any time and late; the others answer an action of ours.
NEWS = set(LockEvent) - {LockEvent.DONE, LockEvent.REFUSED}


def test_the_table_is_this_one() -> None:
    assert rendered(TRANSITIONS).splitlines() == sorted((LIVE + "\n" + ENDED).splitlines())


def test_a_pair_without_a_row_is_an_error() -> None:
    check_steps(TRANSITIONS, step, LockState, LockEvent)
    assert without_row(TRANSITIONS, LockState, LockEvent) == {
        f"{state}, {answer}"
        for state in (LockState.HELD, LockState.SUSPECT, LockState.VERIFYING)
        for answer in (LockEvent.DONE, LockEvent.REFUSED)
    }


def test_news_may_come_in_every_state() -> None:
    assert without_row(TRANSITIONS, LockState, NEWS) == set()


@given(st.lists(st.sampled_from(LockEvent), max_size=40))
def test_a_generation_ends_once_and_notifies_of_its_loss_at_most_once(
    events: list[LockEvent],
) -> None:
    state, notifications = LockState.HELD, 0
    for event in events:
        if (state, event) not in TRANSITIONS:
            continue
        before = state
        state, actions = step(before, event)
        notifications += actions.count(LockAction.NOTIFY_LOST)
        if before in {LockState.LOST, LockState.RELEASED}:
            assert state is before
            assert actions == ()
        if LockAction.NOTIFY_LOST in actions:
            assert event in {LockEvent.GONE, LockEvent.OTHER}, (
                "only a read shows that it was taken away"
            )
    assert notifications <= 1


@pytest.mark.parametrize(
    ("owner_session", "is_ephemeral", "owner_broker", "claim"),
    [
        (7, True, "b1", Claim.MINE),
        (7, True, None, Claim.MINE),
        (8, True, "b1", Claim.MY_EARLIER_SESSION),
        (8, True, "b2", Claim.OTHERS),
        (8, True, None, Claim.OTHERS),
        (0, False, "b1", Claim.NOT_EPHEMERAL),
    ],
)
def test_only_the_session_proves_whose_a_node_is(
    owner_session: int, is_ephemeral: bool, owner_broker: str | None, claim: Claim
) -> None:
    found = claim_of(
        owner_session=owner_session,
        is_ephemeral=is_ephemeral,
        owner_broker=owner_broker,
        session_id=7,
        broker_id="b1",
    )
    assert found is claim
