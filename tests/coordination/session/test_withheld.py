"""Authority that a session would give, and that is not claimed."""

import pytest

from broker_ctl.clock import Clock
from broker_ctl.coordination.session import AuthorityMode
from broker_ctl.core.machines.lease import Heartbeat
from broker_ctl.core.machines.session import SessionAction, SessionState
from broker_ctl.errors import AuthorityLost
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.sessions import Party, parties
from tests.support.time.waiting import eventually

WHY = "others are moving"


async def withheld(one: Party) -> float:
    await one.watcher.wait_authority()
    return one.watcher.withhold(WHY)


def late_proof(clock: Clock) -> Heartbeat:
    """One that was on its way."""
    return Heartbeat(clock.now_s(), clock.now_s())


@in_virtual_time
async def test_it_ends_at_once_for_all_who_act_and_the_caller_learns_how_long_it_was_promised() -> (
    None
):
    async with parties() as (one,):
        until_s = await withheld(one)
        assert until_s > one.clock.now_s()
        assert one.watcher.deadline_s == 0.0
        assert one.grants[-1].deadline_s == 0.0
        assert one.actions[-2:] == [SessionAction.FENCE, SessionAction.SESSION_LOST]
        with pytest.raises(AuthorityLost, match=f"no authority: {WHY}"):
            one.watcher.check()


@in_virtual_time
async def test_a_proof_that_was_on_its_way_gives_nothing_back() -> None:
    async with parties() as (one,):
        await withheld(one)
        for _ in range(3):
            one.watcher._prove(one.watcher.epoch, late_proof(one.clock))
        assert one.watcher.state is SessionState.LOST
        assert one.watcher.deadline_s == 0.0


@in_virtual_time
async def test_it_comes_back_in_the_same_session_with_the_next_proof() -> None:
    async with parties() as (one,):
        await withheld(one)
        session_id = one.store.session_id
        one.watcher.claim()
        assert not one.has_authority
        await one.watcher.wait_authority()
        assert one.store.session_id == session_id
        assert one.actions[-1] is SessionAction.VERIFY


@pytest.mark.parametrize("mode", AuthorityMode)
@in_virtual_time
async def test_no_mode_gives_any_meanwhile_nor_in_a_later_session(mode: AuthorityMode) -> None:
    async with parties(mode=mode) as (one,):
        await withheld(one)
        assert one.watcher.deadline_s == 0.0
        one.ensemble.expire(one.store.session_id)
        await eventually(lambda: one.watcher.epoch == 2)
        assert one.watcher.deadline_s == 0.0
        one.watcher.claim()
        await one.watcher.wait_authority()
