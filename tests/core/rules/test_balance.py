"""Thresholds of the planner, and what a plan by the daily profile makes of them."""

from broker_ctl.core.rules.leader_rules import BalanceRules, Band


def test_under_a_plan_the_band_is_wider_and_all_else_as_it_was() -> None:
    rules = BalanceRules(band=Band(1.08, 1.04, least=0.05), severe_ratio=1.3)
    assert rules.under_plan == BalanceRules(band=Band(1.12, 1.06, least=0.05), severe_ratio=1.3)


def test_a_plan_narrows_no_band_that_is_wider_already() -> None:
    band = Band(1.3, 1.2)
    assert BalanceRules(band=band).under_plan.band == band
