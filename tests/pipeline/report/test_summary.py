"""The first screen of a report: its sentences, its picture, and what imbalance costs."""

import pytest

from broker_ctl.pipeline.report.page import page
from broker_ctl.pipeline.report.sections.summary import (
    Alternative,
    Measured,
    brokers_spent,
    choose_settings,
    describe,
)
from broker_ctl.pipeline.report.values import ChartBars, ChartSpan, Missing, Report, Section
from tests.support.pipeline.segment_files import DAY_MS, DAY_ONE_MS

MEASURED = Measured(1.25, 1.1, 2.0, 20, 0.4, ChartSpan(DAY_ONE_MS, DAY_ONE_MS + DAY_MS), 1440)
EVEN = Alternative("balance", "", 1.0, 0.5, 0.0)
ROUGH = Alternative("threshold", "", 1.6, 4.0, 12.0)


@pytest.mark.parametrize(("p99", "spent"), [(1.0, 0.0), (1.25, 4.0), (2.0, 10.0), (0.9, 0.0)])
def test_imbalance_costs_what_an_even_cluster_would_not_need(p99: float, spent: float) -> None:
    assert brokers_spent(p99, 20) == pytest.approx(spent)


def test_policies_stand_beside_the_cluster_as_it_was() -> None:
    found = describe("east", MEASURED, [ROUGH, EVEN])
    first, best, cost = found.says
    assert "at most 1.25 times the load of the mean one" in first
    assert "beyond the target of 1.15, and costs 4 of its 20 brokers" in first
    assert best.startswith("Under balance it would have been 1 with the same traffic, and 0.5 %")
    assert "4 brokers fewer" in best
    assert "1 - 1/r" in cost
    (chart,) = found.charts
    assert isinstance(chart, ChartBars)
    assert [(bar.label, bar.value) for bar in chart.bars] == [
        *(("as it was", 1.25), ("balance", 1.0), ("threshold", 1.6)),
    ]
    (table,) = found.tables
    assert [row[:4] for row in table.rows] == [
        ("as it was", "", 1.25, 4.0),
        ("balance", "", 1.0, 0.0),
        ("threshold", "", 1.6, 7.5),
    ]


def test_a_cluster_that_is_better_than_all_policies_is_said_to_be() -> None:
    found = describe("east", MEASURED._replace(p99=1.05), [ROUGH])
    assert "within the target" in found.says[0]
    assert found.says[1].startswith("No policy that was replayed would have been more even")


def test_without_a_back_test_the_picture_is_of_what_was_measured() -> None:
    lacking = Missing("No back-test was given.", "broker-ctl pipeline report P --backtest DIR")
    found = describe("east", MEASURED, lacking)
    assert found.missing == (lacking,)
    assert found.tables == ()
    (chart,) = found.charts
    assert isinstance(chart, ChartBars)
    assert [bar.value for bar in chart.bars] == [1.1, 1.25, 2.0]


def test_of_a_policy_its_settings_as_they_come_are_shown() -> None:
    tuned = EVEN._replace(parameters="a=1", p99=0.9)
    other = ROUGH._replace(parameters="b=2", p99=1.7)
    worse = other._replace(parameters="b=3", p99=1.8)
    assert list(choose_settings([tuned, EVEN, worse, other])) == [EVEN, other]


def test_the_first_screen_stands_before_the_contents() -> None:
    report = Report("east", MEASURED.span, (describe("east", MEASURED, [EVEN]), Section("b", "B")))
    text = page(report)
    places = [text.index(each) for each in ('id="summary"', "<figure", "<nav", 'id="b"')]
    assert places == sorted(places)
    assert text.count('id="summary"') == 1
