"""The clocks of a process."""

import time

import pytest

from broker_ctl.clock import SystemClock

READINGS = {
    time.CLOCK_BOOTTIME: 5000.25,
    time.CLOCK_MONOTONIC: 4000.25,
    time.CLOCK_REALTIME: 3000.25,
}


def test_the_clock_of_decisions_counts_while_the_machine_is_suspended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    now_s = SystemClock().now_s()
    assert before_s <= now_s <= time.clock_gettime(time.CLOCK_BOOTTIME)
    # After a suspend of a thousand seconds.
    monkeypatch.setattr(time, "clock_gettime", READINGS.__getitem__)
    monkeypatch.setattr(time, "monotonic", lambda: READINGS[time.CLOCK_MONOTONIC])
    assert SystemClock().now_s() == 5000.25


def test_the_wall_clock_shows_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    assert SystemClock().wall_ms() == 1_700_000_000_123
