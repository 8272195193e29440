"""What a bundle demands: divided by what drives each resource, and averaged over time."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.surges import Surge
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleStats,
    ResourceUsage,
    SystemUsage,
    UsageWeights,
)
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import MIB, Smoothing
from broker_ctl.core.strategies.balance.demand_table import readings_of
from broker_ctl.core.strategies.balance.demands import Demands, Known, Resources
from tests.support.clusters.views import BUNDLES, NOW_S, broker, cluster, stats

A, B, C, D = BUNDLES[:4]
NETWORK = UsageWeights(cpu=0.0, bandwidth_out=0.0)
SMOOTHING = Smoothing(recent_s=60.0, steady_s=1200.0, change_ratio=0.5)


def used(seen: BrokerView, **usage: ResourceUsage) -> BrokerView:
    return replace(seen, load=replace(seen.load, usage=SystemUsage(**usage)))


# Which resources count.


def test_a_resource_counts_that_has_a_weight_and_a_limit_and_is_used() -> None:
    full = ResourceUsage(30, 100)
    brokers = [used(broker("b1", 0.3), cpu=full, memory=full), used(broker("b2", 0.3), cpu=full)]
    assert Resources.of(cluster(brokers), UsageWeights()).active == (0,)
    assert Resources.of(cluster(brokers), UsageWeights(memory=0.5)).active == (0, 1)
    unused = [used(broker("b1", 0.0), cpu=ResourceUsage(0, 100))]
    assert Resources.of(cluster(unused), UsageWeights()).is_bytes
    assert Resources.of(cluster([broker("b1", 0.5)]), UsageWeights()).is_bytes
    assert Resources.of(cluster([]), UsageWeights()).is_bytes


def test_a_weight_makes_a_broker_smaller_and_an_unknown_limit_makes_it_endless() -> None:
    view = cluster(
        [
            used(broker("b1", 0.3), cpu=ResourceUsage(30, 100)),
            used(broker("b2", 0.3), cpu=ResourceUsage(30, 0)),
        ]
    )
    assert Resources.of(view, UsageWeights(cpu=0.5)).capacities(view) == {
        "b1": (200.0,),
        "b2": (float("inf"),),
    }


def test_where_nobody_says_how_full_it_is_a_mean_broker_is_half_full() -> None:
    view = cluster([broker("b1", 0.0, {A: stats(30)}), broker("b2", 0.0, {B: stats(10)})])
    resources = Resources.of(view, UsageWeights())
    assert resources.capacities(view) == {"b1": (40.0 * MIB,), "b2": (40.0 * MIB,)}


# A reading.


def read(view: ClusterView, resources: Resources) -> dict[Bundle, tuple[float, ...]]:
    """Of the bundles that their owners report."""
    readings = readings_of(view, resources, view.bundles.values())
    rows = zip(view.bundles, readings.demand.tolist(), readings.is_read, strict=True)
    return {bundle: tuple(demand) for bundle, demand, is_read in rows if is_read}


def test_each_resource_is_divided_by_what_drives_it() -> None:
    """A sends in, B is read; B has a fifth of the messages."""
    lines = {
        A: BundleStats(80, 0, 30.0, 0.0),
        B: BundleStats(0, 20, 0.0, 90.0),
    }
    seen = used(
        broker("b1", 0.5, lines),
        cpu=ResourceUsage(400, 800),
        memory=ResourceUsage(100, 200),
        bandwidth_in=ResourceUsage(60, 100),
        bandwidth_out=ResourceUsage(50, 100),
    )
    view = cluster([seen])
    resources = Resources.of(view, UsageWeights(memory=1.0))
    readings = read(view, resources)
    # cpu: the mean of a quarter and four fifths.
    assert readings[A] == pytest.approx((400 * 0.525, 25, 60, 0))
    assert readings[B] == pytest.approx((400 * 0.475, 75, 0, 50))


def test_unlisted_bundles_of_a_report_take_their_part_of_the_broker() -> None:
    lines = {str(A): stats(30), str(B): stats(30)}
    load = BrokerLoad("b1", bundles=lines, unlisted=stats(40), unlisted_bundles=9)
    view = cluster([used(BrokerView("b1", load, 0.5), bandwidth_in=ResourceUsage(50, 100))])
    resources = Resources.of(view, NETWORK)
    readings = read(view, resources)
    assert readings[A] == pytest.approx((15.0,))
    assert resources.unlisted(view.brokers["b1"].load) == pytest.approx((20.0,))


def test_a_demand_is_the_same_on_a_broker_of_any_size() -> None:
    view = cluster(
        [
            used(broker("b1", 0.5, {A: stats(50)}), bandwidth_in=ResourceUsage(25, 50)),
            used(broker("b2", 0.05, {B: stats(50)}), bandwidth_in=ResourceUsage(25, 500)),
        ]
    )
    readings = read(view, Resources.of(view, NETWORK))
    assert readings[A] == pytest.approx(readings[B]) == (25.0,)


# Over time.


def followed(values: Iterable[float], smoothing: Smoothing = SMOOTHING) -> list[Known]:
    """What is known of a bundle, minute by minute."""
    demands, seen = Demands(), []
    for minute, mib in enumerate(values):
        demands = next_minute(demands, minute, mib, smoothing)
        seen.append(demands.known[A])
    return seen


def view_at(minute: float, mib: float) -> ClusterView:
    view = cluster([broker("b1", 0.0, {A: stats(mib / MIB)})])
    return replace(view, taken_at_s=NOW_S + 60 * minute)


def next_minute(
    demands: Demands, minute: float, mib: float, smoothing: Smoothing = SMOOTHING
) -> Demands:
    view = view_at(minute, mib)
    return demands.after(view, Resources.of(view, UsageWeights()), smoothing)


def recents(known: Sequence[Known]) -> list[float]:
    return [each.recent[0] for each in known]


def steadies(known: Sequence[Known]) -> list[float]:
    return [each.steady[0] for each in known]


def test_while_there_are_few_readings_all_count_alike() -> None:
    known = followed([100, 110, 120, 90])
    assert steadies(known) == pytest.approx([100, 105, 110, 105])
    assert [each.seen_s for each in known] == [0, 60, 120, 180]


def test_a_half_life_later_a_reading_counts_half() -> None:
    known = followed([100.0] * 60 + [140.0] * 22)
    assert recents(known)[60:63] == pytest.approx([120, 130, 135])
    # 20 minutes of something new are half of the steady demand.
    assert steadies(known)[79] == pytest.approx(120)


def test_a_swing_within_the_ratio_leaves_the_steady_demand_where_it_is() -> None:
    known = followed([100.0] * 60 + [160.0, 160.0] + [100.0] * 20)
    assert max(steadies(known)) < 105
    assert max(recents(known)) == pytest.approx(145)
    assert recents(known)[-1] == pytest.approx(100, rel=1e-4)


def test_a_lasting_change_is_believed_once_it_is_half_above_the_steady_demand() -> None:
    """Half of a rise from 100 to 220 is more than half above the steady 104, of one to 200 not."""
    known = followed([100.0] * 60 + [220.0])
    assert steadies(known)[60] == recents(known)[60] == pytest.approx(160)
    assert known[60].seen_s == 0
    slower = followed([100.0] * 60 + [200.0] * 2)
    assert steadies(slower)[60] < 105
    assert steadies(slower)[61] == recents(slower)[61] == pytest.approx(175)


def test_a_fall_counts_as_much_as_a_rise() -> None:
    known = followed([100.0] * 60 + [20.0] * 2)
    assert steadies(known)[60] > 95
    assert steadies(known)[61] == recents(known)[61] == pytest.approx(40)


def test_what_keeps_changing_keeps_its_average_from_the_third_time_on() -> None:
    """Consumers that come and go: ten minutes 200, ten minutes 20."""
    flapping = ([200.0] * 10 + [20.0] * 10) * 6
    known = followed([100.0] * 60 + flapping)
    resets = [minute for minute, each in enumerate(known) if minute and not each.seen_s]
    assert 2 <= len(resets) <= 3
    later = steadies(known)[-60:]
    assert 70 < min(later) < max(later) < 160


def test_what_stays_changed_is_believed_and_an_old_swing_is_forgotten() -> None:
    known = followed([100.0] * 60 + [220.0] * 600 + [100.0] * 600 + [220.0] * 10)
    assert steadies(known)[-1] == pytest.approx(220, rel=0.05)
    assert known[-1].swings == pytest.approx(1, abs=0.1)


def after_surge(demands: Demands, minute: int, mib: float) -> Known:
    """Of a reading five seconds after the last one, which is a surge."""
    surge = Surge(100 * MIB, mib * MIB, 0.0)
    view = replace(view_at(minute, mib), surges={A: surge})
    view = replace(view, taken_at_s=view.taken_at_s - 55.0)
    return demands.after(view, Resources.of(view, UsageWeights()), SMOOTHING).known[A]


def test_a_surge_is_believed_at_once_and_counts_as_a_change() -> None:
    demands = Demands()
    for minute in range(30):
        demands = next_minute(demands, minute, 10)
    calm = next_minute(demands, 30, 100).known[A]
    assert calm.steady[0] < 60
    known = after_surge(demands, 30, 100)
    assert known.steady == known.recent == pytest.approx((100.0,))
    assert known.swings == pytest.approx(1)


def test_a_surge_of_what_comes_and_goes_is_not_believed() -> None:
    demands = Demands()
    for minute, mib in enumerate(([10.0] * 20 + [100.0] * 20) * 4):
        demands = next_minute(demands, minute, mib)
    known = after_surge(demands, 160, 1000)
    assert known.steady[0] < 100


def test_a_round_more_in_the_same_minute_weighs_nothing() -> None:
    demands = Demands()
    for minute in range(5):
        demands = next_minute(demands, minute, 100)
    assert next_minute(demands, 4, 130) == demands
    # Nor does a clock that goes back.
    assert next_minute(demands, 2, 130).known == demands.known


def test_a_clock_at_zero_is_not_taken_for_one_that_never_ran() -> None:
    demands = Demands()
    for taken_at_s, mib in ((0.0, 100.0), (60.0, 120.0)):
        view = replace(view_at(0, mib), taken_at_s=taken_at_s)
        demands = demands.after(view, Resources.of(view, UsageWeights()), SMOOTHING)
    assert demands.known[A].recent == pytest.approx((110.0,))


def test_an_unmeasured_bundle_is_estimated_by_its_bytes_until_it_is_measured() -> None:
    """On b1 100 MiB/s take 50; b2 has not reported B yet."""
    first = used(broker("b1", 0.5, {A: stats(100)}), bandwidth_in=ResourceUsage(50, 100))
    second = used(broker("b2", 0.0), bandwidth_in=ResourceUsage(0, 100))
    view = cluster([first, second], owners={B: "b2"})
    resources = Resources.of(view, NETWORK)
    demands = Demands().after(view, resources, SMOOTHING)
    default_bytes = 100_000
    assert demands.known[B].recent == pytest.approx((50 * default_bytes / (100 * MIB),))
    assert demands.known[B].seen_s < 0
    reported = used(broker("b2", 0.3, {B: stats(60)}), bandwidth_in=ResourceUsage(30, 100))
    later = replace(cluster([first, reported]), taken_at_s=NOW_S + 60)
    demands = demands.after(later, resources, SMOOTHING)
    assert demands.known[B] == Known((30.0,), (30.0,), 0.0)


def test_a_known_demand_outlives_a_move_and_not_the_bundle() -> None:
    view = cluster([broker("b1", 0.0, {A: stats(10), B: stats(20)}), broker("b2", 0.0)])
    resources = Resources.of(view, UsageWeights())
    demands = Demands().after(view, resources, SMOOTHING)
    moved = cluster([broker("b1", 0.0, {A: stats(10)}), broker("b2", 0.0)], owners={B: "b2"})
    assert demands.after(moved, resources, SMOOTHING).known[B] == demands.known[B]
    gone = cluster([broker("b1", 0.0, {A: stats(10)}), broker("b2", 0.0)])
    assert set(demands.after(gone, resources, SMOOTHING).known) == {A}


def test_where_other_resources_count_all_demands_are_learnt_again() -> None:
    demands = next_minute(Demands(), 0, 100)
    seen = used(broker("b1", 0.5, {A: stats(100)}), bandwidth_in=ResourceUsage(50, 100))
    view = replace(cluster([seen]), taken_at_s=NOW_S + 60)
    resources = Resources.of(view, NETWORK)
    assert demands.after(view, resources, SMOOTHING).known[A] == Known((50,), (50,), 0)


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=30), st.floats(0, 300), st.floats(0, 3000))
def test_a_demand_stays_between_its_readings_and_can_be_written(
    values: list[float], recent_s: float, steady_s: float
) -> None:
    smoothing = Smoothing(recent_s, steady_s, 0.5)
    demands = Demands()
    for minute, value in enumerate(values):
        demands = next_minute(demands, minute, value, smoothing)
        known = demands.known[A]
        read = values[: minute + 1]
        for number in (*known.steady, *known.recent):
            assert min(read) * (1 - 1e-9) <= number <= max(read) * (1 + 1e-9)
        assert Demands.of_row(demands.to_row()) == demands
    if recent_s == 0:
        assert demands.known[A].recent == pytest.approx((values[-1],))


@given(st.lists(st.lists(st.floats(1, 1e6), min_size=2, max_size=2), min_size=1, max_size=30))
def test_bundles_are_averaged_together_as_each_alone(minutes: list[list[float]]) -> None:
    """They come later, swing, and are not reported at times."""
    together, alone = Demands(), {A: Demands(), B: Demands()}
    for minute, values in enumerate(minutes):
        loads = {each: stats(mib / MIB) for each, mib in zip(alone, values, strict=True)}
        if values[0] > values[1]:
            del loads[B]
        together = observed(together, minute, loads)
        alone = {
            each: observed(demands, minute, {each: loads[each]} if each in loads else {})
            for each, demands in alone.items()
        }
        for bundle, demands in alone.items():
            assert together.known.get(bundle) == demands.known.get(bundle)


def observed(demands: Demands, minute: int, lines: dict[Bundle, BundleStats]) -> Demands:
    view = replace(cluster([broker("b1", 0.0, lines)]), taken_at_s=NOW_S + 60 * minute)
    return demands.after(view, Resources.of(view, UsageWeights()), SMOOTHING)


def test_rows_are_found_in_any_order_and_strangers_have_none() -> None:
    known = {A: Known((1.0,), (2.0,), 60.0), B: Known((3.0,), (4.0,), 60.0)}
    demands = Demands((3,), known)
    assert demands.table.places_of([A, B]).tolist() == [0, 1]
    assert demands.table.places_of([B, C, A]).tolist() == [1, -1, 0]
    steady = demands.steady_of([B, C]).tolist()
    assert steady[0] == [3.0]
    assert math.isnan(steady[1][0])
    assert demands.recent_of([B]).tolist() == [[4.0]]
