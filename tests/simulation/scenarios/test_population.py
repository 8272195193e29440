"""The tenants, namespaces, bundles and topics of a scenario."""

from itertools import groupby, pairwise

import numpy as np
import pytest

from broker_ctl.core.model.names import RING_HIGH, RING_LOW
from broker_ctl.simulation.scenarios import Population, generate_population

# A namespace may have 128; splits need room.
MOST_PER_NAMESPACE = 64


def population(bundles: int, seed: int = 1) -> Population:
    return generate_population(np.random.Generator(np.random.PCG64(seed)), bundles)


@pytest.mark.parametrize("bundles", [100, 101, 250, 500, 1237, 3000])
def test_bundles_cover_each_ring_once(bundles: int) -> None:
    people = population(bundles)
    assert len(people.bundles) == bundles
    assert list(people.bundles) == sorted(people.bundles)
    for _, ring in groupby(people.bundles, key=lambda bundle: bundle.namespace):
        ranges = [bundle.range for bundle in ring]
        assert len(ranges) <= MOST_PER_NAMESPACE
        assert (ranges[0].low, ranges[-1].high) == (RING_LOW, RING_HIGH)
        assert all(left.high == right.low for left, right in pairwise(ranges))


def test_tenants_have_several_namespaces_of_many_sizes() -> None:
    people = population(500)
    namespaces = {bundle.namespace for bundle in people.bundles}
    sizes = {sum(b.namespace == each for b in people.bundles) for each in namespaces}
    assert len(namespaces) == 20
    assert len(set(people.tenants)) == 10
    assert min(sizes) < 12
    assert max(sizes) > 48


def test_topics_lie_in_their_bundle_and_share_all_of_it_unevenly() -> None:
    people = population(500)
    for bundle, topics in zip(people.bundles, people.topics, strict=True):
        assert 3 <= len(topics.positions) == len(topics.shares) <= 40
        assert list(topics.positions) == sorted(topics.positions)
        assert all(position in bundle.range for position in topics.positions)
        assert sum(topics.shares) == pytest.approx(1)
        assert min(topics.shares) >= 0
    largest = [max(topics.shares) * len(topics.shares) for topics in people.topics]
    assert 2 < np.median(largest) < 5


def test_topics_are_anywhere_in_their_range() -> None:
    places = [
        (position - bundle.range.low) / (bundle.range.high - bundle.range.low)
        for people in [population(500)]
        for bundle, topics in zip(people.bundles, people.topics, strict=True)
        for position in topics.positions
    ]
    assert np.quantile(places, [0.1, 0.5, 0.9]).tolist() == pytest.approx([0.1, 0.5, 0.9], abs=0.03)


def test_bases_are_log_normal_with_sigma_1_2() -> None:
    logs = np.log(population(8_000).bases)
    assert logs.std() == pytest.approx(1.2, abs=0.03)
    # A normal variable is as often below its mean as above it, and seldom beyond three sigmas.
    assert (logs < logs.mean()).mean() == pytest.approx(0.5, abs=0.02)
    assert (abs(logs - logs.mean()) > 3 * 1.2).mean() == pytest.approx(0.0027, abs=0.002)


def test_amplitudes_are_0_35_with_a_spread_and_never_reverse_a_day() -> None:
    amplitudes = population(5_000).amplitudes
    assert amplitudes.mean() == pytest.approx(0.35, abs=0.01)
    assert amplitudes.std() == pytest.approx(0.12, abs=0.01)
    assert 0 <= amplitudes.min() <= amplitudes.max() <= 0.9


def test_tenants_live_in_three_regions() -> None:
    people = population(500)
    assert set(people.lags_min.tolist()) == {0.0, 480.0, 960.0}
    homes = set(zip(people.tenants, people.lags_min.tolist(), strict=True))
    assert len(homes) == len(set(people.tenants))


def test_sizes_of_messages_and_fan_out_vary() -> None:
    people = population(5_000)
    for values, median in ((people.message_bytes, 1024), (people.fan_out, 1.5)):
        assert np.median(values) == pytest.approx(median, rel=0.03)
        assert np.log(values).std() == pytest.approx(0.5, abs=0.02)
