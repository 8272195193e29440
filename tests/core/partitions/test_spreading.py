"""Replicas of new partitions are spread evenly: in the topic first, then in the cluster."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.partitions.placing import spread
from broker_ctl.errors import InvalidReplicas


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (0, "0 replicas: a partition has at least one"),
        (4, "4 replicas on as many brokers, and 3 live: 1, 2, 3"),
    ],
)
def test_a_factor_that_cannot_be_is_refused(factor: int, said: str) -> None:
    with pytest.raises(InvalidReplicas, match=said):
        spread(1, factor, {3, 1, 2})


def test_without_a_broker_there_is_nowhere_to_go() -> None:
    with pytest.raises(InvalidReplicas, match="0 live: none"):
        spread(1, 1, ())


@given(st.integers(1, 60), st.integers(1, 4), st.integers(4, 9))
def test_a_topic_is_even(count: int, factor: int, brokers: int) -> None:
    found = spread(count, factor, range(1, brokers + 1))
    assert len(found) == count
    assert all(len(set(replicas)) == factor for replicas in found)
    leaders = Counter(replicas[0] for replicas in found)
    members = Counter(each for replicas in found for each in replicas)
    every = range(1, brokers + 1)
    assert max(leaders[each] for each in every) - min(leaders[each] for each in every) <= 2
    assert max(members[each] for each in every) - min(members[each] for each in every) <= 1


def test_existing_replicas_of_a_topic_count() -> None:
    found = spread(3, 1, {1, 2, 3, 4}, beside=[(1,), (2,), (2,)])
    assert sorted(found) == [(1,), (3,), (4,)]
    led_by_one = [(1, 2), (1, 2), (1, 2)]
    assert spread(3, 2, {1, 2}, beside=led_by_one) == [(2, 1), (2, 1), (2, 1)]


def test_an_empty_broker_goes_first_and_does_not_get_all() -> None:
    busy = {1: 500, 2: 400, 3: 0}
    found = spread(4, 1, {1, 2, 3}, all_leaders=busy, all_replicas=busy)
    assert found[0] == (3,)
    assert Counter(each for (each,) in found) == {3: 2, 1: 1, 2: 1}


def test_the_followers_of_one_broker_are_many() -> None:
    found = spread(60, 2, range(1, 7))
    pairs = Counter(found)
    assert len(pairs) >= 20, "of 30"
    assert max(pairs.values()) <= 6


def test_ten_thousand_partitions_are_spread_alike_each_time() -> None:
    first = spread(10_000, 3, range(100))
    assert first == spread(10_000, 3, range(100))
    assert max(Counter(each for replicas in first for each in replicas).values()) == 300


def test_of_equals_the_one_leads_that_leads_least_elsewhere() -> None:
    assert spread(1, 2, {1, 2}, all_leaders={1: 5}) == [(2, 1)]
    assert spread(1, 2, {1, 2}, all_leaders={2: 5}) == [(1, 2)]
