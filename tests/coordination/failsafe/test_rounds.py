"""Rounds of promises: what all members promise outlasts the lease, and nothing else does."""

import asyncio

from broker_ctl.coordination.session.watcher import Grant
from broker_ctl.core.failsafe.promises import PROMISE_S
from broker_ctl.errors import AuthorityLost
from broker_ctl.testing.virtual_time import in_virtual_time
from tests.coordination.failsafe.members import Member, members
from tests.support.clusters.sessions import TIMEOUT_S
from tests.support.time.waiting import eventually

LONG_S = 60.0
# A round asks every two seconds, and waits as long for an answer.
ROUND_S = 5.0


def all_away(made: list[Member], for_s: float) -> None:
    made[0].ensemble.change_leader(for_s)


@in_virtual_time
async def test_while_all_servers_are_away_everybody_serves_on_and_nothing_is_written() -> None:
    async with members() as made:
        zxid = made[0].ensemble.tree.zxid
        all_away(made, LONG_S)
        end_s = made[0].clock.now_s() + LONG_S - 1.0
        while made[0].clock.now_s() < end_s:
            assert all(member.may_serve for member in made)
            await asyncio.sleep(0.25)
        assert all(member.authority.is_promised for member in made)
        assert made[0].ensemble.tree.zxid == zxid
        await eventually(lambda: all(member.has_authority for member in made))
        assert not any(member.authority.is_promised for member in made)
        assert [member.watcher.epoch for member in made] == [1, 1, 1]


@in_virtual_time
async def test_nobody_is_asked_while_the_servers_answer() -> None:
    async with members() as made:
        await asyncio.sleep(LONG_S)
        assert [member.asked for member in made] == [[], [], []]


@in_virtual_time
async def test_one_member_that_does_not_answer_ends_it_for_the_others() -> None:
    async with members() as made:
        made[0].deaf.add(made[2].broker_id)
        all_away(made, LONG_S)
        await asyncio.sleep(TIMEOUT_S + PROMISE_S)
        assert not made[0].may_serve
        assert made[1].may_serve
        assert made[2].may_serve
        assert list(made[0].rounds.refused) == [made[2].broker_id]


@in_virtual_time
async def test_who_reaches_the_servers_promises_nothing() -> None:
    async with members() as made:
        made[0].store.disconnect()
        await asyncio.sleep(TIMEOUT_S)
        assert not made[0].may_serve
        assert made[0].asked
        assert not any(is_promised for _, is_promised in made[0].asked)
        assert all(member.may_acquire for member in made[1:])


@in_virtual_time
async def test_a_promise_binds_its_giver_also_when_the_servers_are_back() -> None:
    async with members() as made:
        all_away(made, TIMEOUT_S)
        await eventually(lambda: all(member.promises.left_s > 0 for member in made))
        given_s = made[1].clock.now_s()
        assert not made[1].may_acquire
        made[1].others.clear()
        await made[1].membership.wait()
        assert made[1].may_acquire
        assert made[1].clock.now_s() - given_s >= PROMISE_S - 0.01


@in_virtual_time
async def test_authority_that_has_lapsed_does_not_come_back_by_promises() -> None:
    async with members() as made:
        deaf = made[0]
        deaf.deaf.add(made[2].broker_id)
        all_away(made, LONG_S)
        await eventually(lambda: not deaf.may_serve)
        deaf.deaf.clear()
        await asyncio.sleep(2 * ROUND_S)
        assert not deaf.may_serve
        assert not deaf.authority.extend(deaf.watcher.epoch, deaf.clock.now_s() + LONG_S)


@in_virtual_time
async def test_a_session_that_has_ended_takes_the_promises_along() -> None:
    async with members(1) as (alone,):
        all_away([alone], TIMEOUT_S + 5.0)
        await eventually(lambda: alone.authority.is_promised)
        ends: list[bool] = []
        alone.authority.listen_end(lambda: ends.append(alone.may_serve))
        await asyncio.sleep(5.0)
        alone.expire()
        await eventually(lambda: alone.watcher.epoch == 2)
        assert ends[-1:] == [False]
        assert alone.authority.deadline_s == alone.watcher.deadline_s


@in_virtual_time
async def test_a_promise_counts_from_the_sending_of_its_request() -> None:
    async with members(2) as made:
        slow, lag_s = made[0], 1.5
        slow.lag_s = lag_s
        left_s: list[float] = []
        slow.authority.listen_grants(
            lambda grant: left_s.append(grant.deadline_s - slow.clock.now_s())
        )
        all_away(made, LONG_S)
        await eventually(lambda: slow.authority.is_promised)
        left_s.clear()
        await asyncio.sleep(2 * ROUND_S)
        assert left_s
        assert max(left_s) <= PROMISE_S - lag_s


@in_virtual_time
async def test_each_promise_is_granted_on_and_its_end_is_notified() -> None:
    async with members(2) as made:
        grants: list[Grant] = []
        ends: list[float] = []
        made[0].authority.listen_grants(grants.append)
        made[0].authority.listen_end(lambda: ends.append(made[0].clock.now_s()))
        all_away(made, LONG_S)
        await eventually(lambda: made[0].authority.is_promised)
        promised_s = made[0].authority.deadline_s
        assert grants[-1] == Grant(1, promised_s)
        made[0].deaf.add(made[1].broker_id)
        await eventually(lambda: not made[0].may_serve)
        await eventually(lambda: bool(ends) and ends[-1] >= made[0].authority.deadline_s)
        try:
            made[0].authority.check()
        except AuthorityLost:
            return
        raise AssertionError("authority was left")


@in_virtual_time
async def test_a_store_is_silent_from_the_moment_on_at_which_it_counts_as_silent() -> None:
    async with members() as made:
        authority, watcher = made[0].authority, made[0].watcher
        watcher.silent_at_s = made[0].clock.now_s() + 0.001
        assert authority.has_store
        watcher.silent_at_s = made[0].clock.now_s()
        assert not authority.has_store
