"""Lease arithmetic (reference: metadata-store 5.6)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.lease import Lease, LeaseRules
from broker_ctl.errors import SettingsError

# Timeout, tick, and the period and margin that follow.
EXAMPLES = [
    (30.0, 2.0, 3.0, 0.55),
    (10.0, 2.0, 2.25, 0.35),
    (60.0, 2.0, 6.0, 0.85),
    (5.0, 0.5, 0.75, 0.3),
]


@pytest.mark.parametrize(("timeout_s", "tick_s", "period_s", "margin_s"), EXAMPLES)
def test_the_period_is_a_tenth_and_more_than_a_tick(
    timeout_s: float, tick_s: float, period_s: float, margin_s: float
) -> None:
    rules = LeaseRules(timeout_s, tick_s)
    assert rules.period_s == pytest.approx(period_s)
    assert rules.margin_s == pytest.approx(margin_s)


def test_five_periods_must_fit_into_the_timeout() -> None:
    LeaseRules(11.25, 2.0).check()
    with pytest.raises(SettingsError, match=r"11 s is too short .*=2000: at least 11\.25 s"):
        LeaseRules(11.0, 2.0).check()


def test_nothing_is_proven_before_the_first_acknowledgement() -> None:
    assert Lease(LeaseRules(10.0, 1.0), 100.0).remaining_s(100.0) < 0


def test_an_acknowledgement_proves_the_heartbeat_before_it() -> None:
    lease = Lease(LeaseRules(10.0, 1.0), 98.0).acknowledged(100.0)
    assert lease.deadline_s == pytest.approx(98.0 + 10.0 - 0.35)
    assert lease.acknowledged(101.25).deadline_s == pytest.approx(100.0 + 10.0 - 0.35)


def test_in_steady_state_four_fifths_of_the_timeout_are_left() -> None:
    rules = LeaseRules(30.0, 2.0)
    lease = Lease(rules, 0.0).acknowledged(3.0).acknowledged(6.0)
    just_before_the_next_s = 6.0 + rules.period_s
    assert lease.remaining_s(just_before_the_next_s) == pytest.approx(0.8 * 30.0 - rules.margin_s)


@given(
    st.floats(1.0, 120.0),
    st.floats(0.1, 5.0),
    st.lists(st.floats(0.01, 60.0), min_size=1, max_size=30),
)
def test_the_deadline_never_exceeds_what_the_heartbeat_before_proves(
    timeout_s: float, tick_s: float, gaps_s: list[float]
) -> None:
    rules = LeaseRules(timeout_s, tick_s)
    sent_s = [0.0]
    for gap_s in gaps_s:
        sent_s.append(sent_s[-1] + gap_s)
    lease = Lease(rules, sent_s[0])
    for before_s, now_s in pairwise(sent_s):
        earlier_s = lease.deadline_s
        lease = lease.acknowledged(now_s)
        assert lease.deadline_s <= max(earlier_s, before_s + timeout_s - rules.margin_s)
        assert lease.deadline_s >= earlier_s
        assert lease.deadline_s < before_s + timeout_s or lease.deadline_s == earlier_s
