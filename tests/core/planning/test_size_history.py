"""Size advice by history, judged by the day after."""

from dataclasses import replace
from typing import Any

import pytest

from broker_ctl.core.planning.size import (
    DayLoad,
    SizeRules,
    advise_for_peak,
    backtest_size,
    weekly_peak,
)

# 80 % of a broker carry the mean load of 0.8 / 1.25 brokers.
RULES = SizeRules(limit_ratio=0.8, imbalance=1.25)


def days(*mean_brokers: float) -> list[DayLoad]:
    return [DayLoad(f"day {number}", load) for number, load in enumerate(mean_brokers, 1)]


def test_the_advice_is_for_the_highest_of_the_last_seven_days() -> None:
    history = days(9.0, 3.2, 3.2, 3.8, 3.2, 3.2, 3.2, 3.2)
    assert weekly_peak(history) == ("day 4", 3.8)
    advice = advise_for_peak(history, RULES)
    assert advice is not None
    # 3.8 brokers of which 0.64 may be used: 6, and one may be lost.
    assert (advice.needed, advice.recommended) == (6, 7)
    assert advise_for_peak([], RULES) is None


@pytest.mark.parametrize(
    ("changes", "recommended"),
    [({"growth_ratio": 0.5}, 10), ({"domains": 3}, 9), ({"largest": 2.0}, 8)],
)
def test_growth_domains_and_a_large_broker_need_more(
    changes: dict[str, Any], recommended: int
) -> None:
    advice = advise_for_peak(days(3.8), replace(RULES, **changes))
    assert advice is not None
    assert advice.recommended == recommended


def test_each_day_judges_the_advice_of_the_days_before() -> None:
    found = backtest_size(days(3.2, 3.2, 1.6, 6.4, 3.2), RULES)
    assert [(v.advised, v.needed, v.spare) for v in found.verdicts] == [
        (6, 6, 0),
        (6, 4, 2),
        (6, 11, -5),
        (11, 6, 5),
    ]
    assert [each.is_enough for each in found.verdicts] == [True, True, False, True]
    # Five brokers are left of six, the fullest a quarter above the mean.
    assert [each.usage_ratio for each in found.verdicts] == pytest.approx([0.8, 0.4, 1.6, 0.4])
    assert (found.days_enough, found.spare_brokers, found.most_missing) == (3, 7 / 4, 5)
    assert found.sentence == (
        "by the peak of the last 7 days: enough on 3 of 4 days, 1.8 brokers spare on the mean, "
        "5 missing at worst"
    )


def test_the_day_alone_is_worth_less_after_a_quiet_day() -> None:
    history = days(6.4, 1.6, 6.4, 1.6, 6.4)
    assert backtest_size(history, RULES, 1).days_enough == 2
    assert backtest_size(history, RULES, 7).days_enough == 4


def test_the_growth_is_part_of_the_advice_and_not_of_the_day_that_judges_it() -> None:
    (verdict,) = backtest_size(days(3.2, 3.8), replace(RULES, growth_ratio=0.2)).verdicts
    assert (verdict.advised, verdict.needed, verdict.is_enough) == (7, 7, True)
    (short,) = backtest_size(days(3.2, 3.8), RULES).verdicts
    assert not short.is_enough


def test_the_loss_of_a_domain_is_judged_as_it_was_advised() -> None:
    rules = replace(RULES, domains=3)
    (verdict,) = backtest_size(days(3.2, 3.2), rules).verdicts
    # Of eight brokers the largest of three domains has three.
    assert verdict.advised == 8
    assert verdict.usage_ratio == pytest.approx(0.8)


def test_one_day_judges_nothing() -> None:
    assert backtest_size(days(3.2), RULES).to_row()["sentence"] == (
        "by the peak of the last 7 days: enough on 0 of 0 days, 0.0 brokers spare on the mean, "
        "0 missing at worst"
    )
