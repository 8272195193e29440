"""Leaky buckets: levels, and the bound of their number."""

import pytest

from broker_ctl.security.client_limits import Buckets


def test_a_bucket_leaks_at_one_second_a_second() -> None:
    buckets = Buckets()
    assert buckets.level_s("a", 100.0) == 0
    buckets.pour("a", 2.0, 100.0)
    buckets.pour("a", 1.0, 101.0)
    assert buckets.level_s("a", 101.0) == pytest.approx(2.0)
    assert buckets.level_s("b", 101.0) == 0
    assert buckets.level_s("a", 104.0) == 0
    buckets.pour("a", 1.0, 110.0)
    assert buckets.level_s("a", 110.0) == pytest.approx(1.0)


def test_more_keys_than_there_may_be_buckets_share_one_and_take_none_from_others() -> None:
    buckets = Buckets(max_buckets=3)
    for key in "abc":
        buckets.pour(key, 10.0, 0.0)
    for number in range(1000):
        buckets.pour(f"attacker {number}", 0.01, 0.0)
    assert len(buckets) == 4
    assert buckets.level_s("b", 0.0) == pytest.approx(10.0)
    # A thousand times 10 ms: they are as one.
    assert buckets.level_s("attacker 7", 0.0) == pytest.approx(10.0)
    assert buckets.level_s("newcomer", 0.0) == pytest.approx(10.0)


def test_empty_buckets_make_room() -> None:
    buckets = Buckets(max_buckets=3)
    buckets.pour("deep", 10.0, 0.0)
    for number in range(1000):
        buckets.pour(f"{number}", 0.5, float(number))
        assert len(buckets) <= 3
    buckets.pour("last", 1.0, 1000.0)
    assert buckets.level_s("last", 1000.0) == pytest.approx(1.0)
