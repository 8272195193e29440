"""A candidate is judged on days that it was not chosen on; days are counted, seeds are not."""

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest

from broker_ctl.pipeline.backtest.candidates import Named
from broker_ctl.pipeline.backtest.results import DayRow
from broker_ctl.pipeline.recommend.evidence import findings_of
from broker_ctl.pipeline.recommend.fragment import fragment_of
from broker_ctl.pipeline.recommend.held_out import HeldOut, judge_days, judge_differences
from broker_ctl.pipeline.recommend.recommendation import Recommendation
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


def test_only_days_after_a_good_past_are_judged() -> None:
    # Worse on the first day, and even after two: the third is the first that it is chosen for.
    found = judge_differences([1.0, -3.0, -1.0, -1.0], 0.025)
    assert found == HeldOut(2, 3, -1.0, -1.0, -1.0)
    assert judge_differences([1.0, -0.5, -0.4], 0.025) == HeldOut(0, 2, 0.0, -inf, inf)
    assert judge_differences([-1.0, -2.0], 0.025) == HeldOut(1, 1, -2.0, -inf, inf)
    assert judge_differences([-1.0], 0.025).of_days == 0


def test_days_in_a_row_that_are_alike_prove_less() -> None:
    draw = random.Random(5)
    alone = [draw.gauss(-0.1, 1.0) for _ in range(64)]
    # Four days in a row are the same: there are a quarter as many as it seems.
    alike = [alone[day // 4] for day in range(64)]
    wide, narrow = (judge_differences([-9.0, *each], 0.025) for each in (alike, alone))
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)


def test_seeds_of_a_day_are_one_value() -> None:
    rows = day_rows(USUAL, [1.3, 1.3, 1.3]) + day_rows(WIDE, [1.2, 1.1, 1.2])
    found = judge_days(rows, USUAL, 0.025)[TRACE, WIDE, "p99"]
    assert (found.days, found.of_days) == (2, 2)
    assert found.mean == pytest.approx(-0.15)
    assert {key[1] for key in judge_days(rows, USUAL, 0.025)} == {WIDE}


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
    assert "On other days of cluster:east: p99 -0.2 [-0.2, -0.2] on 6 of 6 days" in text
    assert found.to_row()["supported"][0]["other_days"][0]["days"] == 6


@pytest.mark.parametrize(
    ("usual", "wide", "why"),
    [
        ([], [], "seeds are not days: cluster:east is one day"),
        ([1.3] * 6, [1.1] * 6, "too few days of cluster:east, 7 are needed"),
        # It was chosen on the first day, and the others are worse.
        ([1.3] * 9, [0.1, *[1.35] * 8], "worse on other days of cluster:east: p99"),
        (
            [1.3] * 9,
            [1.1, 1.2, 1.45, 1.2, 1.4, 1.25, 1.35, 1.2, 1.4],
            "not shown on other days of cluster:east: p99",
        ),
    ],
)
def test_other_days_that_do_not_agree_refuse_it(
    usual: list[float], wide: list[float], why: str
) -> None:
    found = recommended(day_rows(USUAL, usual) + day_rows(WIDE, wide))
    assert found.supported == ()
    assert found.refused[0].refusal.startswith(why)
    assert "No line is recommended" in fragment_of(found)
