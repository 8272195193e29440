"""The leader removes members that are gone, and nobody else does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_ctl.coordination.failsafe.absences import Absences
from broker_ctl.testing.virtual_time import in_virtual_time
from tests.coordination.failsafe.members import Member, members
from tests.support.time.waiting import eventually

LIMIT_S = 30.0


class Watched:
    """What the leader knows of the two brokers."""

    def __init__(self, leader: Member, other: Member) -> None:
        self.leader, self.other = leader, other
        self.registered = {leader.broker_id, other.broker_id}
        self.leads = True
        self.absences = Absences(
            leader.store,
            leader.membership,
            registered=lambda: self.registered,
            leads=lambda: self.leads,
            clock=leader.clock,
            limit_s=LIMIT_S,
        )

    def is_member(self) -> bool:
        found = self.leader.membership.members
        return found is not None and self.other.broker_id in found.added


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    async with members(2) as made:
        scene = Watched(*made)
        scene.absences.start()
        try:
            yield scene
        finally:
            await scene.absences.close()


@in_virtual_time
async def test_a_member_that_is_gone_for_the_limit_is_removed() -> None:
    async with watched() as scene:
        scene.registered.discard(scene.other.broker_id)
        await scene.other.watcher.close()
        began_s = scene.leader.clock.now_s()
        await eventually(lambda: not scene.is_member(), 3 * LIMIT_S)
        assert scene.leader.clock.now_s() - began_s >= LIMIT_S


@in_virtual_time
async def test_a_member_that_is_not_registered_and_still_writes_heartbeats_stays() -> None:
    async with watched() as scene:
        scene.registered.discard(scene.other.broker_id)
        await asyncio.sleep(5 * LIMIT_S)
        assert scene.is_member()


@in_virtual_time
async def test_what_another_leader_has_seen_does_not_count() -> None:
    async with watched() as scene:
        scene.registered.discard(scene.other.broker_id)
        await scene.other.watcher.close()
        await asyncio.sleep(LIMIT_S * 0.7)
        scene.leads = False
        await asyncio.sleep(LIMIT_S)
        scene.leads = True
        await asyncio.sleep(LIMIT_S * 0.7)
        assert scene.is_member()
        await eventually(lambda: not scene.is_member(), 3 * LIMIT_S)
