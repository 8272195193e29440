"""Moves, splits and merges keep rings, owners and traffic complete."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.core.model.names import RING_HIGH, RING_LOW
from broker_ctl.errors import InvalidName
from broker_ctl.simulation.model.scenario import ScenarioEvent, ScenarioEventKind, TopicShares
from broker_ctl.simulation.replay.cluster import NOBODY, ReplayCluster
from tests.support.pipeline.small_scenarios import MB, NAMESPACE, bundles_of, small

BROKERS = ("a", "b", "c")
Act = tuple[str, int, int]
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["give", "split", "merge", "down", "up", "minute"]),
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    max_size=25,
)


def eight() -> ReplayCluster:
    loads = [[float(minute + place) for place in range(8)] for minute in range(100)]
    owners = [BROKERS[place % 3] for place in range(8)]
    return ReplayCluster(small(loads, owners, brokers=BROKERS))


def carry_out(cluster: ReplayCluster, act: Act, minute: int) -> None:
    what, first, second = act
    place = first % len(cluster.subranges)
    broker_id = BROKERS[second % 3]
    match what:
        case "give" if cluster.brokers[broker_id].is_up:
            cluster.give(place, broker_id, 0.0, second % 60)
        case "split" if (span := cluster.subranges[place].bundle.range).can_split:
            cluster.split(place, (span.low + max(1, (span.high - span.low) * second // 100),))
        case "merge" if place + 1 < len(cluster.subranges):
            if cluster.owners[place] == cluster.owners[place + 1] != NOBODY:
                cluster.merge(place, 0.0)
        case "down":
            cluster.apply_event(ScenarioEvent(minute, broker_id, ScenarioEventKind.DOWN))
        case "up":
            cluster.apply_event(ScenarioEvent(minute, broker_id, ScenarioEventKind.UP))
        case "minute":
            cluster.begin(first)


@settings(max_examples=60, deadline=None)
@given(ACTS)
def test_no_sequence_of_changes_loses_or_doubles_a_bundle(acts: list[Act]) -> None:
    cluster = eight()
    for minute, act in enumerate(acts):
        carry_out(cluster, act, minute)
    bundles = tuple(parcel.bundle for parcel in cluster.subranges)
    # The ring is a partition, and each of its bundles has one owner at most.
    assert bundles == cluster.rings[NAMESPACE].bundles
    assert (bundles[0].range.low, bundles[-1].range.high) == (RING_LOW, RING_HIGH)
    assert all(left.range.high == right.range.low for left, right in pairwise(bundles))
    assert len(cluster.owners) == len(bundles) == cluster.rates.shape[1]
    for bundle, owner in zip(bundles, cluster.owner_ids, strict=True):
        assert owner is None or cluster.brokers[owner].is_up
        assert cluster.place_of(bundle) is not None
    # Brokers carry what they own, and all traffic is on a broker or waits for an owner.
    owned = cluster.owners != NOBODY
    carried = cluster.totals(cluster.rates).sum(axis=1)
    assert carried == pytest.approx(cluster.rates[:, owned].sum(axis=1))
    assert cluster.rates.sum() == pytest.approx(whole_rates(cluster).sum())
    topics = sum(parcel.topics for parcel in cluster.subranges)
    assert topics == 8 * 4


def whole_rates(cluster: ReplayCluster) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    fresh = eight()
    fresh.begin(cluster.minute)
    return fresh.rates


def test_each_topic_goes_with_its_own_traffic() -> None:
    (whole,) = bundles_of(1)
    topics = TopicShares((10, 20, 0x90000000), (0.5, 0.125, 0.375))
    cluster = ReplayCluster(small((80.0,), ("a",), topics=[topics]))
    cluster.split(0, (15, 0x80000000))
    carried = (cluster.rates[2] + cluster.rates[3]).tolist()
    assert carried == pytest.approx([40 * MB, 10 * MB, 30 * MB])
    ((position, messages, octets),) = cluster.topics_of(1)
    assert position == 20
    assert [messages, octets] == pytest.approx([1000.0, 10 * MB])
    cluster.merge(0, 0.0)
    cluster.merge(0, 0.0)
    assert [parcel.bundle for parcel in cluster.subranges] == [whole]
    assert cluster.bytes_of(0) == pytest.approx(80 * MB)


def test_traffic_without_topics_stays_with_the_first_part_of_a_split() -> None:
    cluster = ReplayCluster(small((80.0,), ("a",), topics=[TopicShares((), ())]))
    cluster.split(0, (15, 20))
    assert cluster.rates[2].tolist() == [40 * MB, 0.0, 0.0]


def test_a_boundary_outside_is_refused() -> None:
    with pytest.raises(InvalidName):
        eight().split(0, (0xFFFFFFF0,))


def test_a_bundle_that_moves_twice_in_a_minute_is_charged_to_all_three() -> None:
    cluster = ReplayCluster(small((60.0,), ("a",), brokers=BROKERS))
    cluster.give(0, "b", at_s=10.0, served_s=15.0)
    cluster.give(0, "c", at_s=45.0, served_s=50.0)
    assert cluster.usage(cluster.served()).tolist() == pytest.approx([0.1, 0.3, 0.1])


def test_a_bundle_merged_while_half_of_it_moves_is_served_when_that_half_arrives() -> None:
    cluster = ReplayCluster(small((30.0, 30.0), ("a", "b"), brokers=BROKERS))
    cluster.give(1, "a", at_s=0.0, served_s=6.0)
    cluster.merge(0, at_s=0.0)
    assert cluster.usage(cluster.served()).tolist() == pytest.approx([0.54, 0.0, 0.0])


def test_a_cluster_may_begin_with_even_bundles_in_place_of_those_of_the_scenario() -> None:
    """Eight bundles as five: the traffic is the same, and each is where its range began."""
    loads = [[float(minute + place) for place in range(8)] for minute in range(3)]
    scenario = small(loads, [BROKERS[place % 3] for place in range(8)], brokers=BROKERS)
    given_ones, even = ReplayCluster(scenario), ReplayCluster(scenario, bundles_per_namespace=5)
    bundles = [parcel.bundle for parcel in even.subranges]
    assert [each.range.low for each in bundles] == [RING_HIGH // 5 * n for n in range(5)]
    assert even.rates.sum(axis=1) == pytest.approx(given_ones.rates.sum(axis=1))
    assert sum(each.topics for each in even.subranges) == sum(
        each.topics for each in given_ones.subranges
    )
    for bundle, owner in zip(bundles, even.owner_ids, strict=True):
        began = next(
            place
            for place, parcel in enumerate(given_ones.subranges)
            if bundle.range.low in parcel.bundle.range
        )
        assert owner == given_ones.owner_ids[began]
