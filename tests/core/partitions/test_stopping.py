"""Controlled shutdown: when it is safe, and what becomes of each partition."""

import pytest

from broker_ctl.core.partitions.elections import (
    Election,
    ElectionRefusal,
    RefusedElection,
    next_state,
    shortfall,
)
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr

THREE = Assignment((1, 2, 3))
LIVE = {1, 2, 3}


def led_by(leader: int, *isr: int) -> LeaderAndIsr:
    return LeaderAndIsr(leader, 5, isr, 4, version=17)


@pytest.mark.parametrize(
    ("state", "live", "leaving", "min_isr", "remaining"),
    [
        (led_by(1, 1, 2, 3), LIVE, {1}, 2, None),
        (led_by(2, 1, 2), LIVE, {1}, 1, None),
        (led_by(2, 1, 2), LIVE, {1}, 2, (2,)),
        (led_by(1, 1), LIVE, {1}, 1, ()),
        # Another one leaves as well, or is dead and still in the ISR.
        (led_by(1, 1, 2, 3), LIVE, {1, 2}, 2, (3,)),
        (led_by(1, 1, 2, 3), {1, 3}, {1}, 2, (3,)),
        # It is not in sync there: without it nothing is less.
        (led_by(2, 2), LIVE, {1}, 2, None),
    ],
)
def test_a_partition_keeps_what_it_asks_for(
    state: LeaderAndIsr,
    live: set[int],
    leaving: set[int],
    min_isr: int,
    remaining: tuple[int, ...] | None,
) -> None:
    assert shortfall(THREE, state, live, leaving, min_isr) == remaining


def test_an_only_replica_does_not_delay_a_shutdown() -> None:
    assert shortfall(Assignment((1,)), led_by(1, 1), LIVE, {1}, 1) is None
    assert shortfall(Assignment((1, 2)), led_by(1, 1, 2), LIVE, {1}, 2) == (2,)


def test_a_min_isr_above_the_number_of_replicas_does_not_delay_a_shutdown() -> None:
    assert shortfall(THREE, led_by(1, 1, 2, 3), LIVE, {1}, 3) == (2, 3)
    assert shortfall(THREE, led_by(1, 1, 2, 3), LIVE, {1}, 4) is None


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (led_by(1, 1, 2, 3), LeaderAndIsr(2, 6, (2, 3), 9, version=17)),
        (led_by(2, 1, 2), LeaderAndIsr(2, 6, (2,), 9, version=17)),
        (led_by(1, 1), RefusedElection(ElectionRefusal.NONE_IN_SYNC_REMAINS)),
        (led_by(2, 2, 3), RefusedElection(ElectionRefusal.NOTHING_CHANGES)),
    ],
)
def test_a_leaving_broker_neither_leads_nor_is_in_sync(
    state: LeaderAndIsr, expected: Election
) -> None:
    assert next_state(THREE, state, LIVE, {1}, 9) == expected
