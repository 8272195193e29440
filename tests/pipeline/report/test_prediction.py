"""The usual day of bundles, and what is foretold of other clusters, on arrays made by hand."""

import numpy as np
import pytest

from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.strategies.balance.profile import NOBODY
from broker_ctl.pipeline.report.prediction import Circumstance, predict, usual_day
from broker_ctl.pipeline.report.sections.what_if import ClusterNow, cases, describe_cases

WHOLE, LEFT, RIGHT, OTHER = map(
    Bundle.parse,
    (
        *("t/n/0x00000000_0xffffffff", "t/n/0x00000000_0x80000000"),
        *("t/n/0x80000000_0xffffffff", "u/n/0x00000000_0xffffffff"),
    ),
)


def steady(loads: list[float], owners: list[int], sizes: list[float]) -> Circumstance:
    load = np.tile(np.array(loads)[:, None], (1, 24))
    return Circumstance(load, np.array(owners, np.int32), np.array(sizes))


def test_a_day_is_what_the_profile_says_of_those_that_are_there() -> None:
    hours = [(LEFT, hour, float(hour)) for hour in range(24)]
    load = usual_day([*hours, (OTHER, 3, 7.0)], [OTHER, LEFT, RIGHT])
    assert load[1].tolist() == [float(hour) for hour in range(24)]
    # An hour that the profile lacks has the mean of the others; a bundle that it lacks has none.
    assert load[0].tolist() == [7.0] * 24
    assert load[2].tolist() == [0.0] * 24


def test_of_hours_before_a_split_each_part_has_its_share() -> None:
    halves = [(LEFT, hour, 3.0) for hour in range(12, 24)]
    halves += [(RIGHT, hour, 1.0) for hour in range(12, 24)]
    before = [(WHOLE, hour, 8.0) for hour in range(13)]
    load = usual_day([*before, *halves], [LEFT, RIGHT])
    assert load[:, 0].tolist() == [6.0, 2.0]
    # What it was itself counts more than what was there before it.
    assert load[:, 12].tolist() == load[:, 23].tolist() == [3.0, 1.0]


def test_of_hours_before_a_merge_it_has_both() -> None:
    before = [(each, hour, load) for each, load in ((LEFT, 2.0), (RIGHT, 1.0)) for hour in (0, 1)]
    load = usual_day([*before, (WHOLE, 2, 5.0)], [WHOLE])
    assert load[0, :3].tolist() == [3.0, 3.0, 5.0]


def test_what_is_even_stays_even() -> None:
    found = predict(steady([0.25] * 4, [0, 0, 1, 1], [1.0, 1.0]))
    assert (found.p50, found.p99, found.moves) == (1.0, 1.0, 0)
    assert (found.mean_usage, found.most_usage) == (0.5, 0.5)


def test_what_is_uneven_is_mended_before_it_counts() -> None:
    found = predict(steady([0.1] * 10, [0] * 10, [1.0, 1.0]))
    assert (found.p99, found.moves) == (1.0, 0)


def test_without_a_planner_it_stays_as_it_is() -> None:
    found = predict(steady([0.1] * 10, [0] * 8 + [1] * 2, [1.0, 1.0]), Band(high=9.0, low=8.0))
    assert found.p99 == pytest.approx(1.6)


def test_a_smaller_broker_gets_less() -> None:
    found = predict(steady([0.1] * 9, [NOBODY] * 9, [2.0, 1.0]))
    assert found.p99 == pytest.approx(1.0)
    assert found.most_usage == pytest.approx(0.3)


def test_a_giant_weighs_more_the_more_brokers_there_are() -> None:
    loads, owners = [0.6, *[0.1] * 8], [0, *[1] * 8]
    cluster = steady(loads, owners, [1.0, 1.0])
    assert predict(cluster).p99 == pytest.approx(1.0)
    # A load of 1.4 on three brokers: the one with the giant cannot have less than 0.6.
    assert predict(cluster.with_more(1)).p99 == pytest.approx(0.6 / (1.4 / 3))
    alone = predict(cluster.without([0]))
    assert alone.p99 == 1.0
    assert alone.most_usage == pytest.approx(1.4)


def test_bundles_with_opposite_days_end_on_brokers_that_are_even_all_day() -> None:
    day = np.array([1.0 if hour < 12 else 0.2 for hour in range(24)])
    load = np.stack([day, day, day[::-1], day[::-1]]) / 4
    found = predict(Circumstance(load, np.array([0, 0, 1, 1], np.int32), np.ones(2)))
    # Once each broker has a bundle of either kind, the whole day is even.
    assert found.p99 == pytest.approx(1.0)
    assert found.moves == 0
    assert found.mean_usage == pytest.approx(0.3)


NOW = ClusterNow(("a", "b"), (1.0, 1.0), (LEFT, RIGHT, OTHER), ("a", "b", None), 1.3)


def test_the_cases_are_of_the_cluster_that_there_is() -> None:
    cluster = steady([0.2, 0.2, 0.1], [0, 1, NOBODY], [1.0, 1.0])
    found = dict(cases(cluster, NOW))
    assert list(found) == [
        *("as it is", "without a", "1 more broker", "2 more brokers"),
        *("tenant t doubles", "tenant u doubles"),
    ]
    assert found["without a"].owner.tolist() == [NOBODY, 0, NOBODY]
    assert found["2 more brokers"].sizes.tolist() == [1.0] * 4
    assert found["tenant t doubles"].load[:, 0].tolist() == [0.4, 0.4, 0.1]


def test_what_was_measured_is_what_is_foretold_of_the_cluster_as_it_is() -> None:
    hours = [(each, hour, 0.2) for each in (LEFT, RIGHT) for hour in range(24)]
    hours += [(OTHER, hour, 0.1) for hour in range(6)]
    section = describe_cases(NOW, hours)
    as_it_is, without, *_ = section.tables[0].rows
    assert as_it_is[:3] == ("as it is", 1.3, 0.0)
    # Alone, a broker is even: 0.2 less than two with an odd bundle.
    assert without[1] == pytest.approx(1.1)
    assert without[2] == pytest.approx(-20.0)
    assert section.rows == 54
    assert section.says[0] == "In no case a broker is above 85 % in an hour of the day."
    full = describe_cases(NOW, [(each, hour, load * 2) for each, hour, load in hours])
    assert full.says[0] == (
        "Too small by day, with a broker above 85 %: without a (100 %), tenant t doubles (100 %)."
    )


def test_hours_that_the_profile_does_not_know_are_counted_on_the_page() -> None:
    section = describe_cases(NOW, [(LEFT, 5, 0.2), (RIGHT, 6, 0.2)])
    assert any("2 of 24 hours" in each for each in section.says)
    assert describe_cases(None, []).charts == ()
