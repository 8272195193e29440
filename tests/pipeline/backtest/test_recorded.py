"""From a history to a scenario, each rule by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.backtest.recorded import (
    BrokerSeries,
    BundleSeries,
    RecordedHistory,
    RecordedSize,
    build_scenario,
    cell_min_of,
)
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import ScenarioEvent, ScenarioEventKind, TopicShares
from broker_ctl.simulation.replay.scores import bounds_by_minute

NAMESPACE = Namespace("t", "n")
LOW, HIGH = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"
QUARTER, NEXT = "t/n/0x00000000_0x40000000", "t/n/0x40000000_0x80000000"
RING = (0, 0x80000000, 0xFFFFFFFF)
NAN = float("nan")


def bundle(
    key: str, by_minute: Mapping[int, float], owner: str | None = "a", topics: int = 1
) -> BundleSeries:
    """Of each minute messages in; twice as many out, and a hundred bytes in and out of each."""
    rates = np.array([[each, 2 * each, 100 * each, 200 * each] for each in by_minute.values()]).T
    minutes = np.array(list(by_minute), dtype=np.int64)
    return BundleSeries(Bundle.parse(key), minutes, rates.astype(np.float32), owner, topics)


def broker(
    name: str,
    minutes: Sequence[int],
    usage: float = 0.5,
    sizes: Sequence[tuple[int, float]] = (),
    draining: Sequence[int] = (),
) -> BrokerSeries:
    """It has 1,000 messages and 10,000 bytes a second."""
    there = np.array(minutes, dtype=np.int64)
    flat = np.ones(len(there))
    return BrokerSeries(
        *(name, there, np.isin(there, draining), usage * flat, 1e3 * flat, 1e4 * flat),
        [RecordedSize(*each) for each in sizes],
    )


def history(
    bundles: Sequence[BundleSeries],
    brokers: Sequence[BrokerSeries] = (),
    seen: Sequence[int] = range(6),
    rings: Mapping[Namespace, Sequence[int]] | None = None,
) -> RecordedHistory:
    there = brokers or [broker("a", list(seen)), broker("b", list(seen))]
    known = {NAMESPACE: RING} if rings is None else rings
    return RecordedHistory("east", np.array(seen, dtype=np.int64), known, bundles, there)


def steady(rate: float, minutes: Sequence[int] = range(6)) -> dict[int, float]:
    return dict.fromkeys(minutes, rate)


def test_a_scenario_has_the_reported_traffic_and_the_reported_owners() -> None:
    low, high = bundle(LOW, {0: 1, 1: 2, 2: 3}, "b", topics=2), bundle(HIGH, steady(7, range(3)))
    found = build_scenario(history([high, low], seen=range(3)))
    assert found.name == "cluster:east"
    assert list(map(str, found.traffic.bundles)) == [LOW, HIGH]
    assert found.traffic.msg_rate_in.tolist() == [[1, 7], [2, 7], [3, 7]]
    assert found.traffic.msg_rate_out.tolist() == [[2, 14], [4, 14], [6, 14]]
    assert found.traffic.bytes_in.tolist() == [[100, 700], [200, 700], [300, 700]]
    assert found.traffic.bytes_out.tolist() == [[200, 1400], [400, 1400], [600, 1400]]
    assert found.owners == ("b", "a")
    assert found.traffic.topics == (
        TopicShares((0x20000000, 0x60000000), (0.5, 0.5)),
        TopicShares.even(Bundle.parse(HIGH), 1),
    )
    assert (found.absent, found.events) == (frozenset(), ())


def test_minutes_without_a_leader_are_like_the_one_before() -> None:
    by_minute = {0: 1.0, 1: 2.0, 4: 5.0}
    found = build_scenario(history([bundle(LOW, by_minute)], seen=[0, 1, 4]))
    assert found.traffic.msg_rate_in[:, 0].tolist() == [1, 2, 2, 2, 5]


def test_what_is_not_reported_yet_carries_what_it_did_last_or_will_first() -> None:
    low = bundle(LOW, {0: NAN, 1: 3, 2: NAN, 3: NAN, 4: 5, 5: 6})
    high = bundle(HIGH, {3: 8, 4: NAN})
    found = build_scenario(history([low, high]))
    assert found.traffic.msg_rate_in[:, 0].tolist() == [3, 3, 3, 3, 5, 6]
    # The leader knew nothing of it before and after.
    assert found.traffic.msg_rate_in[:, 1].tolist() == [0, 0, 0, 8, 8, 0]


def test_a_row_that_was_lost_is_like_the_one_before() -> None:
    found = build_scenario(history([bundle(LOW, {0: 1, 2: 3, 5: 6}), bundle(HIGH, steady(1))]))
    # A bundle that is missing for two minutes carried nothing.
    assert found.traffic.msg_rate_in[:, 0].tolist() == [1, 1, 3, 0, 0, 6]


def test_children_count_for_their_parent_which_can_be_cut_where_it_was() -> None:
    parent = bundle(LOW, {0: 4, 1: 4}, topics=6)
    left, right = bundle(QUARTER, steady(3, [2, 3, 4, 5])), bundle(NEXT, steady(1, [2, 3, 4, 5]))
    found = build_scenario(history([parent, left, right, bundle(HIGH, steady(1))]))
    assert list(map(str, found.traffic.bundles)) == [LOW, HIGH]
    assert found.traffic.msg_rate_in[:, 0].tolist() == [4] * 6
    assert found.traffic.topics[0] == TopicShares((0x20000000, 0x60000000), (0.75, 0.25))


def test_what_was_merged_counts_for_both_by_width() -> None:
    whole = bundle("t/n/0x00000000_0xffffffff", {3: 6, 4: 6, 5: 6})
    parts = [bundle(LOW, steady(5, range(3))), bundle(HIGH, steady(1, range(3)))]
    found = build_scenario(history([*parts, whole]))
    assert found.traffic.msg_rate_in[:, 0].tolist() == [5, 5, 5, 3, 3, 3]
    # The shares of the topics follow their own rates before their part of the whole.
    assert [topics.shares for topics in found.traffic.topics] == [(1.0,), (1.0,)]


def test_without_a_ring_the_bundles_that_were_seen_first_make_one() -> None:
    bundles = [bundle(NEXT, {0: 1, 1: 1}), bundle(LOW, {2: 2}), bundle(QUARTER, {1: 3})]
    found = build_scenario(history(bundles, seen=range(3), rings={}))
    assert list(map(str, found.traffic.bundles)) == [QUARTER, NEXT, HIGH]
    # The later whole is parted by width.
    assert found.traffic.msg_rate_in.tolist() == [[0, 1, 0], [3, 1, 0], [1, 1, 0]]


def test_bundles_without_a_known_owner_go_to_all_brokers_in_turn() -> None:
    bundles = [bundle(LOW, steady(1), None), bundle(HIGH, steady(1), "later")]
    brokers = [broker("a", range(6)), broker("b", range(6)), broker("later", [4, 5])]
    assert build_scenario(history(bundles, brokers)).owners == ("a", "b")


def test_brokers_come_and_go_and_are_drained() -> None:
    brokers = [
        broker("a", range(12)),
        broker("dies", [0, 1, 2, 6, 7, 8, 9, 10, 11]),
        broker("late", [3, 4, 5, 6, 7, 8, 9, 10, 11]),
        broker("drained", range(8), draining=[5, 6, 7]),
        # A broker that lacks one minute, or the first one, is not absent.
        broker("slow", [1, 2, 3, 5, 6, 7, 8, 9, 10, 11], draining=[3, 5]),
    ]
    found = build_scenario(history([bundle(LOW, steady(1, range(12)))], brokers, seen=range(12)))
    assert found.absent == {"late"}
    assert sorted(found.events, key=lambda event: (event.minute, event.broker_id)) == [
        ScenarioEvent(3, "dies", ScenarioEventKind.DOWN),
        ScenarioEvent(3, "late", ScenarioEventKind.UP),
        ScenarioEvent(3, "slow", ScenarioEventKind.DRAIN),
        ScenarioEvent(5, "drained", ScenarioEventKind.DRAIN),
        ScenarioEvent(6, "dies", ScenarioEventKind.UP),
        ScenarioEvent(6, "slow", ScenarioEventKind.UP),
        ScenarioEvent(8, "drained", ScenarioEventKind.DOWN),
    ]
    assert [event.minute for event in found.events] == [3, 3, 3, 5, 6, 6, 8]


def test_equal_brokers_are_filled_as_much_as_they_say() -> None:
    # 10,000 bytes fill them to a half and to a quarter: 20,000 over three quarters on the mean.
    brokers = [broker("a", range(6), 0.5), broker("b", range(6), 0.25)]
    found = build_scenario(history([bundle(LOW, steady(1))], brokers)).brokers
    assert found["a"] == found["b"]
    assert found["a"].bytes_s == pytest.approx(80_000 / 3)
    # Messages are not their bottleneck.
    assert found["a"].msg_rate == pytest.approx(2 * 8_000 / 3)


def test_stronger_brokers_are_so_by_their_processors_and_may_change() -> None:
    brokers = [
        broker("a", range(6), 0.5, sizes=[(-3, 200.0), (-1, 400.0), (2, 400.0)]),
        broker("b", range(6), 0.5, sizes=[(0, 400.0), (3, 200.0)]),
    ]
    found = build_scenario(history([bundle(LOW, steady(1))], brokers))
    # 400 % for six minutes, 400 and 200 for three each: 10,000 bytes fill a half of 350 %.
    each = pytest.approx(400 * 20_000 / 350)
    assert {name: capacity.bytes_s for name, capacity in found.brokers.items()} == {
        "a": each,
        "b": each,
    }
    assert found.events == (ScenarioEvent(3, "b", ScenarioEventKind.CAPACITY, 0.5),)


def test_one_that_does_not_say_how_strong_it_is_makes_all_equal() -> None:
    brokers = [broker("a", range(6), sizes=[(0, 800.0)]), broker("b", range(6), sizes=[(0, 0.0)])]
    found = build_scenario(history([bundle(LOW, steady(1))], brokers))
    assert found.brokers == dict.fromkeys("ab", Capacity(4_000.0, 20_000.0))


def test_a_history_too_large_to_replay_at_once_is_refused() -> None:
    # Two rows, but a ring of many bundles without owners, for two weeks.
    ring = {NAMESPACE: (*range(0, 1_000_000, 1_000), 0x80000000, 0xFFFFFFFF)}
    sparse = history([bundle(LOW, {0: 1, 20_159: 1})], seen=[0, 20_159], rings=ring)
    with pytest.raises(PipelineError, match="20160 minutes of 1001 bundles"):
        build_scenario(sparse)
    with pytest.raises(PipelineError, match="1000001 topics"):
        build_scenario(history([bundle(LOW, steady(1), topics=1_000_001)]))


def test_an_empty_history_is_refused() -> None:
    with pytest.raises(PipelineError, match="east: no bundle"):
        build_scenario(history([]))
    with pytest.raises(PipelineError, match="east: its bundles carried nothing"):
        build_scenario(history([bundle(LOW, steady(0))]))


def test_cells_of_several_minutes_carry_the_mean_of_them() -> None:
    halves = [bundle(LOW, {0: 4.0, 1: 6.0}), bundle(HIGH, {1: 5.0})]
    whole = history(halves, seen=range(7))
    found = build_scenario(replace(whole, cell_min=5, rings={NAMESPACE: RING}))
    assert (found.traffic.cell_min, found.traffic.minutes) == (5, 10)
    assert found.traffic.msg_rate_in.tolist() == [[4, 0], [6, 5]]
    # What reads minute by minute sees the same.
    assert bounds_by_minute(found).shape == (10,)


def test_a_large_cluster_has_larger_cells() -> None:
    week = 7 * 24 * 60
    assert [cell_min_of(week, n) for n in (100, 1_587, 1_588, 10_000, 95_000, 100_000)] == [
        *(1, 1, 5, 10, 60, 0),
    ]
