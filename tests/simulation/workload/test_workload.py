"""Named workloads."""

from pathlib import Path

import pytest

from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import (
    RING_HIGH,
    RING_LOW,
    Bundle,
    BundleRange,
    Namespace,
    Ring,
    ring_hash,
)
from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.curves import Steps, TopicRates, Wave
from broker_ctl.simulation.workload.workload import NAMES, TopicLoad, Workload, workload_of

NAMESPACE = Namespace("public", "default")
SPLIT_MSG_RATE = 30_000
SEEDS = range(20)


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_give_equal_workloads(name: str) -> None:
    assert Workload.named(name, 7) == Workload.named(name, 7)


def test_another_seed_gives_another_skew() -> None:
    assert Workload.named("skewed", 1) != Workload.named("skewed", 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_of_four_bundles_is_hot_at_any_time_and_its_halves_are_not(seed: int) -> None:
    workload = Workload.named("skewed", seed)
    quarters = Ring.even(NAMESPACE, 4).bundles
    for t_s in range(0, 600, 60):
        hot = [b for b in quarters if workload.stats(b, t_s).msg_rate > SPLIT_MSG_RATE]
        assert len(hot) == 1
        middle = (hot[0].range.low + hot[0].range.high) // 2
        for half in hot[0].cut((middle,)):
            assert workload.stats(half, t_s).msg_rate < SPLIT_MSG_RATE


def test_skewed_rates_are_heavy_tailed_beside_the_hot_topics() -> None:
    workload = Workload.named("skewed", 3)
    assert len(workload.topics) == 240
    rates = sorted(
        topic.curve.at(0).msg_rate_in for topic in workload.topics if "/hot-" not in topic.name
    )
    median = rates[len(rates) // 2]
    assert rates[-1] > 10 * median
    assert median > 5 * rates[0] > 0


def test_rates_swing_and_come_back() -> None:
    topic = Workload.named("skewed", 1).topics[0]
    rates = [topic.curve.at(t_s).msg_rate_in for t_s in range(0, 601, 60)]
    assert max(rates) > 1.1 * min(rates) > 0
    assert rates[0] == pytest.approx(rates[-1])


def test_steady_rates_are_equal_and_stay() -> None:
    workload = Workload.named("steady", 1)
    assert len({topic.curve.at(t_s) for topic in workload.topics for t_s in (0, 99)}) == 1
    assert workload.topics[0].curve.at(0).msg_rate_in > 0


def test_quiet_has_topics_and_no_traffic() -> None:
    workload = Workload.named("quiet", 1)
    assert workload.positions_with_traffic(0) == frozenset()
    stats = workload.stats(Ring.even(NAMESPACE, 1).bundles[0], 0)
    assert (stats.topics, stats.msg_rate) == (240, 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_bundles_of_a_ring_share_the_topics_out(name: str) -> None:
    workload = Workload.named(name, 5)
    bundles = Ring.even(NAMESPACE, 7).bundles
    shares = [topic.name for bundle in bundles for topic in workload.topics_in(bundle)]
    assert sorted(shares) == sorted(topic.name for topic in workload.topics)
    for bundle in bundles:
        for topic in workload.topics_in(bundle):
            assert ring_hash(topic.name) in bundle.range
    total = sum((workload.stats(bundle, 3) for bundle in bundles), BundleStats())
    whole = workload.stats(Ring.even(NAMESPACE, 1).bundles[0], 3)
    assert total.topics == whole.topics
    assert total.msg_rate == pytest.approx(whole.msg_rate)


def test_another_namespace_has_no_share() -> None:
    elsewhere = Ring.even(Namespace("public", "other"), 1).bundles[0]
    assert Workload.named("steady", 1).topics_in(elsewhere) == ()


@pytest.mark.parametrize("position", [RING_LOW, 0x7FFFFFFF, 0x80000000, RING_HIGH])
def test_the_ends_of_the_ring_lie_in_exactly_one_bundle(position: int) -> None:
    curve = Wave(TopicRates(1.0))
    workload = Workload("w", (TopicLoad("persistent://public/default/x", position, curve),))
    halves = (BundleRange(RING_LOW, 0x80000000), BundleRange(0x80000000, RING_HIGH))
    holders = [half for half in halves if workload.topics_in(Bundle(NAMESPACE, half))]
    assert holders == [half for half in halves if position in half]
    assert len(holders) == 1


def test_steps_hold_until_the_next_one() -> None:
    low, high = TopicRates(1.0), TopicRates(2.0)
    steps = Steps((60.0, 120.0), (low, high))
    assert [steps.at(t_s) for t_s in (0, 60, 119.9, 120, 1e9)] == [
        TopicRates(),
        low,
        low,
        high,
        high,
    ]


def test_a_workload_is_found_by_name_or_by_path(tmp_path: Path) -> None:
    assert workload_of("steady", 1) == Workload.named("steady", 1)
    trace = tmp_path / "trace.csv"
    trace.write_text("minute,topic,msg_rate_in,msg_rate_out,bytes_in,bytes_out\n1,x,1,2,3,4\n")
    workload = workload_of(str(trace), 1)
    assert isinstance(workload, Workload)
    assert [topic.name for topic in workload.topics] == ["persistent://public/default/x"]
    assert workload.topics[0].curve.at(60) == TopicRates(1, 2, 3, 4, 1, 1)


def test_neither_name_nor_file_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="skewed, steady, quiet"):
        Workload.named("skwed", 1)
    with pytest.raises(SettingsError, match=r"skewed, steady, quiet, steady-skew, .* or the path"):
        workload_of(str(tmp_path / "nothing.csv"), 1)
