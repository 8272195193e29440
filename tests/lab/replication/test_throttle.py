"""Replicas that a reassignment adds catch up at the rate of the throttle, and no others do."""

import pytest

from broker_ctl.lab.replication.fetchers import Throttle
from broker_ctl.lab.time import ManualClock
from tests.support.replicas.replica_planes import LAG_S, ORDERS, Planes, instruction, state
from tests.support.time.waiting import eventually

RATE = 1000
VALUES = [b"%099d\n" % number for number in range(30)]


def granted(throttle: Throttle[str]) -> list[str]:
    return [one for one, _ in throttle.grants()]


def test_grants_follow_the_rate_and_the_order_of_waiting() -> None:
    clock = ManualClock()
    throttle = Throttle[str](clock)
    throttle.set_rate(RATE)
    for one in ("a", "b", "c"):
        throttle.wait(one)
    throttle.wait("a")
    assert granted(throttle) == []
    assert throttle.wait_s() == pytest.approx(0.1)
    clock.time_s += 0.21
    assert granted(throttle) == ["a", "b"]
    throttle.wait("a")
    throttle.spend(500)
    clock.time_s += 0.5
    assert granted(throttle) == [], "a debt is paid first"
    clock.time_s += 0.2
    assert granted(throttle) == ["c", "a"]
    clock.time_s += 3600
    for number in range(20):
        throttle.wait(str(number))
    assert len(granted(throttle)) == 10, "a second's worth is saved up"
    throttle.forget("10")
    throttle.set_rate(None)
    assert granted(throttle) == [str(number) for number in range(11, 20)]
    assert throttle.wait_s() is None


async def added(planes: Planes, *throttled: int) -> None:
    """1 leads with 3 in sync, and 2 is added; the throttle applies at these."""
    for number in throttled:
        await planes[number].isr_proposals(LAG_S, RATE)
    new = instruction(state(1, 0, (1, 3)))._replace(adding=(2,))
    await planes.instruct(new, 1, 3)
    await planes.client(1).produce(ORDERS, VALUES)
    await planes.instruct(new, 2)


async def test_a_leader_sends_an_added_replica_no_more_than_the_throttle() -> None:
    clock = ManualClock()
    async with Planes(clock=clock) as planes:
        await added(planes, 1)
        await planes.wait_log(3, VALUES)
        start_s = clock.now_s()

        async def is_complete() -> bool:
            clock.time_s += 0.05
            size = sum(len(each.value) for each in await planes.client(2).log(ORDERS))
            assert size <= RATE * (clock.now_s() - start_s) + len(VALUES[0])
            return size == sum(map(len, VALUES))

        await eventually(is_complete, what="all records at 2")
        # What it has from here on is in sync, and is not held back.
        proposal = await planes.wait_proposal(1, (1, 2, 3))
        await planes.grant(1, proposal)
        # Which it did without a throttle; and more than a second's worth comes at once.
        await planes[1].isr_proposals(LAG_S, RATE)
        await planes.client(1).produce(ORDERS, VALUES)
        await planes.wait_log(2, [*VALUES, *VALUES])


async def test_a_repeated_instruction_and_the_end_of_the_throttle_let_go() -> None:
    async with Planes(clock=ManualClock()) as planes:
        await added(planes, 1)
        assert planes[1]._leaders.throttle.rate == RATE
        await planes.instruct(instruction(state(1, 0, (1, 3))), 1)
        planes[1]._leaders.feeds.mark(ORDERS)
        await planes.wait_log(2, VALUES)
    async with Planes(clock=ManualClock()) as planes:
        await added(planes, 1)
        await planes[1].isr_proposals(LAG_S)
        await planes.wait_log(2, VALUES)


async def test_an_added_replica_fetches_no_more_than_the_throttle() -> None:
    clock = ManualClock()
    values = [b"%09d\n" % number for number in range(1200)]
    async with Planes(clock=clock) as planes:
        await planes[2].isr_proposals(LAG_S, RATE)
        new = instruction(state(1, 0, (1,)), replicas=(1, 2))._replace(adding=(2,))
        await planes.instruct(new, 1)
        await planes.client(1).produce(ORDERS, values)
        await planes.instruct(new, 2)
        await planes.wait_log(2, values[:1000])
        held_back = planes[2]._fetchers.throttle
        assert held_back.wait_s() == pytest.approx(10.1), "it has fetched ten seconds' worth"
        clock.time_s += 10.2
        await planes.wait_log(2, values)
