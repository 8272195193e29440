"""Waiting for records to be committed."""

import asyncio

import pytest

from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.lab.replication.leader import Commits
from tests.support.replicas.replica_planes import ORDERS


async def test_each_waits_for_its_own_offset() -> None:
    commits = Commits()
    first, second, third = (commits.wait(ORDERS, end) for end in (1, 2, 3))
    commits.advanced(ORDERS, 2)
    assert [first.done(), second.done(), third.done()] == [True, True, False]
    commits.advanced(ORDERS, 3)
    assert third.done()
    assert not commits._waiting


async def test_a_cancelled_wait_does_not_hold_up_the_others() -> None:
    commits = Commits()
    gone, waits = commits.wait(ORDERS, 1), commits.wait(ORDERS, 2)
    gone.cancel()
    commits.advanced(ORDERS, 2)
    assert waits.done()
    assert not commits._waiting


async def test_the_end_of_a_leadership_leaves_all_in_doubt() -> None:
    commits = Commits()
    gone, waits = commits.wait(ORDERS, 1), commits.wait(ORDERS, 2)
    gone.cancel()
    commits.ended(ORDERS)
    with pytest.raises(DataPlaneUnreachable, match=r"orders-0: .* fate is unknown"):
        async with asyncio.timeout(60):
            await waits
    commits.advanced(ORDERS, 9)
