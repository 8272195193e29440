"""The bound that no placement can beat, worked out by hand."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import (
    Scenario,
    ScenarioEvent,
    ScenarioEventKind,
    TopicShares,
)
from broker_ctl.simulation.replay.scores import bound_of, bounds_by_minute
from tests.support.pipeline.small_scenarios import STRONG, bundles_of, small

FOUR = ("a", "b", "c", "d")


def single_topics(
    loads_mb: Sequence[float],
    brokers: Mapping[str, Capacity] | Sequence[str] = FOUR,
    events: Sequence[ScenarioEvent] = (),
) -> Scenario:
    """Bundles of one topic each."""
    topics = [TopicShares.even(bundle, 1) for bundle in bundles_of(len(loads_mb))]
    owners = [next(iter(brokers))] * len(loads_mb)
    return small(loads_mb, owners, brokers=brokers, topics=topics, events=events)


def test_small_topics_can_be_spread_evenly() -> None:
    assert bound_of(single_topics((10.0,) * 40)) == pytest.approx(1.0)


def test_one_topic_that_is_twice_the_mean_broker_is_twice_the_mean() -> None:
    # 100 MB/s on four: 25 each, and one has 50.
    assert bound_of(single_topics((50.0, 20.0, 20.0, 10.0))) == pytest.approx(2.0)


def test_a_bundle_of_many_topics_can_be_parted() -> None:
    scenario = small((50.0, 20.0, 20.0, 10.0), ("a",) * 4, brokers=FOUR)
    assert bound_of(scenario) == pytest.approx(1.0)


def test_the_largest_topic_lies_on_the_strongest_broker_and_fills_it_less() -> None:
    brokers = {"a": STRONG.times(2.0), "b": STRONG, "c": STRONG}
    # 60 of 100 MB/s fill a to 0.3. The other 40 fill b and c to 0.2 each: 0.7 in all three.
    assert bound_of(single_topics((60.0, 20.0, 20.0), brokers)) == pytest.approx(9 / 7)


def test_the_bound_changes_with_the_brokers_that_are_up() -> None:
    events = [
        ScenarioEvent(2, "d", ScenarioEventKind.DOWN),
        ScenarioEvent(4, "a", ScenarioEventKind.CAPACITY, 2.0),
    ]
    bounds = bounds_by_minute(single_topics((50.0, 20.0, 20.0, 10.0), FOUR, events))
    # Of three: 0.25 of 0.7 is what a strong one would have besides.
    assert bounds.tolist() == pytest.approx([2.0, 2.0, 1.5, 1.5, 1.0, 1.0])


def test_where_nothing_is_sent_everything_is_even() -> None:
    assert bounds_by_minute(single_topics((0.0, 0.0))).tolist() == [1.0] * 6


LOADS = st.lists(st.floats(0.1, 50.0), min_size=2, max_size=6)
SIZES = st.lists(st.sampled_from([0.5, 1.0, 1.5, 3.0]), min_size=2, max_size=4)


@settings(max_examples=60, deadline=None)
@given(LOADS, SIZES, st.integers(0, 2**32))
def test_no_placement_beats_it(loads: list[float], sizes: list[float], seed: int) -> None:
    draw = np.random.Generator(np.random.PCG64(seed))
    brokers = {f"b{number}": STRONG.times(size) for number, size in enumerate(sizes)}
    bound = bound_of(single_topics(loads, brokers))
    for _ in range(20):
        usage = np.zeros(len(sizes))
        for load in loads:
            number = draw.integers(len(sizes))
            usage[number] += load / (100 * sizes[number])
        assert usage.max() / usage.mean() >= bound - 1e-6
