"""Replicas are replanned onto other brokers evenly and with few moves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.partitions.reassigning import replan
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import InvalidReplicas


def topic(*replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("t", number): each for number, each in enumerate(replicas)}


def test_an_even_assignment_stays() -> None:
    before = topic((1, 2), (2, 3), (3, 1))
    assert replan(before, {1, 2, 3}) == before


def test_only_the_replicas_of_a_broker_that_goes_are_moved() -> None:
    before = topic((1, 2), (2, 3), (3, 1))
    assert replan(before, {1, 2, 4}) == topic((1, 2), (2, 4), (4, 1))


def test_a_new_broker_gets_its_share_and_no_more_is_moved() -> None:
    before = topic(*[(1, 2), (2, 1)] * 6)
    after = replan(before, {1, 2, 3})
    moved = sum(len(set(after[each]) - set(before[each])) for each in before)
    assert moved == 8
    assert Counter(each for replicas in after.values() for each in replicas) == {1: 8, 2: 8, 3: 8}
    assert Counter(replicas[0] for replicas in after.values()) == {1: 4, 2: 4, 3: 4}


def test_leaderships_are_levelled_by_order_alone() -> None:
    before = topic((1, 2), (1, 2), (1, 2), (1, 2))
    after = replan(before, {1, 2})
    assert Counter(replicas[0] for replicas in after.values()) == {1: 2, 2: 2}


def test_a_leadership_that_one_cannot_take_another_one_does() -> None:
    before = topic(*[(1, 3), (2, 4)] * 4)
    after = replan(before, {1, 2, 3, 4})
    assert Counter(replicas[0] for replicas in after.values()) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert all(set(after[each]) == set(before[each]) for each in before)


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(InvalidReplicas, match="t-0 has 3 replicas, and is to be on 2 brokers"):
        replan(topic((1, 2, 3)), {1, 2})


SOME = st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True).map(tuple)


@given(st.lists(SOME, min_size=1, max_size=12), st.sets(st.integers(1, 9), min_size=3))
def test_every_partition_keeps_its_number_and_nobody_has_far_more_than_another(
    replicas: list[tuple[int, ...]], brokers: set[int]
) -> None:
    before = topic(*replicas)
    after = replan(before, brokers)
    assert after.keys() == before.keys()
    for partition, found in after.items():
        assert len(set(found)) == len(found) == len(before[partition])
        assert set(found) <= brokers
    counts = Counter(each for found in after.values() for each in found)
    assert max(counts[each] for each in brokers) - min(counts[each] for each in brokers) <= 1
