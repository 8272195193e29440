"""When the preferred replica is elected again."""

import pytest

from broker_ctl.core.partitions.elections import imbalanced, is_warm


@pytest.mark.parametrize(
    ("preferring", "elsewhere", "is_due"),
    [(100, 10, False), (100, 11, True), (9, 1, True), (10, 1, False), (0, 0, False)],
)
def test_more_than_a_tenth_elsewhere_is_too_much(
    preferring: int, elsewhere: int, is_due: bool
) -> None:
    found = imbalanced({4: preferring}, {4: range(elsewhere)}, 10.0)
    assert found == ([4] if is_due else [])


def test_brokers_are_judged_one_by_one() -> None:
    elsewhere = {5: range(50), 1: range(20), 2: range(3)}
    assert imbalanced({1: 50, 2: 50, 5: 50}, elsewhere, 10.0) == [1, 5]
    assert imbalanced({1: 50, 2: 50, 5: 50}, elsewhere, 50.0) == [5]


@pytest.mark.parametrize(
    ("age_s", "lagging", "warm"),
    [
        (None, 7, True),
        (5.0, 7, False),
        (5.0, 0, True),
        (119.0, 1, False),
        (120.0, 1, True),
    ],
)
def test_a_broker_that_has_just_started_is_spared_until_it_is_in_sync(
    age_s: float | None, lagging: int, warm: bool
) -> None:
    assert is_warm(age_s, lagging) is warm
