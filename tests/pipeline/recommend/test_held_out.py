"""One candidate is chosen on the first days and judged on those after; seeds are not days."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest

from broker_ctl.pipeline.backtest.judging import MEASURES
from broker_ctl.pipeline.backtest.results import DayRow, Named
from broker_ctl.pipeline.recommend.evidence import findings_of
from broker_ctl.pipeline.recommend.held_out import NO_DAYS, HeldOut, judge_days, judge_differences
from broker_ctl.pipeline.recommend.recommendation import Recommendation, fragment_of
from tests.support.pipeline.backtest_rows import USUAL, comparisons, replays

TRACE = "cluster:east"
WIDE = Named("settings", "loadBalancerPlannerHighPercentage=120")
SEEDS = 8


def day_rows(named: Named, p99s: Sequence[float], moved: float = 1.0) -> list[DayRow]:
    return [
        DayRow(TRACE, *named, seed, day, p99 + seed / 1000, moved, 0)
        for seed in range(SEEDS)
        for day, p99 in enumerate(p99s, start=1)
    ]


def test_the_first_quarter_of_the_days_is_not_judged() -> None:
    assert judge_differences([9.0, *[-1.0] * 6]) == HeldOut(6, 7, -1.0, -1.0, -1.0)
    assert judge_differences([9.0, 9.0, 9.0, *[-1.0] * 11]) == HeldOut(11, 14, -1.0, -1.0, -1.0)
    assert judge_differences([-1.0] * 6) == HeldOut(5, 6, -1.0, -inf, inf)
    assert judge_differences([-1.0]) == HeldOut(0, 1, 0.0, -inf, inf)


def test_means_of_blocks_make_the_interval() -> None:
    # Blocks of two days: -2, -3 and -4, with a standard deviation of 1.
    found = judge_differences([0.0, -1.0, -3.0, -2.0, -4.0, -5.0, -3.0])
    assert found.mean == -3.0
    assert found.high - found.mean == found.mean - found.low == pytest.approx(8.8602 / 3**0.5)
    # Which days of a block are good does not matter; whether it is a few days in a row does.
    mixed = judge_differences([0.0, -3.0, -1.0, -4.0, -2.0, -3.0, -5.0])
    assert mixed == found
    steady = judge_differences([0.0, -1.0, -5.0, -2.0, -4.0, -3.0, -3.0])
    assert steady.low == steady.high == -3.0


def test_seeds_of_a_day_are_one_value() -> None:
    rows = day_rows(USUAL, [1.3] * 7) + day_rows(WIDE, [1.2, *[1.1, 1.2] * 3])
    found = judge_days(rows, USUAL)
    assert found.chosen == WIDE
    assert set(found.held_out) == {(TRACE, WIDE, measure) for measure in MEASURES}
    assert found.held_out[TRACE, WIDE, "p99"].mean == pytest.approx(-0.15)


def test_the_best_on_the_first_days_is_judged_and_no_other() -> None:
    usual, good = day_rows(USUAL, [1.3] * 7), day_rows(WIDE, [1.1] * 7)
    # On the first day one looks better than it is, one moves more, and one is not on all traces.
    lucky, harmful = Named("settings", "a=1"), Named("settings", "a=2")
    rows = usual + good + day_rows(lucky, [1.0, *[1.3] * 6])
    assert judge_days(rows, USUAL).chosen == lucky
    assert judge_days(usual + good + day_rows(harmful, [0.5] * 7, 1.1), USUAL).chosen == WIDE
    elsewhere = [row._replace(trace="cluster:west") for row in usual + good]
    assert judge_days(rows + elsewhere, USUAL).chosen == WIDE
    assert judge_days(usual, USUAL) == NO_DAYS


def recommended(days: Sequence[DayRow]) -> Recommendation:
    """With seeds that leave no doubt."""
    rows = replays(TRACE, {USUAL: [(1.3, 1.0, 0)] * SEEDS, WIDE: [(1.1, 1.0, 0)] * SEEDS})
    found = findings_of(rows, comparisons(rows))
    return Recommendation.of(replace(found, days=days))


def test_a_week_of_better_days_supports_a_candidate() -> None:
    found = recommended(day_rows(USUAL, [1.3] * 7) + day_rows(WIDE, [1.1] * 7))
    (verdict,) = found.supported
    assert verdict.held_out[TRACE, WIDE, "p99"].days == 6
    text = fragment_of(found)
    assert "loadBalancerPlannerHighPercentage=120" in text.splitlines()
    assert "seeds are not days" in text
    assert "On later days of cluster:east: p99 -0.2 [-0.2, -0.2] on the last 6 of 7 days" in text
    assert found.to_row()["supported"][0]["other_days"][0]["days"] == 6


@pytest.mark.parametrize(
    ("usual", "wide", "why"),
    [
        ([], [], "seeds are not days: cluster:east is one day"),
        ([1.3] * 6, [1.1] * 6, "too few days of cluster:east, 7 are needed"),
        # It was chosen on the first day, and the others are worse.
        ([1.3] * 9, [0.1, *[1.35] * 8], "worse on later days of cluster:east: p99"),
        (
            [1.3] * 9,
            [1.1, 1.2, 1.45, 1.2, 1.4, 1.25, 1.35, 1.2, 1.4],
            "not shown on later days of cluster:east, it may be luck: p99",
        ),
    ],
)
def test_later_days_that_do_not_agree_refuse_it(
    usual: list[float], wide: list[float], why: str
) -> None:
    found = recommended(day_rows(USUAL, usual) + day_rows(WIDE, wide))
    assert found.supported == ()
    assert found.refused[0].refusal.startswith(why)
    assert "No line is recommended" in fragment_of(found)
