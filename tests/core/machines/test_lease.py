"""Lease arithmetic (docs: zookeeper-session-rules)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.machines.lease import Heartbeat, Lease, LeaseRules
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


def beat(sent_s: float, took_s: float = 0.01) -> Heartbeat:
    return Heartbeat(sent_s, sent_s + took_s)


def test_an_acknowledgement_proves_the_heartbeat_before_it() -> None:
    lease = Lease(LeaseRules(10.0, 1.0), 98.0).acknowledged(beat(100.0))
    assert lease.deadline_s == pytest.approx(98.0 + 10.0 - 0.35)
    assert lease.acknowledged(beat(101.25)).deadline_s == pytest.approx(100.0 + 10.0 - 0.35)


def test_a_heartbeat_that_follows_too_soon_does_not_prove_the_one_before_it() -> None:
    rules = LeaseRules(10.0, 1.0)
    assert rules.report_delay_s == pytest.approx(0.75)
    lease = Lease(rules, 98.0).acknowledged(beat(100.0, took_s=2.0))
    at_once = lease.acknowledged(beat(102.0))
    assert at_once.deadline_s == lease.deadline_s
    assert lease.acknowledged(beat(102.74)).deadline_s == lease.deadline_s
    assert lease.acknowledged(beat(102.76)).deadline_s == pytest.approx(100.0 + 10.0 - 0.35)
    # It is remembered nevertheless, and the next one proves it.
    assert at_once.acknowledged(beat(103.25)).deadline_s == pytest.approx(102.0 + 10.0 - 0.35)


def test_however_fast_heartbeats_come_the_oldest_is_proven_in_the_end() -> None:
    lease = Lease(LeaseRules(10.0, 1.0), 98.0)
    for number in range(100):
        lease = lease.acknowledged(beat(100.0 + number / 10))
        assert len(lease.waiting) <= 2
    assert lease.deadline_s > 100.0 + 9.9 - 3 * 0.75 + 10.0 - 0.35


def test_in_steady_state_four_fifths_of_the_timeout_are_left() -> None:
    rules = LeaseRules(30.0, 2.0)
    lease = Lease(rules, 0.0).acknowledged(beat(3.0)).acknowledged(beat(6.0))
    just_before_the_next_s = 6.0 + rules.period_s
    assert lease.remaining_s(just_before_the_next_s) == pytest.approx(0.8 * 30.0 - rules.margin_s)


def test_a_shorter_timeout_counts_from_the_handshake_that_granted_it() -> None:
    lease = Lease(LeaseRules(20.0, 1.0), 0.0).acknowledged(beat(2.0)).acknowledged(beat(4.0))
    assert lease.deadline_s == pytest.approx(2.0 + 20.0 - 0.45)
    shorter = LeaseRules(8.0, 1.0)
    assert lease.renegotiated(shorter, 5.0).deadline_s == pytest.approx(5.0 + 8.0 - 0.33)
    # A shorter timeout never extends the deadline.
    assert lease.renegotiated(shorter, 21.0).deadline_s == lease.deadline_s
    after = lease.renegotiated(shorter, 5.0).acknowledged(beat(6.0)).acknowledged(beat(8.0))
    assert after.deadline_s == pytest.approx(6.0 + 8.0 - 0.33)


def test_a_renegotiated_timeout_that_is_too_short_is_refused() -> None:
    shorter = LeaseRules(6.0, 1.0)
    with pytest.raises(SettingsError):
        Lease(LeaseRules(20.0, 1.0), 0.0).renegotiated(shorter, 5.0).rules.check()


# A follower between: what it knows, and what of it has reached the leader's timer.


def reported_at(arrivals_s: list[float], first_ping_s: float, tick_s: float, cut_s: float) -> float:
    """The newest arrival that was reported to the leader before the follower was cut off; or 0."""
    newest_s, ping_s = 0.0, first_ping_s
    while ping_s < cut_s:
        newest_s = max([newest_s, *(one for one in arrivals_s if one <= ping_s)])
        ping_s += tick_s / 2
    return newest_s


delays_s = st.floats(0.001, 6.0)


@given(
    rules=st.sampled_from([LeaseRules(10.0, 1.0), LeaseRules(30.0, 2.0), LeaseRules(5.0, 0.5)]),
    phase=st.floats(0.0, 0.99),
    trips=st.lists(st.tuples(delays_s, delays_s, delays_s), min_size=1, max_size=12),
)
def test_no_lease_outlives_a_session_whose_follower_is_cut_off_after_any_answer(
    rules: LeaseRules, phase: float, trips: list[tuple[float, float, float]]
) -> None:
    lease, arrivals_s, now_s = Lease(rules, 0.0), list[float](), 0.0
    for pause_s, up_s, down_s in trips:
        sent_s = now_s + pause_s
        arrivals_s.append(sent_s + up_s)
        now_s = sent_s + up_s + down_s
        lease = lease.acknowledged(Heartbeat(sent_s, now_s))
        heard_s = reported_at(arrivals_s, phase * rules.tick_s / 2, rules.tick_s, cut_s=now_s)
        assert lease.deadline_s < heard_s + rules.timeout_s
