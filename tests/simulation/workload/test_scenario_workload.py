"""A scenario as a workload: what a data plane serves is what the simulator replays."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Namespace, Ring, ring_hash
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import TopicShares
from broker_ctl.simulation.replay.cluster import ReplayCluster
from broker_ctl.simulation.scenarios import scenario
from broker_ctl.simulation.traces.trace_files import write_traffic
from broker_ctl.simulation.workload.scenario_workload import ScenarioWorkload
from broker_ctl.simulation.workload.workload import Workload, workload_of
from tests.support.pipeline.small_scenarios import STRONG, bundles_of, small

LEFT, RIGHT = bundles_of(2)
LOADS_MB = [[60, 20], [30, 40], [0, 10]]


def four(line: BundleStats) -> tuple[float, float, float, float]:
    return (
        line.msg_rate_in,
        line.msg_rate_out,
        line.msg_throughput_in,
        line.msg_throughput_out,
    )


@pytest.mark.parametrize("name", ["diurnal", "giant-topic", "giant-bundle"])
def test_every_bundle_carries_what_it_does_in_the_simulator_also_after_splits(name: str) -> None:
    played = scenario(name, brokers=2, hours=1)
    workload, cluster = ScenarioWorkload(played), ReplayCluster(played)
    largest = max(range(len(cluster.subranges)), key=cluster.bytes_of)
    bundle = cluster.subranges[largest].bundle
    cluster.split(largest, ((bundle.range.low + bundle.range.high) // 2,))
    for minute in (0, 7, 59):
        cluster.begin(minute)
        for place, parcel in enumerate(cluster.subranges):
            line = workload.stats(parcel.bundle, minute * 60 + 30)
            assert four(line) == pytest.approx(cluster.rates[:, place].tolist(), rel=1e-5, abs=1e-6)
            assert line.topics == line.producers == line.consumers == parcel.topics


def test_topics_lie_where_the_scenario_has_them_and_add_up_to_their_bundle() -> None:
    played = small(LOADS_MB, ["a", "b"], minutes=3, topics=_uneven())
    workload = ScenarioWorkload(played)
    for bundle, shares in zip(played.traffic.bundles, played.traffic.topics, strict=True):
        topics = workload.topic_stats(bundle, 0)
        assert Counter(map(ring_hash, topics)) == Counter(shares.positions)
        total = BundleStats.total_of(topics.values())
        assert four(total) == pytest.approx(four(workload.stats(bundle, 0)))
        assert total.topics == workload.stats(bundle, 0).topics
    of_left = workload.topic_stats(LEFT, 0).values()
    assert sorted(round(line.throughput) for line in of_left) == [0, 15_000_000, 45_000_000]


def test_topics_at_one_position_are_counted_as_several() -> None:
    place = LEFT.range.low + 5
    shares = (TopicShares((place, place), (0.5, 0.5)), TopicShares.even(RIGHT, 1))
    workload = ScenarioWorkload(small([60, 20], ["a", "b"], topics=shares))
    assert len(workload.topic_stats(LEFT, 0)) == workload.stats(LEFT, 0).topics == 2


def test_only_topics_with_a_share_are_busy_and_only_while_there_are_messages() -> None:
    workload = ScenarioWorkload(small(LOADS_MB, ["a", "b"], minutes=3, topics=_uneven()))
    busy = dict(workload.busy_topics(LEFT, 0))
    assert sorted(busy.values()) == [LEFT.range.low + 1, LEFT.range.low + 2]
    assert all(ring_hash(name) == position for name, position in busy.items())
    assert list(workload.busy_topics(LEFT, 120)) == []


@pytest.mark.parametrize(
    ("t_s", "expected_mb"), [(-400, 60), (0, 60), (59.9, 60), (60, 30), (179.9, 0), (180, 60)]
)
def test_the_first_minute_holds_before_the_start_and_comes_again_after_the_end(
    t_s: float, expected_mb: float
) -> None:
    workload = ScenarioWorkload(small(LOADS_MB, ["a", "b"], minutes=3))
    assert workload.stats(LEFT, t_s).throughput == pytest.approx(expected_mb * 1e6)


def test_another_namespace_has_no_share() -> None:
    workload = ScenarioWorkload(small([60, 20], ["a", "b"]))
    (elsewhere,) = Ring.even(Namespace("another", "one"), 1).bundles
    assert workload.stats(elsewhere, 0) == BundleStats()
    assert workload.topic_stats(elsewhere, 0) == {}
    assert workload.has_topics


def test_a_broker_is_as_strong_as_the_scenario_says_or_as_its_first_one() -> None:
    brokers = {"a": STRONG, "b": STRONG.times(2)}
    workload = ScenarioWorkload(small([60, 20], ["a", "b"], brokers=brokers))
    assert workload.capacity_of("b") == STRONG.times(2)
    assert workload.capacity_of("127.0.0.1:8080") == STRONG
    assert Workload.named("steady", 1).capacity_of("b") == Capacity()


def test_a_scenario_is_played_by_its_name_for_any_number_of_brokers() -> None:
    played = scenario("flash-crowd", brokers=3)
    bundle = played.traffic.bundles[4]
    own = workload_of("flash-crowd", 0, 3)
    assert own.stats(bundle, 6000) == ScenarioWorkload(played).stats(bundle, 6000)
    assert own.capacity_of("b") == played.brokers["broker-1"]
    other = workload_of("flash-crowd", 77, 3)
    seeded = ScenarioWorkload(scenario("flash-crowd", brokers=3, seed=77))
    assert other.stats(bundle, 6000) == seeded.stats(bundle, 6000) != own.stats(bundle, 6000)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_trace_of_bundles_is_played_for_any_number_of_brokers(
    tmp_path: Path, suffix: str
) -> None:
    played = small([[60, 20], [30, 40]], ["a", "b"])
    path = tmp_path / f"trace{suffix}"
    write_traffic(played.traffic, path)
    workload = workload_of(str(path), 0, 2)
    expected = ScenarioWorkload(replace(played, brokers={"broker-1": Capacity()}))
    for bundle in (LEFT, RIGHT):
        for t_s in (0, 60):
            assert workload.stats(bundle, t_s) == expected.stats(bundle, t_s)
    # The usual mean usage: 75 MB/s on the mean, on two.
    assert workload.capacity_of("b").bytes_s == pytest.approx(75e6 / 2 / 0.55)


def _uneven() -> tuple[TopicShares, TopicShares]:
    low = LEFT.range.low
    return (
        TopicShares((low + 1, low + 2, low + 3), (0.25, 0.75, 0.0)),
        TopicShares.even(RIGHT, 4),
    )


def test_a_bundle_that_was_merged_carries_what_both_did() -> None:
    workload = ScenarioWorkload(small([60, 20], ["a", "b"]))
    whole = Bundle(LEFT.namespace, LEFT.joined(RIGHT).range)
    assert workload.stats(whole, 0).throughput == pytest.approx(80e6)
