"""The window of bulk requests, against a server with a known round trip."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.store.batching.lane import AdaptiveWindow, FixedWindow

BATCHES, OPERATIONS = 8, 1000


def settled(round_trip_s: Callable[[int], float], samples: int = 3000) -> float:
    """The window after ``samples`` batches of different sizes, each answered in its time."""
    window, rng = AdaptiveWindow(BATCHES, OPERATIONS), random.Random(1)
    for _ in range(samples):
        in_flight = max(1, int(window.operations * rng.uniform(0.5, 1.0)))
        window.on_reply(in_flight, round_trip_s(in_flight))
    return window.operations


def test_a_server_that_takes_time_for_each_operation_gets_no_more_than_it_can_work_on() -> None:
    # Idle 2 ms, and 20 us an operation: 100 operations keep the server busy for a round trip.
    assert settled(lambda n: 0.002 + n * 20e-6) == pytest.approx(200, rel=0.1)


def test_the_window_follows_the_line_through_late_replies() -> None:
    rng = random.Random(2)
    noisy = settled(lambda n: 0.002 + n * 20e-6 + rng.expovariate(1 / 0.001))
    assert 150 < noisy < 600


def test_a_round_trip_that_is_long_without_any_queue_closes_no_window() -> None:
    # A machine with other work: each round trip takes long, whatever its batch has.
    assert settled(lambda _: 0.060) > 4000
    assert settled(lambda n: 0.060 + n * 5e-6) > 4000


def test_a_server_that_becomes_slow_closes_the_window_and_a_fast_one_opens_it_again() -> None:
    window, rng = AdaptiveWindow(BATCHES, OPERATIONS), random.Random(3)

    def ask(per_operation_s: float) -> float:
        for _ in range(3000):
            in_flight = max(1, int(window.operations * rng.uniform(0.5, 1.0)))
            window.on_reply(in_flight, 0.004 + in_flight * per_operation_s)
        return window.operations

    fast, slow = ask(10e-6), ask(100e-6)
    assert slow < fast / 4
    assert ask(10e-6) == pytest.approx(fast, rel=0.1)


def test_samples_far_below_the_window_do_not_move_it() -> None:
    window = AdaptiveWindow(BATCHES, OPERATIONS)
    before = window.operations
    for _ in range(100):
        window.on_reply(1, 5.0)
    assert window.operations == before


@given(
    st.lists(st.tuples(st.integers(1, 8000), st.floats(1e-6, 100.0)), max_size=200),
    st.integers(1, 8),
    st.integers(1, 1000),
)
def test_whatever_is_observed_the_window_keeps_within_its_bounds(
    samples: list[tuple[int, float]], batches: int, operations: int
) -> None:
    window = AdaptiveWindow(batches, operations)
    for in_flight, took_s in samples:
        window.on_reply(in_flight, took_s)
        assert 1 <= window.operations <= batches * operations
    assert window.room(0, 0, 1) >= 1, "an idle lane always sends"


def test_a_batch_has_half_of_the_window_or_all_that_waits() -> None:
    window = AdaptiveWindow(BATCHES, OPERATIONS)
    whole = int(window.operations)
    assert window.room(0, 0, 10_000) == whole
    assert window.room(1, whole // 2, 10_000) == whole - whole // 2
    assert window.room(1, whole // 2 + 1, 10_000) == 0
    assert window.room(1, whole // 4, whole // 2 + 1) == whole - whole // 4
    assert window.room(1, whole // 4, whole // 2) == whole - whole // 4
    assert window.room(1, whole, 1) == 0
    assert window.room(BATCHES, 0, 1) == 0


def test_a_few_requests_wait_for_more_while_a_batch_is_in_flight() -> None:
    window = AdaptiveWindow(BATCHES, OPERATIONS)
    least = int(window.operations) // 4
    assert window.room(1, 1, least - 1) == 0
    assert window.room(1, 1, least) > 0
    assert window.room(0, 0, 1) > 0


def test_a_fixed_window_counts_batches_only() -> None:
    window = FixedWindow(2, 100)
    assert window.room(1, 10_000, 1) == 100
    assert window.room(2, 0, 1) == 0
