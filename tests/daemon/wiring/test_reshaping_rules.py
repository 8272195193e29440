"""What splits and merges take from the settings."""

import pytest

from broker_ctl.core.rules.leader_rules import MIB, MergeRules, SplitRules
from broker_ctl.daemon.wiring.part_rules import (
    leader_rules,
    merge_rules,
    placement_rules,
    split_rules,
)
from broker_ctl.settings.root import Settings

_PULSARS: dict[str, object] = {"loadBalancerLoadSheddingStrategy": ("ThresholdShedder",)}


def test_with_a_strategy_of_pulsars_the_rules_are_those_that_are_documented() -> None:
    settings = Settings().with_values(_PULSARS, {})
    assert split_rules(settings) == SplitRules()
    assert merge_rules(settings) == MergeRules()
    rules = leader_rules(settings)
    assert (rules.splitting, rules.merging) == (SplitRules(), None)


def test_balance_has_a_limit_of_its_own_and_moves_new_parts_where_it_pays() -> None:
    split = SplitRules(max_share_ratio=0.1, is_unloading=False)
    assert split_rules(Settings()) == split
    assert merge_rules(Settings()) == MergeRules(limits=split)


def test_under_the_simple_manager_the_limits_of_balance_do_not_hold() -> None:
    values = {
        "loadManagerClassName": "SimpleLoadManagerImpl",
        "loadBalancerDistributeBundlesEvenlyEnabled": True,
    }
    settings = Settings().with_values(values, {})
    assert split_rules(settings) == SplitRules()
    assert placement_rules(settings).is_spread_evenly
    modular = Settings().with_values(
        values | {"loadManagerClassName": "ModularLoadManagerImpl"}, {}
    )
    assert not placement_rules(modular).is_spread_evenly, "balance has no use for it"


def test_settings_of_splits_and_merges_reach_the_rules() -> None:
    settings = Settings().with_values(
        _PULSARS
        | {
            "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": 3,
            "flowOrQpsDifferenceThresholdPercentage": 25,
            "loadBalancerAutoUnloadSplitBundlesEnabled": False,
            "loadBalancerNamespaceBundleMaxBandwidthMbytes": 7,
            "loadBalancerAutoBundleMergeEnabled": True,
            "loadBalancerBundleMergeLoadPercentage": 20,
            "loadBalancerBundleMergeConditionHitCountThreshold": 5,
            "loadBalancerBundleMergeCoolDownMinutes": 0.5,
            "loadBalancerNamespaceMinimumBundles": 8,
            "loadBalancerMaxNumberOfBundlesToMergePerCycle": 1,
        },
        {},
    )
    split = SplitRules(
        max_bandwidth_bytes=7.0 * MIB,
        hit_count=3,
        flow_difference_ratio=0.25,
        is_unloading=False,
    )
    assert split_rules(settings) == split
    assert leader_rules(settings).merging == MergeRules(
        limits=split,
        cold_ratio=0.2,
        hit_count=5,
        cool_down_s=30.0,
        min_bundles=8,
        max_per_cycle=1,
    )


@pytest.mark.parametrize(
    ("off", "splits", "merges"),
    [
        ("loadBalancerEnabled", False, False),
        ("loadBalancerAutoBundleSplitEnabled", False, True),
        ("loadBalancerAutoBundleMergeEnabled", True, False),
    ],
)
def test_each_can_be_switched_off(off: str, splits: bool, merges: bool) -> None:
    values = {"loadBalancerAutoBundleMergeEnabled": True, off: False}
    rules = leader_rules(Settings().with_values(values, {}))
    assert (rules.splitting is not None, rules.merging is not None) == (splits, merges)
    assert rules.is_reshaping == (splits or merges)
