"""Replicas are on as many racks as there are: in new topics, in plans, and in what is counted."""

from collections import Counter, defaultdict
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.placing import is_violated, racks_of, racks_used, spread
from broker_ctl.core.partitions.reassigning import replan
from broker_ctl.core.partitions.values import (
    Assignment,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
)

# Racks by broker: 3 to 9 brokers on up to 4 racks of any sizes.
RACKS = st.lists(st.sampled_from("abcd"), min_size=3, max_size=9).map(
    lambda racks: dict(enumerate(racks, 1))
)
SOME = st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True).map(tuple)


def live(racks: Mapping[int, str]) -> dict[int, LiveBroker]:
    return {number: LiveBroker(number, 1, "h", 1, rack=rack) for number, rack in racks.items()}


def topic(*replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("t", number): each for number, each in enumerate(replicas)}


def range_of(counts: Counter[int], brokers: list[int]) -> int:
    return max(counts[each] for each in brokers) - min(counts[each] for each in brokers)


def within_racks(found: list[tuple[int, ...]], racks: Mapping[int, str]) -> int:
    """The largest difference between two brokers of one rack in their number of replicas."""
    counts = Counter(each for replicas in found for each in replicas)
    members = defaultdict(list)
    for broker, rack in racks.items():
        members[rack].append(broker)
    return max(range_of(counts, brokers) for brokers in members.values())


@given(st.integers(1, 40), st.integers(1, 3), RACKS)
def test_a_new_topic_is_on_as_many_racks_as_there_are_and_even_within_them(
    count: int, factor: int, racks: dict[int, str]
) -> None:
    found = spread(count, factor, racks.keys(), racks=racks)
    assert not any(is_violated(replicas, racks) for replicas in found)
    assert all(len(set(replicas)) == factor for replicas in found)
    assert within_racks(found, racks) <= 1
    for replicas in found:
        of_racks = Counter(racks[broker] for broker in replicas)
        sizes = Counter(racks.values())
        room = [rack for rack in sizes if of_racks[rack] < sizes[rack]]
        assert all(max(of_racks.values()) - of_racks[rack] <= 1 for rack in room)


def test_racks_of_one_size_get_as_much() -> None:
    racks = {broker: "abc"[broker % 3] for broker in range(9)}
    found = spread(90, 3, racks.keys(), racks=racks)
    assert set(Counter(each for replicas in found for each in replicas).values()) == {30}
    leaders = Counter(replicas[0] for replicas in found)
    assert range_of(leaders, list(racks)) <= 2


@given(st.lists(SOME, min_size=1, max_size=12), RACKS)
def test_a_plan_repairs_every_violation_and_is_even_within_racks(
    replicas: list[tuple[int, ...]], racks: dict[int, str]
) -> None:
    before = topic(*replicas)
    after = replan(before, racks.keys(), racks)
    assert not any(is_violated(found, racks) for found in after.values())
    for partition, found in after.items():
        assert len(set(found)) == len(found) == len(before[partition])
        assert set(found) <= racks.keys()
    assert within_racks(list(after.values()), racks) <= 1


def test_a_plan_moves_only_what_shares_a_rack() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    before = topic((1, 2), (1, 3), (4, 2), (3, 4))
    after = replan(before, racks.keys(), racks)
    moved = {each.partition for each in before if set(after[each]) != set(before[each])}
    assert moved == {0, 3}
    assert all(len(set(after[each]) - set(before[each])) <= 1 for each in before)


def test_the_preferred_replica_stays_where_another_one_can_go() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    assert replan(topic((1, 2)), racks.keys(), racks) == topic((1, 3))
    assert replan(topic((2, 1)), racks.keys(), racks) == topic((2, 3))


@pytest.mark.parametrize("rack", ["", "a"])
def test_racks_count_once_every_broker_has_one(rack: str) -> None:
    assert racks_of(live({1: "a", 2: "b", 3: rack}).values()) == (
        {1: "a", 2: "b", 3: "a"} if rack else {}
    )


def test_a_broker_that_is_gone_is_not_taken_for_a_violation() -> None:
    assert not is_violated((1, 9), {1: "a", 2: "b"})
    assert is_violated((1, 3), {1: "a", 2: "b", 3: "a"})
    assert racks_used((1, 9, 8), {1: "a"}) == 3


def violated(context: Context) -> bool:
    return context.racks.violated == {TopicPartition("t", 0)}


def with_topic(racks: Mapping[int, str], assignment: Assignment) -> Context:
    context = Context(1)
    context.put_brokers(live(racks))
    context.put_topic("t", TopicAssignment("id", {0: assignment}, 0))
    return context


def test_a_partition_is_judged_by_the_replicas_that_stay() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    assert violated(with_topic(racks, Assignment((1, 2, 3), (), (3,))))
    assert not violated(with_topic(racks, Assignment((1, 2, 3), (), (2,))))


def test_a_rack_that_appears_judges_partitions_that_have_no_replica_there() -> None:
    context = with_topic({1: "a", 2: "a"}, Assignment((1, 2), (), ()))
    assert not violated(context)
    context.put_brokers(live({1: "a", 2: "a", 3: "b"}))
    assert violated(context)
    context.put_brokers(live({1: "a", 2: "a", 3: "a"}))
    assert not violated(context)


def test_a_broker_that_moves_to_another_rack_judges_its_partitions() -> None:
    apart, together = {1: "a", 2: "b", 3: "b"}, {1: "a", 2: "a", 3: "b"}
    context = with_topic(apart, Assignment((1, 2), (), ()))
    assert not violated(context)
    context.put_brokers(live(together))
    assert violated(context)
    context.put_brokers(live(apart))
    assert not violated(context)


@given(
    st.lists(
        st.one_of(
            st.dictionaries(st.integers(1, 5), st.sampled_from(("a", "b", "c", "")), max_size=5),
            st.tuples(st.integers(0, 4), SOME, SOME),
            st.integers(0, 4),
        ),
        max_size=15,
    )
)
def test_violations_are_counted_as_if_they_were_counted_from_the_start_each_time(
    changes: list[dict[int, str] | tuple[int, tuple[int, ...], tuple[int, ...]] | int],
) -> None:
    context = Context(1)
    for change in changes:
        if isinstance(change, dict):
            context.put_brokers(live(change))
        elif isinstance(change, int):
            context.forget_topic(f"t{change}")
        else:
            number, replicas, removing = change
            left = tuple(each for each in removing if each in replicas)
            assignment = Assignment(replicas, (), left)
            context.put_topic(f"t{number}", TopicAssignment("id", {0: assignment}, 0))
        racks = racks_of(context.brokers.values())
        assert context.racks.racks == racks
        assert context.racks.violated == {
            partition
            for partition, assignment in context.assignments.items()
            if is_violated(assignment.target, racks)
        }
